//! The applied state of one member: in memory as of now, on disk as of the start of the history.
//!
//! Owns the one writer of the state. Readers take the published root and never wait for it. After each batch of entries
//! it publishes the new root, completes the proposals of this member, then wakes watchers and readers, in this order,
//! so that whoever is woken finds what it was woken for. What falls out of the history goes to the disk, with its mark.
//!
//! Invariant: the state on disk is the state at the history's floor (docs/decisions/0002). Invariant: applying consults
//! no clock; the clock only decides how much history is kept.

mod adapter;
mod lineage;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openraft::EntryPayload;
use parking_lot::Mutex;

pub(crate) use self::adapter::{Machine, SnapshotBody};
use self::lineage::Lineage;
pub(crate) use self::store::Restore;
use self::store::load_state;
use crate::disk::{Disk, DiskError, Install};
use crate::encoding::{DecodeError, decode_transaction};
use crate::key::Revision;
use crate::member::codec::Mark;
use crate::member::consensus::{Entry, StoredMembership};
use crate::member::fatal::Fatal;
use crate::member::log::{LogError, Settle};
use crate::member::options::{Clock, HistoryOptions};
use crate::member::proposals::Proposals;
use crate::notify::{Announcer, Gate, Subscription};
use crate::state::{HistoryBounds, State};
use crate::transaction::{Operation, Outcome, Transaction};

/// The state of one member and everyone who waits for it.
pub(crate) struct Applied<D> {
    disk: Arc<D>,
    clock: Clock,
    history: HistoryOptions,
    fatal: Fatal,
    proposals: Arc<Proposals>,
    writer: Mutex<Writer>,
    published: ArcSwap<State>,
    gate: Gate,
    subscribers: Mutex<BTreeMap<Arc<str>, Announcer>>,
}

/// What only the writer sees.
struct Writer {
    state: State,
    lineage: Lineage,
    /// Up to where the stored state is complete.
    stored: Revision,
}

/// What a batch of entries did.
#[derive(Default)]
struct Batch {
    outcomes: Vec<(u64, Outcome)>,
    changed: BTreeMap<Arc<str>, Revision>,
}

impl<D: Disk> Applied<D> {
    /// Reads the stored state; history starts at its mark.
    pub(crate) fn load(
        disk: Arc<D>,
        clock: Clock,
        history: HistoryOptions,
        proposals: Arc<Proposals>,
        fatal: Fatal,
    ) -> Result<Self, LogError> {
        let (state, mark) = load_state(&*disk)?;
        let gate = Gate::default();
        gate.advance(state.applied());
        let published = ArcSwap::from_pointee(state.clone());
        let writer = Writer { stored: state.floor(), lineage: Lineage::starting_at(&mark), state };
        let (writer, subscribers) = (Mutex::new(writer), Mutex::default());
        Ok(Applied { disk, clock, history, fatal, proposals, writer, published, gate, subscribers })
    }

