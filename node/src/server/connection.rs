//! One connection: TLS handshake, HTTP, graceful shutdown.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use metrics::counter;
use orch_api::authn::{ClientCertificate, GROUP_MASTERS, Peer, USER_ADMIN};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::gather::gathered;
use super::handshakes::Handshakes;
use super::limits;
use super::load::{Load, Room};
use super::loopback::Door;
use super::pace::{Pacing, Waits, paced};
use super::places::{Place, Rank};
use super::plain;
use super::stall::Stall;
use super::streams::{Company, StreamExecutor, Streams};
use super::tunnel::TunnelSlot;
use super::turns::{Turns, Writers};
use super::validity::{Ending, Validity};
use super::visitor::{Answers, Visitor};
use crate::metrics::Life;
use crate::tls::Tls;

/// Holder of the connections of all front proxies.
const FRONT_PROXIES: &str = "system:front-proxies";

/// The version of HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// HTTP/1.1: negotiated by ALPN, or the client offered no ALPN.
    One,
    /// HTTP/2, negotiated by ALPN.
    Two,
    /// Without TLS: told by the first bytes.
    Either,
}

/// Protocol and limits of a connection, settled before its first request.
#[derive(Clone, Copy, Debug)]
struct Manner {
    version: Version,
    /// The connection itself has credentials. Credentials of its requests cannot raise its limits: HTTP/2 sets them at
    /// the start.
    is_known: bool,
}

/// Place, deadlines, turns, room and stop signal of a connection.
pub(super) struct Terms {
    pub(super) place: Arc<Place>,
    pub(super) waits: Waits,
    pub(super) writers: Writers,
    pub(super) handshakes: Handshakes,
    pub(super) room: Room,
    /// Cancelled when the server stops.
    pub(super) stopping: CancellationToken,
}

/// A connection that was not closed in order by its client or by shutdown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("socket: {0}")]
    Socket(io::Error),
    #[error("no TLS handshake within {} seconds", limits::HANDSHAKE_MAX.as_secs())]
    HandshakeTimeout,
    #[error("TLS handshake: {0}")]
    Handshake(io::Error),
    #[error("an HTTP request without TLS")]
    NoTls,
    #[error("another connection needs its place")]
    Evicted,
    #[error("no request within {} seconds", limits::FIRST_REQUEST_MAX.as_secs())]
    NoRequest,
    #[error("the client does not take its answer")]
    NotTaken,
    #[error("the client's certificate was revoked, or its authority is no longer trusted")]
    Revoked,
    #[error("HTTP: {0}")]
    Http(Box<dyn std::error::Error + Send + Sync>),
}

/// Serves a connection over TLS until it ends, `stopping` has drained it, or its client's certificate expires.
///
/// The futures of the handshake and of each protocol are boxed: what waits for hours holds nothing of the others.
pub(super) async fn serve_tls<S: Answers>(
    stream: TcpStream,
    address: SocketAddr,
    mut tls: watch::Receiver<Arc<Tls>>,
    service: S,
    terms: Terms,
) -> Result<(), ConnectionError> {
    let tunnel = TunnelSlot::default();
    let settings = Arc::clone(&tls.borrow_and_update());
    let stream = Box::pin(shake(stream, &settings, &terms, &tunnel)).await?;
    let session = stream.get_ref().1;
    let version = if session.alpn_protocol() == Some(b"h2") { Version::Two } else { Version::One };
    let identified = settings.clients.identify(session.peer_certificates(), SystemTime::now());
    let is_front_proxy = identified.as_ref().is_some_and(|identified| identified.is_front_proxy);
    let validity = Validity::of(session, identified.as_ref());
    // A front proxy's certificate stands for its users, whose requests bring their own names.
    let users = identified.as_ref().filter(|_| !is_front_proxy);
    let life = users.and_then(|identified| identified.left).map(Life::new);
    let ends = Validity::ended(validity, tls, settings.clients.clone());
    let certificate = identified.map(|identified| identified.certificate);
    let is_known = match &certificate {
        // Its connections are no user's, and the cluster's own: they make room as late as administrators'.
        _ if is_front_proxy => {
            terms.place.hold_as(FRONT_PROXIES, Rank::Administrator);
            true
        }
        // A certificate without a common name identifies no user.
        Some(Ok(ClientCertificate { common_name, organizations, .. })) if !common_name.is_empty() => {
            let is_in_masters = organizations.iter().any(|group| group == GROUP_MASTERS);
            terms.place.hold_as(common_name, Rank::of(is_in_masters));
            true
        }
        _ => false,
    };
    let peer = Arc::new(Peer { address, certificate, local_admin: false, is_front_proxy });
    let (manner, from) = (Manner { version, is_known }, (peer, None, tunnel, life));
    if version == Version::Two {
        let (stream, gatherer) = gathered(stream);
        let send = move |cx: &mut Context<'_>, company| gatherer.poll_send(cx, company);
        return Box::pin(serve_http(stream, send, manner, from, service, terms, ends)).await;
    }
    Box::pin(serve_http(stream, sends_itself, manner, from, service, terms, ends)).await
}

