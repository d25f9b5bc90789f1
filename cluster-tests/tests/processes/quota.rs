//! A full state: growth is refused on every member alike, and deletions are always possible.

use std::time::Duration;

use orch_cluster_tests::client::{Client, Response};
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;

use crate::objects::{COLLECTION, NAMESPACE, config_map, list, make_namespace};

/// Quota of the state, small so that it fills soon; a cluster's own objects take some 200 kB of it.
const QUOTA: &str = "--state-quota=2Mi";

/// Bytes of one object's value.
const VALUE_BYTES: usize = 20_000;

/// Timeout of a namespace's deletion, and the polling interval.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// More objects of that size than fit.
const OBJECTS_MAX: usize = 200;

async fn create(client: &Client, name: &str) -> Response {
    client.post(COLLECTION, &config_map(name, &"x".repeat(VALUE_BYTES))).await.unwrap()
}

/// Creates objects until one is refused; how many there are.
async fn fill(clients: &[Client], name: &str) -> usize {
    for i in 0..OBJECTS_MAX {
        let created = create(&clients[i % clients.len()], &format!("{name}-{i}")).await;
        if created.status != 201 {
            refused(&created);
            return i;
        }
    }
    panic!("{OBJECTS_MAX} objects fit into {QUOTA}");
}

fn refused(response: &Response) {
    let status = response.json().unwrap();
    assert_eq!((response.status, &status["reason"]), (507, &json!("InsufficientStorage")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("of 2097152 bytes (--state-quota); objects can be deleted"), "{message}");
    assert!(!response.headers.contains_key("retry-after"), "waiting does not help");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_state_refuses_growth_and_stops_nobody_from_deleting() {
    let mut cluster =
        Cluster::start(Options { flags: vec![QUOTA.into()], ..Options::nodes(3) }).await.unwrap();
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    wait_limited(&clients[0]).await;
    make_namespace(&clients[0]).await.unwrap();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]}, "data": {}});
    clients[0].post(COLLECTION, &held).await.unwrap().success().unwrap();
    let count = fill(&clients, "fill").await;
    assert!(count > 50, "only {count} objects of 20 kB fitted into 2 MB");

    for client in &clients {
        refused(&create(client, "more").await);
        let grows = json!({"data": {"value": "y".repeat(2 * VALUE_BYTES)}});
        refused(&client.merge_patch(&format!("{COLLECTION}/fill-0"), &grows).await.unwrap());
        let same = json!({"data": {"value": "z".repeat(VALUE_BYTES)}});
        client.merge_patch(&format!("{COLLECTION}/fill-0"), &same).await.unwrap().success().unwrap();
        let same = json!({"data": {"value": "x".repeat(VALUE_BYTES)}});
        client.merge_patch(&format!("{COLLECTION}/fill-0"), &same).await.unwrap().success().unwrap();
    }
    // Deletion has two phases: the deletion timestamp adds to the object, the removal of its finalizers takes away.
    let marked = clients[1].delete(&format!("{COLLECTION}/held")).await.unwrap().success().unwrap();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let freed = json!({"metadata": {"finalizers": null}});
    clients[2].merge_patch(&format!("{COLLECTION}/held"), &freed).await.unwrap().success().unwrap();

    // The quota is part of the state: a restarted member enforces it, and has lost nothing.
    let victim = (cluster.leader().await.unwrap() + 1) % 3;
    cluster.kill(victim).unwrap();
    cluster.respawn(victim).unwrap();
    cluster.wait_ready(victim).await.unwrap();
    // The restarted member listens on another port.
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    let client = cluster.client(victim).unwrap();
    assert_eq!(list(&client, "").await.unwrap().0.len(), count);
    refused(&create(&client, "more").await);

    for i in 0..3 {
        client.delete(&format!("{COLLECTION}/fill-{i}")).await.unwrap().success().unwrap();
    }
    assert_eq!(create(&client, "more").await.status, 201, "there is room again");
    fill(&clients, "again").await;
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    clients[0].delete(&path).await.unwrap().success().unwrap();
    wait_gone(&clients[0], &path).await;
}

/// Waits until the leader has written its quota to the state: it checks once a second.
async fn wait_limited(client: &Client) {
    let looked = async {
        while client.get("/orch/v1/cluster").await.unwrap().json().unwrap()["state"]["quota"] != 2_097_152 {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.expect("the quota never comes into force");
}

/// Waits until `path` answers 404.
async fn wait_gone(client: &Client, path: &str) {
    let looked = async {
        while client.get(path).await.unwrap().status != 404 {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.expect("it never ends");
}
