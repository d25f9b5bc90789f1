//! Comparisons.

use std::cmp::Ordering;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{Val, compare};

/// The order of two values. A number that is none has no order.
fn order<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Result<Ordering, Failure> {
    let [one, other] = arguments else { return Err(no_overload()) };
    if let (Val::Text(one), Val::Text(other)) = (one, other) {
        run.read_bytes(one.len().min(other.len()))?;
    }
    compare(one, other).ok_or_else(no_overload)?.ok_or_else(|| fault("NaN values cannot be ordered"))
}

pub(crate) fn less<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(run, arguments)?.is_lt()))
}

pub(crate) fn less_or_equal<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(run, arguments)?.is_le()))
}

pub(crate) fn greater<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(run, arguments)?.is_gt()))
}

pub(crate) fn greater_or_equal<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(order(run, arguments)?.is_ge()))
}
