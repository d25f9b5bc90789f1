//! Kinds of apps/v1 and core/v1 that keep pods running from a template, and their revisions.
//!
//! Owns their shared parts: the rules of a template and its selector, numbers that may be percentages, and the columns
//! about containers and images.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod replication_controller;
mod stateful_set;

pub use controller_revision::ControllerRevision;
pub use daemon_set::DaemonSet;
pub use deployment::Deployment;
pub use replica_set::ReplicaSet;
pub use replication_controller::ReplicationController;
pub(crate) use replication_controller::format_labels;
pub use stateful_set::StatefulSet;

use std::num::{IntErrorKind, ParseIntError};

use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::pod::defaults::default_pod_spec;
use crate::kinds::pod::disabled::drop_from_spec;
use crate::kinds::pod::spec::{Place, validate_pod_spec};
use crate::kinds::pod::warnings::{warn_about_name, warn_about_pod};
use crate::kinds::pod::{annotations, seccomp};
use crate::kinds::{Cell, Context, object_meta};
use crate::validate::metadata::{invalid_each, nonnegative, validate_annotations, validate_labels};
use crate::validate::selector::{self, validate_label_selector};
use crate::validate::tree::{Tree, child_mut, is_unchanged, shown, shown_map};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Sets the defaults of the template of `spec`.
pub(crate) fn default_template(context: &Context<'_>, spec: &mut Value) {
    let template = child_mut(spec, "template");
    child_mut(template, "metadata");
    let pod = child_mut(template, "spec");
    drop_from_spec(pod);
    default_pod_spec(context, pod);
}

/// Warnings about the template in the spec.
pub(crate) fn warn_about_spec(context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
    let path = Path::new("spec").child("template");
    if object_meta::is_new_generation(old, new) {
        warn_about_pod(context, new.at("spec").at("template"), &path)
    } else {
        Vec::new()
    }
}

/// [`warn_about_spec`], and about the name of a new object, after which its pods are named.
pub(crate) fn warn_about_workload(context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
    let about_name = if old.is_none() { warn_about_name(new) } else { None };
    about_name.into_iter().chain(warn_about_spec(context, old, new)).collect()
}

/// Rules for a pod template.
pub(crate) fn validate_template(context: &Context<'_>, template: &Value, path: &Path) -> FieldErrors {
    let metadata = template.at("metadata");
    let mut errors = validate_labels(metadata.at("labels"), &path.child("labels"));
    errors.extend(validate_annotations(metadata.at("annotations"), &path.child("annotations")));
    let (annotations, spec) = (metadata.at("annotations"), path.child("spec"));
    let annotations_path = path.child("annotations");
    errors.extend(annotations::validate(context, annotations, template.at("spec"), &annotations_path));
    errors.extend(seccomp::validate_same_profiles(context, annotations, template.at("spec"), &spec));
    errors.extend(validate_pod_spec(context, template.at("spec"), Place::Template, &spec));
    if !template.at("spec").items("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(spec.child("ephemeralContainers"), detail));
    }
    errors
}

/// Rules for a selector that must not be empty. `kind` is the word in the message.
fn validate_selector(spec: &Value, kind: &str, path: &Path) -> FieldErrors {
    let (chosen, path) = (spec.at("selector"), path.child("selector"));
    if chosen.is_null() {
        return FieldErrors::from(FieldError::required(path, ""));
    }
    let mut errors = validate_label_selector(chosen, &path);
    if selector::is_empty(chosen) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(path, &shown(chosen), &detail));
    }
    errors
}

/// Rules for the template of a spec whose selector was checked before. `kind` is the word in messages. The reference does
/// not look at the template behind a selector that it cannot read.
fn validate_selected_template(
    context: &Context<'_>,
    spec: &Value,
    template: &Value,
    kind: &str,
    path: &Path,
) -> FieldErrors {
    let (chosen, selector_path) = (spec.at("selector"), path.child("selector"));
    if !validate_label_selector(chosen, &selector_path).is_empty() {
        let detail = if kind == "StatefulSet" { "" } else { "invalid label selector" };
        return FieldError::invalid(selector_path, &shown(chosen), detail).into();
    }
    let mut errors: FieldErrors = validate_match(spec, path).into_iter().collect();
    errors.extend(validate_template(context, template, &path.child("template")));
    if kind != "StatefulSet" {
        errors.extend(validate_keeps_running(spec, kind, path));
    }
    errors
}

