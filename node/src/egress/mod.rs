//! The adapter of [`orch_api::egress`], [`orch_api::webhook`] and [`orch_api::aggregation`]: HTTP over TCP and TLS.
//!
//! Owns resolving, connecting, sending and reading within the rules of that module, and reading a client configuration
//! file into a target. It follows no redirect, and neither logs nor returns what an answer of a failure says.
//!
//!     Relays    aggregated servers, to which requests are passed on
//!     Hooks     the servers that objects of the API name, each a target that is made when it is first called
//!       |
//!     Target    one server of a configuration: trust, identity, hosts, places
//!       |
//!     dial      resolve once -> check each address -> connect to one that may be dialled -> TLS
//!       |
//!     exchange  head and body within the bounds

mod credentials;
mod dial;
mod exchange;
mod hook_users;
mod hooks;
mod idle;
mod lasting;
mod leaf;
pub(crate) mod lookups;
mod proxy_pair;
mod relays;
mod sweep;
mod target_file;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::egress::{
    ANSWER_BYTES_MAX, Egress, EgressError, Outgoing, REQUESTS_MAX, Reach, Reply, TIMEOUT_MAX, Url,
    WAITING_MAX,
};
use rustls::ClientConfig;
use tokio::sync::Semaphore;

pub use self::credentials::Credentials;
use self::exchange::{Sender, Unanswered};
pub use self::hook_users::HookUsers;
pub use self::hooks::Hooks;
use self::idle::Idle;
pub use self::proxy_pair::{ProxyPair, ProxyPairError};
pub use self::relays::Relays;
pub use self::target_file::{
    Material, TargetCertificates, TargetFile, TargetFileError, read_certificates, read_target,
};
pub use self::trust::{Trust, TrustError};

/// The bounds of a target.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Requests that are under way together.
    requests: usize,
    /// Connections that are kept for the next request.
    idle: usize,
    /// Whether a request that a kept connection may have carried is sent again.
    sends_again: bool,
}

impl Bounds {
    /// For servers of an operator's configuration, which are asked questions: asking twice changes nothing. Eight kept
    /// connections are enough for a steady load, and few enough for the other side.
    const QUESTIONS: Bounds = Bounds { requests: REQUESTS_MAX, idle: 8, sends_again: true };
}

/// A server that this node may ask.
pub struct Target {
    reach: Reach,
    tls: Arc<ClientConfig>,
    /// Name that the certificate must have in place of the host.
    server_name: Option<String>,
    /// Host and port that are dialled in place of a URL's.
    at: Option<(String, u16)>,
    credentials: Credentials,
    bounds: Bounds,
    places: Semaphore,
    /// A permit for each request, whether it waits for a place or has one.
    known: Semaphore,
    idle: Idle,
    /// The address of every host, in a test whose hosts no resolver knows.
    #[cfg(test)]
    address: Option<std::net::SocketAddr>,
}

/// Scheme, host and port of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Origin(String);

impl Origin {
    fn of(url: &Url) -> Origin {
        Origin(format!("{:?} {} {}", url.scheme, url.host, url.port))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Target {
    /// A target that reaches `reach`, trusts the authorities of `trust` and shows `credentials`.
    pub fn new(reach: Reach, trust: &Trust, credentials: Credentials) -> Target {
        Target::bounded(reach, trust, credentials, Bounds::QUESTIONS)
    }

    fn bounded(reach: Reach, trust: &Trust, credentials: Credentials, bounds: Bounds) -> Target {
        Target {
            reach,
            tls: trust.client(),
            server_name: None,
            at: None,
            credentials,
            bounds,
            places: Semaphore::new(bounds.requests),
            known: Semaphore::new(bounds.requests + WAITING_MAX),
            idle: Idle::of(bounds.idle),
            #[cfg(test)]
            address: None,
        }
    }

    /// The same, all of whose hosts are at `address`.
    #[cfg(test)]
    pub(crate) fn at(self, address: std::net::SocketAddr) -> Target {
        Target { address: Some(address), ..self }
    }

    /// The same, whose certificates name `server_name` in place of the host.
    #[must_use]
    pub fn named(self, server_name: Option<String>) -> Target {
        Target { server_name, ..self }
    }

    /// A connection to the server of `url`, for requests that are no documents. It waits for no place: its user bounds them.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Sender, EgressError> {
        dial::dial(self, url).await
    }

    /// Sends `request` over a kept connection or a new one, and reads at most `answer_bytes_max` of its answer's body. `has_place`
    /// is set once the request has a place.
    async fn ask(
        &self,
        request: &Outgoing,
        answer_bytes_max: usize,
        has_place: &AtomicBool,
    ) -> Result<Reply, EgressError> {
        let host = || request.url.host.clone();
        let _known = self.known.try_acquire().map_err(|_| EgressError::Busy { host: host() })?;
        let _place = self.places.acquire().await.map_err(|_| EgressError::Busy { host: host() })?;
        has_place.store(true, Ordering::Relaxed);
        let origin = Origin::of(&request.url);
        let authorization = self.credentials.header(&request.url.host).await?;
        if let Some(mut sender) = self.idle.take(&origin) {
            let under_way = self.idle.under_way(&sender);
            let answered = sender.exchange(request, authorization.clone(), answer_bytes_max).await;
            match answered {
                Ok(reply) => {
                    under_way.answered();
                    self.idle.keep(origin, sender);
                    return Ok(reply);
                }
                // A server may have closed the connection just now.
                Err(Unanswered::Unsent(_)) => {}
                Err(Unanswered::Failed(EgressError::Lost { .. })) if self.bounds.sends_again => {}
                Err(unanswered) => return Err(unanswered.into()),
            }
        }
        let mut sender = dial::dial(self, &request.url).await?;
        // Requests that come meanwhile go over the same connection, where it carries several.
        self.idle.share(&origin, &sender);
        let under_way = self.idle.under_way(&sender);
        let reply = sender.exchange(request, authorization, answer_bytes_max).await?;
        under_way.answered();
        self.idle.keep(origin, sender);
        Ok(reply)
    }

    /// The same within the time of `request`.
    async fn ask_in_time(&self, request: &Outgoing, answer_bytes_max: usize) -> Result<Reply, EgressError> {
        let timeout = request.timeout.min(TIMEOUT_MAX);
        let has_place = AtomicBool::new(false);
        let answered = tokio::time::timeout(timeout, self.ask(request, answer_bytes_max, &has_place)).await;
        answered.unwrap_or_else(|_| {
            let host = request.url.host.clone();
            // A request that waited for others of this node tells nothing of the server.
            Err(match has_place.load(Ordering::Relaxed) {
                true => EgressError::Timeout { host },
                false => EgressError::Busy { host },
            })
        })
    }
}

impl Egress for Target {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>> {
        async move { self.ask_in_time(&request, ANSWER_BYTES_MAX).await }.boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(span).boxed()
    }
}
