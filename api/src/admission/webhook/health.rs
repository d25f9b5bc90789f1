//! The calls of one webhook of late: whether it answers.
//!
//! Owns two numbers, and the outage that is listed while the webhook is dead. A webhook that did not answer its last
//! [`DEAD_AFTER`] calls is dead: it is asked with a short time-out until it answers. One call in [`WHOLE_EVERY`] has the webhook's
//! own time all the same, so that one that is slow and alive comes back. An answer that breaks the rules, and a refusal, are
//! answers. All are this node's, and begin anew with each change of the configuration.
//!
//! Invariant: calls that had less time than the webhook was to have count only where it answers. Callers see to it ([`Allotted`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::webhook::{Outage, Outages};

/// Calls without an answer, one after the other, that make a webhook dead: one or two may be a restart.
pub(super) const DEAD_AFTER: u32 = 3;

/// Time that a dead webhook has. Most answer in a tenth of it; with the 10 s of the default each write that it is about
/// would hold its seat for so long.
pub(super) const DEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Time from one call of a dead webhook with its own time to the next: one of many writes waits for up to 30 s then.
pub(super) const WHOLE_EVERY: Duration = Duration::from_secs(30);

/// The calls of one webhook of late.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Calls without an answer since the last one with an answer. Changed under the lock of `outage`, but for reading.
    unanswered: AtomicU32,
    /// Of a dead webhook: from when on, in milliseconds of the clock of the store, a call has the whole time.
    whole_from_ms: AtomicU64,
    /// Invariant: there is one exactly while `unanswered` is at least [`DEAD_AFTER`].
    outage: Mutex<Option<Arc<Outage>>>,
}

/// The time of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allotted {
    /// Zero: the time of the request is over.
    pub(super) timeout: Duration,
    /// It is what the webhook is to have: its own time, or the short one of a dead webhook. Otherwise it ends with that of the
    /// request.
    pub(super) is_whole: bool,
}

impl Health {
    /// Whether its last calls all had no answer.
    pub(super) fn is_dead(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= DEAD_AFTER
    }

    /// The time of the next call of a webhook whose own time is `own`, for a request that has `left`, at `now` on the clock of the
    /// store. `None`: the request has no end.
    pub(super) fn allot(&self, own: Duration, left: Option<Duration>, now: Duration) -> Allotted {
        let left = left.unwrap_or(Duration::MAX);
        let is_short = self.is_dead() && !(left >= own && self.takes_whole(now));
        let wanted = if is_short { own.min(DEAD_TIMEOUT) } else { own };
        Allotted { timeout: wanted.min(left), is_whole: left >= wanted }
    }

    /// Whether a call of the dead webhook at `now` is the one that has the whole time.
    fn takes_whole(&self, now: Duration) -> bool {
        let (now, next) = (millis(now), millis(now.saturating_add(WHOLE_EVERY)));
        let due = |from: u64| (now >= from).then_some(next);
        self.whole_from_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }

    /// Notes an answer. The result says whether the webhook has come back by it.
    pub(super) fn note_answer(&self, outages: &Outages) -> Option<Change> {
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut outage = self.outage.lock();
        self.unanswered.store(0, Ordering::Relaxed);
        outages.end(outage.take()?);
        Some(Change::CameBack)
    }

    /// Notes a call that ended at `now` on the clock of the store without an answer, for `reason`. `begin` lists the outage after
    /// that many calls. The result says whether the webhook has died by it.
    pub(super) fn note_failure(
        &self,
        reason: &str,
        now: Duration,
        begin: impl FnOnce(u64) -> Arc<Outage>,
    ) -> Option<Change> {
        let mut outage = self.outage.lock();
        let unanswered = self.unanswered.load(Ordering::Relaxed).saturating_add(1);
        self.unanswered.store(unanswered, Ordering::Relaxed);
        match &*outage {
            _ if unanswered < DEAD_AFTER => None,
            Some(outage) => {
                outage.note_call(reason);
                None
            }
            None => {
                *outage = Some(begin(unanswered.into()));
                self.whole_from_ms.store(millis(now.saturating_add(WHOLE_EVERY)), Ordering::Relaxed);
                Some(Change::Died)
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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

    const OWN: Duration = Duration::from_secs(10);

    fn whole(timeout: Duration) -> Allotted {
        Allotted { timeout, is_whole: true }
    }

    fn fail(health: &Health, outages: &Outages, now: Duration) -> Option<Change> {
        health.note_failure("refused", now, |calls| {
            let (of, names) = (("Kind", "kinds"), (&"c".into(), "w"));
            outages.begin(Outage::new(of, names, true, Timestamp(1), (calls, "refused")))
        })
    }

    fn dead_at(now: Duration) -> Health {
        let (health, outages) = (Health::default(), Outages::default());
        for _ in 0..DEAD_AFTER {
            fail(&health, &outages, now);
        }
        health
    }

    #[test]
    fn a_webhook_is_dead_after_three_calls_without_an_answer_until_it_answers() {
        let (health, outages, now) = (Health::default(), Outages::default(), Duration::ZERO);
        for _ in 1..DEAD_AFTER {
            assert_eq!(fail(&health, &outages, now), None);
            assert_eq!(health.allot(OWN, None, now), whole(OWN));
            assert!(outages.all().is_empty());
        }
        assert_eq!(fail(&health, &outages, now), Some(Change::Died));
        assert_eq!(fail(&health, &outages, now), None);
        assert_eq!(outages.all()[0].calls(), 4);
        assert_eq!(health.allot(OWN, None, now), whole(DEAD_TIMEOUT));
        assert_eq!(health.note_answer(&outages), Some(Change::CameBack));
        assert_eq!(health.note_answer(&outages), None);
        assert_eq!(health.allot(OWN, None, now), whole(OWN));
        assert!(outages.all().is_empty());
    }

    #[test]
    fn a_call_that_ends_with_its_request_is_not_whole() {
        let (alive, dead, now) = (Health::default(), dead_at(Duration::ZERO), Duration::ZERO);
        for (health, left_ms, expected_ms, is_whole) in [
            (&alive, 20_000, 10_000, true),
            (&alive, 10_000, 10_000, true),
            (&alive, 9_999, 9_999, false),
            (&alive, 0, 0, false),
            (&dead, 9_999, 1_000, true),
            (&dead, 999, 999, false),
            (&dead, 0, 0, false),
        ] {
            let left = Some(Duration::from_millis(left_ms));
            let expected = Allotted { timeout: Duration::from_millis(expected_ms), is_whole };
            assert_eq!(health.allot(OWN, left, now), expected, "{left_ms} ms left");
        }
    }

    #[test]
    fn a_dead_webhook_has_a_call_of_its_own_time_each_half_minute() {
        let health = dead_at(Duration::from_secs(100));
        let at = |seconds: u64, left: Option<u64>| {
            let left = left.map(Duration::from_secs);
            health.allot(OWN, left, Duration::from_secs(seconds)).timeout.as_secs()
        };
        assert_eq!((at(100, None), at(129, None)), (1, 1));
        assert_eq!(at(130, Some(5)), 1, "a request with less time does not use it up");
        assert_eq!((at(130, None), at(130, None), at(159, None)), (10, 1, 1));
        assert_eq!((at(165, Some(10)), at(165, None), at(195, None)), (10, 1, 10));
    }
}
