//! Webhooks at the service of this server itself.
//!
//! Sends the review to the aggregated server whose collection the path names, as `system:apiserver`, without a connection to this
//! server. A call of any other path fails.
//!
//! Invariant: only `/apis/GROUP/VERSION/RESOURCE` is posted to. Whoever may configure webhooks must not have this server write
//! objects, or ask sub-resources, as itself.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::Request;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use orch_raft::Store;

use super::{Aggregation, own_request, passed_path};
use crate::ambient::Ambient;
use crate::authn::User;
use crate::egress::{EgressError, Reply};
use crate::follow::Applied;
use crate::registry::Handle;
use crate::request::{Target, TargetPath, parse_path};
use crate::view::View;
use crate::webhook::{Call, Caller};

const JSON: &str = "application/json";

/// The service of this server, as webhooks see it. Clones share everything.
#[derive(Clone)]
pub(crate) struct OwnService<S> {
    aggregation: Aggregation,
    store: S,
    served: Handle,
    ambient: Arc<dyn Ambient>,
}

impl<S> fmt::Debug for OwnService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnService").field(&self.aggregation).finish()
    }
}

impl<S: Store> OwnService<S> {
    /// The service of a node over `store` that serves `served` and, by `aggregation`, the groups of other servers.
    pub(crate) fn new(
        aggregation: Aggregation,
        store: S,
        served: Handle,
        ambient: Arc<dyn Ambient>,
    ) -> OwnService<S> {
        OwnService { aggregation, store, served, ambient }
    }

    async fn post(&self, call: &Call) -> Result<Reply, EgressError> {
        let host = || call.url.host.clone();
        let unreachable = |reason: String| EgressError::Unreachable { host: host(), reason };
        let none = || unreachable(format!("this server answers no webhook at {}", call.url.target));
        let (path, query) = call.url.target.split_once('?').unwrap_or((&call.url.target, ""));
        let target = reviewed(path).ok_or_else(none)?;
        if self.served.load().is_built_in(&target.group, &target.version) {
            return Err(none());
        }
        let applied = Applied::of(&self.store);
        let remote =
            self.aggregation.find(&applied, &target.group, &target.version).await.ok_or_else(none)?;
        if !remote.is_available {
            return Err(unreachable("service unavailable".to_owned()));
        }
        let (view, brand) = (View::of(&self.store), self.served.brand());
        let server = self.aggregation.locate(&remote, &view, brand, self.ambient.random());
        let server = server.map_err(|unresolved| unreachable(unresolved.to_string()))?;
        let path = passed_path(path).map_err(|_| none())?;
        let request = Request::post(if query.is_empty() { path } else { format!("{path}?{query}") })
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, JSON)
            .header(CONTENT_LENGTH, call.document.len());
        let body = Body::from(call.document.clone());
        let request = own_request(&server, &User::server(), request, body).map_err(unreachable)?;
        let relay = self.aggregation.relay().ok_or_else(none)?;
        let answer = relay.relay(server, request).await;
        let (head, body) = answer.map_err(|error| unreachable(error.to_string()))?.into_parts();
        let body = read(body, call.answer_bytes_max).await.map_err(|fault| match fault {
            Unread::TooLarge => EgressError::TooLarge { host: host() },
            Unread::Lost(reason) => EgressError::Lost { host: host(), reason },
        })?;
        Ok(Reply { status: head.status.as_u16(), retry_after: None, body })
    }
}

impl<S: Store> Caller for OwnService<S> {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let own = self.clone();
        async move {
            let (posting, late) = (Box::pin(own.post(&call)), Box::pin(own.store.sleep(call.timeout)));
            match select(posting, late).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(EgressError::Timeout { host: call.url.host.clone() }),
            }
        }
        .boxed()
    }
}

/// The collection at `path`, where it is one of the whole cluster in a group.
fn reviewed(path: &str) -> Option<Target> {
    let TargetPath::Resource(target) = parse_path(path) else { return None };
    let is_collection = target.namespace.is_empty() && target.name.is_empty() && !target.deprecated_watch;
    (is_collection && !target.group.is_empty()).then_some(target)
}

/// The reason why a body was not read.
enum Unread {
    TooLarge,
    Lost(String),
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Unread> {
    let read = Limited::new(body, bytes_max).collect().await;
    read.map(|body| body.to_bytes()).map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => Unread::TooLarge,
        None => Unread::Lost(error.to_string()),
    })
}
