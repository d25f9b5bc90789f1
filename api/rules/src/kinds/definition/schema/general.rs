//! General rules: what no schema of a definition may use, and how its parts exclude each other.
//!
//! Owns which rules in expressions are not judged because of these errors, too.

use std::collections::HashSet;

use orch_schema::budget::{Numbered, count_step};
use orch_schema::value::Value;

use super::super::ratchet::Requirements;
use super::place::Place;
use super::walk::{is_present, is_unsupported};
use super::{Extensions, lists, validations};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors};

/// Types of the schema language, in the order in which messages list them.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Fields that definitions may not set, in the order in which they are reported.
const NOT_SUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Rules for `schema` and all schemas in it, and the rules in expressions that are not judged because of their errors.
pub(super) fn validate(
    schema: &Value,
    root: &Place<'_>,
    extensions: &Extensions,
    requirements: Requirements,
) -> (FieldErrors, Hindered) {
    let (errors, hindered) = (FieldErrors::new(), Hindered::default());
    let mut walk = Walk { extensions, requirements, errors, hindered };
    walk.node(schema, root, Surroundings { is_root: true, ..Surroundings::default() });
    (walk.errors, walk.hindered)
}

/// Lists of rules in expressions whose part, or a part below it, has an error of another kind: what they would be told for might be its
/// consequence. They are known by where they stand in memory.
#[derive(Debug, Default)]
pub(super) struct Hindered(HashSet<*const Value>);

impl Hindered {
    /// Whether `rules` are among them.
    pub(super) fn has(&self, rules: &[Value]) -> bool {
        // set: it is one.
        self.0.contains(&rules.as_ptr())
    }
}

/// The facts about a schema that the schemas above it state.
#[derive(Clone, Copy, Debug, Default)]
struct Surroundings {
    is_root: bool,
    /// It is a part of the metadata of an object.
    in_metadata: bool,
    /// Defaults are refused, for this reason.
    refuses_defaults: Option<NoDefaults>,
}

/// Why no default may stand at a place.
#[derive(Clone, Copy, Debug)]
enum NoDefaults {
    /// The server fills in this field of the root.
    TopLevel(&'static str),
    /// Entries of a map in metadata.
    EntryOfMetadata,
}

impl NoDefaults {
    fn text(self) -> String {
        match self {
            NoDefaults::TopLevel(field) => format!("must not be set in top-level {field}"),
            NoDefaults::EntryOfMetadata => {
                "must not be set inside additionalProperties applying to object metadata".to_owned()
            }
        }
    }
}

/// The fields that every object has.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

struct Walk<'a> {
    extensions: &'a Extensions,
    requirements: Requirements,
    errors: FieldErrors,
    hindered: Hindered,
}

/// Whether a schema uses what structural ones have no place for, itself or below: no path in it is resolved.
type IsUnsupported = bool;

