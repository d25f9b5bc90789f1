//! Changing a stored object: read it, change it, propose the result under the condition that the object is unchanged.
//!
//! Owns the retries. A request whose first proposal met a newer version waits for its turn (`turns`). A change is first
//! tried on the state that this node has applied. The node may lag, so a refusal is final only after a quorum barrier.
//! Each attempt gets the parsed object.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Put, Store, Transaction};
use orch_schema::value::Value;

use super::stored::{is_same, tree_of, without_revision};
use super::{Pipeline, Request, WriteOutcome, Written};
use crate::admission::{self, Additions, Attributes, View};
use crate::allocation::{ADDRESSES, CLAIMS};
use crate::error::ApiError;
use crate::registry::Resource;

/// A version of an object that is to be changed.
pub(super) struct Current {
    /// The stored version.
    pub object: SharedObject,
    /// Its tree, in the stored form.
    pub value: Value,
    /// All objects at the same revision, for admission.
    pub view: View,
}

/// Computes one change from any version of an object.
pub(super) trait Attempt: Send {
    /// The change of `current`. Called again for each newer version that turns up before the change is applied.
    fn change(&mut self, current: Current) -> impl Future<Output = Result<Change, ApiError>> + Send;

    /// Whether the client names the `resourceVersion` that it changes. Such a change takes no turn: each change ahead
    /// of it in the queue would make it conflict.
    fn names_version(&self) -> bool;
}

/// A change of an object, and what admission adds to its transaction.
pub(super) struct Change {
    pub write: Write,
    pub additions: Additions,
}

/// The outcome of a change to an object's value.
pub(super) enum Write {
    /// Store this version.
    Put(Put),
    /// Remove the object. `Some`: its last form, for the response.
    Remove(Option<Put>),
    /// Remove the object, whose last hold (finalizer or other) an update has ended; the response shows the update.
    Free(Put),
}

/// Effect of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// A change to propose; the store refuses it unless it is based on the newest version.
    Proposal,
    /// The object stays as it is.
    Nothing,
    /// A refusal, or no object under the key.
    Answer,
}

impl Effect {
    fn of(found: Option<&SharedObject>, changed: Option<&Result<Change, ApiError>>) -> Effect {
        match (found, changed) {
            (Some(before), Some(Ok(change))) if change.is_nothing(before) => Effect::Nothing,
            (Some(_), Some(Ok(_))) => Effect::Proposal,
            _ => Effect::Answer,
        }
    }
}

/// The outcome of one proposal.
enum Proposed {
    /// The change is applied, or nothing was to be changed.
    Done(Modified),
    /// The object is no longer of the version that the change is based on.
    Overtaken,
    /// Another condition did not hold. `Some`: the object that the change shares with other writes.
    Contended(Option<Key>),
}

/// An object after a change.
pub(super) struct Modified {
    /// The JSON of the response.
    pub json: bytes::Bytes,
    /// The stored version; `None` if the object was removed or the change was a dry run.
    pub stored: Option<SharedObject>,
    /// The object before the change.
    pub before: SharedObject,
    /// The object is gone, or would be if this were no dry run.
    pub is_removal: bool,
}

/// Resources of which one transaction may change several objects: the quotas that a write is charged to, and the addresses
/// of a service of two families. Watches of them resume before such a revision. Claims are no API objects: nobody watches
/// them.
const CHANGED_TOGETHER: [&str; 3] = ["resourcequotas", ADDRESSES, CLAIMS];

/// Attempts of one request on newer versions before it fails as unavailable. Changes of one object take turns, so few
/// come near this number; creates whose plugins write one shared object (a counter) come near it when a hundred run at
/// once. It bounds the cost of one request.
pub(super) const ATTEMPTS_MAX: usize = 100;

/// The error of a write that conflicted [`ATTEMPTS_MAX`] times.
pub(super) fn changing_too_fast() -> ApiError {
    ApiError::Unavailable("the object changes faster than it can be written".to_owned())
}

