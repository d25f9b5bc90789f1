//! core/v1 Pod: defaults, rules, allowed changes, and the grace period.
//!
//! Owns also the parts that other kinds share through their templates: the defaults and the rules of a pod spec.

pub(crate) mod annotations;
pub mod condition;
mod container;
mod container_status;
pub(crate) mod defaults;
pub(crate) mod diff;
pub(crate) mod disabled;
mod dns;
pub(crate) mod environment;
mod ephemeral;
mod image;
mod mount;
mod os;
mod pod_resources;
pub(crate) mod probe;
pub(crate) mod qos;
mod reference;
mod resize;
pub(crate) mod resources;
mod row;
pub(crate) mod scheduling;
pub(crate) mod seccomp;
mod security;
pub(crate) mod spec;
mod spread;
mod status;
mod sysctl;
mod update;
pub(crate) mod volume;
pub(crate) mod warnings;
mod windows;

use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

pub use self::qos::qos_class;
pub use self::resources::is_extended;
use self::spec::{Place, validate_only_pod, validate_pod_spec};
use self::warnings::warn_about_pod;
use crate::Action;
use crate::kinds::{Cell, Context, NameRule, Strategy, object_meta, value_at};
use crate::validate::tree::{Tree, carry, child_mut, items_mut, set, set_default_text, unset};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of pods.
#[derive(Debug)]
pub struct Pod;

impl Strategy for Pod {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        defaults::default_pod_spec(context, child_mut(new, "spec"));
        defaults::default_pod(new);
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
        disabled::drop_from_spec(child_mut(new, "spec"));
        merge_label_keys(new);
        annotations::set_profiles(context, new);
        let mut status = json!({"phase": "Pending", "qosClass": qos::qos_class(new.at("spec"))});
        if !new.at("spec").items("schedulingGates").is_empty() {
            set(&mut status, "conditions", json!([gated_condition(context.now)]));
        }
        set(new, "status", status);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        disabled::drop_from_spec(child_mut(new, "spec"));
        match context.action {
            Action::Status => {}
            Action::EphemeralContainers => return keep_but_ephemeral(old, new),
            Action::Resize => return resize::keep_but_resources(old, new),
            _ => {
                carry(old, new, "status");
                object_meta::raise_generation(old, new, &["spec"]);
                return;
            }
        }
        carry(old, new, "spec");
        unset(child_mut(new, "metadata"), "deletionTimestamp");
        for field in ["ownerReferences", "deletionTimestamp"] {
            object_meta::keep_metadata(old, new, field);
        }
        let status = child_mut(new, "status");
        disabled::drop_from_status(status);
        set_default_text(status, "qosClass", old.at("status").text("qosClass"));
        status::keep_observed_generations(old.at("status"), status);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_annotations(context, new));
        errors.extend(validate_whole(context, new));
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        let annotations = new.at("metadata").at("annotations");
        errors.extend(seccomp::validate_same_profiles(context, annotations, spec, &path));
        errors.extend(annotations::validate_same_profiles(context, new, &path));
        if !spec.items("ephemeralContainers").is_empty() {
            errors.push(FieldError::forbidden(path.child("ephemeralContainers"), "cannot be set on create"));
        }
        if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.push(FieldError::forbidden(path.child("nodeName"), detail));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_annotations(context, new));
        if context.action != Action::Resize {
            errors.extend(annotations::validate_update(context, old, new));
        }
        // The reference looks at the annotations once with the whole pod, and once with the changes of annotations.
        if !matches!(context.action, Action::Status | Action::Resize) {
            errors.extend(validate_annotations(context, new));
        }
        if context.action == Action::Status {
            errors.extend(status::validate_status_update(old, new));
            return errors;
        }
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors.extend(validate_whole(context, new));
        match context.action {
            Action::EphemeralContainers => ephemeral::validate_update(context, old, new, errors),
            Action::Resize => resize::validate_update(context, old, new, errors),
            _ => {
                errors.extend(update::validate_spec_update(old, new));
                errors
            }
        }
    }

    // As in the reference, changes of pods give no warnings: mostly programs make them.
    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let messages = names::dns1123_label(new.at("metadata").text("name"));
        let about_name = (!messages.is_empty()).then(|| {
            format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
                 label is recommended: [{}]",
                messages.join(" ")
            )
        });
        let about_pod = warn_about_pod(context, new, &Path::default());
        about_name.into_iter().chain(about_pod).collect()
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        let status = object.at("status");
        match name {
            "spec.hostNetwork" => object.at("spec").flag("hostNetwork").to_string(),
            "status.podIP" | "status.podIPs" => {
                let ip = status.items("podIPs").first().map_or(status.text("podIP"), |ip| ip.text("ip"));
                ip.to_owned()
            }
            name => value_at(object, name),
        }
    }

    // A pod without a node, or one that has ended, is removed at once.
    fn grace_period_seconds(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let ended = matches!(status.text("phase"), "Failed" | "Succeeded");
        if spec.text("nodeName").is_empty() || ended {
            return Some(0);
        }
        let period = requested.or_else(|| spec.int("terminationGracePeriodSeconds")).unwrap_or(0);
        Some(if period < 0 { 1 } else { period })
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row::pod_row(object, now))
    }

    fn table_conditions(&self, object: &Value) -> Vec<Value> {
        row::pod_conditions(object)
    }
}

/// Keeps everything of `old` but the ephemeral containers.
fn keep_but_ephemeral(old: &Value, new: &mut Value) {
    let added = new.at("spec").at("ephemeralContainers").clone();
    for field in ["spec", "status"] {
        carry(old, new, field);
    }
    object_meta::keep_client_metadata(old, new);
    let spec = child_mut(new, "spec");
    if added.is_null() {
        unset(spec, "ephemeralContainers")
    } else {
        set(spec, "ephemeralContainers", added)
    }
    object_meta::raise_generation(old, new, &["spec"]);
}

fn validate_annotations(context: &Context<'_>, pod: &Value) -> FieldErrors {
    let path = Path::new("metadata").child("annotations");
    annotations::validate(context, pod.at("metadata").at("annotations"), pod.at("spec"), &path)
}

fn validate_whole(context: &Context<'_>, pod: &Value) -> FieldErrors {
    let path = Path::new("spec");
    let place = Place::Pod { metadata: pod.at("metadata") };
    let mut errors = validate_pod_spec(context, pod.at("spec"), place, &path);
    errors.extend(validate_only_pod(pod.at("spec"), &path));
    errors
}

/// The condition of a pod that has waited for its scheduling gates since `now`.
fn gated_condition(now: &str) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates"
    })
}

// `matchLabelKeys` and `mismatchLabelKeys` become expressions over the labels that the pod has when it is made.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata").at("labels").clone();
    let spec = child_mut(pod, "spec");
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_keys(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else {
            continue;
        };
        for term in items_mut(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys(term, &labels);
        }
        for weighted in items_mut(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
    }
}

fn merge_keys(term: &mut Value, labels: &Value) {
    if !term.at("labelSelector").is_object() {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.texts(field) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !added.is_empty() {
        let selector = child_mut(term, "labelSelector");
        let mut expressions = selector.items("matchExpressions").to_vec();
        expressions.append(&mut added);
        set(selector, "matchExpressions", expressions);
    }
}

#[cfg(test)]
mod tests;
