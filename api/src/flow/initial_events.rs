//! The flag of a watch that still sends its initial events.
//!
//! Owns the flag that the watch writes, and that the connection and the seat of the request read. Until the initial events are sent, the watch holds the
//! state at its start, and the connection enforces its deadline for the client to take them, as for a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag of one watch, shared with its connection.
#[derive(Clone, Debug)]
pub struct InitialEvents {
    are_due: Arc<AtomicBool>,
}

impl InitialEvents {
    /// The flag of a new watch; `are_due`: the watch starts with initial events.
    pub fn new(are_due: bool) -> InitialEvents {
        InitialEvents { are_due: Arc::new(are_due.into()) }
    }

    /// Whether initial events are still to be sent.
    pub fn are_due(&self) -> bool {
        self.are_due.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.are_due.store(false, Ordering::Relaxed);
    }
}
