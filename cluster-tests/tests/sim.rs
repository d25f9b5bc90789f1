//! Simulated clusters under faults, a slice of the seeds for each test so that they run side by side.
//!
//! A failure prints its seed, the last events and the command that replays it.

use std::time::Duration;

use orch_cluster_tests::sim::run::run;
use orch_cluster_tests::sim::setup::Setup;

/// Shorter than a search's runs, so that two hundred of them are done before anybody goes for a coffee.
const LENGTH: Duration = Duration::from_secs(5);

fn setup(seed: u64, members: u64) -> Setup {
    Setup { length: LENGTH, ..Setup::new(seed, members) }
}

#[track_caller]
fn check(seeds: std::ops::Range<u64>, members: u64) {
    for seed in seeds {
        eprintln!("seed {seed}, {members} members");
        let report = run(setup(seed, members));
        assert!(report.failure.is_none(), "{report}");
    }
}

#[test]
fn three_members_keep_their_promises_under_faults_a() {
    check(0..40, 3);
}

#[test]
fn three_members_keep_their_promises_under_faults_b() {
    check(40..80, 3);
}

#[test]
fn three_members_keep_their_promises_under_faults_c() {
    check(80..120, 3);
}

#[test]
fn five_members_keep_their_promises_under_faults_a() {
    check(1000..1030, 5);
}

#[test]
fn five_members_keep_their_promises_under_faults_b() {
    check(1030..1060, 5);
}

#[test]
fn five_members_keep_their_promises_under_faults_c() {
    check(1060..1080, 5);
}

#[test]
fn a_seed_replays_exactly() {
    for (seed, members) in [(7, 3), (8, 5), (9, 3)] {
        let (first, second) = (run(setup(seed, members)), run(setup(seed, members)));
        assert_eq!(first.trace_hash, second.trace_hash, "{first}\n{second}");
        assert_eq!(first.ledger_hash, second.ledger_hash);
        assert_eq!(first.calls, second.calls);
    }
    let (one, other) = (run(setup(7, 3)), run(setup(8, 3)));
    assert_ne!(one.trace_hash, other.trace_hash, "seeds differ");
}
