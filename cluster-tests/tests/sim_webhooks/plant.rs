//! Known bugs, planted between the product and the webhooks to show that the judge finds them.
//!
//! Owns the list, the seeds of the search for each, and what it is found as. The product has no flag for them: a planted bug changes
//! the calls that it makes, or the answers that it gets.

use orch_cluster_tests::sim::search::Planted;

/// Seeds for a planted bug: every change of the product moves the seeds that find it.
const SEEDS: u64 = 60;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A call whose answer was lost is made again.
    SendsAgain,
    /// A write that a webhook refuses is allowed.
    IgnoresDenial,
    /// A patch is applied twice.
    PatchesTwice,
    /// A dry run is stored: the server is not told that it is one.
    StoresDryRuns,
}

/// All plants.
pub(crate) const PLANTS: [Planted<Plant>; 4] = [
    planted("sends-again", Plant::SendsAgain, &["is called twice"]),
    planted("ignores-denial", Plant::IgnoresDenial, &["though it was refused"]),
    planted("patches-twice", Plant::PatchesTwice, &["marks of"]),
    planted("stores-dry-runs", Plant::StoresDryRuns, &["a dry run"]),
];

const fn planted(name: &'static str, bug: Plant, reasons: &'static [&'static str]) -> Planted<Plant> {
    Planted { name, bug, seeds: 0..SEEDS, reasons }
}
