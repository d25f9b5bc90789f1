//! Match conditions: expressions that all have to be true for a request to reach a policy or webhook.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::Compiling;
use crate::expression::policy::{Place, Wanted};
use crate::validate::metadata::invalid_each;
use crate::validate::names::qualified_name;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Match conditions of a policy or webhook. The reference's bound.
const MATCH_CONDITIONS_MAX: usize = 64;

/// Rules for the match conditions of the policy or webhook at `path`.
pub(in crate::kinds) fn validate_conditions(
    of: &Value,
    compiling: &mut Compiling<'_>,
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (conditions, path) = (of.items("matchConditions"), path.child("matchConditions"));
    if conditions.len() > MATCH_CONDITIONS_MAX {
        errors.push(FieldError::too_many(path.clone(), conditions.len(), MATCH_CONDITIONS_MAX));
    }
    let mut names = Distinct::new();
    for (at, condition) in conditions.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = path.index(at);
        let expression = condition.text("expression").trim();
        if expression.is_empty() {
            errors.push(FieldError::required(path.child("expression"), ""));
        } else {
            let fault =
                compiling.check(expression, Place::Condition, &Wanted::Bool, &path.child("expression"));
            errors.extend(fault);
        }
        let (name, path) = (condition.text("name"), path.child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        errors.extend(invalid_each(&path, name, qualified_name(name)));
        if names.is_repeated(name) {
            errors.push(FieldError::duplicate(path, &quoted(name)));
        }
    }
    errors
}
