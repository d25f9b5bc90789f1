//! Defaults in schemas: they have no fields that the schema does not know, and keep its rules.
//!
//! Owns the walk over all defaults of a schema, which is compiled once for it. Defaults inside of `additionalProperties` are not
//! looked at, as in the reference.

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::Extensions;
use super::place::Place;
use crate::kinds::defined::schema::{Constraints, Part};
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Rules for the defaults in `schema`, which is structural.
pub(super) fn validate(
    schema: &Value,
    root: &Place<'_>,
    extensions: &Extensions,
    unknown_fields: UnknownFields,
) -> FieldErrors {
    let mut walk = Walk { extensions, unknown_fields, errors: FieldErrors::new() };
    // A schema that cannot be compiled keeps every value.
    let constraints = Constraints::of_schema(extensions.brand, schema).ok();
    walk.node(schema, root, constraints.as_ref().map(Constraints::whole), Surroundings::Root);
    walk.errors
}

/// Whether a default in `schema` has fields that the schema does not know.
pub(super) fn has_unpruned(schema: &Value, extensions: &Extensions) -> bool {
    let path = Path::default();
    let mut walk = Walk { extensions, unknown_fields: UnknownFields::Refused, errors: FieldErrors::new() };
    walk.node(schema, &Place::root(&path), None, Surroundings::Root);
    !walk.errors.is_empty()
}

/// Whether a default may have fields that its schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownFields {
    /// The stored definition has such a default.
    Allowed,
    Refused,
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
    unknown_fields: UnknownFields,
    errors: FieldErrors,
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, place: &Place<'_>, part: Option<Part<'_>>, around: Surroundings) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        let is_object = around == Surroundings::Root || schema.flag(&self.extensions.embedded_resource);
        let around = if is_object { Surroundings::Root } else { around };
        if schema.has("default") {
            self.default(schema, &place.child("default"), part, around);
        }
        let inside = if is_object { Surroundings::Content } else { around };
        if schema.at("items").is_object() {
            self.node(schema.at("items"), &place.child("items"), part.and_then(Part::items), inside);
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            let of_object = is_object && is_object_field(name);
            let inside = if of_object { Surroundings::Metadata } else { inside };
            let part = part.and_then(|part| part.property(name));
            self.node(property, &properties.key(name), part, inside);
        }
    }

    fn default(&mut self, schema: &Value, place: &Place<'_>, part: Option<Part<'_>>, around: Surroundings) {
        let default = schema.at("default");
        let (is_object, in_metadata) = (around == Surroundings::Root, around == Surroundings::Metadata);
        let refuses = self.unknown_fields == UnknownFields::Refused && !in_metadata;
        if refuses && has_unknown(default, Some(schema), self.extensions, is_object, Around::Prunes) {
            let detail = "must not have unknown fields";
            self.errors.push(FieldError::invalid(place.path(), &shown(default), detail));
        }
        if let Some(part) = part {
            self.errors.extend(part.validate(default, &place.path()));
        }
    }
}

fn is_object_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Whether unknown fields of a value are kept because the list around it keeps those of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Keeps,
    Prunes,
}

/// Whether `value` has fields that `schema` does not know. `None`: nothing is known of it. `is_object`: it is a whole object.
fn has_unknown(
    value: &Value,
    schema: Option<&Value>,
    extensions: &Extensions,
    is_object: bool,
    around: Around,
) -> bool {
    if !count_step() {
        return false;
    }
    let keeps = around == Around::Keeps
        || schema.is_some_and(|schema| schema.flag(&extensions.preserve_unknown_fields));
    let inner = |value: &Value, schema: Option<&Value>, around: Around| {
        let is_object = schema.is_some_and(|schema| schema.flag(&extensions.embedded_resource));
        has_unknown(value, schema, extensions, is_object, around)
    };
    match value {
        // once: one pass over the value.
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            if is_object && is_object_field(name) {
                return false;
            }
            let Some(schema) = schema else { return !keeps };
            let additional = schema.at("additionalProperties");
            match (schema.at("properties").get(name.as_str()), additional) {
                (Some(property), _) => inner(value, Some(property), Around::Prunes),
                (None, entry @ Value::Object(_)) => inner(value, Some(entry), Around::Prunes),
                (None, _) if keeps => false,
                (None, Value::Bool(_)) => inner(value, None, Around::Prunes),
                (None, _) => true,
            }
        }),
        Value::Array(items) => {
            let schema = schema.map(|schema| schema.at("items")).filter(|items| items.is_object());
            let around = if keeps { Around::Keeps } else { Around::Prunes };
            // once: one pass over the value.
            items.iter().any(|item| inner(item, schema, around))
        }
        _ => false,
    }
}
