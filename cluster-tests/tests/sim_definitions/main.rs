//! Definitions of custom kinds over simulated clusters: created, changed, deleted and created again under the same name, while
//! clients write, watch and list objects of them on all members, and members die, lag and install snapshots.
//!
//! ```text
//!   definers, writers, owners ──HTTP──> the API of simulated members ──> Raft, disks, network
//!   informers <──lists, watches──┘                        │
//!                                    ledger of all changes ──> judge
//! ```
//!
//! The members are those of [`orch_cluster_tests::sim`], with its faults and its oracles. Each change of a definition is another
//! *edition*: its schemas have the edition as the default of a field, so that every object and every answer says which schema it
//! was made by. `SEED=17` replays a run and prints its events, `SEEDS=1000` searches further, `PLANT=keeps-tables` plants one bug only.

mod clients;
mod documents;
mod informer;
mod judge;
mod plant;
mod run;
mod settling;
mod sightings;

use orch_cluster_tests::sim::search::{self, Search};
use plant::BUGS;
use run::run;

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 6;

#[test]
fn definitions_of_a_simulated_cluster_keep_their_promises() {
    let Some((seeds, found)) = search::explore("sim-definitions", SEEDS, |seed| run(seed, None)) else {
        return;
    };
    let Search { counted: judged, untold, .. } = found;
    eprintln!("{seeds} seeds: {judged}, {untold} runs could not be judged");
    // A run has several times as many of each.
    assert!(judged.editions > seeds * 4, "definitions are changed: {judged}");
    assert!(judged.endings > seeds, "definitions end: {judged}");
    assert!(judged.written > seeds * 10, "objects are written: {judged}");
    assert!(judged.answers > seeds * 10, "answers are judged: {judged}");
    assert!(untold * 4 <= seeds, "runs can be judged: {untold} of {seeds} could not");
}

#[test]
fn a_seed_replays_its_run() {
    search::assert_replays(|seed| run(seed, None));
}

#[test]
fn planted_bugs_are_found() {
    search::assert_found(BUGS, |seed, bug| run(seed, Some(bug)));
}
