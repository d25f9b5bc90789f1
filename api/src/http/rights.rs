//! Watches end with the right to watch, and with the credential that they were opened with.
//!
//! Owns asking again, once a minute, whether the request that opened the watch would still be let in: whether its token,
//! certificate or front proxy still proves the same user, who may still impersonate whom the request acts as, who may
//! still watch. It knows no rule. The listener ends connections whose certificate has expired or was revoked.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::Store;

use crate::ambient::Ambient;
use crate::authn::{Credential, Moment};
use crate::authz::{Asked, Attributes};
use crate::follow::Applied;
use crate::gate::Gate;
use crate::request::{Query, Target};

/// How long a watch may outlive its right: the interval of bookmarks. A decision takes microseconds.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// The right that a watch was started with.
pub(super) struct WatchRight {
    pub(super) gate: Arc<Gate>,
    pub(super) ambient: Arc<dyn Ambient>,
    /// `None` for a request that passed no gate.
    pub(super) credential: Option<Credential>,
    pub(super) asked: Asked,
    pub(super) target: Target,
    pub(super) query: Query,
}

impl WatchRight {
    /// Completes when the watch would no longer be let in.
    pub(super) async fn lost<S: Store>(self, store: S) {
        let Some(credential) = &self.credential else { return std::future::pending().await };
        loop {
            store.sleep(ASK_EVERY).await;
            let applied = Applied::of(&store);
            let at = Moment { applied: &applied, now: self.ambient.now() };
            let attributes = Attributes::Resource(self.asked.attributes(&self.target, &self.query));
            if let Err(error) = self.gate.admits_still(credential, attributes, at).await {
                tracing::debug!(?credential, %error, "a watch ends with the right to it");
                return;
            }
        }
    }
}
