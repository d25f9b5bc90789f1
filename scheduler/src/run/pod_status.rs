//! Patches of a pod's status.
//!
//! Owns which conditions the scheduler writes, their reasons, and when there is nothing to write: a patch that changes
//! nothing would cost the cluster as much as one that does, and thousands of pods may be refused each second.

use serde_json::{Value, json};

use crate::api::core::v1::{Pod, PodCondition};
use crate::wall_time::WallTime;

/// The condition that says whether the pod has a node.
const POD_SCHEDULED: &str = "PodScheduled";

/// The condition of a pod that is evicted.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason why a pod has no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unscheduled {
    /// No node takes it.
    Unschedulable,
    /// Planning or binding failed.
    SchedulerError,
    /// Its gates are not lifted.
    SchedulingGated,
}

impl Unscheduled {
    /// The reason of the condition.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Unscheduled::Unschedulable => "Unschedulable",
            Unscheduled::SchedulerError => "SchedulerError",
            Unscheduled::SchedulingGated => "SchedulingGated",
        }
    }
}

/// The change of a pod's nomination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Nomination {
    /// Leave it.
    Keep,
    /// Nominate this node.
    Set(String),
    /// Nominate none.
    Clear,
}

/// The patch that reports why `pod` has no node, and its nomination; `None` if the status says so already.
pub(super) fn unscheduled_patch(
    pod: &Pod,
    reason: Unscheduled,
    message: &str,
    nomination: &Nomination,
    now: WallTime,
) -> Option<Value> {
    let mut status = serde_json::Map::new();
    let before = condition(pod, POD_SCHEDULED);
    let is_same = before.is_some_and(|before| {
        (before.status.as_str(), before.reason.as_str()) == ("False", reason.as_str())
            && before.message == message
    });
    if !is_same {
        let keeps_time = before.filter(|before| before.status == "False");
        let condition = new_condition(pod, POD_SCHEDULED, "False", reason.as_str(), message, keeps_time, now);
        insert_condition(&mut status, pod, condition);
    }
    if let Some(nominated) = changed_nomination(pod, nomination) {
        status.insert("nominatedNodeName".to_owned(), nominated);
    }
    (!status.is_empty()).then(|| json!({ "status": status }))
}

/// The patch that only nominates `node`.
pub(super) fn nomination_patch(node: &str) -> Value {
    json!({ "status": { "nominatedNodeName": node } })
}

/// The patch that only takes back a nomination; `None` if there is none.
pub(super) fn withdrawal_patch(pod: &Pod) -> Option<Value> {
    let cleared = changed_nomination(pod, &Nomination::Clear)?;
    Some(json!({ "status": { "nominatedNodeName": cleared } }))
}

/// The patch that marks `victim` before it is deleted; `None` if it is marked already.
pub(super) fn eviction_patch(victim: &Pod, scheduler: &str, now: WallTime) -> Option<Value> {
    let before = condition(victim, DISRUPTION_TARGET);
    if before.is_some_and(|before| before.status == "True" && before.reason == "PreemptionByScheduler") {
        return None;
    }
    let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
    let keeps_time = before.filter(|before| before.status == "True");
    let reason = "PreemptionByScheduler";
    let condition = new_condition(victim, DISRUPTION_TARGET, "True", reason, &message, keeps_time, now);
    let mut status = serde_json::Map::new();
    insert_condition(&mut status, victim, condition);
    Some(json!({ "status": status }))
}

/// Adds a condition to a patch. Without the order that is wanted it would come to stand before the pod's others; the
/// reference adds new ones at the end.
fn insert_condition(status: &mut serde_json::Map<String, Value>, pod: &Pod, condition: Value) {
    let held = pod.status.iter().flat_map(|status| &status.conditions).map(|held| held.r#type.as_str());
    let mut order: Vec<&str> = held.collect();
    // few: the conditions of one pod.
    if let Some(kind) = condition["type"].as_str()
        && !order.contains(&kind)
    {
        order.push(kind);
    }
    let order: Vec<Value> = order.into_iter().map(|kind| json!({ "type": kind })).collect();
    status.insert("$setElementOrder/conditions".to_owned(), order.into());
    status.insert("conditions".to_owned(), json!([condition]));
}

fn new_condition(
    pod: &Pod,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    keeps_time: Option<&PodCondition>,
    now: WallTime,
) -> Value {
    let kept = keeps_time.and_then(|before| before.last_transition_time.as_ref());
    let changed = kept.map_or(now, |time| WallTime::from_seconds(time.seconds));
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": changed.rfc3339(),
    });
    let generation = pod.metadata.as_ref().map_or(0, |metadata| metadata.generation);
    if generation > 0 {
        condition["observedGeneration"] = generation.into();
    }
    condition
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().find(|condition| condition.r#type == kind)
}

