//! The table row of a pod: ready containers, status and its reason, restarts.

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, age};
use crate::validate::Distinct;
use crate::validate::tree::Tree;

/// Summary of the container statuses of a pod.
#[derive(Default)]
struct Tally {
    ready: usize,
    restarts: Restarts,
    /// Those of the init containers that run beside the others.
    of_sidecars: Restarts,
    reason: String,
}

/// Restarts of containers, with the end of the last run before one.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: String,
}

/// The cells of a pod, in the order of its columns.
pub(super) fn pod_row(pod: &Value, now: &str) -> Vec<Cell> {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let sidecars =
        spec.items("initContainers").iter().filter(|c| c.text("restartPolicy") == "Always").count();
    let total = spec.items("containers").len() + sidecars;
    let tally = tally(pod);
    let Restarts { count, last } = &tally.restarts;
    let restarts = if *count != 0 && !last.is_empty() {
        format!("{count} ({} ago)", age::since(last, now))
    } else {
        count.to_string()
    };
    let or_none = |text: &str| if text.is_empty() { json!("<none>") } else { json!(text) };
    let ip = status.items("podIPs").first().map_or(status.text("podIP"), |ip| ip.text("ip"));
    vec![
        pod.at("metadata").at("name").clone(),
        json!(format!("{}/{total}", tally.ready)),
        json!(tally.reason),
        json!(restarts),
        json!(age::age(pod, now)),
        or_none(ip),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        json!(readiness_gates(pod)),
    ]
}

