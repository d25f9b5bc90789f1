//! Merge behaviour of values: the type tables reduced to the needs of server-side apply.
//!
//! Owns the mapping from a position in the tables to a [`Shape`], and the path element of a list item.

use orch_rules::validate::tree::ParallelLookup;
use orch_schema::budget::count_step;
use orch_schema::types::{Applied, Field, ListTopology, ObjectType, Scalar, Schema, TypeId, ValueType, Wire};
use orch_schema::value::{Map, Value};

use super::element::{KeyValue, PathElement};

/// The merge behaviour of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'s> {
    /// A scalar.
    Scalar,
    /// A list, map or object that is owned as one leaf.
    Atomic,
    /// An object with declared fields.
    Struct(&'s ObjectType),
    /// A map whose values are owned one by one.
    Map(&'s ValueType),
    /// A list of scalars that are owned one by one.
    Set,
    /// A list of objects that are identified by the fields `keys`.
    Keyed { item: &'s ValueType, keys: &'s [Box<str>] },
}

/// Why a list item has no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A keyed list has null for an item.
    #[error("associative list with keys may not have a null element")]
    NullItem,
    /// A keyed list has a scalar or a list for an item.
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    /// The item has none of the key fields, and they have no defaults.
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

/// The message of fields that hold documents of other programs.
const DOCUMENT: &str = "runtime.RawExtension";

/// The type of content without a declared type.
static UNTYPED: ValueType = ValueType::Untyped;

/// The type of `apiVersion` and `kind`, which are not among the declared fields.
static HEAD: ValueType = ValueType::Scalar(Scalar::String(None));

fn is_head(ty: &ObjectType, name: &str) -> bool {
    ty.head && (name == "apiVersion" || name == "kind")
}

/// Whether `name` is a declared field of `ty`, as opposed to a preserved unknown one.
pub(super) fn is_declared(ty: &ObjectType, name: &str) -> bool {
    ty.field(name).is_some() || is_head(ty, name)
}

/// The empty object that stands for an absent one.
pub(super) fn empty_object() -> &'static Value {
    static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Object(Map::new()));
    &EMPTY
}

/// The position of a value in the tables: a field, a list item, a map value, or content without a declared type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'s> {
    ty: &'s ValueType,
    /// The field's override of its type's atomicity.
    atomic: Option<bool>,
    /// Forms of values that are taken beside that of the type.
    applied: Applied,
}

impl<'s> Slot<'s> {
    /// Content without a declared type.
    pub(super) const UNTYPED: Slot<'static> = Slot { ty: &UNTYPED, atomic: None, applied: Applied::OfType };

    /// An item or a map value.
    pub(super) fn of(ty: &'s ValueType) -> Self {
        Slot { ty: ty.plain(), atomic: None, applied: ty.applied() }
    }

    /// A declared field. A field that takes several JSON types counts as untyped. One that holds the document of another
    /// program is owned as a whole (vectors/kinds, k-controllerrevision).
    pub(super) fn of_field(field: &'s Field) -> Self {
        match field.wire {
            Wire::OrBool(_) | Wire::OrList(_) | Wire::OrStrings(_) => Slot::UNTYPED,
            Wire::Plain | Wire::Wrapped => {
                let is_document = field.untyped_name() == Some(DOCUMENT);
                let atomic = field.atomic.or(is_document.then_some(true));
                Slot { ty: field.value.plain(), atomic, applied: field.value.applied() }
            }
        }
    }

    /// The member `name` of an object of the type `ty`: a declared field, or untyped where unknown fields are
    /// preserved or a schema names no member at all.
    pub(super) fn in_object(ty: &'s ObjectType, name: &str) -> Option<Self> {
        match ty.field(name) {
            Some(field) => Some(Slot::of_field(field)),
            None if is_head(ty, name) => Some(Slot::of(&HEAD)),
            None => {
                let has_no_members = ty.any_form && ty.fields.is_empty();
                (ty.keeps_undeclared() || has_no_members).then_some(Slot::UNTYPED)
            }
        }
    }

    /// The declared field `name` of an object in this slot, however the object merges.
    pub(super) fn field(self, schema: &'s Schema, name: &str) -> Option<Self> {
        match self.ty.plain() {
            ValueType::Object(id) => schema.get(*id).field(name).map(Slot::of_field),
            _ => None,
        }
    }

    /// The items of a list in this slot, however the list merges. Those without a declared type are owned as a whole.
    pub(super) fn item(self) -> Option<Self> {
        match self.ty.plain() {
            ValueType::List { item, .. } => Some(Slot::of(item)),
            ValueType::Untyped => Some(Slot { atomic: Some(true), ..Slot::UNTYPED }),
            _ => None,
        }
    }

    /// Whether any value is allowed, and shaped by itself.
    pub(super) fn is_untyped(self) -> bool {
        matches!(self.ty, ValueType::Untyped) && self.atomic != Some(true)
    }

    /// Whether values of any form are allowed, and one of another form than the type's is shaped by itself.
    pub(super) fn takes_any_form(self) -> bool {
        self.applied == Applied::Any
    }

    /// Forms of values that are taken beside that of the type.
    pub(super) fn applied(self) -> Applied {
        self.applied
    }

