//! HTTP: from a request to the pipeline and back.
//!
//! Owns the way of a request: its stages are in [`stages`], what happens at the end of them in `execution`, `connect` and
//! `pages`. It holds no rule of any kind of object.
//!
//! Invariant: a failure names no secret. It is a Status, except on health paths, on paths outside of all APIs, and the
//! 406 of an OpenAPI document.

mod assembly;
mod body;
mod brief;
mod connect;
mod deadline;
mod discovery;
mod execution;
mod gzip;
mod headers;
mod health;
mod large;
mod memory_ledger;
mod node_documents;
mod openapi;
mod own_paths;
mod pages;
mod pool;
mod relay;
mod request_figures;
mod reservation;
mod respond;
mod response_events;
mod revocation;
mod root;
mod slis;
mod stages;
#[cfg(test)]
mod tests;
mod token_keys;
mod traced;
mod turns;
mod until;
mod untrailed;
mod version;
mod waiting;
mod watching;

use std::sync::Arc;

use brief::Weights;
use bytes::Bytes;
use memory_ledger::Ledger;
use node_documents::NodeDocuments;
use pool::Pool;
use tokio_util::sync::CancellationToken;

use crate::audit::Auditor;
use crate::connect::Connector;
use crate::flow::FlowControl;
use crate::metrics::{Exposition, RequestMetrics};
use crate::pipeline::Pipeline;

pub use deadline::{REQUEST_MAX, check_timeout_beside};
pub use health::Scope;
pub use memory_ledger::WATCH_BYTES;
pub use respond::{Lasting, WatchResponse};
pub use response_events::finish_audit;
pub use version::Build;

/// The API of one node.
pub struct Api<S> {
    pipeline: Arc<Pipeline<S>>,
    /// Cancelled when the node shuts down: it becomes unready, and watches end.
    stopping: CancellationToken,
    node: Arc<NodeDocuments>,
    pool: Pool,
    weights: Weights,
    ledger: Ledger,
    /// The account of what watches hold.
    watch_ledger: Ledger,
    /// The rights of watches, which are asked for again.
    rights: Arc<revocation::Ledger>,
    metrics: RequestMetrics,
    flow: Arc<FlowControl>,
    /// Writes `/metrics`; `None`: the path is not served.
    exposition: Option<Arc<dyn Exposition>>,
    checks: health::Checks,
    build: Build,
    /// The document at `/version`.
    version: Document,
    /// Paths that the node serves beside this API, for the index.
    beside: Vec<&'static str>,
    auditor: Option<Arc<Auditor>>,
    /// `None`: no request is passed on to other servers.
    connector: Option<Connector>,
}

/// A document that is the same for every client.
type Document = Bytes;
