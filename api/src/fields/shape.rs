//! How ownership sees a value: the type tables reduced to what merging needs.
//!
//! Owns the mapping from a [`ValueType`] to a [`Shape`], field look-up through inlined messages, the zero a field has
//! when the wire writes it even if empty, and the path element of a list item.

use serde_json::{Map, Value};

use super::element::{KeyValue, PathElement};
use crate::schema::types::{Field, ListTopology, ObjectType, Scalar, Schema, TypeId, ValueType};

/// The merge behaviour of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'s> {
    /// A scalar.
    Scalar,
    /// A list, map or object that is owned as a whole.
    Atomic,
    /// An object with declared fields.
    Struct(&'s ObjectType),
    /// A map, each value on its own.
    Map(&'s ValueType),
    /// A list of scalars, each on its own.
    Set,
    /// A list of objects told apart by `keys`.
    Keyed { item: &'s ValueType, keys: &'s [Box<str>] },
}

/// A list item that cannot be told apart from others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A keyed list has null for an item.
    #[error("associative list with keys may not have a null element")]
    NullItem,
    /// A keyed list has a scalar or a list for an item.
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    /// None of the key fields is there.
    #[error(
        "associative list with keys has an element that omits all key fields {0} \
         (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
    /// A set has an object for a member.
    #[error("associative list without keys has an element that's a map type")]
    ObjectInSet,
    /// A set has a list for a member.
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    /// A set has null for a member.
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// The type of content without a declared type.
pub(super) static UNTYPED: ValueType = ValueType::Untyped;
static NULL: Value = Value::Null;
static FALSE: Value = Value::Bool(false);

/// The empty object that stands for an absent one.
pub(super) fn empty_object() -> &'static Value {
    static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Object(Map::new()));
    &EMPTY
}

fn empty_string() -> &'static Value {
    static EMPTY: Value = Value::String(String::new());
    &EMPTY
}

fn zero_number() -> &'static Value {
    static ZERO: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::from(0));
    &ZERO
}

fn zero_quantity() -> &'static Value {
    static ZERO: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::from("0"));
    &ZERO
}

impl<'s> Shape<'s> {
    /// The shape of a value of `ty`. Untyped content is taken as it comes: objects merge key by key, lists are atomic.
    pub(super) fn of(schema: &'s Schema, ty: &'s ValueType, value: Option<&Value>) -> Shape<'s> {
        match ty {
            ValueType::Scalar(_) => Shape::Scalar,
            ValueType::Object(id) => Shape::of_type(schema, *id),
            ValueType::List { topology: ListTopology::Atomic, .. } | ValueType::Map { atomic: true, .. } => {
                Shape::Atomic
            }
            ValueType::List { topology: ListTopology::Set, .. } => Shape::Set,
            ValueType::List { item, topology: ListTopology::Map(keys) } => Shape::Keyed { item, keys },
            ValueType::Map { value, atomic: false } => Shape::Map(value),
            ValueType::Untyped => match value {
                Some(Value::Object(_)) | None => Shape::Map(&UNTYPED),
                Some(Value::Array(_)) => Shape::Atomic,
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar,
            },
        }
    }

    /// The shape of what a path element leads to; `None` where the tables know nothing there.
    pub(super) fn below(self, schema: &'s Schema, element: &PathElement) -> Option<Shape<'s>> {
        let ty = match (self, element) {
            (Shape::Struct(ty), PathElement::Field(name)) => type_of_field(schema, ty, name)?,
            (Shape::Map(value), PathElement::Field(_)) => value,
            (Shape::Keyed { item, .. }, PathElement::Key(_)) => item,
            _ => return None,
        };
        Some(Shape::of(schema, ty, None))
    }

    /// The shape of an object type.
    pub(super) fn of_type(schema: &'s Schema, id: TypeId) -> Shape<'s> {
        let ty = schema.get(id);
        if ty.atomic { Shape::Atomic } else { Shape::Struct(ty) }
    }
}

/// The declared field `name` of `ty`, also where an inlined message brings it.
pub(crate) fn field_of<'s>(schema: &'s Schema, ty: &'s ObjectType, name: &str) -> Option<&'s Field> {
    if let Some(field) = ty.field(name) {
        return Some(field);
    }
    inlined(schema, ty).find_map(|inner| field_of(schema, inner, name))
}

/// The type of the content under `name`: a declared field's, or anything at all where unknown fields are kept.
pub(super) fn type_of_field<'s>(schema: &'s Schema, ty: &'s ObjectType, name: &str) -> Option<&'s ValueType> {
    match field_of(schema, ty, name) {
        Some(field) => Some(&field.value),
        None => ty.preserve_unknown.then_some(&UNTYPED),
    }
}

fn inlined<'s>(schema: &'s Schema, ty: &'s ObjectType) -> impl Iterator<Item = &'s ObjectType> {
    ty.fields.iter().filter(|field| field.name.is_empty()).filter_map(|field| match &field.value {
        ValueType::Object(id) => Some(schema.get(*id)),
        _ => None,
    })
}

/// Calls `visit` with each field that is written even when empty, inlined messages included.
pub(super) fn for_each_emitted<'s>(schema: &'s Schema, ty: &'s ObjectType, visit: &mut dyn FnMut(&'s Field)) {
    for field in ty.fields.iter().filter(|field| field.emit_empty && !field.name.is_empty()) {
        visit(field);
    }
    for inner in inlined(schema, ty) {
        for_each_emitted(schema, inner, visit);
    }
}

