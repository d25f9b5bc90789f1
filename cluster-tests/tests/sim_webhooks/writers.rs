//! Clients that write config maps over HTTP and at any member.
//!
//! Owns their requests and the codes that a correct server may answer. What became of a request whose answer was lost, the ledger
//! tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orch_cluster_tests::sim::requests::{ask, request_with};
use orch_cluster_tests::sim::session::Session;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use serde_json::{Value, json};

use super::plant::Plant;

/// Names of objects: few, so that clients collide.
const NAMES: usize = 5;

/// Codes that a correct server answers to a correct request: refused, gone, taken or changed, too many, a webhook failed, not now.
pub(crate) const CODES: [u16; 9] = [200, 201, 403, 404, 409, 429, 500, 503, 504];

/// The path of the objects.
pub(crate) const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

/// The beginning of the token of a dry run.
pub(crate) const DRY: &str = "dry";

/// Requests that were answered with a refusal or a failure of webhooks.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) denied: AtomicU64,
    pub(crate) failed: AtomicU64,
    tokens: AtomicU64,
}

/// A client.
#[derive(Clone)]
pub(crate) struct Writer {
    session: Session,
    seen: Arc<Seen>,
    plant: Option<Plant>,
}

impl Writer {
    pub(crate) fn new(world: &World, number: u64, seen: &Arc<Seen>, plant: Option<Plant>) -> Self {
        Writer { session: Session::new(world, number), seen: seen.clone(), plant }
    }

    pub(crate) fn world(&self) -> &World {
        self.session.world()
    }

    /// The session of the client.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// A member at random.
    pub(crate) fn pick(&self) -> NodeId {
        self.session.pick()
    }

    /// Sends a request to `node`; its code. One that no correct server answers fails the run.
    pub(crate) async fn ask(&self, node: NodeId, method: &str, path: &str, body: &Value) -> Option<u16> {
        let (code, _) = ask(&self.session, &CODES, node, request_with(method, path, body)).await?;
        match code {
            403 => self.seen.denied.fetch_add(1, Ordering::Relaxed),
            500 => self.seen.failed.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        Some(code)
    }

    /// Writes until the run calms down.
    pub(crate) async fn write(self) {
        while self.world().is_busy() {
            self.session.think(150).await;
            let dice = self.session.dice();
            let name = format!("w{}", dice.index(NAMES));
            let path = format!("{OBJECTS}/{name}");
            match dice.number(0..20) {
                0..=7 => {
                    self.create(self.pick(), &name).await;
                }
                8..=13 => {
                    self.ask(self.pick(), "PUT", &path, &self.object(&name, "")).await;
                }
                14..=16 => {
                    let query = if self.plant == Some(Plant::StoresDryRuns) { "" } else { "?dryRun=All" };
                    let (path, object) = (format!("{OBJECTS}{query}"), self.object(&name, DRY));
                    self.ask(self.pick(), "POST", &path, &object).await;
                }
                _ => {
                    self.ask(self.pick(), "DELETE", &path, &Value::Null).await;
                }
            }
        }
    }

    /// Creates an object; the code.
    pub(crate) async fn create(&self, node: NodeId, name: &str) -> Option<u16> {
        self.ask(node, "POST", OBJECTS, &self.object(name, "")).await
    }

    /// An object with a token of its own and without a mark.
    fn object(&self, name: &str, prefix: &str) -> Value {
        let number = self.seen.tokens.fetch_add(1, Ordering::Relaxed);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"token": format!("{prefix}{number}")},
        })
    }
}
