//! Known bugs, planted to show that the judge finds them.
//!
//! Owns the list, the seeds of the search for each, and what it is found as. The bugs of the store change what
//! members propose; those of the loops and of the index of watches are compiled into simulations only.

use orch_api::controllers::LoopBug;
use orch_cluster_tests::sim::plant::Plant;
use orch_cluster_tests::sim::search::Planted;
use orch_raft::HubBug;

/// Seeds for a planted bug: every change of the product moves the seeds that find it.
const SEEDS: u64 = 60;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    Store(Plant),
    Loops(LoopBug),
    Hubs(HubBug),
}

/// A write that was judged by another form of its definition than it has when it is applied.
const OTHER_FORM: [&str; 4] = [
    "by another form of its definition",
    "is of a kind that is gone",
    "is created though its definition ends",
    "outlive their definition",
];

/// A schema that is served, or written by, after it was changed.
const OLD_SCHEMA: [&str; 2] = ["by another form of its definition", "had acknowledged to be over"];

/// Objects of a kind that came after the loops began.
const UNKNOWN_KIND: [&str; 1] = ["have not done what they owe"];

/// Events that a watch by a field did not get.
const LOST_EVENT: [&str; 2] = ["does not equal what is stored", "saw all of"];

/// All bugs.
pub(crate) const BUGS: [Planted<Bug>; 4] = [
    planted("ignores-definition", Bug::Store(Plant::IgnoresDefinition), &OTHER_FORM),
    planted("keeps-tables", Bug::Store(Plant::KeepsTables), &OLD_SCHEMA),
    planted("frozen-loop", Bug::Loops(LoopBug::FreezesResources), &UNKNOWN_KIND),
    planted("trusts-places", Bug::Hubs(HubBug::TrustsPlaces), &LOST_EVENT),
];

const fn planted(name: &'static str, bug: Bug, reasons: &'static [&'static str]) -> Planted<Bug> {
    Planted { name, bug, seeds: 0..SEEDS, reasons }
}