/// What the wire writes for an absent field that is written even when empty.
pub(super) fn zero_of(field: &Field) -> &'static Value {
    if field.presence {
        return &NULL;
    }
    match &field.value {
        ValueType::Object(_) => empty_object(),
        ValueType::List { .. } | ValueType::Map { .. } | ValueType::Untyped => &NULL,
        ValueType::Scalar(scalar) => match scalar {
            Scalar::String(_) => empty_string(),
            Scalar::Bool => &FALSE,
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => zero_number(),
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime => &NULL,
            Scalar::Quantity => zero_quantity(),
        },
    }
}

/// The path element of an item of a set or keyed list.
pub(super) fn element_of_item(
    schema: &Schema,
    shape: Shape<'_>,
    item: &Value,
) -> Result<PathElement, ItemError> {
    match shape {
        Shape::Keyed { item: ty, keys } => keyed_element(schema, ty, keys, item),
        Shape::Set | Shape::Scalar | Shape::Atomic | Shape::Struct(_) | Shape::Map(_) => match item {
            Value::Object(_) => Err(ItemError::ObjectInSet),
            Value::Array(_) => Err(ItemError::ListInSet),
            Value::Null => Err(ItemError::NullInSet),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(PathElement::Value(KeyValue::of(item)))
            }
        },
    }
}

fn keyed_element(
    schema: &Schema,
    ty: &ValueType,
    keys: &[Box<str>],
    item: &Value,
) -> Result<PathElement, ItemError> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err(ItemError::NullItem),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(ItemError::NotAnObject);
        }
    };
    let default = |name: &str| match ty {
        ValueType::Object(id) => field_of(schema, schema.get(*id), name)?.default.as_ref(),
        _ => None,
    };
    let found = |name: &str| map.get(name).or_else(|| default(name));
    let element = PathElement::key(keys.iter().filter_map(|name| Some((&**name, found(name)?))));
    match &element {
        PathElement::Key(fields) if fields.is_empty() && !keys.is_empty() => {
            let names: Vec<String> = keys.iter().map(|name| format!("{name:?}")).collect();
            Err(ItemError::NoKeys(format!("[{}]", names.join(" "))))
        }
        _ => Ok(element),
    }
}

/// Whether two values are the same to ownership: numbers by value, objects in any order.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => false,
    }
}
