//! Schemas and documents that are made from bytes.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orch_schema::json;
use orch_schema::value::{SmolStr, Value};

use crate::cost::{Range, Sizes};

/// Bytes that decide what is made. Behind the last one all decisions are for the first choice, which is the smallest.
#[derive(Debug)]
pub(super) struct Bytes<'b> {
    left: std::slice::Iter<'b, u8>,
}

impl<'b> Bytes<'b> {
    pub(super) fn of(bytes: &'b [u8]) -> Bytes<'b> {
        Bytes { left: bytes.iter() }
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.left.next().copied().unwrap_or(0)) % end.max(1)
    }

    pub(super) fn one_of<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    /// A short text, some letters of which take two bytes.
    pub(super) fn text(&mut self, most: usize) -> String {
        let length = self.below(most + 1);
        (0..length).map(|_| ['a', 'b', 'A', 'é', ' ', '7'][self.below(6)]).collect()
    }
}

/// The shape of a value.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Int,
    Double,
    Bool,
    /// With the most characters.
    Text(usize),
    /// With the most items.
    List(usize, Box<Shape>),
    /// From texts, with the most entries.
    Map(usize, Box<Shape>),
    Object(Rc<[(&'static str, Shape)]>),
    Duration,
    Time,
    /// With the most bytes, in base64.
    Bytes(usize),
    /// An integer or a text.
    Either,
    /// May be null: of members of objects, and of items and entries that are integers.
    Nullable(Box<Shape>),
    /// A list with the most items, which are told apart by their values, or, if they are objects, by their member `a`.
    Set(usize, Box<Shape>),
    /// Of the language: no document has them.
    Uint,
    /// Of the server's libraries: no document has them.
    Amount,
    Version,
    Address,
    Network,
    Link,
}

/// Durations of documents.
const DURATIONS: [&str; 5] = ["0s", "90m", "-1.5s", "26h0.25s", "2562046h0.000000001s"];
/// Times of documents.
const TIMES: [&str; 5] = [
    "2024-02-29T23:59:59Z",
    "1969-12-31T23:59:59.5Z",
    "2026-07-01T10:20:30.123456789+05:30",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
];

/// Before the names of extensions of schemas.
pub(super) const PREFIX: &str = "x-brand-";

/// `schema` with an extension.
fn with(mut schema: Value, extension: &str, value: Value) -> Value {
    schema.as_object_mut().unwrap().insert(SmolStr::from(format!("{PREFIX}{extension}")), value);
    schema
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The longest key of a map.
const KEY_MAX: usize = 2;

impl Shape {
    /// The shape of a whole document.
    pub(super) fn root(bytes: &mut Bytes<'_>) -> Shape {
        Shape::object(bytes, 2)
    }

    fn object(bytes: &mut Bytes<'_>, levels: usize) -> Shape {
        let members = 2 + bytes.below(NAMES.len() - 1);
        let member = |name: &&'static str| {
            let shape = Shape::any(bytes, levels);
            (*name, if bytes.below(8) == 7 { Shape::Nullable(Box::new(shape)) } else { shape })
        };
        Shape::Object(NAMES[..members].iter().map(member).collect())
    }

    /// An item of a list or an entry of a map.
    fn part(bytes: &mut Bytes<'_>, levels: usize) -> Box<Shape> {
        let shape = Shape::any(bytes, levels);
        let is_null = matches!(shape, Shape::Int) && bytes.below(5) == 4;
        Box::new(if is_null { Shape::Nullable(Box::new(shape)) } else { shape })
    }

    /// The items of a set, or of a list with keys.
    fn identified(bytes: &mut Bytes<'_>) -> Box<Shape> {
        Box::new(match bytes.below(3) {
            0 => Shape::Int,
            1 => Shape::Text(4),
            _ => Shape::Object([("a", Shape::Int), ("b", Shape::any(bytes, 0))].into()),
        })
    }

    fn any(bytes: &mut Bytes<'_>, levels: usize) -> Shape {
        let choices = if levels == 0 { 8 } else { 15 };
        match bytes.below(choices) {
            0 => Shape::Int,
            1 => Shape::Text([4, 25, 0][bytes.below(3)]),
            2 => Shape::Bool,
            3 => Shape::Double,
            4 => Shape::Duration,
            5 => Shape::Time,
            6 => Shape::Bytes([4, 25][bytes.below(2)]),
            7 => Shape::Either,
            8..=10 => Shape::List(bytes.below(5), Shape::part(bytes, levels - 1)),
            11 => Shape::Map(bytes.below(4), Shape::part(bytes, levels - 1)),
            12 | 13 => Shape::Set(1 + bytes.below(4), Shape::identified(bytes)),
            _ => Shape::object(bytes, levels - 1),
        }
    }

    /// The document of a schema.
    pub(super) fn schema(&self) -> Value {
        match self {
            Shape::Int => json!({"type": "integer"}),
            Shape::Double => json!({"type": "number"}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Text(most) => json!({"type": "string", "maxLength": *most}),
            Shape::Bytes(most) => json!({"type": "string", "format": "byte", "maxLength": *most}),
            Shape::Either => with(json!({"maxLength": 4}), "int-or-string", json!(true)),
            Shape::Nullable(inner) => {
                let mut schema = inner.schema();
                schema.as_object_mut().unwrap().insert(SmolStr::new("nullable"), json!(true));
                schema
            }
            Shape::Set(most, item) => {
                let list = json!({"type": "array", "maxItems": *most, "items": item.schema()});
                match **item {
                    Shape::Object(_) => {
                        with(with(list, "list-type", json!("map")), "list-map-keys", json!(["a"]))
                    }
                    _ => with(list, "list-type", json!("set")),
                }
            }
            Shape::Duration => json!({"type": "string", "format": "duration"}),
            Shape::Time => json!({"type": "string", "format": "date-time"}),
            Shape::List(most, item) => json!({"type": "array", "maxItems": *most, "items": item.schema()}),
            Shape::Map(most, value) => {
                json!({"type": "object", "maxProperties": *most, "additionalProperties": value.schema()})
            }
            Shape::Object(members) => {
                let properties: orch_schema::value::Map =
                    members.iter().map(|(name, shape)| (SmolStr::new(name), shape.schema())).collect();
                json!({"type": "object", "properties": Value::Object(properties)})
            }
            other => panic!("no schema has {other:?}"),
        }
    }

    /// A document of this shape; some members of objects are not there.
    pub(super) fn document(&self, bytes: &mut Bytes<'_>) -> Value {
        match self {
            Shape::Int => json!([0_i64, 1, 2, -3, 40, i64::MAX][bytes.below(6)]),
            Shape::Double => json!([0.5, 1.0, -2.25, 1e300][bytes.below(4)]),
            Shape::Bool => json!(bytes.below(2) == 1),
            Shape::Text(most) => json!(bytes.text(*most)),
            Shape::Duration => json!(bytes.one_of(&DURATIONS)),
            Shape::Time => json!(bytes.one_of(&TIMES)),
            Shape::Bytes(most) => {
                let length = bytes.below(*most + 1);
                let raw: Vec<u8> = (0..length).map(|_| [b'a', 0, 0xc3, 0xa9][bytes.below(4)]).collect();
                json!(STANDARD.encode(raw))
            }
            Shape::Either if bytes.below(2) == 0 => json!([0_i64, 1, 7][bytes.below(3)]),
            Shape::Either => json!(bytes.text(4)),
            Shape::Nullable(_) if bytes.below(3) == 0 => Value::Null,
            Shape::Nullable(inner) => inner.document(bytes),
            Shape::Set(most, item) => {
                let length = bytes.below(*most + 1);
                let mut made: Vec<Value> = Vec::new();
                for _ in 0..length {
                    let mut value = item.document(bytes);
                    if let (Shape::Object(_), Some(object)) = (&**item, value.as_object_mut()) {
                        object.insert(SmolStr::new("a"), json!([0_i64, 1, 2, 7][bytes.below(4)]));
                    }
                    let key =
                        |value: &Value| value.as_object().map_or_else(|| value.clone(), |of| of["a"].clone());
                    if !made.iter().any(|own| key(own) == key(&value)) {
                        made.push(value);
                    }
                }
                Value::Array(made)
            }
            Shape::List(most, item) => {
                let length = bytes.below(*most + 1);
                Value::Array((0..length).map(|_| item.document(bytes)).collect())
            }
            Shape::Map(most, value) => {
                let length = bytes.below(*most + 1);
                let entry = |_| (SmolStr::new(bytes.text(KEY_MAX)), value.document(bytes));
                Value::Object((0..length).map(entry).collect())
            }
            Shape::Object(members) => {
                let mut made = orch_schema::value::Map::new();
                for (name, shape) in members.iter() {
                    if bytes.below(8) == 7 {
                        continue;
                    }
                    // A member that is null is absent, and counts for the size of its object: what is here has no place for such.
                    let value = shape.document(bytes);
                    if !value.is_null() {
                        made.insert(SmolStr::new(name), value);
                    }
                }
                Value::Object(made)
            }
            other => panic!("no document has {other:?}"),
        }
    }

    /// The shape that values have where no schema says more than their JSON does.
    pub(super) fn untyped(&self) -> Shape {
        match self {
            Shape::Duration | Shape::Time | Shape::Bytes(_) | Shape::Either => Shape::Text(4),
            Shape::List(most, item) => Shape::List(*most, Box::new(item.untyped())),
            Shape::Set(most, item) => Shape::List(*most, Box::new(item.untyped())),
            Shape::Map(most, value) => Shape::Map(*most, Box::new(value.untyped())),
            Shape::Nullable(inner) => inner.untyped(),
            Shape::Object(members) => {
                Shape::Object(members.iter().map(|(name, shape)| (*name, shape.untyped())).collect())
            }
            other => other.clone(),
        }
    }

    /// The size of the value behind `path` in one of this shape.
    fn size(&self, path: &[&str]) -> Option<Range> {
        let mut shape = self;
        for step in path {
            shape = match (shape.bare(), *step) {
                (Shape::List(_, item) | Shape::Set(_, item), "@items") => item,
                (Shape::Map(_, value), "@values") => value,
                (Shape::Map(..), "@keys") => &Shape::Text(KEY_MAX),
                (Shape::Object(members), name) => &members.iter().find(|(member, _)| *member == name)?.1,
                _ => return None,
            };
        }
        Some(match shape.bare() {
            Shape::Object(members) => Range::new(0, crate::length(members.len())),
            Shape::Text(most)
            | Shape::Bytes(most)
            | Shape::List(most, _)
            | Shape::Set(most, _)
            | Shape::Map(most, _) => Range::new(0, crate::length(*most)),
            Shape::Either => Range::new(0, 4),
            _ => Range::exactly(1),
        })
    }

    /// The shape of values that are not null.
    pub(super) fn bare(&self) -> &Shape {
        if let Shape::Nullable(inner) = self { inner } else { self }
    }

    /// Whether values of both shapes have one type.
    pub(super) fn is_like(&self, other: &Shape) -> bool {
        match (self.bare(), other.bare()) {
            (Shape::List(_, one) | Shape::Set(_, one), Shape::List(_, other) | Shape::Set(_, other))
            | (Shape::Map(_, one), Shape::Map(_, other)) => one.is_like(other),
            (Shape::Object(one), Shape::Object(other)) => Rc::ptr_eq(one, other),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

/// The true sizes of documents, by the names of their variables. The reference gives numbers, truth values and keys behind a path no size
/// at all, so that the estimate of a comparison of two of them is lower than its cost: that is the sizes' doing, and not looked for here.
pub(super) struct ShapeSizes<'s>(pub(super) Vec<(&'s str, &'s Shape)>);

impl Sizes for ShapeSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<Range> {
        let (first, rest) = path.split_first()?;
        self.0.iter().find(|(name, _)| name == first)?.1.size(rest)
    }
}