impl Walk<'_> {
    fn node(&mut self, schema: &Value, place: &Place<'_>, around: Surroundings) -> IsUnsupported {
        if !schema.is_object() || self.errors.is_full() || !count_step() {
            return false;
        }
        let errors_before = self.errors.len();
        self.own_fields(schema, place, around);
        let mut unsupported = is_unsupported(schema, self.extensions);
        let inside = Surroundings { is_root: false, ..around };
        unsupported |= self.fields(schema, place, around);
        unsupported |= self.node(schema.at("not"), &place.child("not"), inside);
        for name in ["allOf", "oneOf", "anyOf"] {
            unsupported |= self.list(schema.items(name), &place.child(name), inside);
        }
        unsupported |= self.map(schema.at("definitions"), &place.child("definitions"), inside);
        unsupported |= match schema.at("items") {
            Value::Array(items) => self.list(items, &place.child("items"), inside),
            item => self.node(item, &place.child("items"), inside),
        };
        unsupported |= self.map(schema.at("dependencies"), &place.child("dependencies"), inside);
        if schema.at(&self.extensions.preserve_unknown_fields) == &Value::Bool(false) {
            let place = place.child(&self.extensions.preserve_unknown_fields);
            self.errors.push(FieldError::invalid(place.path(), "false", "must be true or undefined"));
        }
        let (extensions, requirements) = (self.extensions, self.requirements);
        lists::validate(schema, place, extensions, requirements, &mut self.errors);
        validations::validate(schema, place, extensions, unsupported, &mut self.errors);
        let rules = schema.items(&extensions.validations);
        if self.errors.len() > errors_before && !rules.is_empty() {
            self.hindered.0.insert(rules.as_ptr());
        }
        unsupported
    }

    /// The schemas of members.
    fn fields(&mut self, schema: &Value, place: &Place<'_>, around: Surroundings) -> IsUnsupported {
        let mut unsupported = false;
        let inside = Surroundings { is_root: false, ..around };
        let properties = schema.at("properties");
        let additional = schema.at("additionalProperties");
        if additional.is_object() || additional == &Value::Bool(false) {
            let place = place.child("additionalProperties");
            if properties.as_object().is_some_and(|properties| !properties.is_empty()) {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.push(FieldError::forbidden(place.path(), detail));
            }
            let refuses_defaults = match around.in_metadata {
                true => Some(NoDefaults::EntryOfMetadata),
                false => around.refuses_defaults,
            };
            unsupported |= self.node(additional, &place, Surroundings { refuses_defaults, ..inside });
        }
        let Some(properties) = properties.as_object() else { return unsupported };
        let is_object = around.is_root || schema.flag(&self.extensions.embedded_resource);
        let parent = place.child("properties");
        for (name, property) in properties {
            let mut inside = inside;
            // few: three fields.
            if let Some(field) = OBJECT_FIELDS.into_iter().find(|field| is_object && field == name) {
                inside.in_metadata = true;
                if around.is_root {
                    inside.refuses_defaults = Some(NoDefaults::TopLevel(field));
                }
            }
            unsupported |= self.node(property, &parent.key(name), inside);
        }
        unsupported
    }

    fn list(&mut self, schemas: &[Value], place: &Place<'_>, inside: Surroundings) -> IsUnsupported {
        let mut unsupported = false;
        for (at, schema) in schemas.iter().numbered() {
            unsupported |= self.node(schema, &place.index(at), inside);
        }
        unsupported
    }

    fn map(&mut self, schemas: &Value, place: &Place<'_>, inside: Surroundings) -> IsUnsupported {
        let mut unsupported = false;
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            unsupported |= self.node(schema, &place.key(name), inside);
        }
        unsupported
    }

    /// The rules for the fields of one schema.
    fn own_fields(&mut self, schema: &Value, place: &Place<'_>, around: Surroundings) {
        if self.requirements.known_types {
            self.errors.extend(unknown_type(schema, place));
        }
        let mut forbid = |name: &str, detail: &str| {
            self.errors.push(FieldError::forbidden(place.child(name).path(), detail));
        };
        if let Some(reason) = around.refuses_defaults.filter(|_| schema.has("default")) {
            forbid("default", &reason.text());
        }
        for name in NOT_SUPPORTED {
            if is_present(schema, name) {
                forbid(name, &format!("{name} is not supported"));
            }
        }
        if schema.text("type") == "null" {
            forbid("type", "type cannot be set to null, use nullable as an alternative");
        }
        if !schema.items("items").is_empty() {
            forbid("items", "items must be a schema object and not an array");
        }
        let embedded = self.extensions.embedded_resource.as_str();
        if around.in_metadata && schema.flag(embedded) {
            forbid(embedded, "must not be used inside of resource meta");
        }
        if schema.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            forbid("uniqueItems", detail);
        }
    }
}

/// The error of a type that the schema language does not have.
pub(super) fn unknown_type(schema: &Value, place: &Place<'_>) -> Option<FieldError> {
    let kind = schema.text("type");
    // few: six types.
    let is_known = kind.is_empty() || TYPES.contains(&kind);
    (!is_known).then(|| FieldError::not_supported(place.child("type").path(), kind, &TYPES))
}
