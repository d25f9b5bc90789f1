//! Quarantine: a member whose state differs stops serving and leading.
//!
//! Owns the order of its steps (the flag, the watchers, elections, the disk) and the handing over of the lead. It decides
//! nothing: the comparison has found that the state differs, and the repair ends the quarantine.

use std::collections::BTreeSet;

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;

use crate::Runtime;
use crate::disk::{Disk, MetaKey, completed};
use crate::key::Revision;
use crate::member::core::Core;
use crate::transport::Transport;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Stops serving, then writes the quarantine to the disk, so that a restart does not serve either.
    pub(super) async fn quarantine(&self, revision: Revision, majority: &BTreeSet<u64>) -> Result<(), ()> {
        let reason = format!("its state differs from the majority's at revision {revision}");
        self.agreement.suspend(reason.clone(), revision, majority.clone());
        // Watchers sleep until something changes: wake them, so that they see the quarantine now.
        self.applied.announcements().wake_all();
        self.raft.runtime_config().elect(false);
        self.save_quarantine(reason, revision, majority).await
    }

    /// Writes the quarantine to the disk; an empty `reason` ends it.
    pub(super) async fn save_quarantine(
        &self,
        reason: String,
        revision: Revision,
        majority: &BTreeSet<u64>,
    ) -> Result<(), ()> {
        let majority = majority.iter().copied().collect();
        let quarantine = wire::Quarantine { reason, revision: revision.0, majority };
        let bytes = Bytes::from(quarantine.encode_to_vec());
        let save = |done| self.disk.save_meta(MetaKey::Quarantine, bytes, Some(done));
        self.fatal.disk(completed("save quarantine", save).await).map_err(drop)
    }

    /// If this member leads, hands over to a member of `majority`.
    pub(super) async fn step_down(&self, majority: &BTreeSet<u64>) {
        if self.leader().is_none_or(|leader| !leader.local) {
            return;
        }
        let Some(successor) = self.find_successor(|id| majority.contains(&id.0)).await else { return };
        tracing::warn!(to = %successor.name, "handing over the lead: this member is quarantined");
        self.hand_over(&successor).await;
    }
}
