//! Simulated clusters under faults: 150 fixed seeds, and 150 fresh ones.
//!
//! Each test runs a slice of the seeds, concurrently with the others. The fresh seeds begin with the time of day, which
//! is printed first; set `ORCH_SIM_FROM` to begin elsewhere. A failure prints its seed, the last events and the command
//! that replays it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orch_cluster_tests::sim::run::run;
use orch_cluster_tests::sim::setup::Setup;

/// Virtual length of a run: shorter than a search's, so that three hundred of them take minutes.
const LENGTH: Duration = Duration::from_secs(4);

/// Fresh seeds of one slice.
const FRESH: u64 = 25;

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

/// Runs seeds that begin with the time: another thousand each second, and none in two slices.
#[track_caller]
fn check_fresh(slice: u64, members: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs();
    let asked = std::env::var("ORCH_SIM_FROM").ok().and_then(|text| text.parse().ok());
    let from = asked.unwrap_or(now * 1000) + slice * FRESH;
    eprintln!("fresh seeds from {from} on, {members} members");
    check(from..from + FRESH, members);
}

#[test]
fn three_members_keep_their_promises_under_faults_a() {
    check(0..30, 3);
}

#[test]
fn three_members_keep_their_promises_under_faults_b() {
    check(40..70, 3);
}

#[test]
fn three_members_keep_their_promises_under_faults_c() {
    check(80..110, 3);
}

#[test]
fn five_members_keep_their_promises_under_faults_a() {
    check(1000..1030, 5);
}

#[test]
fn five_members_keep_their_promises_under_faults_b() {
    check(1030..1060, 5);
}

/// Fresh seeds that once failed, and the numbers of members they failed with.
#[test]
fn promises_that_were_broken_once_are_kept() {
    let failed = [
        (1_795_329_889_127, 5),
        (1_795_331_149_066, 3),
        (1_795_331_477_000_043, 3),
        (1_795_332_934_000_067, 5),
        (1_795_332_934_001_089, 5),
        (1_795_338_383_000_031, 5),
        (1_795_338_383_000_507, 5),
        (1_795_338_383_000_523, 5),
        (1_795_339_691_000_236, 3),
    ];
    for (seed, members) in failed {
        check(seed..seed + 1, members);
    }
}

#[test]
fn three_members_keep_their_promises_under_fresh_faults_a() {
    check_fresh(0, 3);
}

#[test]
fn three_members_keep_their_promises_under_fresh_faults_b() {
    check_fresh(1, 3);
}

#[test]
fn three_members_keep_their_promises_under_fresh_faults_c() {
    check_fresh(2, 3);
}

#[test]
fn three_members_keep_their_promises_under_fresh_faults_d() {
    check_fresh(3, 3);
}

#[test]
fn five_members_keep_their_promises_under_fresh_faults_a() {
    check_fresh(4, 5);
}

#[test]
fn five_members_keep_their_promises_under_fresh_faults_b() {
    check_fresh(5, 5);
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
