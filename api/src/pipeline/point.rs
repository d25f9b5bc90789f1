//! The point in time that a read is served from.
//!
//! Owns the waits: a quorum barrier for "most recent", a short wait for "not older than". It never looks at objects.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::{Revision, State, Store};

use crate::admission::View;

use super::Pipeline;
use crate::error::ApiError;

/// Longest wait of a read for a revision that this node has not applied: that of the reference.
const REVISION_WAIT: Duration = Duration::from_secs(3);

impl<S: Store> Pipeline<S> {
    /// A state no older than any write acknowledged before the call.
    pub(crate) async fn most_recent(&self) -> Result<Arc<State>, ApiError> {
        self.store.barrier().await?;
        Ok(self.store.state())
    }

    /// A view of a state no older than any write acknowledged before the call.
    pub(super) async fn newest_view(&self) -> Result<View, ApiError> {
        self.store.barrier().await?;
        Ok(View::of(&self.store))
    }

    /// A state at least as new as `revision`.
    ///
    /// # Errors
    /// `RevisionTooLarge` when this node does not reach it in time.
    pub(crate) async fn not_older_than(&self, revision: Revision) -> Result<Arc<State>, ApiError> {
        let state = self.store.state();
        if state.applied() >= revision {
            return Ok(state);
        }
        if self.store.wait_applied(revision, REVISION_WAIT).await {
            return Ok(self.store.state());
        }
        Err(ApiError::RevisionTooLarge { requested: revision.0, current: self.store.state().applied().0 })
    }

    /// The state for a `resourceVersion`: absent for the most recent, `0` for any, else not older than it.
    pub(crate) async fn state_for(&self, revision: Option<Revision>) -> Result<Arc<State>, ApiError> {
        match revision {
            None => self.most_recent().await,
            Some(Revision(0)) => Ok(self.store.state()),
            Some(revision) => self.not_older_than(revision).await,
        }
    }
}
