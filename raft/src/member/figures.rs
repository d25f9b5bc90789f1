//! Figures of a running member for metrics: its counters, and the sizes of its log and its history.
//!
//! Owns their snapshot, and the count of leaders. Nothing decides by a figure.

use std::sync::Arc;

use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::counters::{Counts, DurationCounts};
use crate::transport::Transport;

/// Figures of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Counts since the start.
    pub counts: Counts,
    /// From the append of entries to the log until they are durable.
    pub log_syncs: DurationCounts,
    /// Proposals of this member without an outcome.
    pub proposals_pending: usize,
    /// Bytes of the log, estimated for entries from before the start.
    pub log_bytes: u64,
    /// Bytes of the history in memory.
    pub history_memory_bytes: u64,
    /// Bytes of the history on the disk.
    pub history_disk_bytes: u64,
    /// Snapshots of a leader that replaced the state, since the start.
    pub snapshots_installed: u64,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The figures of this member now.
    pub(crate) fn figures(&self) -> Figures {
        // A disk that fails is told of by its next write, which ends the member.
        let first = self.disk.log_bounds().ok().flatten().map(|(first, _)| first);
        Figures {
            counts: self.counters.counts(),
            log_syncs: self.log.syncs().counts(),
            proposals_pending: self.proposals.pending(),
            log_bytes: first.map_or(0, |first| self.meter.lock().total(first)),
            history_memory_bytes: self.applied.state().history_bytes() as u64,
            history_disk_bytes: self.applied.past_bytes(),
            snapshots_installed: self.applied.installed(),
        }
    }

    /// Counts the leaders that this member follows, until it ends.
    pub(crate) async fn count_leaders(self: Arc<Self>) {
        let mut metrics = self.raft.server_metrics();
        let mut followed = None;
        loop {
            let leader = self.leader().map(|leader| (leader.term, leader.peer.id));
            if leader.is_some() && leader != followed {
                self.counters.note_leader();
                followed = leader;
            }
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}
