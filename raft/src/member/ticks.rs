//! What a leader does without that is the only member: the ticks of the consensus library, and a thread for syncs.
//!
//! Owns the pause of the ticks, a hundred each second, the library's clock for elections and heartbeats. Such a leader needs neither, and an
//! idle node would be woken for nothing. Nobody waits for it while it syncs a write either, so that it may do that on the store's own thread:
//! with other members a sync there would hold up what they are sent. Both end once the membership has another member, or this one leads
//! no more; the library's metrics tell of both.
//!
//! Invariant: the ticks run unless this member leads as the only member, learners included.

use std::sync::Arc;

use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::transport::Transport;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Pauses the ticks, and lets appends sync, while this member leads alone, until it ends.
    pub(crate) async fn keep_ticks(self: Arc<Self>) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let is_alone = self.leads_alone();
            self.raft.runtime_config().tick(!is_alone);
            self.disk.sync_on_caller(is_alone);
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}
