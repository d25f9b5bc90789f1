//! Selectors of devices: expressions over a device's driver, attributes and capacities.
//!
//! Owns evaluating them over [`DeviceObject`]s. The language is a library's; quantities, semantic versions, times,
//! `cel.bind` and `includes` are added here, patterns by `orch_rules`, which owns their price. [`programs`] compiles, each
//! expression when it is first used.
//!
//! Invariants: an evaluation ends within [`DEVICE_SELECTOR_STEPS_MAX`] steps, in time and in memory: one that might not
//! is not begun, and fails as the reference's does when its cost limit is exceeded. An expression's tree is so flat that
//! walks over it fit into any stack.

mod bind;
mod object;
mod programs;
mod quantity;
#[cfg(test)]
mod tests;
mod time;
mod version;

use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelList};
use cel::common::value::{CowVal, FromVal};
use cel::context::VariableResolver;
use cel::{Context, DeclarationError, Env, ExecutionError, Value};
use orch_rules::expression::{DEVICE_SELECTOR_STEPS_MAX, Patterns, pattern_extension};

pub(super) use self::object::DeviceObject;
use self::programs::Compiled;
pub(super) use self::programs::{Selector, Selectors};

/// Bytes of the reason of a failed evaluation: it may repeat values, and becomes a part of the pod's status.
const REASON_BYTES_MAX: usize = 512;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    let extensions = [
        cel::extensions::strings,
        cel::extensions::lists,
        cel::extensions::math,
        bind::extension,
        pattern_extension,
        quantity::extension,
        time::extension,
        version::extension,
        includes,
    ];
    for extension in extensions {
        environment.add_extension(extension).expect("each extension is added once");
    }
    Arc::new(environment)
});

/// `list.includes(value)`, which also takes a single value for a list of one: drivers may turn an attribute into a list.
fn includes(env: &mut Env) -> Result<(), DeclarationError> {
    use cel::common::types::{BOOL_TYPE, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE};
    for (id, target) in [
        ("list_includes", LIST_TYPE),
        ("string_includes", STRING_TYPE),
        ("int_includes", INT_TYPE),
        ("bool_includes", BOOL_TYPE),
    ] {
        env.add_member_overload("includes", id, target, vec![DYN_TYPE], |arguments| {
            let [target, wanted] = arguments.as_slice() else {
                return Err(ExecutionError::MissingArgumentOrTarget);
            };
            let found = match CelList::from_val(&**target) {
                Some(list) => list.inner().iter().any(|one| one.equals(&**wanted)),
                None => target.equals(&**wanted),
            };
            Ok(CowVal::owned(CelBool::from(found)))
        })?;
    }
    Ok(())
}

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

/// Names that an expression may use.
struct Variables<'a> {
    device: &'a DeviceObject,
    patterns: &'a Patterns,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match variable {
            "device" => Some(CowVal::Borrowed(self.device.value())),
            other => self.patterns.find(other).map(|one| CowVal::Borrowed(one)),
        }
    }
}

impl Compiled {
    /// Whether the device is selected.
    pub(super) fn matches(&self, device: &DeviceObject) -> Result<bool, SelectorError> {
        let program = self.program().map_err(|reason| SelectorError::Compile(reason.to_owned()))?;
        if self.steps(device) > DEVICE_SELECTOR_STEPS_MAX {
            let reason = "operation cancelled: actual cost limit exceeded";
            return Err(SelectorError::Runtime(reason.to_owned()));
        }
        let variables = Variables { device, patterns: &program.patterns };
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.set_variable_resolver(&variables);
        match Value::resolve(&program.expression, &context) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(SelectorError::Runtime(format!("expected bool, got {}", other.type_of()))),
            Err(error) => Err(SelectorError::Runtime(runtime_reason(&error))),
        }
    }
}

/// The text of a fault; the reference's library has the same for the common ones.
fn runtime_reason(error: &ExecutionError) -> String {
    let mut reason = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload(_) => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        reason.push_str("...");
    }
    reason
}
