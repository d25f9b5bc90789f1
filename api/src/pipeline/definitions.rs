//! Kinds that come and go while the node runs.
//!
//! Owns the record of a kind's definition in the store, and the order in which a kind is added, changed and taken away:
//!
//!     define    what is left of an earlier kind is removed -> record -> served
//!     redefine  record at a newer revision -> served in its new form
//!     undefine  the record goes -> no longer served -> objects are removed
//!
//! The record is an object of the internal resource [`DEFINITIONS`]. Each write of an object of the kind is applied under the
//! condition that the record is of the revision that the request's resource was made of (`propose`), so that a slow request
//! stores nothing once its kind was changed or is gone. Built-in kinds have no record, and their writes no such condition.
//! It does not know the contents of a definition.
//!
//! Invariant: while there is no record, no object of its kind is stored; so what is removed then stays removed.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{StreamExt, iter};
use orch_raft::{Condition, Key, Operation, Outcome, Put, Revision, Store, Transaction};

use super::Pipeline;
use crate::error::{ApiError, Subject};
use crate::registry::{Kind, Occupied, Record};

/// Storage resource of the records. They are no API objects: nothing serves them.
pub const DEFINITIONS: &str = "_definitions";

/// Objects that are removed between two looks at what is left.
const BATCH_MAX: usize = 256;

/// Removals under way: enough to share a sync to disk, few beside the clients' writes.
const REMOVALS_UNDER_WAY_MAX: usize = 32;

impl<S: Store> Pipeline<S> {
    /// Serves the kinds that `make` makes, all versions of the objects that are stored as `storage`. Objects of an earlier kind
    /// that are still stored there are removed before.
    ///
    /// # Errors
    /// `Conflict`: the kind is defined already, or another resource has its place; nothing is served then.
    pub async fn define(
        &self,
        storage: &Arc<str>,
        make: impl FnOnce(Record) -> Vec<Kind>,
    ) -> Result<(), ApiError> {
        if storage.starts_with('_') || self.registry().stored(storage).is_some() {
            return Err(conflict(format!("objects are stored as `{storage}` already")));
        }
        let key = record_key(storage)?;
        self.remove_objects(storage, &key).await?;
        let absent = Condition::Absent(key.clone());
        let revision = self.write_record(absent, Operation::Put(record_put(key.clone()))).await?;
        let kinds = make(Record { key: key.clone(), revision });
        if let Err(occupied) = self.served.update(|now| now.with(kinds)) {
            self.write_record(Condition::AtRevision(key.clone(), revision), Operation::Delete(key)).await?;
            return Err(refused(&occupied));
        }
        Ok(())
    }

    /// Serves the kinds that `make` makes instead of those whose objects are stored as `storage`, which stay. Writes that were
    /// judged by the earlier definition are refused.
    ///
    /// # Errors
    /// `UnknownPath`: nothing that was defined is stored there. `Conflict`: the definition was changed meanwhile, or another
    /// resource has the place of a kind; then nothing is served there.
    pub async fn redefine(
        &self,
        storage: &str,
        make: impl FnOnce(Record) -> Vec<Kind>,
    ) -> Result<(), ApiError> {
        let Record { key, revision } = self.record(storage)?;
        let unchanged = Condition::AtRevision(key.clone(), revision);
        let revision = self.write_record(unchanged, Operation::Put(record_put(key.clone()))).await?;
        let kinds = make(Record { key, revision });
        let updated = self.served.update(|now| now.without(storage).with(kinds));
        if let Err(occupied) = updated {
            let Ok(_) = self.served.update(|now| Ok::<_, std::convert::Infallible>(now.without(storage)));
            return Err(refused(&occupied));
        }
        Ok(())
    }

