//! The event loops of connections: runtimes of one thread each, over which connections are spread.
//!
//! A runtime with several workers wakes an idle one whenever another finds something to do, in case there is more. Where few requests
//! come at a time there is not, and the wake-ups are a fifth of a request's price. A connection therefore stays on the loop that it
//! was given to, and each loop waits for its own connections alone.
//!
//! Owns the choice of the loop, by the number of open connections, and the counts. Starting and stopping the threads is in
//! `run/threads`. Invariant: a connection's socket, timers and tasks belong to the runtime of its loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;

/// The event loops of a server; clones share them.
#[derive(Clone, Debug)]
pub struct EventLoops {
    first: EventLoop,
    others: Arc<[EventLoop]>,
}

/// A runtime and the number of its connections.
#[derive(Clone, Debug)]
struct EventLoop {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection's share of a loop, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat(EventLoop);

impl EventLoops {
    /// The loops that run on `first` and on `others`.
    pub fn new(first: Handle, others: impl IntoIterator<Item = Handle>) -> EventLoops {
        EventLoops { first: EventLoop::on(first), others: others.into_iter().map(EventLoop::on).collect() }
    }

    /// A seat on the loop with the fewest connections, the first of several.
    pub(super) fn take_seat(&self) -> Seat {
        let mut chosen = &self.first;
        for other in self.others.iter() {
            if other.connections() < chosen.connections() {
                chosen = other;
            }
        }
        chosen.connections.fetch_add(1, Ordering::Relaxed);
        Seat(chosen.clone())
    }
}

impl EventLoop {
    fn on(runtime: Handle) -> EventLoop {
        EventLoop { runtime, connections: Arc::default() }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Seat {
    /// The runtime of the loop.
    pub(super) fn runtime(&self) -> Handle {
        self.0.runtime.clone()
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

    #[tokio::test]
    async fn connections_go_to_the_loop_with_the_fewest() {
        let loops = EventLoops::new(Handle::current(), [Handle::current(), Handle::current()]);
        let counts = || {
            let others = loops.others.iter().map(EventLoop::connections);
            std::iter::once(loops.first.connections()).chain(others).collect::<Vec<_>>()
        };
        let mut seats: Vec<Seat> = (0..7).map(|_| loops.take_seat()).collect();
        assert_eq!(counts(), [3, 2, 2]);
        // Those of the second loop end: it gets the next ones.
        seats.swap_remove(4);
        seats.swap_remove(1);
        assert_eq!(counts(), [3, 0, 2]);
        seats.extend((0..2).map(|_| loops.take_seat()));
        assert_eq!(counts(), [3, 2, 2]);
        drop(seats);
        assert_eq!(counts(), [0, 0, 0]);
    }
}
