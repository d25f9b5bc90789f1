//! Semantic versions, and the comparisons that they share with quantities. Build metadata has no part in them.

use std::cmp::Ordering;
use std::sync::Arc;

use semver::Version;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// A number that stands for an order.
pub(super) fn number_of<'v>(order: Ordering) -> Val<'v> {
    Val::Int(match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn order(arguments: &[Val<'_>]) -> Result<Ordering, Failure> {
    match arguments {
        [Val::Quantity(one), Val::Quantity(other)] => Ok(one.cmp(other)),
        [Val::Version(one), Val::Version(other)] => Ok(one.cmp_precedence(other)),
        _ => Err(no_overload()),
    }
}

pub(crate) fn compare_to<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    order(arguments).map(number_of)
}

pub(crate) fn is_greater<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(arguments)?.is_gt()))
}

pub(crate) fn is_less<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(arguments)?.is_lt()))
}

/// The version `text`, with `normalize` also without minor and patch number, with a leading `v` and leading zeros.
fn parse(text: &str, normalize: bool) -> Option<Version> {
    if !normalize {
        return Version::parse(text).ok();
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers.split('.').collect();
    // A short version has no more than its numbers.
    if numbers.len() < 3 && !rest.is_empty() {
        return None;
    }
    numbers.resize(numbers.len().max(3), "0");
    let trimmed = numbers.into_iter().map(|number| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        trimmed => trimmed,
    });
    Version::parse(&(trimmed.collect::<Vec<_>>().join(".") + rest)).ok()
}

fn parsed(run: &mut Run<'_>, arguments: &[Val<'_>]) -> Result<Option<Version>, Failure> {
    let (text, normalize) = match arguments {
        [Val::Text(text)] => (text, false),
        [Val::Text(text), Val::Bool(normalize)] => (text, *normalize),
        _ => return Err(no_overload()),
    };
    run.make_bytes(text.len())?;
    Ok(parse(text, normalize))
}

pub(crate) fn semver<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let version = parsed(run, arguments)?.ok_or_else(|| fault("no semantic version"))?;
    Ok(Val::Version(Arc::new(version)))
}

pub(crate) fn is_semver<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(parsed(run, arguments)?.is_some()))
}

fn part<'v>(arguments: &[Val<'v>], of: fn(&Version) -> u64) -> Outcome<'v> {
    let [Val::Version(version)] = arguments else { return Err(no_overload()) };
    Ok(Val::Int(i64::try_from(of(version)).unwrap_or(i64::MAX)))
}

pub(crate) fn major<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |version| version.major)
}

pub(crate) fn minor<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |version| version.minor)
}

pub(crate) fn patch<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |version| version.patch)
}
