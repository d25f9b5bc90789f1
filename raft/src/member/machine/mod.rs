//! The applied state of one member: in memory as of now, on disk as of the start of the history.
//!
//! Owns the one writer of the state. Readers take the published root and never wait for the writer. After each batch of
//! entries it publishes the new root, completes the proposals of this member, has watchers woken by a task of their own,
//! then wakes readers, in this order, so that a woken task finds the revision it was woken for. The keeper moves changes
//! that leave the history to the disk, with their mark; applying never waits for it.
//!
//! Invariant: the state on disk is the state at the history's floor (docs/decisions/0002). Invariant: applying consults
//! no clock; the clock only decides how much history is kept.

mod adapter;
mod ages;
mod announce;
mod checkpoints;
mod keeper;
mod lineage;
#[cfg(test)]
mod model;
mod pages;
mod past;
mod reads;
mod replace;
mod replay;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use openraft::EntryPayload;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use self::adapter::{Machine, SnapshotBody};
use self::announce::Announcements;
pub(crate) use self::checkpoints::{CHECKPOINTS_MAX, Checkpoint};
use self::pages::Pages;
use self::past::Past;
pub(crate) use self::replay::{Replayed, replay};
pub(crate) use self::store::Restore;
use self::store::{commit, load_state};
use self::writer::{Lock, Writer};
use crate::disk::{Disk, DiskError, Install};
use crate::encoding::{DecodeError, decode_transaction};
use crate::interest::{Interest, Subscription};
use crate::key::Revision;
use crate::member::codec::Mark;
use crate::member::consensus::{Entry, StoredMembership, term_of};
use crate::member::fatal::Fatal;
use crate::member::log::{LogError, Settle};
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;
use crate::notify::Gate;
use crate::state::{HistoryBounds, State};
use crate::transaction::{Operation, Outcome, Transaction};

/// The state of one member, with the tasks that wait for its revisions.
pub(crate) struct Applied<D, L = Mutex<Writer>> {
    disk: Arc<D>,
    history: HistoryOptions,
    fatal: Fatal,
    proposals: Arc<Proposals>,
    writer: L,
    published: ArcSwap<State>,
    gate: Gate,
    announcements: Announcements,
    past: Past,
    pages: Pages,
    /// Held while a collection is rebuilt from the disk: one at a time, since each takes time of a thread, and memory.
    rebuilding: tokio::sync::Mutex<()>,
    /// Wakes the keeper: there is history to move.
    work: Notify,
    /// The disk has little room for history.
    is_spare: AtomicBool,
    /// Snapshots of a leader that replaced the state, since the start.
    installed: AtomicU64,
}

/// The effects of a batch of entries: outcomes of this member's proposals by sequence, and the newest change of each
/// resource.
#[derive(Default)]
struct Batch {
    outcomes: Vec<(u64, Outcome)>,
    changed: BTreeSet<Arc<str>>,
}

impl<D: Disk> Applied<D> {
    /// Reads the stored state; history in memory starts at its mark.
    pub(crate) fn load(
        disk: Arc<D>,
        history: HistoryOptions,
        proposals: Arc<Proposals>,
        fatal: Fatal,
    ) -> Result<Self, LogError> {
        Applied::load_with(disk, history, proposals, fatal, Mutex::new)
    }
}

impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// As [`Applied::load`], under another kind of lock.
    fn load_with(
        disk: Arc<D>,
        history: HistoryOptions,
        proposals: Arc<Proposals>,
        fatal: Fatal,
        lock: impl FnOnce(Writer) -> L,
    ) -> Result<Self, LogError> {
        let (state, mark) = load_state(&*disk)?;
        let generation = disk.generation()?;
        let floor = |resource: &str| state.collection(resource).floor();
        let past = Past::load(generation, disk.history()?, floor);
        let gate = Gate::default();
        gate.advance(state.applied());
        let published = ArcSwap::from_pointee(state.clone());
        let writer = lock(Writer::new(state, &mark, generation));
        let (announcements, pages, rebuilding) =
            (Announcements::default(), Pages::default(), Default::default());
        pages.clear(generation);
        Ok(Applied {
            disk,
            history,
            fatal,
            proposals,
            writer,
            published,
            gate,
            announcements,
            past,
            pages,
            rebuilding,
            work: Notify::new(),
            is_spare: AtomicBool::new(false),
            installed: AtomicU64::default(),
        })
    }

    /// The newest state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.published.load_full()
    }

    /// The revision of the newest published state. A write is acknowledged only after it was published.
    pub(crate) fn revision(&self) -> Revision {
        self.published.load().applied()
    }

    /// Bytes of the history on the disk.
    pub(crate) fn past_bytes(&self) -> u64 {
        self.past.bytes()
    }

    /// Snapshots of a leader that replaced the state, since the start.
    pub(crate) fn installed(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    /// The gate on which readers wait for a revision to be applied.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A subscription that is woken after each batch with changes of `resource` that concern `interest`.
    pub(crate) fn subscribe(&self, resource: &Arc<str>, interest: Interest) -> Subscription {
        self.announcements.subscribe(resource, interest, self.revision())
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        self.announcements.close();
    }

    /// The announcements to watchers; a task of the member delivers them.
    pub(crate) fn announcements(&self) -> &Announcements {
        &self.announcements
    }

    /// The newest membership applied.
    pub(crate) fn membership(&self) -> StoredMembership {
        self.writer.with(|writer| writer.lineage.membership())
    }

    /// The revision of the state on disk.
    #[cfg(test)]
    pub(crate) fn stored(&self) -> Revision {
        self.writer.with(|writer| writer.stored())
    }

    /// The digests by which members compare their states, oldest first, including one at the applied revision.
    pub(crate) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.writer.with(|writer| writer.all_checkpoints())
    }

    /// The state and its mark, consistent with each other.
    pub(crate) fn now(&self) -> (Arc<State>, Mark) {
        let (state, mark) = self.writer.with(|writer| (self.state(), writer.lineage.now()));
        let changed = state.changed_at_floor(state.applied());
        (state, Mark { changed: Some(changed), ..mark })
    }

    /// Applies entries in order, publishes the state, and wakes proposers, watchers and readers.
    fn apply(&self, entries: &[Entry]) -> Result<(), ApplyError> {
        let (mut batch, traces) = (Batch::default(), self.proposals.traces());
        let traced = traces.begin(entries);
        let (newest_term, has_work) = self.writer.with(|writer| -> Result<_, ApplyError> {
            for entry in entries {
                writer.apply(entry, &self.proposals, &mut batch)?;
            }
            self.published.store(Arc::new(writer.state.clone()));
            let newest_term = writer.lineage.last().map_or(0, |last| last.leader_id.term);
            Ok((newest_term, writer.has_work(&self.slack(), Revision(0))))
        })?;
        if let Some(traced) = traced {
            traced.end("apply");
            traces.forget(entries);
        }
        if has_work {
            self.work.notify_one();
        }
        self.proposals.complete(batch.outcomes, newest_term);
        self.announcements.mark(batch.changed);
        self.gate.advance(self.state().applied());
        Ok(())
    }

    /// Replaces the state by a snapshot of the leader. Watches from an older revision go on if their resource has not changed
    /// since, and else find their revision compacted.
    async fn install(&self, state: State, install: Box<dyn Install>, mark: &Mark) -> Result<(), DiskError> {
        let applied = state.applied();
        self.writer.with(Writer::begin_install);
        let generation = commit(install, mark).await?;
        self.writer.with(|writer| {
            // The library takes no snapshot from before its committed entries, and watchers count on it.
            assert!(applied >= writer.state.applied(), "a snapshot is no older than what is applied");
            writer.finish_install(state, mark, generation);
            self.past.clear(generation);
            self.published.store(Arc::new(writer.state.clone()));
            self.pages.clear(generation);
        });
        self.installed.fetch_add(1, Ordering::Relaxed);
        tracing::info!(revision = applied.0, "installed a snapshot of the leader's state");
        self.proposals.lose_all("the state was replaced by the leader's");
        self.announcements.mark_all();
        self.gate.advance(applied);
        Ok(())
    }

    /// The bounds to which history in memory is trimmed, whatever its age.
    fn bounds(&self) -> HistoryBounds {
        let HistoryOptions { bytes_max, entries_max, .. } = self.history;
        HistoryBounds { through: Revision(0), bytes_max, entries_max }
    }

    /// The bounds above which the keeper starts: a sixteenth larger, so that the disk is written in batches and not for every
    /// entry.
    fn slack(&self) -> HistoryBounds {
        let bounds = self.bounds();
        HistoryBounds {
            bytes_max: bounds.bytes_max.saturating_add(bounds.bytes_max / 16),
            entries_max: bounds.entries_max.saturating_add(bounds.entries_max / 16),
            ..bounds
        }
    }
}

impl<D: Disk, L: Lock<Writer>> Settle for Applied<D, L> {
    fn settle(&self, index: u64) -> bool {
        let (settled, has_work) = self.writer.with(|writer| {
            (writer.allow_purge(Revision(index)), writer.has_work(&self.slack(), Revision(0)))
        });
        if has_work {
            self.work.notify_one();
        }
        settled
    }
}

impl Writer {
    fn apply(&mut self, entry: &Entry, proposals: &Proposals, batch: &mut Batch) -> Result<(), ApplyError> {
        let revision = Revision(entry.log_id.index);
        let last = self.lineage.last();
        let expected = last.map_or(0, |last| last.index.saturating_add(1));
        // A log may begin at 1: entry 0 is the founding membership, and the library's contract permits a log without it.
        let begins = last.is_none() && entry.log_id.index == 1;
        if entry.log_id.index != expected && !begins {
            return Err(ApplyError::Gap { expected, found: entry.log_id.index });
        }
        if let Some(newest) = last.as_ref().map(term_of).filter(|newest| term_of(&entry.log_id) < *newest) {
            return Err(ApplyError::Term { index: revision, term: term_of(&entry.log_id), newest });
        }
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
                    batch.note_changes(&transaction);
                }
                if proposals.are_ours(id) {
                    batch.outcomes.push((id.sequence, outcome));
                }
            }
        }
        self.note_checkpoint();
        Ok(())
    }
}

impl Batch {
    fn note_changes(&mut self, transaction: &Transaction) {
        for operation in &transaction.operations {
            let key = match operation {
                Operation::Put(put) => &put.key,
                Operation::Delete(key) => key,
            };
            if !self.changed.contains(key.resource()) {
                self.changed.insert(key.resource().clone());
            }
        }
    }
}

/// An entry cannot be applied. No entry can be skipped, so the member stops.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error("a committed entry cannot be applied: {0}")]
    Decode(#[from] DecodeError),
    /// The log or the consensus library skipped or repeated an entry: going on would make this member differ.
    #[error("entry {found} was given to apply where entry {expected} follows")]
    Gap { expected: u64, found: u64 },
    /// A log's terms never decrease: marks and the sending again of proposals rely on that.
    #[error("entry {index} of term {term} was given to apply after one of term {newest}")]
    Term { index: Revision, term: u64, newest: u64 },
}
