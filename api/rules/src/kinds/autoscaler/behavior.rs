//! Validates the speed of an autoscaler: windows of stabilization, policies, tolerance.

use orch_schema::budget::Numbered;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Longest window of stabilization, in seconds.
const WINDOW_S_MAX: i64 = 3600;
/// Longest period of a policy, in seconds.
const PERIOD_S_MAX: i64 = 1800;
const SELECTIONS: [&str; 3] = ["Disabled", "Max", "Min"];
const POLICIES: [&str; 2] = ["Percent", "Pods"];

/// Rules for `behavior`.
pub(super) fn validate_behavior(behavior: &Value, path: &Path) -> FieldErrors {
    let directions = ["scaleUp", "scaleDown"].into_iter().filter(|direction| behavior.has(direction));
    directions.flat_map(|direction| validate_rules(behavior.at(direction), &path.child(direction))).collect()
}

fn validate_rules(rules: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(window) = rules.int("stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            let detail = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(path, &window.to_string(), detail));
        } else if window > WINDOW_S_MAX {
            let detail = format!("must be less than or equal to {WINDOW_S_MAX}");
            errors.push(FieldError::invalid(path, &window.to_string(), &detail));
        }
    }
    // few: three selections.
    if let Some(selection) = rules.at("selectPolicy").as_str().filter(|one| !SELECTIONS.contains(one)) {
        errors.push(FieldError::not_supported(path.child("selectPolicy"), selection, &SELECTIONS));
    }
    let policies = path.child("policies");
    if rules.items("policies").is_empty() {
        errors.push(FieldError::required(policies.clone(), "must specify at least one Policy"));
    }
    for (at, policy) in rules.items("policies").iter().numbered() {
        errors.extend(validate_policy(policy, &policies.index(at)));
    }
    let tolerance = rules.text("tolerance");
    if Quantity::parse(tolerance).is_some_and(Quantity::is_negative) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid_str(path.child("tolerance"), tolerance, detail));
    }
    errors
}

fn validate_policy(policy: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kind = policy.text("type");
    // few: two policies.
    if !POLICIES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &POLICIES));
    }
    for field in ["value", "periodSeconds"] {
        let number = policy.int(field).unwrap_or(0);
        if number <= 0 {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(path.child(field), &number.to_string(), detail));
        }
    }
    let period = policy.int("periodSeconds").unwrap_or(0);
    if period > PERIOD_S_MAX {
        let detail = format!("must be less than or equal to {PERIOD_S_MAX}");
        errors.push(FieldError::invalid(path.child("periodSeconds"), &period.to_string(), &detail));
    }
    errors
}
