//! The record of a definition: what a resource that was added while the node runs was made of.

use orch_raft::{Condition, Key, Revision};
use tokio_util::sync::CancellationToken;

/// An object of the store that stands for the definition of a kind, in the version that a resource was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// Its revision.
    pub revision: Revision,
}

impl Record {
    /// Holds while the definition is neither changed nor gone.
    pub fn condition(&self) -> Condition {
        Condition::AtRevision(self.key.clone(), self.revision)
    }
}

/// The end of a resource that was added while the node runs: it is taken away, or served in another form.
#[derive(Clone, Debug, Default)]
pub struct End(CancellationToken);

impl End {
    pub(super) fn come(&self) {
        self.0.cancel();
    }

    /// Completes when the resource has ended.
    pub async fn wait(self) {
        self.0.cancelled().await;
    }
}
