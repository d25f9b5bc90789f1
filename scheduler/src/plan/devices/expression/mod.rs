//! Selectors of devices: expressions over a device's driver, attributes and capacities.
//!
//! Owns compiling them, each once, and evaluating them over [`DeviceObject`]s. The language is a library's; quantities,
//! semantic versions, `cel.bind` and `includes` are added here. Invariant: an expression that compiled ends within
//! [`STEPS_MAX`] steps, and its tree is so flat that walks over it fit into any stack. What it cannot do in time is refused
//! when it is compiled, as the reference refuses what costs too much.

mod bind;
mod cost;
mod object;
mod quantity;
#[cfg(test)]
mod tests;
mod version;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelList};
use cel::common::value::FromVal;
use cel::{Context, DeclarationError, Env, ExecutionError, Program, Value};

pub(super) use self::object::DeviceObject;

/// Bytes of an expression: the API's bound.
const BYTES_MAX: usize = 10 << 10;
/// Levels of an expression's tree, as the API server takes them.
const NESTING_MAX: usize = 100;
/// Steps of one evaluation: a few milliseconds.
const STEPS_MAX: u64 = 1_000_000;
/// Expressions that are kept though nothing uses them. Clusters have a handful; beyond this number those are dropped.
const UNUSED_MAX: usize = 256;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    let extensions = [
        cel::extensions::strings,
        cel::extensions::lists,
        cel::extensions::math,
        bind::extension,
        quantity::extension,
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
    use cel::common::value::CowVal;
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

/// A compiled expression, or the reason why there is none.
pub(super) struct Selector {
    program: Result<Program, String>,
}

/// Why a selector has no answer for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SelectorError {
    /// The expression does not compile.
    #[error("CEL compile error: {0}")]
    Compile(String),
    /// The evaluation fails.
    #[error("CEL runtime error: {0}")]
    Runtime(String),
}

impl std::fmt::Debug for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selector").field("error", &self.program.as_ref().err()).finish_non_exhaustive()
    }
}

impl Selector {
    fn compile(source: &str) -> Selector {
        Selector { program: compile(source) }
    }

    /// Whether the device is selected.
    pub(super) fn matches(&self, device: &DeviceObject) -> Result<bool, SelectorError> {
        let program = self.program.as_ref().map_err(|reason| SelectorError::Compile(reason.clone()))?;
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.set_variable_resolver(device);
        match program.execute(&context) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(SelectorError::Runtime(format!("expected bool, got {}", other.type_of()))),
            Err(error) => Err(SelectorError::Runtime(runtime_reason(&error))),
        }
    }
}

/// The library's text; of a missing member, the commonest fault, that of the reference.
fn runtime_reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        other => other.to_string(),
    }
}

fn compile(source: &str) -> Result<Program, String> {
    if source.len() > BYTES_MAX {
        return Err(format!("the expression is longer than {BYTES_MAX} bytes"));
    }
    if orch_rules::expression::nesting(source).is_none_or(|levels| levels > NESTING_MAX) {
        return Err(format!("the expression nests more than {NESTING_MAX} levels deep"));
    }
    let program = ENVIRONMENT.compile(source).map_err(|error| error.to_string())?;
    if cost::steps(program.expression(), source.len()) > STEPS_MAX {
        return Err("the expression may take too long".to_owned());
    }
    Ok(program)
}

/// The expressions in use, each compiled once.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    by_source: HashMap<Arc<str>, Arc<Selector>>,
}

impl Selectors {
    /// The selector written as `source`.
    pub(super) fn compiled(&mut self, source: &str) -> Arc<Selector> {
        if let Some(known) = self.by_source.get(source) {
            return known.clone();
        }
        let unused = |selector: &Arc<Selector>| Arc::strong_count(selector) == 1;
        if self.by_source.values().filter(|selector| unused(selector)).count() >= UNUSED_MAX {
            self.by_source.retain(|_, selector| !unused(selector));
        }
        let selector = Arc::new(Selector::compile(source));
        self.by_source.insert(source.into(), selector.clone());
        selector
    }

    /// Number of expressions that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_source.len()
    }
}
