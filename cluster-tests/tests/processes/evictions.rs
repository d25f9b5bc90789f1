//! Evictions through three nodes at once: a budget that allows one disruption allows exactly one.

use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Evictions at once, each of a pod of its own.
const EVICTIONS: usize = 32;

/// Longest wait for the status of the budget.
const STATUS_WAIT: Duration = Duration::from_secs(20);

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn name(pod: usize) -> String {
    format!("p{pod}")
}

/// Stores a pod that runs on a node and is ready.
async fn run_pod(client: &Client, pod: usize) {
    let object = json!({
        "metadata": {"name": name(pod), "labels": {"app": "a"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    });
    client.post(PODS, &object).await.unwrap().success().unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let path = format!("{PODS}/{}/status", name(pod));
    client.merge_patch(&path, &status).await.unwrap().success().unwrap();
}

/// Waits until the budget's status is `expected`: disruptions allowed, and healthy pods.
async fn until_counted(client: &Client, expected: (i64, i64)) {
    let began = Instant::now();
    loop {
        let budget = client.get(&format!("{BUDGETS}/b")).await.unwrap().success().unwrap();
        let status = &budget["status"];
        let found = (status["disruptionsAllowed"].as_i64(), status["currentHealthy"].as_i64());
        if found == (Some(expected.0), Some(expected.1)) {
            return;
        }
        assert!(began.elapsed() < STATUS_WAIT, "still {status}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The pods that are not being deleted.
async fn left(client: &Client) -> usize {
    let pods = client.get(PODS).await.unwrap().success().unwrap();
    let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    pods["items"].as_array().unwrap().iter().filter(stays).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_of_one_is_spent_once_by_evictions_through_three_nodes() {
    let flags = vec!["--disable-admission-plugins=ServiceAccount".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let clients = [0, 1, 2].map(|node| cluster.client(node).unwrap());
    for pod in 0..EVICTIONS {
        run_pod(&clients[pod % 3], pod).await;
    }
    let spec = json!({"minAvailable": EVICTIONS - 1, "selector": {"matchLabels": {"app": "a"}}});
    let budget = json!({"metadata": {"name": "b"}, "spec": spec});
    clients[0].post(BUDGETS, &budget).await.unwrap().success().unwrap();
    let all = i64::try_from(EVICTIONS).unwrap();
    until_counted(&clients[0], (1, all)).await;
    let evictions = (0..EVICTIONS).map(|pod| {
        let client = clients[pod % 3].clone();
        tokio::spawn(async move {
            let eviction = json!({"metadata": {"name": name(pod)}});
            client.post(&format!("{PODS}/{}/eviction", name(pod)), &eviction).await.unwrap()
        })
    });
    let mut answers = Vec::new();
    for eviction in evictions.collect::<Vec<_>>() {
        answers.push(eviction.await.unwrap());
    }
    let granted = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!((granted, refused), (1, EVICTIONS - 1), "granted and refused");
    let refusal = answers.iter().find(|answer| answer.status == 429).unwrap().json().unwrap();
    assert_eq!(refusal["details"]["causes"][0]["reason"], "DisruptionBudget");
    for client in &clients {
        assert_eq!(left(client).await, EVICTIONS - 1);
    }
    // The loop counts the pod that goes, and nothing else.
    until_counted(&clients[1], (0, all - 1)).await;
    run_pod(&clients[2], EVICTIONS).await;
    until_counted(&clients[2], (1, all)).await;
}
