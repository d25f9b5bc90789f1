//! Decodes JSON bytes into an object in canonical form, along the tables.
//!
//! Owns the behaviour of the reference's decoder: unknown fields are dropped and reported, the last of duplicate fields
//! is kept and the duplicate reported, null means absence, texts get their canonical form. Defaults are not applied.
//! Recursion is bounded by [`Limits::depth_max`], whatever the bytes are.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::any_form::order_strict_errors;
use super::duplicates::{DUPLICATES_MAX, DuplicateMember, duplicate_messages};
use super::error::{DecodeError, Shape, StrictError};
use super::object::Level;
use super::reader::Reader;
use super::scan::text_of;
use crate::budget::{HELD_BYTES_MAX, MemoryCounter, PATCHED_BYTES_MAX};
use crate::fill::{empty_object, zero_value};
use crate::types::{Scalar, Schema, TypeId, ValueType, Wire};
use crate::value::Entry;
use crate::value::{Map, Value};

/// Bounds of one decoding.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nesting of objects and lists. 100 by default: every other reader in the process (those of stored bytes
    /// stop at 128) then reads what this one has accepted, also inside an envelope, and no stack overflows.
    pub depth_max: usize,
    /// Bytes that the document may hold in memory, strings excepted.
    pub held_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth_max: 100, held_bytes_max: HELD_BYTES_MAX }
    }
}

impl Limits {
    /// The bounds of a document that a patch made.
    pub fn patched() -> Self {
        Self { held_bytes_max: PATCHED_BYTES_MAX, ..Self::default() }
    }
}

static STRING: ValueType = ValueType::Scalar(Scalar::String(None));

/// `apiVersion` and `kind` as the object states them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`; empty where the object has none.
    pub api_version: String,
    /// `kind`; empty where the object has none.
    pub kind: String,
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object in canonical form, without `kind` and `apiVersion`.
    pub value: Value,
    /// Its `kind` and `apiVersion`.
    pub head: Head,
    /// Unknown and duplicate fields in the order they were met, each once, at most a hundred.
    pub strict: Vec<StrictError>,
}

/// Reads the JSON of an object of type `type_id`. `null` is the empty object. Bytes that are not UTF-8 become U+FFFD,
/// as in the reference.
pub fn decode_json(
    schema: &Schema,
    type_id: TypeId,
    json: &[u8],
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    decode_with(schema, type_id, json, limits, Nulls::Absence)
}

/// [`decode_json`] of the result of a server-side apply. In objects of types that take any form null stays a value, also
/// where it is not allowed: the reference replaces it by the default, and otherwise leaves it to the rules to refuse
/// (corpus, `sample.apply` of the project fluid).
pub fn decode_applied(
    schema: &Schema,
    type_id: TypeId,
    json: &[u8],
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    decode_with(schema, type_id, json, limits, Nulls::Kept)
}

fn decode_with(
    schema: &Schema,
    type_id: TypeId,
    json: &[u8],
    limits: Limits,
    nulls: Nulls,
) -> Result<Decoded, DecodeError> {
    let text = text_of(json);
    let mut decoder = Decoder { nulls, ..Decoder::new(schema, &text, limits) };
    let ty = schema.get(type_id);
    let value = match decoder.reader.peek() {
        Some(b'n') => {
            decoder.reader.literal("null")?;
            empty_object(schema, ty)
        }
        _ => decoder.object(ty, Map::new(), Level::Root)?,
    };
    decoder.reader.end()?;
    if ty.any_form {
        order_strict_errors(&mut decoder.strict);
    }
    Ok(Decoded { value, head: decoder.head, strict: decoder.strict })
}

/// Reads the JSON of content that has no declared type.
pub(crate) fn decode_untyped(schema: &Schema, json: &[u8], limits: Limits) -> Result<Value, DecodeError> {
    read_json(schema, json, limits).map(|(value, _)| value)
}

/// Reads the JSON of content that has no declared type. Duplicate members are returned beside it.
pub fn read_json(
    schema: &Schema,
    json: &[u8],
    limits: Limits,
) -> Result<(Value, Vec<StrictError>), DecodeError> {
    let text = text_of(json);
    let mut decoder = Decoder::new(schema, &text, limits);
    let value = decoder.untyped()?;
    decoder.reader.end()?;
    Ok((value, decoder.strict))
}

/// Reads JSON without a declared type. Duplicate members are reported in the words of the reference's YAML reader.
pub(crate) fn read_json_by_line(
    schema: &Schema,
    text: &str,
    limits: Limits,
) -> Result<(Value, Vec<String>), DecodeError> {
    let mut decoder = Decoder::new(schema, text, limits);
    let value = decoder.untyped()?;
    decoder.reader.end()?;
    Ok((value, duplicate_messages(&decoder.duplicates, text)))
}

/// The meaning of a null in a type that takes any form, where null is no value of the type and has no default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// The member is absent.
    Absence,
    /// The member is null.
    Kept,
}

