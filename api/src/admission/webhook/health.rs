//! The calls of one webhook of late: whether it answers.
//!
//! Owns one number. A webhook that did not answer its last [`DEAD_AFTER`] calls is dead: it is asked with a short time-out
//! until it answers. An answer that breaks the rules, and a refusal, are answers. The number is this node's, and begins anew
//! with each change of the configuration.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Calls without an answer, one after the other, that make a webhook dead: one or two may be a restart.
pub(super) const DEAD_AFTER: u32 = 3;

/// Time that a dead webhook has. Most answer in a tenth of it; with the 10 s of the default each write that it is about
/// would hold its seat for so long.
pub(super) const DEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The calls of one webhook of late.
#[derive(Debug, Default)]
pub(super) struct Health(AtomicU32);

impl Health {
    /// Whether its last calls all had no answer.
    pub(super) fn is_dead(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= DEAD_AFTER
    }

    /// The time of the next call, which has `own` otherwise.
    pub(super) fn timeout(&self, own: Duration) -> Duration {
        if self.is_dead() { own.min(DEAD_TIMEOUT) } else { own }
    }

    /// Notes the end of a call. The result says whether the webhook has died or come back by it.
    pub(super) fn note(&self, is_answered: bool) -> Option<Change> {
        if is_answered {
            let before = self.0.swap(0, Ordering::Relaxed);
            return (before >= DEAD_AFTER).then_some(Change::CameBack);
        }
        let add = |count: u32| Some(count.saturating_add(1));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).unwrap_or(u32::MAX);
        (before.saturating_add(1) == DEAD_AFTER).then_some(Change::Died)
    }
}

/// A change between a webhook that answers and a dead one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Died,
    CameBack,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_dead_after_three_calls_without_an_answer_until_it_answers() {
        let (health, own) = (Health::default(), Duration::from_secs(10));
        for _ in 1..DEAD_AFTER {
            assert_eq!(health.note(false), None);
            assert_eq!(health.timeout(own), own);
        }
        assert_eq!(health.note(false), Some(Change::Died));
        assert_eq!(health.note(false), None);
        assert_eq!(health.timeout(own), DEAD_TIMEOUT);
        assert_eq!(health.timeout(Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(health.note(true), Some(Change::CameBack));
        assert_eq!(health.note(true), None);
        assert_eq!(health.timeout(own), own);
    }
}
