//! The published form of a declared schema: a pure function from the JSON of a definition.
//!
//! Owns which members of a schema are published, and what version 2 of the format cannot express. The schema was checked when
//! the definition was accepted; members that an older definition has besides are not published.

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::super::dialect::Dialect;

/// Members that are published if they are true.
const FLAGS: [&str; 4] = ["nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems"];

/// Members that are published unless they are empty.
const TEXTS_AND_LISTS: [&str; 6] = ["type", "format", "title", "description", "pattern", "enum"];

/// Members that are published as they are.
const VALUES: [&str; 11] = [
    "default",
    "externalDocs",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "multipleOf",
];

/// Lists of schemas, of which version 2 has none.
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Extensions that are published if they are true.
const FLAG_EXTENSIONS: [&str; 3] = ["preserve-unknown-fields", "embedded-resource", "int-or-string"];

/// Extensions that are published unless they are empty.
const OTHER_EXTENSIONS: [&str; 4] = ["list-map-keys", "list-type", "map-type", "validations"];

/// The form in which schemas are published.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) dialect: Dialect,
    /// Prefix of the extensions: `x-orch-`.
    pub(super) prefix: &'a str,
}

/// Where a schema stands: values have the types that structural schemas state, which those inside `anyOf` and its like narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Structural,
    Nested,
}

impl Form<'_> {
    /// The published form of `schema`, a structural one.
    pub(super) fn publish(self, schema: &Value) -> Map {
        self.node(schema, Place::Structural)
    }

    /// Whether the flag `extension` of `schema` is set.
    pub(super) fn has(self, schema: &Value, extension: &str) -> bool {
        schema.get(&*self.extension(extension)).and_then(Value::as_bool).unwrap_or_default()
    }

    fn extension(self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn node(self, schema: &Value, place: Place) -> Map {
        let Some(given) = schema.as_object() else { return Map::new() };
        let mut node = Map::new();
        for (name, value) in given.iter() {
            if let Some(published) = self.member(name, value, place) {
                node.insert(name.clone(), published);
            }
        }
        match self.dialect {
            Dialect::V2 => self.restrict(schema, &mut node),
            Dialect::V3 if place == Place::Structural && self.has(schema, "int-or-string") => {
                unfold(&mut node)
            }
            Dialect::V3 => {}
        }
        node
    }

    /// The published value of the member `name`; `None`: it is not published.
    fn member(self, name: &str, value: &Value, place: Place) -> Option<Value> {
        let is_set = value.as_bool().unwrap_or_default();
        // few: the members of the format.
        if FLAGS.contains(&name) {
            return is_set.then_some(Value::Bool(true));
        }
        // few: the same.
        if TEXTS_AND_LISTS.contains(&name) || name == "required" {
            return (!is_empty(value)).then(|| value.clone());
        }
        // few: the same.
        if VALUES.contains(&name) {
            return (!value.is_null()).then(|| value.clone());
        }
        // few: the same.
        if JUNCTORS.contains(&name) {
            let all = value.as_array().filter(|all| !all.is_empty() && self.dialect == Dialect::V3)?;
            return Some(all.iter().map(|one| Value::Object(self.node(one, Place::Nested))).collect());
        }
        match name {
            "example" => (!is_empty_json(value)).then(|| value.clone()),
            "not" => {
                let is_published = value.is_object() && self.dialect == Dialect::V3;
                is_published.then(|| Value::Object(self.node(value, Place::Nested)))
            }
            "items" => value.is_object().then(|| Value::Object(self.node(value, place))),
            "additionalProperties" => match value {
                Value::Bool(_) => Some(value.clone()),
                Value::Object(_) => Some(Value::Object(self.node(value, place))),
                _ => None,
            },
            "properties" => {
                let properties = value.as_object().filter(|properties| !properties.is_empty())?;
                let published =
                    properties.iter().map(|(name, of)| (name.clone(), Value::Object(self.node(of, place))));
                Some(Value::Object(published.collect()))
            }
            _ => self.extension_member(name, value),
        }
    }

    fn extension_member(self, name: &str, value: &Value) -> Option<Value> {
        let extension = name.strip_prefix(self.prefix)?;
        // few: the extensions.
        if FLAG_EXTENSIONS.contains(&extension) {
            return value.as_bool().unwrap_or_default().then_some(Value::Bool(true));
        }
        // few: the same.
        (OTHER_EXTENSIONS.contains(&extension) && !is_empty(value)).then(|| value.clone())
    }

    /// Takes out of `node`, made of `schema`, what clients of version 2 misread: they know no null, and neither properties nor items
    /// beside unknown fields.
    fn restrict(self, schema: &Value, node: &mut Map) {
        let keeps_unknown = self.has(schema, "preserve-unknown-fields");
        let is_nullable = is_nullable(schema);
        if is_nullable {
            node.shift_remove("type");
            node.shift_remove("nullable");
        }
        if is_nullable || keeps_unknown {
            node.shift_remove("items");
            node.shift_remove("properties");
        }
        let is_of = |node: &Map, wanted: &str| node.get("type").and_then(Value::as_str) == Some(wanted);
        let has_no_items = !node.contains_key("items") && is_of(node, "array");
        if has_no_items || keeps_unknown && is_of(node, "object") {
            node.shift_remove("type");
        }
        if schema.get("additionalProperties").is_some_and(is_nullable_schema) {
            node.shift_remove("required");
        }
        let properties = schema.get("properties").filter(|_| node.contains_key("properties"));
        let may_be_null = |name: &Value| {
            let property = properties.and_then(|properties| properties.get(name.as_str()?));
            property.is_some_and(is_nullable_schema)
        };
        if let Some(required) = node.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !may_be_null(name));
            if required.is_empty() {
                node.shift_remove("required");
            }
        }
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema.get("nullable").and_then(Value::as_bool).unwrap_or_default()
}

