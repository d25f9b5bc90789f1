//! Definitions of custom kinds in the transactions that write them.
//!
//! Owns the record beside a definition: it is put when the definition is created, written again when what objects of the kind may
//! be is changed, and when the deletion begins, and removed with the definition. So one entry of the log changes both, and each
//! write of an object of the kind is applied under the condition that the record is of the revision that the request's resource was
//! made of (`propose`): a slow request stores nothing once its kind was changed, is being deleted, or is gone.
//!
//! Objects that an earlier kind of the same name has left in the store are removed before a definition is created.
//!
//! Invariant: while there is no record, no object of its kind is stored anew; so what is removed then stays removed.

use std::sync::Arc;

use futures::stream::{StreamExt, iter};
use orch_raft::{Condition, Key, ObjectPath, Operation, Outcome, Revision, Store, Transaction};
use orch_rules::Action;
use orch_schema::value::Value;

use super::{Answer, Pipeline, Request, WriteOutcome, Written};
use crate::admission::{Additions, View, forbidden};
use crate::definitions::record::{DefinitionRecord, first, record_key, renewed};
use crate::definitions::{DEFINITIONS, storage_of_definition};
use crate::error::{ApiError, Subject};
use crate::registry::{Resource, Stage};
use crate::request::Verb;

/// Objects that are removed between two looks at what is left.
const BATCH_MAX: usize = 256;

/// Removals under way: enough to share a sync to disk, few beside the clients' writes.
const REMOVALS_UNDER_WAY_MAX: usize = 32;

/// Whether objects of `resource` are definitions.
pub(super) fn declares(resource: &Resource) -> bool {
    *resource.storage == *DEFINITIONS
}

/// Refuses a new object of a kind that is being deleted. `name` is the one that the client gives it; empty where it is to be drawn.
pub(super) fn check_may_be_created(resource: &Resource, name: &str) -> Result<(), ApiError> {
    const REASON: &str = "create not allowed while custom resource definition is terminating";
    match resource.stage {
        Stage::Terminating => Err(forbidden(Subject::resource(resource, name), REASON)),
        Stage::Accepted | Stage::Established => Ok(()),
    }
}

impl<S: Store> Pipeline<S> {
    /// Adds the record of the new definition under `key` to its transaction.
    pub(super) fn record_new(&self, key: &Key, additions: &mut Additions) -> Result<(), ApiError> {
        let record = record_of(key)?;
        // Refused where this member believed wrongly that nothing is left of an earlier definition; tried again then.
        additions.begin_endpoint();
        additions.require(Condition::Absent(record.clone()));
        additions.operate(Operation::Put(first(record)));
        Ok(())
    }

    /// Adds to the transaction that changes the definition under `key` from `old` to `new` what becomes of its record. `new` is
    /// `None` where a deletion marks it. The definition's own condition guards the record, too: both change together.
    pub(super) fn record_change(
        &self,
        key: &Key,
        (old, new): (&Value, Option<&Value>),
        is_removal: bool,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), ApiError> {
        let record = record_of(key)?;
        if is_removal {
            additions.operate(Operation::Delete(record));
            return Ok(());
        }
        let put = match view.applied().state.object(&record) {
            Some(found) => renewed(record, &DefinitionRecord::of(found), old, new),
            // Of a cluster that was made from objects without records.
            None => Some(first(record)),
        };
        if let Some(put) = put {
            additions.operate(Operation::Put(put));
        }
        Ok(())
    }

    /// Has the registry of this node follow what `request`, which is answered with `answer`, has changed of a definition, and waits
    /// until a definition that was written is in force. A status changes nothing that anybody was told of: the loop that waits
    /// for its own write would bring up the registry for each of thousands of definitions.
    pub(super) async fn follow_definition(&self, request: Request<'_>, answer: &Answer) {
        if !declares(request.resource) || request.action != Action::Object {
            return;
        }
        let Pipeline { store, served, definitions, .. } = self;
        if matches!(request.verb, Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection) {
            definitions.catch_up(store, served).await;
        }
        if let Answer::Written(Written { stored: Some(object), outcome, .. }) = answer
            && request.verb != Verb::Delete
        {
            let left = request.exchange.time_left(store.elapsed());
            let waited = definitions.settle_written(store, object, left).await;
            // Other names of a kind that is served stand in no record, so that requests for it do not bring them up.
            if waited && *outcome == WriteOutcome::Done {
                definitions.catch_up(store, served).await;
            }
        }
    }

    /// Keeps the registry of this node equal to the definitions that it has applied.
    pub(crate) async fn follow_definitions(&self) -> std::convert::Infallible {
        self.definitions.follow(&self.store, &self.served).await
    }

    /// Removes what is stored of an earlier kind whose definition had the name in `key`, unless there is a definition again.
    ///
    /// # Errors
    /// The store takes no writes.
    pub(crate) async fn remove_leftovers(&self, key: &Key) -> Result<(), ApiError> {
        let record = record_of(key)?;
        let storage = storage_of_definition(key.name());
        // An older state may show nothing of what is left.
        let mut state = self.most_recent().await?;
        loop {
            let collection = state.collection(&storage);
            let left = collection.range_from("").take(BATCH_MAX);
            let doomed: Vec<(Arc<str>, Revision)> =
                left.map(|(path, object)| (path.clone(), object.revision)).collect();
            let is_defined = state.object(&record).is_some();
            drop(collection);
            if doomed.is_empty() || is_defined {
                return Ok(());
            }
            let removals = doomed.into_iter().map(|doomed| self.remove_object(&storage, &record, doomed));
            let mut removals = iter(removals).buffer_unordered(REMOVALS_UNDER_WAY_MAX);
            while let Some(removed) = removals.next().await {
                removed?;
            }
            drop(removals);
            state = self.store.state();
        }
    }

    /// One object a transaction: a watch of another member must be able to resume between any two.
    async fn remove_object(
        &self,
        storage: &Arc<str>,
        record: &Key,
        (path, revision): (Arc<str>, Revision),
    ) -> Result<(), ApiError> {
        let (namespace, name) = ObjectPath::of(&path).parts();
        let key =
            Key::new(storage, namespace, name).map_err(|error| ApiError::Internal(error.to_string()))?;
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: vec![Condition::Absent(record.clone()), Condition::AtRevision(key.clone(), revision)],
            operations: vec![Operation::Delete(key)],
        };
        match self.store.propose(transaction).await? {
            // Somebody else removes them, too, or has defined the kind again; the next look shows which.
            Outcome::Refused { .. } | Outcome::Applied { .. } => Ok(()),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
        }
    }
}

fn record_of(key: &Key) -> Result<Key, ApiError> {
    record_key(key.name()).ok_or_else(|| ApiError::Internal(format!("{} has no record", key.path())))
}
