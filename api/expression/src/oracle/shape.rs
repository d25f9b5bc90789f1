//! Schemas and documents that are made from bytes.

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
    Object(Vec<(&'static str, Shape)>),
    Duration,
    Time,
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
        Shape::Object(NAMES[..members].iter().map(|name| (*name, Shape::any(bytes, levels))).collect())
    }

    fn any(bytes: &mut Bytes<'_>, levels: usize) -> Shape {
        let choices = if levels == 0 { 6 } else { 11 };
        match bytes.below(choices) {
            0 => Shape::Int,
            1 => Shape::Text([4, 25, 0][bytes.below(3)]),
            2 => Shape::Bool,
            3 => Shape::Double,
            4 => Shape::Duration,
            5 => Shape::Time,
            6..=8 => Shape::List(bytes.below(5), Box::new(Shape::any(bytes, levels - 1))),
            9 => Shape::Map(bytes.below(4), Box::new(Shape::any(bytes, levels - 1))),
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
                for (name, shape) in members {
                    if bytes.below(8) != 7 {
                        made.insert(SmolStr::new(name), shape.document(bytes));
                    }
                }
                Value::Object(made)
            }
            other => panic!("no document has {other:?}"),
        }
    }

    /// Whether values of both shapes have one type.
    pub(super) fn is_like(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::List(_, one), Shape::List(_, other)) | (Shape::Map(_, one), Shape::Map(_, other)) => {
                one.is_like(other)
            }
            (Shape::Object(one), Shape::Object(other)) => std::ptr::eq(one.as_ptr(), other.as_ptr()),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

/// The true sizes of documents. The reference gives numbers, truth values and keys behind a path no size at all, so that the
/// estimate of a comparison of two of them is lower than its cost: that is the sizes' doing, and not looked for here.
pub(super) struct ShapeSizes<'s>(pub(super) &'s Shape);

impl Sizes for ShapeSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<Range> {
        let (first, rest) = path.split_first()?;
        if *first != "self" {
            return None;
        }
        let mut shape = self.0;
        for step in rest {
            shape = match (shape, *step) {
                (Shape::List(_, item), "@items") => item,
                (Shape::Map(_, value), "@values") => value,
                (Shape::Map(..), "@keys") => &Shape::Text(KEY_MAX),
                (Shape::Object(members), name) => &members.iter().find(|(member, _)| *member == name)?.1,
                _ => return None,
            };
        }
        Some(match shape {
            Shape::Object(members) => Range::new(0, crate::length(members.len())),
            Shape::Text(most) | Shape::List(most, _) | Shape::Map(most, _) => {
                Range::new(0, crate::length(*most))
            }
            _ => Range::exactly(1),
        })
    }
}
