//! Decodes a Protobuf message into an object in canonical form.
//!
//! Unknown fields are skipped, as Protobuf asks of old readers. Depth is bounded like that of JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::wire::{Raw, Reader, broken};
use crate::budget::{MemoryCounter, count_step};
use crate::fill::empty_field;
use crate::instant::{Instant, Precision};
use crate::json::{DecodeError, Limits, decode_untyped, float};
use crate::quantity;
use crate::types::{Field, ObjectType, Scalar, Schema, TypeId, ValueType, Wire};
use crate::value::{Map, SmolStr, Value};

/// Reads the message of an object of type `type_id`, without the envelope.
pub fn decode_protobuf(
    schema: &Schema,
    type_id: TypeId,
    message: &[u8],
    limits: Limits,
) -> Result<Value, DecodeError> {
    Decoder { schema, limits, depth: 0, held: MemoryCounter::new(limits.held_bytes_max) }
        .object(type_id, message)
}

struct Decoder<'s> {
    schema: &'s Schema,
    limits: Limits,
    depth: usize,
    held: MemoryCounter,
}

impl<'s> Decoder<'s> {
    fn object(&mut self, id: TypeId, message: &[u8]) -> Result<Value, DecodeError> {
        let ty = self.schema.get(id);
        self.held.object(ty.fields.len())?;
        let mut map = Map::new();
        self.members(ty, &[], message, &mut map)?;
        for at in ty.always_written() {
            let field = &ty.fields[at];
            map.entry(field.name.clone()).or_insert_with(|| empty_field(self.schema, field));
        }
        Ok(Value::Object(map))
    }

