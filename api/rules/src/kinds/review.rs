//! Reviews of access: questions that are answered and never stored.
//!
//! Owns the rules of their specs. Who is asked about and what the answer is belongs to the authorizers.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::{Context, Strategy};
use crate::validate::errors::FieldErrors;
use crate::validate::field::{FieldError, Path};
use crate::validate::metadata::{invalid_each, validate_label_name};
use crate::validate::names;
use crate::validate::tree::{Tree, is_empty, shown, unset};

/// May this user do that, in any namespace?
pub struct SubjectAccessReview;

/// May this user do that, in the namespace of the review?
pub struct LocalSubjectAccessReview;

/// May I do that?
pub struct SelfSubjectAccessReview;

impl Strategy for SubjectAccessReview {
    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = validate_access(new.at("spec"));
        errors.extend(validate_subject(new.at("spec")));
        errors.extend(validate_no_metadata(new, &[]));
        errors
    }
}

impl Strategy for LocalSubjectAccessReview {
    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let spec = new.at("spec");
        let path = Path::new("spec");
        let mut errors = validate_access(spec);
        errors.extend(validate_subject(spec));
        errors.extend(validate_no_metadata(new, &["namespace"]));
        let (asked, own) =
            (spec.at("resourceAttributes").text("namespace"), new.at("metadata").text("namespace"));
        if spec.at("resourceAttributes").is_object() && asked != own {
            let path = path.child("resourceAttributes").child("namespace");
            errors.push(FieldError::invalid_str(path, asked, "must match metadata.namespace"));
        }
        if spec.at("nonResourceAttributes").is_object() {
            let shown = shown(spec.at("nonResourceAttributes"));
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(path.child("nonResourceAttributes"), &shown, detail));
        }
        errors
    }
}

impl Strategy for SelfSubjectAccessReview {
    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = validate_access(new.at("spec"));
        errors.extend(validate_no_metadata(new, &[]));
        errors
    }
}

/// The rules of what is asked: exactly one of a resource and a path.
fn validate_access(spec: &Value) -> FieldErrors {
    let path = Path::new("spec");
    let (resource, other) = (spec.at("resourceAttributes"), spec.at("nonResourceAttributes"));
    let mut errors = FieldErrors::new();
    match (resource.is_object(), other.is_object()) {
        (true, true) => errors.push(FieldError::invalid(
            path.child("nonResourceAttributes"),
            &shown(other),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => errors.push(FieldError::invalid(
            path.child("resourceAttributes"),
            "null",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if resource.is_object() {
        let path = path.child("resourceAttributes");
        for (member, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
            errors.extend(validate_selector(resource.at(member), of_labels, &path.child(member)));
        }
    }
    errors
}

/// The rules of a selector: its text or its requirements, not both.
fn validate_selector(selector: &Value, of_labels: bool, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !selector.is_object() {
        return errors;
    }
    let (raw, requirements) = (selector.text("rawSelector"), selector.items("requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid_str(path.child("rawSelector"), raw, detail));
    } else if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {} is specified, requirements or rawSelector is required", path.as_str());
        errors.push(FieldError::required(path.child("requirements"), &detail));
    }
    let path = path.child("requirements");
    for (at, requirement) in requirements.iter().numbered() {
        errors.extend(validate_requirement(requirement, of_labels, &path.index(at)));
    }
    errors
}

/// The rules of a requirement. An unknown operator is none of them: it is ignored when the review is answered.
fn validate_requirement(requirement: &Value, of_labels: bool, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (key, values) = (requirement.text("key"), requirement.texts("values"));
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(path.child("values"), detail));
        }
        _ => {}
    }
    if of_labels {
        errors.extend(validate_label_name(key, &path.child("key")));
        for (at, value) in values.into_iter().numbered() {
            errors.extend(invalid_each(&path.child("values").index(at), value, names::label_value(value)));
        }
    } else if key.is_empty() {
        errors.push(FieldError::required(path.child("key"), "must be specified"));
    }
    errors
}

fn validate_subject(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if spec.text("user").is_empty() && spec.items("groups").is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_str(Path::new("spec").child("user"), "", detail));
    }
    errors
}

/// A review has no metadata but what the server sets, and these members.
fn validate_no_metadata(new: &Value, allowed: &[&str]) -> FieldErrors {
    let metadata = new.at("metadata");
    // few: a namespace at most.
    let is_own = |name: &str| name == "managedFields" || allowed.contains(&name);
    let is_other = |(name, value): (&str, &Value)| !is_own(name) && !is_empty(value);
    let mut errors = FieldErrors::new();
    let members = metadata.as_object().into_iter().flatten();
    if members.map(|(name, value)| (name.as_str(), value)).any(is_other) {
        let detail = if allowed.is_empty() { "must be empty" } else { "must be empty except for namespace" };
        let mut told = metadata.clone();
        unset(&mut told, "managedFields");
        errors.push(FieldError::invalid(Path::new("metadata"), &shown(&told), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn a_review_asks_one_question_about_somebody() {
        let attributes = json!({"verb": "get", "resource": "pods"});
        let (both, name) = (json!({"path": "/x"}), json!({"name": "n"}));
        let neither = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        for (review, wrong) in [
            (json!({"spec": {"user": "x", "resourceAttributes": attributes}}), &[][..]),
            (json!({"spec": {"groups": ["g"], "nonResourceAttributes": both}}), &[]),
            (
                json!({"spec": {}}),
                &[
                    format!("spec.resourceAttributes: Invalid value: null: {neither}").as_str(),
                    "spec.user: Invalid value: \"\": at least one of user or group must be specified",
                ],
            ),
            (
                json!({"metadata": name, "spec": {"user": "x", "resourceAttributes": attributes}}),
                &["metadata: Invalid value: {\"name\":\"n\"}: must be empty"],
            ),
        ] {
            let errors = SubjectAccessReview.validate_create(&CONTEXT, &review);
            let told: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
            assert_eq!(told, wrong, "{review}");
        }
    }
}
