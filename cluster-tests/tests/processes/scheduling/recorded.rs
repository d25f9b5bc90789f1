//! The recorded scheduling cases: a scheduler is started for each, on what the case says that the cluster holds.

use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

use super::{create, plain_flags, until};

const CASES: &str = include_str!("../../../vectors/scheduling/cases.json");

const PODS: &str = "/api/v1/namespaces/sched/pods";
const NODES: &str = "/api/v1/nodes";
/// Longest wait for an answer. It comes within milliseconds, where it is the expected one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a pod is watched that nothing is to happen to.
const QUIET: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_cases_hold_on_a_real_cluster() {
    let cluster = Cluster::start(Options { flags: plain_flags(), ..Options::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    let namespaces = ["sched", "sched2"];
    for name in namespaces {
        create(&client, "/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
    }
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut failed = Vec::new();
    for case in &cases {
        let differences = replay(&cluster, &client, case).await;
        if !differences.is_empty() {
            failed.push(format!("{}\n    {}", case["name"], differences.join("\n    ")));
        }
        clear(&client, case).await;
    }
    assert!(failed.is_empty(), "{} of {} cases differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn list<'a>(case: &'a Value, name: &str) -> &'a [Value] {
    case[name].as_array().map_or(&[], Vec::as_slice)
}

fn pods_of(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods", pod["namespace"].as_str().unwrap())
}

/// Makes the cluster of a case, has its pods scheduled one after another, and says what differs.
async fn replay(cluster: &Cluster, client: &Client, case: &Value) -> Vec<String> {
    for entry in list(case, "objects") {
        create(client, entry["path"].as_str().unwrap(), &entry["object"]).await;
    }
    for node in list(case, "nodes") {
        create(client, NODES, &node_of(node)).await;
    }
    for pod in list(case, "existing") {
        let made = create(client, &pods_of(pod), &pod_of(pod)).await;
        if let Some(phase) = pod.get("phase") {
            let path = format!("{}/{}/status", pods_of(pod), made["metadata"]["name"].as_str().unwrap());
            client.merge_patch(&path, &json!({"status": {"phase": phase}})).await.unwrap().success().unwrap();
        }
    }
    let mut scheduler = cluster.scheduler("scheduler", &["--leader-elect=false"]).unwrap();
    let (pending, expected) = (list(case, "pending"), list(case, "expect"));
    let mut differences = Vec::new();
    for (pod, expected) in pending.iter().zip(expected) {
        create(client, &pods_of(pod), &pod_of(pod)).await;
        let got = settle(client, pod, expected).await;
        if got != *expected {
            differences.push(format!("expected {expected}\n         got {got}"));
        }
    }
    let expected = case.get("evicted").cloned().unwrap_or_else(|| json!([]));
    let evicted = evicted(client, &expected).await;
    if evicted != expected {
        differences.push(format!("evicted: expected {expected}, got {evicted}"));
    }
    // Without an election there is no orderly end, as in the reference. A case that the API alone decides may be over
    // before the process takes signals, which then end it themselves.
    let end = scheduler.stop().await.unwrap().code();
    assert!(matches!(end, Some(1) | None), "{end:?}");
    differences
}

fn node_of(node: &Value) -> Value {
    json!({
        "metadata": {"name": node["name"], "labels": node["labels"]},
        "spec": {"taints": node["taints"], "unschedulable": node["unschedulable"]},
        "status": {"allocatable": node["allocatable"], "images": node["images"]},
    })
}

fn pod_of(pod: &Value) -> Value {
    json!({"metadata": {"name": pod["name"], "labels": pod["labels"]}, "spec": pod["spec"]})
}

/// The state of a pod, once it is as expected or the time for that is over.
async fn settle(client: &Client, pod: &Value, expected: &Value) -> Value {
    let path = format!("{}/{}", pods_of(pod), pod["name"].as_str().unwrap());
    let is_quiet = expected["node"].is_null() && expected.get("reason").is_none();
    let (began, patience) = (Instant::now(), if is_quiet { QUIET } else { PATIENCE });
    loop {
        let got = outcome(&client.get(&path).await.unwrap().success().unwrap());
        if began.elapsed() > patience || (!is_quiet && got == *expected) {
            return got;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// A pod in the form of the recorded answers.
fn outcome(pod: &Value) -> Value {
    let mut outcome = json!({"pod": pod["metadata"]["name"], "node": pod["spec"]["nodeName"]});
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let refused = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    if let Some(condition) = conditions.iter().find(refused) {
        outcome["reason"] = condition["reason"].clone();
        outcome["message"] = condition["message"].clone();
    }
    if let Some(nominated) = pod["status"].get("nominatedNodeName") {
        outcome["nominated"] = nominated.clone();
    }
    outcome
}

/// The names of the pods that are being deleted, once they are `expected`.
async fn evicted(client: &Client, expected: &Value) -> Value {
    let began = Instant::now();
    loop {
        let pods = client.get("/api/v1/pods").await.unwrap().success().unwrap();
        let gone = list(&pods, "items").iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        let mut names: Vec<&str> = gone.map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        if json!(names) == *expected || began.elapsed() > PATIENCE {
            return json!(names);
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Removes what the case has made; what holds an object back is taken off, as nobody else would.
async fn clear(client: &Client, case: &Value) {
    let mut lists: Vec<&str> =
        list(case, "objects").iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    lists.extend([PODS, "/api/v1/namespaces/sched2/pods", NODES]);
    for path in &lists {
        until(PATIENCE, "an empty list", async || {
            client.delete(&format!("{path}?gracePeriodSeconds=0")).await.unwrap();
            let left = client.get(path).await.unwrap().success().unwrap();
            for object in list(&left, "items").iter().filter(|o| o["metadata"].get("finalizers").is_some()) {
                let name = object["metadata"]["name"].as_str().unwrap();
                let free = json!({"metadata": {"finalizers": null}});
                client.merge_patch(&format!("{path}/{name}"), &free).await.unwrap();
            }
            let is_builtin =
                |object: &Value| object["metadata"]["name"].as_str().unwrap().starts_with("system-");
            list(&left, "items").iter().all(is_builtin).then_some(())
        })
        .await;
    }
}
