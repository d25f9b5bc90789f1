//! The subscriptions to one resource: the changes that concern each, its position, and its waking.
//!
//! Owns, for each subscription, the span of changes that concern it and that it has not passed. It queues no change: a
//! subscriber reads the history of the resource from the first change of its span, and knows that nothing before it, and
//! nothing between the span and what the hub has walked, concerns it. So the position of a subscriber that no change
//! concerned moves on without it being woken.
//!
//! The walk is a task's of its own, off the path on which entries are applied. It goes in turns, between which others have the
//! lock: a turn is bounded by changes, by the subscriptions that they are noted for and by look-ups. Crowds, the subscribers
//! of everything and any others of whom many have one interest, are noted once for a walk: each of them is woken by it, and
//! reads to its end. Tasks are woken after each turn, in the order of their numbers, so that a simulation replays exactly.
//!
//! Invariant: every change up to `walked` that concerns a subscription and that it has not passed is in its span.
//! Invariant: `walked` is the revision of a published state or of a change in one, and no revision is walked in part.
//! Invariant: no waker is woken or dropped under the lock, since a task that ends may drop its subscription.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Interest;
use super::index::{Found, Index};
#[cfg(any(test, feature = "simulation"))]
use super::planted::{HubBug, has};
use crate::key::Revision;
use crate::state::{Change, Collection};

/// Changes that are walked before others have the lock: some hundred microseconds.
const CHANGES_PER_TURN: usize = 256;

/// Subscriptions that changes are noted for before others have the lock: as long. One revision may go beyond it.
const TOUCHES_PER_TURN: usize = 4096;

/// Look-ups that take as long as noting a change for a subscription, whose memory is cold.
const LOOKUPS_PER_TOUCH: usize = 8;

/// Subscriptions of one interest from which on they are noted once for a walk: fewer take less than a change does anyway.
const CROWD_MIN: usize = 64;

/// The bounds of a turn, which ends at the edge of a revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnBounds {
    pub changes: usize,
    /// Subscriptions of narrow interests that changes are noted for; one counts for each change.
    pub touches: usize,
    /// Subscriptions of a crowd.
    pub crowd: usize,
}

impl Default for TurnBounds {
    fn default() -> Self {
        TurnBounds { changes: CHANGES_PER_TURN, touches: TOUCHES_PER_TURN, crowd: CROWD_MIN }
    }
}

/// How far a turn led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Turn {
    /// There are more changes to walk.
    More,
    /// All changes are walked.
    Last,
}

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
    bounds: TurnBounds,
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
    interest: Arc<Interest>,
}

impl Hub {
    /// A hub whose subscriptions have ended.
    pub(crate) fn closed() -> Hub {
        let hub = Hub::default();
        hub.close();
        hub
    }

    /// A hub with other bounds of a turn.
    #[cfg(test)]
    pub(super) fn with_bounds(bounds: TurnBounds) -> Hub {
        Hub(Arc::new(Mutex::new(Subscribers { bounds, ..Subscribers::default() })))
    }

    /// A subscription. Changes up to `applied` count as walked if none were so far: the subscriber takes a state that has
    /// them after this call.
    pub(crate) fn subscribe(&self, interest: Interest, applied: Revision) -> Subscription {
        let mut subscribers = self.0.lock();
        if subscribers.entries.is_empty() {
            subscribers.walked = subscribers.walked.max(applied);
        }
        subscribers.newest += 1;
        let number = subscribers.newest;
        let announced = subscribers.index.file(&interest, number);
        // The subscriber may begin at any older revision: until it has passed what is walked now, or was announced to those
        // of its interest, all of that concerns it.
        let last = subscribers.walked.max(announced);
        let entry = Entry { first: Revision(1), last, ..Entry::default() };
        #[cfg(any(test, feature = "simulation"))]
        let entry = if has(HubBug::BeginsAtTheWalk) { Entry::default() } else { entry };
        subscribers.entries.insert(number, entry);
        drop(subscribers);
        Subscription { hub: self.clone(), number, interest: Arc::new(interest) }
    }

