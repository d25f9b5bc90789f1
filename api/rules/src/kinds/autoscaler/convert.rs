//! Conversion between the versions of an autoscaler: v2, which is stored, and v1.
//!
//! v1 has a field for one metric, the use of CPU time. Other metrics, their current values, conditions and the behavior
//! stand in four annotations, which the stored form never has (`saved` reads and writes their values). Unreadable
//! annotations count as absent, as in the reference.

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::defaults::{CPU_PERCENT, add_directions, cpu_metrics};
use super::saved::{self, reference};
use crate::validate::tree::{Tree, carry, child_mut, set, unset};

const METRICS: &str = "metrics";
const CURRENT_METRICS: &str = "current-metrics";
const CONDITIONS: &str = "conditions";
const BEHAVIOR: &str = "behavior";

/// The stored autoscaler in the form of v1.
pub fn to_v1(brand: &Brand, stored: &Value) -> Value {
    let mut out = Value::Object(Map::new());
    carry(stored, &mut out, "metadata");
    take_annotations(brand, child_mut(&mut out, "metadata"));
    let (before, spec) = (stored.at("spec"), child_mut(&mut out, "spec"));
    set(spec, "scaleTargetRef", reference(before.at("scaleTargetRef")));
    carry(before, spec, "minReplicas");
    set(spec, "maxReplicas", before.int("maxReplicas").unwrap_or(0));
    // once: one metric is looked for.
    if let Some(metric) = before.items("metrics").iter().find(|metric| is_cpu_share(metric)) {
        let share = metric.at("resource").at("target").at("averageUtilization").clone();
        set(spec, "targetCPUUtilizationPercentage", share);
    }
    let (before, status) = (stored.at("status"), child_mut(&mut out, "status"));
    carry_counts(before, status);
    // The reference takes the last one.
    let shares = before.items("currentMetrics").iter().rev().filter(|metric| is_cpu(metric));
    let mut shares = shares.map(|metric| metric.at("resource").at("current").at("averageUtilization"));
    // once: one share is looked for.
    if let Some(share) = shares.find(|share| !share.is_null()) {
        set(status, "currentCPUUtilizationPercentage", share.clone());
    }
    for (name, text) in annotations_of(stored) {
        let annotations = child_mut(child_mut(&mut out, "metadata"), "annotations");
        set(annotations, &key(brand, name), text);
    }
    out
}

/// The stored form of an autoscaler in the form of v1.
pub fn from_v1(brand: &Brand, v1: &Value) -> Value {
    let mut out = Value::Object(Map::new());
    carry(v1, &mut out, "metadata");
    let saved = take_annotations(brand, child_mut(&mut out, "metadata"));
    // few: four annotations.
    let text = |name: &str| saved.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
    let (before, spec) = (v1.at("spec"), child_mut(&mut out, "spec"));
    set(spec, "scaleTargetRef", reference(before.at("scaleTargetRef")));
    carry(before, spec, "minReplicas");
    set(spec, "maxReplicas", before.int("maxReplicas").unwrap_or(0));
    let mut metrics = text(METRICS).and_then(saved::read_metrics).unwrap_or_default();
    if let Some(share) = before.int("targetCPUUtilizationPercentage") {
        metrics.extend(cpu_metrics(share).as_array().into_iter().flatten().cloned());
    }
    let metrics = if metrics.is_empty() { cpu_metrics(CPU_PERCENT) } else { Value::Array(metrics) };
    set(spec, "metrics", metrics);
    if let Some(mut behavior) = text(BEHAVIOR).and_then(saved::read_behavior) {
        add_directions(&mut behavior);
        set(spec, "behavior", behavior);
    }
    let (before, status) = (v1.at("status"), child_mut(&mut out, "status"));
    carry_counts(before, status);
    let share = before.int("currentCPUUtilizationPercentage").map(|share| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}])
    });
    // Saved values say more than the field.
    let current = text(CURRENT_METRICS).and_then(saved::read_current_metrics).map(Value::Array).or(share);
    set(status, "currentMetrics", current.unwrap_or_default());
    if let Some(conditions) = text(CONDITIONS).and_then(saved::read_conditions).filter(|all| !all.is_empty())
    {
        set(status, "conditions", conditions);
    }
    out
}

/// The stored field that a field selector of v1 names; `None` for an unknown one.
pub fn stored_field_label(label: &str) -> Option<&'static str> {
    match label {
        "metadata.name" => Some("metadata.name"),
        "metadata.namespace" => Some("metadata.namespace"),
        _ => None,
    }
}

fn key(brand: &Brand, name: &str) -> String {
    format!("autoscaling.alpha.{}", brand.label(name))
}

/// Removes the annotations of the conversion. Returns their names and values.
fn take_annotations(brand: &Brand, metadata: &mut Value) -> Vec<(&'static str, String)> {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        if let Some(value) = annotations.shift_remove(&key(brand, name)) {
            taken.push((name, value.as_str().unwrap_or_default().to_owned()));
        }
    }
    if annotations.is_empty() {
        unset(metadata, "annotations");
    }
    taken
}

/// The annotations that v1 needs for what it has no fields for.
fn annotations_of(stored: &Value) -> Vec<(&'static str, String)> {
    let (spec, status) = (stored.at("spec"), stored.at("status"));
    let others: Vec<&Value> = spec.items("metrics").iter().filter(|metric| !is_cpu_share(metric)).collect();
    let mut annotations = Vec::new();
    if !others.is_empty() {
        annotations.push((METRICS, saved::write_metrics(&others)));
    }
    if !status.items("currentMetrics").is_empty() {
        annotations.push((CURRENT_METRICS, saved::write_current_metrics(status.items("currentMetrics"))));
    }
    if spec.has("behavior") {
        annotations.push((BEHAVIOR, saved::write_behavior(spec.at("behavior"))));
    }
    if !status.items("conditions").is_empty() {
        annotations.push((CONDITIONS, saved::write_conditions(status.items("conditions"))));
    }
    annotations
}

fn is_cpu(metric: &Value) -> bool {
    metric.text("type") == "Resource" && metric.at("resource").text("name") == "cpu"
}

fn is_cpu_share(metric: &Value) -> bool {
    is_cpu(metric) && metric.at("resource").at("target").has("averageUtilization")
}

fn carry_counts(from: &Value, to: &mut Value) {
    carry(from, to, "observedGeneration");
    carry(from, to, "lastScaleTime");
    for field in ["currentReplicas", "desiredReplicas"] {
        set(to, field, from.int(field).unwrap_or(0));
    }
}
