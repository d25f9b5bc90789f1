//! Makes one connection to a peer: name lookup, TCP, TLS.
//!
//! The name is resolved for every connection, so that a member may move. A tonic channel would reconnect by itself; it
//! gets exactly one connection here and [`Spent`] afterwards, because the link decides when to try again and must know
//! whether a frame was sent.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use super::revocable::Revocable;
use super::tls::{PeerTls, owned};
use super::{CONNECT_TIMEOUT, CONNECTION_WINDOW_BYTES, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW_BYTES};

/// Origin in every request. It is not resolved: the connection exists already.
const ORIGIN: &str = "https://peer.orch";
/// Addresses of one name that are tried, in the order the resolver gives them.
const ADDRESSES_MAX: usize = 4;
/// Head start of an attempt before the next address is tried as well (RFC 8305, 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The one connection of a channel is gone. A request that meets it was not sent.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
pub(super) struct Spent;

/// Connects to the member `name` at `address`; an empty name accepts any member.
pub(super) async fn connect(tls: &PeerTls, name: &Arc<str>, address: &Arc<str>) -> Result<Channel, Failure> {
    let dialing = async {
        let io = dial(tls, name, address).await.map_err(|error| Failure::of(&error))?;
        let connected = endpoint().connect_with_connector(Once(Some(io))).await;
        connected.map_err(|error| Failure::other(innermost(&error)))
    };
    let within = tokio::time::timeout(CONNECT_TIMEOUT, dialing).await;
    within.unwrap_or_else(|_| {
        Err(Failure::other(format!("{address} does not answer within {CONNECT_TIMEOUT:?}")))
    })
}

/// The failure of a connection attempt.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) reason: Arc<str>,
    /// `ECONNREFUSED`: nothing listens at the port.
    pub(super) is_refusal: bool,
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        let is_refusal = error.kind() == io::ErrorKind::ConnectionRefused;
        Failure { reason: error.to_string().into(), is_refusal }
    }

    pub(super) fn other(reason: impl Into<Arc<str>>) -> Failure {
        Failure { reason: reason.into(), is_refusal: false }
    }
}

fn endpoint() -> Endpoint {
    Endpoint::from_static(ORIGIN)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
}

/// A connection to a peer, over TLS.
type PeerStream = Revocable<TlsStream<TcpStream>>;

async fn dial(tls: &PeerTls, name: &Arc<str>, address: &str) -> io::Result<PeerStream> {
    let tcp = dial_tcp(address).await?;
    let expected = (!name.is_empty()).then(|| Arc::clone(name));
    let config = tls.client(expected).map_err(io::Error::other)?;
    // Neither sent nor compared: the verifier knows the expected name.
    let server = ServerName::try_from("peer.orch").map_err(io::Error::other)?;
    let io = TlsConnector::from(Arc::new(config)).connect(server, tcp).await?;
    let chain = io.get_ref().1.peer_certificates().map(owned);
    Ok(Revocable::new(io, tls.clone(), chain))
}

/// Connects to the first address that answers. Attempts overlap (as in RFC 8305): an address that drops packets delays the
/// next by [`ATTEMPT_DELAY`] only, and one that refuses not at all.
async fn dial_tcp(address: &str) -> io::Result<TcpStream> {
    connect_first(lookup_host(address).await?.take(ADDRESSES_MAX), address).await
}

async fn connect_first(addresses: impl Iterator<Item = SocketAddr>, name: &str) -> io::Result<TcpStream> {
    let mut addresses = addresses.fuse();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
    loop {
        let started = addresses.next().map(|address| attempts.push(connect_tcp(address)));
        if attempts.is_empty() {
            return Err(last);
        }
        // After the last address nothing is left but to wait; the caller has a deadline.
        let delay = if started.is_some() { ATTEMPT_DELAY } else { CONNECT_TIMEOUT };
        match tokio::time::timeout(delay, attempts.select_next_some()).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => last = error,
            Err(_elapsed) => {}
        }
    }
}

async fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    let connected = socket.connect(address).await;
    connected.map_err(|error| io::Error::new(error.kind(), format!("connect to {address}: {error}")))
}

/// Text of the innermost cause. The layers above it only add that connecting failed.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Hands out one connection.
struct Once(Option<PeerStream>);

impl Service<Uri> for Once {
    type Response = TokioIo<PeerStream>;
    type Error = Spent;
    type Future = BoxFuture<'static, Result<Self::Response, Spent>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Spent>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(ready(self.0.take().map(TokioIo::new).ok_or(Spent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_answers_is_found_behind_others() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        // A listener whose queue is full drops what comes: like an address behind which there is nothing.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = silent.listen(1).unwrap();
        let silent_address = silent.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(tcp) = tokio::time::timeout(ATTEMPT_DELAY, TcpStream::connect(silent_address)).await {
            queued.push(tcp.unwrap());
        }
        let refused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let tcp = connect_first([silent_address, refused, good].into_iter(), "peer").await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), good);
        let error = connect_first([refused].into_iter(), "peer").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect_first([].into_iter(), "peer").await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