    /// Walks the changes of `collection`, those of the resource in a published state at `applied`, and wakes the
    /// subscribers whom they concern. Where changes are no longer held, they concern everybody.
    pub(crate) fn walk(&self, collection: &Collection, applied: Revision) {
        while self.turn(collection, applied) == Turn::More {}
    }

    /// A turn of [`Hub::walk`]: the next changes, from the end of the last turn on.
    pub(crate) fn turn(&self, collection: &Collection, applied: Revision) -> Turn {
        let mut wakers = BTreeMap::new();
        let turn = self.0.lock().turn(collection, applied, &mut wakers);
        wakers.into_values().for_each(Waker::wake);
        turn
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
        subscribers.entries.is_empty() && subscribers.index.is_empty()
    }
}

impl Subscribers {
    fn turn(
        &mut self,
        collection: &Collection,
        applied: Revision,
        wakers: &mut BTreeMap<u64, Waker>,
    ) -> Turn {
        let (from, newest) = (self.walked, collection.changed());
        if newest <= from || self.entries.is_empty() {
            self.walked = from.max(applied);
            return Turn::Last;
        }
        let Ok(changes) = collection.changes_after(from) else {
            self.concern_all(Revision(from.0 + 1), newest, wakers);
            self.walked = applied.max(newest);
            return Turn::Last;
        };
        self.concern_everything(newest, wakers);
        let cut = self.concern_narrow(changes, newest, wakers);
        self.walked = cut.unwrap_or(applied.max(newest));
        if cut.is_some() { Turn::More } else { Turn::Last }
    }

    /// Notes the changes up to `newest` for the subscribers of everything: once, whatever the number of turns.
    fn concern_everything(&mut self, newest: Revision, wakers: &mut BTreeMap<u64, Waker>) {
        let (known, numbers) = self.index.of_everything(self.walked, newest);
        for number in numbers {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.concern(*number, Revision(known.0 + 1), newest, wakers);
            }
        }
    }

    /// Notes changes up to `newest` for the subscribers of narrow interests. Returns the revision after which the turn is
    /// cut; `None`: the changes are through.
    fn concern_narrow<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a Change>,
        newest: Revision,
        wakers: &mut BTreeMap<u64, Waker>,
    ) -> Option<Revision> {
        if !self.index.has_narrow() {
            return None;
        }
        let (mut found, mut touched) = (Found::new(newest, self.bounds.crowd), 0);
        let mut last = self.walked;
        for (at, change) in changes.enumerate() {
            let work = touched + found.lookups / LOOKUPS_PER_TOUCH;
            let is_enough = at >= self.bounds.changes || work >= self.bounds.touches;
            #[cfg(any(test, feature = "simulation"))]
            if is_enough && has(HubBug::CutsRevisions) {
                return Some(last);
            }
            if is_enough && change.revision > last {
                return Some(last);
            }
            last = change.revision;
            found.watchers.clear();
            self.index.concerned(change, &mut found);
            touched += found.watchers.len();
            self.concern(change.revision, &found.watchers, wakers);
        }
        None
    }

    /// Notes a change for the subscribers whom it concerns, up to the revision beside each.
    fn concern(&mut self, revision: Revision, found: &[(u64, Revision)], wakers: &mut BTreeMap<u64, Waker>) {
        for (number, last) in found {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.concern(*number, revision, *last, wakers);
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
    /// The interest that it is filed under.
    pub fn interest(&self) -> &Arc<Interest> {
        &self.interest
    }

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
        let is_known = entry.waker.as_ref().is_some_and(|known| known.will_wake(context.waker()));
        let earlier = if is_known { None } else { entry.waker.replace(context.waker().clone()) };
        drop(subscribers);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.hub.0.lock();
        let entry = subscribers.entries.remove(&self.number);
        subscribers.index.unfile(&self.interest, self.number);
        drop(subscribers);
        drop(entry);
    }
}
