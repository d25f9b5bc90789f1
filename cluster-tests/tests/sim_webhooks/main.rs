//! Webhooks of admission over simulated clusters, and in `elsewhere` those of conversion and aggregated servers: clients write through all members while webhooks hang, die, lose answers and
//! answer garbage, and members die, lag and install snapshots.
//!
//! ```text
//!   writers ──HTTP──> the API of simulated members ──calls──> hosts of webhooks (delays, losses, garbage)
//!                               │                                   │
//!                     ledger of all changes ──────> judge <──────── all calls
//! ```
//!
//! The members are those of [`orch_cluster_tests::sim`], with its faults and its oracles. Each write has a token of its own, each
//! mutating webhook adds a mark with the number of its call, and what validating webhooks refuse follows from what they see: so
//! that every stored version tells which calls it went through. `SEED=17` replays a run and prints its events, `SEEDS=1000` searches
//! further, `PLANT=sends-again` plants one bug only.

mod elsewhere;
mod hosts;
mod judge;
mod plant;
mod run;
mod writers;

use orch_cluster_tests::sim::search::{self, Search};
use plant::PLANTS;
use run::run;

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 6;

#[test]
fn webhooks_of_a_simulated_cluster_are_obeyed() {
    let Some((seeds, found)) = search::explore("sim-webhooks", SEEDS, |seed| run(seed, None)) else {
        return;
    };
    let Search { counted, untold, .. } = found;
    eprintln!("{seeds} seeds: {counted}, {untold} runs could not be judged");
    // A run has several times as many of each.
    assert!(counted.stored > seeds * 10, "objects are stored: {counted}");
    assert!(counted.denied > seeds, "webhooks refuse writes: {counted}");
    assert!(counted.failed > seeds, "webhooks fail: {counted}");
    assert!(counted.calls > seeds * 50, "webhooks are called: {counted}");
    assert!(untold * 4 <= seeds, "runs can be judged: {untold} of {seeds} could not");
}

#[test]
fn a_seed_replays_its_run() {
    search::assert_replays(|seed| run(seed, None));
}

#[test]
fn planted_bugs_are_found() {
    search::assert_found(PLANTS, |seed, plant| run(seed, Some(plant)));
}

#[test]
fn conversion_webhooks_of_a_simulated_cluster_and_its_aggregated_servers_keep_their_promises() {
    let Some((seeds, found)) = search::explore("sim-webhooks", SEEDS, |seed| elsewhere::run(seed, None))
    else {
        return;
    };
    let Search { counted, untold, .. } = found;
    eprintln!("{seeds} seeds: {counted}, {untold} runs could not be judged");
    // A run has several times as many of each.
    assert!(counted.stored > seeds * 5, "objects are stored: {counted}");
    assert!(counted.lists > seeds * 2, "lists are shown: {counted}");
    assert!(counted.questions > seeds * 10, "the converter is asked: {counted}");
    assert!(counted.relayed > seeds * 5, "aggregated servers are asked: {counted}");
    assert!(untold * 4 <= seeds, "runs can be judged: {untold} of {seeds} could not");
}

#[test]
fn a_seed_replays_its_run_with_servers_elsewhere() {
    search::assert_replays(|seed| elsewhere::run(seed, None));
}

#[test]
fn planted_bugs_of_conversions_and_aggregation_are_found() {
    search::assert_found(elsewhere::PLANTS, |seed, plant| elsewhere::run(seed, Some(plant)));
}
