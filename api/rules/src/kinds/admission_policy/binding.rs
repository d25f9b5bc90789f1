//! Bindings, which put a policy to work: its parameters, where it applies, and what a violation leads to.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::UNSET;
use super::matching::{MUTABLE_OPERATIONS, default_match, validate_match};
use crate::kinds::admission_rule::OPERATIONS;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::names::{dns1123_subdomain, path_segment};
use crate::validate::selector::{format_label_selector, validate_label_selector};
use crate::validate::tree::{Tree, existing_mut, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const NOT_FOUND_ACTIONS: [&str; 2] = ["Allow", "Deny"];

/// The rules of bindings, by the policies that they bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyBinding {
    /// Of validating policies, with actions.
    Validating,
    /// Of mutating policies, whose operations have an object to change.
    Mutating,
}

impl Strategy for PolicyBinding {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        default_binding(new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(self.validate(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(self.validate(new));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(binding_row(object, now))
    }
}

impl PolicyBinding {
    fn validate(self, new: &Value) -> FieldErrors {
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        match self {
            PolicyBinding::Mutating => validate_spec(spec, &MUTABLE_OPERATIONS, &path),
            PolicyBinding::Validating => {
                let mut errors = validate_spec(spec, &OPERATIONS, &path);
                errors.extend(validate_actions(spec, &path.child("validationActions")));
                errors
            }
        }
    }
}

fn default_binding(new: &mut Value) {
    if let Some(spec) = existing_mut(new, "spec") {
        default_match(spec, "matchResources");
    }
}

fn validate_spec(spec: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (policy, policy_path) = (spec.text("policyName"), path.child("policyName"));
    if policy.is_empty() {
        errors.push(FieldError::required(policy_path, ""));
    } else {
        errors.extend(invalid_each(&policy_path, policy, dns1123_subdomain(policy)));
    }
    if spec.has("paramRef") {
        errors.extend(validate_param_ref(spec.at("paramRef"), &path.child("paramRef")));
    }
    if spec.has("matchResources") {
        errors.extend(validate_match(spec.at("matchResources"), operations, &path.child("matchResources")));
    }
    errors
}

fn validate_param_ref(reference: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (name, selector) = (reference.text("name"), reference.at("selector"));
    let exclude = |field: &str, errors: &mut FieldErrors| {
        errors.push(FieldError::forbidden(path.child(field), "name and selector are mutually exclusive"));
    };
    if !name.is_empty() {
        errors.extend(invalid_each(&path.child("name"), name, path_segment(name)));
        if !selector.is_null() {
            exclude("name", &mut errors);
        }
    }
    if !selector.is_null() {
        errors.extend(validate_label_selector(selector, &path.child("selector")));
        if !name.is_empty() {
            exclude("selector", &mut errors);
        }
    }
    if name.is_empty() && selector.is_null() {
        errors.push(FieldError::required(path.clone(), "one of name or selector must be specified"));
    }
    let (action, path) = (reference.text("parameterNotFoundAction"), path.child("parameterNotFoundAction"));
    if action.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !NOT_FOUND_ACTIONS.contains(&action) {
        errors.push(FieldError::not_supported(path, action, &NOT_FOUND_ACTIONS));
    }
    errors
}

fn validate_actions(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    let actions = spec.texts("validationActions");
    for (at, action) in actions.iter().copied().numbered() {
        // few: three values.
        if !ACTIONS.contains(&action) {
            errors.push(FieldError::not_supported(path.index(at), action, &ACTIONS));
        }
        if seen.is_repeated(action) {
            errors.push(FieldError::duplicate(path.index(at), &quoted(action)));
        }
    }
    if seen.has(&"Deny") && seen.has(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.push(FieldError::invalid(path.clone(), &shown(spec.at("validationActions")), detail));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(path.clone(), "at least one validation action is required"));
    }
    errors
}

fn binding_row(object: &Value, now: &str) -> Vec<Cell> {
    let spec = object.at("spec");
    let reference = spec.at("paramRef");
    let parameter = match (reference.text("name"), reference.text("namespace"), reference.at("selector")) {
        ("", _, Value::Null) => UNSET.to_owned(),
        ("", _, selector) => format_label_selector(selector),
        (name, "", _) => name.to_owned(),
        (name, namespace, _) => format!("{namespace}/{name}"),
    };
    vec![
        object.at("metadata").at("name").clone(),
        spec.text("policyName").into(),
        parameter.into(),
        age::age(object, now).into(),
    ]
}
