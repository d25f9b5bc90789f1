//! The order of all changes across resources, and how much of them is kept.
//!
//! Owns which change is the oldest and what the history costs. It holds no objects: those are in the history of their
//! resource.

use std::sync::Arc;

use imbl::Vector;

use super::collection::Change;
use crate::key::Revision;

/// How much history is kept: the least that any of the three allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Changes proposed before this are dropped, milliseconds since 1970.
    pub before_ms: u64,
    /// Bytes that the history may keep alive.
    pub bytes_max: usize,
    /// Log entries between the floor and now, which are also what a restart replays.
    pub entries_max: u64,
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
    time_ms: u64,
    cost: usize,
    resource: Arc<str>,
}

/// All changes in the order made. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    slots: Vector<Slot>,
    bytes: usize,
}

impl Ring {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, resource: &Arc<str>, change: &Change) {
        let cost = change.cost();
        self.bytes += cost;
        let resource = resource.clone();
        self.slots.push_back(Slot { revision: change.revision, time_ms: change.time_ms, cost, resource });
    }

    pub(super) fn oldest(&self) -> Option<Revision> {
        self.slots.front().map(|slot| slot.revision)
    }

    pub(super) fn exceeds(&self, bounds: &HistoryBounds) -> bool {
        self.bytes > bounds.bytes_max
            || self.slots.front().is_some_and(|slot| slot.time_ms < bounds.before_ms)
    }

    /// Drops the oldest change and says whose it is.
    pub(super) fn forget_oldest(&mut self) -> Option<Arc<str>> {
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.cost;
        Some(slot.resource)
    }
}
