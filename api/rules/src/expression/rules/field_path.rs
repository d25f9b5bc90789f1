//! `fieldPath` of rules: `.a.b`, `.m['some key']`.

use orch_schema::value::Value;

use crate::validate::field_path::{FieldStep, Notation, resolve};

/// The path behind that of the rule's node, whose schema is `schema`: `a.b` to properties, `m[some key]` to entries of maps, however the
/// text writes them. Empty where `text` is, and where it leads nowhere: definitions with such a one are refused.
pub(super) fn normalized(text: &str, schema: &Value) -> String {
    let Ok((steps, _)) = resolve(text, schema, Notation::DotsAndBrackets) else { return String::new() };
    let mut path = String::new();
    for step in steps {
        match step {
            FieldStep::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name);
            }
            FieldStep::Entry(key) => {
                path.push('[');
                path.push_str(&key);
                path.push(']');
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn properties_stand_behind_dots_and_entries_in_brackets() {
        let schema = json!({"properties": {
            "a": {"properties": {"b": {}, "it's": {}}},
            "m": {"additionalProperties": {"properties": {"x": {}}}},
        }});
        for (text, shown) in [
            ("", ""),
            (".a.b", "a.b"),
            ("['a']['b']", "a.b"),
            (".a['it\\'s']", "a.it's"),
            (".m['some key']", "m[some key]"),
            (".m.key.x", "m[key].x"),
            (".none", ""),
            ("a", ""),
        ] {
            assert_eq!(normalized(text, &schema), shown, "{text}");
        }
        let map = json!({"additionalProperties": {}});
        assert_eq!(normalized(".key", &map), "[key]");
    }
}
