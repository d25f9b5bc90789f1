//! Incoming peer connections: accept, TLS handshake, name.
//!
//! Handshakes run concurrently, each under a deadline and only while its connection has a place ([`places`]): idle
//! connections never delay a handshake. The stream yields only connections whose certificate names a member. Strangers
//! cause one warning in ten seconds for each cause.
//!
//! [`places`]: super::places

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use orch_bounded::WarningLimit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected, TcpIncoming};

use super::TCP_KEEPALIVE;
use super::identity::peer_name_of;
use super::places::{NamedPlace, Places, STRANGERS_MAX, StrangersPlace};
use super::revocable::Revocable;
use super::tls::{PeerTls, owned};

/// Connections without a proved name: those with a place, and those that just lost theirs.
const UNNAMED_MAX: usize = 2 * STRANGERS_MAX;
/// Deadline of the whole TLS handshake: a member needs milliseconds, and a stalled connection soon gives up its place.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// Pause after an error of the listening socket, most likely for want of file descriptors: trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Identity of the remote end of a connection.
#[derive(Clone, Debug)]
pub(super) struct PeerInfo {
    /// The name in its certificate.
    pub(super) name: Arc<str>,
    /// Its remote address.
    pub(super) address: SocketAddr,
}

/// A connection whose peer has proved its name.
pub(super) struct PeerConnection {
    io: Revocable<TlsStream<TcpStream>>,
    info: PeerInfo,
    _place: NamedPlace,
}

/// State shared by all connections of a port.
#[derive(Clone)]
struct Door {
    tls: PeerTls,
    places: Places,
    warnings: Arc<Warnings>,
}

/// One warning limit for each cause.
#[derive(Default)]
struct Warnings {
    accept: WarningLimit,
    crowd: WarningLimit,
    refusal: WarningLimit,
    silence: WarningLimit,
    no_place: WarningLimit,
}

/// The connections that `listener` accepts and that have proved a name.
pub(super) fn incoming(
    listener: TcpListener,
    tls: PeerTls,
) -> impl Stream<Item = io::Result<PeerConnection>> {
    let door = Door { tls, places: Places::default(), warnings: Arc::default() };
    let accepting = door.clone();
    TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .with_keepalive(Some(TCP_KEEPALIVE))
        .then(move |accepted| settle(accepted, Arc::clone(&accepting.warnings)))
        .filter_map(async |tcp| tcp)
        .map(move |(tcp, address)| {
            let (place, pushed_out) = door.places.take(address.ip());
            if pushed_out && let Some(left_out) = door.warnings.crowd.pass() {
                tracing::warn!(%address, left_out, "many handshakes with strangers, the oldest makes room");
            }
            name(tcp, address, place, door.clone())
        })
        .buffer_unordered(UNNAMED_MAX)
        .filter_map(async |connection| connection.map(Ok))
}

/// A connection and its remote address; `None` after an error. Accepting pauses after an error of the listener.
async fn settle(accepted: io::Result<TcpStream>, warnings: Arc<Warnings>) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok(tcp) => {
            // A connection that the client has closed already has no address.
            let address = tcp.peer_addr().ok()?;
            Some((tcp, address))
        }
        Err(error) => {
            if let Some(left_out) = warnings.accept.pass() {
                tracing::warn!(%error, left_out, "cannot accept a peer's connection");
            }
            pause().await;
            None
        }
    }
}

/// Does the handshake. `None` if the peer proved no name, or if another connection took the place; the reason is
/// logged.
async fn name(
    tcp: TcpStream,
    address: SocketAddr,
    mut place: StrangersPlace,
    door: Door,
) -> Option<PeerConnection> {
    let warnings = &door.warnings;
    let handshake = TlsAcceptor::from(door.tls.server()).accept(tcp);
    let shaken = tokio::select! {
        // A finished handshake counts, even if the place is lost at the same moment.
        biased;
        shaken = tokio::time::timeout(HANDSHAKE_DEADLINE, handshake) => shaken,
        () = place.lost() => {
            tracing::debug!(%address, "closed a stranger's connection: another needs its place");
            return None;
        }
    };
    let io = match shaken {
        Ok(Ok(io)) => io,
        Ok(Err(error)) => {
            if let Some(left_out) = warnings.refusal.pass() {
                tracing::warn!(%address, %error, left_out, "refused a peer's connection");
            }
            return None;
        }
        Err(_) => {
            if let Some(left_out) = warnings.silence.pass() {
                tracing::warn!(%address, left_out, "closed a peer's connection: no handshake within the deadline");
            }
            return None;
        }
    };
    let name: Arc<str> = match name_of(&io) {
        Ok(name) => name.into(),
        Err(reason) => {
            if let Some(left_out) = warnings.refusal.pass() {
                tracing::warn!(%address, %reason, left_out, "refused a peer's connection");
            }
            return None;
        }
    };
    match door.places.name(&name) {
        Ok(place) => {
            let chain = io.get_ref().1.peer_certificates().map(owned);
            let io = Revocable::new(io, door.tls, chain);
            Some(PeerConnection { io, info: PeerInfo { name, address }, _place: place })
        }
        Err(reason) => {
            if let Some(left_out) = warnings.no_place.pass() {
                tracing::warn!(%address, peer = %name, %reason, left_out, "refused a peer's connection");
            }
            None
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter of sockets, which only tokio drives")]
async fn pause() {
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn name_of(io: &TlsStream<TcpStream>) -> Result<String, String> {
    let (_, session) = io.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first).ok_or("no certificate")?;
    peer_name_of(certificate).map_err(|error| error.to_string())
}

impl Connected for PeerConnection {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.info.clone()
    }
}

impl AsyncRead for PeerConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