fn changed_nomination(pod: &Pod, nomination: &Nomination) -> Option<Value> {
    let before = pod.status.as_ref().map_or("", |status| &status.nominated_node_name);
    match nomination {
        Nomination::Set(node) if node != before => Some(json!(node)),
        Nomination::Clear if !before.is_empty() => Some(Value::Null),
        Nomination::Keep | Nomination::Set(_) | Nomination::Clear => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::core::v1::PodStatus;
    use crate::api::meta::v1::{ObjectMeta, Time};

    const NOW: WallTime = WallTime(1_700_000_000_000_000);

    fn pod(conditions: Vec<PodCondition>, nominated: &str) -> Pod {
        let status =
            PodStatus { conditions, nominated_node_name: nominated.to_owned(), ..PodStatus::default() };
        Pod { metadata: Some(ObjectMeta::default()), status: Some(status), ..Pod::default() }
    }

    fn scheduled(status: &str, reason: &str, message: &str) -> PodCondition {
        PodCondition {
            r#type: POD_SCHEDULED.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Some(Time { seconds: 5, nanos: 0 }),
            ..PodCondition::default()
        }
    }

    fn unschedulable(pod: &Pod, nomination: &Nomination) -> Option<Value> {
        unscheduled_patch(pod, Unscheduled::Unschedulable, "m", nomination, NOW)
    }

    #[test]
    fn the_first_report_sets_the_condition() {
        let patch = unschedulable(&pod(vec![], ""), &Nomination::Keep).unwrap();
        let expected = json!({ "status": { "$setElementOrder/conditions": [{ "type": "PodScheduled" }], "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
            "lastProbeTime": null, "lastTransitionTime": "2023-11-14T22:13:20Z",
        }] } });
        assert_eq!(patch, expected);
    }

    #[test]
    fn a_report_that_the_status_has_already_is_no_patch() {
        let same = pod(vec![scheduled("False", "Unschedulable", "m")], "");
        assert_eq!(unschedulable(&same, &Nomination::Keep), None);
        assert_eq!(unschedulable(&same, &Nomination::Clear), None);
        let nominated = pod(vec![scheduled("False", "Unschedulable", "m")], "node");
        assert_eq!(unschedulable(&nominated, &Nomination::Set("node".to_owned())), None);
        assert_eq!(unschedulable(&nominated, &Nomination::Keep), None);
    }

    #[test]
    fn the_time_moves_only_with_the_status() {
        let time = |before| {
            let patch = unschedulable(&pod(vec![before], ""), &Nomination::Keep).unwrap();
            patch["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned()
        };
        assert_eq!(time(scheduled("False", "Unschedulable", "other")), "1970-01-01T00:00:05Z");
        assert_eq!(time(scheduled("True", "", "")), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_nomination_alone_is_a_patch() {
        let same = pod(vec![scheduled("False", "Unschedulable", "m")], "");
        let patch = unschedulable(&same, &Nomination::Set("node".to_owned())).unwrap();
        assert_eq!(patch, json!({ "status": { "nominatedNodeName": "node" } }));
        let nominated = pod(vec![scheduled("False", "Unschedulable", "m")], "node");
        let patch = unschedulable(&nominated, &Nomination::Clear).unwrap();
        assert_eq!(patch, json!({ "status": { "nominatedNodeName": null } }));
        assert_eq!(withdrawal_patch(&nominated), Some(patch));
        assert_eq!(withdrawal_patch(&same), None);
    }

    #[test]
    fn the_generation_is_told_where_there_is_one() {
        let mut pod = pod(vec![], "");
        pod.metadata.as_mut().unwrap().generation = 3;
        let patch =
            unscheduled_patch(&pod, Unscheduled::SchedulingGated, "g", &Nomination::Keep, NOW).unwrap();
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(
            (&condition["observedGeneration"], &condition["reason"]),
            (&json!(3), &json!("SchedulingGated"))
        );
    }

    #[test]
    fn a_new_condition_stands_behind_those_of_the_pod() {
        let victim = pod(
            vec![
                scheduled("True", "", ""),
                PodCondition { r#type: "Ready".to_owned(), ..PodCondition::default() },
            ],
            "",
        );
        let patch = eviction_patch(&victim, "default-scheduler", NOW).unwrap();
        let order = json!([{ "type": "PodScheduled" }, { "type": "Ready" }, { "type": "DisruptionTarget" }]);
        assert_eq!(patch["status"]["$setElementOrder/conditions"], order);
        let patch = unschedulable(&victim, &Nomination::Keep).unwrap();
        let order = json!([{ "type": "PodScheduled" }, { "type": "Ready" }]);
        assert_eq!(patch["status"]["$setElementOrder/conditions"], order);
    }

    #[test]
    fn a_victim_is_marked_once() {
        let patch = eviction_patch(&pod(vec![], ""), "default-scheduler", NOW).unwrap();
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(condition["type"], "DisruptionTarget");
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "PreemptionByScheduler");
        assert_eq!(
            condition["message"],
            "default-scheduler: preempting to accommodate a higher priority pod"
        );
        let marked = PodCondition {
            r#type: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: "PreemptionByScheduler".to_owned(),
            ..PodCondition::default()
        };
        assert_eq!(eviction_patch(&pod(vec![marked], ""), "s", NOW), None);
    }
}