/// The TLS session with the client of `stream`, in time.
async fn shake(
    stream: TcpStream,
    settings: &Tls,
    terms: &Terms,
    tunnel: &TunnelSlot,
) -> Result<TlsStream<Turns<Stall<TcpStream>>>, ConnectionError> {
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&settings.server));
    let stream = prepared(stream)?;
    let handshake = async {
        if plain::speaks_http(&stream).await? {
            plain::refuse(stream).await?;
            return Err(ConnectionError::NoTls);
        }
        let stream = Stall::new(stream, limits::STALL_MAX).sparing(tunnel.clone());
        let stream = Turns::new(stream, &terms.writers);
        let accepted =
            acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(limits::TLS_BUFFER)));
        terms.handshakes.in_turn(accepted).await.map_err(ConnectionError::Handshake)
    };
    let stream = tokio::select! {
        shaken = tokio::time::timeout(limits::HANDSHAKE_MAX, handshake) => shaken,
        () = terms.place.evicted() => return Err(ConnectionError::Evicted),
    };
    let stream = stream.unwrap_or(Err(ConnectionError::HandshakeTimeout));
    stream.inspect_err(|_| counter!("apiserver_tls_handshake_errors_total").increment(1))
}

/// `poll_send` of streams that need no call to send what was written.
fn sends_itself(_cx: &mut Context<'_>, _company: Company) -> Poll<io::Result<()>> {
    Poll::Ready(Ok(()))
}

/// Serves a connection of the plain loopback port.
pub(super) async fn serve_plain<S: Answers>(
    stream: TcpStream,
    address: SocketAddr,
    service: S,
    terms: Terms,
) -> Result<(), ConnectionError> {
    serve_local(prepared(stream)?, Door::Port, address, service, terms).await
}

/// Serves a connection of the Unix socket.
pub(super) async fn serve_socket<S: Answers>(
    stream: UnixStream,
    address: SocketAddr,
    service: S,
    terms: Terms,
) -> Result<(), ConnectionError> {
    serve_local(stream, Door::Socket, address, service, terms).await
}

async fn serve_local<S: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    door: Door,
    address: SocketAddr,
    service: S,
    terms: Terms,
) -> Result<(), ConnectionError> {
    // Only processes of this machine connect here, and each is the administrator.
    terms.place.hold_as(USER_ADMIN, Rank::Administrator);
    let tunnel = TunnelSlot::default();
    let stream = Turns::new(Stall::new(stream, limits::STALL_MAX).sparing(tunnel.clone()), &terms.writers);
    let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
    let manner = Manner { version: Version::Either, is_known: true };
    let from = (peer, Some(door), tunnel, None);
    serve_http(stream, sends_itself, manner, from, service, terms, std::future::pending()).await
}

fn prepared(stream: TcpStream) -> Result<TcpStream, ConnectionError> {
    stream.set_nodelay(true).map_err(ConnectionError::Socket)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(limits::TCP_KEEPALIVE);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(ConnectionError::Socket)?;
    Ok(stream)
}

