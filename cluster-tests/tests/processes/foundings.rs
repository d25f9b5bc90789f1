//! Disks that come back without their member's promises, and removals of members: real processes, real disks.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, make_namespace};

/// Timeout of a step: far longer than an election and a round of enrolment.
const STEP_MAX: Duration = Duration::from_secs(30);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `orch cluster` until it is refused for `reason`.
async fn refused_for(cluster: &Cluster, through: usize, arguments: &[&str], reason: &str) {
    let deadline = Instant::now() + STEP_MAX;
    loop {
        let answer = match cluster.operate(through, arguments) {
            Ok(shown) => panic!("{arguments:?} is not refused: {shown}"),
            Err(error) => format!("{error:#}"),
        };
        if answer.contains(reason) {
            return;
        }
        assert!(Instant::now() < deadline, "{arguments:?} is refused for another reason: {answer}");
        sleep(PAUSE).await;
    }
}

/// Waits until member `node` listens.
async fn wait_listening(cluster: &Cluster, node: usize) {
    let deadline = Instant::now() + STEP_MAX;
    while cluster.client(node).is_err() {
        assert!(Instant::now() < deadline, "{} does not listen", cluster.name(node));
        sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_alone_that_was_emptied_serves_nothing_beside_the_cluster_it_grew_into() {
    let mut cluster = Cluster::start(Options { spares: 2, ..Options::nodes(1) }).await.unwrap();
    for _ in 0..2 {
        let new = cluster.add().await.unwrap();
        cluster.wait_ready(new).await.unwrap();
        let name = cluster.name(new).to_owned();
        cluster.operate_until_done(0, &["promote", &name], STEP_MAX).await.unwrap();
    }
    make_namespace(&cluster.client(0).unwrap()).await.unwrap();
    cluster.kill(0).unwrap();
    cluster.empty_disk(0).unwrap();
    cluster.respawn(0).unwrap();
    cluster.leader_other_than(0).await.unwrap();
    wait_listening(&cluster, 0).await;
    // Its flags name no founder but itself. It founds no cluster, not even on an operator's request.
    refused_for(&cluster, 0, &["found"], "of a running cluster speaks to this one").await;
    let emptied = cluster.client(0).unwrap();
    assert_eq!(emptied.get(COLLECTION).await.unwrap().status, 503);
    assert_eq!(emptied.get("/readyz").await.unwrap().status, 500);
    let made = cluster.client(1).unwrap().post(COLLECTION, &config_map("after", "x")).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied_founders_found_nothing_anew_and_stop_when_they_meet_the_third() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    for node in 0..3 {
        cluster.kill(node).unwrap();
    }
    for emptied in [0, 2] {
        cluster.empty_disk(emptied).unwrap();
        cluster.respawn(emptied).unwrap();
    }
    for emptied in [0, 2] {
        wait_listening(&cluster, emptied).await;
        refused_for(&cluster, emptied, &["found"], "does not answer").await;
    }
    cluster.respawn(1).unwrap();
    for emptied in [0, 2] {
        let ending = cluster.wait_end(emptied, STEP_MAX).await.unwrap();
        assert_eq!(ending.code, Some(1));
        assert!(ending.log.contains("has lost its data"), "{}", ending.log);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_a_data_directory_is_refused() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let member = (leader + 1) % 3;
    cluster.kill(member).unwrap();
    let copies = tempfile::tempdir().unwrap();
    copy(&cluster.data(member), &copies.path().join("copy"));
    cluster.respawn(member).unwrap();
    cluster.wait_ready(member).await.unwrap();
    cluster.kill(member).unwrap();
    cluster.empty_disk(member).unwrap();
    copy(&copies.path().join("copy"), &cluster.data(member));
    cluster.respawn(member).unwrap();
    let ending = cluster.wait_end(member, STEP_MAX).await.unwrap();
    assert_eq!(ending.code, Some(1));
    assert!(ending.log.contains("has an older copy of its data"), "{}", ending.log);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_member_is_not_removed_while_another_is_down_and_stops_once_it_is() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let (down, healthy) = ((leader + 1) % 3, (leader + 2) % 3);
    make_namespace(&cluster.client(leader).unwrap()).await.unwrap();
    cluster.kill(down).unwrap();
    sleep_until_silent().await;
    let name = cluster.name(healthy).to_owned();
    let silent = format!("{} is silent", cluster.name(down));
    refused_for(&cluster, leader, &["remove", &name], &silent).await;
    let client = cluster.client(leader).unwrap();
    let made = client.post(COLLECTION, &config_map("between", "x")).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    cluster.respawn(down).unwrap();
    cluster.wait_ready(down).await.unwrap();
    cluster.operate_until_done(leader, &["remove", &name], STEP_MAX).await.unwrap();
    let ending = cluster.wait_end(healthy, STEP_MAX).await.unwrap();
    assert_eq!(ending.code, Some(1));
    assert!(ending.log.contains("was removed from the cluster"), "{}", ending.log);
    // Neither its flags, which name founders, nor its good certificate and its complete disk let it join again.
    cluster.respawn(healthy).unwrap();
    let ending = cluster.wait_end(healthy, STEP_MAX).await.unwrap();
    assert!(ending.log.contains("was removed from the cluster"), "{}", ending.log);
    let made = client.post(COLLECTION, &config_map("after", "x")).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
}

/// Waits until the leader must count a killed member as down: only time makes it so, and no status shows it.
async fn sleep_until_silent() {
    sleep(Duration::from_secs(1)).await;
}
