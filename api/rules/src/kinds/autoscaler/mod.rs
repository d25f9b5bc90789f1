//! HorizontalPodAutoscaler, served as autoscaling v1 and v2 and stored as v2.
//!
//! Owns the rules, over the stored form, and the defaults of both versions. `convert` maps v1 to it and back: what v1
//! has no fields for stands there in annotations.

mod behavior;
mod convert;
mod defaults;
mod metric;
mod row;
mod saved;

pub use convert::{from_v1, stored_field_label, to_v1};

use orch_schema::json;
use orch_schema::value::Value;

use self::metric::{ApiVersionRule, fits_rule, validate_metrics, validate_reference};
use crate::Action;
use crate::kinds::{Cell, Context, Strategy, object_meta};
use crate::validate::metadata::nonnegative;
use crate::validate::tree::{Tree, set};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of horizontal autoscalers.
#[derive(Debug)]
pub struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        defaults::set_defaults(context, new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(None, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            let path = Path::new("status");
            for field in ["currentReplicas", "desiredReplicas"] {
                errors.extend(nonnegative(new.at("status").int(field), path.child(field)));
            }
            return errors;
        }
        errors.extend(validate_spec(Some(old.at("spec")), new.at("spec"), &Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row::autoscaler_row(object, now))
    }
}

/// Rules for a spec. What `old` had already is judged by the rules of its time.
fn validate_spec(old: Option<&Value>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (low, high) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or(0));
    let bound = if old.is_some_and(|old| old.int("minReplicas") == Some(0)) { 0 } else { 1 };
    if let Some(low) = low.filter(|low| *low < bound) {
        let detail = format!("must be greater than or equal to {bound}");
        errors.push(FieldError::invalid(path.child("minReplicas"), &low.to_string(), &detail));
    }
    let high_path = path.child("maxReplicas");
    if high == 0 {
        errors.push(FieldError::required(high_path.clone(), "must be set and greater than 0"));
    } else if high < 0 {
        errors.push(FieldError::invalid(high_path.clone(), &high.to_string(), "must be greater than 0"));
    }
    if low.is_some_and(|low| high < low) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(high_path, &high.to_string(), detail));
    }
    let target = spec.at("scaleTargetRef");
    errors.extend(validate_reference(target, target_rule(old, target), &path.child("scaleTargetRef")));
    errors.extend(validate_metrics(spec, object_rule(old), &path.child("metrics")));
    errors.extend(behavior::validate_behavior(spec.at("behavior"), &path.child("behavior")));
    errors
}

/// The API version that the target may have: as before, or one with a group unless the kind is of the core group.
fn target_rule(old: Option<&Value>, target: &Value) -> ApiVersionRule {
    let is_kept = old.is_some_and(|old| {
        let before = old.at("scaleTargetRef");
        ["apiVersion", "kind"].into_iter().all(|field| before.text(field) == target.text(field))
    });
    if is_kept {
        ApiVersionRule::Any
    } else if target.text("kind") == "ReplicationController" {
        ApiVersionRule::WellFormed
    } else {
        ApiVersionRule::WithGroup
    }
}

/// The API versions that objects with metrics may have: any, if one was malformed before.
fn object_rule(old: Option<&Value>) -> ApiVersionRule {
    let metrics = old.map(|old| old.items("metrics")).unwrap_or_default();
    let objects = metrics.iter().filter(|metric| metric.text("type") == "Object");
    let mut versions = objects.map(|metric| metric.at("object").at("describedObject").text("apiVersion"));
    let all_fit = versions.all(|version| fits_rule(version, ApiVersionRule::WellFormed).is_ok());
    if all_fit { ApiVersionRule::WellFormed } else { ApiVersionRule::Any }
}

#[cfg(test)]
mod tests;
