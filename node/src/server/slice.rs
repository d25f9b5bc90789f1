//! The time that a connection's task runs before other tasks of its thread have their turn.
//!
//! Owns the length of a slice and its end. Streams ([`super::streams`]) and the frames of responses ([`super::pace`]) look at it
//! before they go on. It interrupts nothing.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time after which other tasks of the thread have their turn: some frames of a list, or the events of a hundred
/// watches. A client has a hundred streams on a connection, each of which may render or compress for milliseconds.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// The end of a connection's current slice; `None` before the first.
#[derive(Debug, Default)]
pub(super) struct Slice(Mutex<Option<Instant>>);

impl Slice {
    /// Begins a slice. Called at the start of each poll of the connection's task.
    pub(super) fn begin(&self) {
        *self.0.lock() = Some(Instant::now() + SLICE);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.lock().is_some_and(|end| Instant::now() >= end)
    }
}
