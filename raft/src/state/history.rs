//! The order of all changes across resources, and the bounds of the history in memory.
//!
//! Owns the order of eviction and the byte count of the history. It holds no objects: those are in the history of their
//! resource.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::Vector;

use super::collection::Change;
use crate::key::Revision;

/// Bounds of the history in memory. All three apply: the tightest decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Changes up to this revision are evicted, regardless of their bytes.
    pub through: Revision,
    /// Bytes that the history may keep alive.
    pub bytes_max: usize,
    /// Log entries between the floor and the newest applied. Bounds the replay after a restart.
    pub entries_max: u64,
}

impl HistoryBounds {
    /// Evicts nothing.
    pub const NONE: HistoryBounds =
        HistoryBounds { through: Revision(0), bytes_max: usize::MAX, entries_max: u64::MAX };
}

/// A batch of the oldest changes, to be evicted: see [`super::State::oldest`].
#[derive(Clone, Debug)]
pub struct EvictionBatch {
    /// The floor after the eviction.
    pub floor: Revision,
    /// In the order of their revisions, each revision whole.
    pub changes: Vec<Evicted>,
}

/// A change evicted from the history in memory: the state at the floor includes it.
#[derive(Clone, Debug)]
pub struct Evicted {
    /// The resource of the changed object.
    pub resource: Arc<str>,
    /// The change, with the object before and after.
    pub change: Change,
}

/// The ring's record of one change.
#[derive(Clone, Debug)]
struct Slot {
    revision: Revision,
    /// Bytes that the change keeps alive.
    cost: u32,
    /// Bytes of the change on disk: see [`Change::written_bytes`].
    written: u32,
    resource: Arc<str>,
}

/// All changes in the order of their revisions. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    slots: Vector<Slot>,
    bytes: usize,
}

impl Ring {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a change that costs `cost` bytes to keep and takes `written` bytes on a disk.
    pub(super) fn push(&mut self, resource: &Arc<str>, revision: Revision, cost: usize, written: usize) {
        let is_newest = self.slots.back().is_none_or(|newest| newest.revision <= revision);
        assert!(is_newest, "changes come in the order of their revisions");
        // No object comes near 4 GiB: a log entry holds a few megabytes.
        let [cost, written] = [cost, written].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes += cost as usize;
        self.slots.push_back(Slot { revision, cost, written, resource: resource.clone() });
    }

    pub(super) fn exceeds(&self, bounds: &HistoryBounds) -> bool {
        self.bytes > bounds.bytes_max
            || self.slots.front().is_some_and(|slot| slot.revision <= bounds.through)
    }

    /// Lists the oldest changes, each revision whole: all that must be evicted for `bounds` to hold, and all up to
    /// `floor`. Returns their resources in order, and the last revision. Ends early once their size on disk passes
    /// `batch_bytes`.
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

    /// Drops the oldest change if it is no later than `floor`, and returns its resource and revision.
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
