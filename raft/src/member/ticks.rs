//! The ticks of the consensus library, a hundred each second: its clock for elections and heartbeats.
//!
//! Owns their pause. A leader that is the only member needs neither, and an idle node would be woken for nothing. The ticks go on
//! once the membership has another member, or this one leads no more; the library's metrics tell of both.
//!
//! Invariant: the ticks run unless this member leads as the only member, learners included.

use std::sync::Arc;

use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::transport::Transport;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Pauses the ticks while this member leads alone, until it ends.
    pub(crate) async fn keep_ticks(self: Arc<Self>) {
        let mut metrics = self.raft.server_metrics();
        loop {
            self.raft.runtime_config().tick(!self.leads_alone());
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}
