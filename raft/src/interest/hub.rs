//! The subscriptions to one resource: whom a change concerns, how far each of them is, and its waking.
//!
//! Owns, for each subscription, the span of changes that concern it and that it has not passed. It queues no change: a
//! subscriber reads the history of the resource from the first change of its span, and knows that nothing before it, and
//! nothing between the span and what the hub has walked, concerns it. So the position of a subscriber that no change
//! concerned moves on without it being woken.
//!
//! The walk is a task's of its own, off the path on which entries are applied; the lock is held for a bounded number of
//! changes at a time. Tasks are woken in the order of their numbers, so that a simulation replays exactly.
//!
//! Invariant: every change up to `walked` that concerns a subscription and that it has not passed is in its span.
//! Invariant: `walked` is the revision of a published state or of a change in one, and no revision is walked in part.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Interest;
use super::index::Index;
#[cfg(any(test, feature = "simulation"))]
use super::planted::{HubBug, has};
use crate::key::Revision;
use crate::state::{Change, Collection};

/// Changes that are walked before others have the lock: some hundred microseconds.
pub(super) const CHANGES_PER_TURN: usize = 256;

/// The subscriptions to one resource. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub(Arc<Mutex<Subscribers>>);

#[derive(Debug, Default)]
struct Subscribers {
    /// Number of the newest subscription.
    newest: u64,
    entries: BTreeMap<u64, Entry>,
    index: Index,
    /// All changes up to this revision were walked.
    walked: Revision,
    closed: bool,
}

/// The waker and the span of a subscription.
#[derive(Debug, Default)]
struct Entry {
    waker: Option<Waker>,
    /// Something happened since [`Subscription::changed`] last returned.
    is_woken: bool,
    /// The subscriber has passed all changes up to this revision.
    passed: Revision,
    /// The first and the last change that concern it and that it has not passed. Empty where `last <= passed`.
    first: Revision,
    last: Revision,
}

/// A subscription to the changes of a resource that concern an interest.
#[derive(Debug)]
pub struct Subscription {
    hub: Hub,
    number: u64,
    interest: Interest,
}

impl Hub {
    /// A subscription. Changes up to `applied` count as walked if none were so far: the subscriber takes a state that has
    /// them after this call.
    pub(crate) fn subscribe(&self, interest: Interest, applied: Revision) -> Subscription {
        let mut subscribers = self.0.lock();
        if subscribers.entries.is_empty() {
            subscribers.walked = subscribers.walked.max(applied);
        }
        subscribers.newest += 1;
        let number = subscribers.newest;
        // The subscriber may begin at any older revision: until it has passed what is walked now, all of that concerns it.
        let entry = Entry { first: Revision(1), last: subscribers.walked, ..Entry::default() };
        #[cfg(any(test, feature = "simulation"))]
        let entry = if has(HubBug::BeginsAtTheWalk) { Entry::default() } else { entry };
        subscribers.entries.insert(number, entry);
        subscribers.index.file(&interest, number);
        drop(subscribers);
        Subscription { hub: self.clone(), number, interest }
    }

    /// Walks the changes of `collection`, those of the resource in a published state at `applied`, and wakes the
    /// subscribers whom they concern. Where changes are no longer held, they concern everybody.
    pub(crate) fn walk(&self, collection: &Collection, applied: Revision) {
        let mut wakers = BTreeMap::new();
        while !self.0.lock().walk_some(collection, applied, &mut wakers) {}
        wakers.into_values().for_each(Waker::wake);
    }

    /// Wakes every subscriber once, without a newer change.
    pub(crate) fn wake_all(&self) {
        let woken: Vec<Waker> = self.0.lock().entries.values_mut().filter_map(Entry::wake).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut subscribers = self.0.lock();
        subscribers.closed = true;
        let waiting: Vec<Waker> =
            subscribers.entries.values_mut().filter_map(|entry| entry.waker.take()).collect();
        drop(subscribers);
        waiting.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let subscribers = self.0.lock();
        subscribers.entries.is_empty()
            && !subscribers.index.has_narrow()
            && subscribers.index.of_everything().is_empty()
    }
}

