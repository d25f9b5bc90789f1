//! Repair: replaces a wrong state by one received from a peer, while entries are applied.
//!
//! Owns the exchange of the two states. The received state is that of an earlier entry. It catches up with the newest
//! applied entry from this member's own log, outside the writer's lock, and applies the last entries under that lock:
//!
//!     catch up ---> begin_install, the rest ---> disk commits ---> catch up ---> the rest, continue_as
//!
//! Before the commit, changes that leave its history go to the received copy on the disk, so that the history in memory
//! keeps its bounds. During the commit no history moves to the disk and no log entry is purged, as when the leader's
//! snapshot is installed. The applied index stays, so waiting readers and the consensus library take no part: only the
//! content changes.
//!
//! Invariant: the stored state is that of its mark, its history starts there, and no entry after it is missing from the
//! log ([`Applied`]'s invariant, docs/decisions/0002). A replacement that was begun must not be cancelled: memory would
//! hold the old state and the disk the new one.

use std::sync::Arc;

use super::store::{commit, stored_form};
use super::{Applied, Batch, Lock, Writer};
use crate::disk::{Disk, Generation, Install};
use crate::key::Revision;
use crate::member::codec::{Mark, entry_bytes};
use crate::member::consensus::Entry;
use crate::member::log::LogError;
use crate::state::State;

/// Entries applied under the writer's lock, at most: about one batch. A received state that lacks more catches up first.
pub(super) const LOCKED_ENTRIES_MAX: u64 = 512;

/// The same bound in bytes, unless a single entry has more.
pub(super) const LOCKED_BYTES_MAX: usize = 2 << 20;

/// Reads entries of this member's log from the first index to before the second: at least one, maybe not all.
pub(crate) type ReadLog<'a> = &'a (dyn Fn(u64, u64) -> Result<Vec<Entry>, LogError> + Sync);

/// The reason why a state was not replaced. The old state is unchanged, unless the disk failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("the log no longer holds what follows the received state: {0}")]
    Log(#[from] LogError),
    #[error("an entry of the log does not apply to the received state: {0}")]
    Apply(String),
    #[error(
        "the received state is stored up to revision {stored}, this member has applied {applied}, and its log may \
         start after {purgeable}"
    )]
    OutOfRange { stored: Revision, applied: Revision, purgeable: Revision },
    /// The disk failed, or the rest did not apply after the commit. The member stops.
    #[error("the received state cannot be kept: {0}")]
    Disk(String),
}

/// A received state, in memory and beside the current one on the disk.
struct Received {
    writer: Writer,
    install: Box<dyn Install>,
    /// The mark of the received copy on the disk.
    mark: Mark,
}

impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// Replaces the state by one received as of `mark`.
    pub(crate) async fn replace(
        &self,
        received: State,
        install: Box<dyn Install>,
        mark: &Mark,
        read: ReadLog<'_>,
    ) -> Result<(), ReplaceError> {
        let writer = Writer::new(received, mark, Generation::default());
        let mut received = Received { writer, install, mark: mark.clone() };
        self.begin_replace(&mut received, read).await?;
        let Received { writer: mut new, install, mark } = received;
        let generation = self.fatal.disk(commit(install, &mark).await).map_err(disk_error)?;
        // The disk has the new state and memory the old one: any failure from here on ends the member.
        let replaced = self.end_replace(&mut new, generation, read).await;
        self.fatal.disk(replaced).map_err(disk_error)?;
        self.announcements.mark_all();
        Ok(())
    }

    /// Brings `received` up to the applied revision, and stops the stored state, and with it purges of the log, from going past
    /// it.
    async fn begin_replace(&self, received: &mut Received, read: ReadLog<'_>) -> Result<(), ReplaceError> {
        loop {
            let begun = self.is_near(&received.writer)
                && self.writer.with(|writer| {
                    let (stored, applied) = (received.writer.stored(), writer.state.applied());
                    let purgeable = writer.purgeable();
                    if received.writer.state.applied() > applied || stored < purgeable {
                        return Err(ReplaceError::OutOfRange { stored, applied, purgeable });
                    }
                    let is_level = self.apply_rest(&mut received.writer, applied, read)?;
                    if is_level {
                        writer.begin_install();
                    }
                    Ok(is_level)
                })?;
            if begun {
                return Ok(());
            }
            self.apply_part(&mut received.writer, read)?;
            self.store_received(received)?;
            tokio::task::yield_now().await;
        }
    }

    /// Replaces the writer by `new`, whose stored state is committed as `generation`.
    async fn end_replace(
        &self,
        new: &mut Writer,
        generation: Generation,
        read: ReadLog<'_>,
    ) -> Result<(), ReplaceError> {
        loop {
            if self.is_near(new) && self.try_end_replace(new, generation, read)? {
                return Ok(());
            }
            self.apply_part(new, read)?;
            tokio::task::yield_now().await;
        }
    }

    /// Replaces the writer by `new`; `false` when `new` lacks more entries than may be applied under the lock.
    fn try_end_replace(
        &self,
        new: &mut Writer,
        generation: Generation,
        read: ReadLog<'_>,
    ) -> Result<bool, ReplaceError> {
        self.writer.with(|writer| {
            let applied = writer.state.applied();
            if !self.apply_rest(new, applied, read)? {
                return Ok(false);
            }
            // Watchers count on it: what was walked for them (`interest::hub`) is never undone.
            assert!(new.state.applied() >= applied, "a state that takes the place of another is no older");
            writer.continue_as(new, generation);
            self.past.clear(generation);
            self.published.store(Arc::new(writer.state.clone()));
            // After the new state is published: collections rebuilt from the old one are not kept.
            self.pages.clear(generation);
            Ok(true)
        })
    }

    /// Moves changes that leave the history of `received` to its copy on the disk.
    fn store_received(&self, received: &mut Received) -> Result<(), ReplaceError> {
        if !received.writer.has_work(&self.slack(), Revision(0)) {
            return Ok(());
        }
        while let Some(step) = received.writer.next_step(&self.bounds(), Revision(0)) {
            let put = received.install.put(stored_form(&step.leaving.changes));
            self.fatal.disk(put).map_err(disk_error)?;
            received.writer.finish_step(step.generation, step.leaving.floor);
            received.mark = step.mark;
        }
        Ok(())
    }

    /// Whether `new` lacks at most [`LOCKED_ENTRIES_MAX`] of the entries applied here.
    fn is_near(&self, new: &Writer) -> bool {
        self.state().applied().0.saturating_sub(new.state.applied().0) <= LOCKED_ENTRIES_MAX
    }

    /// Applies the entries that `new` lacks up to `to`, if one read gives them all and they are within [`LOCKED_BYTES_MAX`];
    /// else applies none and returns `false`. Called under the writer's lock.
    fn apply_rest(&self, new: &mut Writer, to: Revision, read: ReadLog<'_>) -> Result<bool, ReplaceError> {
        if new.state.applied() >= to {
            return Ok(true);
        }
        let rest = read(new.state.applied().0 + 1, to.0 + 1)?;
        let is_whole = rest.last().is_some_and(|last| last.log_id.index == to.0);
        let bytes: usize = rest.iter().map(entry_bytes).sum();
        let fits = is_whole && (bytes <= LOCKED_BYTES_MAX || rest.len() == 1);
        if fits {
            self.apply_to(new, &rest)?;
        }
        Ok(fits)
    }

    /// Applies the next entries that `new` lacks, as many as one read of the log gives.
    fn apply_part(&self, new: &mut Writer, read: ReadLog<'_>) -> Result<(), ReplaceError> {
        let (from, to) = (new.state.applied().0 + 1, self.state().applied().0 + 1);
        if from >= to {
            return Ok(());
        }
        self.apply_to(new, &read(from, to)?)
    }

    fn apply_to(&self, new: &mut Writer, entries: &[Entry]) -> Result<(), ReplaceError> {
        // Not used: proposers were answered when the entry was applied to the old state.
        let mut answered = Batch::default();
        for entry in entries {
            let applied = new.apply(entry, &self.proposals, &mut answered);
            applied.map_err(|error| ReplaceError::Apply(error.to_string()))?;
        }
        Ok(())
    }
}

fn disk_error(error: impl ToString) -> ReplaceError {
    ReplaceError::Disk(error.to_string())
}

#[cfg(test)]
impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// Simulates a fault of memory or of `apply`: an object appears that no entry wrote.
    pub(crate) fn damage(&self, key: &crate::key::Key) {
        let revision = self.state().applied();
        let object = crate::object::Object {
            revision,
            created: revision,
            written_ms: 0,
            json: crate::object::splice_revision(b"{\"v\":\"\"}", 6, revision),
            revision_at: 6,
            index: crate::object::Index::default(),
            protobuf: std::sync::OnceLock::new(),
        };
        self.writer.with(|writer| {
            writer.state.restore(key, Arc::new(object));
            self.published.store(Arc::new(writer.state.clone()));
        });
    }
}
