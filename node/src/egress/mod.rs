//! The adapter of [`orch_api::egress`]: HTTP/1.1 over TCP and TLS.
//!
//! Owns resolving, connecting, sending and reading within the rules of that module, and reading a client configuration
//! file into a target. It follows no redirect, and neither logs nor returns what an answer of a failure says.
//!
//!     Target    one server of a configuration: trust, identity, hosts, places
//!       |
//!     dial      resolve once -> check each address -> connect to one that may be dialled -> TLS
//!       |
//!     exchange  head and body within the bounds

mod credentials;
mod dial;
mod exchange;
mod target_file;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::egress::{
    Egress, EgressError, Outgoing, REQUESTS_MAX, Reach, Reply, TIMEOUT_MAX, Url, WAITING_MAX,
};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::Semaphore;

pub use self::credentials::Credentials;
use self::exchange::Sender;
pub use self::target_file::{
    Material, TargetCertificates, TargetFile, TargetFileError, read_certificates, read_target,
};
pub use self::trust::{Trust, TrustError};

/// Connections that are kept for the next request: enough for a steady load, and few enough for the other side.
const IDLE_MAX: usize = 8;

/// A server that this node may ask.
pub struct Target {
    reach: Reach,
    tls: Arc<ClientConfig>,
    /// Name that the certificate must have in place of the host.
    server_name: Option<String>,
    credentials: Credentials,
    places: Semaphore,
    /// A permit for each request, whether it waits for a place or has one.
    known: Semaphore,
    idle: Mutex<Vec<(Origin, Sender)>>,
    /// The address of every host, in a test whose hosts no resolver knows.
    #[cfg(test)]
    address: Option<std::net::SocketAddr>,
}

/// Scheme, host and port of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        Target {
            reach,
            tls: trust.client(),
            server_name: None,
            credentials,
            places: Semaphore::new(REQUESTS_MAX),
            known: Semaphore::new(REQUESTS_MAX + WAITING_MAX),
            idle: Mutex::default(),
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

    async fn ask(&self, request: &Outgoing) -> Result<Reply, EgressError> {
        let host = || request.url.host.clone();
        let _known = self.known.try_acquire().map_err(|_| EgressError::Busy { host: host() })?;
        let _place = self.places.acquire().await.map_err(|_| EgressError::Busy { host: host() })?;
        let origin = Origin::of(&request.url);
        if let Some(sender) = self.take_idle(&origin) {
            // A server may have closed the connection just now. What is sent here may be sent twice: it asks, and
            // changes nothing.
            match self.exchange(sender, request, origin.clone()).await {
                Err(EgressError::Lost { .. }) => {}
                answered => return answered,
            }
        }
        let sender = dial::dial(self, &request.url).await?;
        self.exchange(sender, request, origin).await
    }

    async fn exchange(
        &self,
        mut sender: Sender,
        request: &Outgoing,
        origin: Origin,
    ) -> Result<Reply, EgressError> {
        let authorization = self.credentials.header(&request.url.host).await?;
        let reply = exchange::exchange(&mut sender, request, authorization).await?;
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push((origin, sender));
        }
        Ok(reply)
    }

    fn take_idle(&self, origin: &Origin) -> Option<Sender> {
        let mut idle = self.idle.lock();
        idle.retain(|(_, sender)| !sender.is_closed());
        // few: at most `IDLE_MAX`.
        let place = idle.iter().rposition(|(of, sender)| of == origin && sender.is_ready())?;
        Some(idle.swap_remove(place).1)
    }
}

impl Egress for Target {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>> {
        async move {
            let timeout = request.timeout.min(TIMEOUT_MAX);
            let answered = tokio::time::timeout(timeout, self.ask(&request)).await;
            answered.unwrap_or_else(|_| Err(EgressError::Timeout { host: request.url.host.clone() }))
        }
        .boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(span).boxed()
    }
}
