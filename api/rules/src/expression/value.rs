//! Documents as the variables of expressions.

use orch_schema::value::Value;

/// A variable with its value.
#[derive(Clone, Debug)]
pub struct Variable {
    name: &'static str,
    value: Value,
}

impl Variable {
    /// The variable `name` that holds `document`.
    pub fn new(name: &'static str, document: &serde_json::Value) -> Variable {
        Variable { name, value: Value::from(document.clone()) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }
}