impl<S: Store> Pipeline<S> {
    /// Applies the change that `attempt` makes to the object under `key`. `None`: there is no such object.
    pub(super) async fn modify(
        &self,
        request: Request<'_>,
        key: &Key,
        dry_run: bool,
        mut attempt: impl Attempt,
    ) -> Result<Option<Modified>, ApiError> {
        let takes_turns = !dry_run && !attempt.names_version();
        let mut turn = if takes_turns { self.turns.join(key, &self.store).await } else { None };
        // Always taken after the turn of the object itself, so that no two requests wait for each other.
        let mut shared_turn = None;
        let mut view = if dry_run { self.newest_view().await? } else { View::of(&self.store) };
        let mut surely_current = dry_run;
        for _ in 0..ATTEMPTS_MAX {
            let found = view.applied().state.object(key).cloned();
            let changed = match &found {
                None => None,
                Some(object) => {
                    let (object, value) = (object.clone(), tree_of(object)?);
                    Some(attempt.change(Current { object, value, view: view.clone() }).await)
                }
            };
            let effect = Effect::of(found.as_ref(), changed.as_ref());
            if !surely_current && effect != Effect::Proposal {
                // Nothing will be proposed, so only a barrier shows whether the attempt used the newest version.
                let newest = self.newest_view().await?;
                let stands =
                    newest.is_same(&view) || effect == Effect::Nothing && newest.has(key, found.as_ref());
                (view, surely_current) = (newest, true);
                if !stands {
                    continue;
                }
            }
            let (Some(before), Some(change)) = (found, changed.transpose()?) else { return Ok(None) };
            if !dry_run
                && shared_turn.is_none()
                && let Some(shared) = change.additions.contended()
            {
                shared_turn = self.turns.join(shared, &self.store).await;
                if shared_turn.is_some() {
                    (view, surely_current) = (View::of(&self.store), false);
                    continue;
                }
            }
            match self.carry_out(request, key, before, change, dry_run).await? {
                Proposed::Done(modified) => return Ok(Some(modified)),
                Proposed::Overtaken if takes_turns && turn.is_none() => {
                    drop(shared_turn.take());
                    turn = Some(self.turns.take(key, &self.store).await);
                }
                Proposed::Contended(Some(shared)) if shared_turn.is_none() => {
                    shared_turn = Some(self.turns.take(&shared, &self.store).await);
                }
                Proposed::Overtaken | Proposed::Contended(_) => {}
            }
            // The refused entry was applied here, so this node has the version that caused the refusal.
            (view, surely_current) = (View::of(&self.store), true);
        }
        Err(changing_too_fast())
    }

    /// Proposes the change of `before`.
    async fn carry_out(
        &self,
        request: Request<'_>,
        key: &Key,
        before: SharedObject,
        change: Change,
        dry_run: bool,
    ) -> Result<Proposed, ApiError> {
        let Change { write, additions } = change;
        let (operation, last) = match write {
            Write::Put(put) if is_same(&put, &before) => return Ok(Proposed::Done(unchanged(before))),
            Write::Put(put) if dry_run => {
                let json = with_revision(&put, &before);
                return Ok(Proposed::Done(Modified { json, stored: None, before, is_removal: false }));
            }
            Write::Remove(last) if dry_run => {
                let json = last.as_ref().map_or(before.json.clone(), |put| with_revision(put, &before));
                return Ok(Proposed::Done(Modified { json, stored: None, before, is_removal: true }));
            }
            Write::Free(put) if dry_run => {
                let json = with_revision(&put, &before);
                return Ok(Proposed::Done(Modified { json, stored: None, before, is_removal: true }));
            }
            Write::Put(put) => (Operation::Put(put), Last::Stored),
            Write::Remove(None) => (Operation::Delete(key.clone()), Last::Before),
            Write::Remove(Some(put)) => (Operation::Delete(key.clone()), Last::Removed(put)),
            Write::Free(put) => (Operation::Delete(key.clone()), Last::Freed(put)),
        };
        let unchanged = Condition::AtRevision(key.clone(), before.revision);
        request.budget.begin_write()?;
        match self.propose(unchanged, operation, &additions).await? {
            Outcome::Refused { condition: 0, .. } => Ok(Proposed::Overtaken),
            Outcome::Refused { condition, current, .. } => {
                let is_delete = matches!(last, Last::Before | Last::Removed(_));
                let operation =
                    if is_delete { admission::Operation::Delete } else { admission::Operation::Update };
                let attributes = Attributes {
                    namespace: key.namespace(),
                    name: key.name(),
                    dry_run,
                    ..self.attributes(request, operation)
                };
                let found = current.is_some();
                match self.admission.broken_condition(&attributes, &additions, condition - 1, found) {
                    Some(error) => Err(error),
                    None => Ok(Proposed::Contended(additions.contended().cloned())),
                }
            }
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Applied { object, revision, .. } => {
                let json = match (&object, last) {
                    (Some(object), _) => object.json.clone(),
                    (None, Last::Removed(put)) => spliced(&put, revision.0),
                    (None, Last::Freed(put)) => with_revision(&put, &before),
                    (None, Last::Stored | Last::Before) => before.json.clone(),
                };
                let is_removal = object.is_none();
                Ok(Proposed::Done(Modified { json, stored: object, before, is_removal }))
            }
        }
    }
}

