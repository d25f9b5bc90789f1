//! Bugs of the loops that a simulation plants on its thread, to show that its oracles find them. A release has none of this.

use orch_raft::planted::{Planted, with_bug};

/// A planted bug of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopBug {
    /// Loops keep to the resources that were served when they began.
    FreezesResources,
}

thread_local! {
    static PLANTED: Planted<LoopBug> = const { Planted::none() };
}

/// Runs `work` with the bug in every loop of this thread.
pub fn with_loop_bug<T>(bug: LoopBug, work: impl FnOnce() -> T) -> T {
    with_bug(&PLANTED, bug, work)
}

/// Whether this thread has the bug.
pub(super) fn has(bug: LoopBug) -> bool {
    PLANTED.with(|planted| planted.is(bug))
}
