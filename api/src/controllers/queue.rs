//! A delay queue: a set of keys, each with the time at which it is due, and the keys that are being worked on.
//!
//! Owns delays and retry back-off. It knows no clock: its owner tells the time, which is that of `Store::elapsed`, so that
//! setting the clock has no effect.
//!
//!     add -> waiting -> take_due -> taken -> done, failed or put_back -> (waiting, where it was added meanwhile)
//!
//! Invariant: a key is waiting at most once, and a taken key is not given out again before its work has ended, so that
//! slow work for one key holds up no other. The number of objects that keys name bounds the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::QueueFigures;

/// The wait after a key's first failure; it doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(500);

/// The longest wait after a failure: for so long a key whose obstacle is gone may still wait.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Keys and the times at which they are due.
#[derive(Debug)]
pub(super) struct Queue<K> {
    now: Duration,
    due: BTreeMap<K, Duration>,
    /// Keys that wait for their times.
    order: BTreeSet<(Duration, K)>,
    /// Keys whose times have come.
    ready: BTreeSet<(Duration, K)>,
    taken: BTreeMap<K, Taken>,
    failures: BTreeMap<K, u32>,
    /// `None`: nothing measures the queue.
    figures: Option<Arc<QueueFigures>>,
}

/// The work for a key.
#[derive(Clone, Copy, Debug)]
struct Taken {
    start: Duration,
    /// The time at which the key is due again; `None`: nothing has asked for it.
    again: Option<Duration>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let (due, order, ready, taken, failures) = Default::default();
        Queue { now: Duration::ZERO, due, order, ready, taken, failures, figures: None }
    }
}

impl<K> Drop for Queue<K> {
    fn drop(&mut self) {
        if let Some(figures) = &self.figures {
            figures.forget(self.ready.len(), self.taken.values().map(|taken| taken.start));
        }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Sets the time. One that is earlier than the last has no effect.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        while self.order.first().is_some_and(|(at, _)| *at <= self.now)
            && let Some(come) = self.order.pop_first()
        {
            self.make_ready(come);
        }
    }

    /// Has `figures` measure the queue from now on.
    pub(super) fn measure(&mut self, figures: Arc<QueueFigures>) {
        figures.note_due(self.ready.len());
        self.figures = Some(figures);
    }

    fn make_ready(&mut self, key: (Duration, K)) {
        self.ready.insert(key);
        if let Some(figures) = &self.figures {
            figures.note_due(1);
        }
    }

