//! Defaults in schemas: they have no fields that the schema does not know.
//!
//! Defaults inside of `additionalProperties` are not looked at, as in the reference.

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::Extensions;
use super::place::Place;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors};

/// Rules for the defaults in `schema`, which is structural.
pub(super) fn validate(schema: &Value, root: &Place<'_>, extensions: &Extensions) -> FieldErrors {
    let mut walk = Walk { extensions, errors: FieldErrors::new() };
    walk.node(schema, root, Surroundings::Root);
    walk.errors
}

/// Whether a default in `schema` has fields that the schema does not know.
pub(super) fn has_unpruned(schema: &Value, extensions: &Extensions) -> bool {
    let path = crate::validate::Path::default();
    !validate(schema, &Place::root(&path), extensions).is_empty()
}

/// Where a schema stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surroundings {
    /// The root of an object: of the resource itself.
    Root,
    /// Anywhere but in the fields that every object has.
    Content,
    /// In those fields.
    Metadata,
}

struct Walk<'a> {
    extensions: &'a Extensions,
    errors: FieldErrors,
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, place: &Place<'_>, around: Surroundings) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        let is_object = around == Surroundings::Root || schema.flag(&self.extensions.embedded_resource);
        let around = if is_object { Surroundings::Root } else { around };
        let default = schema.at("default");
        if around != Surroundings::Metadata && has_unknown(default, Some(schema), self.extensions, is_object)
        {
            let path = place.child("default").path();
            self.errors.push(FieldError::invalid(path, &shown(default), "must not have unknown fields"));
        }
        let inside = if is_object { Surroundings::Content } else { around };
        if schema.at("items").is_object() {
            self.node(schema.at("items"), &place.child("items"), inside);
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            let of_object = is_object && is_object_field(name);
            let inside = if of_object { Surroundings::Metadata } else { inside };
            self.node(property, &properties.key(name), inside);
        }
    }
}

fn is_object_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Whether `value` has fields that `schema` does not know. `None`: nothing is known of it. `is_object`: it is a whole object.
fn has_unknown(value: &Value, schema: Option<&Value>, extensions: &Extensions, is_object: bool) -> bool {
    if !count_step() {
        return false;
    }
    let preserves = schema.is_some_and(|schema| schema.flag(&extensions.preserve_unknown_fields));
    let inner = |value: &Value, schema: Option<&Value>| {
        let is_object = schema.is_some_and(|schema| schema.flag(&extensions.embedded_resource));
        has_unknown(value, schema, extensions, is_object)
    };
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            if is_object && is_object_field(name) {
                return false;
            }
            let Some(schema) = schema else { return true };
            let additional = schema.at("additionalProperties");
            match (schema.at("properties").get(name.as_str()), additional) {
                (Some(property), _) => inner(value, Some(property)),
                (None, entry @ Value::Object(_)) => inner(value, Some(entry)),
                (None, _) if preserves => false,
                (None, Value::Bool(_)) => inner(value, None),
                (None, _) => true,
            }
        }),
        Value::Array(items) => {
            let schema = schema.map(|schema| schema.at("items")).filter(|items| items.is_object());
            match (schema, preserves) {
                (None, true) => false,
                (schema, _) => items.iter().any(|item| inner(item, schema)),
            }
        }
        _ => false,
    }
}
