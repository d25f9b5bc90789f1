//! Limits of a member's warnings by cause: peers and clients that cause one warning do not silence another.
//!
//! Owns the map of limits by cause, by the clock of the member's runtime, which a simulation controls. It does not log. The
//! limit of one cause is [`WarningLimit`].

use std::collections::BTreeMap;

use openraft_rt::Instant;
use orch_bounded::WarningLimit;
use parking_lot::Mutex;

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
    fn each_cause_has_its_own_pause() {
        let warnings = Warnings::<std::time::Instant>::default();
        assert!(warnings.may_warn("a"));
        assert!(!warnings.may_warn("a"));
        assert!(warnings.may_warn("b"), "whoever causes one warning does not silence another");
    }
}
