//! Values that own all that is in them.

use orch_schema::value::Value;

use super::shape::Shape;
use crate::value::{Map, Val};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Plain {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    List(Vec<Plain>),
    Map(Vec<(Plain, Plain)>),
    Optional(Option<Box<Plain>>),
}

impl Plain {
    /// A document that has this shape.
    pub(super) fn of(value: &Value, shape: &Shape) -> Plain {
        match (value, shape) {
            (Value::Bool(truth), _) => Plain::Bool(*truth),
            (Value::Number(number), Shape::Int) => Plain::Int(number.as_i64().unwrap()),
            (Value::Number(number), _) => Plain::Double(number.as_f64().unwrap()),
            (Value::String(text), _) => Plain::Text(text.to_string()),
            (Value::Array(items), Shape::List(_, item)) => {
                Plain::List(items.iter().map(|value| Plain::of(value, item)).collect())
            }
            (Value::Object(map), Shape::Map(_, of)) => {
                let entry = |(key, value): (_, &Value)| (Plain::Text(format!("{key}")), Plain::of(value, of));
                Plain::Map(map.iter().map(entry).collect())
            }
            (Value::Object(map), Shape::Object(members)) => {
                let member = |(name, shape): &(&str, Shape)| {
                    Some((Plain::Text((*name).to_owned()), Plain::of(map.get(name)?, shape)))
                };
                Plain::Map(members.iter().filter_map(member).collect())
            }
            other => panic!("no document of its shape: {other:?}"),
        }
    }

    /// The size that costs count.
    pub(super) fn size(&self) -> u64 {
        crate::length(match self {
            Plain::Text(text) => text.chars().count(),
            Plain::List(items) => items.len(),
            Plain::Map(entries) => entries.len(),
            Plain::Bool(_) | Plain::Int(_) | Plain::Double(_) | Plain::Optional(_) => 1,
        })
    }

    /// The cost of reading all that is in it.
    pub(super) fn traversal(&self) -> u64 {
        match self {
            Plain::Text(text) => crate::length(text.len()) / 10,
            Plain::List(items) => items.iter().map(Plain::traversal).sum(),
            Plain::Map(entries) => {
                entries.iter().map(|(key, value)| key.traversal() + value.traversal()).sum()
            }
            Plain::Bool(_) | Plain::Int(_) | Plain::Double(_) | Plain::Optional(_) => 1,
        }
    }

    /// The value behind a key, or of a list at a place.
    pub(super) fn get(&self, key: &Plain) -> Option<&Plain> {
        match (self, key) {
            (Plain::Map(entries), key) => Some(&entries.iter().find(|(own, _)| own.equals(key))?.1),
            (Plain::List(items), Plain::Int(at)) => items.get(usize::try_from(*at).ok()?),
            _ => None,
        }
    }

    /// Equality of the language: numbers by their value, maps in any order.
    pub(super) fn equals(&self, other: &Plain) -> bool {
        match (self, other) {
            (Plain::Bool(one), Plain::Bool(other)) => one == other,
            (Plain::Text(one), Plain::Text(other)) => one == other,
            (Plain::List(one), Plain::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.equals(other))
            }
            (Plain::Map(one), Plain::Map(_)) => {
                let is_there =
                    |(key, value): &(Plain, Plain)| other.get(key).is_some_and(|found| found.equals(value));
                self.size() == other.size() && one.iter().all(is_there)
            }
            (Plain::Optional(None), Plain::Optional(None)) => true,
            (Plain::Optional(Some(one)), Plain::Optional(Some(other))) => one.equals(other),
            _ => self.order(other) == Some(std::cmp::Ordering::Equal),
        }
    }

    /// The order of numbers, texts and truth values.
    pub(super) fn order(&self, other: &Plain) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Plain::Int(one), Plain::Int(other)) => Some(one.cmp(other)),
            (Plain::Double(one), Plain::Double(other)) => one.partial_cmp(other),
            (Plain::Int(one), Plain::Double(other)) => rounded(*one, *other),
            (Plain::Double(one), Plain::Int(other)) => rounded(*other, *one).map(std::cmp::Ordering::reverse),
            (Plain::Text(one), Plain::Text(other)) => Some(one.cmp(other)),
            (Plain::Bool(one), Plain::Bool(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

/// An integer beside a double: the reference rounds the integer.
#[expect(clippy::cast_precision_loss, reason = "the reference rounds")]
fn rounded(integer: i64, double: f64) -> Option<std::cmp::Ordering> {
    (integer as f64).partial_cmp(&double)
}

impl From<&Val<'_>> for Plain {
    fn from(value: &Val<'_>) -> Plain {
        match value {
            Val::Bool(truth) => Plain::Bool(*truth),
            Val::Int(number) => Plain::Int(*number),
            Val::Double(number) => Plain::Double(*number),
            Val::Text(text) => Plain::Text(text.to_string()),
            Val::List(list) => Plain::List(list.iter().map(|item| Plain::from(&item)).collect()),
            Val::Map(map) => Plain::Map(entries(map)),
            Val::Optional(value) => {
                Plain::Optional(value.as_ref().map(|value| Box::new(Plain::from(&**value))))
            }
            other => panic!("no expression here has the value {other:?}"),
        }
    }
}

fn entries(map: &Map<'_>) -> Vec<(Plain, Plain)> {
    map.iter().map(|(key, value)| (Plain::from(&key), Plain::from(&value))).collect()
}

/// Sameness of results: numbers that are none are the same here.
impl PartialEq for Plain {
    fn eq(&self, other: &Plain) -> bool {
        match (self, other) {
            (Plain::Double(one), Plain::Double(other)) => one == other || (one.is_nan() && other.is_nan()),
            (Plain::Int(one), Plain::Int(other)) => one == other,
            (Plain::Int(_), Plain::Double(_)) | (Plain::Double(_), Plain::Int(_)) => false,
            (Plain::List(one), Plain::List(other)) => one == other,
            (Plain::Map(one), Plain::Map(_)) => {
                let is_there =
                    |(key, value): &(Plain, Plain)| other.get(key).is_some_and(|found| found == value);
                self.size() == other.size() && one.iter().all(is_there)
            }
            (Plain::Optional(one), Plain::Optional(other)) => one == other,
            _ => self.equals(other),
        }
    }
}
