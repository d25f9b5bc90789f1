//! Scheduler processes over simulated clusters: the whole product, from one seed.
//!
//! ```text
//!   users, kubelet ──HTTP──┐
//!                          ├──> links (delays, cuts, losses) ──> the API of simulated members ──> Raft, disks, network
//!   scheduler processes ───┘                                                │
//!                                                   ledger of all changes ──┴──> judge (recomputes every promise)
//! ```
//!
//! The members are those of [`orch_cluster_tests::sim`], with its faults and its oracles. The scheduler processes are the
//! product from its configuration down to single HTTP requests, each on a runtime with a stopped clock of its own:
//! the world gives it slices of time, between which its requests and answers travel. `SEED=17` replays a run and prints
//! its events, `SEEDS=1000` searches further, `PLANT=trusts-lost` plants one bug only.

mod faults;
mod judge;
mod links;
mod plant;
mod run;
mod scheduler;
mod settled;
mod timeline;
mod users;

use orch_cluster_tests::sim::search::{self, Search};
use plant::PLANTS;
use run::{Counts, run};

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 8;

#[test]
fn schedulers_over_a_simulated_cluster_keep_their_promises() {
    let Some((seeds, found)) = search::explore("sim-scheduling", SEEDS, |seed| run(seed, None)) else {
        return;
    };
    let Search { counted: Counts { bound, leaders, late, excused }, untold, .. } = found;
    eprintln!(
        "{seeds} seeds: {bound} pods bound, {leaders} leaderships, {late} bindings came later than a lease can know, \
         {excused} overloads followed from them, {untold} runs could not be judged"
    );
    // Some runs have few pods that fit: about ten are bound in the mean.
    assert!(bound > seeds * 5, "pods are bound: {bound} in {seeds} runs");
    assert!(leaders > seeds, "leaders change: {leaders} in {seeds} runs");
    assert!(untold * 10 <= seeds, "runs can be judged: {untold} of {seeds} could not");
    assert!(excused * 10 <= seeds, "the assumption of the lease excuses little: {excused} in {seeds} runs");
}

#[test]
fn a_seed_replays_its_run() {
    search::assert_replays(|seed| run(seed, None));
}

/// A runtime that is dropped with its tasks drops them in an order of their numbers, which count on through the program.
#[test]
fn a_seed_replays_its_run_whatever_ran_before() {
    for seed in [2, 6] {
        let first = run(seed, None);
        for shift in 1..4 {
            tokio::runtime::Builder::new_current_thread().build().expect("nothing is needed").block_on(
                async {
                    tokio::spawn(async {}).await.expect("it does nothing");
                },
            );
            let again = run(seed, None);
            let differ = first.trace.iter().zip(&again.trace).find(|(one, other)| one != other);
            assert_eq!(differ, None, "seed {seed}, shift {shift}");
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    search::assert_found(PLANTS, |seed, plant| run(seed, Some(plant)));
}
