//! Bugs of conversions that a simulation plants on its thread, to show that its judge finds them. A release has none of this.

use orch_raft::planted::{Planted, with_bug};

/// A planted bug of conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionBug {
    /// An object has the metadata that the other server answers, whatever it was.
    TrustsAnswers,
    /// A result is kept under the uid of its object, also when that changes.
    KeepsByUid,
}

thread_local! {
    static PLANTED: Planted<ConversionBug> = const { Planted::none() };
}

/// Runs `work` with the bug in every conversion of this thread.
pub fn with_conversion_bug<T>(bug: ConversionBug, work: impl FnOnce() -> T) -> T {
    with_bug(&PLANTED, bug, work)
}

/// Whether this thread has the bug.
pub(super) fn has(bug: ConversionBug) -> bool {
    PLANTED.with(|planted| planted.is(bug))
}
