//! Functions over lists of ordered values: `isSorted`, `sum`, `min`, `max`.

use std::cmp::Ordering;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::functions::Code;
use crate::library::numbers;
use crate::types::Type;
use crate::value::{List, Val, compare};

fn list<'a, 'v>(run: &mut Run<'v>, arguments: &'a [Val<'v>]) -> Result<&'a List<'v>, Failure> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    run.tick(crate::length(list.len()))?;
    Ok(list)
}

/// Whether no value comes before its predecessor. Values that have no order among each other are none that do.
pub(crate) fn is_sorted<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let list = list(run, arguments)?;
    let mut before: Option<Val<'v>> = None;
    for item in list.iter() {
        let item = ordered(item)?;
        if let Some(before) = before {
            if let (Val::Text(one), Val::Text(other)) = (&before, &item) {
                run.read_bytes(one.len().min(other.len()))?;
            }
            if compare(&before, &item) == Some(Some(Ordering::Greater)) {
                return Ok(Val::Bool(false));
            }
        }
        before = Some(item);
    }
    Ok(Val::Bool(true))
}

/// `item`, unless it has a type that has no order.
fn ordered(item: Val<'_>) -> Result<Val<'_>, Failure> {
    if compare(&item, &item).is_some() { Ok(item) } else { Err(no_overload()) }
}

/// The sum; of an empty list the zero of integers.
pub(crate) fn sum<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    sum_from(run, arguments, Val::Int(0))
}

/// The code of `sum` for a list whose items have this type, as far as its zero is another one than that of [`sum`].
pub(crate) fn sum_of(item: &Type) -> Option<Code> {
    match item {
        Type::Uint => Some(|run, arguments| sum_from(run, arguments, Val::Uint(0))),
        Type::Double => Some(|run, arguments| sum_from(run, arguments, Val::Double(0.0))),
        Type::Duration => Some(|run, arguments| sum_from(run, arguments, Val::Duration(0))),
        _ => None,
    }
}

fn sum_from<'v>(run: &mut Run<'v>, arguments: &[Val<'v>], zero: Val<'v>) -> Outcome<'v> {
    let list = list(run, arguments)?;
    let mut items = list.iter();
    let Some(mut sum) = items.next() else { return Ok(zero) };
    if !matches!(sum, Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)) {
        return Err(no_overload());
    }
    for item in items {
        sum = numbers::add(run, &[sum, item])?;
    }
    Ok(sum)
}

fn extreme<'v>(run: &mut Run<'v>, arguments: &[Val<'v>], name: &str, wanted: Ordering) -> Outcome<'v> {
    let list = list(run, arguments)?;
    let mut items = list.iter();
    let first = items.next().ok_or_else(|| fault(format!("{name} called on empty list")))?;
    let mut found = ordered(first)?;
    for item in items {
        let item = ordered(item)?;
        if compare(&item, &found) == Some(Some(wanted)) {
            found = item;
        }
    }
    Ok(found)
}

pub(crate) fn min<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    extreme(run, arguments, "min", Ordering::Less)
}

pub(crate) fn max<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    extreme(run, arguments, "max", Ordering::Greater)
}
