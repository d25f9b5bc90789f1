//! Requests that another server answers: logs, commands and ports of pods, and proxies of pods, services and nodes.
//!
//! Owns which server answers, under which path, with which headers, and what is refused. Functions over stored objects
//! and requests: nothing here resolves, connects or waits. The adapter in `node` does, through [`Backends`].
//!
//!     path, query   ->  options, id        what is asked for
//!     objects       ->  pod, node, service where it is: Location (scheme, host, port, path), or a refusal
//!     addresses     ->  reach              which of the host's addresses may be dialled
//!     headers       ->  headers            what is passed on, in both directions
//!     redirects     ->  rewrite            where clients find what the server calls by its own paths
//!
//! Invariant: the addresses that were checked are the addresses that are dialled, and no redirect is followed.
//! Invariant: no credential and no identity of a client is passed on.

pub(crate) mod headers;
pub(crate) mod id;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod pod;
mod reach;
mod rewrite;
pub(crate) mod service;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Request, Response};

pub(crate) use self::reach::not_allowed;
pub use self::reach::{AddressRange, Reach};
pub(crate) use self::rewrite::Mount;
use crate::egress::Scheme;

/// Bytes that a client may read of the text with which a kubelet refuses a request for a log: the reference's bound.
pub(crate) const REFUSAL_BYTES_MAX: usize = 50_000;

/// Resolves hosts and passes requests on. Implemented by the node, which owns the sockets.
pub trait Backends: fmt::Debug + Send + Sync {
    /// The addresses of `host`, a name or an address. The error is the resolver's.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>>;

    /// Connects to one of the addresses of `to` and sends `request`; the answer is returned as soon as its head is there.
    /// Where the request asks for an upgrade and the answer grants it, bytes are carried between the client and the backend
    /// from then on, until one of them ends. What is in the request's extensions as [`crate::http::Lasting`] is kept as long.
    fn forward<'a>(
        &'a self,
        to: &'a Destination,
        request: Request<Body>,
    ) -> BoxFuture<'a, Result<Response<Body>, BackendError>>;
}

/// A server that requests are passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Whether the connection is encrypted.
    pub scheme: Scheme,
    /// Name or address that the certificate has to be of, where it is verified.
    pub host: String,
    /// Checked addresses, in the order in which they are tried. Never empty.
    pub addresses: Vec<SocketAddr>,
    /// The identity that the server has to prove, and the one by which this server asks it.
    pub trust: BackendTrust,
}

/// How an encrypted connection to a backend is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendTrust {
    /// A kubelet: it is shown the client certificate for kubelets, and verified by the authority for kubelets where one is
    /// configured.
    Kubelet,
    /// The same without verification, which a client may ask for with its request for a log.
    UnverifiedKubelet,
    /// A pod, or another port of a node: no certificate is shown and none is verified, because certificates of pods name no
    /// addresses.
    Anyone,
}

/// The reason why a backend gave no answer. Never quotes one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// No connection, or no TLS.
    #[error("{0}")]
    Dial(String),
    /// The connection broke, or its bytes are no HTTP, before the head of the answer was complete.
    #[error("{0}")]
    Lost(String),
    /// No head of an answer in time.
    #[error("no answer in time")]
    Timeout,
}

/// How this server reaches kubelets, pods and services.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The adapter that resolves and connects.
    pub backends: Arc<dyn Backends>,
    /// Addresses that may be dialled.
    pub reach: Reach,
    /// Types of node addresses, the preferred one first: `Hostname`, `InternalIP`.
    pub address_types: Vec<String>,
}

/// Where a request goes: a host that is not resolved yet, and the path there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) scheme: Scheme,
    pub(crate) host: String,
    /// As the client or an object names it: [`Location::port_number`] judges it.
    pub(crate) port: String,
    /// Path in the backend, decoded. Empty for a proxy that was asked without a slash behind it.
    pub(crate) path: String,
    pub(crate) trust: BackendTrust,
}

impl Location {
    /// `HOST:PORT`, with an IPv6 host in brackets; without the port where none is named.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port.is_empty() { host } else { format!("{host}:{}", self.port) }
    }

    /// The port as a number; the scheme's own where none is named.
    ///
    /// # Errors
    /// It is no number of a port.
    pub(crate) fn port_number(&self) -> Result<u16, String> {
        match (self.port.as_str(), self.scheme) {
            ("", Scheme::Https) => Ok(443),
            ("", Scheme::Http) => Ok(80),
            (port, _) => port.parse().map_err(|_| format!("address {port}: invalid port")),
        }
    }

    /// The path in its encoded form, followed by `query` where there is one.
    pub(crate) fn target(&self, query: &str) -> String {
        let path = path::encoded(if self.path.is_empty() { "/" } else { &self.path });
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }
}

#[cfg(test)]
mod tests;
