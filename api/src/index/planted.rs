//! Bugs of the indexes that a simulation plants on its thread, to show that its lists find them. A release has none of this.

use orch_raft::planted::{Planted, with_bug};

/// A planted bug of the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexBug {
    /// An object leaves a term at once when it loses it, though older revisions are still listed.
    ForgetsLostTerms,
    /// The terms that an object gets by an update are not filed.
    FilesNewObjectsOnly,
    /// An index that is made of a state claims to know the terms that were lost before that.
    ReachesTooFar,
}

/// All bugs.
pub const INDEX_BUGS: [IndexBug; 3] =
    [IndexBug::ForgetsLostTerms, IndexBug::FilesNewObjectsOnly, IndexBug::ReachesTooFar];

thread_local! {
    static PLANTED: Planted<IndexBug> = const { Planted::none() };
}

/// Runs `work` with the bug in every index that this thread brings up.
pub fn with_index_bug<T>(bug: IndexBug, work: impl FnOnce() -> T) -> T {
    with_bug(&PLANTED, bug, work)
}

/// Whether this thread has the bug.
pub(super) fn has(bug: IndexBug) -> bool {
    PLANTED.with(|planted| planted.is(bug))
}
