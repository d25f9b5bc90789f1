//! JSON merge patch (RFC 7386).

use orch_schema::budget::count_step;
use orch_schema::value::{Map, Value};

use super::PatchError;

/// Merges `patch` into the object `target`: null removes, objects merge, anything else replaces.
///
/// A patch that is not an object is refused: it would replace the whole object by something that cannot be stored.
pub fn merge_patch(target: &mut Value, patch: Value) -> Result<(), PatchError> {
    let form = match patch {
        Value::Object(map) => {
            merge(target, map);
            return Ok(());
        }
        Value::Null => return Err(PatchError::Malformed("Invalid JSON Patch".to_owned())),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(PatchError::Malformed(format!("error decoding patch: expected an object, got {form}")))
}

fn merge(target: &mut Value, patch: Map) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch.into_iter().take_while(|_| count_step()) {
        match value {
            // `shift_remove` would move every later key to keep an order without meaning.
            Value::Null => drop(target.swap_remove(&key)),
            Value::Object(inner) => merge(target.entry(key).or_insert(Value::Null), inner),
            value => drop(target.insert(key, value)),
        }
    }
}
