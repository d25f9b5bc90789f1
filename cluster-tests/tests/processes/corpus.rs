//! Replays what public projects define against a server, and compares the result with the floor, which never falls.
//! `cluster-tests/corpus/README.md` tells where the recordings come from.

use std::path::{Path, PathBuf};

use orch_cluster_tests::cluster::{Cluster, Options};
use orch_cluster_tests::vectors::{Floor, Selection, Users, load, recorded, replay};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_the_field_match_as_often_as_ever() {
    let options = Options { brand: "kubernetes", ..recorded(1, &[]) };
    let cluster = Cluster::start(options).await.unwrap();
    let scenarios = load(&folder(), &Selection::default()).unwrap();
    let outcome = replay(&scenarios, &Users::of(&cluster, 0).unwrap()).await.unwrap();
    eprintln!("{}", outcome.table());
    let floor = Floor::read(&folder()).unwrap();
    if std::env::var_os("UPDATE_FLOOR").is_some() {
        outcome.differences.values().for_each(|told| eprintln!("{told}"));
        floor.raised(&outcome).write(&folder()).unwrap();
    }
    floor.hold(&outcome);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}