/// See [`is_nullable`], for a function that takes one.
fn is_nullable_schema(schema: &Value) -> bool {
    schema.is_object() && is_nullable(schema)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Whether `value` is null or its JSON has nothing between its quotes or brackets: the reference leaves out such an example.
fn is_empty_json(value: &Value) -> bool {
    is_empty(value) || value.as_object().is_some_and(Map::is_empty)
}

/// Writes the types of a value that is an integer or a text, where the schema does not have them in this form itself.
fn unfold(node: &mut Map) {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let first = node.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    if node.get("anyOf") == Some(&both) || first == Some(&both) {
        return;
    }
    if !node.contains_key("anyOf") {
        node.insert("anyOf", both);
        return;
    }
    let mut all = vec![json!({ "anyOf": both })];
    all.extend(node.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default());
    node.insert("allOf", Value::Array(all));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, version2: Value, version3: Value) {
        for (dialect, wanted) in [(Dialect::V2, version2), (Dialect::V3, version3)] {
            let form = Form { dialect, prefix: "x-orch-" };
            assert_eq!(Value::Object(form.publish(&schema)), wanted, "{dialect:?} {schema}");
        }
    }

    #[test]
    fn empty_members_of_a_schema_are_left_out() {
        let schema = json!({
            "type": "object", "description": "", "nullable": false, "required": [], "example": {}, "default": null,
            "x-orch-preserve-unknown-fields": false, "x-orch-list-map-keys": [], "properties": {}, "minimum": 0,
        });
        check(schema, json!({"type": "object", "minimum": 0}), json!({"type": "object", "minimum": 0}));
    }

    #[test]
    fn examples_and_documents_elsewhere_are_published() {
        let schema = json!({
            "type": "string", "example": "abc", "externalDocs": {"url": "https://example.com"},
            "anyOf": [{"pattern": "a", "example": false}],
        });
        let mut version2 = schema.clone();
        version2.as_object_mut().unwrap().shift_remove("anyOf");
        check(schema.clone(), version2, schema);
    }

    #[test]
    fn members_that_may_be_null_have_no_type_in_version_2_and_are_not_required() {
        let schema = json!({
            "type": "object", "required": ["a", "b"],
            "properties": {
                "a": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
                "b": {"type": "array", "items": {"type": "string"}, "x-orch-preserve-unknown-fields": true},
            },
        });
        let version2 = json!({
            "type": "object", "required": ["b"],
            "properties": {"a": {}, "b": {"x-orch-preserve-unknown-fields": true}},
        });
        check(schema.clone(), version2, schema);
    }

    #[test]
    fn only_version_3_has_alternatives() {
        let schema = json!({
            "type": "object", "not": {"required": ["z"]}, "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
            "additionalProperties": {"type": "string", "anyOf": [{"pattern": "a"}]},
        });
        let version2 = json!({"type": "object", "additionalProperties": {"type": "string"}});
        check(schema.clone(), version2, schema);
    }

    #[test]
    fn an_integer_or_text_has_both_types_once() {
        let both = json!([{"type": "integer"}, {"type": "string"}]);
        let flag = json!({"x-orch-int-or-string": true});
        let with = |more: Value| {
            let mut schema = flag.clone();
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        check(flag.clone(), flag.clone(), with(json!({ "anyOf": both })));
        check(with(json!({ "anyOf": both })), flag.clone(), with(json!({ "anyOf": both })));
        let all = json!({"allOf": [{"anyOf": both}, {"anyOf": [{"minimum": 1}]}]});
        check(with(all.clone()), flag.clone(), with(all));
        let own = json!({"anyOf": [{"minimum": 1}, {"pattern": "x"}]});
        let unfolded = json!({"anyOf": own["anyOf"], "allOf": [{"anyOf": both}]});
        check(with(own), flag.clone(), with(unfolded));
    }
}
