//! Objects of other kinds within an object (`x-orch-embedded-resource`).
//!
//! Owns their rules: they name their kind and version, and their metadata are valid. In objects their metadata were decoded as those
//! of any object; in defaults of a schema they were not ([`metadata`]).

use orch_schema::NameRule;
use orch_schema::budget::count_steps;
use orch_schema::value::{Map, Value};

use super::constraint::Node;
use super::failure::shown_value;
use super::metadata;
use crate::validate::metadata::validate_object_meta;
use crate::validate::tree::{Tree, set};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Properties of a schema that are looked at in one step.
const PROPERTIES_PER_STEP: u64 = 8;

/// The errors of all such objects in `object`, an object of the schema `root`.
pub(super) fn check(root: &Node, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if root.has_embedded {
        value(root, object, &Path::default(), &mut errors);
    }
    errors
}

/// The errors of all such objects in `at`, a part of an object, at `path`. `is_object`: it is one itself, whatever `node` says.
pub(super) fn check_part(node: &Node, at: &Value, path: &Path, is_object: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let (true, false, Value::Object(map)) = (is_object, node.embedded, at) {
        resource(map, path, &mut errors);
    }
    value(node, at, path, &mut errors);
    errors
}

/// The errors of `object`, whatever is in it beside kind, version and metadata.
pub(super) fn check_object(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Value::Object(map) = object {
        resource(map, &Path::default(), &mut errors);
    }
    errors
}

fn value(node: &Node, at: &Value, path: &Path, errors: &mut FieldErrors) {
    let steps = 1 + node.properties.len() as u64 / PROPERTIES_PER_STEP;
    if !node.has_embedded || errors.is_full() || !count_steps(steps) {
        return;
    }
    match at {
        Value::Object(map) => {
            if node.embedded {
                resource(map, path, errors);
            }
            for (name, property) in node.properties.iter().filter(|(_, property)| property.has_embedded) {
                if let Some(at) = map.get(name) {
                    value(property, at, &path.child(name), errors);
                }
            }
            if let Some(values) = &node.values {
                for (key, at) in map.iter().filter(|(key, _)| node.property(key).is_none()) {
                    value(values, at, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            for (index, at) in items.iter().enumerate() {
                node.items.iter().for_each(|item| value(item, at, &path.index(index), errors));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn resource(map: &Map, path: &Path, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(FieldError::required(path.child(name), ""));
        }
    }
    let text = |name: &str, fault: fn(&str) -> Option<String>| {
        let value = map.get(name)?;
        let path = path.child(name);
        let Some(text) = value.as_str() else {
            return Some(FieldError::invalid(path, &shown_value(value), "must be a string"));
        };
        if text.is_empty() {
            return Some(FieldError::invalid_str(path, text, "must not be empty"));
        }
        fault(text).map(|detail| FieldError::invalid_str(path, text, &detail))
    };
    let api_version = text("apiVersion", |text| {
        let is_faulty = text.matches('/').count() > 1;
        is_faulty.then(|| format!("unexpected GroupVersion string: {text}"))
    });
    let kind = text("kind", |text| {
        let faults = names::check_name(NameRule::Dns1035Label, &text.to_lowercase(), false);
        let joined = faults.join(",");
        (!faults.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {joined}"))
    });
    errors.extend(api_version.into_iter().chain(kind));
    let Some(metadata) = map.get("metadata") else { return };
    if let Some(fault) = metadata::fault(metadata) {
        let path = path.child("metadata");
        return errors.push(FieldError::invalid(path, &shown_value(metadata), &fault));
    }
    let mut metadata = if metadata.is_null() { Value::Object(Map::new()) } else { metadata.clone() };
    if metadata.text("name").is_empty() {
        // A name is not required: any will do.
        set(&mut metadata, "name", "fakename");
    }
    let is_namespaced = !metadata.text("namespace").is_empty();
    let rule = NameRule::PathSegment;
    errors.extend(validate_object_meta(&metadata, is_namespaced, rule, &path.child("metadata")));
}
