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
    errors.extend(count_at(object, &paths.spec_replicas));
    errors.extend(validate_status(object, paths));
    errors
}

/// Checks the fields that a write of the status sets.
pub(super) fn validate_status(object: &Value, paths: &ScalePaths) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(count_at(object, &paths.status_replicas));
    if paths.selector.is_empty() {
        return errors;
    }
    match read(object, &paths.selector) {
        Ok(None | Some(Value::String(_))) => {}
        Ok(Some(other)) => errors.push(wrong_type(other, &paths.selector, &paths.selector, "string")),
        Err(error) => errors.push(error("\"\"")),
    }
    errors
}

/// Checks the number at a path.
fn count_at(object: &Value, steps: &[String]) -> Option<FieldError> {
    let number = match read(object, steps) {
        Err(error) => return Some(error("0")),
        Ok(None) => return None,
        Ok(Some(count)) => match count.as_i64() {
            Some(number) => number,
            None => return Some(wrong_type(count, steps, steps, "int64")),
        },
    };
    let refused = |told| Some(FieldError::invalid(Path::new(&dotted(steps)), &number.to_string(), told));
    match number {
        ..0 => refused("should be a non-negative integer"),
        0..=REPLICAS_MAX => None,
        _ => refused("should be less than or equal to 2147483647"),
    }
}

/// The value at a path. The error is that of a value on the way that has no members; it is given the
/// value that it shows.
fn read<'v>(
    object: &'v Value,
    steps: &'v [String],
) -> Result<Option<&'v Value>, impl FnOnce(&str) -> FieldError + 'v> {
    let mut value = object;
    for (at, step) in steps.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(step) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => {
                let met = &steps[..=at];
                return Err(move |shown: &str| mismatch(other, shown, steps, met, "map[string]interface{}"));
            }
        };
    }
    Ok(Some(value))
}

/// The error of a value of another type than `wanted`. `met`: the path up to it.
fn wrong_type(value: &Value, steps: &[String], met: &[String], wanted: &str) -> FieldError {
    let zero = if wanted == "string" { "\"\"" } else { "0" };
    mismatch(value, zero, steps, met, wanted)
}

/// The error of a value of another type than `wanted`, shown as `zero`: the reference has read nothing then.
fn mismatch(value: &Value, zero: &str, steps: &[String], met: &[String], wanted: &str) -> FieldError {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let told = if value.is_null() { "<nil>".to_owned() } else { text(value) };
    let detail =
        format!("{} accessor error: {} is of the type {found}, expected {wanted}", dotted(met), part(&told));
    FieldError::invalid(Path::new(&dotted(steps)), zero, &detail)
}

/// The path as the definition writes it: `.spec.replicas`.
fn dotted(steps: &[String]) -> String {
    steps.iter().map(|step| format!(".{step}")).collect()
}
