//! Connections that come in: accepted, encrypted, named.
//!
//! Handshakes run beside each other, a bounded number of them, each under a deadline; a connection counts against a
//! limit from its first packet to its end. Only those whose certificate names a member leave here.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected, TcpIncoming};

use super::TCP_KEEPALIVE;
use super::identity::peer_name_of;
use super::tls::PeerTls;

/// Open connections. Nine members with a connection for each of four purposes make 32, twice that while they
/// reconnect; the rest is room for clusters in change. More are closed at once.
const CONNECTIONS_MAX: usize = 128;
/// Handshakes under way. While so many are, further connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 32;
/// For the whole TLS handshake: a member needs milliseconds, and one that stalls gives up its place soon.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// After an error of the listening socket, most likely for want of file descriptors: trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct PeerInfo {
    /// The name in its certificate.
    pub(super) name: Arc<str>,
    /// Where it connects from.
    pub(super) address: SocketAddr,
}

/// A connection whose peer has proved its name.
pub(super) struct PeerConnection {
    io: TlsStream<TcpStream>,
    info: PeerInfo,
    _place: OwnedSemaphorePermit,
}

/// The connections that `listener` accepts.
pub(super) fn incoming(
    listener: TcpListener,
    tls: PeerTls,
) -> impl Stream<Item = io::Result<PeerConnection>> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .with_keepalive(Some(TCP_KEEPALIVE))
        .map(move |accepted| receive(accepted, tls.clone(), Arc::clone(&places)))
        .buffer_unordered(HANDSHAKES_MAX)
        .filter_map(async |connection| connection.map(Ok))
}

/// `None` where nothing came of it; the reason is logged.
async fn receive(
    accepted: io::Result<TcpStream>,
    tls: PeerTls,
    places: Arc<Semaphore>,
) -> Option<PeerConnection> {
    let tcp = match accepted {
        Ok(tcp) => tcp,
        Err(error) => {
            tracing::warn!(%error, "cannot accept a peer's connection");
            pause().await;
            return None;
        }
    };
    let address = tcp.peer_addr().ok()?;
    let Ok(place) = places.try_acquire_owned() else {
        tracing::warn!(%address, connections = CONNECTIONS_MAX, "too many peer connections, closing a new one");
        return None;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_DEADLINE, TlsAcceptor::from(tls.server()).accept(tcp));
    let io = match handshake.await {
        Ok(Ok(io)) => io,
        Ok(Err(error)) => {
            tracing::warn!(%address, %error, "refused a peer's connection");
            return None;
        }
        Err(_) => {
            tracing::warn!(%address, "closed a peer's connection: no handshake within the deadline");
            return None;
        }
    };
    let name =
        name_of(&io).inspect_err(|reason| tracing::warn!(%address, %reason, "refused a peer's connection"));
    let info = PeerInfo { name: name.ok()?.into(), address };
    Some(PeerConnection { io, info, _place: place })
}

fn name_of(io: &TlsStream<TcpStream>) -> Result<String, String> {
    let (_, session) = io.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first).ok_or("no certificate")?;
    peer_name_of(certificate).map_err(|error| error.to_string())
}

#[expect(clippy::disallowed_methods, reason = "an adapter of sockets, which only tokio drives")]
async fn pause() {
    tokio::time::sleep(ACCEPT_PAUSE).await;
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
