//! How often the log says the same thing.
//!
//! Owns the pauses between two warnings of one cause. Whoever can make this process warn by a frame must not be able to fill
//! a disk with warnings; and one cause must not use up what another one has to say.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft_rt::Instant;
use parking_lot::Mutex;

/// Between two warnings of one cause: an operator that watches sees that it goes on, and a day of it is under a megabyte.
pub(crate) const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// When each cause was last warned about. Causes are in the program's text, so they are few.
pub(crate) struct Warnings<I>(Mutex<BTreeMap<&'static str, I>>);

impl<I> Default for Warnings<I> {
    fn default() -> Self {
        Warnings(Mutex::default())
    }
}

impl<I: Instant> Warnings<I> {
    /// Whether it is time for another warning of `cause`; counts as given if so.
    pub(crate) fn may_warn(&self, cause: &'static str) -> bool {
        let now = I::now();
        let mut warned = self.0.lock();
        let is_time = warned.get(cause).is_none_or(|at| now >= *at + WARNING_PAUSE);
        if is_time {
            warned.insert(cause, now);
        }
        is_time
    }
}

/// Counts what a test makes the log say.
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