    /// Takes away the kind whose objects are stored as `storage`, with the objects. Finalizers hold none of them: whoever asks
    /// has deleted what clients wait for.
    ///
    /// # Errors
    /// `UnknownPath`: nothing that was defined is stored there. `Conflict`: the definition was changed meanwhile, or the kind was
    /// defined again while objects of the old one were removed.
    pub async fn undefine(&self, storage: &str) -> Result<(), ApiError> {
        let Record { key, revision } = self.record(storage)?;
        let unchanged = Condition::AtRevision(key.clone(), revision);
        self.write_record(unchanged, Operation::Delete(key.clone())).await?;
        let Ok(_) = self.served.update(|now| Ok::<_, std::convert::Infallible>(now.without(storage)));
        self.remove_objects(storage, &key).await
    }

    /// The record of the kind whose objects are stored as `storage`.
    fn record(&self, storage: &str) -> Result<Record, ApiError> {
        let served = self.registry();
        served.stored(storage).and_then(|resource| resource.record.clone()).ok_or(ApiError::UnknownPath)
    }

    async fn write_record(&self, condition: Condition, operation: Operation) -> Result<Revision, ApiError> {
        let conditions = vec![condition];
        let proposed_ms = self.ambient.now().millis();
        let transaction = Transaction { proposed_ms, conditions, operations: vec![operation] };
        match self.store.propose(transaction).await? {
            Outcome::Applied { revision, .. } => Ok(revision),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Refused { .. } => Err(conflict("the definition was changed meanwhile".to_owned())),
        }
    }

    /// Removes all objects that are stored as `storage`, while there is no record under `key`.
    async fn remove_objects(&self, storage: &str, key: &Key) -> Result<(), ApiError> {
        loop {
            let state = self.store.state();
            let collection = state.collection(storage);
            let left = collection.range_from("").take(BATCH_MAX);
            let doomed: Vec<(Arc<str>, Revision)> =
                left.map(|(path, object)| (path.clone(), object.revision)).collect();
            drop((state, collection));
            if doomed.is_empty() {
                return Ok(());
            }
            let removals = doomed.into_iter().map(|doomed| self.remove_object(storage, key, doomed));
            let mut removals = iter(removals).buffer_unordered(REMOVALS_UNDER_WAY_MAX);
            while let Some(removed) = removals.next().await {
                removed?;
            }
        }
    }

    /// One object a transaction: a watch of another member must be able to resume between any two.
    async fn remove_object(
        &self,
        storage: &str,
        record: &Key,
        (path, revision): (Arc<str>, Revision),
    ) -> Result<(), ApiError> {
        let key = object_key(storage, &path)?;
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: vec![Condition::Absent(record.clone()), Condition::AtRevision(key.clone(), revision)],
            operations: vec![Operation::Delete(key)],
        };
        match self.store.propose(transaction).await? {
            Outcome::Refused { condition: 0, .. } => {
                Err(conflict("the kind was defined again meanwhile".to_owned()))
            }
            // Somebody else removes them, too.
            Outcome::Refused { .. } | Outcome::Applied { .. } => Ok(()),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
        }
    }
}

/// The key of the record of the kind whose objects are stored as `storage`.
fn record_key(storage: &str) -> Result<Key, ApiError> {
    Key::new(&DEFINITIONS.into(), "", storage).map_err(|error| ApiError::BadRequest(error.to_string()))
}

fn object_key(storage: &str, path: &str) -> Result<Key, ApiError> {
    let (namespace, name) = orch_raft::ObjectPath::of(path).parts();
    Key::new(&storage.into(), namespace, name).map_err(|error| ApiError::Internal(error.to_string()))
}

/// The record under `key`: its revision is all that it says.
fn record_put(key: Key) -> Put {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let json = Bytes::from_static(br#"{"metadata":{"resourceVersion":""}}"#);
    let revision_at = u32::try_from(HEAD.len()).unwrap_or_default();
    Put { key, json, revision_at, index: orch_raft::Index::default() }
}

fn refused(occupied: &Occupied) -> ApiError {
    conflict(occupied.to_string())
}

fn conflict(reason: String) -> ApiError {
    ApiError::Conflict { subject: Subject::default(), reason }
}
