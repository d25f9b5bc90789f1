//! Known bugs, planted below or beside the product to show that the judge finds them.
//!
//! Owns the list, the seeds of the search for each, and what it is found as. The product has no flag
//! for them: a planted bug changes the answers that it gets, or another user.

use orch_cluster_tests::sim::search::Planted;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A binding whose answer was lost counts as done: the answer that the product gets says so.
    TrustsLost,
    /// One process takes over before the others' leadership has ended: the lease that it reads claims a second only.
    TakesOverEarly,
    /// Another scheduler binds pods to the nodes of this one, and looks at no room.
    IgnoresRoom,
}

/// Seeds for a plant: every change of the product moves the seeds that find a bug, and a search that goes on costs a minute where
/// one that fails costs a release.
const SEEDS: u64 = 150;

/// All plants.
pub(crate) const PLANTS: [Planted<Plant>; 3] = [
    planted("trusts-lost", Plant::TrustsLost, &["has no node in the end"]),
    planted("takes-over-early", Plant::TakesOverEarly, &["lead"]),
    planted("ignores-room", Plant::IgnoresRoom, &["offers"]),
];

const fn planted(name: &'static str, bug: Plant, reasons: &'static [&'static str]) -> Planted<Plant> {
    Planted { name, bug, seeds: 0..SEEDS, reasons }
}
