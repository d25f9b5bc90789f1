//! Times in which nothing new goes wrong, and who can do its part then.
//!
//! Owns the truce, in which faults and upgrades wait, and how a member is: whole, away, or neither. It judges nothing.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use orch_raft::transport::NodeId;

use super::World;

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its process runs, and nothing hinders it; the number is that of its starts so far.
    Whole(u64),
    /// No process of it runs.
    Away,
    /// It runs, and something is wrong with it.
    Ailing,
}

impl World {
    /// Faults and upgrades wait from now on, or no longer do.
    pub fn set_truce(&self, truce: bool) {
        self.trace().event(format_args!("truce: {truce}"));
        self.0.truce.store(truce, Ordering::Relaxed);
    }

    /// Whether nothing new may go wrong now: the time of faults is over, or there is a truce.
    pub fn is_quiet(&self) -> bool {
        self.is_calm() || self.0.truce.load(Ordering::Relaxed)
    }

    /// How `node` is.
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

    /// The sets of voters of which majorities are needed now, as far as `living` members know.
    pub fn voter_sets(&self, living: &[NodeId]) -> Option<Vec<BTreeSet<u64>>> {
        self.0.protocol.lock().voter_sets(living)
    }

    /// A write on a store was answered as applied.
    pub fn note_taken(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// How many writes on stores were answered as applied.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }
}
