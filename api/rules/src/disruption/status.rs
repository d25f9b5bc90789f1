//! The status of a budget: how many pods there should be, how many are healthy, and how many may go.

use orch_schema::value::Value;
use orch_schema::{Instant, Precision, json};

use super::{SYNC_FAILED, set_allowed_condition, set_condition};
use crate::kinds::pod::condition::is_ready;
use crate::validate::tree::{Tree, set, sorted_entries};

/// Seconds after an eviction within which its pod should be gone; then the pod counts again. As in the reference.
const DELETION_SECONDS_MAX: i64 = 2 * 60;

/// Pods that a budget expects, and how many of them it wants to be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    expected: i64,
    healthy: i64,
}

/// Number of pods that there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The replicas of everything that controls the pods.
    Scale(i64),
    /// The pods that there are: the budget counts them alone.
    Pods,
}

/// A budget and its pods at one time: its status follows from them.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The budget.
    pub budget: &'a Value,
    /// The pods that it selects.
    pub pods: &'a [Value],
    /// Number of pods that there should be.
    pub count: Count,
    /// Time, RFC 3339.
    pub now: &'a str,
}

/// Whether the budget is about a share of the pods that there should be, or about how many of those may be missing.
pub fn scale_is_needed(budget: &Value) -> bool {
    let spec = budget.at("spec");
    spec.has("maxUnavailable") || spec.at("minAvailable").is_string()
}

/// The status of the budget.
pub fn observed_status(observed: &Observed<'_>) -> Value {
    let Observed { budget, pods, now, .. } = *observed;
    let before = budget.at("status");
    let disrupted = still_disrupted(before, pods, now);
    let healthy = pods.iter().filter(|pod| {
        let metadata = pod.at("metadata");
        let goes = metadata.has("deletionTimestamp") || disrupted.has(metadata.text("name"));
        !goes && is_ready(pod)
    });
    let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let wanted = wanted(observed);
    let spare = healthy.saturating_sub(wanted.healthy).max(0);
    // A budget without pods allows nothing, so that its first pods are safe before they are counted.
    let allowed = if wanted.expected <= 0 { 0 } else { spare };
    let mut status = json!({
        "observedGeneration": budget.at("metadata").int("generation").unwrap_or(0),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": wanted.healthy,
        "expectedPods": wanted.expected,
        "conditions": before.items("conditions").to_vec(),
    });
    if disrupted.as_object().is_some_and(|pods| !pods.is_empty()) {
        set(&mut status, "disruptedPods", disrupted);
    }
    set_allowed_condition(&mut status, now);
    status
}

/// The status of a budget whose pods could not be counted because of `reason`: it allows nothing.
pub fn failed_status(budget: &Value, reason: &str, now: &str) -> Value {
    let mut status = budget.at("status").clone();
    set(&mut status, "disruptionsAllowed", 0);
    set_condition(&mut status, "False", SYNC_FAILED, reason, now);
    status
}

/// Seconds since 1970 at which a disrupted pod of `status` counts again, the earliest one.
pub fn recheck_time(status: &Value) -> Option<i64> {
    let times = sorted_entries(status.at("disruptedPods")).into_iter();
    times.filter_map(|(_, time)| Some(seconds(time.as_str()?)? + DELETION_SECONDS_MAX)).min()
}

fn wanted(observed: &Observed<'_>) -> Wanted {
    let (spec, pods) = (observed.budget.at("spec"), observed.pods.len());
    let expected = match observed.count {
        Count::Scale(replicas) => replicas,
        Count::Pods => i64::try_from(pods).unwrap_or(i64::MAX),
    };
    let healthy = if spec.has("maxUnavailable") {
        expected.saturating_sub(scaled(spec.at("maxUnavailable"), expected)).max(0)
    } else if spec.has("minAvailable") {
        scaled(spec.at("minAvailable"), expected)
    } else {
        return Wanted { expected: 0, healthy: 0 };
    };
    Wanted { expected, healthy }
}

/// The number, or the percentage of `whole`, rounded up.
fn scaled(value: &Value, whole: i64) -> i64 {
    let Some(text) = value.as_str() else { return value.as_i64().unwrap_or(0) };
    let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
    percent.saturating_mul(whole).saturating_add(99).div_euclid(100)
}

