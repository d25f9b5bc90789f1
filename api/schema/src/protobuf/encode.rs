//! Encodes an object in memory as a Protobuf message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smallvec::SmallVec;

use super::wire::{write_bytes, write_double, write_integer, write_nested};
use crate::budget::count_step;
use crate::instant::{Instant, Precision};
use crate::json::write_value;
use crate::types::{Field, ObjectType, Scalar, Schema, TypeId, ValueType, Wire};
use crate::value::{Map, SmolStr, Value};

/// Appends the message of `value`, an object of type `type_id`. `kind` and `apiVersion` belong to the envelope. Values
/// that do not have their field's type are left out; decoding and validation let none through.
pub fn encode_protobuf(schema: &Schema, type_id: TypeId, value: &Value, out: &mut Vec<u8>) {
    Encoder { schema }.object(schema.get(type_id), value, out);
}

/// Appends field `number` with an encoded message: the items of a list of objects are field 2.
pub fn write_message_field(number: u32, message: &[u8], out: &mut Vec<u8>) {
    write_bytes(number, message, out);
}

#[derive(Clone, Copy)]
struct Encoder<'a> {
    schema: &'a Schema,
}

/// A field that is written, and its value.
type Member<'a> = (&'a Field, &'a Value);

impl<'a> Encoder<'a> {
    fn object(self, ty: &'a ObjectType, value: &'a Value, out: &mut Vec<u8>) {
        let mut members: SmallVec<[Member<'a>; 32]> = SmallVec::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            let field = ty.field(name);
            let is_said = |field: &&Field| !value.is_null() && (field.presence || !field.is_zero(value));
            members.extend(field.filter(is_said).map(|field| (field, value)));
        }
        members.sort_by(|(left, _), (right, _)| place(left).cmp(place(right)));
        self.members(&members, 0, out);
    }

    /// Writes `members`, which are sorted; those of one inlined message, `level` messages deep, together.
    fn members(self, members: &[Member<'a>], level: usize, out: &mut Vec<u8>) {
        let mut rest = members;
        while let Some((field, value)) = rest.first().filter(|_| count_step()) {
            match field.inlined_in().get(level) {
                Some(&number) => {
                    let same = |(field, _): &Member<'a>| field.inlined_in().get(level) == Some(&number);
                    let count = rest.iter().take_while(|member| same(member)).count();
                    write_nested(number, out, |out| self.members(&rest[..count], level + 1, out));
                    rest = &rest[count..];
                }
                None => {
                    self.field(field, value, out);
                    rest = &rest[1..];
                }
            }
        }
    }

    fn field(self, field: &'a Field, value: &'a Value, out: &mut Vec<u8>) {
        match (&field.value, value) {
            (ValueType::List { item, .. }, Value::Array(items)) if field.wire == Wire::Plain => {
                let items = items.iter().take_while(|_| count_step());
                items.for_each(|value| self.element(field.number, item, Wire::Plain, value, out));
            }
            (ValueType::Map { value: ty, .. }, Value::Object(map)) => {
                self.map(field.number, ty, field.wire, map, out);
            }
            (ValueType::Object(_), _) if !field.presence => {
                let start = out.len();
                self.element(field.number, &field.value, field.wire, value, out);
                // A tag and the length 0: the message is empty.
                if out.last() == Some(&0) && out.len() - start == tag_len(field.number) + 1 {
                    out.truncate(start);
                }
            }
            _ => self.element(field.number, &field.value, field.wire, value, out),
        }
    }

    fn map(self, number: u32, ty: &'a ValueType, wire: Wire, map: &'a Map, out: &mut Vec<u8>) {
        let mut members: SmallVec<[(&SmolStr, &Value); 16]> = map.iter().collect();
        members.sort_by_key(|(key, _)| *key);
        for (key, value) in members.into_iter().take_while(|_| count_step()) {
            write_nested(number, out, |out| {
                write_bytes(1, key.as_bytes(), out);
                self.element(2, ty, wire, value, out);
            });
        }
    }

    /// Writes one value as field `number`.
    fn element(self, number: u32, ty: &'a ValueType, wire: Wire, value: &'a Value, out: &mut Vec<u8>) {
        match (ty, value) {
            (ValueType::Scalar(scalar), _) => scalar_field(number, scalar, value, out),
            (ValueType::Object(id), _) => {
                write_nested(number, out, |out| self.object(self.schema.get(*id), value, out));
            }
            (ValueType::List { item, .. }, _) => write_nested(number, out, |out| {
                let items = value.as_array().into_iter().flatten().take_while(|_| count_step());
                items.for_each(|value| self.element(1, item, Wire::Plain, value, out));
            }),
            (ValueType::Untyped, _) => write_nested(number, out, |out| self.untyped(wire, value, out)),
            (ValueType::Member(member), _) => self.element(number, &member.value, wire, value, out),
            (ValueType::Map { .. }, _) => {}
        }
    }

    /// Writes the message that stands for content whose type the tables know only in part.
    fn untyped(self, wire: Wire, value: &'a Value, out: &mut Vec<u8>) {
        match (wire, value) {
            (Wire::OrBool(_), Value::Bool(allows)) => write_integer(1, i64::from(*allows), out),
            (Wire::OrBool(id), Value::Object(_)) => {
                write_integer(1, 1, out);
                write_nested(2, out, |out| self.object(self.schema.get(id), value, out));
            }
            (Wire::OrList(id) | Wire::OrStrings(id), Value::Object(_)) => {
                write_nested(1, out, |out| self.object(self.schema.get(id), value, out));
            }
            (Wire::OrList(id), Value::Array(items)) => {
                for item in items.iter().take_while(|_| count_step()) {
                    write_nested(2, out, |out| self.object(self.schema.get(id), item, out));
                }
            }
            (Wire::OrStrings(_), Value::Array(items)) => {
                items.iter().filter_map(Value::as_str).for_each(|item| write_bytes(2, item.as_bytes(), out));
            }
            _ => {
                let mut json = Vec::new();
                write_value(value, &mut json);
                write_bytes(1, &json, out);
            }
        }
    }
}

/// Position of a field on the wire: the numbers of the inlined messages around it, then its own.
fn place(field: &Field) -> impl Iterator<Item = u32> + '_ {
    field.inlined_in().iter().copied().chain([field.number])
}

