//! Schemas inside of `allOf`, `anyOf`, `oneOf` and `not`: they narrow a value and say nothing about its structure.
//!
//! Owns the rules for them, the exception for values that are integers or strings, and completeness: a field that is named inside is
//! known outside.

use orch_schema::budget::{Numbered, count_step};
use orch_schema::value::Value;

use super::Extensions;
use super::patterns::Patterns;
use super::place::Place;
use super::walk::is_set;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors};

/// Which parts of a schema may name the types integer and string, because they do so in the one form that is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exempt {
    any_of: bool,
    /// The `anyOf` of the first schema of its `allOf`.
    first_of_all_of: bool,
}

impl Exempt {
    /// The parts of `schema`. The reference does not ask whether it is an integer or a string.
    pub(super) fn of(schema: &Value) -> Exempt {
        let first = schema.items("allOf").first().unwrap_or(&Value::Null);
        Exempt {
            any_of: is_int_or_string(schema.items("anyOf")),
            first_of_all_of: is_int_or_string(first.items("anyOf")),
        }
    }
}

/// Whether the schemas are exactly an integer and a string.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let says_only = |schema: &Value, kind: &str| {
        let mut names = schema.as_object().into_iter().flat_map(|fields| fields.keys());
        // once: the fields of one schema.
        schema.text("type") == kind && !names.any(|name| name != "type" && is_stated(schema, name))
    };
    matches!(any_of, [integer, string] if says_only(integer, "integer") && says_only(string, "string"))
}

/// Whether `schema`, which stands inside, states the field `name`.
fn is_stated(schema: &Value, name: &str) -> bool {
    is_set(schema, name) && !is_false_schema(schema, name)
}

/// Whether `name` is `additionalProperties: false`, which states nothing inside, but still refuses values.
fn is_false_schema(schema: &Value, name: &str) -> bool {
    name == "additionalProperties" && schema.at(name) == &Value::Bool(false)
}

/// A walk through schemas inside, which adds to `errors`.
pub(super) struct Walk<'a> {
    pub(super) extensions: &'a Extensions,
    pub(super) patterns: &'a mut Patterns,
    pub(super) errors: &'a mut FieldErrors,
}

impl Walk<'_> {
    /// Checks the members of `schema` that narrow its value.
    pub(super) fn value(&mut self, schema: &Value, place: &Place<'_>, exempt: Exempt) {
        if !exempt.any_of {
            self.list(schema, place, "anyOf");
        }
        let all_of = place.child("allOf");
        for (at, inner) in schema.items("allOf").iter().numbered() {
            let exempt = Exempt { any_of: exempt.first_of_all_of && at == 0, first_of_all_of: false };
            self.node(inner, &all_of.index(at), exempt);
        }
        self.list(schema, place, "oneOf");
        if schema.at("not").is_object() {
            self.node(schema.at("not"), &place.child("not"), Exempt::default());
        }
        let pattern = schema.text("pattern");
        if let Some(fault) =
            Some(pattern).filter(|text| !text.is_empty()).and_then(|text| self.patterns.fault(text))
        {
            let detail = format!("must be a valid regular expression, but isn't: {fault}");
            self.errors.push(FieldError::invalid_str(place.child("pattern").path(), pattern, &detail));
        }
    }

    fn list(&mut self, schema: &Value, place: &Place<'_>, name: &str) {
        let place = place.child(name);
        for (at, inner) in schema.items(name).iter().numbered() {
            self.node(inner, &place.index(at), Exempt::default());
        }
    }

    /// A schema inside.
    fn node(&mut self, schema: &Value, place: &Place<'_>, exempt: Exempt) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        self.value(schema, place, exempt);
        if schema.at("items").is_object() {
            self.node(schema.at("items"), &place.child("items"), Exempt::default());
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            self.node(property, &properties.key(name), Exempt::default());
        }
        self.refuse_structure(schema, place);
        if schema.at("properties").has("metadata") {
            let detail = "must not be specified in a nested context";
            self.errors.push(FieldError::forbidden(properties.key("metadata").path(), detail));
        }
    }

    /// Refuses members about the structure, and documentation.
    fn refuse_structure(&mut self, schema: &Value, place: &Place<'_>) {
        let of = self.extensions;
        for (name, wanted) in [
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            (&of.preserve_unknown_fields, "false"),
            (&of.embedded_resource, "false"),
            (&of.int_or_string, "false"),
            (&of.list_map_keys, "empty"),
            (&of.list_type, "undefined"),
            (&of.map_type, "undefined"),
            (&of.validations, "empty"),
        ] {
            let is_refused = match wanted {
                "undefined" => schema.has(name) && !is_false_schema(schema, name),
                _ => is_set(schema, name),
            };
            if is_refused {
                let detail = format!("must be {wanted} to be structural");
                self.errors.push(FieldError::forbidden(place.child(name).path(), &detail));
            }
        }
    }
}

/// Fields and items that the schemas inside of the root name are known outside. The reference looks at those of the root only.
pub(super) fn validate_completeness(schema: &Value, root: &Place<'_>, errors: &mut FieldErrors) {
    known_value(schema, Some(schema), root, root, errors);
}

/// The schemas inside of `value`, which narrow what `outside` describes.
fn known_value(
    value: &Value,
    outside: Option<&Value>,
    outside_place: &Place<'_>,
    place: &Place<'_>,
    errors: &mut FieldErrors,
) {
    if value.at("not").is_object() {
        known(value.at("not"), outside, outside_place, &place.child("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let place = place.child(name);
        for (at, inner) in value.items(name).iter().numbered() {
            known(inner, outside, outside_place, &place.index(at), errors);
        }
    }
}

fn known(
    inner: &Value,
    outside: Option<&Value>,
    outside_place: &Place<'_>,
    place: &Place<'_>,
    errors: &mut FieldErrors,
) {
    if errors.is_full() || !count_step() {
        return;
    }
    let Some(outside) = outside else {
        let detail = format!("because it is defined in {}", place.path());
        errors.push(FieldError::required(outside_place.path(), &detail));
        return;
    };
    known_value(inner, Some(outside), outside_place, place, errors);
    let items = inner.at("items");
    if items.is_object() {
        let outside = Some(outside.at("items")).filter(|items| items.is_object());
        known(items, outside, &outside_place.child("items"), &place.child("items"), errors);
    }
    let (outside_properties, properties) = (outside_place.child("properties"), place.child("properties"));
    for (name, property) in inner.at("properties").as_object().into_iter().flatten() {
        let outside = outside.at("properties").get(name);
        known(property, outside, &outside_properties.key(name), &properties.key(name), errors);
    }
}
