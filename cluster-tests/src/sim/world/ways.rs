//! How processes of members reach servers that are no members: webhooks, and aggregated servers.
//!
//! Owns which way each process takes; the servers are those of the runs.

use std::sync::{Arc, OnceLock};

use orch_api::aggregation::Relay;
use orch_api::webhook::Caller;
use orch_raft::transport::NodeId;

use super::World;

/// The ways from members to servers that are no members.
#[derive(Default)]
pub(super) struct Ways {
    /// How members call webhooks.
    callers: OnceLock<Callers>,
    /// How members reach aggregated servers.
    relays: OnceLock<Relays>,
}

/// The caller of webhooks of a process: of a member, in its process of this number.
pub type Callers = Box<dyn Fn(NodeId, u64) -> Arc<dyn Caller> + Send + Sync>;

/// The way of a process to aggregated servers: of a member, in its process of this number.
pub type Relays = Box<dyn Fn(NodeId, u64) -> Arc<dyn Relay> + Send + Sync>;

impl World {
    /// Has all processes from now on call webhooks by `callers`; the first ones stay. Without any they call none.
    pub fn call_webhooks(&self, callers: Callers) {
        // A second call changes nothing.
        let _ = self.0.ways.callers.set(callers);
    }

    /// The caller of webhooks of the `start`th process of `node`.
    pub fn caller(&self, node: NodeId, start: u64) -> Option<Arc<dyn Caller>> {
        self.0.ways.callers.get().map(|callers| callers(node, start))
    }

    /// Has all processes from now on reach aggregated servers by `relays`; the first ones stay. Without any they reach none.
    pub fn relay_requests(&self, relays: Relays) {
        // A second call changes nothing.
        let _ = self.0.ways.relays.set(relays);
    }

    /// The way of the `start`th process of `node` to aggregated servers.
    pub fn relay(&self, node: NodeId, start: u64) -> Option<Arc<dyn Relay>> {
        self.0.ways.relays.get().map(|relays| relays(node, start))
    }
}