    /// Time until the first key is due, zero where one is due already. `None`: no key is waiting.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.ready.first().or(self.order.first()).map(|(at, _)| at.saturating_sub(self.now))
    }

    /// Lets `time` pass.
    #[cfg(test)]
    pub(super) fn pass(&mut self, time: Duration) {
        self.advance(self.now + time);
    }

    /// Number of keys that are being worked on.
    pub(super) fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Makes `key` due after `delay`; one that is due sooner stays so. A key that is being worked on is due no sooner than
    /// the end of that work.
    pub(super) fn add(&mut self, key: &K, delay: Duration) {
        let at = self.now.saturating_add(delay);
        if let Some(Taken { again, .. }) = self.taken.get_mut(key) {
            *again = Some(again.map_or(at, |planned| planned.min(at)));
            return;
        }
        if let Some(&planned) = self.due.get(key) {
            if planned <= at {
                return;
            }
            // It was planned for later than now.
            self.order.remove(&(planned, key.clone()));
        }
        self.due.insert(key.clone(), at);
        if at <= self.now {
            self.make_ready((at, key.clone()));
        } else {
            self.order.insert((at, key.clone()));
        }
    }

    /// Takes at most `most` keys that are due, longest due first. Each is to be given back by `done`, `failed` or `put_back`.
    pub(super) fn take_due(&mut self, most: usize) -> Vec<K> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((at, key)) = self.ready.pop_first() else { break };
            self.due.remove(&key);
            self.taken.insert(key.clone(), Taken { start: self.now, again: None });
            if let Some(figures) = &self.figures {
                figures.note_taken(self.now - at, self.now);
            }
            taken.push(key);
        }
        taken
    }

    /// Ends the work on a taken key that could not be begun or was overtaken: it is due after `delay`.
    pub(super) fn put_back(&mut self, key: &K, delay: Duration) {
        self.release(key);
        self.add(key, delay);
    }

    /// Queues `key` again after a failure, with a back-off that doubles with each failure.
    pub(super) fn failed(&mut self, key: &K) {
        let failures = self.failures.entry(key.clone()).or_default();
        if let Some(figures) = &self.figures {
            figures.note_retry();
        }
        let factor = 1_u32.checked_shl(*failures).unwrap_or(u32::MAX);
        *failures += 1;
        self.put_back(key, RETRY_MIN.saturating_mul(factor).min(RETRY_MAX));
    }

    /// Ends the work on `key`, and resets its back-off.
    pub(super) fn done(&mut self, key: &K) {
        self.forget_failures(key);
        self.release(key);
    }

    /// Resets the back-off of `key`.
    pub(super) fn forget_failures(&mut self, key: &K) {
        self.failures.remove(key);
    }

    fn release(&mut self, key: &K) {
        let Some(Taken { start, again }) = self.taken.remove(key) else { return };
        if let Some(figures) = &self.figures {
            // As many as the loop works on at once.
            let first = self.taken.values().map(|taken| taken.start).min();
            figures.note_released(start, self.now, first);
        }
        if let Some(at) = again {
            self.add(key, at.saturating_sub(self.now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(queue: &mut Queue<&'static str>, millis: u64) -> Vec<&'static str> {
        queue.advance(queue.now + Duration::from_millis(millis));
        queue.take_due(10)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn keys_come_when_they_are_due_and_once() {
        let mut queue = Queue::default();
        queue.add(&"late", millis(40));
        queue.add(&"soon", millis(10));
        queue.add(&"late", millis(60));
        assert_eq!(queue.wait(), Some(millis(10)));
        assert_eq!(after(&mut queue, 9), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["soon"]);
        assert_eq!(queue.wait(), Some(millis(30)));
        assert_eq!(after(&mut queue, 29), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["late"]);
        assert_eq!((queue.wait(), queue.taken()), (None, 2));
    }

    #[test]
    fn a_sooner_wish_wins_and_a_batch_is_bounded() {
        let mut queue = Queue::default();
        queue.add(&"a", millis(90));
        queue.add(&"a", Duration::ZERO);
        queue.add(&"b", Duration::ZERO);
        assert_eq!(queue.take_due(1), ["a"]);
        assert_eq!(queue.take_due(1), ["b"]);
        assert_eq!(queue.wait(), None);
    }

    #[test]
    fn a_key_is_worked_on_once_at_a_time_and_nothing_asked_for_meanwhile_is_lost() {
        let mut queue = Queue::default();
        queue.add(&"a", Duration::ZERO);
        assert_eq!(queue.take_due(1), ["a"]);
        queue.add(&"a", millis(90));
        queue.add(&"a", millis(20));
        assert_eq!(after(&mut queue, 100), [""; 0], "its work goes on");
        queue.done(&"a");
        assert_eq!(after(&mut queue, 0), ["a"]);
        queue.put_back(&"a", millis(10));
        assert_eq!((after(&mut queue, 9), after(&mut queue, 1)), (vec![], vec!["a"]));
        queue.done(&"a");
        assert_eq!((queue.wait(), queue.taken()), (None, 0));
    }

    #[test]
    fn failures_wait_ever_longer_until_done() {
        let mut queue = Queue::default();
        queue.add(&"a", Duration::ZERO);
        for wait in [500, 1000, 2000, 4000] {
            assert_eq!(after(&mut queue, 0), ["a"]);
            queue.failed(&"a");
            assert_eq!(after(&mut queue, wait - 1), [""; 0]);
            queue.advance(queue.now + millis(1));
        }
        for _ in 0..100 {
            queue.failed(&"a");
        }
        assert_eq!(queue.wait(), Some(Duration::ZERO), "it is due already");
        assert_eq!(after(&mut queue, 0), ["a"]);
        queue.failed(&"a");
        assert_eq!(queue.wait(), Some(RETRY_MAX));
        assert_eq!(after(&mut queue, 60_000), ["a"]);
        queue.done(&"a");
        queue.failed(&"a");
        assert_eq!(after(&mut queue, 500), ["a"]);
    }

    #[test]
    fn figures_follow_keys_until_their_queue_ends() {
        let all = crate::metrics::LoopFigures::default();
        let text = || {
            let mut text = String::new();
            all.write(&mut text, Duration::from_secs(2), |_, _| String::new());
            text
        };
        let mut queue = Queue::default();
        queue.add(&"soon", millis(10));
        queue.add(&"now", Duration::ZERO);
        queue.measure(all.queue("x"));
        queue.add(&"later", millis(500));
        let has = |line: &str| assert!(text().contains(&format!("workqueue_{line}\n")), "{line}: {}", text());
        has("depth{name=\"x\"} 1");
        assert_eq!(after(&mut queue, 10), ["now", "soon"]);
        queue.add(&"later", Duration::ZERO);
        queue.add(&"later", Duration::ZERO);
        has("depth{name=\"x\"} 1");
        has("adds_total{name=\"x\"} 3");
        has("unfinished_work_seconds{name=\"x\"} 3.98");
        queue.advance(Duration::from_secs(1));
        queue.done(&"now");
        has("work_duration_seconds_count{name=\"x\"} 1");
        has("longest_running_processor_seconds{name=\"x\"} 1.99");
        queue.failed(&"soon");
        has("retries_total{name=\"x\"} 1");
        has("depth{name=\"x\"} 1");
        drop(queue);
        has("depth{name=\"x\"} 0");
        has("unfinished_work_seconds{name=\"x\"} 0");
    }

    #[test]
    fn time_does_not_go_back() {
        let mut queue = Queue::default();
        queue.advance(millis(50));
        queue.advance(millis(10));
        queue.add(&"a", millis(10));
        assert_eq!(queue.order.first(), Some(&(millis(60), "a")));
    }
}
