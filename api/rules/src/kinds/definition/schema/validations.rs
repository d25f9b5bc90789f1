//! Rules in expressions, as far as they can be judged without reading the expressions.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::Extensions;
use super::place::Place;
use crate::validate::field_path::{Notation, resolve};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors};

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Rules for the expressions of one schema, added to `errors`. `is_unsupported`: no path in it is resolved.
pub(super) fn validate(
    schema: &Value,
    place: &Place<'_>,
    extensions: &Extensions,
    is_unsupported: bool,
    errors: &mut FieldErrors,
) {
    let place = place.child(&extensions.validations);
    for (at, rule) in schema.items(&extensions.validations).iter().numbered() {
        if errors.is_full() {
            return;
        }
        let place = place.index(at);
        errors.extend(validate_texts(rule, &place));
        if let Some(reason) = rule.at("reason").as_str()
            && !REASONS.contains(&reason)
        {
            // few: four reasons.
            let path = place.child("reason").path();
            errors.push(FieldError::not_supported(path, reason, &REASONS));
        }
        let schema = Some(schema).filter(|_| !is_unsupported);
        validate_field_path(rule.text("fieldPath"), schema, &place.child("fieldPath"), errors);
    }
}

/// Rule and message are there, and a message has one line.
fn validate_texts(rule: &Value, place: &Place<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (text, message) = (rule.text("rule").trim(), rule.text("message"));
    let path_of = |name: &str| place.child(name).path();
    if text.is_empty() {
        errors.push(FieldError::required(path_of("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid_str(path_of("message"), message, "must be non-empty if specified"));
    } else if has_line_break(message.trim()) {
        let detail = "must not contain line breaks";
        errors.push(FieldError::invalid_str(path_of("message"), message, detail));
    } else if has_line_break(text) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(path_of("message"), detail));
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(path_of("messageExpression"), detail));
    }
    errors
}

fn validate_field_path(text: &str, schema: Option<&Value>, place: &Place<'_>, errors: &mut FieldErrors) {
    if text.is_empty() {
        return;
    }
    let mut refuse = |detail: &str| errors.push(FieldError::invalid_str(place.path(), text, detail));
    if text.trim().is_empty() {
        refuse("must be non-empty if specified");
    }
    if has_line_break(text) {
        refuse("must not contain line breaks");
    }
    if schema.is_some_and(|schema| resolve(text, schema, Notation::DotsAndBrackets).is_err()) {
        refuse("must be a valid path");
    }
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\r', '\n'])
}
