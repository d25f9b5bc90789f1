//! All members are killed at once and restarted: acknowledged writes were on a quorum's disks.

use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::time::sleep;

use crate::load::Writers;
use crate::objects::{COLLECTION, config_map, list, make_namespace};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_all_members_die_at_once() {
    check(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_only_member_dies() {
    check(1).await;
}

async fn check(nodes: usize) {
    let mut cluster = Cluster::start(Options::nodes(nodes)).await.unwrap();
    let clients: Vec<_> = (0..nodes).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&clients[0]).await.unwrap();
    let writers = Writers::start(32, &clients);
    while writers.count() < 300 {
        sleep(Duration::from_millis(5)).await;
    }
    for node in 0..nodes {
        cluster.kill(node).unwrap();
    }
    let acknowledged = writers.stop().await;
    for node in 0..nodes {
        cluster.respawn(node).unwrap();
    }
    for node in 0..nodes {
        cluster.wait_ready(node).await.unwrap();
    }
    let (before, _) = list(&cluster.client(0).unwrap(), "").await.unwrap();
    for write in &acknowledged {
        assert!(before.contains_key(&write.name), "the acknowledged {} is lost", write.name);
    }
    for node in 0..nodes {
        let client = cluster.client(node).unwrap();
        let (objects, _) = list(&client, "").await.unwrap();
        assert_eq!(objects, before, "members differ after the restart");
        let made = client.post(COLLECTION, &config_map(&format!("after{node}"), "x")).await.unwrap();
        assert_eq!(made.status, 201, "the restarted cluster takes no writes: {made:?}");
        client.delete(&format!("{COLLECTION}/after{node}")).await.unwrap().success().unwrap();
    }
}
