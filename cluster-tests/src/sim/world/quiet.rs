//! Times without new faults, and the condition of members in them.
//!
//! Owns the truce, in which faults and upgrades wait, and the condition of a member: whole, away, or neither. It checks
//! nothing.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use orch_raft::transport::NodeId;

use super::World;

/// Condition of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its process runs without a fault; the number is that of its starts so far.
    Whole(u64),
    /// It has no process.
    Away,
    /// It runs under a fault.
    Ailing,
}

impl World {
    /// Begins or ends the truce, in which faults and upgrades wait.
    pub fn set_truce(&self, truce: bool) {
        self.trace().event(format_args!("truce: {truce}"));
        self.0.truce.store(truce, Ordering::Relaxed);
    }

    /// No new faults: their time is over, or there is a truce.
    pub fn is_quiet(&self) -> bool {
        self.is_calm() || self.0.truce.load(Ordering::Relaxed)
    }

    /// The condition of `node`.
    pub fn condition(&self, node: NodeId) -> Condition {
        let Some(process) = self.process(node) else { return Condition::Away };
        let disk = self.disk(node);
        let hindered = process.store.is_none()
            || process.group.is_paused()
            || self.is_starved(node)
            || self.has_lost_disk(node)
            || self.versions().must_end(node)
            || disk.fails()
            || !disk.is_prompt();
        match hindered {
            true => Condition::Ailing,
            false => Condition::Whole(self.member(node).starts.load(Ordering::Relaxed)),
        }
    }

    /// The voter sets whose majorities are needed now, as far as `living` members know.
    pub fn voter_sets(&self, living: &[NodeId]) -> Option<Vec<BTreeSet<u64>>> {
        self.protocol(|protocol| protocol.voter_sets(living))
    }

    /// Counts a write on a store that was answered as applied.
    pub fn note_taken(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of writes on stores that were answered as applied.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }
}
