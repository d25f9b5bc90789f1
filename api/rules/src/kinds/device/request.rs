//! Requests of a claim: devices with alternatives, constraints over them, configurations.

use std::collections::{HashMap, HashSet};

use orch_schema::budget::count_step;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::selector::{ObjectAllowance, validate_selectors};
use super::{
    CONFIG_MAX, Stored, quoted_text, validate_configuration, validate_full_name, validate_label,
    validate_list, validate_set, validate_toleration,
};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, items_mut, set, set_default_text};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Most requests of a claim.
pub(super) const REQUESTS_MAX: usize = 32;
/// Most constraints of a claim.
const CONSTRAINTS_MAX: usize = 32;
/// Most alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;
/// Most tolerations of a request.
pub(super) const TOLERATIONS_MAX: usize = 16;
const MODES: [&str; 2] = ["All", "ExactCount"];
const NOT_A_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The requests of a claim by name, each with the names of its alternatives.
pub(super) struct RequestNames<'c>(HashMap<&'c str, HashSet<&'c str>>);

impl<'c> RequestNames<'c> {
    /// The requests of the claim with this `spec`.
    pub(super) fn of(spec: &'c Value) -> Self {
        let requests = spec.at("devices").items("requests").iter().take_while(|_| count_step());
        let alternatives = |request: &'c Value| {
            request.items("firstAvailable").iter().map(|alternative| alternative.text("name")).collect()
        };
        RequestNames(requests.map(|request| (request.text("name"), alternatives(request))).collect())
    }

    fn has(&self, name: &str) -> bool {
        let (request, alternative) = match name.split_once('/') {
            Some((request, alternative)) => (request, Some(alternative)),
            None => (name, None),
        };
        let Some(alternatives) = self.0.get(request) else { return false };
        alternative.is_none_or(|alternative| alternatives.contains(alternative))
    }
}

/// Sets the defaults of the requests in the `spec` of a claim.
pub(super) fn default_requests(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in items_mut(devices, "requests") {
        if let Some(exact) = request.get_mut("exactly").filter(|exact| exact.is_object()) {
            default_count(exact);
        }
        items_mut(request, "firstAvailable").iter_mut().for_each(default_count);
    }
}

fn default_count(request: &mut Value) {
    set_default_text(request, "allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.is_empty_at("count") {
        set(request, "count", 1);
    }
}

/// Rules for the `spec` of a claim.
pub(super) fn validate_claim_spec(spec: &Value, path: &Path) -> FieldErrors {
    let (devices, path) = (spec.at("devices"), path.child("devices"));
    let known = RequestNames::of(spec);
    let allowance = ObjectAllowance::default();
    let name = |request: &Value| quoted(request.text("name"));
    let mut errors = validate_set(
        devices.items("requests"),
        REQUESTS_MAX,
        &path.child("requests"),
        |request, path| validate_request(request, &allowance, path),
        |request| request.text("name"),
        name,
    );
    errors.extend(validate_list(
        devices.items("constraints"),
        CONSTRAINTS_MAX,
        &path.child("constraints"),
        |constraint, path| validate_constraint(constraint, &known, path),
    ));
    errors.extend(validate_list(
        devices.items("config"),
        CONFIG_MAX,
        &path.child("config"),
        |config, path| {
            let mut errors = validate_references(config.items("requests"), &known, &path.child("requests"));
            errors.extend(validate_configuration(config, Stored::No, path));
            errors
        },
    ));
    errors
}

/// Rules for names of requests where another part of the claim refers to them.
pub(super) fn validate_references(items: &[Value], known: &RequestNames<'_>, path: &Path) -> FieldErrors {
    let text = |item: &Value| item.as_str().unwrap_or_default().to_owned();
    validate_set(
        items,
        REQUESTS_MAX,
        path,
        |item, path| validate_reference(item.as_str().unwrap_or_default(), known, path),
        text,
        quoted_text,
    )
}

/// Rules for the name of a request, or of a request and its alternative.
pub(super) fn validate_reference(name: &str, known: &RequestNames<'_>, path: &Path) -> FieldErrors {
    let invalid = || FieldError::invalid_str(path.clone(), name, NOT_A_REQUEST);
    if name.split('/').nth(2).is_some() {
        return invalid().into();
    }
    let mut errors: FieldErrors = name.split('/').flat_map(|part| validate_label(part, path)).collect();
    if !known.has(name) {
        errors.push(invalid());
    }
    errors
}

fn validate_request(request: &Value, allowance: &ObjectAllowance, path: &Path) -> FieldErrors {
    let mut errors = validate_label(request.text("name"), &path.child("name"));
    let alternatives = request.items("firstAvailable");
    match (request.has("exactly"), alternatives.is_empty()) {
        (false, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(FieldError::required(path.clone(), detail));
        }
        (true, false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(FieldError::invalid(path.clone(), "null", detail));
        }
        (true, true) => {
            errors.extend(validate_count(request.at("exactly"), allowance, &path.child("exactly")));
        }
        (false, false) => errors.extend(validate_set(
            alternatives,
            ALTERNATIVES_MAX,
            &path.child("firstAvailable"),
            |alternative, path| {
                let mut errors = validate_label(alternative.text("name"), &path.child("name"));
                errors.extend(validate_count(alternative, allowance, path));
                errors
            },
            |alternative| alternative.text("name"),
            |alternative| quoted(alternative.text("name")),
        )),
    }
    errors
}

/// Rules for class, selectors, count and tolerations of a request or alternative.
fn validate_count(request: &Value, allowance: &ObjectAllowance, path: &Path) -> FieldErrors {
    let (class, class_path) = (request.text("deviceClassName"), path.child("deviceClassName"));
    let mut errors = if class.is_empty() {
        FieldErrors::from(FieldError::required(class_path, ""))
    } else {
        invalid_each(&class_path, class, names::dns1123_subdomain(class))
    };
    let selectors = path.child("selectors");
    errors.extend(validate_selectors(request.items("selectors"), Stored::No, allowance, &selectors));
    let (count, count_path) = (request.int("count").unwrap_or(0), path.child("count"));
    match request.text("allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(count_path, &count.to_string(), detail));
        }
        "ExactCount" if count <= 0 => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(count_path, &count.to_string(), detail));
        }
        "All" | "ExactCount" => {}
        other => errors.push(FieldError::not_supported(path.child("allocationMode"), other, &MODES)),
    }
    let tolerations = path.child("tolerations");
    errors.extend(validate_list(
        request.items("tolerations"),
        TOLERATIONS_MAX,
        &tolerations,
        validate_toleration,
    ));
    errors
}

fn validate_constraint(constraint: &Value, known: &RequestNames<'_>, path: &Path) -> FieldErrors {
    let mut errors = validate_references(constraint.items("requests"), known, &path.child("requests"));
    // few: two fields.
    let attribute = ["matchAttribute", "distinctAttribute"].into_iter().find(|field| constraint.has(field));
    match attribute {
        Some(field) => errors.extend(validate_full_name(constraint.text(field), &path.child(field))),
        None => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                          fields are set";
            errors.push(FieldError::required(path.clone(), detail));
        }
    }
    errors
}
