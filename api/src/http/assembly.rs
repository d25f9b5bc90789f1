//! Assembly of the API: the pipeline, and what a node adds to it.
//!
//! Owns the defaults of parts that are not added. It answers no request.

use std::sync::Arc;

use axum::Router;
use orch_raft::Store;
use tokio_util::sync::CancellationToken;

use super::brief::Weights;
use super::health::{Checks, Scope};
use super::memory_ledger::{Ledger, WATCHES_DEFAULT};
use super::node_documents::{NodeDocuments, Served};
use super::pool::Pool;
use super::stages::handle;
use super::version::{self, Build};
use super::{Api, gzip, token_keys};
use crate::audit::Auditor;
use crate::connect::Connector;
use crate::flow::{FlowControl, Options as FlowOptions};
use crate::metrics::{Exposition, RequestMetrics};
use crate::pipeline::Pipeline;

impl<S: Store> Api<S> {
    /// The API over `pipeline`. Cancelling `stopping` makes the node unready and ends its watches.
    pub fn new(pipeline: Arc<Pipeline<S>>, stopping: CancellationToken) -> Self {
        let node = NodeDocuments::new(None, token_keys::served(&pipeline.gate));
        let (pool, ledger, metrics) =
            (Pool::new(), Ledger::new(), RequestMetrics::new(pipeline.served.clone()));
        let flow =
            FlowControl::new(FlowOptions::default(), pipeline.served.brand(), pipeline.ambient.clone());
        let flow = Arc::new(flow);
        let (exposition, checks, auditor, connector) = (None, Checks::default(), None, None);
        Api {
            pipeline,
            stopping,
            node,
            pool,
            weights: Weights::new(),
            ledger,
            watch_ledger: Ledger::of_watches(WATCHES_DEFAULT),
            rights: Arc::default(),
            metrics,
            flow,
            exposition,
            checks,
            build: Build::default(),
            version: version::document(Build::default()),
            beside: Vec::new(),
            auditor,
            connector,
        }
    }

    /// The same API under these settings of flow control.
    #[must_use]
    pub fn controlled(self, options: FlowOptions) -> Self {
        let flow = FlowControl::new(options, self.pipeline.served.brand(), self.pipeline.ambient.clone());
        Api { flow: Arc::new(flow), ..self }
    }

    /// The same API with at most `count` watches at once, half of them for one user.
    #[must_use]
    pub fn watched_by(self, count: usize) -> Self {
        Api { watch_ledger: Ledger::of_watches(count), ..self }
    }

    /// The flow control of this API, for the node's own paths beside it.
    pub fn flow(&self) -> Arc<FlowControl> {
        self.flow.clone()
    }

    /// The same API, with its requests audited by `auditor` if there is one.
    #[must_use]
    pub fn audited_by(self, auditor: Option<Arc<Auditor>>) -> Self {
        Api { auditor, ..self }
    }

    /// The same API, passing requests for logs, streams and proxies on through `connector`.
    #[must_use]
    pub fn connecting(self, connector: Connector) -> Self {
        Api { connector: Some(connector), ..self }
    }

    /// The same API, announcing the server's address (`HOST:PORT`) in discovery.
    #[must_use]
    pub fn reached_at(self, address: &str) -> Self {
        let keys = token_keys::served(&self.pipeline.gate);
        Api { node: NodeDocuments::new(Some(address), keys), ..self }
    }

    /// The registry and the node's documents for a request that begins now.
    pub(super) fn served(&self) -> Served {
        Served { registry: self.pipeline.served.load(), node: self.node.clone() }
    }

    /// The same API, telling what the program was built from.
    #[must_use]
    pub fn built(self, build: Build) -> Self {
        Api { version: version::document(build), build, ..self }
    }

    /// The same API, serving the text of `exposition` at `/metrics`.
    #[must_use]
    pub fn exposing(self, exposition: Arc<dyn Exposition>) -> Self {
        version::report(self.pipeline.served.brand(), self.pipeline.features, self.build);
        Api { exposition: Some(exposition), ..self }
    }

    /// The same API with a further check of its health. `passes` is called for each probe and must not wait.
    #[must_use]
    pub fn with_check(
        mut self,
        name: &'static str,
        scope: Scope,
        passes: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.checks.add(name, scope, Box::new(passes));
        self
    }

    /// The same API, with `paths` in the index at `/`: the node serves them beside it.
    #[must_use]
    pub fn beside(mut self, paths: impl IntoIterator<Item = &'static str>) -> Self {
        self.beside.extend(paths);
        self
    }

    /// A router that handles every path.
    pub fn router(self) -> Router {
        Router::new().fallback(handle::<S>).layer(gzip::layer()).with_state(Arc::new(self))
    }
}
