//! Reading one object.
//!
//! Owns the read of a GET without a sub-resource. `point` waits for a state that is recent enough.

use orch_raft::Store;
use orch_raft::object::SharedObject;

use super::{Pipeline, Request, revision_parameter};
use crate::error::ApiError;

impl<S: Store> Pipeline<S> {
    /// The stored object, in a state as recent as the `resourceVersion` parameter requires.
    pub(super) async fn get(&self, request: Request<'_>) -> Result<SharedObject, ApiError> {
        let key = request.key()?;
        let revision = revision_parameter(request.query.text("resourceVersion"))?;
        let state = self.state_for(revision).await?;
        state.object(&key).cloned().ok_or_else(|| ApiError::NotFound(request.subject()))
    }
}
