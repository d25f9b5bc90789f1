//! The Protobuf forms of documents, the only form that older clients read.
//!
//! Owns the encoder, which walks the JSON form of a document by tables of field numbers, one for each version. The
//! tables cover only those parts of the format that our documents use. A member without an entry is an error, never
//! omitted.

mod version2;
mod version3;

use std::io;

use orch_proto::Brand;
use prost::encoding::{WireType, encode_key, encode_varint};

use orch_schema::value::{Number, Value};

/// The Protobuf encoding of a JSON value.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    /// A double.
    Number,
    /// A 64-bit integer.
    Integer,
    /// A message without fields.
    Nothing,
    /// The value's JSON text, in field 2 of a message.
    Any,
    /// A repeated field of this shape.
    Each(&'static Shape),
    Message(&'static Message),
    /// A message whose only field has this number and shape.
    Within(u32, &'static Shape),
    /// A message with one repeated field of this number: for each member its name (1) and its value (2).
    Named(u32, &'static Shape),
    /// The shape depends on the value.
    Either(fn(&Value) -> Shape),
}

pub(super) struct Message {
    /// JSON names with field numbers and shapes.
    members: &'static [(&'static str, u32, Shape)],
    /// Field number of the extensions; 0 for a message without extensions.
    extensions: u32,
}

const TEXTS: Shape = Shape::Each(&Shape::Text);

pub(super) use version2::DOCUMENT as VERSION_2;
pub(super) use version3::DOCUMENT as VERSION_3;

/// A Protobuf document being written, member by member.
pub(super) struct Binary {
    document: &'static Message,
    brand: &'static Brand,
    bytes: Vec<u8>,
}

impl Binary {
    /// An empty document of the message `document`.
    pub(super) fn new(document: &'static Message, brand: &'static Brand) -> Self {
        Self { document, brand, bytes: Vec::new() }
    }

    /// Adds a member.
    pub(super) fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        let Self { document, brand, bytes } = self;
        put_member(document, brand, name, value, bytes)
    }

    /// Adds a member that is a map, by its entries.
    pub(super) fn entries(
        &mut self,
        name: &str,
        entries: impl IntoIterator<Item = io::Result<(String, Value)>>,
    ) -> io::Result<()> {
        let Some((_, number, Shape::Named(within, shape))) =
            self.document.members.iter().find(|(known, ..)| *known == name)
        else {
            return Err(unknown(name));
        };
        let mut all = Vec::new();
        for entry in entries {
            let (key, value) = entry?;
            put_named(*within, shape, self.brand, (&key, &value), &mut all)?;
        }
        put_bytes(*number, &all, &mut self.bytes);
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

fn put_member(
    message: &Message,
    brand: &Brand,
    name: &str,
    value: &Value,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if let Some((_, number, shape)) = message.members.iter().find(|(known, ..)| *known == name) {
        return put(*number, *shape, brand, value, out);
    }
    if message.extensions > 0 && name.starts_with(brand.extension_prefix) {
        return put_named(message.extensions, &Shape::Any, brand, (name, value), out);
    }
    Err(unknown(name))
}

/// Appends `value` as the field `number`.
fn put(number: u32, shape: Shape, brand: &Brand, value: &Value, out: &mut Vec<u8>) -> io::Result<()> {
    let mut inner = Vec::new();
    match (shape, value) {
        (Shape::Either(which), _) => return put(number, which(value), brand, value, out),
        (Shape::Each(shape), Value::Array(items)) => {
            return items.iter().try_for_each(|item| put(number, *shape, brand, item, out));
        }
        (Shape::Flag, Value::Bool(flag)) => {
            encode_key(number, WireType::Varint, out);
            encode_varint(u64::from(*flag), out);
            return Ok(());
        }
        (Shape::Number, Value::Number(digits)) => {
            let double = digits.as_f64().ok_or_else(|| unknown(&value.to_string()))?;
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend_from_slice(&double.to_le_bytes());
            return Ok(());
        }
        (Shape::Integer, Value::Number(digits)) => {
            encode_key(number, WireType::Varint, out);
            encode_varint(integer(digits).ok_or_else(|| unknown(&value.to_string()))?, out);
            return Ok(());
        }
        (Shape::Nothing, _) => {}
        (Shape::Text, Value::String(text)) => inner.extend_from_slice(text.as_bytes()),
        (Shape::Any, _) => put_bytes(2, format!("{value}\n").as_bytes(), &mut inner),
        (Shape::Within(within, shape), _) => put(within, *shape, brand, value, &mut inner)?,
        (Shape::Message(message), Value::Object(members)) => {
            for (name, value) in members {
                put_member(message, brand, name, value, &mut inner)?;
            }
        }
        (Shape::Named(within, shape), Value::Object(members)) => {
            for (name, value) in members {
                put_named(within, shape, brand, (name, value), &mut inner)?;
            }
        }
        (
            Shape::Each(_)
            | Shape::Flag
            | Shape::Number
            | Shape::Integer
            | Shape::Text
            | Shape::Message(_)
            | Shape::Named(..),
            _,
        ) => {
            return Err(unknown(&value.to_string()));
        }
    }
    put_bytes(number, &inner, out);
    Ok(())
}

/// Appends a name and a value as one item of the repeated field `number`.
fn put_named(
    number: u32,
    shape: &Shape,
    brand: &Brand,
    (name, value): (&str, &Value),
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let mut item = Vec::new();
    put_bytes(1, name.as_bytes(), &mut item);
    put(2, *shape, brand, value, &mut item)?;
    put_bytes(number, &item, out);
    Ok(())
}

/// A count as a varint, also where it was written as a double.
fn integer(digits: &Number) -> Option<u64> {
    let whole = || digits.as_f64().filter(|count| count.fract() == 0.0 && (0.0..COUNT_END).contains(count));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is whole, not negative and smaller than 2^63"
    )]
    let rounded = || whole().map(|count| count as u64);
    digits.as_i64().map(i64::cast_unsigned).or_else(rounded)
}

/// 2^63: counts are smaller.
const COUNT_END: f64 = 9_223_372_036_854_775_808.0;

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn unknown(what: &str) -> io::Error {
    io::Error::other(format!("there is no field for {what} in the binary form"))
}
