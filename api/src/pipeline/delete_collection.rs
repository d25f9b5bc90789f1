//! Deleting a collection: one object after another, each by its own transaction.

use orch_raft::{Key, Store};

use super::stored::tree_of;
use super::{ListAnswer, Pipeline, Request};
use crate::error::ApiError;
use crate::validate::tree::Tree;

impl<S: Store> Pipeline<S> {
    /// DELETE of a collection. Answers with the objects as they were found; one that went by itself is no error.
    pub(super) async fn delete_collection(&self, request: Request<'_>) -> Result<ListAnswer, ApiError> {
        let options = self.delete_options(request)?;
        let mut answer = self.list(request).await?;
        for object in &answer.objects {
            let stored = tree_of(object)?;
            let metadata = stored.at("metadata");
            let (namespace, name) = (metadata.text("namespace"), metadata.text("name"));
            let key = Key::new(&request.resource.storage, namespace, name)
                .map_err(|error| ApiError::Internal(error.to_string()))?;
            self.remove(request, &key, &options).await?;
        }
        answer.continue_token = None;
        answer.remaining = None;
        Ok(answer)
    }
}
