//! Known bugs, planted to show that the judge finds them.
//!
//! Owns the list, the seed at which the search for each begins, and what it is found as. The bugs of the store change what
//! members propose; that of the loops is compiled into simulations only.

use orch_api::controllers::LoopBug;
use orch_cluster_tests::sim::plant::Plant;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    Store(Plant),
    Loops(LoopBug),
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

/// All bugs: name, bug, a seed shortly before one that found it, parts of what it fails with.
pub(crate) const BUGS: [(&str, Bug, u64, &[&str]); 3] = [
    ("ignores-definition", Bug::Store(Plant::IgnoresDefinition), 0, &OTHER_FORM),
    ("keeps-tables", Bug::Store(Plant::KeepsTables), 0, &OLD_SCHEMA),
    ("frozen-loop", Bug::Loops(LoopBug::FreezesResources), 0, &UNKNOWN_KIND),
];
