//! Changes of the leader: the members that reach each other agree on one, and an old leader comes back as a follower.

use orch_cluster_tests::cluster::{Cluster, Options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_is_replaced_and_follows_once_continued() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let old = cluster.leader().await.unwrap();
    let term = cluster.status(old).await.unwrap().term;
    cluster.pause(old).unwrap();
    let new = cluster.leader_other_than(old).await.unwrap();
    assert_ne!(old, new);
    cluster.resume(old).unwrap();
    let applied = cluster.status(new).await.unwrap().applied;
    cluster.wait_applied(old, applied).await.unwrap();
    cluster.wait_later_term(old, term).await.unwrap();
    assert_eq!(cluster.leader().await.unwrap(), new, "the return of a member costs no election");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_and_follows_once_started_again() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let old = cluster.leader().await.unwrap();
    cluster.kill(old).unwrap();
    let new = cluster.leader_other_than(old).await.unwrap();
    cluster.respawn(old).unwrap();
    cluster.wait_ready(old).await.unwrap();
    let applied = cluster.status(new).await.unwrap().applied;
    cluster.wait_applied(old, applied).await.unwrap();
    assert_eq!(cluster.leader().await.unwrap(), new, "the return of a member costs no election");
}
