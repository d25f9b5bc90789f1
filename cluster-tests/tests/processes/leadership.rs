//! Changes of the leader: the members that reach each other agree on one, and an old leader comes back as a follower.

use std::fs;
use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::Value;

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

/// Longest time of a step of an operator.
const STEP_MAX: Duration = Duration::from_secs(20);

/// The administrator's configuration, with the addresses of all members.
fn configuration(cluster: &Cluster) -> Value {
    let made = fs::read_to_string(cluster.certificates().join("admin.conf")).unwrap();
    let mut config: Value = serde_json::from_str(&made).unwrap();
    let entries = config["clusters"].as_array_mut().unwrap();
    for (entry, (endpoint, _)) in entries.iter_mut().zip(cluster.doors()) {
        entry["cluster"]["server"] = endpoint.to_string().into();
    }
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_removes_itself_and_the_command_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("all.conf");
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    fs::write(&config, configuration(&cluster).to_string()).unwrap();
    let servers: Vec<String> = cluster.doors().iter().map(|(endpoint, _)| endpoint.authority()).collect();
    let mut members = vec![0, 1, 2];
    // From three members to one: the second removal is that of one of two voters.
    let mut leader = cluster.leader().await.unwrap();
    while members.len() > 1 {
        let name = cluster.name(leader).to_owned();
        let arguments = ["cluster", "remove", &name, "--server", &servers[leader], "--kubeconfig"];
        let removed = cluster.run(&[&arguments[..], &[config.to_str().unwrap()]].concat()).unwrap();
        let told = [removed.stdout, removed.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(removed.status.success() && told.contains(&format!("removed {name}")), "{told}");
        assert!(!told.contains("unknown") && !told.contains("does not show"), "{told}");
        let ending = cluster.wait_end(leader, STEP_MAX).await.unwrap();
        assert!(ending.code == Some(1) && ending.log.contains("was removed"), "{}", ending.log);
        members.retain(|member| *member != leader);
        let status = cluster.status(members[0]).await.unwrap();
        assert_eq!(status.members.len(), members.len(), "{status:?}");
        assert!(status.members.iter().all(|member| member.name != name), "{status:?}");
        let next = members.iter().find(|member| status.leader_name() == Some(cluster.name(**member)));
        leader = *next.expect("the removal was made by the next leader");
    }
}
