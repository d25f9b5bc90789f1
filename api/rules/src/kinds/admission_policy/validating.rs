//! ValidatingAdmissionPolicy: what objects have to meet.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::{default_policy, policy_row, validate_head, validate_variables};
use crate::Action;
use crate::expression::policy::{Place, Wanted};
use crate::json_path::JsonPath;
use crate::kinds::admission_rule::{Compiling, OPERATIONS, validate_conditions};
use crate::kinds::{Cell, Context, Strategy, object_meta};
use crate::validate::conditions::validate_conditions as validate_status_conditions;
use crate::validate::metadata::invalid_each;
use crate::validate::names::qualified_name;
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Audit annotations of a policy. The reference's bound, as the next one.
const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// Bytes of the expression of an audit annotation.
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 << 10;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// The rules of validating policies.
#[derive(Debug)]
pub struct ValidatingAdmissionPolicy;

impl Strategy for ValidatingAdmissionPolicy {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        default_policy(new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            errors.extend(validate_status(new.at("status"), &Path::new("status")));
            return errors;
        }
        errors.extend(validate_spec(context, new));
        errors
    }

    fn compiles_expressions(&self) -> bool {
        true
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(policy_row(object, "validations", now))
    }
}

fn validate_spec(context: &Context<'_>, new: &Value) -> FieldErrors {
    let (spec, path) = (new.at("spec"), Path::new("spec"));
    let mut compiling = Compiling::validating(context.brand, spec);
    let mut errors = validate_head(spec, &OPERATIONS, &path);
    errors.extend(validate_conditions(spec, &mut compiling, &path));
    errors.extend(validate_variables(spec, &mut compiling, &path));
    let (validations, annotations) = (spec.items("validations"), spec.items("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(path.child(field), detail));
        }
        return errors;
    }
    for (at, validation) in validations.iter().numbered() {
        errors.extend(validate_validation(validation, &mut compiling, &path.child("validations").index(at)));
    }
    let path = path.child("auditAnnotations");
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid(path.clone(), &shown(spec.at("auditAnnotations")), &detail));
    }
    let (policy, mut keys) = (new.at("metadata").text("name"), Distinct::new());
    for (at, annotation) in annotations.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = path.index(at);
        errors.extend(validate_annotation(policy, annotation, &mut compiling, &path));
        let key = annotation.text("key");
        if keys.is_repeated(key) {
            errors.push(FieldError::duplicate(path.child("key"), &quoted(key)));
        }
    }
    errors
}

fn validate_status(status: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let warnings = path.child("typeChecking").child("expressionWarnings");
    for (at, warning) in status.at("typeChecking").items("expressionWarnings").iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = warnings.index(at);
        if warning.text("warning").is_empty() {
            errors.push(FieldError::required(path.child("warning"), ""));
        }
        let (field, path) = (warning.text("fieldRef").trim(), path.child("fieldRef"));
        if field.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Err(fault) = JsonPath::parse(field) {
            errors.push(FieldError::invalid_str(path, field, &format!("invalid JSONPath: {fault}")));
        }
    }
    errors.extend(validate_status_conditions(status.items("conditions"), &path.child("conditions")));
    errors
}

fn validate_validation(validation: &Value, compiling: &mut Compiling<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let expression = validation.text("expression");
    if expression.trim().is_empty() {
        errors.push(FieldError::required(path.child("expression"), "expression is not specified"));
    } else {
        let path = path.child("expression");
        errors.extend(compiling.check(expression, Place::Validation, &Wanted::Bool, &path));
    }
    let (made, made_path) = (validation.text("messageExpression"), path.child("messageExpression"));
    if !made.is_empty() && made.trim().is_empty() {
        errors.push(FieldError::invalid_str(made_path, made, "must be non-empty if specified"));
    } else if !made.is_empty() {
        errors.extend(compiling.check(made, Place::Message, &Wanted::Text, &made_path));
    }
    let (message, message_path) = (validation.text("message"), path.child("message"));
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid_str(message_path, message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid_str(message_path, message, "must not contain line breaks"));
    }
    if let Some(reason) = validation.at("reason").as_str() {
        // few: three values.
        if !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(path.child("reason"), reason, &REASONS));
        }
    }
    errors
}

fn validate_annotation(
    policy: &str,
    annotation: &Value,
    compiling: &mut Compiling<'_>,
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (key, key_path) = (annotation.text("key"), path.child("key"));
    if key.is_empty() {
        errors.push(FieldError::required(key_path, ""));
    } else if policy.is_empty() {
        errors.push(FieldError::invalid_str(key_path, key, "requires metadata.name be non-empty"));
    } else {
        let key = format!("{policy}/{key}");
        errors.extend(invalid_each(&key_path, &key, qualified_name(&key)));
    }
    let (written, path) = (annotation.text("valueExpression"), path.child("valueExpression"));
    let expression = written.trim();
    if expression.is_empty() {
        errors.push(FieldError::required(path, "valueExpression is not specified"));
    } else if expression.len() > VALUE_EXPRESSION_BYTES_MAX {
        let detail = format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length");
        errors.push(FieldError::required(path, &detail));
    } else {
        let of = (Place::Annotation, &Wanted::TextOrNull);
        errors.extend(compiling.check_trimmed(expression, of, &path, written));
    }
    errors
}
