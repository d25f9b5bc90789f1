//! Compares a leader's entries and snapshots with the entries applied by this member.
//!
//! They agree as long as disks keep what was promised. If they do not, a disk was put back to an older copy that no member
//! could recognise, or entries were forged: the sender lacks writes that were acknowledged. The consensus library would end
//! this process over that at every start, although this member is right. So such a sender is not followed: if a majority is
//! right, it elects another leader, and the data of this member stays.
//!
//! Owns the comparison of one request with this member's log. It decides nothing about votes.

use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::AppendEntriesRequest;

use super::Refusal;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::decode;
use crate::member::codec::log_id_from_wire;
use crate::member::consensus::{LogId, Types, Vote, term_of};
use crate::member::core::Core;
use crate::member::network::INDEX_MAX;
use crate::transport::{NodeId, Transport};

/// Bound for reading a single entry: `read_log` returns at least one, however large.
const ENTRY_BYTES_MAX: usize = 1;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Refuses an append that contradicts an entry applied here, or comes from a second leader of this member's term.
    pub(super) fn check_history(
        &self,
        from: NodeId,
        request: &AppendEntriesRequest<Types<R>>,
    ) -> Result<(), Refusal> {
        let (own, applied) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.vote, metrics.last_applied)
        };
        let term = request.vote.leader_id.term;
        // The library refuses a leader of an earlier term.
        let Some(applied) = applied.filter(|_| term >= own.leader_id.term) else { return Ok(()) };
        let has_other_leader = own.committed && own.leader_id.voted_for != from.0;
        if term == own.leader_id.term && has_other_leader {
            let other = self.peer_name(own.leader_id.voted_for);
            return Err(self.contradicts(from, &format!("term {term} has another leader, {other}")));
        }
        let Some(theirs) = shared_with(request, &applied) else { return Ok(()) };
        let ours = if theirs.index == applied.index { Some(applied) } else { self.log_id_at(theirs.index) };
        match ours {
            Some(ours) if ours != theirs => Err(self.contradiction(from, &ours, &theirs)),
            // Compacted away, or the same.
            _ => Ok(()),
        }
    }

    /// Refuses a state as of `theirs` if that entry is not in this member's log: the entries that follow here were made for
    /// another state. A majority cannot replace this check: members that all lost the same writes agree with each other.
    pub(crate) fn check_lineage(&self, from: NodeId, theirs: Option<LogId>) -> Result<(), Refusal> {
        let theirs = theirs.ok_or("the state names no log entry")?;
        let applied = self.raft.metrics().borrow_watched().last_applied;
        let ours = match applied.filter(|applied| applied.index == theirs.index) {
            Some(applied) => applied,
            None => self
                .log_id_at(theirs.index)
                .ok_or("the log entry that the state names is not in this member's log")?,
        };
        if ours == theirs { Ok(()) } else { Err(self.contradiction(from, &ours, &theirs)) }
    }

    /// Refuses a leader's snapshot as of `theirs` that contradicts the last entry applied here, or is of a later term than the
    /// leader's. The consensus library checks neither.
    pub(super) fn check_state(
        &self,
        from: NodeId,
        vote: &Vote,
        theirs: Option<LogId>,
    ) -> Result<(), Refusal> {
        let theirs = theirs.ok_or("the state names no log entry")?;
        if term_of(&theirs) > vote.leader_id.term || theirs.index > INDEX_MAX {
            return Err("the state names a log entry that its leader cannot have".to_owned());
        }
        let Some(ours) = self.raft.metrics().borrow_watched().last_applied else { return Ok(()) };
        // In one history an entry of a later term has a higher index.
        let (term, index) = (term_of(&theirs).cmp(&term_of(&ours)), theirs.index.cmp(&ours.index));
        if term.is_eq() || term == index {
            return Ok(());
        }
        Err(self.contradiction(from, &ours, &theirs))
    }

    fn contradiction(&self, from: NodeId, ours: &LogId, theirs: &LogId) -> Refusal {
        let (at, ours, theirs) = (theirs.index, ours.leader_id.term, theirs.leader_id.term);
        self.contradicts(from, &format!("entry {at} is of term {ours} here and of {theirs} there"))
    }

    fn contradicts(&self, from: NodeId, what: &str) -> Refusal {
        let peer = self.peer_name(from.0);
        if self.warnings.may_warn("a leader contradicts") {
            tracing::error!(
                peer,
                what,
                "a member contradicts what is committed here: disks of this cluster were put back to older copies, or \
                 its log was forged; it is not followed. Keep this member's data directory"
            );
        }
        format!("{peer} contradicts what is committed here: {what}")
    }

    fn log_id_at(&self, index: u64) -> Option<LogId> {
        let records = self.disk.read_log(index, index + 1, ENTRY_BYTES_MAX).ok()?;
        let record = records.into_iter().find(|record| record.index == index)?;
        let entry: orch_proto::store::Entry = decode("log entry", record.bytes).ok()?;
        entry.log_id.map(log_id_from_wire)
    }
}

/// The newest log position in `request` that is not after `applied`.
fn shared_with<R: Runtime>(request: &AppendEntriesRequest<Types<R>>, applied: &LogId) -> Option<LogId> {
    let entries = request.entries.iter().rev().map(|entry| entry.log_id);
    entries.chain(request.prev_log_id).find(|position| position.index <= applied.index)
}
