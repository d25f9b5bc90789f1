//! From JSON bytes to an object in its canonical form, along the tables.
//!
//! Owns what the reference's decoder does to an object: unknown fields dropped and named, the last of duplicate
//! fields kept and named, null taken for absence, texts brought to their canonical form. Defaults are not applied.
//! It never recurses deeper than its bound, whatever the bytes are.

use std::borrow::Cow;

use serde_json::map::Entry;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::error::{DecodeError, StrictError};
use super::reader::Reader;
use crate::budget::{HELD_BYTES_MAX, Held, PATCHED_BYTES_MAX};
use crate::schema::fill::{empty_field, empty_object, zero_value};
use crate::schema::types::{Field, ObjectType, Scalar, Schema, TypeId, ValueType, Wire};

/// Bounds of one decoding.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Objects and lists within each other. 100 by default: every other reader in the process (those of stored bytes
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
    /// Those of a document that a patch made.
    pub fn patched() -> Self {
        Self { held_bytes_max: PATCHED_BYTES_MAX, ..Self::default() }
    }
}

static STRING: ValueType = ValueType::Scalar(Scalar::String(None));

/// What an object says it is. Empty where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object in canonical form, without `kind` and `apiVersion`.
    pub value: Value,
    /// Its `kind` and `apiVersion`.
    pub head: Head,
    /// Unknown and duplicate fields in the order they were met, each once, at most a hundred.
    pub strict: Vec<StrictError>,
}

/// Reads the JSON of an object of type `type_id`. `null` is the object without any field. Bytes that are not UTF-8
/// become U+FFFD, as in the reference.
pub fn decode_json(
    schema: &Schema,
    type_id: TypeId,
    json: &[u8],
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    let text = String::from_utf8_lossy(json);
    let mut decoder = Decoder::new(schema, &text, limits);
    let ty = schema.get(type_id);
    let value = match decoder.reader.peek() {
        Some(b'n') => {
            decoder.reader.literal("null")?;
            empty_object(schema, ty)
        }
        _ => decoder.object(ty, Map::new(), IsRoot(true))?,
    };
    decoder.reader.end()?;
    Ok(Decoded { value, head: decoder.head, strict: decoder.strict })
}

/// The same for an object that is already in memory, after a patch for example. `kind` and `apiVersion` are taken out
/// of it.
pub fn decode_value(
    schema: &Schema,
    type_id: TypeId,
    value: &Value,
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    let mut json = Vec::with_capacity(1024);
    super::encode::write_value(value, &mut json);
    decode_json(schema, type_id, &json, limits)
}

/// Reads the JSON of content that has no declared type.
pub(crate) fn decode_untyped(schema: &Schema, json: &[u8], limits: Limits) -> Result<Value, DecodeError> {
    read_json(schema, json, limits).map(|(value, _)| value)
}

/// The same, with the duplicate members that were met.
pub(crate) fn read_json(
    schema: &Schema,
    json: &[u8],
    limits: Limits,
) -> Result<(Value, Vec<StrictError>), DecodeError> {
    let text = String::from_utf8_lossy(json);
    let mut decoder = Decoder::new(schema, &text, limits);
    let value = decoder.untyped()?;
    decoder.reader.end()?;
    Ok((value, decoder.strict))
}

/// One reading of one text. What it does with leaves stands in `leaf.rs`.
pub(super) struct Decoder<'s, 'a> {
    schema: &'s Schema,
    pub(super) reader: Reader<'a>,
    pub(super) limits: Limits,
    pub(super) depth: usize,
    held: Held,
    pub(super) path: SmallVec<[Step<'s, 'a>; 16]>,
    head: Head,
    pub(super) strict: Vec<StrictError>,
}

