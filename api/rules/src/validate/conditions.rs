//! `metav1` conditions, which the status of many kinds has.
//!
//! Owns the shape of these conditions; those of pods and nodes have older shapes.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::validate::distinct::Distinct;
use crate::validate::errors::FieldErrors;
use crate::validate::field::{FieldError, Path};
use crate::validate::metadata::{invalid_each, validate_label_name};
use crate::validate::tree::Tree;

const REASON_LENGTH_MAX: usize = 1024;
const MESSAGE_LENGTH_MAX: usize = 32 * 1024;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string \
                              of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' \
                              (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
                              'ReasonA:ReasonB', regex used for validation is \
                              '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Rules for a list of conditions.
pub fn validate_conditions(conditions: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, condition) in conditions.iter().numbered() {
        let path = path.index(at);
        if seen.is_repeated(condition.text("type")) {
            errors.push(FieldError::duplicate(path.child("type"), &quoted(condition.text("type"))));
        }
        errors.extend(validate_condition(condition, &path));
    }
    errors
}

fn validate_condition(condition: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (kind, status, reason) = (condition.text("type"), condition.text("status"), condition.text("reason"));
    // An empty type is no label, which gives two causes.
    errors.extend(validate_label_name(kind, &path.child("type")));
    // few: three statuses.
    if !STATUSES.contains(&status) {
        errors.push(FieldError::not_supported(path.child("status"), status, &STATUSES));
    }
    let generation = condition.int("observedGeneration").unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(path.child("observedGeneration"), &generation.to_string(), detail));
    }
    if condition.text("lastTransitionTime").is_empty() {
        errors.push(FieldError::required(path.child("lastTransitionTime"), ""));
    }
    let reason_path = path.child("reason");
    if reason.is_empty() {
        errors.push(FieldError::required(reason_path, ""));
    } else {
        let messages = if is_reason(reason) { Vec::new() } else { vec![REASON_MESSAGE.to_owned()] };
        errors.extend(invalid_each(&reason_path, reason, messages));
        if reason.len() > REASON_LENGTH_MAX {
            errors.push(FieldError::too_long(reason_path, REASON_LENGTH_MAX));
        }
    }
    if condition.text("message").len() > MESSAGE_LENGTH_MAX {
        errors.push(FieldError::too_long(path.child("message"), MESSAGE_LENGTH_MAX));
    }
    errors
}

fn is_reason(reason: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|&c| word(c))
        && bytes.iter().all(|&c| word(c) || matches!(c, b',' | b':'))
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn conditions_are_complete() {
        let good = json!({"type": "Ready", "status": "True", "reason": "Ok", "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let path = Path::new("c");
        assert!(validate_conditions(std::slice::from_ref(&good), &path).is_empty());
        let texts: Vec<String> =
            validate_conditions(&[good.clone(), good, json!({"status": "Maybe", "reason": "1"})], &path)
                .iter()
                .map(ToString::to_string)
                .collect();
        assert_eq!(
            texts[..4],
            [
                "c[1].type: Duplicate value: \"Ready\"",
                "c[2].type: Invalid value: \"\": name part must be non-empty",
                "c[2].type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "c[2].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            ]
        );
        assert_eq!(texts.len(), 6, "{texts:?}");
    }
}