impl<S: Store> Pipeline<S> {
    /// Proposes `operation`, if `condition` and those of admission hold, with the operations that admission adds.
    pub(super) async fn propose(
        &self,
        condition: Condition,
        operation: Operation,
        additions: &Additions,
    ) -> Result<Outcome, ApiError> {
        let mut operations: Vec<Operation> = iter::once(operation).chain(additions.operations()).collect();
        for (key, value) in additions.replacements() {
            operations.push(Operation::Put(self.replacement(key, value)?));
        }
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: iter::once(condition).chain(additions.conditions()).collect(),
            operations,
        };
        if let Some(key) = repeated(&transaction.operations) {
            let (resource, path) = (key.resource(), key.path());
            let message = format!("a transaction changes two objects of {resource}, one of them {path}");
            return Err(ApiError::Internal(message));
        }
        Ok(self.store.propose(transaction).await?)
    }

    /// The put of an object that admission replaces with a write.
    fn replacement(&self, key: &Key, value: &Value) -> Result<Put, ApiError> {
        let is_stored = |resource: &&Arc<Resource>| {
            *resource.storage == **key.resource() && resource.conversion.is_none()
        };
        // few: the served resources.
        let resource = self.registry.resources().find(is_stored);
        let resource = resource
            .ok_or_else(|| ApiError::Internal(format!("{} is replaced and not served", key.resource())))?;
        self.put(resource, key.clone(), &mut value.clone())
    }
}

/// The key of a second change of one resource, which a watch that resumes behind a revision would miss, but for
/// [`CHANGED_TOGETHER`]; of those each object changes once, too.
fn repeated(operations: &[Operation]) -> Option<&Key> {
    let (mut resources, mut together) = (BTreeSet::new(), BTreeSet::new());
    let mut keys = operations.iter().map(|operation| match operation {
        Operation::Put(put) => &put.key,
        Operation::Delete(key) => key,
    });
    // set: both are one.
    keys.find(|key| match is_changed_together(key.resource()) {
        true => !together.insert((key.resource(), key.path())),
        false => !resources.insert(key.resource()),
    })
}

/// Whether one transaction may change several objects of `resource`.
pub(crate) fn is_changed_together(resource: &str) -> bool {
    // few: three resources.
    CHANGED_TOGETHER.contains(&resource)
}

/// The version that the response shows.
enum Last {
    /// The stored version.
    Stored,
    /// The version before the removal.
    Before,
    /// This, with the revision of the removal.
    Removed(Put),
    /// This, with the revision that the object had before.
    Freed(Put),
}

impl Change {
    /// Whether `before` would stay as it is.
    fn is_nothing(&self, before: &SharedObject) -> bool {
        matches!(&self.write, Write::Put(put) if is_same(put, before))
    }
}

impl Modified {
    /// The result of an update or patch.
    pub(super) fn written(self) -> Written {
        Written { json: self.json, stored: self.stored, outcome: WriteOutcome::Done }
    }
}

fn unchanged(before: SharedObject) -> Modified {
    Modified { json: before.json.clone(), stored: Some(Arc::clone(&before)), before, is_removal: false }
}

/// The JSON of `put` at the revision of `before`: a dry run shows the version that it was tried on.
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
