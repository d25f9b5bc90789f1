//! Definitions of declared kinds: made of the JSON schema of their definition, not of type tables.
//!
//! Owns the root types and lists of declared kinds, with the members that each object has whatever its schema says. The tables of
//! the kind are not made for a document.

mod schema;

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::definitions::head;
use super::dialect::Dialect;
use super::names::group_version_kind;
use crate::registry::Resource;
use schema::Form;

/// References that definitions of declared kinds have, each a schema.
pub(super) struct References {
    /// `ObjectMeta`.
    pub(super) object_meta: Value,
    /// `ListMeta`.
    pub(super) list_meta: Value,
}

/// The context of a definition.
#[derive(Clone, Copy)]
pub(super) struct Declared<'a> {
    pub(super) dialect: Dialect,
    /// Prefix of the extensions: `x-orch-`.
    pub(super) prefix: &'a str,
    pub(super) references: &'a References,
}

const METADATA_DESCRIPTION: &str =
    "Name, namespace, labels, annotations and what the server keeps about the object.";

const LIST_METADATA_DESCRIPTION: &str =
    "The version that the list was read at, and the token of the next page where there is one.";

impl Declared<'_> {
    /// The definition of the objects of `resource`, whose JSON schema is `schema`; null: it has none. `fields`: the selectable ones.
    pub(super) fn object(self, resource: &Resource, schema: &Value, fields: &[String]) -> Value {
        let form = Form { dialect: self.dialect, prefix: self.prefix };
        // Clients of version 2 would refuse unknown fields beside any property.
        let is_closed = self.dialect == Dialect::V3 || !form.has(schema, "preserve-unknown-fields");
        let mut definition = if schema.is_object() && is_closed {
            let mut root = form.publish(schema);
            self.embed_below(&mut root);
            self.add_head(&mut root);
            root
        } else {
            Map::from_iter([("type", json!("object"))])
        };
        self.add_kind(&mut definition, resource, &resource.kind);
        self.add_selectable(&mut definition, fields);
        Value::Object(definition)
    }

    /// The definition of the lists of `resource`, whose items are `items`, a reference. `fields`: the selectable ones.
    pub(super) fn list(self, resource: &Resource, items: Value, fields: &[String]) -> Value {
        let described = |text: String| Map::from_iter([("description", json!(text))]);
        let list = json!({"type": "array", "items": items});
        let text = format!("The {} of this page.", resource.plural);
        let mut properties = Map::from_iter(head());
        properties.insert("items", self.dialect.beside(list, described(text)));
        let metadata = self.references.list_meta.clone();
        let text = LIST_METADATA_DESCRIPTION.to_owned();
        properties.insert("metadata", self.dialect.beside(metadata, described(text)));
        let mut definition = described(format!("A list of objects of the kind {}.", resource.kind));
        definition.insert("type", json!("object"));
        definition.insert("required", json!(["items"]));
        definition.insert("properties", Value::Object(properties));
        self.add_kind(&mut definition, resource, &resource.list_kind);
        self.add_selectable(&mut definition, fields);
        Value::Object(definition)
    }

    fn add_kind(self, definition: &mut Map, resource: &Resource, kind: &str) {
        let kind = group_version_kind(&resource.group, &resource.version, kind);
        definition.insert(format!("{}group-version-kind", self.prefix), json!([kind]));
    }

    fn add_selectable(self, definition: &mut Map, fields: &[String]) {
        if !fields.is_empty() {
            let fields: Vec<Value> = fields.iter().map(|field| json!({"fieldPath": field})).collect();
            definition.insert(format!("{}selectable-fields", self.prefix), Value::Array(fields));
        }
    }

    /// The properties that every object has, in the place of those that the schema states.
    fn add_head(self, definition: &mut Map) {
        let mut properties = match definition.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        for (name, described) in head() {
            properties.insert(name, described);
        }
        let more = Map::from_iter([("description", json!(METADATA_DESCRIPTION))]);
        properties.insert("metadata", self.dialect.beside(self.references.object_meta.clone(), more));
        definition.insert("properties", Value::Object(properties));
    }

    /// Completes the embedded objects below `node`.
    fn embed_below(self, node: &mut Map) {
        let properties = node.get_mut("properties").and_then(Value::as_object_mut);
        properties.into_iter().flat_map(Map::values_mut).for_each(|property| self.embed(property));
        for name in ["items", "additionalProperties"] {
            node.get_mut(name).into_iter().for_each(|of| self.embed(of));
        }
    }

    fn embed(self, node: &mut Value) {
        let Value::Object(node) = node else { return };
        self.embed_below(node);
        let is = |extension: &str| {
            node.get(&format!("{}{extension}", self.prefix)).and_then(Value::as_bool).unwrap_or_default()
        };
        let is_open = self.dialect == Dialect::V2 && is("preserve-unknown-fields");
        if is_open || !is("embedded-resource") {
            return;
        }
        self.add_head(node);
        let mut required = match node.shift_remove("required") {
            Some(Value::Array(required)) => required,
            _ => Vec::new(),
        };
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|given| given.as_str() == Some(name)) {
                required.push(json!(name));
            }
        }
        node.insert("required", Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::registry::Registry;

    fn references() -> References {
        References { object_meta: json!({"$ref": "#/meta"}), list_meta: json!({"$ref": "#/list"}) }
    }

    fn object(dialect: Dialect, schema: &Value) -> Value {
        let references = references();
        let registry = Registry::builtin(&ORCH);
        let resource = registry.find("apps", "v1", "deployments").unwrap();
        Declared { dialect, prefix: "x-orch-", references: &references }.object(resource, schema, &[])
    }

    #[test]
    fn every_object_has_its_head_and_metadata() {
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object"}, "spec": {"type": "string"},
        }});
        let found = object(Dialect::V3, &schema);
        let names: Vec<&str> = found["properties"].as_object().unwrap().keys().map(|name| &**name).collect();
        assert_eq!(names, ["metadata", "spec", "apiVersion", "kind"]);
        assert_eq!(found["properties"]["metadata"]["allOf"], json!([{"$ref": "#/meta"}]));
        assert_eq!(
            found["x-orch-group-version-kind"],
            json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
        );
    }

    #[test]
    fn an_object_of_unknown_fields_has_no_properties_in_version_2() {
        let schema =
            json!({"type": "object", "x-orch-preserve-unknown-fields": true, "properties": {"spec": {}}});
        assert!(object(Dialect::V2, &schema).get("properties").is_none());
        assert!(object(Dialect::V3, &schema)["properties"].get("spec").is_some());
        assert_eq!(object(Dialect::V3, &Value::Null)["type"], "object");
        assert!(object(Dialect::V3, &Value::Null).get("properties").is_none());
    }

    #[test]
    fn an_embedded_object_has_the_same_head_and_must_have_a_kind() {
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": {
            "type": "object", "x-orch-embedded-resource": true, "x-orch-preserve-unknown-fields": true,
            "required": ["kind"],
        }}}});
        let items = &object(Dialect::V3, &schema)["properties"]["list"]["items"];
        assert_eq!(items["required"], json!(["kind", "apiVersion"]));
        assert!(items["properties"].get("metadata").is_some());
        assert!(object(Dialect::V2, &schema)["properties"]["list"]["items"].get("properties").is_none());
    }
}
