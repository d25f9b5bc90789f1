//! The record of a definition: what a resource that was added while the node runs was made of.

use std::sync::Arc;

use orch_raft::{Condition, Key, Revision};
use tokio_util::sync::CancellationToken;

/// An object of the store that stands for the definition of a kind, in the version that a resource was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub revision: Revision,
    /// The revision at which the definition was created: before, objects under the same name in the store were of another kind.
    pub created: Revision,
}

impl Record {
    /// Holds while the definition is neither changed nor gone.
    pub fn condition(&self) -> Condition {
        Condition::AtRevision(self.key.clone(), self.revision)
    }
}

/// How far a definition has come, as far as what is served depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Its names are accepted: its objects are served, and discovery does not tell of them yet.
    Accepted,
    /// It is in force.
    #[default]
    Established,
    /// It is being deleted with its objects: none can be created any more.
    Terminating,
}

/// The end of a resource that was added while the node runs: it is taken away, or served in another form.
#[derive(Clone, Debug, Default)]
pub struct End(Arc<CancellationToken>);

impl End {
    /// Whether both are the end of the same form of a resource.
    pub(super) fn is(&self, other: &End) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn come(&self) {
        self.0.cancel();
    }

    /// Completes when the resource has ended.
    pub async fn wait(self) {
        self.0.cancelled().await;
    }
}