    /// Reads the fields of `message`, which is inlined in the messages with the numbers `inlined_in`.
    fn members(
        &mut self,
        ty: &'s ObjectType,
        inlined_in: &[u32],
        message: &[u8],
        map: &mut Map,
    ) -> Result<(), DecodeError> {
        if self.depth == self.limits.depth_max {
            return Err(DecodeError::TooDeep { depth_max: self.limits.depth_max });
        }
        self.depth += 1;
        let mut reader = Reader { rest: message };
        while let Some((number, raw)) = reader.field()? {
            if !count_step() {
                return Err(DecodeError::OverBudget);
            }
            let is_here = |field: &&Field| field.number == number && field.inlined_in() == inlined_in;
            let field = match inlined_in {
                [] => ty.numbered(number),
                // few: the fields of one type.
                _ => ty.fields.iter().find(is_here),
            };
            if let Some(field) = field {
                self.field(field, raw, map).map_err(|error| at_field(field, error))?;
                continue;
            }
            if let (Raw::Bytes(bytes), Some(inner)) = (raw, ty.inlined(inlined_in, number)) {
                self.members(ty, inner, bytes, map)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(&mut self, field: &'s Field, raw: Raw<'_>, map: &mut Map) -> Result<(), DecodeError> {
        match &field.value {
            ValueType::List { item, .. } if field.wire == Wire::Plain => {
                let items = self.items(item, raw)?;
                match map.get_mut(&field.name) {
                    Some(Value::Array(list)) => list.extend(items),
                    _ => {
                        map.insert(field.name.clone(), Value::Array(items));
                    }
                }
            }
            ValueType::Map { value, .. } => {
                let (key, value) = self.entry(value, field.wire, bytes(raw)?)?;
                let entries = map.entry(field.name.clone()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
            ty => {
                let value = self.element(ty, field.wire, raw)?;
                if !value.is_null() && (field.presence || !field.is_zero(&value)) {
                    map.insert(field.name.clone(), value);
                } else {
                    map.shift_remove(&field.name);
                }
            }
        }
        Ok(())
    }

    /// One item, or the items of a packed field of numbers.
    fn items(&mut self, item: &'s ValueType, raw: Raw<'_>) -> Result<Vec<Value>, DecodeError> {
        let is_number = matches!(item, ValueType::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool));
        let Raw::Bytes(bytes) = raw else { return Ok(vec![self.element(item, Wire::Plain, raw)?]) };
        if !is_number {
            return Ok(vec![self.element(item, Wire::Plain, raw)?]);
        }
        let mut reader = Reader { rest: bytes };
        let mut items = Vec::new();
        while !reader.rest.is_empty() {
            items.push(self.element(item, Wire::Plain, Raw::Varint(reader.varint()?))?);
        }
        Ok(items)
    }

    fn entry(
        &mut self,
        ty: &'s ValueType,
        wire: Wire,
        message: &[u8],
    ) -> Result<(SmolStr, Value), DecodeError> {
        self.held.entry()?;
        let mut key = SmolStr::default();
        let mut value = None;
        let mut reader = Reader { rest: message };
        while let Some((number, raw)) = reader.field()? {
            match number {
                1 => key = text(raw)?,
                2 => value = Some(self.element(ty, wire, raw)?),
                _ => {}
            }
        }
        Ok((key, value.unwrap_or_else(|| crate::fill::zero_value(self.schema, ty))))
    }

    /// One value. Null for an unset time, an empty list and empty untyped content.
    fn element(&mut self, ty: &'s ValueType, wire: Wire, raw: Raw<'_>) -> Result<Value, DecodeError> {
        self.held.item()?;
        match ty {
            ValueType::Scalar(kind) => scalar(kind, raw),
            ValueType::Object(id) => self.object(*id, bytes(raw)?),
            ValueType::List { item, .. } => {
                let mut items = Vec::new();
                let mut reader = Reader { rest: bytes(raw)? };
                while let Some((number, raw)) = reader.field()? {
                    if number == 1 {
                        items.push(self.element(item, Wire::Plain, raw)?);
                    }
                }
                Ok(if items.is_empty() { Value::Null } else { Value::Array(items) })
            }
            ValueType::Untyped => match wire {
                Wire::Plain | Wire::Wrapped => self.untyped(bytes(raw)?),
                Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id) => {
                    self.either(wire, id, bytes(raw)?)
                }
            },
            // Such types have no Protobuf form.
            ValueType::Member(_) | ValueType::Map { .. } => Err(broken("a map inside a list or map")),
        }
    }

    fn untyped(&mut self, message: &[u8]) -> Result<Value, DecodeError> {
        let mut value = Value::Null;
        let mut reader = Reader { rest: message };
        while let Some((number, raw)) = reader.field()? {
            let json = bytes(raw)?;
            if number == 1 && !json.is_empty() {
                value = decode_untyped(self.schema, json, self.limits)?;
            }
        }
        Ok(value)
    }

    fn either(&mut self, wire: Wire, id: TypeId, message: &[u8]) -> Result<Value, DecodeError> {
        let mut items = Vec::new();
        let mut value = None;
        let mut reader = Reader { rest: message };
        while let Some((number, raw)) = reader.field()? {
            match (wire, number) {
                (Wire::OrBool(_), 1) if value.is_none() => value = Some(scalar(&Scalar::Bool, raw)?),
                (Wire::OrBool(_), 2) | (Wire::OrList(_) | Wire::OrStrings(_), 1) => {
                    value = Some(self.object(id, bytes(raw)?)?);
                }
                (Wire::OrList(_), 2) => items.push(self.object(id, bytes(raw)?)?),
                (Wire::OrStrings(_), 2) => {
                    self.held.item()?;
                    items.push(Value::String(text(raw)?));
                }
                _ => {}
            }
        }
        Ok(match (value, wire) {
            (Some(value), _) => value,
            (None, Wire::OrBool(_)) => Value::Bool(false),
            (None, _) => Value::Array(items),
        })
    }
}

fn scalar(scalar: &Scalar, raw: Raw<'_>) -> Result<Value, DecodeError> {
    Ok(match scalar {
        Scalar::String(_) => Value::String(text(raw)?),
        Scalar::Bytes => Value::from(STANDARD.encode(bytes(raw)?)),
        Scalar::Bool => Value::Bool(varint(raw)? != 0),
        Scalar::Int32 => Value::from(int32(varint(raw)?)),
        Scalar::Int64 => Value::from(int64(varint(raw)?)),
        Scalar::Double => match raw {
            Raw::Fixed64(bits) => {
                float(f64::from_bits(bits)).ok_or_else(|| broken("a number that is not finite"))?
            }
            Raw::Varint(_) | Raw::Fixed32 | Raw::Bytes(_) => return Err(broken("wrong wire type")),
        },
        Scalar::Time => time(bytes(raw)?, Precision::Seconds)?,
        Scalar::MicroTime => time(bytes(raw)?, Precision::Micros)?,
        Scalar::Quantity => {
            let mut given = SmolStr::new_static("0");
            let mut reader = Reader { rest: bytes(raw)? };
            while let Some((number, raw)) = reader.field()? {
                if number == 1 {
                    given = text(raw)?;
                }
            }
            Value::from(quantity::canonical(&given).map_err(|error| broken(&error.to_string()))?)
        }
        Scalar::IntOrString => int_or_string(bytes(raw)?)?,
    })
}

fn time(message: &[u8], precision: Precision) -> Result<Value, DecodeError> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let mut instant = Instant { seconds: 0, nanos: 0 };
    let mut reader = Reader { rest: message };
    while let Some((number, raw)) = reader.field()? {
        match number {
            1 => instant.seconds = int64(varint(raw)?),
            2 => {
                let nanos = u32::try_from(varint(raw)?).ok().filter(|&nanos| nanos < 1_000_000_000);
                instant.nanos = nanos.ok_or_else(|| broken("a time out of range"))?;
            }
            _ => {}
        }
    }
    if instant.seconds == Instant::UNSET.seconds {
        return Ok(Value::Null);
    }
    instant.format(precision).map(Value::from).ok_or_else(|| broken("a time out of range"))
}

fn int_or_string(message: &[u8]) -> Result<Value, DecodeError> {
    let (mut is_string, mut integer, mut string) = (false, 0, SmolStr::default());
    let mut reader = Reader { rest: message };
    while let Some((number, raw)) = reader.field()? {
        match number {
            1 => is_string = varint(raw)? == 1,
            2 => integer = int32(varint(raw)?),
            3 => string = text(raw)?,
            _ => {}
        }
    }
    Ok(if is_string { Value::String(string) } else { Value::from(integer) })
}

fn bytes(raw: Raw<'_>) -> Result<&[u8], DecodeError> {
    match raw {
        Raw::Bytes(bytes) => Ok(bytes),
        Raw::Varint(_) | Raw::Fixed64(_) | Raw::Fixed32 => Err(broken("wrong wire type")),
    }
}

fn varint(raw: Raw<'_>) -> Result<u64, DecodeError> {
    match raw {
        Raw::Varint(value) => Ok(value),
        Raw::Bytes(_) | Raw::Fixed64(_) | Raw::Fixed32 => Err(broken("wrong wire type")),
    }
}

/// A string; bytes that are not UTF-8 become U+FFFD, as in JSON.
fn text(raw: Raw<'_>) -> Result<SmolStr, DecodeError> {
    Ok(String::from_utf8_lossy(bytes(raw)?).into())
}

fn int64(varint: u64) -> i64 {
    i64::from_le_bytes(varint.to_le_bytes())
}

/// The low 32 bits.
fn int32(varint: u64) -> i32 {
    let [a, b, c, d, ..] = varint.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Puts the field's name in front of the problem.
fn at_field(field: &Field, error: DecodeError) -> DecodeError {
    match error {
        DecodeError::Protobuf(problem) => DecodeError::Protobuf(format!("{}: {problem}", field.name)),
        other => other,
    }
}
