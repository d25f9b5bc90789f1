//! Definitions that mirror built-in kinds answer as those do to their recorded steps.

use orch_cluster_tests::cluster::Cluster;
use orch_cluster_tests::vectors::{Users, mirror, recorded};

/// Steps that match at least: fewer mean that steps were lost, not that they were answered otherwise.
const MATCHED_MIN: usize = 190;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_mirrors_a_built_in_kind_answers_as_that_kind_does() {
    let cluster = Cluster::start(recorded(1, &[])).await.unwrap();
    let users = Users::of(&cluster, 0).unwrap();
    mirror::define(&users.admin).await.unwrap();
    let outcome = mirror::replay_mirrored(&users).await.unwrap();
    eprintln!("{} steps match, {} are excused", outcome.matched, outcome.excused);
    assert!(outcome.faults.is_empty(), "{}", outcome.faults.join("\n"));
    assert!(outcome.matched >= MATCHED_MIN, "{} steps match", outcome.matched);
}
