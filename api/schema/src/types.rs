//! Compiled type tables: the JSON and Protobuf forms, defaults, list semantics and patch directives of each type.
//!
//! Owns the shape of the tables: objects and their fields here, what a field holds in [`values`]; [`schema`] says which schema owns a type. Those of the built-in kinds are compiled once at start from the
//! descriptors in `proto/`; every codec, patcher and ownership tracker walks them. They hold no behaviour of a single kind: that
//! belongs to its strategy.

mod schema;
mod values;

use std::collections::BTreeSet;

pub use self::schema::Schema;
pub use self::values::{Applied, ListTopology, Member, PatchStrategy, Scalar, ValueType, Wire};
use super::index::FieldIndex;
use crate::value::{Map, SmolStr, Value};

/// Index of an [`ObjectType`] in its [`Schema`], and in every schema that has that one as its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// One message: an object with named fields.
#[derive(Debug)]
pub struct ObjectType {
    /// Full name, unique in the schema: `core.v1.ConfigMap`.
    pub name: Box<str>,
    /// Fields in canonical output order. Those of inlined messages stand here like its own.
    pub fields: Box<[Field]>,
    /// Position in `fields` by JSON name.
    by_name: FieldIndex,
    /// Positions of the fields that are written even when absent.
    always: Box<[u32]>,
    /// The Protobuf form; `None`: it has no numbers.
    numbers: Option<Box<Numbers>>,
    /// Instances carry `kind` and `apiVersion`.
    pub head: bool,
    /// Groups of fields of which at most one is set.
    pub unions: Box<[Union]>,
    /// Server-side apply owns the object as a whole (`mapType: atomic`).
    pub atomic: bool,
    /// Unknown fields are kept; false for all built-in types.
    pub preserve_unknown: bool,
    /// Unknown fields are kept, but of an object or a list in them nothing stays inside. False for all built-in types.
    pub keeps_closed: bool,
    /// A value of any JSON type is taken for each field, and the type's own place may hold one: the rules of the kind refuse it,
    /// not the decoder. Of duplicate members the last one counts as a whole. False for all built-in types.
    pub any_form: bool,
    /// Bytes that defaults add to an empty object of the type, texts included; counted for each object that is decoded. 0 for
    /// built-in types, whose defaults are few.
    pub filled_bytes: u32,
    /// A type that is never decoded: of the defaults that a definition declares for `apiVersion`, `kind` and `metadata` of an object of
    /// another kind, which are read as those of any object. `None` for all built-in types.
    pub head_defaults: Option<TypeId>,
}

/// The Protobuf numbers of a type.
#[derive(Debug)]
struct Numbers {
    /// Those of the fields that are not inlined, sorted, each with its position.
    fields: Box<[(u32, u32)]>,
    /// The inlined messages, each by the path of field numbers to it.
    inlined: Box<[Box<[u32]>]>,
}

/// Fields of which at most one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// The field whose value names the one that is set.
    pub discriminator: Option<Box<str>>,
    /// JSON names of the fields, each with the discriminator's value when it is set.
    pub members: Box<[(Box<str>, Box<str>)]>,
}

/// One field of an [`ObjectType`]. A kind may have thousands: rare properties stand in [`Extra`].
#[derive(Debug, PartialEq)]
pub struct Field {
    /// JSON name, in the form of member names in values.
    pub name: SmolStr,
    /// Protobuf field number; 0: it has none, for kinds that have no Protobuf form.
    pub number: u32,
    /// Type of the field's value.
    pub value: ValueType,
    /// The field must be there and not null.
    pub required: bool,
    /// The value that defaulting sets where the field is absent.
    pub default: Option<Box<Value>>,
    /// Written even when empty: `""`, `{}`, `0` or `null`, as the reference's encoder does.
    pub emit_empty: bool,
    /// Absence differs from the zero value: an explicit `0`, `""` or `{}` is kept. Where this is false a zero scalar,
    /// an empty list and an empty map are the same as an absent field.
    pub presence: bool,
    /// Null is a value of its own, kept and written. It is no absence then.
    pub nullable: bool,
    /// An explicit empty list in JSON is kept by the decoder, although it is not written.
    pub retains_empty: bool,
    /// A map of amounts in which defaulting rounds up what is finer than a thousandth (a ResourceList).
    pub rounds_amounts: bool,
    /// Overrides `atomic` of the field's type: whether server-side apply owns the object as a whole.
    pub atomic: Option<bool>,
    /// The `.proto` file names the list's topology, which published schemas then show. Lists without one are atomic.
    pub topology_declared: bool,
    /// How the value is wrapped in Protobuf.
    pub wire: Wire,
    /// Attributes that few fields have.
    extra: Option<Box<Extra>>,
}

