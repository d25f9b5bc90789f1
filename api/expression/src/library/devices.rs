//! `includes`, for attributes of devices that may be a value or a list of values.

use crate::error::{fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// Whether a list has a value, or a single value is it: drivers may turn an attribute into a list.
pub(crate) fn includes<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::List(list), _] if list.len() > LIST_MAX => Err(fault(format!(
            "'includes' function cannot be applied to lists longer than {LIST_MAX} values"
        ))),
        [Val::List(list), wanted] => {
            for item in list.iter() {
                if run.equal(&item, wanted)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        [value, wanted] => run.equal(value, wanted).map(Val::Bool),
        _ => Err(no_overload()),
    }
}

/// Values of the longest list of a device.
const LIST_MAX: usize = 48;
