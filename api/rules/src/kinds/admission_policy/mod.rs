//! admissionregistration/v1: policies of admission and their bindings.
//!
//! Owns what the four kinds share: defaults, the generation, the kind of parameters, variables. The rules over matching are
//! [`matching`]'s; what webhooks have, too, is `admission_rule`'s. What an expression may name, and its text where it does not
//! compile, is `expression::policy`'s, which compiles it again for admission.
//!
//! Invariant: an expression that is stored has compiled, with the type that its place asks for.

mod binding;
mod matching;
mod mutating;
#[cfg(test)]
mod tests;
mod validating;

use orch_expression::schema::escape;
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

pub use self::binding::PolicyBinding;
pub use self::mutating::MutatingAdmissionPolicy;
pub use self::validating::ValidatingAdmissionPolicy;
use crate::kinds::admission_rule::{Compiling, validate_failure_policy};
use crate::kinds::{Cell, age};
use crate::validate::names::{c_identifier, dns1035_label, dns1123_subdomain};
use crate::validate::tree::{Tree, existing_mut, set_default_text};
use crate::validate::{FieldError, FieldErrors, Path};

/// A cell of a table where the field is unset.
const UNSET: &str = "<unset>";

/// Fills in the defaults of a policy of either kind.
fn default_policy(new: &mut Value) {
    let Some(spec) = existing_mut(new, "spec") else { return };
    set_default_text(spec, "failurePolicy", "Fail");
    matching::default_match(spec, "matchConstraints");
}

/// Rules for the fields that both kinds of policies have before their expressions.
fn validate_head(spec: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_failure_policy(spec.text("failurePolicy"), path));
    if spec.has("paramKind") {
        errors.extend(validate_param_kind(spec.at("paramKind"), &path.child("paramKind")));
    }
    let (constraints, path) = (spec.at("matchConstraints"), path.child("matchConstraints"));
    if constraints.is_null() {
        errors.push(FieldError::required(path, ""));
        return errors;
    }
    errors.extend(matching::validate_match(constraints, operations, &path));
    if constraints.items("resourceRules").is_empty() {
        errors.push(FieldError::required(path.child("resourceRules"), ""));
    }
    errors
}

fn validate_param_kind(kind: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (api_version, version_path) = (kind.text("apiVersion"), path.child("apiVersion"));
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [""] => errors.push(FieldError::required(version_path, "")),
        [version] => errors.extend(validate_version(api_version, version, &version_path)),
        [group, version] => {
            let faults = dns1123_subdomain(group);
            if !group.is_empty() && !faults.is_empty() {
                errors.push(FieldError::invalid_str(version_path.clone(), group, &faults.join(",")));
            }
            errors.extend(validate_version(api_version, version, &version_path));
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {api_version}");
            errors.push(FieldError::invalid_str(version_path, api_version, &detail));
        }
    }
    let (name, path) = (kind.text("kind"), path.child("kind"));
    let faults = dns1035_label(&name.to_ascii_lowercase());
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.push(FieldError::invalid_str(path, name, &detail));
    }
    errors
}

fn validate_version(api_version: &str, version: &str, path: &Path) -> Option<FieldError> {
    if version.is_empty() {
        return Some(FieldError::invalid_str(path.clone(), api_version, "version must be specified"));
    }
    let faults = dns1035_label(version);
    (!faults.is_empty()).then(|| FieldError::invalid_str(path.clone(), version, &faults.join(",")))
}

/// Rules for the variables of a policy. Expressions behind one may name it.
fn validate_variables(spec: &Value, compiling: &mut Compiling<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, variable) in spec.items("variables").iter().numbered() {
        let path = path.child("variables").index(at);
        let (name, expression) = (variable.text("name"), variable.text("expression"));
        if name.trim().is_empty() {
            errors.push(FieldError::required(path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            let detail = "must be a valid CEL identifier";
            errors.push(FieldError::invalid_str(path.child("name"), name, detail));
        }
        if expression.trim().is_empty() {
            errors.push(FieldError::required(path.child("expression"), "expression is not specified"));
        } else {
            errors.extend(compiling.add_variable(name, expression, &path.child("expression")));
        }
    }
    errors
}

/// Whether `name` can be written behind a dot in an expression.
fn is_identifier(name: &str) -> bool {
    let is_reserved = escape(name).is_some_and(|escaped| escaped == format!("__{name}__"));
    c_identifier(name).is_empty() && !is_reserved
}

/// The row of a policy, with the number of the items that it is about.
fn policy_row(object: &Value, items: &str, now: &str) -> Vec<Cell> {
    let spec = object.at("spec");
    let kind = match spec.at("paramKind") {
        Value::Null => UNSET.to_owned(),
        kind => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    };
    vec![
        object.at("metadata").at("name").clone(),
        i64::try_from(spec.items(items).len()).unwrap_or(i64::MAX).into(),
        kind.into(),
        age::age(object, now).into(),
    ]
}