    /// The slot in which `value` is shaped: untyped where it is of another form than the type, and any is taken.
    pub(super) fn of_value(self, value: Option<&Value>) -> Self {
        let is_of_type = match (self.ty, value) {
            (_, None | Some(Value::Null)) | (ValueType::Untyped | ValueType::Member(_), _) => true,
            (ValueType::Object(_) | ValueType::Map { .. }, Some(value)) => value.is_object(),
            (ValueType::List { .. }, Some(value)) => value.is_array(),
            (ValueType::Scalar(_), Some(value)) => !value.is_object() && !value.is_array(),
        };
        if self.takes_any_form() && !is_of_type { Slot::UNTYPED } else { self }
    }

    /// The declared type.
    pub(super) fn value_type(self) -> &'s ValueType {
        self.ty
    }

    /// The shape of a value in this slot. Untyped content is shaped by its value: objects merge key by key, lists are
    /// atomic.
    pub(super) fn shape(self, schema: &'s Schema, value: Option<&Value>) -> Shape<'s> {
        let slot = self.of_value(value);
        match slot.ty {
            ValueType::Scalar(_) => Shape::Scalar,
            ValueType::Object(id) => match slot.atomic {
                Some(true) => Shape::Atomic,
                Some(false) => Shape::Struct(schema.get(*id)),
                None => Shape::of_type(schema, *id),
            },
            ValueType::List { topology: ListTopology::Atomic, .. } | ValueType::Map { atomic: true, .. } => {
                Shape::Atomic
            }
            ValueType::List { topology: ListTopology::Set, .. } => Shape::Set,
            ValueType::List { item, topology: ListTopology::Map(keys) } => Shape::Keyed { item, keys },
            ValueType::Map { value, atomic: false } => Shape::Map(value),
            ValueType::Untyped => match value {
                Some(Value::Object(_)) | None if slot.atomic == Some(true) => Shape::Atomic,
                Some(Value::Object(_)) | None => Shape::Map(&UNTYPED),
                Some(Value::Array(_)) => Shape::Atomic,
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar,
            },
            ValueType::Member(member) => Slot::of(&member.value).shape(schema, value),
        }
    }
}

impl<'s> Shape<'s> {
    /// The shape of the value behind a path element; `None` where the tables have no such element.
    pub(super) fn below(self, schema: &'s Schema, element: &PathElement) -> Option<Shape<'s>> {
        let slot = match (self, element) {
            (_, PathElement::Field(name)) => self.member(name)?,
            (Shape::Keyed { item, .. }, PathElement::Key(_)) => Slot::of(item),
            _ => return None,
        };
        Some(slot.shape(schema, None))
    }

    /// The slot of the member `name` of an object or a map.
    pub(super) fn member(self, name: &str) -> Option<Slot<'s>> {
        match self {
            Shape::Struct(ty) => Slot::in_object(ty, name),
            Shape::Map(value) => Some(Slot::of(value)),
            Shape::Scalar | Shape::Atomic | Shape::Set | Shape::Keyed { .. } => None,
        }
    }

    /// The slot of the items of a keyed list.
    pub(super) fn item(self) -> Option<Slot<'s>> {
        match self {
            Shape::Keyed { item, .. } => Some(Slot::of(item)),
            Shape::Scalar | Shape::Atomic | Shape::Struct(_) | Shape::Map(_) | Shape::Set => None,
        }
    }

    /// The shape of an object type.
    pub(super) fn of_type(schema: &'s Schema, id: TypeId) -> Shape<'s> {
        let ty = schema.get(id);
        if ty.atomic { Shape::Atomic } else { Shape::Struct(ty) }
    }
}

/// Calls `visit` with each field that is encoded even when absent.
pub(super) fn for_each_emitted<'s>(ty: &'s ObjectType, visit: &mut dyn FnMut(&'s Field)) {
    for at in ty.always_written() {
        visit(&ty.fields[at]);
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

/// Whether two items of a keyed list have the same keys, defaults included. False if they have none.
pub(super) fn is_same_item(schema: &Schema, shape: Shape<'_>, a: &Value, b: &Value) -> bool {
    let (Shape::Keyed { item, keys }, Value::Object(a), Value::Object(b)) = (shape, a, b) else {
        return false;
    };
    let default = |name: &str| match item.plain() {
        ValueType::Object(id) => schema.get(*id).field(name)?.default.as_deref(),
        _ => None,
    };
    let mut any = false;
    keys.iter().all(|name| {
        let default = default(name);
        match (a.get(name).or(default), b.get(name).or(default)) {
            (Some(a), Some(b)) => {
                any = true;
                same(a, b)
            }
            (None, None) => true,
            _ => false,
        }
    }) && any
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
    let default = |name: &str| match ty.plain() {
        ValueType::Object(id) => schema.get(*id).field(name)?.default.as_deref(),
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

/// Whether two values are equal to server-side apply: numbers by value, objects in any order.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| count_step() && same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut there = ParallelLookup::new(b);
            a.len() == b.len()
                && a.iter().all(|(key, a)| count_step() && there.get(key).is_some_and(|b| same(a, b)))
        }
        _ => false,
    }
}
