//! Truths and equality.

use crate::error::no_overload;
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// Operators that the compiler has nodes for.
pub(crate) fn special<'v>(_run: &mut Run<'v>, _arguments: &[Val<'v>]) -> Outcome<'v> {
    Err(no_overload())
}

pub(crate) fn not<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Bool(truth)] => Ok(Val::Bool(!truth)),
        _ => Err(no_overload()),
    }
}

/// The condition of loops: false for `false` only. Faults of the argument are forgiven by the caller.
pub(crate) fn not_strictly_false<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(!matches!(arguments, [Val::Bool(false)])))
}

pub(crate) fn equals<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [one, other] = arguments else { return Err(no_overload()) };
    run.equal(one, other).map(Val::Bool)
}

pub(crate) fn differs<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [one, other] = arguments else { return Err(no_overload()) };
    run.equal(one, other).map(|equal| Val::Bool(!equal))
}
