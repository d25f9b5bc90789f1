//! Changes of the membership, and the way from one leader to the next.
//!
//!     change      an operator's request, made by the leader -> feasible, known_voters: can it be committed?
//!     completion  the second step of a change that a lost leader left half done
//!     handover    a leader gives the lead away; succession: a dead one is noticed; slow_disk: a leader's disk is slow
//!
//! Owns what the leader holds while the membership changes.

pub(crate) mod change;
mod completion;
mod feasible;
mod handover;
pub(crate) mod known_voters;
mod slow_disk;
mod succession;
mod voters_since;

use std::sync::atomic::{AtomicU64, Ordering};

use self::voters_since::VotersSince;

/// The state of a leader while the membership changes.
#[derive(Default)]
pub(crate) struct Changes {
    /// Held by the task that changes the membership, while this member leads.
    changing: tokio::sync::Mutex<()>,
    /// For each voter, a log index at which it was a voter.
    voters_since: VotersSince,
    /// Leads that this member has given up because of its disk, since it started.
    slow_disk_handovers: AtomicU64,
}

impl Changes {
    /// Leads that this member has given up because of its disk, since it started.
    pub(crate) fn slow_disk_handovers(&self) -> u64 {
        self.slow_disk_handovers.load(Ordering::Relaxed)
    }
}
