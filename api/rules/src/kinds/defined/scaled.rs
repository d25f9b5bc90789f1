//! The fields of an object that its scale shows: numbers of replicas, and the text of a selector.

use orch_schema::ScalePaths;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use crate::json_path::text;
use crate::validate::{FieldError, FieldErrors, Path};

/// The largest number of replicas.
const REPLICAS_MAX: i64 = 2_147_483_647;

/// Checks the fields at `paths`. As in the reference, an error has the path of the definition, with its dot.
pub(super) fn validate(object: &Value, paths: &ScalePaths) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for steps in [&paths.spec_replicas, &paths.status_replicas] {
        errors.extend(validate_count(object, steps));
    }
    let told = match find(object, &paths.selector) {
        Err(told) => Some(told),
        // A built-in kind that is defined anew has a selector of its own form; a definition's path leads to a text.
        Ok(Value::Null | Value::String(_) | Value::Object(_)) => None,
        Ok(other) => Some(wrong_type(other, &paths.selector, "string")),
    };
    errors.extend(told.map(|told| refused(&paths.selector, "\"\"", &told)));
    errors
}

fn validate_count(object: &Value, steps: &[String]) -> Option<FieldError> {
    let number = match find(object, steps) {
        Err(told) => return Some(refused(steps, "0", &told)),
        Ok(Value::Null) => return None,
        Ok(count) => match count.as_i64() {
            Some(number) => number,
            None => return Some(refused(steps, "0", &wrong_type(count, steps, "int64"))),
        },
    };
    match number {
        ..0 => Some(refused(steps, &number.to_string(), "should be a non-negative integer")),
        0..=REPLICAS_MAX => None,
        _ => Some(refused(steps, &number.to_string(), "should be less than or equal to 2147483647")),
    }
}

fn refused(steps: &[String], value: &str, told: &str) -> FieldError {
    FieldError::invalid(Path::new(&dotted(steps)), value, told)
}

/// The value at `steps`, null where there is none, or the text of the error of a value on the way that has no members.
fn find<'v>(object: &'v Value, steps: &[String]) -> Result<&'v Value, String> {
    let mut found = object;
    for (at, step) in steps.iter().enumerate() {
        match found {
            Value::Null => return Ok(found),
            Value::Object(members) => found = members.get(step).unwrap_or(&Value::Null),
            other => return Err(wrong_type(other, &steps[..=at], "map[string]interface {}")),
        }
    }
    Ok(found)
}

/// The text about a value of another type than `wanted`.
fn wrong_type(value: &Value, steps: &[String], wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let value = text(value);
    format!("{} accessor error: {} is of the type {found}, expected {wanted}", dotted(steps), part(&value))
}

/// The path as the definition writes it: `.spec.replicas`.
fn dotted(steps: &[String]) -> String {
    steps.iter().map(|step| format!(".{step}")).collect()
}
