//! Resource definitions, compiled from the options of the kinds' messages.
//!
//! Owns the definitions (names, verbs, sub-resources, columns), branded. The registry of `api` decides which of them
//! are served, and by which strategy.

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
    /// Singular name: `configmap`.
    pub singular: String,
    /// Kind: `ConfigMap`.
    pub kind: String,
    /// Kind of its lists: `ConfigMapList`.
    pub list_kind: String,
    /// Its objects live in namespaces.
    pub namespaced: bool,
    /// Verbs in the order in which discovery shows them.
    pub verbs: Vec<String>,
    /// Abbreviations: `cm`.
    pub short_names: Vec<String>,
    /// Sets of resources it belongs to: `all`.
    pub categories: Vec<String>,
    /// Sub-resources by name.
    pub subresources: Vec<Subresource>,
    /// Columns of its table; empty for the two that every kind has.
    pub columns: Vec<Column>,
    /// The type of its objects in the schema.
    pub type_id: TypeId,
    /// Rules that options state, without code.
    pub rules: Rules,
}

/// Rules of a kind that its options state, without code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The form of its objects' names.
    pub names: NameRule,
    /// PUT of an absent name creates the object.
    pub create_on_update: bool,
    /// PUT must name the resourceVersion that it changes.
    pub conditional_update: bool,
    /// Answers other than the object itself, such as errors of patches, must not repeat its values.
    pub confidential: bool,
    /// A delete answers with the object, even when it is gone.
    pub returns_deleted: bool,
    /// Propagation policy where neither the delete nor the object's finalizers name one.
    pub propagation: DefaultPropagation,
    /// The reference deletes the kind in a way of its own: a delete with `orphanDependents: false` waits for the
    /// dependents as one with `Foreground` does, and failed preconditions are reported in other words.
    pub has_kind_specific_deletion: bool,
    /// Field selectors besides `metadata.name` and `metadata.namespace`. New ones come last: objects stored at feature
    /// level 0 hold the fields by position.
    pub selectable: Vec<Selectable>,
    /// Paths of fields that writes of the status may not own, besides `spec`: `metadata.labels`.
    pub status_resets: Vec<String>,
    /// Paths of fields that writes of the object may not own, besides `status`.
    pub object_resets: Vec<String>,
}

/// A field that a selector may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// Its name: `spec.nodeName`.
    pub name: String,
    /// The field is stored, but no request may select by it.
    pub withheld: bool,
    /// Each of its values is that of a large part of all objects: lists by it are answered by a scan.
    pub unindexed: bool,
    /// An older name that selectors may use.
    pub synonym: Option<String>,
    /// Very many objects share a value of the field.
    pub coarse: bool,
}

/// The form of the names that a kind accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case labels separated by dots, at most 253 bytes.
    #[default]
    Dns1123Subdomain,
    /// One lower-case label, at most 63 bytes.
    Dns1123Label,
    /// One label that starts with a letter, at most 63 bytes.
    Dns1035Label,
    /// Anything that can stand in a path: not `.`, `..`, and no `/` or `%`.
    PathSegment,
}

/// Propagation policy of a delete that names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// Dependents are deleted after the object.
    #[default]
    Delete,
    /// Dependents stay.
    Orphan,
    /// The kind takes no part in garbage collection: no propagation policy has an effect.
    Unsupported,
}

/// A sub-resource: a path below an object.
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
    /// Paths of fields that its writes may not own; empty: those of the object.
    pub resets: Vec<String>,
    /// Fields of the object that a `Scale` shows; for the sub-resource `scale` alone.
    pub scale: Option<ScalePaths>,
}

/// Paths of the fields of an object that a `Scale` shows, as their steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// Wanted number of replicas.
    pub spec_replicas: Vec<String>,
    /// Observed number of replicas.
    pub status_replicas: Vec<String>,
    /// Selector of the pods: a label selector, a map of labels, or the text of a selector.
    pub selector: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` or empty.
    pub format: String,
    /// Description, with the brand's domains filled in.
    pub description: String,
    /// 0 is shown, 1 only in a wide table.
    pub priority: i32,
    /// JSONPath of the cell in the object; empty where the kind's strategy makes the cell.
    pub path: String,
}

impl ResourceType {
    /// `apiVersion` of its objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The sub-resource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        // few: the sub-resources of one resource.
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
