//! Pods that an event helped, or that failed by an error, until they may be tried again.
//!
//! Owns how long that takes: the initial backoff doubled with each rejection, or with each error in a row, to the
//! maximum. Ends of backoffs count in windows of one second, so that among pods that come free at about the same time the
//! one of highest priority is first. Pods that failed by errors stand apart: they always wait to the end.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::{Entry, EntryId};

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(1);

/// Order of pods that wait: by window, then as active pods.
type Key = (Duration, Reverse<i32>, Duration, EntryId);

#[derive(Debug)]
pub(super) struct Backoff {
    initial: Duration,
    max: Duration,
    rejected: BTreeSet<Key>,
    failed: BTreeSet<Key>,
}

impl Backoff {
    pub(super) fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff { initial, max, rejected: BTreeSet::new(), failed: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.rejected.len() + self.failed.len()
    }

    /// When the backoff of `entry` ends; `None` if it has had no attempt.
    pub(super) fn until(&self, entry: &Entry) -> Option<Duration> {
        let count = if entry.errors > 0 { entry.errors } else { entry.rejections };
        let doublings = count.checked_sub(1)?;
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        Some(entry.queued_at + self.initial.saturating_mul(factor).min(self.max))
    }

    /// Whether `entry` has to wait. One whose backoff ends within the window of `now` does.
    pub(super) fn is_backing_off(entry: &Entry, now: Duration) -> bool {
        entry.backoff_until.is_some_and(|until| until >= window(now))
    }

    pub(super) fn insert(&mut self, entry: &Entry) {
        let inserted = self.set(entry).insert(key(entry));
        debug_assert!(inserted, "an entry waits once");
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        let removed = self.set(entry).remove(&key(entry));
        debug_assert!(removed, "an entry in backoff stands under its key");
    }

    /// The rejected pod whose backoff ends soonest. Those that failed by errors are never taken early.
    pub(super) fn pop_soonest(&mut self) -> Option<EntryId> {
        self.rejected.pop_first().map(|(.., id)| id)
    }

    /// Takes out the pods whose windows are over.
    pub(super) fn take_completed(&mut self, now: Duration) -> Vec<EntryId> {
        let end: Key = (window(now), Reverse(i32::MAX), Duration::ZERO, 0);
        let mut completed = Vec::new();
        for set in [&mut self.rejected, &mut self.failed] {
            let waiting = set.split_off(&end);
            let done = std::mem::replace(set, waiting);
            completed.extend(done.into_iter().map(|(.., id)| id));
        }
        completed
    }

    /// The end of the first window.
    pub(super) fn next_completed(&self) -> Option<Duration> {
        let first = self.rejected.first().into_iter().chain(self.failed.first()).map(|(window, ..)| *window);
        first.min().map(|window| window + WINDOW)
    }

    fn set(&mut self, entry: &Entry) -> &mut BTreeSet<Key> {
        if entry.rejectors().is_empty() { &mut self.failed } else { &mut self.rejected }
    }
}

fn key(entry: &Entry) -> Key {
    let until = entry.backoff_until.unwrap_or(entry.queued_at);
    (window(until), Reverse(entry.priority), entry.queued_at, entry.id)
}

fn window(at: Duration) -> Duration {
    Duration::from_secs(at.as_secs())
}
