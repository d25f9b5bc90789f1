//! Semantic versions, and the comparisons that they share with quantities. Build metadata has no part in them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use orch_schema::excerpt::quoted;
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

/// The version `text`, with `normalize` also without minor and patch number, with a leading `v` and leading zeros; or the reason why it
/// is none, in the reference's words.
fn parse(text: &str, normalize: bool) -> Result<Version, String> {
    if !normalize {
        return Version::parse(text).map_err(|_| refusal(text));
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<Cow<'_, str>> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['-', '+'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, Cow::Borrowed("0"));
    parse(&parts.join("."), false)
}

/// A part without the zeros before its number. The reference puts one before a longer part that has no number.
fn without_zeros(part: &str) -> Cow<'_, str> {
    if part.len() < 2 {
        return Cow::Borrowed(part);
    }
    let trimmed = part.trim_start_matches('0');
    let is_number = trimmed.starts_with(|c: char| c.is_ascii_digit());
    if is_number { Cow::Borrowed(trimmed) } else { Cow::Owned(format!("0{trimmed}")) }
}

/// Why `text`, which is no version, is none: the first of the reference's tests that it does not pass.
fn refusal(text: &str) -> String {
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        let reason =
            if text.is_empty() { "Version string empty" } else { "No Major.Minor.Patch elements found" };
        return reason.to_owned();
    };
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, before) = rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
    let numbers = [("Major", major), ("Minor", minor), ("Patch", patch)];
    let numbers = numbers.into_iter().find_map(|(name, number)| number_refusal(name, number));
    let before = || before?.split('.').find_map(prerelease_refusal);
    let build = || build?.split('.').find_map(build_refusal);
    // The reference holds each number in 64 bits; the library does not hold those of pre-releases.
    numbers.or_else(before).or_else(build).unwrap_or_else(|| "value out of range".to_owned())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn number_refusal(name: &str, number: &str) -> Option<String> {
    if !is_number(number) {
        let name = name.to_ascii_lowercase();
        return Some(format!("Invalid character(s) found in {name} number {}", quoted(number)));
    }
    if number.len() > 1 && number.starts_with('0') {
        return Some(format!("{name} number must not contain leading zeroes {}", quoted(number)));
    }
    let reason = if number.is_empty() { "invalid syntax" } else { "value out of range" };
    let is_refused = number.parse::<u64>().is_err();
    is_refused.then(|| format!("strconv.ParseUint: parsing {}: {reason}", quoted(number)))
}

fn prerelease_refusal(part: &str) -> Option<String> {
    if part.is_empty() {
        Some("Prerelease is empty".to_owned())
    } else if is_number(part) && part.len() > 1 && part.starts_with('0') {
        Some(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(part)))
    } else if !is_identifier(part) {
        Some(format!("Invalid character(s) found in prerelease {}", quoted(part)))
    } else {
        None
    }
}

fn build_refusal(part: &str) -> Option<String> {
    if part.is_empty() {
        Some("Build meta data is empty".to_owned())
    } else {
        let is_refused = !is_identifier(part);
        is_refused.then(|| format!("Invalid character(s) found in build meta data {}", quoted(part)))
    }
}

fn parsed(run: &mut Run<'_>, arguments: &[Val<'_>]) -> Result<Result<Version, String>, Failure> {
    let (text, normalize) = match arguments {
        [Val::Text(text)] => (text, false),
        [Val::Text(text), Val::Bool(normalize)] => (text, *normalize),
        _ => return Err(no_overload()),
    };
    // The text once more, and once in a fault.
    run.make_bytes(text.len().saturating_mul(2))?;
    Ok(parse(text, normalize))
}

pub(crate) fn semver<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let version = parsed(run, arguments)?.map_err(fault)?;
    Ok(Val::Version(Arc::new(version)))
}

pub(crate) fn is_semver<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(parsed(run, arguments)?.is_ok()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_version_is_refused_in_the_words_of_the_reference() {
        for (text, reason) in [
            ("", "Version string empty"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("v1.2.3", "Invalid character(s) found in major number \"v1\""),
            ("1.02.3", "Minor number must not contain leading zeroes \"02\""),
            ("1.2.3.4", "Invalid character(s) found in patch number \"3.4\""),
            ("1..2", "strconv.ParseUint: parsing \"\": invalid syntax"),
            (
                "99999999999999999999.0.0",
                "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
            ),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
            ("1.2.3+", "Build meta data is empty"),
            ("1.2.3+a_b", "Invalid character(s) found in build meta data \"a_b\""),
        ] {
            assert_eq!(parse(text, false), Err(reason.to_owned()), "{text}");
        }
        let short = "short version cannot contain PreRelease/Build meta data";
        assert_eq!(parse("v1-rc", true), Err(short.to_owned()));
        for (text, version) in [("v01.002", "1.2.0"), ("00.0.-rc", "0.0.0-rc")] {
            assert_eq!(parse(text, true), Ok(Version::parse(version).unwrap()), "{text}");
        }
    }
}
