//! The writes that decisions ask for.
//!
//! Owns their conditions: each is on the version that was decided on, but that an object which changed in what does not matter is deleted
//! all the same.

use orch_raft::Store;
use orch_schema::json;

use super::decide::{Action, Write};
use super::ownership::Ownership;
use crate::controllers::client::{Client, Place, Propagation};
use crate::error::ApiError;

/// Tries to delete an object that keeps changing in ways that do not matter here; then it is decided on again.
const TRIES_MAX: usize = 4;

/// Carries out `action`.
///
/// # Errors
/// It was not carried out: overtaken by another change, or failed.
pub(super) async fn write<S: Store>(client: &Client<S>, action: &Action) -> Result<(), ApiError> {
    let Action { object, uid, revision, write } = action;
    // Objects of a kind that is gone are removed by the caller that took the kind away.
    let Some(resource) = client.stored_resource(&object.storage) else { return Ok(()) };
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
