//! Whether a watch still sends what was there when it began.
//!
//! Owns the one bit that the watch writes and the connection reads: until the initial events are through, the watch holds
//! the state of the moment it began, and its client has to take them in time, as it would a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The initial events of one watch.
#[derive(Clone, Debug)]
pub struct InitialEvents {
    are_due: Arc<AtomicBool>,
}

impl InitialEvents {
    /// Of a watch that begins; `are_due`: it has initial events to send.
    pub fn new(are_due: bool) -> InitialEvents {
        InitialEvents { are_due: Arc::new(are_due.into()) }
    }

    /// Whether some are still to be sent.
    pub fn are_due(&self) -> bool {
        self.are_due.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.are_due.store(false, Ordering::Relaxed);
    }
}