/// The state of decoding one JSON text. Objects are decoded in `object.rs`, leaves in `leaf.rs`.
pub(super) struct Decoder<'s, 'a> {
    pub(super) schema: &'s Schema,
    pub(super) reader: Reader<'a>,
    pub(super) limits: Limits,
    pub(super) nulls: Nulls,
    pub(super) depth: usize,
    pub(super) held: MemoryCounter,
    pub(super) path: SmallVec<[Step<'s, 'a>; 16]>,
    pub(super) head: Head,
    pub(super) strict: Vec<StrictError>,
    /// The current value is within the metadata of an object of another kind.
    pub(super) is_in_other_metadata: bool,
    /// Duplicate members of maps and of content without a type, the first [`DUPLICATES_MAX`].
    duplicates: Vec<DuplicateMember>,
}

/// One element of a path.
pub(super) enum Step<'s, 'a> {
    Field(&'s str),
    Key(Cow<'a, str>),
    Index(usize),
}

impl<'s, 'a> Decoder<'s, 'a> {
    fn new(schema: &'s Schema, text: &'a str, limits: Limits) -> Self {
        Decoder {
            schema,
            reader: Reader::new(text),
            limits,
            nulls: Nulls::Absence,
            depth: 0,
            held: MemoryCounter::new(limits.held_bytes_max),
            path: SmallVec::new(),
            head: Head::default(),
            strict: Vec::new(),
            is_in_other_metadata: false,
            duplicates: Vec::new(),
        }
    }

    /// Reads a value that is not null. The result is null for a time that means unset.
    pub(super) fn value(
        &mut self,
        ty: &'s ValueType,
        wire: Wire,
        earlier: Option<Value>,
    ) -> Result<Value, DecodeError> {
        match ty {
            ValueType::Scalar(scalar) => self.scalar(scalar),
            ValueType::Object(id) => {
                let map = match earlier {
                    Some(Value::Object(map)) => map,
                    _ => Map::new(),
                };
                self.object(self.schema.get(*id), map, Level::Nested)
            }
            ValueType::List { item, .. } => self.list(item),
            ValueType::Map { value, .. } => self.map(value, wire, earlier),
            ValueType::Member(member) => self.value(&member.value, wire, earlier),
            ValueType::Untyped => match wire {
                Wire::Plain | Wire::Wrapped => self.untyped(),
                Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id) => self.either(wire, id),
            },
        }
    }

    /// Reads a value that has one of two forms, told apart by the first byte.
    fn either(&mut self, wire: Wire, id: TypeId) -> Result<Value, DecodeError> {
        let schema = self.schema;
        match (self.reader.peek(), wire) {
            (Some(b'{'), _) => self.object(schema.get(id), Map::new(), Level::Nested),
            (_, Wire::OrBool(_)) => self.scalar(&Scalar::Bool),
            (_, Wire::OrStrings(_)) => self.list(&STRING),
            (_, Wire::OrList(id)) => {
                self.items(|decoder| decoder.object(schema.get(id), Map::new(), Level::Nested))
            }
            (_, Wire::Plain | Wire::Wrapped) => self.untyped(),
        }
    }

    fn list(&mut self, item: &'s ValueType) -> Result<Value, DecodeError> {
        self.items(|decoder| decoder.member(item, Wire::Plain))
    }

    fn map(&mut self, ty: &'s ValueType, wire: Wire, earlier: Option<Value>) -> Result<Value, DecodeError> {
        let map = self.entries(|decoder| decoder.member(ty, wire))?;
        match earlier {
            Some(Value::Object(mut earlier)) => {
                earlier.extend(map);
                Ok(Value::Object(earlier))
            }
            _ => Ok(Value::Object(map)),
        }
    }

    /// An item of a list or a value of a map: null is the zero value there.
    fn member(&mut self, ty: &'s ValueType, wire: Wire) -> Result<Value, DecodeError> {
        if self.null()? {
            return Ok(zero_value(self.schema, ty));
        }
        let value = self.value(ty, wire, None)?;
        // An empty list is the same as none, here too.
        let is_empty_list =
            matches!((ty, &value), (ValueType::List { .. }, Value::Array(items)) if items.is_empty());
        Ok(if is_empty_list { Value::Null } else { value })
    }

    /// Reads a list, each item by `read`.
    pub(super) fn items(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Value, DecodeError>,
    ) -> Result<Value, DecodeError> {
        self.open(b'[', Shape::List.expected())?;
        let mut items = Vec::new();
        let mut more = !self.is_closed(b']');
        while more {
            self.held.item()?;
            self.path.push(Step::Index(items.len()));
            items.push(read(self)?);
            self.path.pop();
            more = self.reader.has_more(b']')?;
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    /// Reads a map, each value by `read`.
    pub(super) fn entries(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Value, DecodeError>,
    ) -> Result<Map, DecodeError> {
        self.open(b'{', Shape::Map.expected())?;
        let mut map = Map::new();
        let mut more = !self.is_closed(b'}');
        while more {
            let key = self.key()?;
            self.held.entry()?;
            self.path.push(Step::Key(key));
            self.reader.peek();
            let offset = self.reader.offset();
            let value = read(self)?;
            match map.entry(self.leave_key()) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    entry.insert(value);
                    let key = entry.key().clone();
                    if self.duplicates.len() < DUPLICATES_MAX {
                        self.duplicates.push(DuplicateMember { key: key.to_string(), offset });
                    }
                    self.report(StrictError::Duplicate, &key);
                }
            }
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        Ok(map)
    }
}
