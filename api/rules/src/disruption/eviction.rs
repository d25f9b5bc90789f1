//! Evictions: the decision of the budget that selects the pod.

use orch_schema::value::Value;

use super::{ALLOWED, SYNC_FAILED, set_allowed_condition};
use crate::kinds::pod::condition::is_ready;
use crate::validate::tree::{Tree, child_mut, set};

/// Evictions that a budget's status may hold before its loop has seen them; beyond that the loop is not running. As in
/// the reference.
const DISRUPTED_PODS_MAX: usize = 2000;

/// The decision of a budget on an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionDecision {
    /// The pod does not count as healthy: it may go, and the budget stays as it is.
    Uncounted,
    /// The pod may go. Holds the new status of the budget.
    Counted(Value),
    /// The status of the budget is older than its spec: ask again later.
    NotObserved,
    /// The budget allows no disruption. Holds the message.
    Exhausted(String),
    /// The status of the budget makes no sense. Holds the reason.
    Broken(&'static str),
}

/// Whether evicting `pod` disrupts nothing: it has ended, has not started, or is being deleted.
pub fn ignores_budget(pod: &Value) -> bool {
    matches!(pod.at("status").text("phase"), "Succeeded" | "Failed" | "Pending")
        || pod.at("metadata").has("deletionTimestamp")
}

/// The decision of `budget` on the eviction of `pod`, which it selects.
pub fn judge(budget: &Value, pod: &Value, now: &str) -> EvictionDecision {
    let (metadata, spec, status) = (budget.at("metadata"), budget.at("spec"), budget.at("status"));
    let count = |field: &str| status.int(field).unwrap_or(0);
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    if !is_ready(pod) {
        let is_kept_up = healthy >= desired && desired > 0;
        if spec.text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || is_kept_up {
            return EvictionDecision::Uncounted;
        }
    }
    if count("observedGeneration") < metadata.int("generation").unwrap_or(0) {
        return EvictionDecision::NotObserved;
    }
    let disrupted = status.at("disruptedPods").as_object().map_or(0, |pods| pods.len());
    if disrupted > DISRUPTED_PODS_MAX {
        return EvictionDecision::Broken(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    match count("disruptionsAllowed") {
        ..0 => EvictionDecision::Broken("pdb disruptions allowed is negative"),
        0 => EvictionDecision::Exhausted(exhaustion(budget, healthy, desired)),
        allowed => {
            let mut status = status.clone();
            set(&mut status, "disruptionsAllowed", allowed - 1);
            if allowed == 1 {
                set_allowed_condition(&mut status, now);
            }
            set(child_mut(&mut status, "disruptedPods"), pod.at("metadata").text("name"), now);
            EvictionDecision::Counted(status)
        }
    }
}

/// Why a budget without allowed disruptions allows none.
fn exhaustion(budget: &Value, healthy: i64, desired: i64) -> String {
    let (name, conditions) = (budget.at("metadata").text("name"), budget.at("status").items("conditions"));
    let is_failure = |condition: &&Value| {
        condition.text("type") == ALLOWED
            && condition.text("status") == "False"
            && condition.text("reason") == SYNC_FAILED
            && !condition.text("message").is_empty()
    };
    // once: one budget.
    let failure = conditions.iter().find(is_failure);
    match failure {
        Some(failure) => {
            let message = failure.text("message");
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        None if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn budget(status: Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 1}, "spec": {}, "status": status})
    }

    fn pod(ready: &str) -> Value {
        json!({
            "metadata": {"name": "p"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        })
    }

    #[test]
    fn a_budget_of_one_is_spent_once() {
        let status = json!({"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "observedGeneration": 1});
        let EvictionDecision::Counted(spent) = judge(&budget(status), &pod("True"), NOW) else {
            panic!("not allowed")
        };
        assert_eq!(
            (spent.int("disruptionsAllowed"), spent.at("disruptedPods")),
            (Some(0), &json!({"p": NOW}))
        );
        assert_eq!(spent.items("conditions")[0].text("reason"), "InsufficientPods");
        let told = "The disruption budget b does not allow evicting pods currently".to_owned();
        assert_eq!(judge(&budget(spent), &pod("True"), NOW), EvictionDecision::Exhausted(told));
    }

    #[test]
    fn verdicts() {
        let needs = |healthy: i64| {
            EvictionDecision::Exhausted(format!(
                "The disruption budget b needs 2 healthy pods and has {healthy} currently"
            ))
        };
        let status = |allowed: i64, healthy: i64, generation: i64| json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 2, "observedGeneration": generation});
        for (status, ready, expected) in [
            (status(5, 9, 0), "True", EvictionDecision::NotObserved),
            (status(0, 1, 1), "True", needs(1)),
            (status(0, 2, 1), "False", EvictionDecision::Uncounted),
            (status(0, 1, 1), "False", needs(1)),
            (status(0, 2, 1), "True", needs(2)),
            (status(-1, 2, 1), "True", EvictionDecision::Broken("pdb disruptions allowed is negative")),
        ] {
            assert_eq!(judge(&budget(status.clone()), &pod(ready), NOW), expected, "{status}");
        }
        let mut lenient = budget(status(0, 0, 1));
        set(child_mut(&mut lenient, "spec"), "unhealthyPodEvictionPolicy", "AlwaysAllow");
        assert_eq!(judge(&lenient, &pod("False"), NOW), EvictionDecision::Uncounted);
        assert_eq!(judge(&lenient, &pod("True"), NOW), needs(0));
        let mut failed = status(0, 9, 1);
        super::super::set_condition(&mut failed, "False", SYNC_FAILED, "why", NOW);
        let told =
            "The disruption budget b does not allow evicting pods currently because it failed sync: why";
        assert_eq!(judge(&budget(failed), &pod("True"), NOW), EvictionDecision::Exhausted(told.to_owned()));
    }

    #[test]
    fn pods_that_do_not_run_need_no_budget() {
        for (status, expected) in [
            (json!({"phase": "Running"}), false),
            (json!({"phase": "Pending"}), true),
            (json!({"phase": "Failed"}), true),
            (json!({"phase": "Succeeded"}), true),
            (json!({}), false),
        ] {
            assert_eq!(ignores_budget(&json!({"status": status})), expected);
        }
        assert!(ignores_budget(
            &json!({"metadata": {"deletionTimestamp": NOW}, "status": {"phase": "Running"}})
        ));
    }
}
