//! Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use crate::error::{Failure, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{List, Val};

/// Whether `list` has a value equal to `wanted`.
fn has<'v>(run: &mut Run<'v>, list: &List<'v>, wanted: &Val<'v>) -> Result<bool, Failure> {
    for item in list.iter() {
        run.tick(1)?;
        if run.equal(&item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `list` has all values of `wanted`.
fn has_all<'v>(run: &mut Run<'v>, list: &List<'v>, wanted: &List<'v>) -> Result<bool, Failure> {
    for value in wanted.iter() {
        if !has(run, list, &value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn contains<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list), Val::List(wanted)] = arguments else { return Err(no_overload()) };
    has_all(run, list, wanted).map(Val::Bool)
}

pub(crate) fn equivalent<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(one), Val::List(other)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(has_all(run, one, other)? && has_all(run, other, one)?))
}

pub(crate) fn intersects<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list), Val::List(wanted)] = arguments else { return Err(no_overload()) };
    for value in wanted.iter() {
        if has(run, list, &value)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
