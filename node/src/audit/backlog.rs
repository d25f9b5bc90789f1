//! The buffer between requests and a sink's thread.
//!
//! Owns its bounds, and what happens at them. In mode batch an event that finds no place is dropped. In the blocking
//! modes each request waits for its own event, so that the buffer holds no more events than there are requests under
//! way; the bounds are those of requests whose clients left while the sink hangs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orch_api::audit::NotStored;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::pacing::Throttle;

/// Bytes of events in the buffer, next to the bound on their number: with objects an event may have six megabytes.
const BYTES_MAX: usize = 64 << 20;

/// Events in the buffer in the blocking modes: more than requests that a node carries out at once.
const BLOCKED_EVENTS_MAX: usize = 65_536;

/// Events that are stored at once in the blocking modes: those that came while the batch before was written.
const BLOCKED_BATCH_MAX: usize = 1024;

/// The wait of a request for its audit events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// None.
    Batch(BatchOptions),
    /// Until its events are stored.
    Blocking,
    /// Until its events are stored. Without the first one the request is not carried out.
    BlockingStrict,
}

/// The settings of mode batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchOptions {
    /// Events in the buffer.
    pub buffer: usize,
    /// Events of one batch; at least 1.
    pub batch: usize,
    /// How long a batch waits to fill.
    pub wait: Duration,
    /// Limit of the batches a second.
    pub throttle: Option<Throttle>,
}

/// An event that waits to be stored.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) event: Bytes,
    /// Told the outcome; absent where nobody waits.
    pub(super) stored: Option<oneshot::Sender<Result<(), NotStored>>>,
}

/// The buffer of one sink.
#[derive(Debug)]
pub(super) struct Backlog {
    events_max: usize,
    batch_max: usize,
    batch_bytes_max: usize,
    wait: Duration,
    state: Mutex<State>,
    /// Woken by a new event and by the end.
    changed: Condvar,
}

// Invariant: `bytes` is the sum of the lengths of `events`.
#[derive(Debug, Default)]
struct State {
    events: VecDeque<Waiting>,
    bytes: usize,
    is_closed: bool,
}

impl Backlog {
    /// An empty buffer. `batch_bytes_max`: bytes above which a batch takes no further event.
    pub(super) fn new(mode: Mode, batch_bytes_max: usize) -> Backlog {
        let (events_max, batch_max, wait) = match mode {
            Mode::Batch(options) => (options.buffer, options.batch, options.wait),
            Mode::Blocking | Mode::BlockingStrict => (BLOCKED_EVENTS_MAX, BLOCKED_BATCH_MAX, Duration::ZERO),
        };
        let (state, changed) = (Mutex::default(), Condvar::new());
        Backlog { events_max, batch_max, batch_bytes_max, wait, state, changed }
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The buffer is full, or the node is stopping.
    pub(super) fn push(&self, waiting: Waiting) -> Result<(), NotStored> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(NotStored("the node is stopping".to_owned()));
        }
        let bytes = state.bytes + waiting.event.len();
        if state.events.len() >= self.events_max || bytes > BYTES_MAX {
            return Err(NotStored("the buffer is full".to_owned()));
        }
        state.bytes = bytes;
        state.events.push_back(waiting);
        // The thread sleeps through a batch that is filling until it is full or its time is over.
        if state.events.len() == 1 || state.events.len() >= self.batch_max {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for the next batch. `None`: the buffer is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state.lock();
        while state.events.is_empty() {
            if state.is_closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
        let until = Instant::now() + self.wait;
        while state.events.len() < self.batch_max && !state.is_closed && !self.wait.is_zero() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < self.batch_max
            && let Some(next) = state.events.front()
            && (batch.is_empty() || bytes + next.event.len() <= self.batch_bytes_max)
        {
            bytes += next.event.len();
            batch.extend(state.events.pop_front());
        }
        state.bytes -= bytes;
        Some(batch)
    }

    /// Takes no further events. Those in the buffer are still stored.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Whether [`Backlog::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}
