//! The harness finds planted bugs: each fails a seed of a few, for the right reason.

use std::ops::Range;
use std::time::Duration;

use orch_api::index::{IndexBug, with_index_bug};
use orch_cluster_tests::sim::plant::Plant;
use orch_cluster_tests::sim::run::run;
use orch_cluster_tests::sim::setup::Setup;
use orch_raft::{HubBug, with_hub_bug};

/// Part of a member's refusal of a disk that lacks its promises.
const OLDER_COPY: &str = "has an older copy of its data";

/// Asserts that one of the first `seeds` seeds, with three members, fails with one of `reasons`.
#[track_caller]
fn finds(plant: Plant, seeds: u64, reasons: &[&str]) {
    finds_among(plant, (3, 5), 0..seeds, reasons);
}

/// Asserts that one of `seeds` fails with one of `reasons`, with `members` members in runs of `seconds` seconds.
#[track_caller]
fn finds_among(plant: Plant, (members, seconds): (u64, u64), seeds: Range<u64>, reasons: &[&str]) {
    let length = Duration::from_secs(seconds);
    let setup = |seed| Setup { plant: Some(plant), length, ..Setup::new(seed, members) };
    let mut failures = seeds.clone().filter_map(|seed| run(setup(seed)).failure);
    let found = failures.find(|failure| reasons.iter().any(|reason| failure.contains(reason)));
    assert!(found.is_some(), "{plant:?} was not found in the seeds {seeds:?}");
}

#[test]
fn a_vote_that_is_not_synced_is_found() {
    // The members detect it, too: a disk without its promises is an older copy to them.
    let lost = ["its vote was not durable", "has two leaders", "voted for", OLDER_COPY];
    finds(Plant::VoteUnsynced, 200, &lost);
}

#[test]
fn a_log_that_is_not_synced_is_found() {
    let lost =
        ["the ledger has", "has digest", "committed index", "no order explains", "log reversion", OLDER_COPY];
    finds(Plant::LogUnsynced, 200, &lost);
}

#[test]
fn entries_applied_twice_are_found() {
    let wrong = ["the ledger has", "has digest", "newer than its resource's last change"];
    // Among three members a torn mark is often repaired before anybody looks.
    finds_among(Plant::MarkTorn, (5, 8), 0..200, &wrong);
}

#[test]
fn a_proposal_repeated_silently_is_found() {
    finds(Plant::RepeatsUnknown, 200, &["was applied at", "was seen at", "no order explains"]);
}

#[test]
fn an_answer_before_the_quorum_is_found() {
    finds(Plant::AnswersEarly, 200, &["no order explains", "was seen at", "told otherwise", "have revision"]);
}

#[test]
fn a_post_sent_again_is_found() {
    finds(Plant::ClientRepeats, 200, &["was applied at", "answered otherwise"]);
}

#[test]
fn a_step_that_lands_in_an_installed_state_is_found() {
    let wrong = ["the ledger has", "has digest", "reports another digest", "exits without an injected cause"];
    // The bug shows when the member's process restarts after the install.
    finds_among(Plant::StaleStep, (5, 12), 0..200, &wrong);
}

#[test]
fn trimming_that_blocks_writes_is_found() {
    finds(Plant::TrimmingBlocks, 200, &["with nothing wrong", "no write and read"]);
}

#[test]
fn a_state_that_differs_and_is_not_compared_is_found() {
    finds(Plant::DiffersSilently, 200, &["has digest", "reports another digest", "is not repaired"]);
}

#[test]
fn a_watch_that_is_not_woken_is_found() {
    finds(Plant::NotWoken, 200, &["was not woken"]);
}

/// Asserts that one of 200 seeds finds `bug` in the index of watches, for one of `reasons`.
#[track_caller]
fn finds_in_hubs(bug: HubBug, reasons: &[&str]) {
    let setup = |seed| Setup { length: Duration::from_secs(5), ..Setup::new(seed, 3) };
    let mut failures = (0..200).filter_map(|seed| with_hub_bug(bug, || run(setup(seed))).failure);
    let mut others = Vec::new();
    let is_right = |failure: &String| reasons.iter().any(|reason| failure.contains(reason));
    let found =
        failures.by_ref().inspect(|failure| others.push(failure.clone())).any(|failure| is_right(&failure));
    assert!(found, "{bug:?} was not found, but {others:?}");
}

#[test]
fn an_index_of_watches_that_forgets_the_old_version_is_found() {
    finds_in_hubs(HubBug::ForgetsOldVersion, &["watch of client"]);
}

#[test]
fn a_watch_that_begins_where_the_index_has_walked_is_found() {
    finds_in_hubs(HubBug::BeginsAtTheWalk, &["watch of client"]);
}

