//! Deleting a collection: each object by its own transaction, several at a time.
//!
//! Owns the order of the response, which is the list's, and the end at the first failure. It is not atomic: objects
//! deleted before a failure stay deleted.

use futures::stream::{FuturesOrdered, StreamExt};
use orch_raft::object::SharedObject;
use orch_raft::{Key, Store};
use orch_rules::validate::tree::Tree;

use super::delete::DeleteOptions;
use super::staged::shown_list;
use super::stored::tree_of;
use super::{Answer, ListAnswer, Pipeline, Request};
use crate::error::ApiError;

/// Deletes under way for one request: enough to fill a batch of the log, few enough that a single client leaves room
/// for others.
pub(crate) const DELETIONS_UNDER_WAY_MAX: usize = 32;

/// The objects that a DELETE of a collection is about to delete.
pub(crate) struct CollectionToDelete {
    options: DeleteOptions,
    list: ListAnswer,
}

impl CollectionToDelete {
    /// Bytes of the objects. The response alone keeps them in memory until it is sent, because the store drops them.
    pub(crate) fn bytes(&self) -> usize {
        self.list.objects.iter().map(|object| object.json.len()).sum()
    }
}

impl<S: Store> Pipeline<S> {
    /// Finds the objects that a DELETE of a collection selects. Nothing is changed yet.
    pub(crate) async fn select_for_deletion(
        &self,
        request: Request<'_>,
    ) -> Result<CollectionToDelete, ApiError> {
        let options = self.delete_options(request)?;
        let mut list = self.list(request).await?;
        // Before the first object is deleted: a list that cannot be converted deletes nothing.
        shown_list(request.resource, &mut list, request).await?;
        Ok(CollectionToDelete { options, list })
    }

    /// DELETE of a collection. Returns the objects as they were found; one that was removed meanwhile is no error.
    pub(crate) async fn delete_collection(
        &self,
        request: Request<'_>,
        doomed: CollectionToDelete,
    ) -> Result<Answer, ApiError> {
        let CollectionToDelete { options, mut list } = doomed;
        let is_part = request.query.integer("limit")?.is_some_and(|limit| limit > 0);
        let is_one = list.objects.len() == 1;
        let mut waiting = list.objects.iter().map(|object| self.delete_found(request, object, &options));
        let mut under_way: FuturesOrdered<_> = waiting.by_ref().take(DELETIONS_UNDER_WAY_MAX).collect();
        while let Some(deleted) = under_way.next().await {
            deleted.map_err(|error| if is_one { error } else { to_partial_failure(error) })?;
            under_way.extend(waiting.next());
        }
        drop(under_way);
        if !is_part {
            list.continue_token = None;
            list.remaining = None;
        }
        Ok(Answer::Listed(list))
    }

    /// Deletes an object of the list.
    async fn delete_found(
        &self,
        request: Request<'_>,
        object: &SharedObject,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let stored = tree_of(object)?;
        let metadata = stored.at("metadata");
        let (namespace, name) = (metadata.text("namespace"), metadata.text("name"));
        let key = Key::new(&request.resource.storage, namespace, name)
            .map_err(|error| ApiError::Internal(error.to_string()))?;
        self.remove(request, &key, options).await.map(|_| ())
    }
}

/// The failure of one deletion among several. `Unavailable` promises that nothing was changed; here other objects may
/// be deleted already.
fn to_partial_failure(error: ApiError) -> ApiError {
    match error {
        ApiError::Unavailable(reason) => ApiError::OutcomeUnknown(reason),
        error => error,
    }
}
