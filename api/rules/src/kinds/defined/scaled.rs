//! The fields of an object that its scale shows: numbers of replicas, and the text of a selector.

use orch_schema::ScalePaths;
use orch_schema::value::Value;

use crate::json_path::text;
use crate::kinds::scale::field_at;
use crate::validate::tree::shown;
use crate::validate::{FieldError, FieldErrors, Path};

/// The largest number of replicas.
const REPLICAS_MAX: i64 = 2_147_483_647;

/// Checks the fields at `paths`. As in the reference, an error has the path of the definition, with its dot.
pub(super) fn validate(object: &Value, paths: &ScalePaths) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for steps in [&paths.spec_replicas, &paths.status_replicas] {
        errors.extend(validate_count(field_at(object, steps), steps));
    }
    let selector = field_at(object, &paths.selector);
    // A built-in kind that is defined anew has a selector of its own form; a definition's path leads to a text.
    if !(selector.is_null() || selector.is_string() || selector.is_object()) {
        errors.extend(Some(wrong_type(selector, &paths.selector, "string")));
    }
    errors
}

fn validate_count(count: &Value, steps: &[String]) -> Option<FieldError> {
    let number = match count {
        Value::Null => return None,
        count => match count.as_i64() {
            Some(number) => number,
            None => return Some(wrong_type(count, steps, "int64")),
        },
    };
    let refused = |told| Some(FieldError::invalid(Path::new(&dotted(steps)), &number.to_string(), told));
    match number {
        ..0 => refused("should be a non-negative integer"),
        0..=REPLICAS_MAX => None,
        _ => refused("should be less than or equal to 2147483647"),
    }
}

/// The error of a value of another type than `wanted`.
fn wrong_type(value: &Value, steps: &[String], wanted: &str) -> FieldError {
    let path = dotted(steps);
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let detail = format!("{path} accessor error: {} is of the type {found}, expected {wanted}", text(value));
    FieldError::invalid(Path::new(&path), &shown(value), &detail)
}

/// The path as the definition writes it: `.spec.replicas`.
fn dotted(steps: &[String]) -> String {
    steps.iter().map(|step| format!(".{step}")).collect()
}
