//! The harness finds what it is there to find: each planted bug fails some seed of a few.

use orch_cluster_tests::sim::plant::Plant;
use orch_cluster_tests::sim::run::run;
use orch_cluster_tests::sim::world::Setup;

/// The failure that the first failing seed reports.
#[track_caller]
fn found(plant: Plant, seeds: u64) -> String {
    let mut reports = (0..seeds).map(|seed| run(Setup { plant: Some(plant), ..Setup::new(seed, 3) }));
    let first = reports.find_map(|report| report.failure);
    first.unwrap_or_else(|| panic!("{plant:?} was not found in {seeds} seeds"))
}

#[test]
fn a_vote_that_is_not_synced_is_found() {
    eprintln!("{}", found(Plant::VoteUnsynced, 60));
}

#[test]
fn a_log_that_is_not_synced_is_found() {
    eprintln!("{}", found(Plant::LogUnsynced, 40));
}

#[test]
fn entries_applied_twice_are_found() {
    eprintln!("{}", found(Plant::MarkTorn, 40));
}

#[test]
fn a_proposal_repeated_silently_is_found() {
    eprintln!("{}", found(Plant::RepeatsUnknown, 60));
}

#[test]
fn an_answer_before_the_quorum_is_found() {
    eprintln!("{}", found(Plant::AnswersEarly, 40));
}

#[test]
fn a_lost_oldest_change_is_found() {
    eprintln!("{}", found(Plant::LosesOldest, 20));
}

#[test]
fn a_stale_read_is_found() {
    eprintln!("{}", found(Plant::StaleReads, 20));
}
