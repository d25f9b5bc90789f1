//! Structural rules: every field has a type, and what narrows a value says nothing about its structure.
//!
//! Owns the rules for schemas outside of `allOf`, `anyOf`, `oneOf` and `not`; `nested` has those for schemas inside.
//! Errors are sorted by their text, as the reference sorts them.

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::Extensions;
use super::nested;
use super::patterns::Patterns;
use super::place::Place;
use super::walk::{is_said, is_set};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors};

/// Structural rules for `schema`, which has nothing that such schemas have no place for.
pub(super) fn validate(
    schema: &Value,
    root: &Place<'_>,
    extensions: &Extensions,
    patterns: &mut Patterns,
) -> FieldErrors {
    let mut walk = Walk { extensions, patterns, errors: FieldErrors::new() };
    walk.node(schema, root, Level::Root);
    nested::validate_completeness(schema, root, &mut walk.errors);
    let mut errors: Vec<(String, FieldError)> =
        walk.errors.into_iter().map(|error| (error.to_string(), error)).collect();
    errors.sort_by(|one, other| one.0.cmp(&other.0));
    errors.into_iter().map(|(_, error)| error).collect()
}

/// Where a schema stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

impl Level {
    fn lacks_type(self) -> &'static str {
        match self {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }
    }
}

struct Walk<'a> {
    extensions: &'a Extensions,
    patterns: &'a mut Patterns,
    errors: FieldErrors,
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, place: &Place<'_>, level: Level) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        if schema.at("items").is_object() {
            self.node(schema.at("items"), &place.child("items"), Level::Item);
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            self.node(property, &properties.key(name), Level::Field);
        }
        let additional = schema.at("additionalProperties");
        if additional.is_object() {
            self.node(additional, &place.child("additionalProperties"), Level::Field);
        }
        self.structure(schema, place, level);
        self.int_or_string(schema, place);
        self.value(schema, place);
        if level == Level::Root || schema.flag(&self.extensions.embedded_resource) {
            self.object_fields(schema, place, level);
        }
    }

    fn structure(&mut self, schema: &Value, place: &Place<'_>, level: Level) {
        let extensions = self.extensions;
        let (kind, embedded) = (schema.text("type"), schema.flag(&extensions.embedded_resource));
        let preserves = schema.flag(&extensions.preserve_unknown_fields);
        let type_path = || place.child("type").path();
        if embedded && kind != "object" {
            let detail = format!("must be object if {} is true", extensions.embedded_resource);
            self.errors.push(match kind {
                "" => FieldError::required(type_path(), &detail),
                other => FieldError::invalid_str(type_path(), other, &detail),
            });
        } else if kind.is_empty() && !schema.flag(&extensions.int_or_string) && !preserves {
            self.errors.push(FieldError::required(type_path(), level.lacks_type()));
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.errors.push(FieldError::invalid_str(type_path(), kind, "must be object at the root"));
        }
        if kind == "array" && !schema.at("items").is_object() {
            self.errors.push(FieldError::required(place.child("items").path(), "must be specified"));
        }
        if schema.has("additionalProperties") {
            let path = || place.child("additionalProperties").path();
            if level == Level::Root {
                self.errors.push(FieldError::forbidden(path(), "must not be used at the root"));
            }
            if embedded {
                let detail = format!("must not be used if {} is set", extensions.embedded_resource);
                self.errors.push(FieldError::forbidden(path(), &detail));
            }
        }
        if embedded && !preserves && !is_set(schema, "properties") {
            let detail = format!(
                "must not be empty if {} is true without {}",
                extensions.embedded_resource, extensions.preserve_unknown_fields
            );
            self.errors.push(FieldError::required(place.child("properties").path(), &detail));
        }
    }

    /// A value that is an integer or a string is nothing else besides.
    fn int_or_string(&mut self, schema: &Value, place: &Place<'_>) {
        let extensions = self.extensions;
        if !schema.flag(&extensions.int_or_string) {
            return;
        }
        for name in [&extensions.preserve_unknown_fields, &extensions.embedded_resource] {
            if schema.flag(name) {
                let detail = format!("must be false if {} is true", extensions.int_or_string);
                self.errors.push(FieldError::invalid(place.child(name).path(), "true", &detail));
            }
        }
    }

    /// Checks the members that narrow the value.
    fn value(&mut self, schema: &Value, place: &Place<'_>) {
        let mut walk =
            nested::Walk { extensions: self.extensions, patterns: self.patterns, errors: &mut self.errors };
        walk.value(schema, place, nested::Exempt::of(schema));
    }

    /// The fields that every object has are what they are.
    fn object_fields(&mut self, schema: &Value, place: &Place<'_>, level: Level) {
        let parent = place.child("properties");
        for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(property) = schema.at("properties").get(name) else { continue };
            let kind = property.text("type");
            if kind != wanted {
                let path = parent.key(name).child("type").path();
                self.errors.push(FieldError::invalid_str(path, kind, &format!("must be {wanted}")));
            }
        }
        let metadata = schema.at("properties").at("metadata");
        if level == Level::Root && metadata.is_object() && says_more(metadata, self.extensions) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(parent.key("metadata").path(), detail));
        }
    }
}

/// Whether the schema of the root's metadata says more than that it is an object with a name. An empty list says more where the
/// reference's structural form keeps it.
fn says_more(metadata: &Value, extensions: &Extensions) -> bool {
    let names = metadata.at("properties").as_object();
    let only_names =
        names.is_none_or(|names| names.keys().all(|name| name == "name" || name == "generateName"));
    let fields = metadata.as_object().into_iter().flat_map(|fields| fields.keys());
    let matters = |name: &str| match name {
        "type" | "default" | "$schema" => false,
        "properties" => !only_names,
        "required" => is_said(metadata, name),
        _ if name == extensions.list_map_keys || name == extensions.validations => is_said(metadata, name),
        _ => is_set(metadata, name),
    };
    // once: the fields of one schema.
    fields.into_iter().any(|name| matters(name))
}
