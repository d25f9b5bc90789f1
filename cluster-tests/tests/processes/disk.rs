//! Damaged and full disks: a member serves no damaged data, and a full disk loses no acknowledged write.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options};

use crate::load::Writers;
use crate::objects::{COLLECTION, config_map, list, make_namespace};

/// Time within which a member must end by itself.
const END_MAX: Duration = Duration::from_secs(20);

/// Marker searched for on the disk: no compression makes it shorter.
const CANARY: &str = "q7Zk3vXw9LmB2nRt";

/// File size limit of a member with little space: the write-ahead log reaches it after some hundred writes.
const CRAMPED_KB: u64 = 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_the_log_refuses_to_start_and_the_others_go_on() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let victim = (leader + 1) % 3;
    let client = cluster.client(leader).unwrap();
    make_namespace(&client).await.unwrap();
    let made = client.post(COLLECTION, &config_map("kept", CANARY)).await.unwrap().success().unwrap();
    write_some(&cluster, leader, 20).await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    cluster.wait_applied(victim, version).await.unwrap();
    cluster.kill(victim).unwrap();
    flip_bit(&cluster.data(victim), "log");
    cluster.respawn(victim).unwrap();
    refuses(&mut cluster, victim).await;
    write_some(&cluster, leader, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_a_table_refuses_to_start() {
    let mut cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    client.post(COLLECTION, &config_map("kept", CANARY)).await.unwrap().success().unwrap();
    // Opening the disk writes the replayed log into tables.
    cluster.kill(0).unwrap();
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    cluster.kill(0).unwrap();
    flip_bit(&cluster.data(0), "sst");
    cluster.respawn(0).unwrap();
    refuses(&mut cluster, 0).await;
}

/// The member ends with code 1, and its last line of log tells the damage and its place.
async fn refuses(cluster: &mut Cluster, victim: usize) {
    let ending = cluster.wait_end(victim, END_MAX).await.unwrap();
    let said = ending.log.lines().last().unwrap_or_default();
    assert_eq!(ending.code, Some(1), "{}", ending.log);
    assert!(said.starts_with("error: data directory "), "{}", ending.log);
    assert!(!ending.log.contains("panicked") && !ending.log.contains(CANARY), "{}", ending.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_the_member_and_loses_nothing_acknowledged() {
    let mut cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    make_namespace(&cluster.client(0).unwrap()).await.unwrap();
    cluster.kill(0).unwrap();
    cluster.respawn_cramped(0, CRAMPED_KB).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let writers = Writers::start(16, &[cluster.client(0).unwrap()]);
    let ending = cluster.wait_end(0, END_MAX).await;
    let acknowledged = writers.stop().await;
    let ending = ending.unwrap();
    assert_eq!(ending.code, Some(1), "{}", ending.log);
    assert!(ending.log.contains("the store stopped: "), "{}", ending.log);
    assert!(ending.log.contains("File too large"), "{}", ending.log);
    assert!(acknowledged.len() > 100, "only {} writes fitted: no load", acknowledged.len());

    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let (objects, _) = list(&cluster.client(0).unwrap(), "").await.unwrap();
    for write in &acknowledged {
        assert!(objects.contains_key(&write.name), "the acknowledged {} is lost", write.name);
    }
    write_some(&cluster, 0, 5).await;
}

/// Creates `count` objects, one after the other.
async fn write_some(cluster: &Cluster, node: usize, count: usize) {
    let client = cluster.client(node).unwrap();
    for _ in 0..count {
        let mut object = config_map("", "x");
        object["metadata"] = serde_json::json!({"generateName": "some-"});
        client.post(COLLECTION, &object).await.unwrap().success().unwrap();
    }
}

/// Flips one bit of the canary in the newest store file that ends in `extension` and contains it.
fn flip_bit(data: &Path, extension: &str) {
    let mut files = Vec::new();
    collect(data, &mut files);
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    for path in files {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(CANARY.len()).position(|window| window == CANARY.as_bytes()) {
            bytes[at] ^= 1;
            return fs::write(&path, bytes).unwrap();
        }
    }
    panic!("the canary is in no .{extension} file of {}", data.display());
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
