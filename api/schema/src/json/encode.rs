//! Encodes an object in memory as canonical JSON.
//!
//! Owns the canonical form: fields in the tables' order, map keys sorted, no empty field but those that are written
//! even when empty. It accepts objects that strategies and patches have changed, in any order of fields, and brings
//! them to the canonical form; it never fails.

use smallvec::SmallVec;

use super::text::{write_float, write_string};
use crate::budget::count_step;
use crate::types::{ObjectType, Schema, TypeId, ValueType, Wire};
use crate::value::{Map, Value};

/// Appends the canonical JSON of `value`, an object of type `type_id`: `{"metadata":{...},...}`, without
/// `kind` and `apiVersion`, which are constants of the resource.
pub fn encode_json(schema: &Schema, type_id: TypeId, value: &Value, out: &mut Vec<u8>) {
    let ty = schema.get(type_id);
    let mut members = present(ty, value);
    // few: kind and version come first.
    members.retain(|(order, ..)| *order >= FIRST_FIELD);
    Encoder { schema, out }.members(ty, &members);
}

/// Appends a value that has no declared type, in its own order.
pub fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
            (None, Some(float)) if number.is_f64() => write_float(float, out),
            _ => out.extend_from_slice(number.to_string().as_bytes()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().take_while(|_| count_step()).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (at, (key, value)) in map.iter().take_while(|_| count_step()).enumerate() {
                write_key(at == 0, key, out);
                write_value(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends a member's name, with the comma before it.
fn write_key(is_first: bool, key: &str, out: &mut Vec<u8>) {
    if !is_first {
        out.push(b',');
    }
    write_string(key, out);
    out.push(b':');
}

struct Encoder<'a> {
    schema: &'a Schema,
    out: &'a mut Vec<u8>,
}

/// The value of an absent member.
static NULL: Value = Value::Null;

/// Places of members: a nested object's `kind` and `apiVersion`, its fields, and unknown ones of types that keep them.
const KIND: usize = 0;
const API_VERSION: usize = 1;
const FIRST_FIELD: usize = 2;
const UNKNOWN: usize = usize::MAX;

impl<'a> Encoder<'a> {
    fn object(&mut self, ty: &'a ObjectType, value: &'a Value) {
        if ty.any_form && !value.is_object() {
            return write_value(value, self.out);
        }
        self.members(ty, &present(ty, value));
    }

    /// Writes `members`, which are sorted.
    fn members(&mut self, ty: &'a ObjectType, members: &[(usize, &'a str, &'a Value)]) {
        self.out.push(b'{');
        let mut is_first = true;
        for &(order, name, value) in members.iter().take_while(|_| count_step()) {
            write_key(is_first, name, self.out);
            is_first = false;
            match ty.fields.get(order.wrapping_sub(FIRST_FIELD)) {
                Some(field) if value.is_null() || (!field.presence && field.is_zero(value)) => {
                    self.empty(&field.empty_value(), &field.value);
                }
                Some(field) => self.value(&field.value, field.wire, value),
                None => write_value(value, self.out),
            }
        }
        self.out.push(b'}');
    }

    /// Writes the value of an absent field; an object still has the fields that are always written.
    fn empty(&mut self, empty: &Value, ty: &'a ValueType) {
        match ty {
            ValueType::Object(id) if !empty.is_null() => self.object(self.schema.get(*id), &NULL),
            _ => write_value(empty, self.out),
        }
    }

    fn value(&mut self, ty: &'a ValueType, wire: Wire, value: &'a Value) {
        match (ty, value) {
            (ValueType::Object(id), _) => self.object(self.schema.get(*id), value),
            (ValueType::List { item, .. }, Value::Array(items)) => self.list(item, Wire::Plain, items),
            (ValueType::Map { value: ty, .. }, Value::Object(map)) => self.map(ty, wire, map),
            (ValueType::Untyped, _) => self.untyped(wire, value),
            (ValueType::Member(member), value) if !value.is_null() => self.value(&member.value, wire, value),
            _ => write_value(value, self.out),
        }
    }

    fn list(&mut self, item: &'a ValueType, wire: Wire, items: &'a [Value]) {
        self.out.push(b'[');
        for (at, value) in items.iter().take_while(|_| count_step()).enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.value(item, wire, value);
        }
        self.out.push(b']');
    }

    fn map(&mut self, ty: &'a ValueType, wire: Wire, map: &'a Map) {
        let mut members: SmallVec<[(&str, &Value); 16]> =
            map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        if !members.is_sorted_by_key(|(key, _)| *key) {
            members.sort_by_key(|(key, _)| *key);
        }
        self.out.push(b'{');
        for (at, (key, value)) in members.into_iter().take_while(|_| count_step()).enumerate() {
            write_key(at == 0, key, self.out);
            self.value(ty, wire, value);
        }
        self.out.push(b'}');
    }

    /// Writes content whose type the tables know only in part.
    fn untyped(&mut self, wire: Wire, value: &'a Value) {
        match (wire, value) {
            (Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id), Value::Object(_)) => {
                self.object(self.schema.get(id), value);
            }
            (Wire::OrList(id), Value::Array(items)) => {
                self.out.push(b'[');
                for (at, item) in items.iter().take_while(|_| count_step()).enumerate() {
                    if at > 0 {
                        self.out.push(b',');
                    }
                    self.object(self.schema.get(id), item);
                }
                self.out.push(b']');
            }
            _ => write_value(value, self.out),
        }
    }
}

/// The members of an object that are written, each with its place, sorted by place.
fn present<'a>(ty: &'a ObjectType, value: &'a Value) -> SmallVec<[(usize, &'a str, &'a Value); 32]> {
    let mut members = SmallVec::new();
    let map = value.as_object();
    for (name, value) in map.into_iter().flatten() {
        let place = match ty.position(name) {
            Some(at) if ty.fields[at].is_written(value) => FIRST_FIELD + at,
            Some(_) => continue,
            None if ty.head && name == "kind" => KIND,
            None if ty.head && name == "apiVersion" => API_VERSION,
            None if ty.keeps_undeclared() => UNKNOWN,
            None => continue,
        };
        members.push((place, name.as_str(), value));
    }
    for at in ty.always_written() {
        let name = &*ty.fields[at].name;
        if !map.is_some_and(|map| map.contains_key(name)) {
            members.push((FIRST_FIELD + at, name, &NULL));
        }
    }
    let order =
        |(place, name, _): &(usize, &'a str, &'a Value)| (*place, if *place == UNKNOWN { *name } else { "" });
    if !members.is_sorted_by_key(order) {
        members.sort_by_key(order);
    }
    members
}
