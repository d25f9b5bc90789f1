//! A document as a tree of JSON values, in a third of the memory of `serde_json::Value`.
//!
//! Owns the representation and nothing else: readers and writers of each format stand beside it. Its methods carry the
//! names of `serde_json` and do the same, so that a reader of that crate knows this one. Differences: an object is a
//! list of entries that gets a hash index only when it is long (`map`), and texts are [`SmolStr`]: up to 23 bytes
//! without an allocation, longer ones shared by every copy of a tree.
//!
//! Invariant: a value is 32 bytes, an entry of an object 56; `budget` counts by these sizes.

#![expect(missing_docs, reason = "methods whose names say it, which `serde_json` documents")]

mod convert;
mod map;
mod serial;

use std::fmt;
use std::ops::{Index, IndexMut};

pub use map::{Entry, Iter, IterMut, Map, OccupiedEntry, VacantEntry};
pub use serde_json::Number;
pub use smol_str::SmolStr;

/// Any JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(SmolStr),
    Array(Vec<Value>),
    Object(Map),
}

/// The value of an absent member.
static NULL: Value = Value::Null;

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self, Value::Array(_))
    }

    pub fn is_string(&self) -> bool {
        matches!(self, Value::String(_))
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }

    pub fn is_boolean(&self) -> bool {
        matches!(self, Value::Bool(_))
    }

    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// The number as an integer, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Number(number) = self { number.as_i64() } else { None }
    }

    /// The number as an integer without sign, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        if let Value::Number(number) = self { number.as_u64() } else { None }
    }

    /// The number, rounded to a double where it is an integer.
    pub fn as_f64(&self) -> Option<f64> {
        if let Value::Number(number) = self { number.as_f64() } else { None }
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    pub fn as_array(&self) -> Option<&Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    pub fn as_object(&self) -> Option<&Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The member `at` of an object (by name) or of a list (by place).
    pub fn get<I: Place>(&self, at: I) -> Option<&Value> {
        Place::find(at, self)
    }

    /// The same member, mutable.
    pub fn get_mut<I: Place>(&mut self, at: I) -> Option<&mut Value> {
        Place::find_mut(at, self)
    }

    /// Sorts the members of every object by name.
    pub fn sort_all_objects(&mut self) {
        match self {
            Value::Object(map) => {
                map.sort_keys();
                map.values_mut().for_each(Value::sort_all_objects);
            }
            Value::Array(items) => items.iter_mut().for_each(Value::sort_all_objects),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Returns the value and leaves null in its place.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }
}

/// The key of a member: the name in an object, the place in a list.
pub trait Place {
    fn find(self, value: &Value) -> Option<&Value>;
    fn find_mut(self, value: &mut Value) -> Option<&mut Value>;
}

impl Place for &str {
    fn find(self, value: &Value) -> Option<&Value> {
        value.as_object()?.get(self)
    }

    fn find_mut(self, value: &mut Value) -> Option<&mut Value> {
        value.as_object_mut()?.get_mut(self)
    }
}

impl Place for &String {
    fn find(self, value: &Value) -> Option<&Value> {
        Place::find(self.as_str(), value)
    }

    fn find_mut(self, value: &mut Value) -> Option<&mut Value> {
        Place::find_mut(self.as_str(), value)
    }
}

impl Place for &SmolStr {
    fn find(self, value: &Value) -> Option<&Value> {
        Place::find(self.as_str(), value)
    }

    fn find_mut(self, value: &mut Value) -> Option<&mut Value> {
        Place::find_mut(self.as_str(), value)
    }
}

impl Place for usize {
    fn find(self, value: &Value) -> Option<&Value> {
        value.as_array()?.get(self)
    }

    fn find_mut(self, value: &mut Value) -> Option<&mut Value> {
        value.as_array_mut()?.get_mut(self)
    }
}

impl<I: Place> Index<I> for Value {
    type Output = Value;

    /// The member, or null where there is none.
    fn index(&self, at: I) -> &Value {
        Place::find(at, self).unwrap_or(&NULL)
    }
}

impl IndexMut<&str> for Value {
    /// The member `name`, made null first where it is missing; null becomes an object.
    ///
    /// # Panics
    /// If the value is neither null nor an object.
    fn index_mut(&mut self, name: &str) -> &mut Value {
        if self.is_null() {
            *self = Value::Object(Map::new());
        }
        let map = self.as_object_mut().unwrap_or_else(|| panic!("no object has a member {name:?}"));
        map.entry(name).or_insert(Value::Null)
    }
}

impl IndexMut<usize> for Value {
    /// # Panics
    /// If the value is no list or a shorter one.
    fn index_mut(&mut self, at: usize) -> &mut Value {
        self.get_mut(at).unwrap_or_else(|| panic!("no list has a member {at}"))
    }
}

impl fmt::Display for Value {
    /// Compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Builds a [`Value`] from JSON: `json!({"metadata": {"name": name}})`.
///
/// It serializes its arguments into a `serde_json::Value` first: use it in tests and for values that are built once,
/// not for each item of a list.
#[macro_export]
macro_rules! json {
    (null) => {
        $crate::value::Value::Null
    };
    ({}) => {
        $crate::value::Value::Object($crate::value::Map::new())
    };
    ([]) => {
        $crate::value::Value::Array(Vec::new())
    };
    ($($json:tt)+) => {
        $crate::value::Value::from(::serde_json::json!($($json)+))
    };
}

#[cfg(test)]
mod tests;
