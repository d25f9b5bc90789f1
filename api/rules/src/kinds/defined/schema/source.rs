//! Nodes of an `openAPIV3Schema`, read without ever failing.
//!
//! Owns the names of its members and of its extensions. Members of another type than a definition may have read as absent.

use orch_proto::Brand;
use orch_schema::value::Value;

use crate::validate::tree::Tree;

/// One node of a schema: the schema of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'d> {
    brand: &'static Brand,
    node: &'d Value,
}

/// Values beside those that a node declares: those of a map.
#[derive(Clone, Copy, Debug)]
pub(super) enum Additional<'d> {
    /// Nothing is said.
    Unsaid,
    /// `false`.
    Forbidden,
    /// `true`: any value, of which nothing is declared.
    Any,
    /// Values of this schema.
    Of(Source<'d>),
}

impl<'d> Source<'d> {
    pub(super) fn new(brand: &'static Brand, node: &'d Value) -> Self {
        Source { brand, node }
    }

    /// The brand, which names extensions.
    pub(super) fn brand(self) -> &'static Brand {
        self.brand
    }

    /// The node as the definition has it.
    pub(super) fn node(self) -> &'d Value {
        self.node
    }

    fn of(self, node: &'d Value) -> Self {
        Source { brand: self.brand, node }
    }

    /// The member `name`.
    pub(super) fn at(self, name: &str) -> &'d Value {
        self.node.at(name)
    }

    /// The extension `name`: `list-type`.
    pub(super) fn extension(self, name: &str) -> &'d Value {
        let Some(map) = self.node.as_object() else { return self.node.at("") };
        // few: a schema has some ten members, and most of them no extension.
        let found = map.iter().find(|(key, _)| key.strip_prefix(self.brand.extension_prefix) == Some(name));
        found.map_or_else(|| self.node.at(""), |(_, value)| value)
    }

    pub(super) fn type_name(self) -> &'d str {
        self.node.text("type")
    }

    pub(super) fn is_int_or_string(self) -> bool {
        self.extension("int-or-string").as_bool() == Some(true)
    }

    pub(super) fn preserves_unknown(self) -> bool {
        self.extension("preserve-unknown-fields").as_bool() == Some(true)
    }

    pub(super) fn is_embedded(self) -> bool {
        self.extension("embedded-resource").as_bool() == Some(true)
    }

    pub(super) fn is_nullable(self) -> bool {
        self.node.flag("nullable")
    }

    /// The default; null is none.
    pub(super) fn default(self) -> Option<&'d Value> {
        Some(self.at("default")).filter(|default| !default.is_null())
    }

    /// Its properties by name.
    pub(super) fn properties(self) -> Vec<(&'d str, Source<'d>)> {
        let entries = self.node.entries("properties");
        entries.into_iter().map(|(name, node)| (name, self.of(node))).collect()
    }

    /// The schema of the items of a list.
    pub(super) fn items(self) -> Option<Source<'d>> {
        Some(self.at("items")).filter(|items| items.is_object()).map(|items| self.of(items))
    }

    pub(super) fn additional(self) -> Additional<'d> {
        match self.at("additionalProperties") {
            Value::Bool(true) => Additional::Any,
            Value::Bool(false) => Additional::Forbidden,
            node @ Value::Object(_) => Additional::Of(self.of(node)),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => Additional::Unsaid,
        }
    }

    /// The schemas in the list `name`: `allOf`.
    pub(super) fn schemas(self, name: &str) -> Vec<Source<'d>> {
        self.node.items(name).iter().map(|node| self.of(node)).collect()
    }

    /// The schema in the member `name`: `not`.
    pub(super) fn schema(self, name: &str) -> Option<Source<'d>> {
        Some(self.at(name)).filter(|node| node.is_object()).map(|node| self.of(node))
    }

    /// The names in the list `required`.
    pub(super) fn required(self) -> Vec<&'d str> {
        self.node.texts("required")
    }

    /// The keys of a list of type map.
    pub(super) fn list_keys(self) -> Vec<&'d str> {
        self.extension("list-map-keys").as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
}
