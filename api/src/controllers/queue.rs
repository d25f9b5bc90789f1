//! A delay queue: a set of keys, each with the tick at which it is due.
//!
//! Owns delays and retry back-off. It knows no clock: its owner counts ticks, so that setting the clock has no effect.
//! Invariant: a key is in the queue at most once. The number of objects that keys name bounds it.

use std::collections::{BTreeMap, BTreeSet};

/// A count of the owner's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(pub u64);

/// Longest retry back-off in ticks: a minute, at four ticks a second.
const RETRY_TICKS_MAX: u64 = 240;

/// Keys and the ticks at which they are due.
#[derive(Debug)]
pub(super) struct Queue<K> {
    now: Tick,
    due: BTreeMap<K, Tick>,
    order: BTreeSet<(Tick, K)>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let (due, order, failures) = Default::default();
        Queue { now: Tick(0), due, order, failures }
    }
}

impl<K: Clone + Ord> Queue<K> {
    /// Advances the clock by one tick.
    pub(super) fn tick(&mut self) {
        self.now.0 += 1;
    }

    /// Whether no key is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Makes `key` due after `ticks`; one that is due sooner stays so.
    pub(super) fn add(&mut self, key: &K, ticks: u64) {
        let at = Tick(self.now.0.saturating_add(ticks));
        if let Some(&planned) = self.due.get(key) {
            if planned <= at {
                return;
            }
            self.order.remove(&(planned, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key.clone()));
    }

    /// Takes at most `most` keys that are due, longest due first.
    pub(super) fn take_due(&mut self, most: usize) -> Vec<K> {
        let mut taken = Vec::new();
        while taken.len() < most {
            match self.order.first() {
                Some((at, _)) if *at <= self.now => {}
                _ => break,
            }
            let Some((_, key)) = self.order.pop_first() else { break };
            self.due.remove(&key);
            taken.push(key);
        }
        taken
    }

    /// Queues `key` again after a failure, with a back-off that doubles with each failure.
    pub(super) fn failed(&mut self, key: &K) {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures += 1;
        let ticks = 1_u64.checked_shl(*failures).unwrap_or(u64::MAX).min(RETRY_TICKS_MAX);
        self.add(key, ticks);
    }

    /// Resets the back-off of `key` after a success.
    pub(super) fn done(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(queue: &mut Queue<&'static str>, ticks: u64) -> Vec<&'static str> {
        for _ in 0..ticks {
            queue.tick();
        }
        queue.take_due(10)
    }

    #[test]
    fn keys_come_when_they_are_due_and_once() {
        let mut queue = Queue::default();
        queue.add(&"late", 4);
        queue.add(&"soon", 1);
        queue.add(&"late", 6);
        assert_eq!(after(&mut queue, 0), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["soon"]);
        assert_eq!(after(&mut queue, 2), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["late"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_sooner_wish_wins_and_a_batch_is_bounded() {
        let mut queue = Queue::default();
        queue.add(&"a", 9);
        queue.add(&"a", 0);
        queue.add(&"b", 0);
        assert_eq!(queue.take_due(1), ["a"]);
        assert_eq!(queue.take_due(1), ["b"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn failures_wait_ever_longer_until_done() {
        let mut queue = Queue::default();
        queue.failed(&"a");
        assert_eq!(after(&mut queue, 1), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["a"]);
        queue.failed(&"a");
        assert_eq!(after(&mut queue, 3), [""; 0]);
        assert_eq!(after(&mut queue, 1), ["a"]);
        for _ in 0..100 {
            queue.failed(&"a");
        }
        assert_eq!(after(&mut queue, RETRY_TICKS_MAX), ["a"]);
        queue.done(&"a");
        queue.failed(&"a");
        assert_eq!(after(&mut queue, 2), ["a"]);
    }
}
