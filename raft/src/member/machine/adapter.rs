//! The state machine interface of the consensus library, over the applied state.
//!
//! Owns the translation of the library's calls. A snapshot to send is the published root, taken at once and without a
//! copy. A snapshot to install has been received in whole before the library passes it here.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};

use super::Applied;
use crate::Runtime;
use crate::disk::{Disk, Install};
use crate::member::codec::{Mark, entry_bytes};
use crate::member::consensus::{LogId, Snapshot, SnapshotMeta, StoredMembership, Types};
use crate::member::holds::Holds;
use crate::state::State;

/// Entries applied before the new state is published: bounds the time that a proposer waits for the entries behind its own,
/// and the memory held beside the log's tail.
const APPLY_ENTRIES_MAX: usize = 512;
/// The same bound in bytes.
const APPLY_BYTES_MAX: usize = 2 << 20;

/// The library's handle on the state.
pub(crate) struct Machine<R, D> {
    applied: Arc<Applied<D>>,
    holds: Arc<Holds>,
    runtime: PhantomData<fn() -> R>,
}

/// The content of a snapshot, at its sender or at its receiver.
pub(crate) enum SnapshotBody {
    /// A state to send.
    Sending(Arc<State>),
    /// A state received in whole, in memory and on disk beside the current one.
    Received(State, Box<dyn Install>),
}

impl<R, D> Machine<R, D> {
    pub(crate) fn new(applied: Arc<Applied<D>>, holds: Arc<Holds>) -> Self {
        Machine { applied, holds, runtime: PhantomData }
    }
}

impl<R: Runtime, D: Disk> Machine<R, D> {
    /// Applies one chunk of entries and completes their responders.
    fn apply_chunk(&self, chunk: &mut Vec<EntryResponder<Types<R>>>) -> Result<(), io::Error> {
        let (entries, responders): (Vec<_>, Vec<_>) = chunk.drain(..).unzip();
        let applied = &self.applied;
        applied.fatal.disk(applied.apply(&entries))?;
        for responder in responders.into_iter().flatten() {
            responder.send(());
        }
        Ok(())
    }
}

impl<R: Runtime, D: Disk> RaftStateMachine<Types<R>> for Machine<R, D> {
    type SnapshotData = SnapshotBody;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let (_, mark) = self.applied.now();
        Ok((mark.log_id, mark.membership))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types<R>>, io::Error>> + Unpin + OptionalSend,
    {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            bytes += entry_bytes(&entry);
            chunk.push((entry, responder));
            if chunk.len() >= APPLY_ENTRIES_MAX || bytes >= APPLY_BYTES_MAX {
                self.apply_chunk(&mut chunk)?;
                bytes = 0;
            }
        }
        if chunk.is_empty() { Ok(()) } else { self.apply_chunk(&mut chunk) }
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (state, mark) = self.applied.now();
        Builder { state, mark }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, body: SnapshotBody) -> Result<(), io::Error> {
        match body {
            SnapshotBody::Received(state, install) => {
                let (log_id, membership) = (meta.last_log_id, meta.last_membership.clone());
                let changed = Some(state.changed_at_floor(state.applied()));
                let mark = Mark { log_id, membership, changed };
                self.applied.fatal.disk(self.applied.install(state, install, &mark).await)
            }
            SnapshotBody::Sending(_) => Err(io::Error::other("a snapshot to send was given to install")),
        }
    }

    /// The newest state: it includes the library's last snapshot, so none has to be kept. But if a transfer broke off, and the
    /// log still has the entries after its snapshot, that snapshot again, so that the transfer can resume.
    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<SnapshotBody>>, io::Error> {
        if let Some((state, mark)) = self.holds.unfinished() {
            let bounds = self.applied.fatal.disk(self.applied.disk.log_bounds())?;
            if bounds.is_some_and(|(first, _)| first <= mark.revision().0 + 1) {
                return Ok(Some(snapshot_of(state, mark)));
            }
        }
        let (state, mark) = self.applied.now();
        Ok(mark.log_id.is_some().then(|| snapshot_of(state, mark)))
    }
}

/// A snapshot taken when the library asked for a builder, returned by `build_snapshot`.
pub(crate) struct Builder {
    state: Arc<State>,
    mark: Mark,
}

impl<R: Runtime> RaftSnapshotBuilder<Types<R>> for Builder {
    type SnapshotData = SnapshotBody;

    async fn build_snapshot(&mut self) -> Result<Snapshot<SnapshotBody>, io::Error> {
        Ok(snapshot_of(self.state.clone(), self.mark.clone()))
    }
}

fn snapshot_of(state: Arc<State>, mark: Mark) -> Snapshot<SnapshotBody> {
    let meta = SnapshotMeta { last_log_id: mark.log_id, last_membership: mark.membership };
    Snapshot { meta, snapshot: SnapshotBody::Sending(state) }
}