#[test]
fn a_watch_that_passes_what_it_has_not_read_is_found() {
    // Where the run is already settling, the event that was passed over counts as one that never came.
    finds_in_hubs(HubBug::PassesPending, &["watch of client", "was not woken"]);
}

/// Asserts that one of 200 seeds finds `bug` in the indexes of the state.
#[track_caller]
fn finds_in_indexes(bug: IndexBug) {
    let setup = |seed| Setup { length: Duration::from_secs(5), ..Setup::new(seed, 3) };
    let failures = (0..200).map(|seed| with_index_bug(bug, || run(setup(seed))).failure);
    let found = failures.flatten().find(|failure| failure.contains("list of "));
    assert!(found.is_some(), "{bug:?} was not found");
}

#[test]
fn an_index_that_forgets_what_an_object_was_is_found() {
    finds_in_indexes(IndexBug::ForgetsLostTerms);
}

#[test]
fn an_index_of_new_objects_alone_is_found() {
    finds_in_indexes(IndexBug::FilesNewObjectsOnly);
}

#[test]
fn an_index_that_claims_to_know_the_past_is_found() {
    finds_in_indexes(IndexBug::ReachesTooFar);
}

#[test]
fn reads_that_hang_are_found() {
    finds(Plant::ReadsHang, 200, &["no write and read", "with nothing wrong"]);
}

#[test]
fn a_lost_oldest_change_is_found() {
    finds(Plant::LosesOldest, 200, &["watch of client"]);
}

#[test]
fn a_stale_read_is_found() {
    finds(Plant::StaleReads, 200, &["no order explains", "revision went back"]);
}

#[test]
fn an_entry_that_is_skipped_is_found() {
    let skipped = ["the ledger has", "has digest", "has another entry", "which was committed with term"];
    finds(Plant::SkipsUnknown, 200, &skipped);
}

#[test]
fn a_run_without_load_fails() {
    finds(Plant::NoLoad, 1, &["calls had an outcome", "too little was verified"]);
}

#[test]
fn last_changes_that_a_start_forgets_are_found() {
    finds(Plant::ForgetsLastChanges, 200, &["was not spoiled"]);
}

#[test]
fn a_change_that_counts_on_a_dead_voter_is_found() {
    finds(Plant::DeadAnswers, 200, &["a change was begun that cannot be committed"]);
}

#[test]
fn a_disk_that_was_emptied_unseen_is_found() {
    finds(Plant::EmptiedUnseen, 200, &["lost its disk and still runs", "voted for", "has two leaders"]);
}

#[test]
fn an_older_copy_of_a_disk_that_passes_for_the_disk_is_found() {
    finds(Plant::RollbackUnseen, 200, &["has an older copy of its disk and still runs", "voted for"]);
}

#[test]
fn a_removed_member_that_is_not_told_is_found() {
    finds(Plant::RemovalUntold, 200, &["was removed and still runs"]);
}

#[test]
fn acquaintance_that_is_claimed_and_lacking_is_found() {
    finds(Plant::AcquaintanceClaimed, 200, &["no write is taken"]);
}

#[test]
fn a_wrong_state_that_is_spread_is_found() {
    finds(
        Plant::SpreadsWrongState,
        200,
        &["was not spoiled", "has digest", "the ledger has", "reports another digest"],
    );
}

#[test]
fn a_member_that_differs_and_judges_without_the_others_is_found() {
    finds(Plant::JudgesDeaf, 200, &["is not repaired"]);
}

#[test]
fn a_lone_word_that_is_believed_is_found() {
    let ended = ["exits without an injected cause", "does not get its change done"];
    finds_among(Plant::LoneWordCounts, (5, 5), 0..200, &ended);
}

#[test]
fn a_repair_with_a_wrong_state_is_found() {
    finds(Plant::PullsWrongState, 200, &["is not repaired"]);
}

#[test]
fn a_sound_member_that_is_judged_by_the_odd_one_is_found() {
    finds(Plant::OddOneRules, 200, &["was not spoiled"]);
}

#[test]
fn a_restore_that_gives_out_revisions_again_is_found() {
    let twice = ["the ledger has", "has digest", "have revision", "revision went back"];
    finds(Plant::RevisionsReused, 200, &twice);
}

#[test]
fn a_recovery_in_which_an_old_member_votes_is_found() {
    finds(Plant::RecoveryKeepsName, 200, &["votes for"]);
}

#[test]
fn a_watch_that_goes_on_over_a_restore_is_found() {
    finds(Plant::WatchGoesOn, 200, &["went on over the beginning"]);
}

#[test]
fn a_voter_that_follows_two_leaders_is_found() {
    // The bug shows only until the answers to its entries depose the earlier leader.
    finds(
        Plant::FollowsAnybody,
        600,
        &["no order explains", "revision went back", "was seen at", "has two leaders"],
    );
}
