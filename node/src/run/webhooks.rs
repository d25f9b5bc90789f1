//! Resolves the flags of webhooks.

use std::sync::Arc;

use orch_api::ambient::Ambient;
use orch_api::egress::Reach;
use orch_api::webhook::{Routing, Webhooks};
use orch_proto::Brand;
use orch_raft::Store;

use crate::cli::WebhookArgs;
use crate::egress::Hooks;

/// How this node calls webhooks.
#[derive(Clone, Debug)]
pub struct WebhookPlan {
    reach: Reach,
    routing: Routing,
}

impl WebhookPlan {
    /// The plan of these flags.
    pub(super) fn of(arguments: WebhookArgs) -> WebhookPlan {
        let routing = match arguments.enable_aggregator_routing {
            true => Routing::Endpoints,
            false => Routing::ClusterAddress,
        };
        WebhookPlan { reach: Reach::of_objects(!arguments.deny_loopback_webhooks), routing }
    }

    /// The webhooks of a node over `store`.
    pub(super) fn start<S: Store>(
        &self,
        store: S,
        ambient: Arc<dyn Ambient>,
        brand: &'static Brand,
    ) -> Webhooks {
        let caller = Arc::new(Hooks::new(self.reach.clone()));
        Webhooks::new(caller, store, ambient, brand, self.routing)
    }
}
