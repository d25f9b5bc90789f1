//! Aggregation: groups and versions that another server answers, because an APIService names its service.
//!
//! Owns which requests are another server's, who that server has to be, where its service is, and the identity under which requests
//! are passed on. It opens no connection: [`Relay`] does, in `node`. `crate::http` passes requests on, `controllers` looks whether
//! the servers are there.
//!
//!     APIService -> Remote (in `Remotes`, by group and version)  -> service -> host and port -> Server -> Relay
//!
//! Invariant: groups and versions that are built in are never another server's: whoever may write an APIService must not read
//! other users' secrets thereby.
//! Invariant: a path reaches another server as it was authorized ([`passed_path`]).
//! Invariant: headers of identity are this server's own, and no credential of a client is passed on.
//!
//! See docs/decisions/0051-aggregated-servers-are-passed-on-to-behind-the-gate.md.

mod checked;
pub(crate) mod described;
mod discovery;
mod figures;
pub(crate) mod identity;
pub(crate) mod openapi;
mod own_request;
mod own_service;
mod passed_path;
mod remote;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, Response};
use orch_proto::Brand;
use parking_lot::Mutex;

use self::described::Descriptions;
pub(crate) use self::discovery::Merged;
pub(crate) use self::figures::{MEASURED_MAX, OTHERS};
use self::openapi::OpenApi;
pub(crate) use self::own_request::own_request;
pub(crate) use self::own_service::OwnService;
pub(crate) use self::passed_path::passed_path;
pub use self::remote::ServerTrust;
pub(crate) use self::remote::{API_SERVICES, Remote, Remotes, segment};
use crate::admission::View;
use crate::connect::BackendError;
use crate::follow::{Applied, Builder, Maintained};
use crate::openapi::{Form, VERSION_3, url};
use crate::registry::Registry;
use crate::webhook::{Routing, Services, Unresolved, resolve};

/// Passes requests on. Implemented by the node, which owns the sockets.
pub trait Relay: fmt::Debug + Send + Sync {
    /// Sends `request`, whose URI has the path and query alone, to `server`; the answer is returned as soon as its head is there,
    /// whatever its status. Where the request asks for an upgrade and the answer grants it, bytes are carried between the client
    /// and the server from then on, as by [`crate::connect::Backends::forward`].
    fn relay(
        &self,
        server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>>;
}

/// An extension of requests: a watch. It gets an HTTP/2 connection apart from short requests, because servers limit the streams of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongLived;

/// An aggregated server: where it is dialled, and who it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Name that its certificate has to have: `NAME.NAMESPACE.svc`.
    pub name: String,
    /// Host and port that are dialled.
    pub at: (String, u16),
    /// The authorities that vouch for its certificate.
    pub trust: ServerTrust,
}

impl Server {
    /// `HOST:PORT` for the header `Host`, with an IPv6 host in brackets.
    pub fn authority(&self) -> String {
        let (host, port) = &self.at;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// The aggregated servers of a node. Clones share everything.
#[derive(Clone)]
pub struct Aggregation {
    remotes: Maintained<Remotes>,
    relay: Option<Arc<dyn Relay>>,
    routing: Routing,
    /// Where large documents are made.
    builder: Builder,
    shared: Arc<Shared>,
}

/// The answers of the servers that this node has received.
#[derive(Default)]
struct Shared {
    descriptions: Descriptions,
    openapi: OpenApi,
    /// Name of this node among those that a request passes.
    hop: OnceLock<String>,
    /// The documents that were merged last.
    merged: Mutex<Option<(Of, Arc<Merged>)>>,
}

/// The sources of merged documents: the registry, and the numbers of changes of the servers and of their descriptions.
type Of = (Arc<Registry>, u64, u64);

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregation").field("relay", &self.relay).finish_non_exhaustive()
    }
}

impl Aggregation {
    /// No request is passed on: the groups of other servers are unavailable.
    pub fn none(builder: Builder) -> Aggregation {
        Aggregation {
            remotes: Maintained::built_by(builder, Remotes::default),
            relay: None,
            routing: Routing::default(),
            builder,
            shared: Arc::default(),
        }
    }

    /// The same, where requests are passed on by `relay`, to services that are reached as `routing` says.
    #[must_use]
    pub fn through(self, relay: Arc<dyn Relay>, routing: Routing) -> Aggregation {
        Aggregation { relay: Some(relay), routing, ..self }
    }

    /// The server of this group and version as of `applied`; `None`: this server answers itself, or none does.
    pub(crate) async fn find(&self, applied: &Applied, group: &str, version: &str) -> Option<Arc<Remote>> {
        self.remotes.read(applied, |remotes| remotes.find(group, version)).await
    }

    /// Where requests for `remote` go, by the services in `view`; `chance` chooses among endpoints.
    ///
    /// # Errors
    /// Its service leads nowhere.
    pub(crate) fn locate(
        &self,
        remote: &Remote,
        view: &View,
        brand: &'static Brand,
        chance: u128,
    ) -> Result<Server, Unresolved> {
        let at = resolve(&Services { view, brand, routing: self.routing }, &remote.service, chance)?;
        Ok(Server { name: remote.service.host(), at, trust: remote.trust.clone() })
    }