/// One element of a path.
pub(super) enum Step<'s, 'a> {
    Field(&'s str),
    Key(Cow<'a, str>),
    Index(usize),
}

/// Whether an object is the one that is decoded, and not one within it.
#[derive(Clone, Copy)]
struct IsRoot(bool);

impl<'s, 'a> Decoder<'s, 'a> {
    fn new(schema: &'s Schema, text: &'a str, limits: Limits) -> Self {
        Decoder {
            schema,
            reader: Reader::new(text),
            limits,
            depth: 0,
            held: Held::new(limits.held_bytes_max),
            path: SmallVec::new(),
            head: Head::default(),
            strict: Vec::new(),
        }
    }

    /// Reads an object into `map`, which holds what an earlier duplicate said.
    fn object(
        &mut self,
        ty: &'s ObjectType,
        mut map: Map<String, Value>,
        is_root: IsRoot,
    ) -> Result<Value, DecodeError> {
        self.open(b'{', "an object")?;
        self.held.object(ty.fields.len())?;
        let (mut met, mut set) = (Fields::default(), Fields::default());
        let mut more = !self.is_closed(b'}');
        while more {
            let key = self.key()?;
            match ty.position(&key) {
                Some(at) => {
                    let field = &ty.fields[at];
                    let is_duplicate = met.insert(at);
                    if is_duplicate {
                        self.report(StrictError::Duplicate, &field.name);
                    }
                    self.path.push(Step::Field(&field.name));
                    if self.field(field, &mut map, is_duplicate)? {
                        set.insert(at);
                    } else {
                        set.remove(at);
                    }
                    self.path.pop();
                }
                None => self.undeclared(ty, key, &mut map, is_root)?,
            }
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        for at in ty.always_written().filter(|&at| !set.has(at)) {
            let field = &ty.fields[at];
            map.entry(&*field.name).or_insert_with(|| empty_field(self.schema, field));
        }
        Ok(Value::Object(map))
    }

    /// Reads a field's value into `map`; whether it is there now.
    fn field(
        &mut self,
        field: &'s Field,
        map: &mut Map<String, Value>,
        is_duplicate: bool,
    ) -> Result<bool, DecodeError> {
        let earlier = if is_duplicate { map.shift_remove(&*field.name) } else { None };
        if self.null()? {
            // Null clears what may be absent and leaves alone what may not.
            let is_kept =
                !field.presence && matches!(field.value, ValueType::Scalar(_) | ValueType::Object(_));
            let kept = earlier.filter(|_| is_kept);
            let is_there = kept.is_some();
            map.extend(kept.map(|earlier| (field.name.to_string(), earlier)));
            return Ok(is_there);
        }
        let value = self.value(&field.value, field.wire, earlier)?;
        let is_there = !value.is_null() && (field.presence || !field.is_zero(&value));
        if is_there {
            map.insert(field.name.to_string(), value);
        }
        Ok(is_there)
    }

    /// A key that no field has: the head, a field that is kept, or one that is dropped.
    fn undeclared(
        &mut self,
        ty: &'s ObjectType,
        key: Cow<'a, str>,
        map: &mut Map<String, Value>,
        is_root: IsRoot,
    ) -> Result<(), DecodeError> {
        if (is_root.0 || ty.head) && (key == "kind" || key == "apiVersion") {
            let name = if key == "kind" { "kind" } else { "apiVersion" };
            self.path.push(Step::Field(name));
            let text = if self.null()? { String::new() } else { self.text("a string")?.into_owned() };
            self.path.pop();
            return self.head(name, text, map, is_root);
        }
        if ty.preserve_unknown {
            self.path.push(Step::Key(key));
            self.held.entry()?;
            let value = self.untyped()?;
            let key = self.leave_key();
            if map.contains_key(&*key) {
                self.report(StrictError::Duplicate, &key);
            }
            map.insert(key.into_owned(), value);
            return Ok(());
        }
        self.report(StrictError::Unknown, &key);
        self.skip()
    }

    fn head(
        &mut self,
        name: &'static str,
        text: String,
        map: &mut Map<String, Value>,
        is_root: IsRoot,
    ) -> Result<(), DecodeError> {
        if !is_root.0 {
            if map.contains_key(name) {
                self.report(StrictError::Duplicate, name);
            }
            if !text.is_empty() {
                map.insert(name.to_owned(), Value::String(text));
            }
            return Ok(());
        }
        let place = if name == "kind" { &mut self.head.kind } else { &mut self.head.api_version };
        let is_duplicate = !place.is_empty();
        *place = text;
        if is_duplicate {
            self.report(StrictError::Duplicate, name);
        }
        Ok(())
    }

    /// Reads a value that is not null. Null as an answer: a time that says that there is none.
    fn value(&mut self, ty: &'s ValueType, wire: Wire, earlier: Option<Value>) -> Result<Value, DecodeError> {
        match ty {
            ValueType::Scalar(scalar) => self.scalar(scalar),
            ValueType::Object(id) => {
                let map = match earlier {
                    Some(Value::Object(map)) => map,
                    _ => Map::new(),
                };
                self.object(self.schema.get(*id), map, IsRoot(false))
            }
            ValueType::List { item, .. } => self.list(item),
            ValueType::Map { value, .. } => self.map(value, wire, earlier),
            ValueType::Untyped => match wire {
                Wire::Plain | Wire::Wrapped => self.untyped(),
                Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id) => self.either(wire, id),
            },
        }
    }

    /// One of two forms, told apart by the first byte.
    fn either(&mut self, wire: Wire, id: TypeId) -> Result<Value, DecodeError> {
        let schema = self.schema;
        match (self.reader.peek(), wire) {
            (Some(b'{'), _) => self.object(schema.get(id), Map::new(), IsRoot(false)),
            (_, Wire::OrBool(_)) => self.scalar(&Scalar::Bool),
            (_, Wire::OrStrings(_)) => self.list(&STRING),
            (_, Wire::OrList(id)) => {
                self.items(|decoder| decoder.object(schema.get(id), Map::new(), IsRoot(false)))
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
        // A list that is empty is the same as none, here too.
        let is_empty_list =
            matches!((ty, &value), (ValueType::List { .. }, Value::Array(items)) if items.is_empty());
        Ok(if is_empty_list { Value::Null } else { value })
    }

    /// The members of a list, each by `read`.
    pub(super) fn items(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Value, DecodeError>,
    ) -> Result<Value, DecodeError> {
        self.open(b'[', "a list")?;
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

    /// The members of a map, each value by `read`.
    pub(super) fn entries(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Value, DecodeError>,
    ) -> Result<Map<String, Value>, DecodeError> {
        self.open(b'{', "an object")?;
        let mut map = Map::new();
        let mut more = !self.is_closed(b'}');
        while more {
            let key = self.key()?;
            self.held.entry()?;
            self.path.push(Step::Key(key));
            let value = read(self)?;
            match map.entry(self.leave_key()) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    entry.insert(value);
                    let key = entry.key().clone();
                    self.report(StrictError::Duplicate, &key);
                }
            }
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        Ok(map)
    }
}

/// A set of positions of fields.
#[derive(Default)]
struct Fields {
    words: SmallVec<[u64; 2]>,
}

impl Fields {
    /// Adds a field; whether it was there before.
    fn insert(&mut self, at: usize) -> bool {
        let was = self.has(at);
        if self.words.len() <= at / 64 {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
        was
    }

    fn remove(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}
