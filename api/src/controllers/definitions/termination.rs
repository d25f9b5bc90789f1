//! The end of a definition: its objects are deleted as clients delete them, and then the definition goes.
//!
//! Owns the order. No object is created meanwhile: the write that began the deletion renewed the definition's record, on which each
//! create depends, and a create that knows of it is refused. So a collection that is found empty stays so.
//!
//!     marked -> InstanceDeletionInProgress -> objects are deleted, which finalizers may hold -> none are left
//!            -> InstanceDeletionCompleted, and without the finalizer the definition is removed, with its record

use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{State, Store};
use orch_rules::Action;
use orch_rules::kinds::definition::conditions::{Condition, ConditionType, Termination, set_condition};
use orch_rules::kinds::definition::finalizer;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::super::client::{Client, Place, Propagation, for_each, is_overtaken};
use super::super::rounds::Progress;
use super::status::patch;
use crate::definitions::{DEFINITIONS, storage_of_definition};
use crate::error::ApiError;
use crate::registry::Resource;

/// Objects deleted in one pass; the rest follows in the next, so that several definitions end side by side.
const BATCH_MAX: usize = 500;

/// Concurrent deletions: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 16;

/// How long objects may be held before the definition says so, as in the reference.
const HELD_MAX: Duration = Duration::from_secs(60);

/// Wait for the next look where a pass has deleted what it was to delete.
const NEXT: Duration = Duration::from_millis(5);

/// Goes on with the end of the definition called `name`. `resource` is the kind of definitions; `had_time`: objects were held for
/// [`HELD_MAX`] before.
pub(super) async fn go_on<S: Store>(
    client: &Client<S>,
    resource: &Arc<Resource>,
    name: &str,
    had_time: bool,
) -> Result<Progress, ApiError> {
    let ending = Ending { client, resource, name, storage: storage_of_definition(name) };
    ending.pass(had_time).await
}

struct Ending<'a, S> {
    client: &'a Client<S>,
    resource: &'a Arc<Resource>,
    name: &'a str,
    storage: Arc<str>,
}

