//! policy/v1 PodDisruptionBudget: one of two bounds, as a number or a percentage.

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::workload::{number_or_percent, within_hundred_percent};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::conditions::validate_conditions;
use crate::validate::metadata::nonnegative;
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

const BOUNDS: [&str; 2] = ["minAvailable", "maxUnavailable"];
const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

/// The rules of disruption budgets.
#[derive(Debug)]
pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        validate_spec(new.at("spec"), &Path::new("spec"))
    }

    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        if context.action != Action::Status {
            return self.validate_create(context, new);
        }
        let (status, path) = (new.at("status"), Path::new("status"));
        let mut errors = validate_conditions(status.items("conditions"), &path.child("conditions"));
        errors
            .extend(COUNTS.into_iter().filter_map(|field| nonnegative(status.int(field), path.child(field))));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let bound = |field: &str| match object.at("spec").at(field) {
            Value::Null => json!("N/A"),
            Value::String(share) => json!(share),
            number => json!(number.to_string()),
        };
        Some(vec![
            object.at("metadata").at("name").clone(),
            bound("minAvailable"),
            bound("maxUnavailable"),
            json!(object.at("status").int("disruptionsAllowed").unwrap_or(0)),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if BOUNDS.iter().all(|bound| spec.has(bound)) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(path.clone(), &shown(spec), detail));
    }
    for bound in BOUNDS.into_iter().filter(|bound| spec.has(bound)) {
        errors.extend(number_or_percent(spec.at(bound), &path.child(bound)));
        errors.extend(within_hundred_percent(spec.at(bound), &path.child(bound)));
    }
    errors.extend(validate_label_selector(spec.at("selector"), &path.child("selector")));
    let policy = spec.at("unhealthyPodEvictionPolicy").as_str().filter(|policy| !POLICIES.contains(policy));
    if let Some(policy) = policy {
        let path = path.child("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(path, policy, &POLICIES));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, created, updated};

    #[test]
    fn a_budget_has_one_valid_bound() {
        for (spec, expected) in [
            (json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}), &[][..]),
            (json!({"maxUnavailable": "50%"}), &[]),
            (
                json!({"minAvailable": "101%"}),
                &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                json!({"maxUnavailable": -1}),
                &["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"maxUnavailable": 1, "minAvailable": 1}),
                &[
                    "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot \
                   be both set",
                ],
            ),
            (
                json!({"maxUnavailable": "x"}),
                &[
                    "spec.maxUnavailable: Invalid value: \"x\": a valid percent string must be a numeric string followed \
                   by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ],
            ),
            (
                json!({"unhealthyPodEvictionPolicy": "Never"}),
                &[
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
                   \"IfHealthyBudget\"",
                ],
            ),
        ] {
            check_create(&PodDisruptionBudget, json!({"spec": spec}), expected);
        }
        check_hostile(&PodDisruptionBudget);
    }

    #[test]
    fn the_generation_follows_the_spec() {
        let old = created(
            &PodDisruptionBudget,
            json!({"spec": {"minAvailable": 1}, "status": {"expectedPods": 9}}),
        );
        assert_eq!((&old["status"], &old["metadata"]["generation"]), (&json!({}), &json!(1)));
        let new = updated(&PodDisruptionBudget, Action::Object, &old, json!({"spec": {"minAvailable": 2}}));
        assert_eq!(new["metadata"]["generation"], 2);
    }
}
