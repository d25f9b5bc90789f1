//! Replays every recorded scenario against a server and compares the result with the floor, which never falls.

use orch_cluster_tests::cluster::Cluster;
use orch_cluster_tests::vectors::{Floor, Outcome, Selection, Users, folder, load, recorded, replay};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_as_ever() {
    let outcome = replay_through(1, 0).await;
    let floor = Floor::read(&folder()).unwrap();
    if std::env::var_os("UPDATE_FLOOR").is_some() {
        floor.raised(&outcome).write(&folder()).unwrap();
    }
    floor.hold(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_the_leader_of_three() {
    Floor::read(&folder()).unwrap().hold(&replay_through(3, 0).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_a_follower_of_three() {
    Floor::read(&folder()).unwrap().hold(&replay_through(3, 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_through_the_other_follower_of_three() {
    Floor::read(&folder()).unwrap().hold(&replay_through(3, 2).await);
}

/// Replays everything against new clusters of `nodes` members, through the member `after_leader` places after the leader.
/// Scenarios that need more than a server's defaults have a cluster of their own.
async fn replay_through(nodes: usize, after_leader: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for needs in [&[][..], &["serviceaccounts", "controllers"]] {
        let needs: Vec<_> = needs.iter().map(|&needed| needed.to_owned()).collect();
        let cluster = Cluster::start(recorded(nodes, &needs)).await.unwrap();
        let member = (cluster.leader().await.unwrap() + after_leader) % nodes;
        let selection = Selection { needs, ..Selection::default() };
        let scenarios = load(&folder(), &selection).unwrap();
        outcome.add(replay(&scenarios, &Users::of(&cluster, member).unwrap()).await.unwrap());
    }
    eprintln!("{}", outcome.table());
    outcome
}
