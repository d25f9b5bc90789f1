//! Objects in the JSON decoder: the fields that the tables declare, and the keys that they do not.
//!
//! Owns which of duplicate fields stays, the effect of null on a field, the place of `kind` and `apiVersion`, and which
//! unknown keys are kept. It does not read a field's value itself.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::any_form::sorted;
use super::decode::{Decoder, Step};
use super::error::{DecodeError, Shape, StrictError};
use crate::fill::empty_field;
use crate::types::{Field, ObjectType, ValueType};
use crate::value::{Map, Value};

/// Depth of an object in the document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The object that is decoded.
    Root,
    /// An object within it.
    Nested,
}

impl<'s, 'a> Decoder<'s, 'a> {
    /// Reads an object into `map`, which holds the fields of an earlier duplicate.
    pub(super) fn object(
        &mut self,
        ty: &'s ObjectType,
        mut map: Map,
        level: Level,
    ) -> Result<Value, DecodeError> {
        self.open(b'{', Shape::Object.expected())?;
        self.held.object_of(ty)?;
        let (mut met, mut set) = (Fields::default(), Fields::default());
        let mut has_absent = false;
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
                    self.held.field_of(ty)?;
                    self.path.push(Step::Field(&field.name));
                    let is_set = if ty.any_form {
                        self.field_of_any_form(field, &mut map)?
                    } else {
                        self.field(field, &mut map, is_duplicate)?
                    };
                    if is_set {
                        set.insert(at);
                    } else {
                        set.remove(at);
                        has_absent = ty.any_form;
                    }
                    self.path.pop();
                }
                None => self.undeclared(ty, key, &mut map, level)?,
            }
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        if has_absent {
            let keeps = |name: &str| ty.field(name).is_none_or(|field| self.keeps_null(field));
            // once: one pass for an object that has a null.
            map.retain(|name, value| !value.is_null() || keeps(name));
        }
        for at in ty.always_written().filter(|&at| !set.has(at)) {
            let field = &ty.fields[at];
            map.entry(field.name.clone()).or_insert_with(|| empty_field(self.schema, field));
        }
        Ok(Value::Object(map))
    }

    /// Reads a field's value into `map`. Returns whether `map` has the field now.
    fn field(&mut self, field: &'s Field, map: &mut Map, is_duplicate: bool) -> Result<bool, DecodeError> {
        let earlier = if is_duplicate { map.shift_remove(&field.name) } else { None };
        if self.null()? {
            // Null clears a field with presence, a list and a map. Of other fields it leaves an earlier value alone.
            let is_kept =
                !field.presence && matches!(field.value, ValueType::Scalar(_) | ValueType::Object(_));
            let kept = earlier.filter(|_| is_kept);
            let is_there = kept.is_some();
            map.extend(kept.map(|earlier| (field.name.clone(), earlier)));
            return Ok(is_there);
        }
        let value = self.value(&field.value, field.wire, earlier)?;
        let is_kept = field.presence || field.retains_empty || !field.is_zero(&value);
        let is_there = !value.is_null() && is_kept;
        if is_there {
            map.insert(field.name.clone(), value);
        }
        Ok(is_there)
    }

    /// Reads an undeclared key: `kind` or `apiVersion`, an unknown field that is kept, or one that is dropped.
    fn undeclared(
        &mut self,
        ty: &'s ObjectType,
        key: Cow<'a, str>,
        map: &mut Map,
        level: Level,
    ) -> Result<(), DecodeError> {
        if (level == Level::Root || ty.head) && (key == "kind" || key == "apiVersion") {
            let name = if key == "kind" { "kind" } else { "apiVersion" };
            self.path.push(Step::Field(name));
            let is_null = self.null()?;
            let text = if is_null { String::new() } else { self.text("a string")?.into_owned() };
            self.path.pop();
            // Rules of custom kinds tell an empty name from an absent one.
            let is_kept = ty.any_form && !is_null;
            return self.head(name, text, map, level, is_kept);
        }
        if ty.keeps_undeclared() {
            self.path.push(Step::Key(key));
            self.held.entry()?;
            let value = match (ty.keeps_closed, ty.any_form) {
                (true, _) => self.closed()?,
                (false, true) => sorted(self.untyped()?),
                (false, false) => self.untyped()?,
            };
            let key = self.leave_key();
            if map.contains_key(&key) {
                self.report(StrictError::Duplicate, &key);
            }
            map.insert(key, value);
            return Ok(());
        }
        match self.is_in_other_metadata {
            true => self.report(StrictError::UnknownInMetadata, &key),
            false => self.report(StrictError::Unknown, &key),
        }
        self.skip()
    }

    /// Takes `kind` or `apiVersion`: of the root into the decoder's head, of a nested object into `map`, an empty one there only if
    /// `keeps_empty`.
    fn head(
        &mut self,
        name: &'static str,
        text: String,
        map: &mut Map,
        level: Level,
        keeps_empty: bool,
    ) -> Result<(), DecodeError> {
        if level == Level::Nested {
            if map.contains_key(name) {
                self.report(StrictError::Duplicate, name);
            }
            if keeps_empty || !text.is_empty() {
                map.insert(name, text.into());
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
}

/// A set of positions of fields.
#[derive(Default)]
struct Fields {
    words: SmallVec<[u64; 2]>,
}

impl Fields {
    /// Adds a field. Returns whether the set had it before.
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
