//! Bugs of the hub that a simulation plants on its thread, to show that its watches find them. A release has none of this.

use crate::planted::{Planted, with_bug};

/// A planted bug of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubBug {
    /// A change is looked up by what the object is, and not by what it was.
    ForgetsOldVersion,
    /// A subscriber that begins at an older revision is told that nothing before the walk concerns it.
    BeginsAtTheWalk,
    /// A subscriber is told that it is at the newest revision while changes that concern it are still to be read.
    PassesPending,
    /// A wake-up that comes while a subscriber does not wait is lost.
    LosesWakes,
    /// A turn ends in the middle of a revision, whose rest the next one passes over.
    CutsRevisions,
    /// A field is looked up at its place of today, though the object was stored when the kind had others.
    TrustsPlaces,
}

/// All bugs.
pub const HUB_BUGS: [HubBug; 6] = [
    HubBug::ForgetsOldVersion,
    HubBug::BeginsAtTheWalk,
    HubBug::PassesPending,
    HubBug::LosesWakes,
    HubBug::CutsRevisions,
    HubBug::TrustsPlaces,
];

thread_local! {
    static PLANTED: Planted<HubBug> = const { Planted::none() };
}

/// Runs `work` with the bug in every hub that this thread uses.
pub fn with_hub_bug<T>(bug: HubBug, work: impl FnOnce() -> T) -> T {
    with_bug(&PLANTED, bug, work)
}

/// Whether this thread has the bug.
pub(super) fn has(bug: HubBug) -> bool {
    PLANTED.with(|planted| planted.is(bug))
}
