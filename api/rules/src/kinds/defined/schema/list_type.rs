//! Sets and maps that are lists: no item of a set and no keys of a map are repeated.
//!
//! Owns these errors. A repeated item is told once, at its second place.

use std::collections::HashMap;
use std::hash::Hash;

use orch_schema::budget::{count_step, count_steps};
use orch_schema::value::{Map, Value};

use super::constraint::{Node, Unique};
use super::failure::shown_value;
use super::rules::Rules;
use crate::validate::{FieldError, FieldErrors, Path};

/// Properties of a schema that are looked at in one step.
const PROPERTIES_PER_STEP: u64 = 8;

/// The errors of all lists in `object`, an object of the schema `root`.
pub(super) fn check(root: &Node, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if root.has_unique {
        value(root, object, None, &mut errors);
    }
    errors
}

fn child(path: Option<&Path>, name: &str) -> Path {
    path.map_or_else(|| Path::new(name), |path| path.child(name))
}

fn value(node: &Node, at: &Value, path: Option<&Path>, errors: &mut FieldErrors) {
    let steps = 1 + node.properties.len() as u64 / PROPERTIES_PER_STEP;
    if !node.has_unique || errors.is_full() || !count_steps(steps) {
        return;
    }
    match at {
        Value::Array(items) => {
            let path = path.cloned().unwrap_or_default();
            list(node, items, &path, errors);
            if let Some(item) = node.items.as_deref().filter(|item| item.has_unique) {
                for (index, at) in items.iter().enumerate() {
                    value(item, at, Some(&path.index(index)), errors);
                }
            }
        }
        Value::Object(map) => members(node, map, path, errors),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members(node: &Node, map: &Map, path: Option<&Path>, errors: &mut FieldErrors) {
    if let Some(values) = node.values.as_deref().filter(|values| values.has_unique) {
        for (key, at) in map {
            let path = path.cloned().unwrap_or_default().key(key);
            value(values, at, Some(&path), errors);
        }
    }
    for (name, property) in node.properties.iter().filter(|(_, property)| property.has_unique) {
        if let Some(at) = map.get(name) {
            value(property, at, Some(&child(path, name)), errors);
        }
    }
}

fn list(node: &Node, items: &[Value], path: &Path, errors: &mut FieldErrors) {
    match node.unique {
        Unique::Nothing => {}
        Unique::Items => {
            let repeated = repeated(items.iter());
            errors.extend(repeated.map(|at| FieldError::duplicate(path.index(at), &shown_value(&items[at]))));
        }
        Unique::Keys => keys(node, items, path, errors),
    }
}

fn keys(node: &Node, items: &[Value], path: &Path, errors: &mut FieldErrors) {
    let is_foreign = |item: &Value| !item.is_null() && !item.is_object();
    // once: the first such item ends the check.
    if let Some(at) = items.iter().position(is_foreign) {
        let detail = "must be an object for an array of list-type map";
        return errors.push(FieldError::invalid(path.index(at), &shown_value(&items[at]), detail));
    }
    let names = node.rules().map(Rules::list_keys).unwrap_or_default();
    let keys = |item: &Value| -> Value {
        let found = names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
        found.collect::<Map>().into()
    };
    let keys: Vec<Value> = items.iter().take_while(|_| count_step()).map(keys).collect();
    let repeated = repeated(keys.iter());
    errors.extend(repeated.map(|at| FieldError::duplicate(path.index(at), &sorted_json(&keys[at]))));
}

/// JSON with the members in the order of their names.
fn sorted_json(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    crate::validate::tree::shown(&value)
}

/// The places at which a value is met for the second time.
fn repeated<T: Hash + Eq>(items: impl Iterator<Item = T>) -> impl Iterator<Item = usize> {
    let mut met: HashMap<T, usize> = HashMap::new();
    let mut places = Vec::new();
    for (at, item) in items.enumerate() {
        let times = met.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            places.push(at);
        }
    }
    places.into_iter()
}