/// Attributes of fields that few built-in types have, and no type that a definition declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Strategic merge patch directives of the field.
    pub patch: PatchStrategy,
    /// Protobuf numbers of the inlined messages around the field, outermost first.
    pub inlined_in: Box<[u32]>,
    /// Full name of the message behind an untyped value (`meta.v1.FieldsV1`): the tables have no type of this name,
    /// but published schemas have.
    pub untyped_name: Option<Box<str>>,
}

impl ObjectType {
    /// A type with these fields, which come in canonical output order. Ownership is by member, unknown fields are
    /// dropped, and there is no head and no union: set those fields where they differ.
    pub fn new(name: impl Into<Box<str>>, fields: Vec<Field>) -> Self {
        let always = (0..).zip(&fields).filter(|(_, field)| field.emit_empty).map(|(at, _)| at);
        Self {
            name: name.into(),
            by_name: FieldIndex::new(fields.iter().map(|field| field.name.as_str())),
            always: always.collect(),
            numbers: Numbers::of(&fields),
            fields: fields.into(),
            head: false,
            unions: Box::default(),
            atomic: false,
            preserve_unknown: false,
            keeps_closed: false,
            any_form: false,
            filled_bytes: 0,
            head_defaults: None,
        }
    }

    /// Whether members that are not declared are kept, whole or in part.
    pub fn keeps_undeclared(&self) -> bool {
        self.preserve_unknown || self.keeps_closed
    }

    /// The field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|at| &self.fields[at])
    }

    /// Position in `fields` of the field with this JSON name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.find(name, |at| &self.fields[at].name)
    }

    /// The field with this Protobuf number in the message itself, not in one that is inlined in it.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Field> {
        let numbers = &self.numbers.as_ref()?.fields;
        let found = numbers.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        Some(&self.fields[numbers[found].1 as usize])
    }

    /// The path of the message in field `number` of the message at the path `outer`, if it is inlined here.
    pub(crate) fn inlined(&self, outer: &[u32], number: u32) -> Option<&[u32]> {
        let inlined = &self.numbers.as_ref()?.inlined;
        // few: most types have no inlined message, one has two.
        inlined.iter().find(|way| way.split_last() == Some((&number, outer))).map(|way| &**way)
    }

    /// Whether `other` has the same fields and attributes, name and Protobuf form aside.
    pub fn is_alike(&self, other: &ObjectType) -> bool {
        let flags = |of: &ObjectType| [of.head, of.atomic, of.preserve_unknown, of.keeps_closed, of.any_form];
        flags(self) == flags(other)
            && (&self.fields, &self.unions) == (&other.fields, &other.unions)
            && (self.filled_bytes, self.head_defaults) == (other.filled_bytes, other.head_defaults)
    }

    /// Positions of the fields that are written even when absent.
    pub fn always_written(&self) -> impl Iterator<Item = usize> + '_ {
        self.always.iter().map(|&at| at as usize)
    }
}