/// The condition of the row of a pod that has ended: clients may leave such rows out.
pub(super) fn pod_conditions(pod: &Value) -> Vec<Value> {
    let phase = pod.at("status").text("phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    vec![json!({ "type": "Completed", "status": "True", "reason": phase, "message": message })]
}

fn tally(pod: &Value) -> Tally {
    let status = pod.at("status");
    let mut reason = status.text("phase").to_owned();
    if !status.text("reason").is_empty() {
        reason = status.text("reason").to_owned();
    }
    if condition(pod, "PodScheduled").text("reason") == "SchedulingGated" {
        reason = "SchedulingGated".to_owned();
    }
    let mut tally = Tally { reason, ..Tally::default() };
    let initializing = tally_init(pod, &mut tally);
    if !initializing || condition(pod, "Initialized").text("status") == "True" {
        // The restarts of containers that have ended for good are of no interest any more.
        tally.restarts = std::mem::take(&mut tally.of_sidecars);
        tally_regular(pod, &mut tally);
    }
    if pod.at("metadata").has("deletionTimestamp") {
        let phase = status.text("phase");
        if status.text("reason") == "NodeLost" {
            tally.reason = "Unknown".to_owned();
        } else if phase != "Failed" && phase != "Succeeded" {
            tally.reason = "Terminating".to_owned();
        }
    }
    tally
}

// Returns whether an init container still runs or has failed; `tally.reason` is then about that container.
fn tally_init(pod: &Value, tally: &mut Tally) -> bool {
    let specs = pod.at("spec").items("initContainers");
    let restartable: Distinct<&str> = specs
        .iter()
        .filter(|container| container.text("restartPolicy") == "Always")
        .map(|container| container.text("name"))
        .collect();
    for (at, container) in pod.at("status").items("initContainerStatuses").iter().numbered() {
        let sidecar = restartable.has(&container.text("name"));
        tally.restarts.add(container);
        if sidecar {
            tally.of_sidecars.add(container);
        }
        let (terminated, waiting) =
            (container.at("state").at("terminated"), container.at("state").at("waiting"));
        if terminated.is_object() && terminated.int("exitCode") == Some(0) {
            continue;
        }
        if sidecar && container.flag("started") {
            if container.flag("ready") {
                tally.ready += 1;
            }
            continue;
        }
        tally.reason = if terminated.is_object() {
            format!("Init:{}", terminated_reason(terminated))
        } else if !matches!(waiting.text("reason"), "" | "PodInitializing") {
            format!("Init:{}", waiting.text("reason"))
        } else {
            format!("Init:{at}/{}", specs.len())
        };
        return true;
    }
    false
}

fn tally_regular(pod: &Value, tally: &mut Tally) {
    let mut running = false;
    for container in pod.at("status").items("containerStatuses").iter().rev() {
        tally.restarts.add(container);
        let state = container.at("state");
        if !state.at("waiting").text("reason").is_empty() {
            tally.reason = state.at("waiting").text("reason").to_owned();
        } else if state.at("terminated").is_object() {
            tally.reason = terminated_reason(state.at("terminated"));
        } else if container.flag("ready") && state.at("running").is_object() {
            running = true;
            tally.ready += 1;
        }
    }
    if tally.reason == "Completed" && running {
        let ready = condition(pod, "Ready").text("status") == "True";
        tally.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(container.int("restartCount").unwrap_or(0));
        let finished = container.at("lastState").at("terminated").text("finishedAt");
        // Times of one form compare as text.
        if finished > self.last.as_str() {
            self.last = finished.to_owned();
        }
    }
}

fn terminated_reason(terminated: &Value) -> String {
    let reason = terminated.text("reason");
    if !reason.is_empty() {
        return reason.to_owned();
    }
    match terminated.int("signal").unwrap_or(0) {
        0 => format!("ExitCode:{}", terminated.int("exitCode").unwrap_or(0)),
        signal => format!("Signal:{signal}"),
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod.at("status").items("conditions");
    // once: one condition is looked for.
    conditions.iter().find(|condition| condition.text("type") == kind).unwrap_or(&Value::Null)
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.at("spec").items("readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter(|gate| condition(pod, gate.text("conditionType")).text("status") == "True");
    format!("{}/{}", met.count(), gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(status: Value) -> String {
        tally(&json!({"status": status, "spec": {"initContainers": [{"name": "i"}, {"name": "j"}]}})).reason
    }

    #[test]
    fn states_of_pods() {
        for (status, expected) in [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "Init:0/2",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
                "Init:ExitCode:3",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "CrashLoopBackOff",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}),
                "Signal:9",
            ),
        ] {
            assert_eq!(reason(status.clone()), expected, "{status}");
        }
    }

    #[test]
    fn restarts_of_init_containers_count_until_they_are_through() {
        let spec = json!({
            "containers": [{"name": "c"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        });
        let ended = |at: &str| json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        let status = |name: &str, state: Value, count: i64, at: &str| json!({"name": name, "started": true, "restartCount": count, "state": state, "lastState": ended(at)});
        let (early, late) = ("2026-01-02T03:05:00Z", "2026-01-02T03:05:50Z");
        for (first, expected) in [(json!({"running": {}}), "3 (10s ago)"), (ended(late), "3 (60s ago)")] {
            let init = [status("i", first, 3, late), status("s", json!({"running": {}}), 1, early)];
            let containers = [status("c", json!({"running": {}}), 2, early)];
            let status = json!({"initContainerStatuses": init, "containerStatuses": containers});
            let row = pod_row(&json!({"spec": spec, "status": status}), "2026-01-02T03:06:00Z");
            assert_eq!(row[3], expected);
        }
    }

    #[test]
    fn a_running_pod() {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
                {"ready": true, "restartCount": 2, "state": {"running": {}},
                 "lastState": {"terminated": {"finishedAt": "2026-01-02T03:05:00Z"}}},
                {"ready": false, "state": {"running": {}}}
            ]}
        });
        let row = pod_row(&pod, "2026-01-02T03:06:00Z");
        assert_eq!(
            json!(row),
            json!(["p", "1/2", "Running", "2 (60s ago)", "115s", "10.0.0.1", "n1", "<none>", "<none>"])
        );
    }
}
