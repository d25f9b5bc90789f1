//! Metrics of an autoscaler: those of pods, of their resources, of other objects, and from outside.

use orch_schema::budget::Numbered;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Types of metrics with the fields that describe them. The reference checks only the first field that is set.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const TARGET_TYPES: [&str; 3] = ["Utilization", "Value", "AverageValue"];

/// API versions that a reference may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVersionRule {
    /// Any text.
    Any,
    /// A version, with or without a group.
    WellFormed,
    /// A version with a group.
    WithGroup,
}

/// Whether `version` fits `rule`; otherwise the message.
pub(super) fn fits_rule(version: &str, rule: ApiVersionRule) -> Result<(), String> {
    let slashes = version.bytes().filter(|&c| c == b'/').count();
    match rule {
        ApiVersionRule::Any => Ok(()),
        _ if slashes > 1 => Err(format!("unexpected GroupVersion string: {version}")),
        ApiVersionRule::WithGroup if slashes == 0 || version.starts_with('/') => {
            Err("apiVersion must specify API group".to_owned())
        }
        ApiVersionRule::WellFormed | ApiVersionRule::WithGroup => Ok(()),
    }
}

/// Rules for a reference to an object by kind and name.
pub(super) fn validate_reference(reference: &Value, rule: ApiVersionRule, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["kind", "name"] {
        let (value, path) = (reference.text(field), path.child(field));
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else {
            errors.extend(invalid_each(&path, value, names::path_segment(value)));
        }
    }
    let version = reference.text("apiVersion");
    if let Err(detail) = fits_rule(version, rule) {
        errors.push(FieldError::invalid_str(path.child("apiVersion"), version, &detail));
    }
    errors
}

/// Rules for the metrics of a spec.
pub(super) fn validate_metrics(spec: &Value, rule: ApiVersionRule, path: &Path) -> FieldErrors {
    let metrics = spec.items("metrics");
    let mut errors: FieldErrors = metrics
        .iter()
        .numbered()
        .flat_map(|(at, metric)| validate_metric(metric, rule, &path.index(at)))
        .collect();
    let is_outside = |metric: &Value| matches!(metric.text("type"), "Object" | "External");
    // once: one pass over the metrics.
    if spec.int("minReplicas") == Some(0) && !metrics.iter().any(is_outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    errors
}

fn validate_metric(metric: &Value, rule: ApiVersionRule, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kind = metric.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), "must specify a metric source type"));
    }
    // few: five types.
    let expected = SOURCES.into_iter().find(|(name, _)| *name == kind).map(|(_, field)| field);
    let unsupported = || FieldError::not_supported(path.child("type"), kind, &TYPES);
    if expected.is_none() {
        errors.push(unsupported());
    }
    let given: Vec<&str> =
        SOURCES.into_iter().map(|(_, field)| field).filter(|field| metric.has(field)).collect();
    if let Some(field) = given.first() {
        errors.extend(validate_source(field, metric.at(field), rule, &path.child(field)));
    }
    match expected {
        // The reference says so a second time.
        None => errors.push(unsupported()),
        // few: five fields.
        Some(field) if !given.contains(&field) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(path.child(field), detail));
        }
        Some(_) => {}
    }
    if given.len() > 1 {
        let others = given.into_iter().filter(|field| Some(*field) != expected);
        let detail = "must populate the given metric source only";
        errors.extend(others.map(|field| FieldError::forbidden(path.child(field), detail)));
    }
    errors
}

fn validate_source(field: &str, source: &Value, rule: ApiVersionRule, path: &Path) -> FieldErrors {
    let (target, target_path) = (source.at("target"), path.child("target"));
    let mut errors = FieldErrors::new();
    match field {
        "object" => {
            let (object, path) = (source.at("describedObject"), path.child("describedObject"));
            errors.extend(validate_reference(object, rule, &path));
        }
        "resource" | "containerResource" if source.text("name").is_empty() => {
            errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
        }
        _ => {}
    }
    if field == "containerResource" {
        let (container, path) = (source.text("container"), path.child("container"));
        if container.is_empty() {
            errors.push(FieldError::required(path, "must specify a container"));
        } else {
            errors.extend(invalid_each(&path, container, names::dns1123_label(container)));
        }
    }
    if matches!(field, "object" | "external" | "pods") {
        errors.extend(validate_name(source.at("metric").text("name"), path.child("metric").child("name")));
    }
    errors.extend(validate_target(target, &target_path));
    errors.extend(validate_aim(field, target, &target_path));
    errors
}

fn validate_name(name: &str, path: Path) -> FieldErrors {
    if name.is_empty() {
        return FieldError::required(path, "must specify a metric name").into();
    }
    invalid_each(&path, name, names::path_segment(name))
}

fn validate_target(target: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kind = target.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), "must specify a metric target type"));
    }
    // few: three types.
    if !TARGET_TYPES.contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid_str(path.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        let amount = target.text(field);
        if Quantity::parse(amount).is_some_and(|quantity| quantity <= Quantity::ZERO) {
            errors.push(FieldError::invalid_str(path.child(field), amount, "must be positive"));
        }
    }
    if let Some(share) = target.int("averageUtilization").filter(|share| *share < 1) {
        let path = path.child("averageUtilization");
        errors.push(FieldError::invalid(path, &share.to_string(), "must be greater than 0"));
    }
    errors
}

/// The amounts that a target of each source must have, and must not have together.
fn validate_aim(field: &str, target: &Value, path: &Path) -> FieldErrors {
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let share = target.has("averageUtilization");
    let mut errors = FieldErrors::new();
    match field {
        "object" if !value && !average => {
            let detail = "must set either a target value or averageValue";
            errors.push(FieldError::required(path.child("averageValue"), detail));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(FieldError::required(path.child("averageValue"), detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(path.child("value"), detail));
        }
        "pods" if !average => {
            let detail = "must specify a positive target averageValue";
            errors.push(FieldError::required(path.child("averageValue"), detail));
        }
        "resource" | "containerResource" if !share && !average => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(FieldError::required(path.child("averageUtilization"), detail));
        }
        "resource" | "containerResource" if share && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(path.child("averageValue"), detail));
        }
        _ => {}
    }
    errors
}
