//! Wakes tasks when a revision is applied.
//!
//! Owns two ways of waiting: [`Subscription`] for any newer revision (watchers of a resource), and `Gate` for one
//! revision (readers behind a barrier). Tasks are woken in a fixed order, that of their numbers, so that a simulation
//! replays exactly; the channels of the async runtimes wake in an order that differs from run to run. Nothing is queued
//! for a waiting task.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::key::Revision;

/// Announces the newest revision of a resource to any number of subscriptions. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announcer(Arc<Topic>);

#[derive(Debug, Default)]
struct Topic {
    newest: AtomicU64,
    /// Number of alarms: wake-ups without a newer revision.
    alarms: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
    closed: bool,
}

/// A cursor that wakes its task when a newer revision is announced. Takes a few words of memory, and none for each
/// change.
#[derive(Debug)]
pub struct Subscription {
    announced: Arc<Topic>,
    number: u64,
    seen: Revision,
    alarms_seen: u64,
}

impl Announcer {
    /// Wakes every subscription that has not seen `revision`.
    pub(crate) fn announce(&self, revision: Revision) {
        self.0.newest.fetch_max(revision.0, Ordering::AcqRel);
        self.wake();
    }

    /// Wakes every subscription once, without a newer revision.
    pub(crate) fn wake_all(&self) {
        self.0.alarms.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        self.0.waiting.lock().closed = true;
        self.wake();
    }

    /// A cursor that has seen every revision and alarm so far.
    pub(crate) fn subscribe(&self) -> Subscription {
        let mut waiting = self.0.waiting.lock();
        waiting.next += 1;
        let seen = Revision(self.0.newest.load(Ordering::Acquire));
        let alarms_seen = self.0.alarms.load(Ordering::Acquire);
        Subscription { announced: self.0.clone(), number: waiting.next, seen, alarms_seen }
    }

    fn wake(&self) {
        let wakers = std::mem::take(&mut self.0.waiting.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Subscription {
    /// Waits for a revision newer than any this cursor has returned, or for an alarm, and returns the newest. `None`
    /// once the store has ended. Cancel-safe: a dropped call loses no revision.
    pub async fn changed(&mut self) -> Option<Revision> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// The newest revision announced, even if [`Subscription::changed`] has not returned it yet.
    pub fn newest(&self) -> Revision {
        Revision(self.announced.newest.load(Ordering::Acquire))
    }

    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<Revision>> {
        let mut waiting = self.announced.waiting.lock();
        let newest = Revision(self.announced.newest.load(Ordering::Acquire));
        let alarms = self.announced.alarms.load(Ordering::Acquire);
        if newest > self.seen || alarms != self.alarms_seen {
            (self.seen, self.alarms_seen) = (newest, alarms);
            return Poll::Ready(Some(newest));
        }
        if waiting.closed {
            return Poll::Ready(None);
        }
        waiting.wakers.insert(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.announced.waiting.lock().wakers.remove(&self.number);
    }
}

/// The applied revision, and the tasks that each wait for a revision. Each task is woken once, when its revision is
/// applied.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    reached: AtomicU64,
    waiting: Mutex<GateWaiting>,
}

#[derive(Debug, Default)]
struct GateWaiting {
    next: u64,
    wakers: BTreeMap<(Revision, u64), Waker>,
}

impl Gate {
    /// Wakes every task that waits for `revision` or less.
    pub(crate) fn advance(&self, revision: Revision) {
        self.reached.fetch_max(revision.0, Ordering::AcqRel);
        let through = {
            let mut waiting = self.waiting.lock();
            let later = waiting.wakers.split_off(&(Revision(revision.0.saturating_add(1)), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        through.into_values().for_each(Waker::wake);
    }

    /// The applied revision.
    pub(crate) fn reached(&self) -> Revision {
        Revision(self.reached.load(Ordering::Acquire))
    }

    /// Completes once `revision` is reached.
    pub(crate) fn wait(&self, revision: Revision) -> GateWait<'_> {
        GateWait { gate: self, revision, number: None }
    }
}

/// Future of [`Gate::wait`].
#[derive(Debug)]
pub(crate) struct GateWait<'a> {
    gate: &'a Gate,
    revision: Revision,
    number: Option<u64>,
}

impl Future for GateWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate;
        if gate.reached() >= self.revision {
            return Poll::Ready(());
        }
        let mut waiting = gate.waiting.lock();
        if gate.reached() >= self.revision {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert((self.revision, number), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for GateWait<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.gate.waiting.lock().wakers.remove(&(self.revision, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_subscription_sees_the_newest_once_and_ends_with_its_announcer() {
        let announcer = Announcer::default();
        announcer.announce(Revision(3));
        let mut subscription = announcer.subscribe();
        assert!(poll(&mut Box::pin(subscription.changed())).is_pending());
        announcer.announce(Revision(4));
        announcer.announce(Revision(6));
        assert_eq!(poll(&mut Box::pin(subscription.changed())), Poll::Ready(Some(Revision(6))));
        assert!(poll(&mut Box::pin(subscription.changed())).is_pending());
        announcer.close();
        assert_eq!(poll(&mut Box::pin(subscription.changed())), Poll::Ready(None));
    }

    #[test]
    fn a_dropped_subscription_leaves_no_waker() {
        let announcer = Announcer::default();
        let mut subscription = announcer.subscribe();
        assert!(poll(&mut Box::pin(subscription.changed())).is_pending());
        drop(subscription);
        assert!(announcer.0.waiting.lock().wakers.is_empty());
    }

    #[test]
    fn a_gate_opens_for_those_reached_and_no_others() {
        let gate = Gate::default();
        let (mut early, mut late) = (gate.wait(Revision(5)), gate.wait(Revision(7)));
        assert!(poll(&mut early).is_pending() && poll(&mut late).is_pending());
        gate.advance(Revision(6));
        assert!(poll(&mut early).is_ready() && poll(&mut late).is_pending());
        drop(late);
        assert!(gate.waiting.lock().wakers.is_empty());
        assert!(poll(&mut gate.wait(Revision(6))).is_ready());
    }
}
