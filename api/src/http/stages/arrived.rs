//! The first stage: the head of a request and its connection, apart from the body.
//!
//! Owns taking a request apart, and what every later stage asks of the head: its representation, its 404. Headers of identity
//! that the peer may not send are gone from here on. It owns, too, which definitions the request sees.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version, header};
use orch_raft::{State, Store};
use orch_rules::Action;

use super::super::body::Upload;
use super::super::deadline::Deadline;
use super::super::headers::{accept, header_text};
use super::super::node_documents::Served;
use super::super::{Api, version};
use crate::authn::{Peer, UserReporter, impersonate};
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::metrics::Measured;
use crate::negotiate::{Negotiate, Representation, negotiate, negotiate_text, negotiate_without_table};
use crate::pipeline::Pipeline;
use crate::registry::{Record, Registry};
use crate::request::{Query, Target, TargetPath, parse_path, without_trailing_slash};

/// Paths that need no credentials.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", version::PATH];

/// The head of a request and its connection, without the body.
pub(in crate::http) struct Arrived {
    pub(in crate::http) method: Method,
    pub(in crate::http) version: Version,
    pub(in crate::http) uri: Uri,
    pub(in crate::http) path: String,
    pub(in crate::http) query: Query,
    /// Without those of identity that the peer may not send.
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) peer: Option<Arc<Peer>>,
    /// Of the request: what its connection needs to leave HTTP with the response.
    pub(in crate::http) extensions: Extensions,
    /// The registry and documents that were served when the request arrived.
    first: Served,
    /// Those of the newest definitions, where the first ones have nothing at the path.
    renewed: OnceLock<Served>,
    /// Reports the authenticated user to the listener.
    pub(in crate::http) reporter: Option<UserReporter>,
    pub(in crate::http) exchange: Arc<Exchange>,
    /// When the head was there, on the clock of [`Store::elapsed`].
    began: Duration,
    /// Metrics of this request; empty until its resource is known.
    measured: OnceLock<Measured>,
}

impl<S: Store> Api<S> {
    /// Takes `request` apart and begins its exchange.
    pub(super) fn arrive(&self, request: Request<Body>) -> (Arrived, Upload) {
        let (method, path, ambient) = (request.method(), request.uri().path(), &*self.pipeline.ambient);
        let exchange = Exchange::begin(method, path, request.headers(), ambient);
        let address = request.extensions().get::<Arc<Peer>>().map(|peer| peer.address.ip());
        let exchange = Arc::new(exchange.audited(self.auditor.as_ref(), request.uri(), address));
        let (parts, body) = request.into_parts();
        let upload = Upload::new(&parts.headers, body);
        let mut arrived = Arrived {
            query: Query::parse(parts.uri.query().unwrap_or("")),
            path: parts.uri.path().to_owned(),
            peer: parts.extensions.get::<Arc<Peer>>().cloned(),
            reporter: parts.extensions.get::<UserReporter>().cloned(),
            method: parts.method,
            version: parts.version,
            uri: parts.uri,
            headers: parts.headers,
            extensions: parts.extensions,
            first: self.served(),
            renewed: OnceLock::new(),
            exchange,
            began: self.pipeline.store.elapsed(),
            measured: OnceLock::new(),
        };
        self.pipeline.gate.strip_identity(arrived.peer.as_ref(), &mut arrived.headers);
        (arrived, upload)
    }
}

impl<S: Store> Api<S> {
    /// Has `arrived` see the definitions that this node has applied, where a definition may have changed what its path leads to.
    /// It asks no other member: the user is not known yet.
    pub(super) async fn catch_up_definitions(&self, arrived: &mut Arrived) {
        let Some(path) = Declarable::of(&arrived.path) else { return };
        let Pipeline { store, served, definitions, .. } = &*self.pipeline;
        if definitions.is_trusted(store) && path.is_current(&arrived.first.registry, &store.state()) {
            return;
        }
        definitions.catch_up(store, served).await;
        // Another request may have brought it up since this one arrived.
        arrived.first = self.served();
    }

    /// Brings the definitions of this node up to the newest ones of the cluster; `false`: no quorum told of them.
    pub(super) async fn refresh_definitions(&self) -> bool {
        let Pipeline { store, served, definitions, .. } = &*self.pipeline;
        definitions.refresh(store, served).await
    }

    /// Waits until the definition of the resource at the path of `arrived` is in force, unless it is refused or takes too long. The
    /// request needs no seat for that.
    pub(super) async fn settle_definition(&self, arrived: &Arrived) {
        let Pipeline { store, served, definitions, .. } = &*self.pipeline;
        if let Some(Declarable::Resource(target)) = Declarable::of(&arrived.path) {
            let name = format!("{}.{}", target.resource, target.group);
            let left = arrived.exchange.time_left(store.elapsed());
            definitions.settle_named(store, &name, left).await;
            definitions.catch_up(store, served).await;
        }
    }

