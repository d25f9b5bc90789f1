//! The garbage collector: deletes objects none of whose owners exist any more.
//!
//! Owns the loop around the graph and the rules. Objects that may have to be collected wait in a queue for about a
//! second. Then one read barrier serves a whole batch: each object is decided on in that state, and the writes are
//! conditional on the object's version. An object that changed meanwhile is decided on again.
//!
//!     changes -> graph -> queue -> (barrier) -> decide -> write -> changes ...
//!
//! Events are left out, as owners and as dependents: they expire.

mod decide;
mod graph;
mod misplaced;
mod ownership;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::warnings::WarningLimit;
use orch_raft::{State, Store, Subscription};
use orch_schema::json;

use self::decide::{Action, Decision, View, Write};
use self::graph::{Graph, ObjectRef, Watched};
use self::misplaced::{CrossNamespaceOwner, report_all};
use self::ownership::Ownership;
use super::client::{Client, Moment, Place, Propagation, any_changed, for_each, is_overtaken};
use super::queue::Queue;
use crate::error::ApiError;
use crate::follow::{Applied, Follower};

/// Limits warnings of objects that cannot be read: thousands may be due at once.
static UNREADABLE: WarningLimit<Moment> = WarningLimit::new();

/// Limits warnings of objects that cannot be removed yet: a client may store any number of them.
static UNCOLLECTED: WarningLimit<Moment> = WarningLimit::new();

/// The loop's period while it is not idle: changes are looked at in batches.
const TICK: Duration = Duration::from_millis(250);

/// Objects decided on after one barrier.
const BATCH_MAX: usize = 256;

/// Batches of one tick: a new leader, which looks at every dependent, leaves time for requests between them.
const BATCHES_PER_TICK: usize = 8;

/// Writes of one batch; the objects of further ones wait for the next.
const WRITES_MAX: usize = 512;

/// Concurrent writes: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// Tries to delete an object that keeps changing in ways that do not matter here; then it waits for a tick.
const TRIES_MAX: usize = 4;

/// Storage resources that the collector leaves out.
const IGNORED: [&str; 1] = ["events"];

/// Collects garbage. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let storages = storages(client);
    let mut changed: Vec<Subscription> = storages.iter().map(|storage| store.subscribe(storage)).collect();
    let mut follower = Follower::new(Watched::new(storages), &client.newest().await?);
    loop {
        if follower.value().queue.is_empty() {
            any_changed(&mut changed).await;
        }
        store.sleep(TICK).await;
        follower.value_mut().queue.tick();
        follower.advance(&Applied::of(store));
        for _ in 0..BATCHES_PER_TICK {
            let due = follower.value_mut().queue.take_due(BATCH_MAX);
            if due.is_empty() {
                break;
            }
            // An object absent in this state is gone for good.
            let applied = client.newest().await?;
            let Watched { graph, queue, .. } = follower.advance(&applied);
            let (writes, misplaced) = decide_all(client, &applied.state, graph, due, queue);
            report_all(client, misplaced).await;
            write_all(client, writes, queue).await;
        }
    }
}

/// Storage resources of all served resources, but for [`IGNORED`].
fn storages<S: Store>(client: &Client<S>) -> Vec<Arc<str>> {
    let mut storages: Vec<Arc<str>> =
        client.registry().resources().map(|resource| resource.storage.clone()).collect();
    storages.sort();
    storages.dedup();
    // few: the product's resources.
    storages.retain(|storage| !IGNORED.contains(&&**storage));
    storages
}

/// The actions for `due`, each with the object that is its cause, and the misplaced references to report. Objects
/// beyond [`WRITES_MAX`] go back to the queue.
fn decide_all<S: Store>(
    client: &Client<S>,
    state: &State,
    graph: &Graph,
    due: Vec<ObjectRef>,
    queue: &mut Queue<ObjectRef>,
) -> (Vec<(ObjectRef, Action)>, Vec<CrossNamespaceOwner>) {
    let view = View { state, graph, registry: client.registry() };
    let mut writes: Vec<(ObjectRef, Action)> = Vec::new();
    let mut told = Vec::new();
    for object in due {
        if writes.len() >= WRITES_MAX {
            queue.add(&object, 1);
            continue;
        }
        match view.decide(&object) {
            Ok(Decision { actions, look, misplaced }) => {
                told.extend(misplaced);
                look.iter().for_each(|next| queue.add(next, 0));
                if actions.is_empty() {
                    queue.done(&object);
                }
                writes.extend(actions.into_iter().map(|action| (object.clone(), action)));
            }
            Err(error) => {
                let ObjectRef { storage, path } = &object;
                if let Some(left_out) = UNREADABLE.pass_at(client.moment()) {
                    tracing::error!(%error, %storage, %path, left_out, "a stored object cannot be read");
                }
            }
        }
    }
    (writes, told)
}

async fn write_all<S: Store>(
    client: &Client<S>,
    writes: Vec<(ObjectRef, Action)>,
    queue: &mut Queue<ObjectRef>,
) {
    let results = for_each(writes, CONCURRENT_WRITES_MAX, |(cause, action)| async move {
        let result = write(client, &action).await;
        (cause, result)
    });
    for (cause, result) in results.await {
        match result {
            Ok(()) => queue.done(&cause),
            Err(error) if is_overtaken(&error) => queue.add(&cause, 1),
            Err(error) => {
                let ObjectRef { storage, path } = &cause;
                if let Some(left_out) = UNCOLLECTED.pass_at(client.moment()) {
                    tracing::warn!(%error, %storage, %path, left_out, "garbage cannot be collected yet");
                }
                queue.failed(&cause);
            }
        }
    }
}

async fn write<S: Store>(client: &Client<S>, action: &Action) -> Result<(), ApiError> {
    let Action { object, uid, revision, write } = action;
    let resource = client
        .stored_resource(&object.storage)
        .ok_or_else(|| ApiError::Internal(format!("{} is not served", object.storage)))?;
    let place = Place { resource: &resource, path: &object.path };
    match write {
        Write::Delete(propagation, as_of) => delete(client, place, action, *propagation, as_of).await,
        Write::Metadata(fields) => {
            let mut metadata = fields.clone();
            metadata["uid"] = json!(uid);
            metadata["resourceVersion"] = json!(revision.to_string());
            client.patch(place, orch_rules::Action::Object, &json!({"metadata": metadata})).await
        }
    }
}

/// Deletes the object in the version decided on, or in its newest one if uid, owners and finalizers are the same.
async fn delete<S: Store>(
    client: &Client<S>,
    place: Place<'_>,
    action: &Action,
    propagation: Propagation,
    as_of: &Ownership,
) -> Result<(), ApiError> {
    let mut revision = action.revision;
    let mut result = Ok(());
    for _ in 0..TRIES_MAX {
        result = client.delete(place, &action.uid, Some(revision), propagation).await;
        if !matches!(result, Err(ApiError::Conflict { .. })) {
            break;
        }
        let found = action.object.find(&client.store().state());
        let same = found.filter(|found| {
            found.index.uid == action.uid
                && !found.index.terminating
                && Ownership::of(found).is_ok_and(|now| now == *as_of)
        });
        match same {
            Some(found) if found.revision != revision => revision = found.revision,
            _ => break,
        }
    }
    result
}
