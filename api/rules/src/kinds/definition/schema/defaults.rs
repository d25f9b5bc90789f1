//! Defaults in schemas: they have no fields that the schema does not know, and keep its rules. Objects in them are valid as far as their
//! kind, version and metadata go, and so is the object around a default in metadata.
//!
//! Owns the walk over all defaults of a schema, which is compiled once for it. A default without another error is told of the rules in
//! expressions at its place and below, which share one budget. Defaults inside of `additionalProperties` are not looked at, as in the
//! reference.

use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::Value;

use super::place::Place;
use super::{Extensions, aggregate};
use crate::expression::Budget;
use crate::expression::rules::{RULES_COST_MAX, RulePart, SchemaRules};
use crate::kinds::defined::schema::{Constraints, Part};
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Rules for the defaults in `schema`, which is structural.
pub(super) fn validate(
    schema: &Value,
    root: &Place<'_>,
    extensions: &Extensions,
    unknown_fields: UnknownFields,
    rules: Rules,
) -> FieldErrors {
    let mut walk = Walk::new(extensions, unknown_fields);
    // A schema that cannot be compiled keeps every value.
    let constraints = Constraints::of_schema(extensions.brand, schema).ok();
    let rules = (rules == Rules::Evaluated).then(|| SchemaRules::of(schema, extensions.brand));
    let whole = Compiled {
        part: constraints.as_ref().map(Constraints::whole),
        rules: rules.as_ref().and_then(SchemaRules::whole),
    };
    walk.node(schema, root, whole, (Surroundings::Root, &Focus::Object));
    walk.errors
}

/// Whether a default in `schema` has fields that the schema does not know.
pub(super) fn has_unpruned(schema: &Value, extensions: &Extensions) -> bool {
    let path = Path::default();
    let mut walk = Walk::new(extensions, UnknownFields::Refused);
    walk.node(schema, &Place::root(&path), Compiled::default(), (Surroundings::Root, &Focus::Object));
    !walk.errors.is_empty()
}

/// Whether a default may have fields that its schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownFields {
    /// The stored definition has such a default.
    Allowed,
    Refused,
}

/// Whether defaults are told of the rules in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Evaluated,
    /// The stored schema is the same one, or its rules take too long to compile.
    Unread,
}

/// A node of the schema in its compiled forms; `None` where there is nothing to check.
#[derive(Clone, Copy, Debug, Default)]
struct Compiled<'c> {
    part: Option<Part<'c>>,
    rules: Option<RulePart<'c>>,
}

impl Compiled<'_> {
    fn property(self, name: &str) -> Self {
        Compiled {
            part: self.part.and_then(|part| part.property(name)),
            rules: self.rules.and_then(|rules| rules.property(name)),
        }
    }

    fn items(self) -> Self {
        Compiled { part: self.part.and_then(Part::items), rules: self.rules.and_then(RulePart::items) }
    }
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

/// The way from the object around a schema to the schema.
#[derive(Clone, Copy, Debug)]
enum Focus<'a> {
    /// The schema is that of the object.
    Object,
    Property(&'a Focus<'a>, &'a str),
    Item(&'a Focus<'a>),
}

impl Focus<'_> {
    /// The object that has `value` at this place, and nothing else but a kind.
    fn surround(&self, value: Value) -> Value {
        match self {
            Focus::Object => {
                let mut object = value;
                for (name, text) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
                    if object.get(name).is_none() {
                        object[name] = json!(text);
                    }
                }
                object
            }
            Focus::Property(parent, name) => {
                let mut object = json!({});
                object[*name] = value;
                parent.surround(object)
            }
            Focus::Item(parent) => parent.surround(Value::Array(vec![value])),
        }
    }
}

struct Walk<'a> {
    extensions: &'a Extensions,
    unknown_fields: UnknownFields,
    /// The cost that the rules in expressions of all defaults may still have.
    budget: Budget,
    errors: FieldErrors,
}

impl<'a> Walk<'a> {
    fn new(extensions: &'a Extensions, unknown_fields: UnknownFields) -> Walk<'a> {
        Walk { extensions, unknown_fields, budget: Budget::of(RULES_COST_MAX), errors: FieldErrors::new() }
    }

    fn node(
        &mut self,
        schema: &Value,
        place: &Place<'_>,
        compiled: Compiled<'_>,
        (around, focus): (Surroundings, &Focus<'_>),
    ) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        let is_object = around == Surroundings::Root || schema.flag(&self.extensions.embedded_resource);
        let (around, focus) = if is_object { (Surroundings::Root, &Focus::Object) } else { (around, focus) };
        if schema.has("default") {
            self.default(schema, &place.child("default"), compiled, (around, focus));
        }
        let inside = if is_object { Surroundings::Content } else { around };
        if schema.at("items").is_object() {
            let items = compiled.items();
            self.node(schema.at("items"), &place.child("items"), items, (inside, &Focus::Item(focus)));
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            let of_object = is_object && is_object_field(name);
            let inside = if of_object { Surroundings::Metadata } else { inside };
            let focus = Focus::Property(focus, name);
            self.node(property, &properties.key(name), compiled.property(name), (inside, &focus));
        }
    }

    fn default(
        &mut self,
        schema: &Value,
        place: &Place<'_>,
        compiled: Compiled<'_>,
        (around, focus): (Surroundings, &Focus<'_>),
    ) {
        let default = schema.at("default");
        let (is_object, in_metadata) = (around == Surroundings::Root, around == Surroundings::Metadata);
        let refuses = self.unknown_fields == UnknownFields::Refused && !in_metadata;
        if refuses && has_unknown(default, Some(schema), self.extensions, is_object, Around::Prunes) {
            let detail = "must not have unknown fields";
            self.errors.push(FieldError::invalid(place.path(), &shown(default), detail));
        }
        let Some(part) = compiled.part else { return };
        let mut faults: FieldErrors = if in_metadata {
            let faults = Part::validate_object(&focus.surround(default.clone()));
            let told = aggregate(&faults).map(|told| format!("must result in valid metadata: {told}"));
            told.map(|told| FieldError::invalid(place.path(), &shown(default), &told)).into_iter().collect()
        } else {
            part.validate_embedded(default, &place.path(), is_object)
        };
        if faults.is_empty() {
            faults = part.validate(default, &place.path());
        }
        if let Some(rules) = compiled.rules.filter(|_| faults.is_empty()) {
            faults = rules.validate_default(default, &place.path(), &mut self.budget);
        }
        self.errors.extend(faults);
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
                // Whatever is in such a value goes, also where unknown fields are kept.
                (None, Value::Bool(_)) => inner(value, None, Around::Prunes),
                (None, _) if keeps => false,
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
