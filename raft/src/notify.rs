//! Wakes tasks that wait for a revision to be applied: readers behind a barrier.
//!
//! Tasks are woken in a fixed order, that of their numbers, so that a simulation replays exactly; the channels of the async
//! runtimes wake in an order that differs from run to run. Watchers wait otherwise: see [`crate::interest`].

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::key::Revision;

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
