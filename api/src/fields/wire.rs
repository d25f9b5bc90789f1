//! The `FieldsV1` form of a field set: `{"f:data":{".":{},"f:a":{}}}`.
//!
//! Owns reading and writing it. Written form: entries in the set's order, `.` first for an entry that is a member and
//! has members below it, `{}` for a plain member. Reading accepts any order and drops elements of unknown kind.

use orch_schema::budget::count_step;
use orch_schema::value::{Map, Value};

use super::DEPTH_MAX;
use super::element::{ElementError, PathElement};
use super::set::FieldSet;

/// Why a `FieldsV1` value cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
    /// A level is not an object.
    #[error("a set of fields must be an object")]
    NotAnObject,
    /// More levels than any real object has.
    #[error("the set of fields is nested too deeply")]
    TooDeep,
}

impl FieldSet {
    /// Reads a `FieldsV1` value; null is the empty set.
    pub fn from_fields_v1(value: &Value) -> Result<FieldSet, WireError> {
        read(value, DEPTH_MAX).map(|(set, _)| set)
    }

    /// Bytes of the JSON of the `FieldsV1` value, without escapes.
    pub(super) fn wire_len(&self) -> usize {
        len(self, false, &mut String::new())
    }

    /// The `FieldsV1` value of the set.
    pub fn to_fields_v1(&self) -> Value {
        let mut key = String::new();
        Value::Object(write(self, false, &mut key))
    }
}

/// The set below one entry, and whether the entry itself is a member.
fn read(value: &Value, depth: usize) -> Result<(FieldSet, bool), WireError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok((FieldSet::EMPTY, true)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(WireError::NotAnObject);
        }
    };
    let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
    let mut set = FieldSet::EMPTY;
    let mut member = false;
    for (key, below) in map.iter().take_while(|_| count_step()) {
        if key == "." {
            member = true;
            continue;
        }
        match PathElement::parse(key) {
            Ok(element) => {
                let (children, is_member) = read(below, depth)?;
                set.push(element, is_member, children);
            }
            Err(ElementError::Unknown) => {}
            Err(error) => return Err(error.into()),
        }
    }
    set.seal();
    let member = member || set.is_empty();
    Ok((set, member))
}

fn len(set: &FieldSet, include_self: bool, key: &mut String) -> usize {
    const BRACES: usize = "{}".len();
    const AROUND_KEY: usize = "\"\":,".len();
    let own = if include_self { ".".len() + AROUND_KEY + BRACES } else { 0 };
    let entries = set.entries().iter().take_while(|_| count_step()).map(|entry| {
        key.clear();
        entry.element.write_wire(key);
        let key_len = key.len() + AROUND_KEY;
        let is_within = entry.member && !entry.children.is_empty();
        key_len + len(&entry.children, is_within, key)
    });
    let of_entries: usize = entries.sum();
    // The last entry has no comma behind it.
    let commas = usize::from(include_self || !set.is_empty());
    BRACES + own + of_entries - commas
}

fn write(set: &FieldSet, include_self: bool, key: &mut String) -> Map {
    let mut out = Map::with_capacity(set.entries().len() + usize::from(include_self));
    if include_self {
        out.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for entry in set.entries().iter().take_while(|_| count_step()) {
        key.clear();
        entry.element.write_wire(key);
        let name = key.clone();
        let below =
            if entry.children.is_empty() { Map::new() } else { write(&entry.children, entry.member, key) };
        out.insert(name, Value::Object(below));
    }
    out
}
