//! Selectors of devices: expressions over a device's driver, attributes and capacities.
//!
//! Owns evaluating them over [`DeviceObject`]s. The language is `orch_expression`'s, the names that a selector may use are
//! `orch_rules`'s, which checks selectors at the API. [`programs`] compiles, each expression when it is first used.
//!
//! Invariants: an evaluation ends within [`DEVICE_SELECTOR_STEPS_MAX`] steps, in time and in memory: one that might not
//! is not begun, and fails as the reference's does when its cost limit is exceeded. An expression's tree is so flat that
//! walks over it fit into any stack.

mod object;
mod programs;
#[cfg(test)]
mod tests;

use orch_expression::{Budget, EvaluationError, Limits, Val};
use orch_rules::expression::DEVICE_SELECTOR_STEPS_MAX;

pub(super) use self::object::DeviceObject;
use self::programs::Compiled;
pub(super) use self::programs::{Selector, Selectors};

/// Bytes of the reason of a failed evaluation: it may repeat values, and becomes a part of the pod's status.
const REASON_BYTES_MAX: usize = 512;

/// The reason why a selector has no answer for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    /// The expression does not compile.
    #[error("CEL compile error: {0}")]
    Compile(String),
    /// The evaluation fails.
    #[error("CEL runtime error: {0}")]
    Runtime(String),
}

impl Compiled {
    /// Whether the device is selected.
    pub(super) fn matches(&self, device: &DeviceObject) -> Result<bool, SelectorError> {
        self.value(device, |value| match value {
            Val::Bool(matches) => Ok(matches),
            other => Err(SelectorError::Runtime(no_truth(&other))),
        })?
    }

    /// The result of `read` on the expression's value for the device.
    fn value<T>(&self, device: &DeviceObject, read: impl FnOnce(Val<'_>) -> T) -> Result<T, SelectorError> {
        let program = self.program().map_err(|reason| SelectorError::Compile(reason.to_owned()))?;
        if self.steps(device) > DEVICE_SELECTOR_STEPS_MAX {
            return Err(SelectorError::Runtime(EvaluationError::Cost.to_string()));
        }
        let variables = [Some(device.value())];
        let mut budget = Budget::UNBOUNDED;
        let value = program.evaluate(&variables, Limits::CALL, &mut budget);
        value.map(read).map_err(|error| SelectorError::Runtime(shortened(error.to_string())))
    }
}

/// The reason why `value` selects nothing, in the reference's words.
fn no_truth(value: &Val<'_>) -> String {
    let name = value.type_name();
    let reason = match value {
        Val::Int(_) | Val::Uint(_) => format!("unsupported type conversion from '{name}' to bool"),
        Val::Text(_) => "unsupported native conversion from string to 'bool'".to_owned(),
        Val::Double(_) => "type conversion error from Double to 'bool'".to_owned(),
        Val::Bytes(_) => "type conversion error from Bytes to 'bool'".to_owned(),
        Val::List(_) | Val::Map(_) => format!("type conversion error from {name} to 'bool'"),
        Val::Duration(_) => "type conversion error from 'Duration' to 'bool'".to_owned(),
        Val::Timestamp(_) => "type conversion error from 'Timestamp' to 'bool'".to_owned(),
        Val::Type(_) => "type conversion not supported for 'type'".to_owned(),
        _ => format!("type conversion error from '{name}' to 'bool'"),
    };
    format!("CEL result of type {name} could not be converted to bool: {reason}")
}

/// A reason that fits into a status.
fn shortened(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        reason.push_str("...");
    }
    reason
}
