//! Accidents of members beyond crashes: disks that are lost or put back, machines kept down, removal.
//!
//! Owns the marks by which the rest of the world tells an expected end of a process from a failure.

use std::sync::atomic::Ordering;

use orch_raft::transport::NodeId;

use super::World;
use crate::sim::disk::DiskCopy;

impl World {
    /// Replaces the disk of `node` by an empty one; its process is killed.
    pub fn lose_disk(&self, node: NodeId) {
        self.kill(node, true);
        self.trace().event(format_args!("n{} lost its disk", node.0));
        self.member(node).disk_lost.store(true, Ordering::Relaxed);
        let disk = self.disk(node);
        let left = self.setup().plant.and_then(|plant| plant.left_on_lost_disk(disk.copy()));
        disk.wipe();
        if let Some(left) = left {
            disk.put_back(left);
        }
    }

    /// Copies every founder's disk before the founding.
    pub fn keep_early_copies(&self) {
        let mut kept = self.0.early.lock();
        kept.extend(self.members().into_iter().map(|node| (node, self.disk(node).copy())));
    }

    /// The copy of the disk of `node` from before the founding, if it is a founder.
    pub fn early_copy(&self, node: NodeId) -> Option<DiskCopy> {
        self.0.early.lock().get(&node).cloned()
    }

    /// Puts an older copy of its disk back for `node`; its process is killed.
    pub fn roll_back(&self, node: NodeId, copy: DiskCopy) {
        self.kill(node, true);
        self.trace().event(format_args!("n{} gets an older copy of its disk", node.0));
        self.member(node).disk_lost.store(true, Ordering::Relaxed);
        let copy = match self.setup().plant {
            Some(plant) => plant.disguise(copy),
            None => copy,
        };
        self.disk(node).put_back(copy);
    }

    /// `node` has an empty disk or an older copy, with which it must not take part.
    pub fn has_lost_disk(&self, node: NodeId) -> bool {
        self.member(node).disk_lost.load(Ordering::Relaxed)
    }

    /// Records that the operator removes `node`, or has given that up.
    pub fn set_leaving(&self, node: NodeId, leaving: bool) {
        self.member(node).leaving.store(leaving, Ordering::Relaxed);
    }

    /// The operator removes `node`, so its process may end.
    pub fn is_leaving(&self, node: NodeId) -> bool {
        self.member(node).leaving.load(Ordering::Relaxed)
    }

    /// Puts the certificate of the removed `node` in use from now on, by its own program if `may_run`. `false` if
    /// another one's is in use already: two of them together may be believed.
    pub fn set_ghost(&self, node: NodeId, may_run: bool) -> bool {
        let mut ghost = self.0.ghost.lock();
        ghost.is_none() && ghost.replace((node, may_run)).is_none()
    }

    /// `node` was removed and its certificate is in use.
    pub fn is_ghost(&self, node: NodeId) -> bool {
        self.0.ghost.lock().is_some_and(|(ghost, _)| ghost == node)
    }

    /// `node` is a member, or was removed or given up and its program may still run.
    pub(super) fn may_run(&self, node: NodeId) -> bool {
        let is_ghost = *self.0.ghost.lock() == Some((node, true));
        self.0.roster.lock().contains(&node) || is_ghost || self.is_visiting(node)
    }

    /// `node` has its disk, and is held or cut off.
    pub(super) fn is_kept_away(&self, node: NodeId) -> bool {
        let member = self.member(node);
        let is_away = member.held.load(Ordering::Relaxed) || self.network().is_severed(node);
        is_away && !self.has_lost_disk(node)
    }

    /// Cuts the power of `node` until [`World::release`].
    pub fn hold(&self, node: NodeId) {
        self.member(node).held.store(true, Ordering::Relaxed);
        self.kill(node, true);
    }

    /// Ends [`World::hold`] and starts the process.
    pub fn release(&self, node: NodeId) {
        self.member(node).held.store(false, Ordering::Relaxed);
        self.start(node);
    }
}
