//! Types of values: of a field, an item of a list or a value of a map, and their merge strategies.

use super::TypeId;
use crate::value::Value;

/// Protobuf form of a field's value, or of each value of its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The form of its type.
    Plain,
    /// A list inside a message of its own, in field 1.
    Wrapped,
    /// JSON: a boolean or an object of this type. A message: boolean in field 1, object in field 2.
    OrBool(TypeId),
    /// JSON: an object of this type or a list of them. A message: object in field 1, list in field 2.
    OrList(TypeId),
    /// JSON: an object of this type or a list of strings. A message: object in field 1, list in field 2.
    OrStrings(TypeId),
}

/// Type of a field, a list item or a map value.
#[derive(Clone, Debug, PartialEq)]
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
    /// A value of more than one form, or for which null has a meaning, in or below types with `any_form`.
    Member(Box<Member>),
}

/// A value in a type with `any_form`: an item of a list or a value of a map that is nullable or has a default, a list or a map
/// that keeps unknown fields, or a value of which an apply takes other forms than those of its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Type of values that are not null.
    pub value: ValueType,
    /// Null is a value of its own.
    pub nullable: bool,
    /// The value that stands for null.
    pub default: Option<Value>,
    /// A value of another form than `value` is kept as it is.
    pub keeps_unknown: bool,
    /// The forms of values that an apply may give the member.
    pub applied: Applied,
}

/// The forms of values that an apply takes at a place; the rules of the kind may refuse them afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Applied {
    /// Those of the type of the place.
    #[default]
    OfType,
    /// Any scalar: the schema names a format of texts.
    Scalars,
    /// Objects: nothing is known of their members.
    Objects,
    /// None: the schema allows no such member.
    Nothing,
    /// Any: the schema names no type. A value of another form than that of the place's type is owned as content without a type.
    Any,
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
    /// A resource quantity such as `100m` or `1Gi`; a number is accepted too.
    Quantity,
    /// An integer or a string.
    IntOrString,
}

/// The units in which server-side apply and strategic merge treat a list.
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

impl ValueType {
    /// The type of a value that is not null.
    pub fn plain(&self) -> &ValueType {
        match self {
            ValueType::Member(member) => member.value.plain(),
            other => other,
        }
    }

    /// The forms of values that an apply may give a place of this type.
    pub fn applied(&self) -> Applied {
        match self {
            ValueType::Member(member) if member.applied != Applied::OfType => member.applied,
            ValueType::Member(member) => member.value.applied(),
            _ => Applied::OfType,
        }
    }

    /// Whether values of another form are kept as they are.
    pub fn keeps_unknown(&self) -> bool {
        match self {
            ValueType::Member(member) => member.keeps_unknown || member.value.keeps_unknown(),
            _ => false,
        }
    }
}

impl Scalar {
    /// The zero value; times have none but `null`.
    pub fn zero_value(&self) -> Value {
        match self {
            Scalar::String(_) | Scalar::Bytes => Value::from(""),
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => Value::from(0),
            Scalar::Quantity => Value::from("0"),
            Scalar::Time | Scalar::MicroTime => Value::Null,
        }
    }
}
