//! Disks that run full: growth is refused before they are, deletions make room, and no acknowledged write is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use orch_cluster_tests::client::{Client, Response};
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

use crate::objects::{COLLECTION, config_map, list, make_namespace};

/// Disk quota of each store, and the reserve in it: the write-ahead log may take 32 MiB, and a compaction 100 MiB.
const QUOTA: &str = "--disk-quota=320Mi";
const RESERVE: &str = "--disk-reserve=128Mi";
const RESERVE_BYTES: u64 = 128 << 20;

/// Bytes of one object's value.
const VALUE_BYTES: usize = 200_000;

/// More objects of that size than fit: 400 MB.
const OBJECTS_MAX: usize = 2000;

/// Timeout until space is free again: history leaves the disk after ten seconds, then the disk is compacted.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A disk that was full for this long stays full: its files were compacted meanwhile.
const STEADY: Duration = Duration::from_secs(4);

/// A random value that cannot be compressed.
fn noise(seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..VALUE_BYTES).map(letter).collect()
}

async fn create(client: &Client, i: usize) -> Response {
    client.post(COLLECTION, &config_map(&format!("fill-{i}"), &noise(i as u64))).await.unwrap()
}

async fn space(client: &Client) -> Value {
    client.get("/orch/v1/cluster").await.unwrap().json().unwrap()["space"].clone()
}

fn refused(response: &Response) {
    let status = response.json().unwrap();
    assert_eq!((response.status, &status["reason"]), (507, &json!("InsufficientStorage")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("little space is left on the disks of members: "), "{message}");
    assert!(message.contains("(--disk-reserve); objects can be deleted"), "{message}");
    assert!(!response.headers.contains_key("retry-after"), "waiting does not help");
}

/// Creates objects from number `from` on until no member accepts one for `STEADY`; returns the number of the first
/// refused object. An earlier refusal may be temporary: purged history and log entries make room.
async fn fill(clients: &[Client], from: usize) -> usize {
    let mut i = from;
    let mut full_since = None;
    while i < OBJECTS_MAX {
        let created = create(&clients[i % clients.len()], i).await;
        if created.status == 201 {
            (i, full_since) = (i + 1, None);
        } else {
            refused(&created);
            if full_since.get_or_insert_with(Instant::now).elapsed() > STEADY {
                return i;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        for client in clients.iter().filter(|_| i.is_multiple_of(20)) {
            let space = space(client).await;
            assert!(space["room"].as_u64().is_some_and(|room| room > RESERVE_BYTES / 4), "{space}");
        }
    }
    panic!("{OBJECTS_MAX} objects fit into {QUOTA}");
}

/// Creates objects through `client` until it refuses: a compaction may have made room for more meanwhile. Returns the
/// number of the first refused object.
async fn fill_by(client: &Client, from: usize) -> usize {
    for i in from..OBJECTS_MAX {
        let created = create(client, i).await;
        if created.status != 201 {
            refused(&created);
            return i;
        }
    }
    panic!("{OBJECTS_MAX} objects fit into {QUOTA}");
}

/// Rewrites the object at `path` with new values until the growth of its history is refused.
async fn rewrite_by(client: &Client, path: &str) {
    for seed in OBJECTS_MAX..2 * OBJECTS_MAX {
        let written =
            client.merge_patch(path, &json!({"data": {"value": noise(seed as u64)}})).await.unwrap();
        if written.status != 200 {
            return refused(&written);
        }
    }
    panic!("{OBJECTS_MAX} versions of an object fit into {QUOTA}");
}

/// Waits until `holds` accepts the space status of every member.
async fn wait_for(clients: &[Client], what: &str, holds: impl Fn(&Value) -> bool) {
    let looked = async {
        for client in clients {
            while !holds(&space(client).await) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, looked).await.is_err() {
        for client in clients {
            eprintln!("{}", space(client).await);
        }
        panic!("never comes: {what}");
    }
}

async fn names(client: &Client) -> BTreeSet<String> {
    list(client, "").await.unwrap().0.into_keys().filter(|name| name.starts_with("fill-")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_runs_full_refuses_growth_and_stops_nobody_from_deleting() {
    let flags = vec![QUOTA.into(), RESERVE.into()];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&clients[0]).await.unwrap();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]}, "data": {}});
    clients[0].post(COLLECTION, &held).await.unwrap().success().unwrap();
    let mut count = fill(&clients, 0).await;
    assert!(count > 50, "only {count} objects of 200 kB fitted into 320 MiB");
    wait_for(&clients, "some member is short", |space| !space["short"].as_array().unwrap().is_empty()).await;
    let mut removed = BTreeSet::new();

    for (node, client) in clients.iter().enumerate() {
        count = fill_by(client, count).await;
        let ready = client.get("/readyz?verbose").await.unwrap();
        let report = String::from_utf8_lossy(&ready.body).into_owned();
        assert!(ready.status == 200 && report.contains("[+]space low: "), "{report}");
        let path = format!("{COLLECTION}/fill-{}", node + 10);
        rewrite_by(client, &path).await;
        let shorter = json!({"data": {"value": noise(9999)[..50_000]}});
        client.merge_patch(&path, &shorter).await.unwrap().success().unwrap();
        client.delete(&format!("{COLLECTION}/fill-{}", node + 1)).await.unwrap().success().unwrap();
        removed.insert(format!("fill-{}", node + 1));
    }
    let mut kept: BTreeSet<String> =
        (0..count).map(|i| format!("fill-{i}")).filter(|name| !removed.contains(name)).collect();

    // Deletion has two phases: the deletion timestamp adds to the object, the removal of its finalizers takes away.
    let marked = clients[1].delete(&format!("{COLLECTION}/held")).await.unwrap().success().unwrap();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let freed = json!({"metadata": {"finalizers": null}});
    clients[2].merge_patch(&format!("{COLLECTION}/held"), &freed).await.unwrap().success().unwrap();

    // A restarted member is as short of space as before, and has lost nothing.
    let victim = (cluster.leader().await.unwrap() + 1) % 3;
    cluster.kill(victim).unwrap();
    cluster.respawn(victim).unwrap();
    cluster.wait_ready(victim).await.unwrap();
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    assert_eq!(names(&clients[victim]).await, kept);

    for i in 4..count - 10 {
        let path = format!("{COLLECTION}/fill-{i}");
        clients[i % 3].delete(&path).await.unwrap().success().unwrap();
        kept.remove(&format!("fill-{i}"));
    }
    // Growth is accepted again before all the space of deleted objects is free.
    wait_for(&clients, "space is given back", |space| space["pressure"] == "none").await;
    let again = fill(&clients, count).await;
    assert!(again - count > 50, "only {} objects fitted again", again - count);
    kept.extend((count..again).map(|i| format!("fill-{i}")));
    for client in &clients {
        assert_eq!(names(client).await, kept);
    }
}
