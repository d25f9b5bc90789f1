//! The form of metadata that no table has decoded: those in the defaults of a schema.
//!
//! Owns which JSON each field has. The rules for names, labels and the rest are those of any object (`validate::metadata`).

use orch_schema::budget::count_step;
use orch_schema::value::Value;

/// JSON of a field of metadata.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Integer,
    Texts,
    TextMap,
    /// Objects, by the name of their type.
    Objects(&'static str),
}

/// The fields, but for times, which have a form of their own.
const FIELDS: [(&str, Form); 13] = [
    ("name", Form::Text),
    ("generateName", Form::Text),
    ("namespace", Form::Text),
    ("selfLink", Form::Text),
    ("uid", Form::Text),
    ("resourceVersion", Form::Text),
    ("generation", Form::Integer),
    ("deletionGracePeriodSeconds", Form::Integer),
    ("labels", Form::TextMap),
    ("annotations", Form::TextMap),
    ("finalizers", Form::Texts),
    ("ownerReferences", Form::Objects("OwnerReference")),
    ("managedFields", Form::Objects("ManagedFieldsEntry")),
];

/// The reason, in the reference's words, why `metadata` are none: the first field of another form.
pub(super) fn fault(metadata: &Value) -> Option<String> {
    match metadata {
        Value::Null => None,
        Value::Object(fields) => FIELDS.into_iter().find_map(|(name, form)| {
            let (found, wanted) = form.fault(fields.get(name)?)?;
            Some(format!(
                "json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {wanted}"
            ))
        }),
        other => Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", word(other))),
    }
}

impl Form {
    /// The type of `value` and the expected one, where they differ. Null is an absent field.
    fn fault(self, value: &Value) -> Option<(&'static str, String)> {
        let texts = |values: &mut dyn Iterator<Item = &Value>| {
            // once: the values of one field.
            values.take_while(|_| count_step()).find_map(|value| Form::Text.fault(value))
        };
        let whole = match (self, value) {
            (_, Value::Null) | (Form::Text, Value::String(_)) => return None,
            (Form::Integer, Value::Number(number)) if number.is_i64() => return None,
            (Form::Texts, Value::Array(items)) => return texts(&mut items.iter()),
            (Form::TextMap, Value::Object(map)) => return texts(&mut map.values()),
            (Form::Objects(of), Value::Array(items)) => {
                let is_none = |item: &&Value| !item.is_object() && !item.is_null();
                // once: the items of one field.
                let other = items.iter().take_while(|_| count_step()).find(is_none)?;
                return Some((word(other), format!("v1.{of}")));
            }
            (Form::Text, _) => "string".to_owned(),
            (Form::Integer, _) => "int64".to_owned(),
            (Form::Texts, _) => "[]string".to_owned(),
            (Form::TextMap, _) => "map[string]string".to_owned(),
            (Form::Objects(of), _) => format!("[]v1.{of}"),
        };
        Some((word(value), whole))
    }
}

/// The word of the reference's decoder for a value's type.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn metadata_of_another_form_are_told_by_their_first_such_field() {
        let told = |metadata: Value| fault(&metadata).unwrap_or_default();
        for fine in [
            json!(null),
            json!({}),
            json!({"name": "n", "labels": {"a": "b"}, "finalizers": ["f"], "generation": 1, "more": 5}),
            json!({"labels": null, "ownerReferences": [{"name": "n"}]}),
        ] {
            assert_eq!(told(fine), "");
        }
        let field = |found: &str, field: &str| {
            format!("json: cannot unmarshal {found} into Go struct field ObjectMeta.{field}")
        };
        assert_eq!(told(json!("x")), "json: cannot unmarshal string into Go value of type v1.ObjectMeta");
        assert_eq!(told(json!({"name": 5})), field("number", "name of type string"));
        assert_eq!(told(json!({"labels": {"a": true}})), field("bool", "labels of type string"));
        assert_eq!(told(json!({"labels": []})), field("array", "labels of type map[string]string"));
        assert_eq!(told(json!({"finalizers": {}})), field("object", "finalizers of type []string"));
        assert_eq!(told(json!({"generation": 1.5})), field("number", "generation of type int64"));
        assert_eq!(
            told(json!({"ownerReferences": ["x"]})),
            field("string", "ownerReferences of type v1.OwnerReference")
        );
    }
}
