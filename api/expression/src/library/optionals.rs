//! Optional values.

use crate::error::{fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

pub(crate) fn of<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [value] => Ok(Val::some(value.clone())),
        _ => Err(no_overload()),
    }
}

pub(crate) fn of_non_zero<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [value] if value.is_zero() => Ok(Val::NONE),
        [value] => Ok(Val::some(value.clone())),
        _ => Err(no_overload()),
    }
}

pub(crate) fn none<'v>(_run: &mut Run<'v>, _arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::NONE)
}

pub(crate) fn unwrap<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    run.make_values(list.len())?;
    let mut values = Vec::new();
    for item in list.iter() {
        match item {
            Val::Optional(Some(value)) => values.push((*value).clone()),
            Val::Optional(None) => {}
            other => return Err(fault(format!("value {other} is not optional"))),
        }
    }
    Ok(Val::list(values))
}

pub(crate) fn has_value<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
        _ => Err(no_overload()),
    }
}

pub(crate) fn value<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Optional(Some(value))] => Ok((**value).clone()),
        [Val::Optional(None)] => Err(fault("optional.none() dereference")),
        _ => Err(no_overload()),
    }
}