    /// All groups and versions that other servers answer as of `applied`, by name.
    pub(crate) async fn all(&self, applied: &Applied) -> Vec<Arc<Remote>> {
        self.remotes.read(applied, Remotes::all).await
    }

    /// Appends the series that tells which servers are away as of `applied`. `head`: the lines before the series of a name and type.
    pub(crate) async fn write_figures(
        &self,
        text: &mut String,
        applied: &Applied,
        head: impl Fn(&str, &str) -> String,
    ) {
        figures::write(text, &self.all(applied).await, head);
    }

    /// Entries that the index of OpenAPI documents has beside those of `registry`, for the servers as of `applied`: the path of each,
    /// and where it is.
    pub(crate) async fn openapi(&self, registry: &Registry, applied: &Applied) -> Vec<(String, String)> {
        let mut all = self.all(applied).await;
        all.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
        let known = |remote: &Arc<Remote>| {
            let made = || {
                let document = self.shared.openapi.version3(&remote.name, Form::Json)?;
                Some(url(&format!("{VERSION_3}{}", remote.path()), &document))
            };
            let url = self.shared.descriptions.openapi(&remote.name).or_else(made)?;
            Some((format!("apis/{}/{}", remote.group, remote.version), url))
        };
        all.iter().filter(|remote| remote.is_available).filter_map(known).collect()
    }

    /// The APIServices, as of `applied`, whose servers' documents of version 2 are merged into that of `registry`.
    pub(crate) async fn merged_openapi(&self, registry: &Registry, applied: &Applied) -> Vec<Arc<str>> {
        let mut all = self.all(applied).await;
        all.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
        let names: Vec<Arc<str>> = all.iter().map(|remote| remote.name.clone()).collect();
        if self.shared.openapi.has_any(names.iter()) { names } else { Vec::new() }
    }

    /// Whether the document of version 3 at `path` is made here for the server of `remote`, which has none of its own.
    pub(crate) fn makes_version3(&self, remote: &Remote, path: &str) -> bool {
        path.strip_prefix(VERSION_3).is_some_and(|rest| rest == remote.path())
            && self.shared.descriptions.openapi(&remote.name).is_none()
            && self.shared.openapi.version3(&remote.name, Form::Json).is_some()
    }

    /// The OpenAPI documents of the servers that are kept.
    pub(crate) fn documents(&self) -> &OpenApi {
        &self.shared.openapi
    }

    /// The groups and versions that the servers say they serve.
    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.shared.descriptions
    }

    /// The documents of discovery over `registry` and the servers as of `applied`; `None`: there are no such servers.
    pub(crate) async fn discovery(&self, registry: &Arc<Registry>, applied: &Applied) -> Option<Arc<Merged>> {
        let read = |remotes: &Remotes| (remotes.generation(), remotes.all());
        let (generation, remotes) = self.remotes.read(applied, read).await;
        if remotes.is_empty() {
            return None;
        }
        let of: Of = (registry.clone(), generation, self.shared.descriptions.generation());
        let is_same =
            |(own, first, second): &Of| Arc::ptr_eq(own, &of.0) && (*first, *second) == (of.1, of.2);
        if let Some((_, merged)) = self.shared.merged.lock().as_ref().filter(|(known, _)| is_same(known)) {
            return Some(merged.clone());
        }
        let (registry, shared) = (registry.clone(), self.shared.clone());
        // Definitions may give groups thousands of resources.
        let merge = move || discovery::merge(&registry, &remotes, &shared.descriptions);
        let merged = Arc::new(self.work(merge).await?);
        *self.shared.merged.lock() = Some((of, merged.clone()));
        Some(merged)
    }

    /// Does a `job` over a large document where it delays no request. `None`: the runtime ends.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        match self.builder {
            Builder::Caller => Some(job()),
            Builder::BlockingThread => tokio::task::spawn_blocking(job).await.ok(),
        }
    }

    /// The name of this node in `Via`, drawn by `chance` when it is first needed: a request that comes back with it goes round.
    pub(crate) fn hop(&self, chance: impl FnOnce() -> u128) -> &str {
        self.shared.hop.get_or_init(|| format!("apiserver-{:032x}", chance()))
    }

    /// How services are reached.
    pub(crate) fn routing(&self) -> Routing {
        self.routing
    }

    /// The way to other servers; `None` on a node that has none.
    pub(crate) fn relay(&self) -> Option<&Arc<dyn Relay>> {
        self.relay.as_ref()
    }
}

/// Group and version of a path below `/apis`, as they are written, if they are written without escapes; the path may be theirs, lie
/// below, or be that of their OpenAPI document.
pub(crate) fn group_and_version(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix(VERSION_3).unwrap_or(path);
    let mut segments = path.strip_prefix("/apis/")?.split('/');
    let (group, version) = (segments.next()?, segments.next()?);
    (!group.is_empty() && !version.is_empty()).then_some((group, version))
}
