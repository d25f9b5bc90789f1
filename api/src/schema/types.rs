//! Compiled type tables: what one kind's JSON, Protobuf, defaults, list semantics and patch directives look like.
//!
//! Owns the shape of the tables. They are compiled once at start from the descriptors in `proto/` (and from the
//! OpenAPI schema of a custom resource definition); every codec, patcher and ownership tracker walks them. They hold
//! no behaviour of a single kind: that is a strategy's.

use std::collections::HashMap;

use serde_json::Value;

/// Index of an [`ObjectType`] in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// All object types that refer to each other, in one arena.
#[derive(Debug, Default)]
pub struct Schema {
    pub(crate) types: Vec<ObjectType>,
    pub(crate) by_name: HashMap<Box<str>, TypeId>,
}

/// One message: an object with named fields.
#[derive(Debug)]
pub struct ObjectType {
    /// Full name, unique in the schema: `core.v1.ConfigMap`.
    pub name: Box<str>,
    /// Fields in canonical output order.
    pub fields: Box<[Field]>,
    /// Position in `fields` by JSON name.
    pub(crate) by_name: HashMap<Box<str>, u16>,
    /// Server-side apply owns the object as a whole (`mapType: atomic`).
    pub atomic: bool,
    /// Unknown fields are kept (custom resources that ask for it); built-in types drop them.
    pub preserve_unknown: bool,
}

/// One field of an [`ObjectType`].
#[derive(Debug)]
pub struct Field {
    /// JSON name. Empty for an inlined message (its fields stand in the parent).
    pub name: Box<str>,
    /// Protobuf field number.
    pub number: u32,
    /// What the field holds.
    pub value: ValueType,
    /// A decoder's caller must find it set.
    pub required: bool,
    /// Filled in when absent.
    pub default: Option<Value>,
    /// Written even when empty: `""`, `{}`, `0` or `null`, as the reference's encoder does.
    pub emit_empty: bool,
    /// Strategic merge patch directives of the field.
    pub patch: PatchStrategy,
}

/// What a field, a list item or a map value holds.
#[derive(Clone, Debug)]
pub enum ValueType {
    /// A leaf.
    Scalar(Scalar),
    /// A nested message.
    Object(TypeId),
    /// A repeated field.
    List {
        /// Type of each item.
        item: Box<ValueType>,
        /// How server-side apply merges it.
        topology: ListTopology,
    },
    /// A map with string keys.
    Map {
        /// Type of each value.
        value: Box<ValueType>,
        /// Server-side apply owns the map as a whole.
        atomic: bool,
    },
    /// Any JSON value, kept as it is (RawExtension, JSON, FieldsV1).
    Untyped,
}

/// Leaf types with their JSON forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string; `Some` lists the values of an enumeration.
    String(Option<Box<[Box<str>]>>),
    /// true or false.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Double,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339, second precision, UTC.
    Time,
    /// RFC 3339, microsecond precision, UTC.
    MicroTime,
    /// A duration as the reference writes it, for example `1m30s`.
    Duration,
    /// A resource quantity such as `100m` or `1Gi`; a number is accepted and kept as its text.
    Quantity,
    /// An integer or a string.
    IntOrString,
}

/// How server-side apply and strategic merge see a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListTopology {
    /// One value, replaced as a whole.
    Atomic,
    /// Scalars, each owned by itself.
    Set,
    /// Objects told apart by these fields.
    Map(Box<[Box<str>]>),
}

/// Strategic merge patch directives (`patchStrategy`, `patchMergeKey`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged by `merge_key` (or as a set where there is none) instead of replaced.
    pub merge: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
    /// Keys that the patch does not name are dropped (`retainKeys`).
    pub retain_keys: bool,
    /// The field that tells list items apart.
    pub merge_key: Option<Box<str>>,
}

impl Schema {
    /// The type behind `id`. An id comes from this schema, so it is always there.
    pub fn get(&self, id: TypeId) -> &ObjectType {
        &self.types[id.0 as usize]
    }

    /// The type called `name` (`core.v1.ConfigMap`).
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }
}

impl ObjectType {
    /// The field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|&at| &self.fields[at as usize])
    }
}
