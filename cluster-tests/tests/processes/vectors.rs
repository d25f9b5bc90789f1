//! Replays every recorded scenario against a server and holds the result against the floor, which never falls.

use orch_cluster_tests::cluster::{Cluster, Options};
use orch_cluster_tests::vectors::{Floor, Selection, Users, folder, load, replay};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_scenarios_match_as_often_as_ever() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let users = Users::of(&cluster, 0).unwrap();
    let scenarios = load(&folder(), &Selection::default()).unwrap();
    let outcome = replay(&scenarios, &users).await.unwrap();
    eprintln!("{}", outcome.table());
    let floor = Floor::read().unwrap();
    if std::env::var_os("UPDATE_FLOOR").is_some() {
        floor.raised(&outcome).write().unwrap();
    }
    let lost = floor.lost(&outcome);
    for (area, matched, floor) in &lost {
        let differences = outcome.differences.get(area).map_or("", String::as_str);
        eprintln!("{differences}\n{area}: {matched} steps match, {floor} did before");
    }
    assert!(lost.is_empty(), "areas match less than before: {lost:?}");
}
