//! A member whose stored state was changed with valid checksums: detected, reported, and repaired.

use std::time::Duration;

use bytes::Bytes;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use orch_proto::store::StoredObject;
use serde_json::Value;

use crate::objects::{COLLECTION, NAMESPACE, config_map, make_namespace};
use crate::stored::kill_and_change;

/// The object's value, and the value on the damaged member.
const TRUTH: &[u8] = b"the-truth";
const LIE: &[u8] = b"the-falsehood-of-a-member";

/// Timeout until history has left memory, and until a member is repaired.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Kills member `node`, changes its stored object `name` as a memory error would, and starts it again.
async fn damage(cluster: &mut Cluster, node: usize, name: &str) {
    let lie = |object: &mut StoredObject| {
        let at = object.json.windows(TRUTH.len()).position(|window| window == TRUTH).unwrap();
        object.json = Bytes::from([&object.json[..at], LIE, &object.json[at + TRUTH.len()..]].concat());
    };
    kill_and_change(cluster, node, &format!("{NAMESPACE}/{name}"), lie).await;
    cluster.respawn(node).unwrap();
}

async fn agreement(client: &Client) -> Option<Value> {
    Some(client.get("/orch/v1/cluster").await.ok()?.json().ok()?["agreement"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_state_was_changed_is_found_reported_and_repaired() {
    let flags = vec!["--watch-history=1s".into()];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let client = cluster.client(leader).unwrap();
    make_namespace(&client).await.unwrap();
    let truth = std::str::from_utf8(TRUTH).unwrap();
    client.post(COLLECTION, &config_map("kept", truth)).await.unwrap().success().unwrap();
    let victim = (leader + 1) % 3;
    damage(&mut cluster, victim, "kept").await;

    let looked = async {
        loop {
            // The member listens on another port after a start, and only once its state is loaded.
            let told = match cluster.client(victim) {
                Ok(client) => agreement(&client).await,
                Err(_) => None,
            };
            match told {
                Some(told) if told["repairs"] == 1 && told["quarantine"].is_null() => return told,
                _ => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, looked).await.expect("it is never repaired");
    assert_eq!(told["divergences"], 1, "{told}");
    let log = cluster.log(victim).unwrap();
    assert!(log.contains("this member's state differs from the majority's"), "{log}");
    assert!(log.contains("this member agrees with a majority and serves again"), "{log}");
    cluster.wait_ready(victim).await.unwrap();
    let repaired = cluster.client(victim).unwrap();
    let object = repaired.get(&format!("{COLLECTION}/kept?resourceVersion=0")).await.unwrap();
    assert_eq!(object.success().unwrap()["data"]["value"], truth);

    // The disk is repaired, too: another start detects nothing.
    cluster.kill(victim).unwrap();
    cluster.respawn(victim).unwrap();
    cluster.wait_ready(victim).await.unwrap();
    let repaired = cluster.client(victim).unwrap();
    let agreed = async {
        loop {
            match agreement(&repaired).await {
                Some(told) if told["agreed"].as_u64().is_some_and(|at| at > 0) => return told,
                _ => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, agreed).await.expect("it never compares");
    assert_eq!((&told["divergences"], &told["quarantine"]), (&Value::from(0), &Value::Null), "{told}");
}
