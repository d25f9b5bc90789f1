//! Resources: how a kind is reached and shown, as its message's options say.
//!
//! Owns the definitions (names, verbs, sub-resources, columns), branded. Which of them are served, and by what
//! strategy, is decided elsewhere.

use super::types::TypeId;

/// One resource of one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// Group with its domain; empty for core.
    pub group: String,
    /// Version, for example `v1`.
    pub version: String,
    /// Name in paths: `configmaps`.
    pub plural: String,
    /// Name of one: `configmap`.
    pub singular: String,
    /// `ConfigMap`.
    pub kind: String,
    /// Its objects live in namespaces.
    pub namespaced: bool,
    /// Verbs in alphabetical order.
    pub verbs: Vec<String>,
    /// Abbreviations: `cm`.
    pub short_names: Vec<String>,
    /// Sets of resources it belongs to: `all`.
    pub categories: Vec<String>,
    /// Sub-resources by name.
    pub subresources: Vec<Subresource>,
    /// Columns of its table; empty for the two that every kind has.
    pub columns: Vec<Column>,
    /// Its table in the schema.
    pub type_id: TypeId,
}

/// A path below an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Name in the path: `status`.
    pub name: String,
    /// Group of the kind it reads and writes, with its domain.
    pub group: String,
    /// Version of that kind.
    pub version: String,
    /// Kind it reads and writes.
    pub kind: String,
    /// That kind's table.
    pub type_id: TypeId,
    /// Verbs in alphabetical order.
    pub verbs: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer` or `date`.
    pub kind: String,
    /// `name` or empty.
    pub format: String,
    /// What the column says.
    pub description: String,
    /// 0 is shown, 1 only in a wide table.
    pub priority: i32,
}

impl ResourceType {
    /// `apiVersion` of its objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The sub-resource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
