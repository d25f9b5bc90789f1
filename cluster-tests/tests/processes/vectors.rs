//! Replays every recorded scenario against a server and compares the result with the floor, which never falls.

use orch_cluster_tests::cluster::{Cluster, Options};
use orch_cluster_tests::vectors::{Floor, Outcome, Selection, Users, folder, load, replay};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_as_ever() {
    let cluster = Cluster::start(recorded(1)).await.unwrap();
    let outcome = replay_through(&cluster, 0).await;
    let floor = Floor::read().unwrap();
    if std::env::var_os("UPDATE_FLOOR").is_some() {
        floor.raised(&outcome).write().unwrap();
    }
    hold(&floor, &outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_the_leader_of_three() {
    replay_through_member_of_three(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_a_follower_of_three() {
    replay_through_member_of_three(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_the_other_follower_of_three() {
    replay_through_member_of_three(2).await;
}

/// Replays everything against a new cluster of three, through the member `after_leader` places after its leader.
async fn replay_through_member_of_three(after_leader: usize) {
    let cluster = Cluster::start(recorded(3)).await.unwrap();
    let member = (cluster.leader().await.unwrap() + after_leader) % 3;
    let outcome = replay_through(&cluster, member).await;
    hold(&Floor::read().unwrap(), &outcome);
}

/// A cluster without the loops that did not run where the scenarios were recorded.
fn recorded(nodes: usize) -> Options {
    let flags = vec!["--controllers=*,-clusterrole-aggregation-controller".to_owned()];
    Options { flags, ..Options::nodes(nodes) }
}

async fn replay_through(cluster: &Cluster, node: usize) -> Outcome {
    let scenarios = load(&folder(), &Selection::default()).unwrap();
    let outcome = replay(&scenarios, &Users::of(cluster, node).unwrap()).await.unwrap();
    eprintln!("{}", outcome.table());
    outcome
}

fn hold(floor: &Floor, outcome: &Outcome) {
    let lost = floor.lost(outcome);
    for (area, matched, floor) in &lost {
        let differences = outcome.differences.get(area).map_or("", String::as_str);
        eprintln!("{differences}\n{area}: {matched} steps match, {floor} did before");
    }
    assert!(lost.is_empty(), "areas match less than before: {lost:?}");
}
