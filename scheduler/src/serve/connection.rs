//! Accepts connections and serves HTTP on them, within limits.
//!
//! Owns the deadlines and bounds. Invariant: every wait on a client ends: the handshake, the headers, a request, and the
//! connection as a whole.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{Answer, error};
use super::profile;
use super::router::Router;
use super::tls::Tls;

/// Most connections: a handful of collectors and people use this port. More wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// Most connections from one address, so that one client leaves places to others.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// Longest TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a request's headers; also how long an HTTP/1.1 connection may idle.
const HEADERS_MAX: Duration = Duration::from_secs(30);
/// Most bytes of a request's headers.
const HEADER_BYTES_MAX: usize = 32 << 10;
/// Longest request but for profiles.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Longest request for a profile: its own length, and some time to make it.
const PROFILE_MAX: Duration = Duration::from_secs(profile::SECONDS_MAX + 30);
/// Life of a connection. Afterwards it takes no more requests; clients open a new one.
const CONNECTION_MAX: Duration = Duration::from_secs(900);
/// How long requests under way may take once their connection ends.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Time between pings of an HTTP/2 connection.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Longest wait for the answer to a ping.
const PING_ANSWER_MAX: Duration = Duration::from_secs(15);
/// Wait after a failure to accept: the process has no file left, and trying again at once would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What connections share.
pub(super) struct Shared {
    pub(super) tls: Tls,
    pub(super) router: Arc<Router>,
    /// Streams that an HTTP/2 connection may have; `None` for the library's default.
    pub(super) streams_max: Option<u32>,
    pub(super) stopping: CancellationToken,
}

/// Serves connections until `shared.stopping`; returns when all have ended or were given up.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = Arc::new(Addresses::default());
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shared.stopping.cancelled() => break,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Some(claim) = addresses.claim(address.ip()) {
                    connections.spawn(serve(stream, address, Arc::clone(&shared), (place, claim)));
                }
            }
            Err(fault) => {
                tracing::debug!(error = %fault, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    // Connections drain by themselves within this time; the rest ends with the process.
    if tokio::time::timeout(DRAIN_MAX * 2, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were cut off");
    }
}

/// Connections by address.
#[derive(Default)]
struct Addresses(Mutex<HashMap<IpAddr, usize>>);

/// A place of an address, given back when it is dropped.
struct Claim {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// A place for a connection from `address`; `None` where it has too many.
    fn claim(self: &Arc<Addresses>, address: IpAddr) -> Option<Claim> {
        let mut counts = self.0.lock();
        let count = counts.entry(address).or_default();
        if *count >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Claim { addresses: Arc::clone(self), address })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Serves one connection. Its faults are the client's, and tell an operator nothing at usual verbosity.
async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    shared: Arc<Shared>,
    places: (OwnedSemaphorePermit, Claim),
) {
    let local = stream.local_addr().ok().map(|address| address.ip());
    let acceptor = TlsAcceptor::from(shared.tls.at(local));
    let handshake = async {
        stream.set_nodelay(true)?;
        acceptor.accept(stream).await
    };
    let stream = match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(fault)) => return tracing::debug!(%address, error = %fault, "TLS handshake"),
        Err(_) => return tracing::debug!(%address, "no TLS handshake in time"),
    };
    let chain = stream.get_ref().1.peer_certificates();
    let peer = Arc::new(shared.tls.clients().identify(chain, SystemTime::now()));
    let router = Arc::clone(&shared.router);
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, peer) = (Arc::clone(&router), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(answer(router, peer, request).await) }
    });
    let builder = builder(shared.streams_max);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = tokio::time::sleep(CONNECTION_MAX) => None,
        () = shared.stopping.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(DRAIN_MAX, connection).await
        }
    };
    if let Ok(Err(fault)) = ended {
        tracing::debug!(%address, error = %fault, "HTTP");
    }
    drop(places);
}

async fn answer(router: Arc<Router>, peer: Arc<super::tls::Peer>, request: Request<Incoming>) -> Answer {
    let is_profile = request.uri().path().starts_with(profile::ROOT);
    let longest = if is_profile { PROFILE_MAX } else { REQUEST_MAX };
    match tokio::time::timeout(longest, router.answer(peer, request)).await {
        Ok(answer) => answer,
        Err(_) => error(StatusCode::GATEWAY_TIMEOUT, "the request took too long"),
    }
}

fn builder(streams_max: Option<u32>) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    let mut http2 = builder.http2();
    http2
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER_MAX);
    if let Some(streams) = streams_max {
        http2.max_concurrent_streams(streams);
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_bounded_number_of_connections() {
        let addresses = Arc::new(Addresses::default());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut claims: Vec<Claim> =
            (0..CONNECTIONS_PER_ADDRESS_MAX).filter_map(|_| addresses.claim(one)).collect();
        assert_eq!(claims.len(), CONNECTIONS_PER_ADDRESS_MAX);
        assert!(addresses.claim(one).is_none());
        assert!(addresses.claim(other).is_some());
        claims.pop();
        assert!(addresses.claim(one).is_some());
        claims.clear();
        assert!(addresses.0.lock().is_empty());
    }
}
