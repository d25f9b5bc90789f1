//! JSON values as YAML documents.

use serde_json::Value;

/// Appends `value` as a YAML document.
pub fn write_yaml(value: &Value, out: &mut Vec<u8>) {
    if let Ok(text) = serde_norway::to_string(value) {
        out.extend_from_slice(text.as_bytes());
    }
}
