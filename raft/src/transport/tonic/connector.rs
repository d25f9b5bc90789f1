//! Makes one connection to a peer: name lookup, TCP, TLS.
//!
//! The name is resolved for every connection, so that a member may move. A tonic channel would reconnect by itself; it
//! gets exactly one connection here and [`Spent`] afterwards, because the link decides when to try again and must know
//! whether a frame was sent.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use super::tls::PeerTls;
use super::{CONNECT_TIMEOUT, CONNECTION_WINDOW_BYTES, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW_BYTES};

/// Origin in every request. It is not resolved: the connection exists already.
const ORIGIN: &str = "https://peer.orch";
/// Addresses of one name that are tried, in the order the resolver gives them.
const ADDRESSES_MAX: usize = 4;

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

async fn dial(tls: &PeerTls, name: &Arc<str>, address: &str) -> io::Result<TlsStream<TcpStream>> {
    let tcp = dial_tcp(address).await?;
    let expected = (!name.is_empty()).then(|| Arc::clone(name));
    let config = tls.client(expected).map_err(io::Error::other)?;
    // Neither sent nor compared: the verifier knows the expected name.
    let server = ServerName::try_from("peer.orch").map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(server, tcp).await
}

async fn dial_tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"));
    let addresses: Vec<_> = lookup_host(address).await?.take(ADDRESSES_MAX).collect();
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    // An address that drops packets leaves time for those behind it: a name gives them in the same order each time.
    let patience = CONNECT_TIMEOUT / left.max(1);
    for address in addresses {
        left -= 1;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_nodelay(true)?;
        socket.set_keepalive(true)?;
        let patience = if left == 0 { CONNECT_TIMEOUT } else { patience };
        let error = match tokio::time::timeout(patience, socket.connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => error,
            Err(elapsed) => elapsed.into(),
        };
        last = io::Error::new(error.kind(), format!("connect to {address}: {error}"));
    }
    Err(last)
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
struct Once(Option<TlsStream<TcpStream>>);

impl Service<Uri> for Once {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = Spent;
    type Future = BoxFuture<'static, Result<Self::Response, Spent>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Spent>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(ready(self.0.take().map(TokioIo::new).ok_or(Spent)))
    }
}
