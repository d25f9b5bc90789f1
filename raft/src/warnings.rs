//! Rate limit of the warnings that clients and peers can cause: one per cause in ten seconds, with the number of those
//! left out since the last.
//!
//! Owns the limit of one cause, and a map of such limits by cause. It does not log. [`WarningLimit::pass`] reads
//! Tokio's clock; the other functions take an instant, or the clock of the member's runtime, which a simulation
//! controls.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::time::Duration;

use openraft_rt::Instant;
use parking_lot::Mutex;

/// Shortest time between two warnings of one cause: clients and peers that cause them must not fill a log.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The limit for one cause. `I` is the instant of the caller's clock.
#[derive(Debug)]
pub struct WarningLimit<I = tokio::time::Instant>(Mutex<Passed<I>>);

#[derive(Debug)]
struct Passed<I> {
    /// `None` before the first warning.
    last: Option<I>,
    /// Warnings left out since the last one that passed.
    left_out: u64,
}

impl<I> WarningLimit<I> {
    /// A limit that lets the first warning pass.
    pub const fn new() -> WarningLimit<I> {
        WarningLimit(Mutex::new(Passed { last: None, left_out: 0 }))
    }
}

impl<I> Default for WarningLimit<I> {
    fn default() -> Self {
        WarningLimit::new()
    }
}

impl<I: Copy + Sub<Output = Duration>> WarningLimit<I> {
    /// `Some` if a warning may be logged at `now`, with the number of warnings left out since the last.
    pub fn pass_at(&self, now: I) -> Option<u64> {
        let mut passed = self.0.lock();
        if passed.last.is_some_and(|last| now - last < WARNING_PAUSE) {
            passed.left_out += 1;
            return None;
        }
        passed.last = Some(now);
        Some(std::mem::take(&mut passed.left_out))
    }
}

impl WarningLimit {
    /// `Some` if a warning may be logged now by Tokio's clock, with the number of warnings left out since the last.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(tokio::time::Instant::now())
    }
}

/// Limits by cause. Causes are literals in the program, so they are few.
pub(crate) struct Warnings<I>(Mutex<BTreeMap<&'static str, WarningLimit<I>>>);

impl<I> Default for Warnings<I> {
    fn default() -> Self {
        Warnings(Mutex::default())
    }
}

impl<I: Instant> Warnings<I> {
    /// Whether a warning of `cause` may be logged now. `true` starts the pause of `cause`.
    pub(crate) fn may_warn(&self, cause: &'static str) -> bool {
        self.0.lock().entry(cause).or_default().pass_at(I::now()).is_some()
    }
}

/// Counts the warnings that a test logs.
#[cfg(test)]
pub(crate) mod counting {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// Warnings and errors of this crate so far.
    #[derive(Clone, Default)]
    pub(crate) struct Warned(Arc<AtomicUsize>);

    impl Warned {
        pub(crate) fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Subscriber for Warned {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN && metadata.target().starts_with("orch_raft")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_passes_in_ten_seconds_and_says_how_many_did_not() {
        let limit = WarningLimit::<tokio::time::Instant>::new();
        let began = tokio::time::Instant::now();
        let passed =
            [0, 1, 9_999, 10_000, 10_001, 20_000].map(|ms| limit.pass_at(began + Duration::from_millis(ms)));
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn each_cause_has_its_own_pause() {
        let warnings = Warnings::<std::time::Instant>::default();
        assert!(warnings.may_warn("a"));
        assert!(!warnings.may_warn("a"));
        assert!(warnings.may_warn("b"), "whoever causes one warning does not silence another");
    }
}