/// Checks that the selector selects the labels of the template.
fn validate_match(spec: &Value, path: &Path) -> Option<FieldError> {
    let labels = spec.at("template").at("metadata").at("labels");
    let chosen = spec.at("selector");
    if selector::selects(chosen, labels) {
        return None;
    }
    let path = path.child("template").child("metadata").child("labels");
    Some(FieldError::invalid(path, &shown_map(labels), "`selector` does not match template `labels`"))
}

/// Checks that the template's pods always restart and have no deadline.
fn validate_keeps_running(spec: &Value, kind: &str, path: &Path) -> FieldErrors {
    let (pod, path) = (spec.at("template").at("spec"), path.child("template").child("spec"));
    let mut errors = FieldErrors::new();
    if pod.text("restartPolicy") != "Always" {
        let path = path.child("restartPolicy");
        errors.push(FieldError::not_supported(path, pod.text("restartPolicy"), &["Always"]));
    }
    if pod.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(path.child("activeDeadlineSeconds"), &detail));
    }
    errors
}

/// Checks that the selector of a workload does not change.
fn validate_same_selector(old: &Value, new: &Value) -> Option<FieldError> {
    let (before, after) = (old.at("spec").at("selector"), new.at("spec").at("selector"));
    let path = Path::new("spec").child("selector");
    (!is_unchanged(before, after)).then(|| FieldError::invalid(path, &shown(after), "field is immutable"))
}

/// Checks that counts are not negative.
fn validate_counts(holder: &Value, fields: &[&str], path: &Path) -> FieldErrors {
    fields.iter().filter_map(|field| nonnegative(holder.int(field), path.child(field))).collect()
}

/// Checks that counts of a status do not exceed the count `whole`.
fn validate_at_most(status: &Value, fields: &[&str], whole: &str, path: &Path) -> FieldErrors {
    let limit = status.int(whole).unwrap_or(0);
    let counts = fields.iter().filter_map(|field| Some((field, status.int(field)?)));
    let whole = if whole == "replicas" { "status.replicas" } else { whole };
    let detail = format!("cannot be greater than {whole}");
    counts
        .filter(|(_, count)| *count > limit)
        .map(|(field, count)| FieldError::invalid(path.child(field), &count.to_string(), &detail))
        .collect()
}

/// Checks that the collision count of a status does not go down.
fn validate_collisions(old: &Value, new: &Value) -> Option<FieldError> {
    let count = |object: &Value| object.at("status").int("collisionCount");
    let (before, after) = (count(old)?, count(new).unwrap_or(0));
    let path = Path::new("status").child("collisionCount");
    (after < before).then(|| FieldError::invalid(path, &after.to_string(), "cannot be decremented"))
}

/// Checks a number, which must not be negative, or a percentage.
pub(crate) fn number_or_percent(value: &Value, path: &Path) -> FieldErrors {
    match value.as_str() {
        Some(text) => invalid_each(path, text, names::percent(text)),
        None => nonnegative(value.as_i64(), path.clone()).into_iter().collect(),
    }
}

/// Checks that a percentage is at most 100%.
pub(crate) fn within_hundred_percent(value: &Value, path: &Path) -> Option<FieldError> {
    let share = value.as_str()?;
    let digits = share.strip_suffix('%').filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()))?;
    // A number too long to parse is above 100, too.
    let over = digits.parse::<u32>().map_or(!digits.is_empty(), |percent| percent > 100);
    over.then(|| FieldError::invalid_str(path.clone(), share, "must not be greater than 100%"))
}

/// The number, or that of the percentage; 0 for none.
fn amount(value: &Value) -> i64 {
    let share = value.as_str().and_then(|text| text.strip_suffix('%')?.parse().ok());
    share.or_else(|| value.as_i64()).unwrap_or(0)
}

/// The number that `text` stands for, or the reference's text of its fault.
fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error: ParseIntError| {
        let is_too_large = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
        let fault = if is_too_large { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {}: {fault}", quoted(text))
    })
}

/// The names of the template's containers, comma separated.
pub(crate) fn container_names(pod: &Value) -> Cell {
    joined(pod, "name")
}

/// The images of the template's containers, comma separated.
pub(crate) fn container_images(pod: &Value) -> Cell {
    joined(pod, "image")
}

fn joined(pod: &Value, field: &str) -> Cell {
    let values: Vec<&str> = pod.items("containers").iter().map(|container| container.text(field)).collect();
    json!(values.join(","))
}
