//! The private data of the state's writer, and each of its steps.
//!
//! Owns the protocol between the operations that change the state: applying entries, moving history to the disk, bringing
//! the stored state up to an index before the log is purged, and installing a received state. Each step is one critical
//! section; disk writes happen between steps:
//!
//!     keeper:   next_step ---> disk writes ---> finish_step
//!     install:  begin_install ---> disk commits ---> finish_install
//!     replace:  begin_install ---> disk commits ---> continue_as
//!
//! Invariant: no purge goes past the stored state, nor past a state being installed, which may be older.
//! Invariant: a step is bound to its generation; after an install the disk drops the write and `finish_step` does
//! nothing.
//! Invariant: a change stays in memory until the disk has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::checkpoints::Checkpoints;
use super::lineage::Lineage;
use crate::disk::Generation;
use crate::key::Revision;
use crate::member::codec::Mark;
use crate::state::{EvictionBatch, HistoryBounds, State};

/// Bytes of history that one step moves, roughly: written in some milliseconds, and held twice for that time.
const STEP_BYTES: usize = 1 << 20;

/// Exclusive access to a value. The model checker has an implementation of its own.
pub(crate) trait Lock<T>: Send + Sync + 'static {
    /// Calls `work` with exclusive access to the value.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send + 'static> Lock<T> for Mutex<T> {
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock())
    }
}

/// The state, its lineage and checkpoints, and how far it is stored.
pub(crate) struct Writer {
    pub(super) state: State,
    pub(super) lineage: Lineage,
    pub(super) checkpoints: Checkpoints,
    /// The generation of the stored state that this state continues.
    generation: Generation,
    /// The revision of the stored state.
    stored: Revision,
    /// The revision that the stored state must reach, so that the log may be purged.
    wanted: Revision,
    /// Entries up to here may be gone from the log. Invariant: `purgeable <= stored`.
    purgeable: Revision,
    /// A received state is being made the stored one: no history is moved to the disk meanwhile.
    is_installing: bool,
}

/// Changes that one write moves to the disk.
pub(crate) struct Step {
    pub(super) generation: Generation,
    pub(super) leaving: EvictionBatch,
    /// For each resource in `leaving`, the newest change that left memory before this step.
    pub(super) floors: BTreeMap<Arc<str>, Revision>,
    /// The mark of the stored state after the step.
    pub(super) mark: Mark,
}

impl Writer {
    /// A writer of a state that was just loaded from `generation`.
    pub(super) fn new(state: State, mark: &Mark, generation: Generation) -> Self {
        let stored = state.floor();
        assert_eq!(state.applied(), mark.revision(), "a stored state is at the revision of its mark");
        let lineage = Lineage::starting_at(mark);
        let checkpoints = Checkpoints::default();
        let (wanted, purgeable, is_installing) = (Revision(0), stored, false);
        Writer { state, lineage, checkpoints, generation, stored, wanted, purgeable, is_installing }
    }

    /// The revision of the stored state.
    pub(super) fn stored(&self) -> Revision {
        self.stored
    }

    /// The last index through which entries may be gone from the log.
    pub(super) fn purgeable(&self) -> Revision {
        self.purgeable
    }

    /// Whether log entries up to `revision` may be purged, now or later. If not, they are still needed, and the keeper is asked
    /// to bring the stored state up to `revision`, as far as that is applied.
    pub(super) fn allow_purge(&mut self, revision: Revision) -> bool {
        self.wanted = self.wanted.max(revision);
        // A state that is being installed may be older than `stored`, which a step under way may still raise: the log must
        // keep the entries after the installed state.
        let allowed = !self.is_installing && self.stored >= revision;
        if allowed {
            self.purgeable = self.purgeable.max(revision);
        }
        allowed
    }

    /// Whether there is a step to take: history exceeds `slack`, memory holds changes up to `aged`, which are too old, or a
    /// purge of the log waits.
    pub(super) fn has_work(&self, slack: &HistoryBounds, aged: Revision) -> bool {
        !self.is_installing && (self.state.exceeds(slack) || self.behind(aged.max(self.wanted)))
    }

    fn behind(&self, revision: Revision) -> bool {
        self.state.floor() < revision.min(self.state.applied())
    }

    /// The next step towards `bounds`; `None` when no history is to be moved, and during an install.
    pub(super) fn next_step(&self, bounds: &HistoryBounds, aged: Revision) -> Option<Step> {
        if self.is_installing {
            return None;
        }
        let bounds = HistoryBounds { through: aged.max(self.wanted), ..*bounds };
        let leaving = self.state.oldest(&bounds, STEP_BYTES)?;
        let changed = self.state.changed_at_floor(leaving.floor);
        let mark = Mark { changed: Some(changed), ..self.lineage.mark_at(leaving.floor) };
        assert_eq!(mark.revision(), leaving.floor, "the stored state is that of its mark");
        let mut floors = BTreeMap::new();
        for evicted in &leaving.changes {
            let floor = || self.state.collection(&evicted.resource).floor();
            floors.entry(evicted.resource.clone()).or_insert_with(floor);
        }
        Some(Step { generation: self.generation, leaving, floors, mark })
    }

    /// Drops the changes up to `floor` from memory, which a step has moved to the disk. `false`, and no change, when another
    /// state was installed meanwhile.
    pub(super) fn finish_step(&mut self, generation: Generation, floor: Revision) -> bool {
        if generation != self.generation {
            return false;
        }
        assert!(self.stored <= floor, "the stored state goes forward");
        self.state.drop_history_through(floor);
        self.lineage.forget_before(floor);
        self.stored = floor;
        true
    }

    /// Stops moving history to the disk until [`Writer::finish_install`] or [`Writer::continue_as`].
    pub(super) fn begin_install(&mut self) {
        self.is_installing = true;
    }

    /// Replaces this writer by one that continues a state stored as `generation`.
    pub(super) fn continue_as(&mut self, new: &mut Writer, generation: Generation) {
        assert_eq!(new.state.applied(), self.state.applied(), "a replaced state is at the same revision");
        self.assert_followed_by(new.stored, generation);
        new.generation = generation;
        (new.wanted, new.purgeable) = (self.wanted, self.purgeable);
        std::mem::swap(self, new);
    }

    /// Replaces the state by one that is stored as `generation`.
    pub(super) fn finish_install(&mut self, state: State, mark: &Mark, generation: Generation) {
        self.assert_followed_by(state.applied(), generation);
        *self = Writer::new(state, mark, generation);
    }

    /// No leader and no peer can make these assertions fail: the consensus library installs no snapshot older than its commit
    /// index, a replacement checks `purgeable` before it begins, and from then on no log entry is purged.
    fn assert_followed_by(&self, stored: Revision, generation: Generation) {
        assert!(self.purgeable <= stored, "the log holds every entry after the stored state");
        assert!(self.generation < generation, "a step of the state before is told from one of this");
    }
}
