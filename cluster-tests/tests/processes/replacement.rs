//! Replacement of a member: an emptied disk is refused under its old name, and a new member takes the place.

use std::time::{Duration, Instant};

use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::time::sleep;

use crate::load::Writers;
use crate::objects::{COLLECTION, config_map, list, make_namespace};

/// Timeout of a step of an operator.
const STEP_MAX: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_disk_is_refused_and_a_new_member_takes_its_place() {
    let mut cluster = Cluster::start(Options { spares: 1, ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let victim = (leader + 1) % 3;
    let lost = cluster.name(victim).to_owned();
    let client = cluster.client(leader).unwrap();
    make_namespace(&client).await.unwrap();
    let writers = Writers::start(8, std::slice::from_ref(&client));
    wait_for_writes(&writers, 100).await;

    cluster.kill(victim).unwrap();
    cluster.empty_disk(victim).unwrap();
    cluster.respawn(victim).unwrap();
    let ending = cluster.wait_end(victim, STEP_MAX).await.unwrap();
    assert_eq!(ending.code, Some(1), "{}", ending.log);
    assert!(ending.log.contains(&format!("member {lost} has lost its data")), "{}", ending.log);

    cluster.operate_until_done(leader, &["remove", &lost], STEP_MAX).await.unwrap();
    let new = cluster.add().await.unwrap();
    cluster.wait_ready(new).await.unwrap();
    let name = cluster.name(new).to_owned();
    cluster.operate_until_done(leader, &["promote", &name], STEP_MAX).await.unwrap();
    wait_for_writes(&writers, writers.count() + 100).await;
    let acknowledged = writers.stop().await;

    let shown = cluster.status(new).await.unwrap();
    let members: Vec<_> = shown.members.iter().map(|member| (&*member.name, &*member.role)).collect();
    assert!(members.contains(&(&*name, "voter")) && members.len() == 3, "{members:?}");
    assert!(!members.iter().any(|(name, _)| *name == lost), "{members:?}");
    // The new member's vote counts: with one more of three voters down, the remaining two take writes.
    let third = (leader + 2) % 3;
    cluster.kill(third).unwrap();
    let client = cluster.client(new).unwrap();
    let made = client.post(COLLECTION, &config_map("after", "x")).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let (objects, _) = list(&client, "").await.unwrap();
    for write in &acknowledged {
        assert!(objects.contains_key(&write.name), "the acknowledged {} is lost", write.name);
    }
}

async fn wait_for_writes(writers: &Writers, count: usize) {
    let deadline = Instant::now() + STEP_MAX;
    while writers.count() < count {
        assert!(Instant::now() < deadline, "{} writes, {count} wanted", writers.count());
        sleep(Duration::from_millis(5)).await;
    }
}
