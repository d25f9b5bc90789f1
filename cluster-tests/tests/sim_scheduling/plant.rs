//! Known bugs, planted below or beside the product to show that the judge finds them.
//!
//! Owns the list, the seed at which the search for each begins, and what it is found as. The product has no flag
//! for them: a planted bug changes the answers that it gets, or another user.

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

/// All plants: name, bug, a seed shortly before one that found it, a part of what it fails with.
pub(crate) const PLANTS: [(&str, Plant, u64, &str); 3] = [
    ("trusts-lost", Plant::TrustsLost, 0, "has no node in the end"),
    ("takes-over-early", Plant::TakesOverEarly, 0, "lead"),
    ("ignores-room", Plant::IgnoresRoom, 0, "offers"),
];
