//! A leader that was paused and resumed believes that it still leads. It must not answer a quorum read without asking a
//! quorum.

use std::time::Duration;

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, make_namespace};

/// Number of times that the current leader is paused.
const ROUNDS: u32 = 3;

/// Reads that wait inside the paused process, each on a connection of its own that was open before.
const READS: usize = 16;

/// Time until the requests have reached the socket buffers of the paused process.
const SENDING: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continued_leader_never_answers_a_quorum_read_with_old_data() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    client.post(COLLECTION, &config_map("register", "0")).await.unwrap().success().unwrap();
    let mut answered = 0;
    for round in 1..=ROUNDS {
        answered += one_round(&mut cluster, &round.to_string()).await;
    }
    assert!(answered > 0, "no read that waited in a stopped leader was ever answered: nothing was shown");
}

/// Pauses the leader, changes the register to `value` elsewhere, and reads it through the old leader. Returns the
/// number of waiting reads that were answered with the value.
async fn one_round(cluster: &mut Cluster, value: &str) -> usize {
    let leader = cluster.leader().await.unwrap();
    let old = cluster.client(leader).unwrap().with_timeout(Duration::from_secs(15));
    open_connections(&old).await;
    cluster.pause(leader).unwrap();
    write_elsewhere(cluster, leader, value).await;
    // The reads are sent after the acknowledgement: a read sent before it may return either value.
    let mut waiting = JoinSet::new();
    for _ in 0..READS {
        let old = old.clone();
        waiting.spawn(async move { read(&old).await });
    }
    sleep(SENDING).await;
    cluster.resume(leader).unwrap();
    let mut answered = 0;
    while let Some(read) = waiting.join_next().await {
        if let Some(read) = read.unwrap() {
            assert_eq!(read, value, "a quorum read through the continued leader is old");
            answered += 1;
        }
    }
    for _ in 0..READS {
        if let Some(read) = read(&old).await {
            assert_eq!(read, value, "a quorum read after the continuation is old");
        }
    }
    answered
}

/// Opens as many connections as there will be reads, so that none has to be opened while the server is paused.
async fn open_connections(client: &Client) {
    let mut opening = JoinSet::new();
    for _ in 0..READS {
        let client = client.clone();
        opening.spawn(async move { read(&client).await });
    }
    while let Some(read) = opening.join_next().await {
        assert!(read.unwrap().is_some(), "a healthy leader does not answer");
    }
}

/// The register by a quorum read; `None` if the server does not answer or refuses.
async fn read(client: &Client) -> Option<String> {
    let answer = client.get(&format!("{COLLECTION}/register")).await.ok()?;
    if answer.status >= 429 {
        return None;
    }
    let object = answer.success().unwrap();
    Some(object["data"]["value"].as_str().unwrap().to_owned())
}

/// Changes the register through the other members, as soon as they have a leader of their own.
async fn write_elsewhere(cluster: &Cluster, stopped: usize, value: &str) {
    let patch = json!({"data": {"value": value}});
    for attempt in 0..200 {
        let node = (stopped + 1 + attempt % 2) % 3;
        let client = cluster.client(node).unwrap().with_timeout(Duration::from_secs(2));
        let answer = client.merge_patch(&format!("{COLLECTION}/register"), &patch).await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("the members that run take no write while the old leader is stopped");
}
