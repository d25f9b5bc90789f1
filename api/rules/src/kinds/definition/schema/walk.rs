//! All schemas inside of a schema.
//!
//! Owns which fields of a schema hold schemas, and which fields structural schemas have no place for.

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::Extensions;
use crate::validate::tree::{Tree, is_empty};

/// Fields that hold one schema each, or none: `items` and `additionalProperties` have other forms, too.
const SINGLE: [&str; 4] = ["items", "additionalProperties", "not", "additionalItems"];
/// Fields that hold a list of schemas.
const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];
/// Fields that hold schemas by name. The schemas of `dependencies` may be lists of names.
const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];

/// Calls `visit` with `schema` and each schema inside of it, as long as the request goes on.
pub(super) fn each<'a>(schema: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    if !schema.is_object() || !count_step() {
        return;
    }
    visit(schema);
    for name in SINGLE {
        each(schema.at(name), visit);
    }
    for name in LISTS {
        schema.items(name).iter().for_each(|schema| each(schema, visit));
    }
    for name in MAPS {
        if let Some(map) = schema.at(name).as_object() {
            map.values().for_each(|schema| each(schema, visit));
        }
    }
}

/// Whether `schema` states the field `name`: a text, a list or a map that is empty states nothing, unless it is itself a value.
pub(super) fn is_set(schema: &Value, name: &str) -> bool {
    match schema.at(name) {
        value if matches!(name, "default" | "example") => !value.is_null(),
        Value::Number(_) => true,
        // False is a schema there.
        Value::Bool(flag) => *flag || matches!(name, "additionalProperties" | "additionalItems"),
        Value::Object(_) => match name {
            "properties" | "patternProperties" | "definitions" | "dependencies" => !is_empty(schema.at(name)),
            _ => true,
        },
        other => !is_empty(other),
    }
}

/// Whether the general rules take the field `name` of `schema` as set. References and dependencies are, as in the reference, where
/// they state nothing, too.
pub(super) fn is_present(schema: &Value, name: &str) -> bool {
    is_set(schema, name) || (matches!(name, "$ref" | "dependencies") && !schema.at(name).is_null())
}

/// Whether the field `name` of `schema` is set, or is an empty list that stands there in so many words. The decoder keeps such a
/// list until it is written.
pub(super) fn is_said(schema: &Value, name: &str) -> bool {
    is_present(schema, name) || schema.at(name).is_array()
}

/// Fields that structural schemas have no place for, in the reference's order.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

/// The error that ends the conversion of `schema` to a structural one, in the reference's order; `None` where [`has_unsupported`] finds nothing.
pub(super) fn first_unsupported(schema: &Value, extensions: &Extensions) -> Option<String> {
    if !schema.is_object() || !count_step() {
        return None;
    }
    // few: seven names.
    if let Some(name) = UNSUPPORTED.into_iter().find(|name| is_set(schema, name)) {
        let name = if name == "$schema" { "schema" } else { name };
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    let inside = |schema: &Value| first_unsupported(schema, extensions);
    let junctors = ["allOf", "anyOf", "oneOf"];
    let in_list = |name: &&str| schema.items(name).iter().find_map(inside);
    let in_junctor = inside(schema.at("not")).or_else(|| junctors.iter().find_map(in_list));
    if in_junctor.is_some() {
        return in_junctor;
    }
    let preserves = &extensions.preserve_unknown_fields;
    if schema.at(preserves) == &Value::Bool(false) {
        return Some(format!("internal error: '{preserves}' must be true or undefined"));
    }
    if !schema.items("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let properties = schema.at("properties").as_object().into_iter().flatten();
    inside(schema.at("items"))
        .or_else(|| properties.map(|(_, property)| property).find_map(inside))
        .or_else(|| inside(schema.at("additionalProperties")))
}

/// Whether the structural rules cannot be checked: the schema uses what they have no place for. The general rules refuse all of it but
/// `$schema`.
pub(super) fn has_unsupported(schema: &Value, extensions: &Extensions) -> bool {
    let mut found = false;
    each(schema, &mut |schema| found |= is_unsupported(schema, extensions));
    found
}

/// [`has_unsupported`] of `schema` itself, whatever the schemas in it use.
pub(super) fn is_unsupported(schema: &Value, extensions: &Extensions) -> bool {
    // few: seven names.
    UNSUPPORTED.iter().any(|name| is_set(schema, name))
        || !schema.items("items").is_empty()
        || schema.at(&extensions.preserve_unknown_fields) == &Value::Bool(false)
}
