//! Linearizable reads of a leader that is the only member: it asks nobody.
//!
//! Owns the question whether this member is alone, now. Where it is, every acknowledged write was acknowledged by
//! this program after it had published the state with that write, so that the published state is as new as a read must be.
//! A learner applies by itself what is committed, and may be ahead of its leader in that, as a voter may have been until it
//! was removed. So a member is alone when its membership, applied here, has no other member: to those that it lacks nothing
//! is sent from its entry on, and what they have acknowledged before is applied here.
//!
//! Why that is safe. Nobody else can be elected, nor commit anything, before this member has appended a membership with
//! other voters: an election needs a majority of the voters of the newest membership in the candidate's log, every log
//! that differs from this one came from it, and as long as that membership is the last in this log no majority is without
//! this member. The log notes a membership before anybody can read it from there (see `Log::newest_membership`), so what
//! the library's metrics show late is no gap. Entries of earlier terms are acknowledged, too: the first read of a term
//! goes by a round (see barrier), and the state has to hold what that one found committed.

use std::sync::atomic::{AtomicU64, Ordering};

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::consensus::{LogId, term_of};
use crate::member::core::Core;
use crate::transport::Transport;

/// What the first round of reads in a term has found.
#[derive(Debug, Default)]
pub(crate) struct FirstRead {
    /// Zero before there was one. Written after `index`.
    term: AtomicU64,
    index: AtomicU64,
}

impl FirstRead {
    /// A quorum has confirmed the leader of `found`'s term, which had committed through `found`. Rounds of one term are
    /// noted by one task.
    pub(crate) fn note(&self, found: &LogId) {
        if self.term.load(Ordering::Acquire) != term_of(found) {
            self.term.store(0, Ordering::Release);
            self.index.store(found.index, Ordering::Release);
            self.term.store(term_of(found), Ordering::Release);
        }
    }

    /// Up to where the leader of `term` had committed at its first read.
    fn index(&self, term: u64) -> Option<u64> {
        let index = self.index.load(Ordering::Acquire);
        (term != 0 && self.term.load(Ordering::Acquire) == term).then_some(index)
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The revision of the published state, where no write acknowledged before the call lies behind it because nobody but
    /// this member acknowledges any. `None`: others have to be asked.
    pub(crate) fn read_alone(&self) -> Option<Revision> {
        let (term, since) = self.term_led_alone()?;
        let first = self.barriers.first_read().index(term)?;
        let applied = self.applied.revision();
        (applied.0 >= first.max(since)).then_some(applied)
    }

    /// The term in which this member leads and is the only member, and the index since which it is that.
    fn term_led_alone(&self) -> Option<(u64, u64)> {
        let metrics = self.raft.server_metrics();
        let now = metrics.borrow_watched();
        let own = self.options.id().0;
        if now.state != ServerState::Leader || now.current_leader != Some(own) {
            return None;
        }
        let membership = &now.membership_config;
        let mut voters = membership.membership().get_joint_config().iter().flatten();
        let is_only_voter = voters.next() == Some(&own) && voters.next().is_none();
        let is_alone = is_only_voter && membership.membership().nodes().all(|(id, _)| *id == own);
        let shown = membership.log_id().as_ref().map_or(0, |id| id.index);
        let is_newest = shown >= self.log.newest_membership();
        (is_alone && is_newest).then_some((now.vote.leader_id.term, shown))
    }
}
