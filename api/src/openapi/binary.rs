//! The Protobuf form of version 2: the one that older clients ask for and have no other for.
//!
//! Owns the numbers of the fields, as tables over the JSON form, and the walk that encodes by them. It knows as much
//! of the format as our documents use; a member it does not know is an error and never left out.

use std::io;

use orch_proto::Brand;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

/// How a JSON value is encoded.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    /// As text of its own, in field 2 of a message.
    Any,
    /// A list of these.
    Each(&'static Shape),
    Message(&'static Message),
    /// A message with nothing but this in the field with this number.
    Within(u32, &'static Shape),
    /// A message with a list in the field with this number: a name (1) and a value (2) for each member.
    Named(u32, &'static Shape),
    /// What it is depends on the value.
    Either(fn(&Value) -> Shape),
}

struct Message {
    /// JSON names with their numbers and shapes.
    members: &'static [(&'static str, u32, Shape)],
    /// Number of the list of extensions; 0 where there is none.
    extensions: u32,
}

const TEXTS: Shape = Shape::Each(&Shape::Text);
const OPERATION: Shape = Shape::Message(&OPERATION_MESSAGE);
static SCHEMA: Shape = Shape::Message(&SCHEMA_MESSAGE);
const PARAMETER: Shape = Shape::Either(parameter);
const PARAMETERS: Shape = Shape::Each(&Shape::Either(parameters_item));
const RESPONSES: Shape = Shape::Named(1, &Shape::Within(1, &Shape::Message(&RESPONSE)));

static DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, Shape::Text),
        ("info", 2, Shape::Message(&INFO)),
        ("paths", 8, Shape::Named(2, &Shape::Message(&PATH_ITEM))),
        ("definitions", 9, Shape::Named(1, &SCHEMA)),
        ("parameters", 10, Shape::Named(1, &PARAMETER)),
        ("security", 12, Shape::Each(&Shape::Named(1, &Shape::Within(1, &TEXTS)))),
        ("securityDefinitions", 13, Shape::Named(1, &Shape::Within(2, &Shape::Message(&API_KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { members: &[("title", 1, Shape::Text), ("version", 2, Shape::Text)], extensions: 7 };

static API_KEY: Message = Message {
    members: &[
        ("type", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("description", 4, Shape::Text),
    ],
    extensions: 5,
};

static PATH_ITEM: Message = Message {
    members: &[
        ("get", 2, OPERATION),
        ("put", 3, OPERATION),
        ("post", 4, OPERATION),
        ("delete", 5, OPERATION),
        ("patch", 8, OPERATION),
        ("parameters", 9, PARAMETERS),
    ],
    extensions: 10,
};

static OPERATION_MESSAGE: Message = Message {
    members: &[
        ("tags", 1, TEXTS),
        ("description", 3, Shape::Text),
        ("operationId", 5, Shape::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, PARAMETERS),
        ("responses", 9, RESPONSES),
        ("schemes", 10, TEXTS),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    members: &[("description", 1, Shape::Text), ("schema", 2, Shape::Within(1, &SCHEMA))],
    extensions: 5,
};

static REFERENCE: Message = Message { members: &[("$ref", 1, Shape::Text)], extensions: 0 };

static BODY: Message = Message {
    members: &[
        ("description", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("required", 4, Shape::Flag),
        ("schema", 5, Shape::Message(&SCHEMA_MESSAGE)),
    ],
    extensions: 6,
};

static IN_QUERY: Message = Message {
    members: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 6, Shape::Text),
        ("uniqueItems", 20, Shape::Flag),
    ],
    extensions: 23,
};

static IN_PATH: Message = Message {
    members: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 5, Shape::Text),
        ("uniqueItems", 19, Shape::Flag),
    ],
    extensions: 22,
};

static SCHEMA_MESSAGE: Message = Message {
    members: &[
        ("$ref", 1, Shape::Text),
        ("format", 2, Shape::Text),
        ("description", 4, Shape::Text),
        ("required", 19, TEXTS),
        ("enum", 20, Shape::Each(&Shape::Any)),
        ("additionalProperties", 21, Shape::Within(1, &SCHEMA)),
        ("type", 22, Shape::Within(1, &Shape::Text)),
        ("items", 23, Shape::Within(1, &SCHEMA)),
        ("properties", 25, Shape::Named(1, &SCHEMA)),
    ],
    extensions: 31,
};

static A_REFERENCE: Shape = Shape::Within(2, &Shape::Message(&REFERENCE));
static A_PARAMETER: Shape = Shape::Within(1, &PARAMETER);
static A_BODY: Shape = Shape::Within(1, &Shape::Message(&BODY));
static A_PART_OF_THE_PATH: Shape = Shape::Within(2, &Shape::Within(4, &Shape::Message(&IN_PATH)));
static A_PART_OF_THE_QUERY: Shape = Shape::Within(2, &Shape::Within(3, &Shape::Message(&IN_QUERY)));

fn parameters_item(value: &Value) -> Shape {
    if value.get("$ref").is_some() { A_REFERENCE } else { A_PARAMETER }
}

fn parameter(value: &Value) -> Shape {
    match value.get("in").and_then(Value::as_str) {
        Some("body") => A_BODY,
        Some("path") => A_PART_OF_THE_PATH,
        _ => A_PART_OF_THE_QUERY,
    }
}

/// A document that is encoded member by member.
pub(super) struct Binary {
    brand: &'static Brand,
    bytes: Vec<u8>,
}

impl Binary {
    pub(super) fn new(brand: &'static Brand) -> Self {
        Self { brand, bytes: Vec::new() }
    }

    /// Adds a member of the document.
    pub(super) fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        let Self { brand, bytes } = self;
        put_member(&DOCUMENT, brand, name, value, bytes)
    }

    /// Adds a member of the document that is a map, by its entries.
    pub(super) fn entries(
        &mut self,
        name: &str,
        entries: impl IntoIterator<Item = io::Result<(String, Value)>>,
    ) -> io::Result<()> {
        let Some((_, number, Shape::Named(within, shape))) =
            DOCUMENT.members.iter().find(|(known, ..)| *known == name)
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

/// Writes `value` as the field with this number.
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
        (Shape::Each(_) | Shape::Flag | Shape::Text | Shape::Message(_) | Shape::Named(..), _) => {
            return Err(unknown(&value.to_string()));
        }
    }
    put_bytes(number, &inner, out);
    Ok(())
}

/// Writes a name and a value as one item of the list with this number.
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

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn unknown(what: &str) -> io::Error {
    io::Error::other(format!("there is no field for {what} in the binary form"))
}