/// The evicted pods that are still there and expected to go: those that took too long count again.
fn still_disrupted(status: &Value, pods: &[Value], now: &str) -> Value {
    let (disrupted, mut left) = (status.at("disruptedPods"), json!({}));
    let now = seconds(now).unwrap_or(0);
    for pod in pods {
        let metadata = pod.at("metadata");
        let time = disrupted.at(metadata.text("name"));
        let due = time.as_str().and_then(seconds).map(|since| since + DELETION_SECONDS_MAX);
        if !metadata.has("deletionTimestamp") && due.is_some_and(|due| due > now) {
            set(&mut left, metadata.text("name"), time.clone());
        }
    }
    left
}

fn seconds(time: &str) -> Option<i64> {
    Instant::parse(time, Precision::Seconds).map(|instant| instant.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn pod(name: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        })
    }

    fn numbers(status: &Value) -> [i64; 4] {
        ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|field| status.int(field).unwrap())
    }

    #[test]
    fn numbers_follow_from_pods_and_their_scale() {
        let pods: Vec<Value> =
            [("a", "True"), ("b", "True"), ("c", "False")].map(|(name, ready)| pod(name, ready)).into();
        for (spec, count, expected) in [
            (json!({"minAvailable": 1}), Count::Pods, [3, 1, 2, 1]),
            (json!({"minAvailable": 3}), Count::Pods, [3, 3, 2, 0]),
            (json!({"minAvailable": "50%"}), Count::Scale(3), [3, 2, 2, 0]),
            (json!({"minAvailable": "0%"}), Count::Scale(3), [3, 0, 2, 2]),
            (json!({"maxUnavailable": 1}), Count::Scale(3), [3, 2, 2, 0]),
            (json!({"maxUnavailable": "34%"}), Count::Scale(3), [3, 1, 2, 1]),
            (json!({"maxUnavailable": 9}), Count::Scale(3), [3, 0, 2, 2]),
            (json!({"maxUnavailable": 1}), Count::Scale(0), [0, 0, 2, 0]),
            (json!({}), Count::Pods, [0, 0, 2, 0]),
        ] {
            let budget = json!({"metadata": {"generation": 4}, "spec": spec});
            let status = observed_status(&Observed { budget: &budget, pods: &pods, count, now: NOW });
            assert_eq!(numbers(&status), expected, "{spec}");
            assert_eq!(status.int("observedGeneration"), Some(4));
            let condition = &status.items("conditions")[0];
            assert_eq!(condition.text("status"), if expected[3] > 0 { "True" } else { "False" });
        }
    }

    #[test]
    fn an_evicted_pod_counts_again_when_it_does_not_go() {
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "True")];
        let status = json!({"disruptedPods": {
            "a": "2026-01-02T03:02:06Z", "b": "2026-01-02T03:02:05Z", "gone": NOW
        }});
        let budget = json!({"metadata": {}, "spec": {"minAvailable": 1}, "status": status});
        let status =
            observed_status(&Observed { budget: &budget, pods: &pods, count: Count::Pods, now: NOW });
        assert_eq!(numbers(&status), [3, 1, 2, 1]);
        assert_eq!(status.at("disruptedPods"), &json!({"a": "2026-01-02T03:02:06Z"}));
        assert_eq!(recheck_time(&status), seconds("2026-01-02T03:04:06Z"));
        assert_eq!(recheck_time(&json!({})), None);
    }

    #[test]
    fn a_condition_keeps_its_time_while_it_holds() {
        let pods = [pod("a", "True")];
        let mut budget = json!({"metadata": {"generation": 1}, "spec": {"minAvailable": 0}});
        let at = |budget: &Value, now: &str| {
            observed_status(&Observed { budget, pods: &pods, count: Count::Pods, now })
        };
        let first = at(&budget, NOW);
        set(&mut budget, "status", first.clone());
        assert_eq!(at(&budget, "2026-01-02T04:00:00Z"), first, "nothing changes with time alone");
        let failed = failed_status(&budget, "no controllers", "2026-01-02T04:00:00Z");
        let condition = &failed.items("conditions")[0];
        assert_eq!((condition.text("reason"), condition.text("message")), ("SyncFailed", "no controllers"));
        assert_eq!(condition.text("lastTransitionTime"), "2026-01-02T04:00:00Z");
        assert_eq!(failed.int("disruptionsAllowed"), Some(0));
    }
}
