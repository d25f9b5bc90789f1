//! Conditions in the status of a pod, which have an older form than those of other kinds.

use orch_schema::json;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, child_mut, object_mut, set, unset};

/// A condition that the server sets.
#[derive(Clone, Copy, Debug)]
pub struct PodCondition<'a> {
    /// Type: `PodScheduled`.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Reason; empty for none.
    pub reason: &'a str,
    /// Message; empty for none.
    pub message: &'a str,
}

/// Sets `condition` in `status`. The time of transition stays where the status of the condition does.
pub fn set_condition(status: &mut Value, condition: &PodCondition<'_>, now: &str) {
    let mut conditions = status.items("conditions").to_vec();
    // once: one condition of one pod.
    let at = conditions.iter().position(|found| found.text("type") == condition.kind);
    let known = at.map(|at| &mut conditions[at]);
    match known {
        Some(found) => {
            if found.text("status") != condition.status {
                set(found, "lastTransitionTime", now);
            }
            set(found, "status", condition.status);
            for (field, text) in [("reason", condition.reason), ("message", condition.message)] {
                if text.is_empty() { unset(found, field) } else { set(found, field, text) }
            }
        }
        None => {
            let mut new = json!({
                "type": condition.kind,
                "status": condition.status,
                "lastProbeTime": null,
                "lastTransitionTime": now,
            });
            for (field, text) in [("reason", condition.reason), ("message", condition.message)] {
                if !text.is_empty() {
                    set(&mut new, field, text);
                }
            }
            conditions.push(new);
        }
    }
    object_mut(status);
    set(status, "conditions", conditions);
}

/// Whether the pod has the condition `Ready`.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod.at("status").items("conditions");
    // once: one condition of one pod.
    let ready = conditions.iter().find(|condition| condition.text("type") == "Ready");
    ready.is_some_and(|condition| condition.text("status") == "True")
}

/// Adds the condition of a pod that is evicted.
pub fn set_disruption_target(pod: &mut Value, now: &str) {
    let condition = PodCondition {
        kind: "DisruptionTarget",
        status: "True",
        reason: "EvictionByEvictionAPI",
        message: "Eviction API: evicting",
    };
    set_condition(child_mut(pod, "status"), &condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_set_once_and_keeps_its_time_until_its_status_changes() {
        let mut pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(is_ready(&pod));
        set_disruption_target(&mut pod, "t1");
        set_disruption_target(&mut pod, "t2");
        let conditions = pod.at("status").items("conditions");
        assert_eq!(conditions.len(), 2);
        assert_eq!(conditions[1].text("lastTransitionTime"), "t1");
        assert_eq!(conditions[1].text("reason"), "EvictionByEvictionAPI");
        let unready = PodCondition { kind: "Ready", status: "False", reason: "", message: "" };
        set_condition(child_mut(&mut pod, "status"), &unready, "t3");
        assert_eq!(pod.at("status").items("conditions")[0].text("lastTransitionTime"), "t3");
        assert!(!is_ready(&pod));
    }
}
