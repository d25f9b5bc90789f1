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
    items: u64,
}

impl Variable {
    /// The variable `name` that holds `document`.
    pub fn new(name: &'static str, document: &Json) -> Variable {
        let mut items = 0;
        Variable { name, value: value_of(document, &mut items), items }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn value(&self) -> Value {
        self.value.clone()
    }

    /// Elements and characters of the document together: no list or text made of it by one function has more.
    pub(super) fn items(&self) -> u64 {
        self.items
    }
}

fn value_of(document: &Json, items: &mut u64) -> Value {
    *items += 1;
    match document {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Float(number),
            (None, None) => Value::Null,
        },
        Json::String(text) => {
            *items += text.len() as u64;
            Value::String(Arc::new(text.clone()))
        }
        Json::Array(list) => Value::List(Arc::new(list.iter().map(|item| value_of(item, items)).collect())),
        Json::Object(members) => {
            let mut map = HashMap::with_capacity(members.len());
            for (name, member) in members {
                *items += name.len() as u64;
                map.insert(Key::String(Arc::new(name.clone())), value_of(member, items));
            }
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}
