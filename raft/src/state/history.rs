//! The order of all changes across resources, and how much of them is kept.
//!
//! Owns which change is the oldest and what the history costs. It holds no objects: those are in the history of their
//! resource.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::Vector;

use super::collection::Change;
use crate::key::Revision;

/// How much history is kept in memory: the least that any of the three allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Changes up to this revision are dropped, whatever they cost.
    pub through: Revision,
    /// Bytes that the history may keep alive.
    pub bytes_max: usize,
    /// Log entries between the floor and now, which are also what a restart replays.
    pub entries_max: u64,
}

impl HistoryBounds {
    /// Drops nothing.
    pub const NONE: HistoryBounds =
        HistoryBounds { through: Revision(0), bytes_max: usize::MAX, entries_max: u64::MAX };
}

/// The oldest changes, on their way out of the history: see [`super::State::oldest`].
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The floor once they have left.
    pub floor: Revision,
    /// In the order made, each revision as a whole.
    pub changes: Vec<Evicted>,
}

/// A change that left the history: it is now part of the state at the floor.
#[derive(Clone, Debug)]
pub struct Evicted {
    /// Of which resource.
    pub resource: Arc<str>,
    /// The change.
    pub change: Change,
}

/// One change's place among all.
#[derive(Clone, Debug)]
struct Slot {
    revision: Revision,
    /// What keeping it costs.
    cost: u32,
    /// What writing it elsewhere takes: see [`Change::written_bytes`].
    written: u32,
    resource: Arc<str>,
}

/// All changes in the order made. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    slots: Vector<Slot>,
    bytes: usize,
}

impl Ring {
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a change that costs `cost` bytes to keep and takes `written` bytes to write elsewhere.
    pub(super) fn push(&mut self, resource: &Arc<str>, revision: Revision, cost: usize, written: usize) {
        let is_newest = self.slots.back().is_none_or(|newest| newest.revision <= revision);
        assert!(is_newest, "changes come in the order of their revisions");
        // No object comes near the bound: an entry of the log holds a few megabytes.
        let [cost, written] = [cost, written].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes += cost as usize;
        self.slots.push_back(Slot { revision, cost, written, resource: resource.clone() });
    }

    pub(super) fn exceeds(&self, bounds: &HistoryBounds) -> bool {
        self.bytes > bounds.bytes_max
            || self.slots.front().is_some_and(|slot| slot.revision <= bounds.through)
    }

    /// The oldest changes that must go for `bounds` to hold and those up to `floor`, each revision as a whole: their
    /// resources in order, and the revision of the last. Ends early once they take more than `batch_bytes` to write.
    pub(super) fn oldest(
        &self,
        bounds: &HistoryBounds,
        floor: Revision,
        batch_bytes: usize,
    ) -> (Vec<Arc<str>>, Option<Revision>) {
        let floor = floor.max(bounds.through);
        let (mut resources, mut last, mut cost, mut written) = (Vec::new(), None, 0, 0);
        for slot in &self.slots {
            let begins_revision = last != Some(slot.revision);
            let stays = slot.revision > floor && self.bytes - cost <= bounds.bytes_max;
            if begins_revision && (stays || (written > batch_bytes && last.is_some())) {
                break;
            }
            last = Some(slot.revision);
            cost += slot.cost as usize;
            written += slot.written as usize;
            resources.push(slot.resource.clone());
        }
        (resources, last)
    }

    /// Drops the oldest change if it is no later than `floor`, and says whose it is, and of which revision.
    pub(super) fn forget_through(&mut self, floor: Revision) -> Option<(Arc<str>, Revision)> {
        if self.slots.front()?.revision > floor {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.cost as usize;
        Some((slot.resource, slot.revision))
    }

    /// The first revision after `revision` that has a change.
    pub(super) fn first_after(&self, revision: Revision) -> Option<Revision> {
        let side = |slot: &Slot| if slot.revision <= revision { Ordering::Less } else { Ordering::Greater };
        let at = self.slots.binary_search_by(side).unwrap_or_else(|at| at);
        self.slots.get(at).map(|slot| slot.revision)
    }
}
