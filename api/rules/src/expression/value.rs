//! Documents as the variables of expressions.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map};
use serde_json::Value as Json;

/// A variable with its value.
#[derive(Clone)]
pub struct Variable {
    name: &'static str,
    value: Value,
    size: Size,
}

/// Sizes of a document, for the cost of an evaluation over it.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Elements of lists and members of objects.
    elements: u64,
    /// Bytes of texts.
    bytes: u64,
}

impl Variable {
    /// The variable `name` that holds `document`.
    pub fn new(name: &'static str, document: &Json) -> Variable {
        let mut size = Size::default();
        let value = value_of(document, &mut size);
        Variable { name, value, size }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn value(&self) -> Value {
        self.value.clone()
    }

    /// Elements of all lists and objects of the document together.
    pub(super) fn elements(&self) -> u64 {
        self.size.elements
    }

    /// Bytes of all texts of the document together.
    pub(super) fn bytes(&self) -> u64 {
        self.size.bytes
    }
}

fn value_of(document: &Json, size: &mut Size) -> Value {
    match document {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Float(number),
            (None, None) => Value::Null,
        },
        Json::String(text) => {
            size.bytes += text.len() as u64;
            Value::String(Arc::new(text.clone()))
        }
        Json::Array(list) => {
            size.elements += list.len() as u64;
            Value::List(Arc::new(list.iter().map(|item| value_of(item, size)).collect()))
        }
        Json::Object(members) => {
            size.elements += members.len() as u64;
            let mut map = HashMap::with_capacity(members.len());
            for (name, member) in members {
                size.bytes += name.len() as u64;
                map.insert(Key::String(Arc::new(name.clone())), value_of(member, size));
            }
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}
