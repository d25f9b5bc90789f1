//! Watches end with the right to watch.
//!
//! Owns asking again, once a minute, whether the user of an open watch still may. It knows no rule.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::Store;

use crate::authn::User;
use crate::authz::{Asked, Attributes};
use crate::follow::Applied;
use crate::gate::Gate;
use crate::request::{Query, Target};

/// How long a watch may outlive its right: the interval of bookmarks. A decision takes microseconds.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// The right that a watch was started with.
pub(super) struct WatchRight {
    pub(super) gate: Arc<Gate>,
    pub(super) user: Arc<User>,
    pub(super) asked: Asked,
    pub(super) target: Target,
    pub(super) query: Query,
}

impl WatchRight {
    /// Completes when the user may no longer watch.
    pub(super) async fn lost<S: Store>(self, store: S) {
        loop {
            store.sleep(ASK_EVERY).await;
            let applied = Applied::of(&store);
            let attributes = Attributes::Resource(self.asked.attributes(&self.target, &self.query));
            if !self.gate.rule(&self.user, attributes, &applied).await.is_allowed() {
                tracing::debug!(user = self.user.name, "a watch ends with the right to it");
                return;
            }
        }
    }
}