/// Bytes of the tag of a length-delimited field.
fn tag_len(number: u32) -> usize {
    let mut tag = Vec::with_capacity(5);
    super::wire::write_varint(u64::from(number) << 3, &mut tag);
    tag.len()
}

fn scalar_field(number: u32, scalar: &Scalar, value: &Value, out: &mut Vec<u8>) {
    match (scalar, value) {
        (Scalar::Bool, Value::Bool(value)) => write_integer(number, i64::from(*value), out),
        (Scalar::Int32 | Scalar::Int64, Value::Number(value)) => {
            write_integer(number, value.as_i64().unwrap_or_default(), out);
        }
        (Scalar::Double, Value::Number(value)) => {
            write_double(number, value.as_f64().unwrap_or_default(), out)
        }
        (Scalar::IntOrString, Value::Number(value)) => write_nested(number, out, |out| {
            write_integer(1, 0, out);
            write_integer(2, value.as_i64().unwrap_or_default(), out);
        }),
        (_, Value::String(text)) => text_field(number, scalar, text, out),
        _ => {}
    }
}

/// Writes a scalar that is a string in JSON.
fn text_field(number: u32, scalar: &Scalar, text: &str, out: &mut Vec<u8>) {
    match scalar {
        Scalar::String(_) => write_bytes(number, text.as_bytes(), out),
        Scalar::Bytes => {
            if let Ok(bytes) = STANDARD.decode(text) {
                write_bytes(number, &bytes, out);
            }
        }
        Scalar::Time => time(number, text, Precision::Seconds, out),
        Scalar::MicroTime => time(number, text, Precision::Micros, out),
        Scalar::Quantity => write_nested(number, out, |out| write_bytes(1, text.as_bytes(), out)),
        Scalar::IntOrString => write_nested(number, out, |out| {
            write_integer(1, 1, out);
            write_bytes(3, text.as_bytes(), out);
        }),
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double => {}
    }
}

fn time(number: u32, text: &str, precision: Precision, out: &mut Vec<u8>) {
    let Some(instant) = Instant::parse(text, precision) else { return };
    write_nested(number, out, |out| {
        write_integer(1, instant.seconds, out);
        write_integer(2, i64::from(instant.nanos), out);
    });
}