    /// Has `arrived` see the definitions as this node serves them now.
    pub(super) fn renew(&self, arrived: &Arrived) {
        // A request looks once.
        let _ = arrived.renewed.set(self.served());
    }
}

/// A path that a definition may lead to.
enum Declarable {
    /// A resource of a group.
    Resource(Target),
    /// A document that describes groups.
    Document,
}

impl Declarable {
    /// The path, where a definition may lead to it.
    fn of(path: &str) -> Option<Declarable> {
        if path.starts_with("/openapi/") {
            return Some(Declarable::Document);
        }
        if !path.starts_with("/apis") {
            return None;
        }
        match parse_path(path) {
            TargetPath::Resource(target) => Some(Declarable::Resource(target)),
            TargetPath::Other => Some(Declarable::Document),
            TargetPath::Malformed => None,
        }
    }

    /// Whether `registry` has at the path what is to be served where `state` was applied.
    fn is_current(&self, registry: &Registry, state: &State) -> bool {
        let Declarable::Resource(target) = self else { return false };
        if !has_domain(target) {
            return true;
        }
        let found = registry.find(&target.group, &target.version, &target.resource);
        let is_same = |record: &Record| {
            state.object(&record.key).is_some_and(|found| found.revision == record.revision)
        };
        found.is_some_and(|resource| resource.record.as_ref().is_none_or(is_same))
    }
}

/// Whether the group of `target` may be that of a definition.
fn has_domain(target: &Target) -> bool {
    target.group.contains('.')
}

impl Arrived {
    /// Whether this is a read of a path that is open to everybody, by somebody who shows no credential: probes carry
    /// none. Whoever shows one needs the right to the path, as do those who ask for single checks.
    pub(super) fn is_without_credentials(&self) -> bool {
        let is_read = matches!(self.method, Method::GET | Method::HEAD);
        let path = without_trailing_slash(&self.path);
        let is_open = path.is_some_and(|path| OPEN_PATHS.contains(&path));
        let shows = self
            .headers
            .keys()
            .any(|name| *name == header::AUTHORIZATION || name.as_str().starts_with(impersonate::PREFIX));
        let is_known = self.peer.as_ref().is_some_and(|peer| peer.certificate.is_some() || peer.local_admin);
        is_read && is_open && !shows && !is_known
    }

    /// The registry and documents that the request sees.
    pub(in crate::http) fn served(&self) -> &Served {
        self.renewed.get().unwrap_or(&self.first)
    }

    /// Whether `target`, its path, leads to nothing, and a definition that this node has not applied may lead somewhere.
    pub(super) fn may_be_declared(&self, target: &Target) -> bool {
        let registry = &self.first.registry;
        let is_first = self.renewed.get().is_none();
        is_first
            && has_domain(target)
            && registry.find(&target.group, &target.version, &target.resource).is_none()
    }

    /// Whether the path is that of a document that describes kinds: a client that was told of a definition by one member finds it
    /// in those of each other one.
    pub(super) fn may_describe_definitions(&self) -> bool {
        matches!(Declarable::of(&self.path), Some(Declarable::Document))
    }

    /// The end of the request's time of `limit`, which calls of other servers on its behalf read from the exchange.
    pub(in crate::http) fn deadline_after(&self, limit: Duration) -> Deadline {
        let deadline = Deadline::after(self.began, limit);
        self.exchange.set_deadline(deadline.moment());
        deadline
    }

    /// The metrics of this request, set once when its resource is known.
    pub(in crate::http) fn measured(&self) -> &OnceLock<Measured> {
        &self.measured
    }

    /// The 404 for a path that is not served: below the core API or a served group a Status, elsewhere plain text.
    pub(in crate::http) fn not_found_error(&self) -> ApiError {
        if self.served().registry.covers(&self.path) { ApiError::UnknownPath } else { ApiError::NoPage }
    }

    /// The representation of the documents of `endpoint`.
    pub(in crate::http) fn representation_of(
        &self,
        endpoint: Endpoint<'_>,
    ) -> Result<Representation, ApiError> {
        let choose = match endpoint.action {
            _ if endpoint.resource.is_of_declared() => negotiate_text,
            Action::Scale => negotiate,
            _ if endpoint.is_readable() => negotiate,
            _ => negotiate_without_table,
        };
        self.representation(choose)
    }

    /// The representation that `negotiate` finds for this head.
    pub(super) fn representation(&self, negotiate: Negotiate) -> Result<Representation, ApiError> {
        let agent = header_text(&self.headers, &header::USER_AGENT);
        negotiate(accept(&self.headers).as_deref(), agent, &self.query, self.served().registry.brand)
    }
}
