//! Replacing a state that is wrong by one received from a peer, while entries are applied.
//!
//! Owns the moment of the exchange. The state received is that of an earlier entry; it is brought up to the newest
//! applied one from this member's own log, aside, and the last entries under the writer's lock. While the disk makes it the
//! stored state no history moves to the disk, as when the leader's snapshot is installed. Whoever waits for
//! revisions notices nothing but the new content: the applied index stays, so the consensus library has no part in it.
//!
//! Invariant: the stored state is that of the received mark, its history starts there, and no entry after it is missing
//! from the log ([`Applied`]'s invariant, docs/decisions/0002).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Applied, Batch, Lock, Writer};
use crate::disk::{Disk, DiskError, Generation, Install};
use crate::key::Revision;
use crate::member::codec::Mark;
use crate::member::consensus::Entry;
use crate::member::log::LogError;
use crate::state::State;

/// Entries that are still applied under the writer's lock, at most: about one batch. Beyond them it catches up first.
const LOCKED_ENTRIES_MAX: u64 = 512;

/// Reads entries of this member's log from the first index, before the second, at least one.
pub(crate) type ReadLog<'a> = &'a (dyn Fn(u64, u64) -> Result<Vec<Entry>, LogError> + Sync);

/// Why a state was not replaced. The old one is as it was, unless the disk failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("the log no longer holds what follows the received state: {0}")]
    Log(#[from] LogError),
    #[error("an entry of the log does not apply to the received state: {0}")]
    Apply(String),
    #[error(
        "the received state is at revision {received}, this member at {applied} and its disk at {stored}"
    )]
    OutOfRange { received: Revision, applied: Revision, stored: Revision },
    /// The member stops.
    #[error("the received state cannot be kept: {0}")]
    Disk(String),
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
        let mut new = Writer::new(received, mark, Generation::default());
        self.begin_replace(&mut new, read)?;
        let (done, installed) = oneshot::channel();
        // The waiting side is gone only when the member is.
        install.commit(mark.encode(), Box::new(move |result| drop(done.send(result))));
        let gone = || DiskError { operation: "install", reason: "the disk went away".to_owned() };
        let installed = installed.await.unwrap_or_else(|_| Err(gone()));
        let generation = self.fatal.disk(installed).map_err(|error| ReplaceError::Disk(error.to_string()))?;
        // The disk has the new state and memory the old one: whatever fails from here on ends the member.
        let replaced = self.writer.with(|writer| {
            let applied = writer.state.applied();
            self.catch_up(&mut new, applied, read)?;
            writer.continue_as(new, generation);
            self.past.clear(generation);
            self.pages.clear();
            self.published.store(Arc::new(writer.state.clone()));
            Ok::<_, ReplaceError>(applied)
        });
        let applied = self.fatal.disk(replaced).map_err(|error| ReplaceError::Disk(error.to_string()))?;
        self.subscribers.lock().values().for_each(|subscriber| subscriber.announce(applied));
        Ok(())
    }

    /// Brings `new` up to what is applied, and keeps the stored state, and with it the log, from going past it.
    fn begin_replace(&self, new: &mut Writer, read: ReadLog<'_>) -> Result<(), ReplaceError> {
        let received = new.state.applied();
        loop {
            let applied = self.state().applied();
            if applied.0.saturating_sub(new.state.applied().0) <= LOCKED_ENTRIES_MAX {
                break;
            }
            self.catch_up(new, applied, read)?;
        }
        self.writer.with(|writer| {
            let (applied, stored) = (writer.state.applied(), writer.stored());
            // Log entries up to what is stored may be purged at any time.
            if received > applied || received < stored {
                return Err(ReplaceError::OutOfRange { received, applied, stored });
            }
            writer.begin_install();
            let caught_up = self.catch_up(new, applied, read);
            if caught_up.is_err() {
                writer.abandon_install();
            }
            caught_up
        })
    }

    fn catch_up(&self, new: &mut Writer, to: Revision, read: ReadLog<'_>) -> Result<(), ReplaceError> {
        // Answered when the entry was applied first.
        let mut answered = Batch::default();
        while new.state.applied() < to {
            for entry in read(new.state.applied().0 + 1, to.0 + 1)? {
                let applied = new.apply(&entry, &self.proposals, &mut answered);
                applied.map_err(|error| ReplaceError::Apply(error.to_string()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// What a fault of memory or of `apply` does: an object appears that no entry wrote.
    pub(crate) fn damage(&self, key: &crate::key::Key) {
        let revision = self.state().applied();
        let object = crate::object::Object {
            revision,
            created: revision,
            written_ms: 0,
            json: bytes::Bytes::from_static(b"{}"),
            revision_at: 1,
            index: crate::object::Index::default(),
            protobuf: std::sync::OnceLock::new(),
        };
        self.writer.with(|writer| {
            writer.state.restore(key, Arc::new(object));
            self.published.store(Arc::new(writer.state.clone()));
        });
    }
}
