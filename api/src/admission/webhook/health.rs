//! The calls of one webhook of late: whether it answers.
//!
//! Owns one number, and the outage that is listed while the webhook is dead. A webhook that did not answer its last [`DEAD_AFTER`]
//! calls is dead: it is asked with a short time-out until it answers. An answer that breaks the rules, and a refusal, are
//! answers. Both are this node's, and begin anew with each change of the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::webhook::{Outage, Outages};

/// Calls without an answer, one after the other, that make a webhook dead: one or two may be a restart.
pub(super) const DEAD_AFTER: u32 = 3;

/// Time that a dead webhook has. Most answer in a tenth of it; with the 10 s of the default each write that it is about
/// would hold its seat for so long.
pub(super) const DEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The calls of one webhook of late.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Calls without an answer, one after the other. Changed under the lock of `outage`, but for reading.
    failures: AtomicU32,
    /// Invariant: there is one exactly while `failures` are at least [`DEAD_AFTER`].
    outage: Mutex<Option<Arc<Outage>>>,
}

impl Health {
    /// Whether its last calls all had no answer.
    pub(super) fn is_dead(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= DEAD_AFTER
    }

    /// The time of the next call, which has `own` otherwise.
    pub(super) fn timeout(&self, own: Duration) -> Duration {
        if self.is_dead() { own.min(DEAD_TIMEOUT) } else { own }
    }

    /// Notes an answer. The result says whether the webhook has come back by it.
    pub(super) fn note_answer(&self, outages: &Outages) -> Option<Change> {
        if self.failures.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut outage = self.outage.lock();
        self.failures.store(0, Ordering::Relaxed);
        outages.end(outage.take()?);
        Some(Change::CameBack)
    }

    /// Notes a call without an answer, for `reason`. `begin` lists the outage after that many calls. The result says whether
    /// the webhook has died by it.
    pub(super) fn note_failure(
        &self,
        reason: &str,
        begin: impl FnOnce(u64) -> Arc<Outage>,
    ) -> Option<Change> {
        let mut outage = self.outage.lock();
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        match &*outage {
            _ if failures < DEAD_AFTER => None,
            Some(outage) => {
                outage.note_call(reason);
                None
            }
            None => {
                *outage = Some(begin(failures.into()));
                Some(Change::Died)
            }
        }
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

    use crate::ambient::Timestamp;

    #[test]
    fn a_webhook_is_dead_after_three_calls_without_an_answer_until_it_answers() {
        let (health, outages, own) = (Health::default(), Outages::default(), Duration::from_secs(10));
        let fail = || {
            health.note_failure("refused", |calls| {
                let (of, names) = (("Kind", "kinds"), (&"c".into(), "w"));
                outages.begin(Outage::new(of, names, true, Timestamp(1), (calls, "refused")))
            })
        };
        for _ in 1..DEAD_AFTER {
            assert_eq!(fail(), None);
            assert_eq!(health.timeout(own), own);
            assert!(outages.all().is_empty());
        }
        assert_eq!(fail(), Some(Change::Died));
        assert_eq!(fail(), None);
        assert_eq!(outages.all()[0].calls(), 4);
        assert_eq!(health.timeout(own), DEAD_TIMEOUT);
        assert_eq!(health.timeout(Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(health.note_answer(&outages), Some(Change::CameBack));
        assert_eq!(health.note_answer(&outages), None);
        assert_eq!(health.timeout(own), own);
        assert!(outages.all().is_empty());
    }
}
