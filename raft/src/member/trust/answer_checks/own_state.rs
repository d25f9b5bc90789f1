//! The checks of answers against this member's own state.
//!
//! Owns what a member knows that bounds a term or a reversion. The interface, which links use, is the parent's.

use openraft::async_runtime::watch::WatchReceiver;

use super::{DOUBTFUL_TERMS_AHEAD_MAX, ELECTIONS_AHEAD_MAX, Scrutiny, TERMS_AHEAD_MAX};
use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::term_of;
use crate::member::core::Core;
use crate::transport::{NodeId, Transport};

impl<R: Runtime, D: Disk, T: Transport> Scrutiny for Core<R, D, T> {
    fn may_promise(&self, peer: u64) -> bool {
        self.is_compared(NodeId(peer))
    }

    fn is_term_possible(&self, term: u64) -> bool {
        term <= self.term_limit(true)
    }

    fn is_followed(&self) -> bool {
        Core::is_followed(self)
    }

    fn may_warn(&self, cause: &'static str) -> bool {
        self.warnings.may_warn(cause)
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The highest term that elections can have led to. `is_doubtful`: no member but the sender vouches for the term.
    pub(crate) fn term_limit(&self, is_doubtful: bool) -> u64 {
        let applied = self.raft.metrics().borrow_watched().last_applied;
        let ahead = if is_doubtful { DOUBTFUL_TERMS_AHEAD_MAX } else { TERMS_AHEAD_MAX };
        let by_log = applied.as_ref().map_or(0, term_of).saturating_add(ahead);
        // Where this member's own term is far ahead of its log, it adopted a term that may have been made up.
        let by_own = self.term().saturating_add(ELECTIONS_AHEAD_MAX);
        if is_doubtful && by_own > by_log.saturating_add(ELECTIONS_AHEAD_MAX) {
            by_log
        } else {
            by_log.max(by_own)
        }
    }
}