impl<S: Store> Ending<'_, S> {
    async fn pass(&self, had_time: bool) -> Result<Progress, ApiError> {
        let state = self.client.most_recent().await?;
        // Brings the served registry up to this state: a new leader may not have read its definitions yet.
        self.client.follow_definitions().await;
        let Some((object, definition)) = self.definition(&state) else { return Ok(Progress::Settled) };
        let finalizer = self.finalizer();
        let finalizers = definition.at("metadata").items("finalizers");
        // few: those of one definition.
        if !definition.at("metadata").has("deletionTimestamp") || !finalizers.contains(&finalizer) {
            return Ok(Progress::Settled);
        }
        if self.reason(&definition) == "InstanceDeletionPending" {
            // Told of each definition, of one without objects, too.
            self.tell(&object, &definition, Termination::InProgress).await?;
            return Ok(Progress::After(Duration::ZERO));
        }
        let is_empty = state.collection(&self.storage).is_empty();
        if is_empty && !ConditionType::Established.is_true(&definition) {
            return self.release(&object, &definition, Termination::NeverEstablished).await;
        }
        if is_empty {
            return self.release(&object, &definition, Termination::Completed).await;
        }
        let Some(kind) = self.client.stored_resource(&self.storage) else {
            if self.overlaps_built_in(&definition) {
                return self.release(&object, &definition, Termination::OverlapsBuiltIn).await;
            }
            // Their finalizers count, and nobody can reach them: somebody has changed the conditions.
            let why = "they are not served".to_owned();
            self.tell(&object, &definition, Termination::Remaining(why)).await?;
            return Ok(Progress::After(HELD_MAX));
        };
        let doomed = doomed(&state, &self.storage);
        if doomed.is_empty() {
            if had_time {
                let why = "timed out waiting for the condition".to_owned();
                self.tell(&object, &definition, Termination::Remaining(why)).await?;
                // The next change of an object makes the definition due.
                return Ok(Progress::Settled);
            }
            return Ok(Progress::After(HELD_MAX));
        }
        if let Some(failure) = self.delete_all(&kind, doomed).await {
            self.tell(&object, &definition, Termination::DeleteFailed(failure.to_string())).await?;
            return Err(failure);
        }
        Ok(Progress::After(NEXT))
    }

    fn definition(&self, state: &State) -> Option<(SharedObject, Value)> {
        let object = state.collection(DEFINITIONS).get(self.name).cloned()?;
        let definition = serde_json::from_slice(&object.json).ok()?;
        Some((object, definition))
    }

    /// Whether a built-in resource has a path of the kind.
    fn overlaps_built_in(&self, definition: &Value) -> bool {
        let (served, spec) = (self.client.registry(), definition.at("spec"));
        let plural = spec.at("names").text("plural");
        // few: a definition has a bounded number of versions.
        spec.items("versions").iter().any(|version| {
            let found = served.find(spec.text("group"), version.text("name"), plural);
            found.is_some_and(|resource| resource.record.is_none())
        })
    }

    fn finalizer(&self) -> Value {
        json!(finalizer(self.client.registry().brand))
    }

    fn reason<'v>(&self, definition: &'v Value) -> &'v str {
        ConditionType::Terminating
            .find(definition)
            .map_or("InstanceDeletionPending", |found| found.text("reason"))
    }

    /// Deletes the objects at these paths; returns a failure, if there was one.
    async fn delete_all(&self, kind: &Arc<Resource>, doomed: Vec<(Arc<str>, String)>) -> Option<ApiError> {
        let results = for_each(doomed, CONCURRENT_WRITES_MAX, |(path, uid)| async move {
            let place = Place { resource: kind, path: &path };
            self.client.delete(place, &uid, None, Propagation::Background).await
        });
        // once: one pass over the results.
        results.await.into_iter().filter_map(Result::err).find(|error| !is_overtaken(error))
    }

    /// Writes the condition of this stage.
    async fn tell(
        &self,
        object: &SharedObject,
        definition: &Value,
        stage: Termination,
    ) -> Result<(), ApiError> {
        let Some(patch) = self.told(definition, stage) else { return Ok(()) };
        self.write(object, patch).await
    }

    /// Writes the last condition and removes the finalizer, in one write: the definition goes with it if nothing else holds it.
    async fn release(
        &self,
        object: &SharedObject,
        definition: &Value,
        stage: Termination,
    ) -> Result<Progress, ApiError> {
        let finalizer = self.finalizer();
        let kept = definition.at("metadata").items("finalizers").iter().filter(|of| **of != finalizer);
        let kept: Vec<Value> = kept.cloned().collect();
        let mut patch = self.told(definition, stage).unwrap_or_else(|| json!({}));
        patch["metadata"] = json!({"finalizers": kept});
        self.write(object, patch).await?;
        Ok(Progress::Settled)
    }

    /// The patch to the condition of this stage.
    fn told(&self, definition: &Value, stage: Termination) -> Option<Value> {
        let (brand, mut after) = (self.client.registry().brand, definition.clone());
        set_condition(&mut after, brand, &Condition::terminating(stage), &self.client.now_text());
        patch(definition, &after)
    }

    async fn write(&self, object: &SharedObject, mut patch: Value) -> Result<(), ApiError> {
        patch["metadata"]["uid"] = json!(object.index.uid);
        patch["metadata"]["resourceVersion"] = json!(object.revision.to_string());
        let place = Place { resource: self.resource, path: self.name };
        self.client.patch(place, Action::Status, &patch).await
    }
}

/// Path and uid of the first objects stored as `storage` that are not being deleted, a batch of them.
fn doomed(state: &State, storage: &str) -> Vec<(Arc<str>, String)> {
    let collection = state.collection(storage);
    let live = collection.range_from("").filter(|(_, object)| !object.index.terminating);
    live.take(BATCH_MAX).map(|(path, object)| (path.clone(), object.index.uid.clone())).collect()
}