/// Serves HTTP on `stream`. `poll_send` sends the bytes that a poll of the HTTP connection left in `stream`'s buffers;
/// `ends` completes when the client's certificate expires or is revoked.
///
/// No `async` function: its future would hold the stream beside the connection that it is moved into.
fn serve_http<S: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut poll_send: impl FnMut(&mut Context<'_>, Company) -> Poll<io::Result<()>> + Send,
    manner: Manner,
    (peer, door, tunnel, life): (Arc<Peer>, Option<Door>, TunnelSlot, Option<Life>),
    service: S,
    terms: Terms,
    ends: impl Future<Output = Ending> + Send,
) -> impl Future<Output = Result<(), ConnectionError>> + Send {
    let Terms { place, waits, stopping, room, .. } = terms;
    let mut streams = Streams::default();
    let load = Arc::new(Load::new(Arc::clone(&place), room));
    let pacing = Pacing::new(waits, load, Arc::clone(streams.slice()));
    let visitor = Arc::new(Visitor::new((peer, life), door, place, manner.is_known, pacing.clone(), tunnel));
    let asking = Arc::clone(&visitor);
    // In a box that is freed with the answer: the task of an HTTP/2 stream lasts as long as its body, for a watch a day.
    let answer = service_fn(move |request| Box::pin(Arc::clone(&asking).answer(service.clone(), request)));
    let builder = builder(manner, streams.executor());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer);
    let (mut connection, mut ends) = (Box::pin(connection.into_owned()), Box::pin(ends));
    let served = async move {
        tokio::select! {
            ended = driven(connection.as_mut(), &mut streams, &mut poll_send) => {
                ended?;
                return carry(&visitor, &stopping, ends.as_mut()).await;
            }
            // `Server::stop` bounds this wait.
            () = stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                return driven(connection.as_mut(), &mut streams, &mut poll_send).await;
            }
            () = visitor.place().evicted() => return Err(ConnectionError::Evicted),
            () = silent(&visitor, waits.first_request) => return Err(ConnectionError::NoRequest),
            () = pacing.not_taken() => return Err(ConnectionError::NotTaken),
            ending = ends.as_mut() => match ending {
                Ending::Expired => connection.as_mut().graceful_shutdown(),
                // Requests under way are cut off, too: their sender is no longer trusted.
                Ending::Revoked => return Err(ConnectionError::Revoked),
            },
        }
        // The client's certificate has expired: requests under way may finish within `DRAIN_MAX`; a watch never would.
        let draining = driven(connection.as_mut(), &mut streams, &mut poll_send);
        tokio::time::timeout(limits::DRAIN_MAX, draining).await.unwrap_or(Ok(()))
    };
    let served = paced(Box::pin(served));
    async move { served.await.unwrap_or(Err(ConnectionError::NotTaken)) }
}

/// Carries the bytes of another protocol, if the connection has left HTTP for one. It ends at once with the server, with the
/// place, and with the client's certificate.
async fn carry(
    visitor: &Visitor,
    stopping: &CancellationToken,
    ends: Pin<&mut impl Future<Output = Ending>>,
) -> Result<(), ConnectionError> {
    tokio::select! {
        () = visitor.tunnel() => Ok(()),
        () = stopping.cancelled() => Ok(()),
        () = visitor.place().evicted() => Err(ConnectionError::Evicted),
        ending = ends => match ending {
            Ending::Expired => Ok(()),
            Ending::Revoked => Err(ConnectionError::Revoked),
        },
    }
}

/// Polls `connection` and `streams` to the connection's end, and calls `poll_send` whenever both are pending.
async fn driven<C>(
    mut connection: Pin<&mut C>,
    streams: &mut Streams,
    poll_send: &mut impl FnMut(&mut Context<'_>, Company) -> Poll<io::Result<()>>,
) -> Result<(), ConnectionError>
where
    C: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>,
{
    poll_fn(|cx| {
        streams.slice().begin();
        loop {
            // Streams first: responses that are ready go out with this poll of the connection. Requests that it reads
            // start in the next round.
            streams.poll(cx);
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended.map_err(ConnectionError::Http));
            }
            if !streams.has_new() {
                break;
            }
        }
        match poll_send(cx, streams.company()) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(ConnectionError::Socket(error))),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Completes after `limit` if the connection has had no request by then; else never.
async fn silent(visitor: &Visitor, limit: Duration) {
    tokio::time::sleep(limit).await;
    if visitor.has_asked() {
        std::future::pending::<()>().await;
    }
}

fn builder(manner: Manner, executor: StreamExecutor) -> Builder<StreamExecutor> {
    let header_bytes_max = match manner.is_known {
        true => limits::HEADER_BYTES_MAX,
        false => limits::STRANGER_HEADER_BYTES_MAX,
    };
    let mut builder = Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADERS_MAX)
        .max_buf_size(header_bytes_max)
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(u32::try_from(header_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(limits::PENDING_RESETS_MAX)
        .max_local_error_reset_streams(limits::ERROR_RESETS_MAX)
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .max_send_buf_size(limits::STREAM_SEND_BUFFER)
        .keep_alive_interval(limits::PING_EVERY)
        .keep_alive_timeout(limits::PING_ANSWER_MAX);
    match manner.version {
        Version::One => builder.http1_only(),
        Version::Two => builder.http2_only(),
        Version::Either => builder,
    }
}
