//! The types of single values: truth, texts, numbers, durations, lists, bytes, and documents as they stand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_schema::SignedDuration;
use serde_json::Value;

use super::{Reading, Wire};
use crate::config::document::Node;
use crate::config::notation::{parse_duration, quote};

impl Wire for bool {
    fn type_name(_: &Brand) -> String {
        "bool".to_owned()
    }

    fn decode(node: &Node, reading: &mut Reading) -> bool {
        match node {
            Node::Null => false,
            Node::Bool(value) => *value,
            other => {
                reading.mismatch(other, "bool");
                false
            }
        }
    }

    fn encode(&self, _: &Brand) -> Value {
        Value::Bool(*self)
    }

    fn is_empty(&self) -> bool {
        !self
    }
}

impl Wire for String {
    fn type_name(_: &Brand) -> String {
        "string".to_owned()
    }

    fn decode(node: &Node, reading: &mut Reading) -> String {
        match node {
            Node::Null => String::new(),
            Node::Text(text) => text.clone(),
            other => {
                reading.mismatch(other, "string");
                String::new()
            }
        }
    }

    fn encode(&self, _: &Brand) -> Value {
        Value::String(self.clone())
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! integer {
    ($type:ty, $name:literal) => {
        impl Wire for $type {
            fn type_name(_: &Brand) -> String {
                $name.to_owned()
            }

            fn decode(node: &Node, reading: &mut Reading) -> $type {
                let parsed = match node {
                    Node::Null => return 0,
                    Node::Number(number) => number.parse().ok(),
                    _ => None,
                };
                parsed.unwrap_or_else(|| {
                    reading.mismatch(node, $name);
                    0
                })
            }

            fn encode(&self, _: &Brand) -> Value {
                Value::from(*self)
            }

            fn is_empty(&self) -> bool {
                *self == 0
            }
        }
    };
}

integer!(i32, "int32");
integer!(i64, "int64");

/// A number of 32 bits with a fraction.
impl Wire for f32 {
    fn type_name(_: &Brand) -> String {
        "float32".to_owned()
    }

    fn decode(node: &Node, reading: &mut Reading) -> f32 {
        match node {
            Node::Null => 0.0,
            Node::Number(number) => number.parse().unwrap_or(0.0),
            other => {
                reading.mismatch(other, "float32");
                0.0
            }
        }
    }

    fn encode(&self, _: &Brand) -> Value {
        // Through its shortest text, since the digits of the wider number are not those that were given. Whole numbers
        // are written without a fraction.
        let text = self.to_string();
        match text.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => text.parse::<f64>().map_or(Value::Null, Value::from),
        }
    }

    fn is_empty(&self) -> bool {
        *self == 0.0
    }
}

impl Wire for SignedDuration {
    fn type_name(_: &Brand) -> String {
        "string".to_owned()
    }

    fn decode(node: &Node, reading: &mut Reading) -> SignedDuration {
        match node {
            Node::Null => SignedDuration::default(),
            Node::Text(text) => parse_duration(text).unwrap_or_else(|reason| {
                reading.fail(reason.0);
                SignedDuration::default()
            }),
            other => {
                reading.fail(format!("json: cannot unmarshal {} into Go value of type string", other.kind()));
                SignedDuration::default()
            }
        }
    }

    fn encode(&self, _: &Brand) -> Value {
        Value::String(self.to_string())
    }

    // As in the reference, where a duration is a struct.
    fn is_empty(&self) -> bool {
        false
    }
}

impl<T: Wire> Wire for Option<T> {
    fn type_name(brand: &Brand) -> String {
        T::type_name(brand)
    }

    fn decode(node: &Node, reading: &mut Reading) -> Option<T> {
        match node {
            Node::Null => None,
            other => Some(T::decode(other, reading)),
        }
    }

    fn encode(&self, brand: &Brand) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.encode(brand))
    }

    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn type_name(brand: &Brand) -> String {
        format!("[]{}", T::type_name(brand))
    }

    fn decode(node: &Node, reading: &mut Reading) -> Vec<T> {
        match node {
            Node::Null => Vec::new(),
            Node::List(items) => {
                let mut decoded = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    let before = reading.path.len();
                    reading.path.push_str(&format!("[{at}]"));
                    decoded.push(T::decode(item, reading));
                    reading.path.truncate(before);
                }
                decoded
            }
            other => {
                reading.mismatch(other, &Self::type_name(reading.brand));
                Vec::new()
            }
        }
    }

    fn encode(&self, brand: &Brand) -> Value {
        Value::Array(self.iter().map(|item| item.encode(brand)).collect())
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Bytes, in base64 in documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    fn type_name(_: &Brand) -> String {
        "[]uint8".to_owned()
    }

    fn decode(node: &Node, reading: &mut Reading) -> Bytes {
        match node {
            Node::Null => Bytes::default(),
            Node::Text(text) => STANDARD.decode(text).map(Bytes).unwrap_or_else(|error| {
                reading.fail(format!("illegal base64 data: {error}"));
                Bytes::default()
            }),
            other => {
                reading.mismatch(other, "[]uint8");
                Bytes::default()
            }
        }
    }

    fn encode(&self, _: &Brand) -> Value {
        Value::String(STANDARD.encode(&self.0))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A document as it stands: arguments of plugins, which get their type from the plugin's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw(pub Value);

impl Wire for Raw {
    fn type_name(_: &Brand) -> String {
        "object".to_owned()
    }

    fn decode(node: &Node, _: &mut Reading) -> Raw {
        Raw(json_of(node))
    }

    fn encode(&self, _: &Brand) -> Value {
        self.0.clone()
    }

    fn is_empty(&self) -> bool {
        self.0.is_null()
    }
}

/// `node` as JSON; of members with one name the last.
fn json_of(node: &Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Number(number) => serde_json::from_str(number).unwrap_or_else(|_| Value::String(quote(number))),
        Node::Text(text) => Value::String(text.clone()),
        Node::List(items) => Value::Array(items.iter().map(json_of).collect()),
        Node::Object(members) => {
            Value::Object(members.iter().map(|(name, node)| (name.clone(), json_of(node))).collect())
        }
    }
}

/// JSON as a document.
pub(crate) fn node_of(value: &Value) -> Node {
    match value {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) => Node::Number(number.to_string()),
        Value::String(text) => Node::Text(text.clone()),
        Value::Array(items) => Node::List(items.iter().map(node_of).collect()),
        Value::Object(members) => {
            Node::Object(members.iter().map(|(name, value)| (name.clone(), node_of(value))).collect())
        }
    }
}