impl Subscribers {
    /// Walks up to [`CHANGES_PER_TURN`] changes, and the rest of the last one's revision. Returns whether all are walked.
    fn walk_some(
        &mut self,
        collection: &Collection,
        applied: Revision,
        wakers: &mut BTreeMap<u64, Waker>,
    ) -> bool {
        if applied < self.walked {
            self.begin_again(applied, wakers);
        }
        let (from, newest) = (self.walked, collection.changed());
        if newest <= from || self.entries.is_empty() {
            self.walked = from.max(applied);
            return true;
        }
        let Ok(changes) = collection.changes_after(from) else {
            self.concern_all(Revision(from.0 + 1), newest, wakers);
            self.walked = applied.max(newest);
            return true;
        };
        let (mut found, mut first, mut last) = (Vec::new(), None, from);
        let is_narrow = self.index.has_narrow();
        let mut ends = applied.max(newest);
        for (at, change) in changes.enumerate() {
            if at >= CHANGES_PER_TURN && is_narrow && change.revision > last {
                ends = last;
                break;
            }
            first = first.or(Some(change.revision));
            last = change.revision;
            if is_narrow {
                self.concern(change, &mut found, wakers);
            } else {
                // Every change concerns every subscriber: the ends of the run are enough.
                last = newest;
                break;
            }
        }
        if let Some(first) = first {
            for number in self.index.of_everything() {
                if let Some(entry) = self.entries.get_mut(number) {
                    entry.concern(*number, first, last, wakers);
                }
            }
        }
        self.walked = ends;
        ends == applied.max(newest)
    }

    /// The state was replaced by an older one: what was walked after `applied` is not known any more.
    fn begin_again(&mut self, applied: Revision, wakers: &mut BTreeMap<u64, Waker>) {
        let walked = std::mem::replace(&mut self.walked, applied);
        for entry in self.entries.values_mut() {
            entry.passed = entry.passed.min(applied);
        }
        self.concern_all(Revision(1), walked, wakers);
    }

    /// Notes one change for the subscribers of narrow interests.
    fn concern(&mut self, change: &Change, found: &mut Vec<u64>, wakers: &mut BTreeMap<u64, Waker>) {
        found.clear();
        self.index.concerned(change, found);
        for number in found.iter() {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.concern(*number, change.revision, change.revision, wakers);
                #[cfg(any(test, feature = "simulation"))]
                if has(HubBug::LosesWakes) {
                    entry.is_woken = wakers.contains_key(number);
                }
            }
        }
    }

    fn concern_all(&mut self, first: Revision, last: Revision, wakers: &mut BTreeMap<u64, Waker>) {
        for (number, entry) in &mut self.entries {
            entry.concern(*number, first, last, wakers);
        }
    }
}

impl Entry {
    /// Adds the changes from `first` to `last` to the span, unless they are passed.
    fn concern(&mut self, number: u64, first: Revision, last: Revision, wakers: &mut BTreeMap<u64, Waker>) {
        if last <= self.passed {
            return;
        }
        self.first = if self.last <= self.passed { first } else { self.first.min(first) };
        self.last = self.last.max(last);
        if let Some(waker) = self.wake() {
            wakers.insert(number, waker);
        }
    }

    /// Notes that something happened, and takes the waker of a task that waits for it.
    fn wake(&mut self) -> Option<Waker> {
        self.is_woken = true;
        self.waker.take()
    }
}

impl Subscription {
    /// Waits until changes concern the interest, or for an alarm, and returns the revision up to which changes are walked.
    /// `None` once the store has ended. Cancel-safe: a dropped call loses nothing.
    pub async fn changed(&mut self) -> Option<Revision> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// Notes that the subscriber has passed all changes up to `position`, and returns the newest revision, no older than
    /// that, up to which no other change concerns it.
    pub fn pass(&self, position: Revision) -> Revision {
        let mut subscribers = self.hub.0.lock();
        let walked = subscribers.walked;
        let Some(entry) = subscribers.entries.get_mut(&self.number) else { return position };
        entry.passed = entry.passed.max(position);
        #[cfg(any(test, feature = "simulation"))]
        if has(HubBug::PassesPending) {
            return position.max(walked);
        }
        let clear = if entry.last <= position { walked } else { Revision(entry.first.0.saturating_sub(1)) };
        position.max(clear)
    }

    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<Revision>> {
        let mut subscribers = self.hub.0.lock();
        let (walked, is_closed) = (subscribers.walked, subscribers.closed);
        let Some(entry) = subscribers.entries.get_mut(&self.number) else { return Poll::Ready(None) };
        if std::mem::take(&mut entry.is_woken) {
            return Poll::Ready(Some(walked));
        }
        if is_closed {
            return Poll::Ready(None);
        }
        entry.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.hub.0.lock();
        subscribers.entries.remove(&self.number);
        subscribers.index.unfile(&self.interest, self.number);
    }
}
