//! Defaults in schemas keep the rules in expressions of their part.
//!
//! Owns the walk over the defaults of parts with rules, after both were found to be valid otherwise. All of a schema share one
//! budget. Defaults inside of `additionalProperties` are not looked at, as in the reference.

use orch_proto::Brand;
use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::place::Place;
use crate::expression::Budget;
use crate::expression::rules::{RULES_COST_MAX, RulePart, SchemaRules};
use crate::validate::tree::Tree;
use crate::validate::{FieldErrors, Path};

/// The errors of defaults in `schema`, which `root` is the place of.
pub(super) fn validate(schema: &Value, root: &Place<'_>, brand: &'static Brand) -> FieldErrors {
    let rules = SchemaRules::of(schema, brand);
    let mut walk = Walk { budget: Budget::of(RULES_COST_MAX), errors: FieldErrors::new() };
    if let Some(whole) = rules.whole() {
        walk.part(schema, whole, root);
    }
    walk.errors
}

struct Walk {
    budget: Budget,
    errors: FieldErrors,
}

impl Walk {
    fn part(&mut self, schema: &Value, part: RulePart<'_>, place: &Place<'_>) {
        if self.errors.is_full() || !count_step() {
            return;
        }
        let default = schema.at("default");
        if !default.is_null() {
            let path: Path = place.child("default").path();
            self.errors.extend(part.validate_default(default, &path, &mut self.budget));
        }
        if let Some(items) = part.items() {
            self.part(schema.at("items"), items, &place.child("items"));
        }
        let properties = place.child("properties");
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            if let Some(part) = part.property(name) {
                self.part(property, part, &properties.key(name));
            }
        }
    }
}
