//! Values that own all that is in them.

use orch_schema::value::Value;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::shape::Shape;
use super::{rights, times};
use crate::value::{Map, Val};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Plain>),
    /// A list whose items are told apart by their values, or, if there is one, by this member.
    Identified(Option<&'static str>, Vec<Plain>),
    /// The name of a type.
    Type(&'static str),
    /// A question about rights on its way, and the stage that it has come to.
    Check(&'static str, Vec<String>),
    /// The answer to one.
    Decision(rights::Answer),
    Map(Vec<(Plain, Plain)>),
    Optional(Option<Box<Plain>>),
    /// Nanoseconds.
    Duration(i128),
    Time(times::Time),
    /// Nano-units.
    Amount(i128),
    Version(Version),
    Address(Address),
    /// An address, and the bits of its prefix.
    Network(Address, u32),
    Link(Link),
    /// The name of a format, and the characters of its pattern.
    Format(&'static str, u64),
}

/// A semantic version: its three numbers, and the parts before build metadata.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) numbers: [u64; 3],
    pub(super) before: Vec<String>,
}

/// The bytes of an address: four or sixteen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) Vec<u8>);

/// The parts of a locator, and its text.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) text: String,
}

impl Plain {
    /// A document that has this shape.
    pub(super) fn of(value: &Value, shape: &Shape) -> Plain {
        match (value, shape.bare()) {
            (Value::Null, _) => Plain::Null,
            (Value::Number(number), Shape::Either) => Plain::Int(number.as_i64().unwrap()),
            (Value::String(text), Shape::Bytes(_)) => Plain::Bytes(STANDARD.decode(text.as_bytes()).unwrap()),
            (Value::Array(items), Shape::Set(_, item)) => {
                let member = if let Shape::Object(_) = **item { Some("a") } else { None };
                Plain::Identified(member, items.iter().map(|value| Plain::of(value, item)).collect())
            }
            (Value::Bool(truth), _) => Plain::Bool(*truth),
            (Value::Number(number), Shape::Int) => Plain::Int(number.as_i64().unwrap()),
            (Value::Number(number), _) => Plain::Double(number.as_f64().unwrap()),
            (Value::String(text), Shape::Duration) => Plain::Duration(times::duration(text).unwrap()),
            (Value::String(text), Shape::Time) => Plain::Time(times::time(text).unwrap()),
            (Value::String(text), _) => Plain::Text(text.to_string()),
            (Value::Array(items), Shape::List(_, item)) => {
                Plain::List(items.iter().map(|value| Plain::of(value, item)).collect())
            }
            (Value::Object(map), Shape::Map(_, of)) => {
                let entry = |(key, value): (_, &Value)| (Plain::Text(format!("{key}")), Plain::of(value, of));
                Plain::Map(map.iter().map(entry).collect())
            }
            (Value::Object(map), Shape::Object(members)) => {
                // A member that is null is absent.
                let member = |(name, shape): &(&str, Shape)| {
                    let value = map.get(name).filter(|value| !value.is_null())?;
                    Some((Plain::Text((*name).to_owned()), Plain::of(value, shape)))
                };
                Plain::Map(members.iter().filter_map(member).collect())
            }
            other => panic!("no document of its shape: {other:?}"),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<&[Plain]> {
        match self {
            Plain::List(items) | Plain::Identified(_, items) => Some(items),
            _ => None,
        }
    }

    /// The name of the type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Plain::Null => "null_type",
            Plain::Bool(_) => "bool",
            Plain::Int(_) => "int",
            Plain::Uint(_) => "uint",
            Plain::Double(_) => "double",
            Plain::Text(_) => "string",
            Plain::Bytes(_) => "bytes",
            Plain::List(_) | Plain::Identified(..) => "list",
            Plain::Map(_) => "map",
            Plain::Optional(_) => "optional_type",
            Plain::Type(_) => "type",
            Plain::Duration(_) => "google.protobuf.Duration",
            Plain::Time(_) => "google.protobuf.Timestamp",
            other => panic!("no fault here names the type of {other:?}"),
        }
    }

    /// The size that costs count.
    pub(super) fn size(&self) -> u64 {
        crate::length(match self {
            Plain::Text(text) => text.chars().count(),
            Plain::Bytes(bytes) => bytes.len(),
            Plain::List(items) | Plain::Identified(_, items) => items.len(),
            Plain::Map(entries) => entries.len(),
            Plain::Address(Address(bytes)) => bytes.len(),
            Plain::Network(_, bits) => usize::try_from(*bits).unwrap().div_ceil(8),
            _ => 1,
        })
    }

    /// The cost of reading all that is in it.
    pub(super) fn traversal(&self) -> u64 {
        match self {
            Plain::Text(text) => crate::length(text.len()) / 10,
            Plain::Bytes(bytes) => crate::length(bytes.len()) / 10,
            Plain::List(items) | Plain::Identified(_, items) => items.iter().map(Plain::traversal).sum(),
            Plain::Map(entries) => {
                entries.iter().map(|(key, value)| key.traversal() + value.traversal()).sum()
            }
            _ => 1,
        }
    }

    /// Whether the value has a type that the language itself does not have.
    pub(super) fn is_of_server(&self) -> bool {
        matches!(
            self,
            Plain::Amount(_)
                | Plain::Version(_)
                | Plain::Address(_)
                | Plain::Network(..)
                | Plain::Link(_)
                | Plain::Format(..)
        )
    }

    /// Whether it is the value that its type has where nothing is set.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Plain::Bool(truth) => !truth,
            Plain::Null => true,
            Plain::Int(number) => *number == 0,
            Plain::Uint(number) => *number == 0,
            Plain::Double(number) => *number == 0.0,
            Plain::Text(_) | Plain::Bytes(_) | Plain::List(_) | Plain::Identified(..) | Plain::Map(_) => {
                self.size() == 0
            }
            Plain::Optional(value) => value.is_none(),
            Plain::Duration(nanoseconds) => *nanoseconds == 0,
            Plain::Time(time) => times::time("0001-01-01T00:00:00Z").is_some_and(|zero| zero.0 == time.0),
            _ => false,
        }
    }

    /// The value behind a key, or of a list at a place.
    pub(super) fn get(&self, key: &Plain) -> Option<&Plain> {
        match (self, key) {
            (Plain::Map(entries), key) => Some(&entries.iter().find(|(own, _)| own.equals(key))?.1),
            (list, Plain::Int(at)) => list.items()?.get(usize::try_from(*at).ok()?),
            _ => None,
        }
    }

    /// Equality of the language: numbers by their value, maps in any order.
    pub(super) fn equals(&self, other: &Plain) -> bool {
        match (self, other) {
            (Plain::Bool(one), Plain::Bool(other)) => one == other,
            (Plain::Text(one), Plain::Text(other)) => one == other,
            (Plain::Null, Plain::Null) => true,
            (Plain::Bytes(one), Plain::Bytes(other)) => one == other,
            (Plain::Type(one), Plain::Type(other)) => one == other,
            (Plain::List(one), other) => other.items().is_some_and(|other| {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.equals(other))
            }),
            (Plain::Identified(member, one), other) => other.items().is_some_and(|other| {
                let has = |item: &Plain| {
                    other.iter().any(|found| item.is_same_as(found, *member) && item.equals(found))
                };
                one.len() == other.len() && one.iter().all(has)
            }),
            (Plain::Map(one), Plain::Map(_)) => {
                let is_there =
                    |(key, value): &(Plain, Plain)| other.get(key).is_some_and(|found| value.equals(found));
                self.size() == other.size() && one.iter().all(is_there)
            }
            (Plain::Optional(None), Plain::Optional(None)) => true,
            (Plain::Optional(Some(one)), Plain::Optional(Some(other))) => one.equals(other),
            (Plain::Address(one), Plain::Address(other)) => one == other,
            (Plain::Network(one, bits), Plain::Network(other, others)) => (one, bits) == (other, others),
            (Plain::Link(one), Plain::Link(other)) => one.text == other.text,
            (Plain::Format(one, _), Plain::Format(other, _)) => one == other,
            (Plain::Amount(one), Plain::Amount(other)) => one == other,
            (Plain::Version(one), Plain::Version(other)) => one.precedence(other).is_eq(),
            _ => self.order(other) == Some(std::cmp::Ordering::Equal),
        }
    }

    /// Whether two items of a list are the same: equal, or with an equal member of this name.
    pub(super) fn is_same_as(&self, other: &Plain, member: Option<&str>) -> bool {
        let Some(member) = member else { return self.equals(other) };
        let key = Plain::Text(member.to_owned());
        match (self.get(&key), other.get(&key)) {
            (Some(one), Some(other)) => one.equals(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// The order of numbers, texts, bytes, truth values, durations and times.
    pub(super) fn order(&self, other: &Plain) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Plain::Int(one), Plain::Int(other)) => Some(one.cmp(other)),
            (Plain::Double(one), Plain::Double(other)) => one.partial_cmp(other),
            (Plain::Int(one), Plain::Double(other)) => rounded(*one, *other),
            (Plain::Double(one), Plain::Int(other)) => rounded(*other, *one).map(std::cmp::Ordering::reverse),
            (Plain::Uint(one), Plain::Uint(other)) => Some(one.cmp(other)),
            (Plain::Int(one), Plain::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Plain::Uint(one), Plain::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Plain::Uint(one), Plain::Double(other)) => rounded_up(*one).partial_cmp(other),
            (Plain::Double(one), Plain::Uint(other)) => one.partial_cmp(&rounded_up(*other)),
            (Plain::Text(one), Plain::Text(other)) => Some(one.cmp(other)),
            (Plain::Bytes(one), Plain::Bytes(other)) => Some(one.cmp(other)),
            (Plain::Bool(one), Plain::Bool(other)) => Some(one.cmp(other)),
            (Plain::Duration(one), Plain::Duration(other))
            | (Plain::Time((one, _)), Plain::Time((other, _))) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

/// An integer beside a double: the reference rounds the integer.
#[expect(clippy::cast_precision_loss, reason = "the reference rounds")]
fn rounded(integer: i64, double: f64) -> Option<std::cmp::Ordering> {
    (integer as f64).partial_cmp(&double)
}

#[expect(clippy::cast_precision_loss, reason = "the reference rounds")]
fn rounded_up(unsigned: u64) -> f64 {
    unsigned as f64
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
