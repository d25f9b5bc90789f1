//! Values of types that take any form, in the JSON decoder: those of kinds that a client defined.
//!
//! Owns how the reference reads such values: as they are, whatever their types, after which it drops the members that no schema
//! declares, and nulls that mean absence. A value of the wrong type is kept for the rules to refuse, but of an object or a list
//! where none is declared nothing stays inside. Defaults are not applied.

use super::decode::{Decoder, Nulls, Step};
use super::error::{DecodeError, StrictError};
use super::object::Level;
use crate::budget::count_step;
use crate::types::{Field, Scalar, ValueType};
use crate::value::{Entry, Map, Value};

/// A type of which an object keeps no member, nor do objects in a list.
static CLOSED: ValueType = ValueType::Scalar(Scalar::Bool);

impl<'s> Decoder<'s, '_> {
    /// Reads a field of a type that takes any form into `map`. Returns whether `map` has the field now.
    pub(super) fn field_of_any_form(&mut self, field: &'s Field, map: &mut Map) -> Result<bool, DecodeError> {
        let value = if self.null()? { Value::Null } else { self.any_form(&field.value)? };
        let is_there = !value.is_null() || self.keeps_null(field);
        // A null that means absence takes the place of an earlier duplicate until the object has ended.
        if is_there || map.contains_key(&field.name) {
            map.insert(field.name.clone(), value);
        }
        Ok(is_there)
    }

    /// Whether null is a value of `field`, which belongs to a type that takes any form.
    pub(super) fn keeps_null(&self, field: &Field) -> bool {
        field.nullable || self.leaves_null(&field.value)
    }

    /// Whether a null of `ty`, which is not nullable, is left to the rules: they refuse it where the schema names a type, and a value
    /// that keeps unknown fields has none in the tables. Built-in types such as the metadata read null as absence.
    fn leaves_null(&self, ty: &ValueType) -> bool {
        let takes_any_form = match ty.plain() {
            ValueType::Object(id) => self.schema.get(*id).any_form,
            ValueType::Untyped
            | ValueType::Scalar(_)
            | ValueType::List { .. }
            | ValueType::Map { .. }
            | ValueType::Member(_) => true,
        };
        self.nulls == Nulls::Kept && takes_any_form
    }

    /// Reads a value, which may be of another type than `ty`.
    fn any_form(&mut self, ty: &'s ValueType) -> Result<Value, DecodeError> {
        let keeps_unknown = ty.keeps_unknown();
        match (self.reader.peek(), ty.plain()) {
            (_, ValueType::Untyped) => Ok(sorted(self.untyped()?)),
            (Some(b'{'), ValueType::Map { value, .. }) => self.map_of_any_form(value),
            (next, ValueType::Object(id)) => {
                let ty = self.schema.get(*id);
                match next {
                    Some(b'{') => {
                        // The metadata of the root are one step below it.
                        let is_other_metadata = !ty.any_form && self.path.len() > 1;
                        let around = std::mem::replace(&mut self.is_in_other_metadata, is_other_metadata);
                        let object = self.object(ty, Map::new(), Level::Nested);
                        self.is_in_other_metadata = around;
                        object
                    }
                    _ if ty.any_form && ty.preserve_unknown => Ok(sorted(self.untyped()?)),
                    _ if ty.any_form => self.closed(),
                    _ => Err(self.mismatch("an object")),
                }
            }
            (Some(b'['), ValueType::List { item, .. }) => {
                self.items(|decoder| if decoder.null()? { Ok(Value::Null) } else { decoder.any_form(item) })
            }
            _ if keeps_unknown => Ok(sorted(self.untyped()?)),
            _ => self.closed(),
        }
    }

    /// Reads a value of which no member is declared.
    pub(super) fn closed(&mut self) -> Result<Value, DecodeError> {
        match self.reader.peek() {
            Some(b'{') => self.nothing_of_object(),
            Some(b'[') => self.items(|decoder| decoder.any_form(&CLOSED)),
            _ => self.untyped(),
        }
    }

    /// Reads an object of which no member is declared, and reports each.
    fn nothing_of_object(&mut self) -> Result<Value, DecodeError> {
        self.open(b'{', "an object")?;
        let mut more = !self.is_closed(b'}');
        while more {
            let key = self.key()?;
            self.report(StrictError::Unknown, &key);
            self.skip()?;
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        Ok(Value::Object(Map::new()))
    }

    /// Reads a map. Null is no value, unless the type of its values says so or has a default, which comes later.
    fn map_of_any_form(&mut self, ty: &'s ValueType) -> Result<Value, DecodeError> {
        let is_allowed = match ty {
            ValueType::Member(member) => member.nullable || member.default.is_some(),
            _ => false,
        };
        let keeps_null = is_allowed || self.leaves_null(ty);
        self.open(b'{', "a map")?;
        let (mut map, mut has_absent) = (Map::new(), false);
        let mut more = !self.is_closed(b'}');
        while more {
            let key = self.key()?;
            self.held.entry()?;
            self.path.push(Step::Key(key));
            let value = if self.null()? { Value::Null } else { self.any_form(ty)? };
            let key = self.leave_key();
            let is_there = keeps_null || !value.is_null();
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    // Absence is kept until all duplicates are known.
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    let key = entry.key().clone();
                    entry.insert(value);
                    self.report(StrictError::Duplicate, &key);
                }
            }
            has_absent |= !is_there;
            more = self.reader.has_more(b'}')?;
        }
        self.depth -= 1;
        if has_absent {
            // once: one pass for an object that has a null.
            map.retain(|_, value| !value.is_null());
        }
        Ok(Value::Object(map))
    }
}

/// A value without a declared type, with the members of each object in the order of their names: clients of the reference get
/// them so.
pub(super) fn sorted(mut value: Value) -> Value {
    sort(&mut value);
    value
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if !map.keys().is_sorted() {
                map.sort_keys();
            }
            map.values_mut().take_while(|_| count_step()).for_each(sort);
        }
        Value::Array(items) => items.iter_mut().take_while(|_| count_step()).for_each(sort),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Brings strict errors into the order in which the reference finds them: duplicate members while it reads the text, unknown
/// fields of the metadata, then those that the schema does not declare, by their paths, and those of metadata within.
pub(super) fn order_strict_errors(errors: &mut [StrictError]) {
    errors.sort_by(|one, other| place(one).cmp(&place(other)));
}

/// The pass in which the reference finds the error, and the path by which it sorts within the pass.
fn place(error: &StrictError) -> (u8, &str) {
    match error {
        StrictError::Duplicate(_) | StrictError::Other(_) => (0, ""),
        StrictError::Unknown(path) if path.starts_with("metadata.") => (1, ""),
        StrictError::Unknown(path) => (2, path),
        StrictError::UnknownInMetadata(path) => (3, path),
    }
}
