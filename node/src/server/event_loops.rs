//! The event loops of connections: runtimes of one thread each, over which connections are spread.
//!
//! A runtime with several workers wakes an idle one whenever another finds something to do, in case there is more. Where few requests
//! come at a time there is not, and the wake-ups are a fifth of a request's price. A connection therefore stays on the loop that it
//! was given to, and each loop waits for its own connections alone.
//!
//! Owns the choice of the loop, by the number of open connections, the counts, and what the connections of a loop take turns by. Starting
//! and stopping the threads is in `run/threads`. Invariant: a connection's socket, timers and tasks belong to the runtime of its loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::runtime::{EnterGuard, Handle};

use super::handshakes::Handshakes;
use super::turns::Writers;

/// The event loops of a server; clones share them.
#[derive(Clone, Debug)]
pub struct EventLoops {
    first: Arc<EventLoop>,
    others: Arc<[Arc<EventLoop>]>,
    /// Connections so far.
    given: Arc<AtomicU64>,
}

/// A runtime of one thread, and what its connections take turns by.
#[derive(Debug)]
pub(super) struct EventLoop {
    runtime: Handle,
    /// Open connections.
    connections: AtomicUsize,
    /// Number of the last connection that it was given, of all of the server; 0 before the first.
    last: AtomicU64,
    writers: Writers,
    handshakes: Handshakes,
}

/// A connection's share of a loop, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<EventLoop>);

impl EventLoops {
    /// The loops that run on `first` and on `others`.
    pub fn new(first: Handle, others: impl IntoIterator<Item = Handle>) -> EventLoops {
        let (first, others) = (EventLoop::on(first), others.into_iter().map(EventLoop::on).collect());
        EventLoops { first, others, given: Arc::default() }
    }

    /// The loop for the next connection: that with the fewest, of several the one that has waited longest. Connections that a
    /// client opens together, which may be the busy ones, so come to different loops. Ports that accept at the same time may choose the same one.
    pub(super) fn fewest(&self) -> &Arc<EventLoop> {
        let every = std::iter::once(&self.first).chain(self.others.iter());
        every.min_by_key(|one| one.standing()).unwrap_or(&self.first)
    }

    /// A seat on `chosen`.
    pub(super) fn seat(&self, chosen: &Arc<EventLoop>) -> Seat {
        chosen.connections.fetch_add(1, Ordering::Relaxed);
        chosen.last.store(self.given.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Seat(Arc::clone(chosen))
    }
}

impl EventLoop {
    fn on(runtime: Handle) -> Arc<EventLoop> {
        Arc::new(EventLoop {
            runtime,
            connections: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            writers: Writers::of_loop(),
            handshakes: Handshakes::default(),
        })
    }

    /// Its connections, and the number of the last one.
    fn standing(&self) -> (usize, u64) {
        (self.connections.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed))
    }

    /// Sockets that are made before the guard is dropped belong to the loop.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

impl Seat {
    pub(super) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    pub(super) fn writers(&self) -> Writers {
        self.0.writers.clone()
    }

    pub(super) fn handshakes(&self) -> Handshakes {
        self.0.handshakes.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_seat(loops: &EventLoops) -> Seat {
        loops.seat(loops.fewest())
    }

    fn counts(loops: &EventLoops) -> Vec<usize> {
        let every = std::iter::once(&loops.first).chain(loops.others.iter());
        every.map(|one| one.standing().0).collect()
    }

    fn three() -> EventLoops {
        EventLoops::new(Handle::current(), [Handle::current(), Handle::current()])
    }

    #[tokio::test]
    async fn connections_go_to_the_loop_with_the_fewest() {
        let loops = three();
        let mut seats: Vec<Seat> = (0..7).map(|_| take_seat(&loops)).collect();
        assert_eq!(counts(&loops), [3, 2, 2]);
        // Those of the second loop end: it gets the next ones.
        seats.swap_remove(4);
        seats.swap_remove(1);
        assert_eq!(counts(&loops), [3, 0, 2]);
        seats.extend((0..2).map(|_| take_seat(&loops)));
        assert_eq!(counts(&loops), [3, 2, 2]);
        drop(seats);
        assert_eq!(counts(&loops), [0, 0, 0]);
    }

    #[tokio::test]
    async fn connections_that_are_opened_together_go_to_different_loops_beside_an_idle_one() {
        let loops = three();
        let short = take_seat(&loops);
        let _idle = take_seat(&loops);
        drop(short);
        assert_eq!(counts(&loops), [0, 1, 0]);
        let _busy = [take_seat(&loops), take_seat(&loops), take_seat(&loops)];
        assert_eq!(counts(&loops), [1, 2, 1], "each on its own");
    }
}
