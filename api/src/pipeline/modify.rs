//! Changing a stored object: read it, change it, propose the result under the condition that the object is unchanged.
//!
//! Owns the retries. A request that came too late once waits for its turn (`turns`). A change is first tried on the state
//! that this node has applied. A node may lag, so nothing is refused because of that state before a current one was read.

use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Put, Store, Transaction};

use super::stored::{is_same, without_revision};
use super::{Pipeline, WriteOutcome, Written};
use crate::budget::Budget;
use crate::error::ApiError;

/// The outcome of a change to an object's value.
pub(super) enum Change {
    /// Write this.
    Put(Put),
    /// Remove the object; `Some` is what it looked like at the end, for the answer.
    Remove(Option<Put>),
    /// Remove the object, which an update has just freed; the answer shows the update.
    Free(Put),
}

/// What became of an object.
pub(super) struct Modified {
    /// The JSON to answer with.
    pub json: bytes::Bytes,
    /// The stored object, if it still is.
    pub stored: Option<SharedObject>,
    /// The object before the change.
    pub before: SharedObject,
    /// The object is gone, or would be if this were no dry run.
    pub is_removal: bool,
}

/// Attempts on ever newer versions before the client is told to try again itself. Requests for one object take turns, so
/// few come near this number; it bounds the cost of one request.
const ATTEMPTS_MAX: usize = 100;

impl<S: Store> Pipeline<S> {
    /// Applies `change` to the object under `key`. `None`: there is no such object.
    pub(super) async fn modify(
        &self,
        key: &Key,
        budget: &Budget,
        dry_run: bool,
        mut change: impl FnMut(&SharedObject) -> Result<Change, ApiError> + Send,
    ) -> Result<Option<Modified>, ApiError> {
        // A change without effect is not proposed, so only a barrier tells whether it was tried on the newest version.
        let mut turn = if dry_run { None } else { self.turns.join(key, &self.store).await };
        let mut state = if dry_run { self.most_recent().await? } else { self.store.state() };
        let mut surely_current = dry_run;
        for _ in 0..ATTEMPTS_MAX {
            let found = state.object(key).cloned();
            let changed = found.as_ref().map(&mut change);
            match (found, changed) {
                (Some(before), Some(Ok(change))) if surely_current || !change.is_nothing(&before) => {
                    match self.carry_out(key, budget, before, change, dry_run).await? {
                        Some(modified) => return Ok(Some(modified)),
                        None if turn.is_none() => turn = Some(self.turns.take(key, &self.store).await),
                        None => {}
                    }
                    state = self.store.state();
                    // The refused entry was applied here, so this node has the version that caused the refusal.
                    surely_current = true;
                    continue;
                }
                (_, Some(Err(error))) if surely_current => return Err(error),
                (None, _) if surely_current => return Ok(None),
                _ => {}
            }
            state = self.most_recent().await?;
            surely_current = true;
        }
        Err(ApiError::Unavailable("the object changes faster than it can be written".to_owned()))
    }

    /// Proposes the change of `before`. `None`: it was no longer the newest version.
    async fn carry_out(
        &self,
        key: &Key,
        budget: &Budget,
        before: SharedObject,
        change: Change,
        dry_run: bool,
    ) -> Result<Option<Modified>, ApiError> {
        let (operation, last) = match change {
            Change::Put(put) if is_same(&put, &before) => return Ok(Some(unchanged(before))),
            Change::Put(put) if dry_run => {
                let json = with_revision(&put, &before);
                return Ok(Some(Modified { json, stored: None, before, is_removal: false }));
            }
            Change::Remove(last) if dry_run => {
                let json = last.as_ref().map_or(before.json.clone(), |put| with_revision(put, &before));
                return Ok(Some(Modified { json, stored: None, before, is_removal: true }));
            }
            Change::Free(put) if dry_run => {
                let json = with_revision(&put, &before);
                return Ok(Some(Modified { json, stored: None, before, is_removal: true }));
            }
            Change::Put(put) => (Operation::Put(put), Last::Stored),
            Change::Remove(None) => (Operation::Delete(key.clone()), Last::Before),
            Change::Remove(Some(put)) => (Operation::Delete(key.clone()), Last::Removed(put)),
            Change::Free(put) => (Operation::Delete(key.clone()), Last::Freed(put)),
        };
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: vec![Condition::AtRevision(key.clone(), before.revision)],
            operations: vec![operation],
        };
        budget.begin_write()?;
        match self.store.propose(transaction).await? {
            Outcome::Refused { .. } => Ok(None),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Applied { object, revision, .. } => {
                let json = match (&object, last) {
                    (Some(object), _) => object.json.clone(),
                    (None, Last::Removed(put)) => spliced(&put, revision.0),
                    (None, Last::Freed(put)) => with_revision(&put, &before),
                    (None, Last::Stored | Last::Before) => before.json.clone(),
                };
                let is_removal = object.is_none();
                Ok(Some(Modified { json, stored: object, before, is_removal }))
            }
        }
    }
}

/// What the answer shows of an object that may be gone.
enum Last {
    /// What was stored.
    Stored,
    /// What was there before.
    Before,
    /// This, with the revision of the removal.
    Removed(Put),
    /// This, with the revision it was before.
    Freed(Put),
}

impl Change {
    /// Whether `before` would stay as it is.
    fn is_nothing(&self, before: &SharedObject) -> bool {
        matches!(self, Change::Put(put) if is_same(put, before))
    }
}

impl Modified {
    /// The answer of an update or patch.
    pub(super) fn written(self, warnings: Vec<String>) -> Written {
        Written { json: self.json, stored: self.stored, outcome: WriteOutcome::Done, warnings }
    }
}

fn unchanged(before: SharedObject) -> Modified {
    Modified { json: before.json.clone(), stored: Some(Arc::clone(&before)), before, is_removal: false }
}

/// A dry run shows the version that the write was tried on.
fn with_revision(put: &Put, before: &SharedObject) -> bytes::Bytes {
    if before.revision.0 == 0 { without_revision(put) } else { spliced(put, before.revision.0) }
}

fn spliced(put: &Put, revision: u64) -> bytes::Bytes {
    let at = put.revision_at as usize;
    let mut json = Vec::with_capacity(put.json.len() + 20);
    json.extend_from_slice(&put.json[..at]);
    json.extend_from_slice(revision.to_string().as_bytes());
    json.extend_from_slice(&put.json[at..]);
    json.into()
}