    /// The newest state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.load_full()
    }

    /// The applied revision, to wait for.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Told after each batch that changed `resource`.
    pub(crate) fn subscribe(&self, resource: &Arc<str>) -> Subscription {
        self.subscribers.lock().entry(resource.clone()).or_default().subscribe()
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        self.subscribers.lock().values().for_each(Announcer::close);
    }

    /// The newest membership applied.
    pub(crate) fn membership(&self) -> StoredMembership {
        self.writer.lock().lineage.membership()
    }

    /// The state and the point it is at, together.
    fn now(&self) -> (Arc<State>, Mark) {
        let writer = self.writer.lock();
        (self.state(), writer.lineage.now())
    }

    /// Drops history that has grown too old. Called from time to time: nothing else drops it while no writes come.
    pub(crate) fn trim_by_age(&self) -> Result<(), DiskError> {
        let before_ms = (self.clock)().saturating_sub(self.history.age_ms);
        let bounds = HistoryBounds { before_ms, ..self.bounds() };
        let mut writer = self.writer.lock();
        if writer.state.exceeds(&bounds) {
            self.trim(&mut writer, &bounds)?;
            self.published.store(Arc::new(writer.state.clone()));
        }
        Ok(())
    }

    /// Applies entries in order and tells everyone.
    fn apply(&self, entries: &[Entry]) -> Result<(), ApplyError> {
        let mut batch = Batch::default();
        let newest_term = {
            let mut writer = self.writer.lock();
            for entry in entries {
                writer.apply(entry, &self.proposals, &mut batch)?;
            }
            if writer.state.exceeds(&self.slack()) {
                self.trim(&mut writer, &self.bounds())?;
            }
            self.published.store(Arc::new(writer.state.clone()));
            writer.lineage.last().map_or(0, |last| last.leader_id.term)
        };
        self.proposals.complete(batch.outcomes, newest_term);
        let subscribers = self.subscribers.lock();
        for (resource, revision) in batch.changed {
            if let Some(subscriber) = subscribers.get(&resource) {
                subscriber.announce(revision);
            }
        }
        drop(subscribers);
        self.gate.advance(self.state().applied());
        Ok(())
    }

    /// Replaces the state by one received from the leader. Watches from before it find their revision compacted.
    fn install(&self, state: State, install: Box<dyn Install>, mark: &Mark) -> Result<(), DiskError> {
        install.commit(mark.encode())?;
        let applied = state.applied();
        {
            let mut writer = self.writer.lock();
            *writer = Writer { stored: state.floor(), lineage: Lineage::starting_at(mark), state };
            self.published.store(Arc::new(writer.state.clone()));
        }
        tracing::info!(revision = applied.0, "installed a snapshot of the leader's state");
        self.proposals.lose_all("the state was replaced by the leader's");
        self.subscribers.lock().values().for_each(|subscriber| subscriber.announce(applied));
        self.gate.advance(applied);
        Ok(())
    }

    /// Trims the history and makes what left it part of the stored state.
    fn trim(&self, writer: &mut Writer, bounds: &HistoryBounds) -> Result<(), DiskError> {
        let evicted = writer.state.trim_history(bounds);
        let mark = writer.lineage.mark_at(writer.state.floor());
        self.disk.write_state(store::stored_form(evicted), mark.encode())?;
        writer.stored = writer.state.floor();
        Ok(())
    }

    /// What history is trimmed to, whatever its age.
    fn bounds(&self) -> HistoryBounds {
        let HistoryOptions { bytes_max, entries_max, .. } = self.history;
        HistoryBounds { before_ms: 0, bytes_max, entries_max }
    }

    /// When it is trimmed: a sixteenth later, so that the disk is written to in batches and not for every entry.
    fn slack(&self) -> HistoryBounds {
        let bounds = self.bounds();
        HistoryBounds {
            bytes_max: bounds.bytes_max.saturating_add(bounds.bytes_max / 16),
            entries_max: bounds.entries_max.saturating_add(bounds.entries_max / 16),
            ..bounds
        }
    }
}

impl<D: Disk> Settle for Applied<D> {
    fn settle(&self, index: u64) -> Result<(), DiskError> {
        let mut writer = self.writer.lock();
        if writer.stored.0 >= index {
            return Ok(());
        }
        let entries_max = writer.state.applied().0.saturating_sub(index);
        let bounds = HistoryBounds { before_ms: 0, bytes_max: usize::MAX, entries_max };
        self.trim(&mut writer, &bounds)?;
        self.published.store(Arc::new(writer.state.clone()));
        Ok(())
    }
}

impl Writer {
    fn apply(&mut self, entry: &Entry, proposals: &Proposals, batch: &mut Batch) -> Result<(), ApplyError> {
        let revision = Revision(entry.log_id.index);
        self.lineage.note(entry.log_id);
        match &entry.payload {
            EntryPayload::Blank => self.state.advance(revision),
            EntryPayload::Membership(membership) => {
                self.state.advance(revision);
                let stored = StoredMembership::new(Some(entry.log_id), membership.clone());
                self.lineage.note_membership(stored);
            }
            EntryPayload::Normal(command) => {
                let (id, transaction) = decode_transaction(command.0.clone())?;
                let outcome = self.state.apply(revision, &transaction);
                if let Outcome::Applied { .. } = outcome {
                    batch.note_changes(revision, &transaction);
                }
                if proposals.are_ours(id) {
                    batch.outcomes.push((id.sequence, outcome));
                }
            }
        }
        Ok(())
    }
}

impl Batch {
    fn note_changes(&mut self, revision: Revision, transaction: &Transaction) {
        for operation in &transaction.operations {
            let key = match operation {
                Operation::Put(put) => &put.key,
                Operation::Delete(key) => key,
            };
            match self.changed.get_mut(key.resource()) {
                Some(newest) => *newest = revision,
                None => drop(self.changed.insert(key.resource().clone(), revision)),
            }
        }
    }
}

/// An entry cannot be applied. Nothing can be skipped, so the member stops.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("a committed entry cannot be applied: {0}")]
    Decode(#[from] DecodeError),
}