impl Numbers {
    fn of(fields: &[Field]) -> Option<Box<Numbers>> {
        let own = (0..).zip(fields).filter(|(_, field)| field.number > 0 && field.inlined_in().is_empty());
        let mut by_number: Vec<(u32, u32)> = own.map(|(at, field)| (field.number, at)).collect();
        by_number.sort_unstable();
        let ways = fields.iter().flat_map(|field| {
            let way = field.inlined_in();
            (1..=way.len()).map(move |len| &way[..len])
        });
        let inlined: BTreeSet<&[u32]> = ways.collect();
        let inlined: Box<[Box<[u32]>]> = inlined.into_iter().map(Box::from).collect();
        let is_none = by_number.is_empty() && inlined.is_empty();
        (!is_none).then(|| Box::new(Numbers { fields: by_number.into(), inlined }))
    }
}

impl Field {
    /// A field with this name, number and value: optional, without default, presence and patch directives.
    pub fn new(name: impl Into<SmolStr>, number: u32, value: ValueType) -> Self {
        Self {
            name: name.into(),
            number,
            value,
            required: false,
            default: None,
            emit_empty: false,
            presence: false,
            nullable: false,
            retains_empty: false,
            rounds_amounts: false,
            atomic: None,
            topology_declared: false,
            wire: Wire::Plain,
            extra: None,
        }
    }

    /// The field with these further attributes.
    #[must_use]
    pub fn with(self, extra: Extra) -> Self {
        let extra = (extra != Extra::default()).then(|| Box::new(extra));
        Self { extra, ..self }
    }

    /// Strategic merge patch directives of the field.
    pub fn patch(&self) -> &PatchStrategy {
        static PLAIN: PatchStrategy =
            PatchStrategy { merge: false, replace: false, retain_keys: false, merge_key: None };
        self.extra.as_ref().map_or(&PLAIN, |extra| &extra.patch)
    }

    /// Protobuf numbers of the inlined messages around the field, outermost first; mostly none.
    pub fn inlined_in(&self) -> &[u32] {
        self.extra.as_ref().map(|extra| &*extra.inlined_in).unwrap_or_default()
    }

    /// Full name of the message behind an untyped value: that of [`Extra`].
    pub fn untyped_name(&self) -> Option<&str> {
        self.extra.as_ref()?.untyped_name.as_deref()
    }

    /// Whether `value` is the zero value, which means absent where the field has no presence.
    pub(crate) fn is_zero(&self, value: &Value) -> bool {
        match (&self.value, value) {
            (_, Value::Null) => true,
            (ValueType::Untyped, _) => false,
            (ValueType::Object(_), Value::Object(map)) => !self.emit_empty && map.is_empty(),
            (ValueType::Map { .. }, Value::Object(map)) => map.is_empty(),
            (_, Value::Array(items)) => items.is_empty(),
            (ValueType::Scalar(Scalar::Quantity), Value::String(text)) => text == "0",
            (ValueType::Scalar(Scalar::IntOrString), Value::String(_)) => false,
            (_, Value::String(text)) => text.is_empty(),
            (_, Value::Bool(value)) => !value,
            (_, Value::Number(number)) => number.as_f64() == Some(0.0),
            (_, Value::Object(_)) => false,
        }
    }

    /// Whether the encoder writes the field where it holds `value`.
    pub(crate) fn is_written(&self, value: &Value) -> bool {
        self.emit_empty || if value.is_null() { self.nullable } else { self.presence || !self.is_zero(value) }
    }

    /// The value of an absent field that is written even when empty: the zero value, or `null` where absence is a state
    /// of its own. An object's zero value is `{}`; the caller adds the fields that are always written.
    pub fn empty_value(&self) -> Value {
        if self.presence {
            return Value::Null;
        }
        match &self.value {
            ValueType::Object(_) => Value::Object(Map::new()),
            // Absent bytes differ from empty bytes.
            ValueType::Scalar(Scalar::Bytes) => Value::Null,
            ValueType::Scalar(scalar) => scalar.zero_value(),
            ValueType::List { .. } | ValueType::Map { .. } | ValueType::Untyped | ValueType::Member(_) => {
                Value::Null
            }
        }
    }
}

#[cfg(test)]
mod tests;
