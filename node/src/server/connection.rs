//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use orch_api::authn::{Admitted, Peer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::limits;
use super::loopback::Door;
use super::pace::{PacedExecutor, paced, watched};
use super::places::Place;
use super::stall::Stall;
use crate::tls::Tls;

/// What answers requests.
pub(super) trait Answers:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The version of HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Agreed in the handshake, or the only one of clients that agree on none.
    One,
    /// Agreed in the handshake.
    Two,
    /// Without TLS: what the first bytes say.
    Either,
}

/// Deadlines that differ only where a test cannot wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For the first request after the handshake.
    pub(super) first_request: Duration,
    /// For one frame of an answer to be taken.
    pub(super) frame: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { first_request: limits::FIRST_REQUEST_MAX, frame: limits::STALL_MAX }
    }
}

/// What a connection lives under.
pub(super) struct Terms {
    pub(super) place: Arc<Place>,
    pub(super) waits: Waits,
    /// The server as a whole ends.
    pub(super) stopping: CancellationToken,
}

/// A connection as its requests see it.
struct Visitor {
    peer: Arc<Peer>,
    /// The door without credentials it came through, if any.
    door: Option<Door>,
    place: Arc<Place>,
    has_asked: AtomicBool,
}

/// Why a connection ended other than by the client's leave.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("socket: {0}")]
    Socket(std::io::Error),
    #[error("no TLS handshake within {} seconds", limits::HANDSHAKE_MAX.as_secs())]
    HandshakeTimeout,
    #[error("TLS handshake: {0}")]
    Handshake(std::io::Error),
    #[error("another connection needs its place")]
    Evicted,
    #[error("no request within {} seconds", limits::FIRST_REQUEST_MAX.as_secs())]
    NoRequest,
    #[error("the client does not take its answer")]
    NotTaken,
    #[error("HTTP: {0}")]
    Http(Box<dyn std::error::Error + Send + Sync>),
}

/// Serves a connection over TLS until it ends, `stopping` has drained it, or its client's certificate expires.
pub(super) async fn serve_tls<S: Answers>(
    stream: TcpStream,
    address: SocketAddr,
    tls: Arc<Tls>,
    service: S,
    terms: Terms,
) -> Result<(), ConnectionError> {
    let stream = Stall::new(prepared(stream)?, limits::STALL_MAX);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&tls.server));
    let handshake =
        acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(limits::TLS_BUFFER)));
    let stream = tokio::select! {
        shaken = tokio::time::timeout(limits::HANDSHAKE_MAX, handshake) => shaken,
        () = terms.place.evicted() => return Err(ConnectionError::Evicted),
    };
    let stream =
        stream.map_err(|_| ConnectionError::HandshakeTimeout)?.map_err(ConnectionError::Handshake)?;
    let session = stream.get_ref().1;
    let version = if session.alpn_protocol() == Some(b"h2") { Version::Two } else { Version::One };
    let identified = tls.clients.identify(session.peer_certificates(), SystemTime::now());
    let valid_for = identified.as_ref().and_then(|identified| identified.valid_for);
    let certificate = identified.map(|identified| identified.certificate);
    if matches!(certificate, Some(Ok(_))) {
        terms.place.keep();
    }
    let peer = Arc::new(Peer { address, certificate, local_admin: false });
    let ends = async move {
        match valid_for {
            Some(left) => tokio::time::sleep(left.min(limits::IDENTITY_MAX)).await,
            None => std::future::pending().await,
        }
    };
    serve_http(stream, version, (peer, None), service, terms, ends).await
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
    // Only this machine gets here, and everybody is let in.
    terms.place.keep();
    let stream = Stall::new(stream, limits::STALL_MAX);
    let peer = Arc::new(Peer { address, certificate: None, local_admin: true });
    serve_http(stream, Version::Either, (peer, Some(door)), service, terms, std::future::pending()).await
}

fn prepared(stream: TcpStream) -> Result<TcpStream, ConnectionError> {
    stream.set_nodelay(true).map_err(ConnectionError::Socket)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(limits::TCP_KEEPALIVE);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(ConnectionError::Socket)?;
    Ok(stream)
}

async fn serve_http<S: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    version: Version,
    (peer, door): (Arc<Peer>, Option<Door>),
    service: S,
    terms: Terms,
    ends: impl Future<Output = ()>,
) -> Result<(), ConnectionError> {
    let Terms { place, waits, stopping } = terms;
    let visitor = Arc::new(Visitor { peer, door, place, has_asked: AtomicBool::new(false) });
    let asking = Arc::clone(&visitor);
    let answer = service_fn(move |request| answer(Arc::clone(&asking), service.clone(), request));
    let builder = builder(version, waits);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer);
    let served = async {
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(ConnectionError::Http),
            // The server as a whole bounds how long it waits for its connections.
            () = stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                return connection.await.map_err(ConnectionError::Http);
            }
            () = visitor.place.evicted() => return Err(ConnectionError::Evicted),
            () = silent(&visitor, waits.first_request) => return Err(ConnectionError::NoRequest),
            () = ends => connection.as_mut().graceful_shutdown(),
        }
        // The client's certificate has expired: requests under way may finish, but a watch would never.
        match tokio::time::timeout(limits::DRAIN_MAX, connection).await {
            Ok(ended) => ended.map_err(ConnectionError::Http),
            Err(_) => Ok(()),
        }
    };
    paced(served, waits.frame).await.unwrap_or(Err(ConnectionError::NotTaken))
}

/// Ends when the client has asked for nothing within `limit`; never, once it has.
async fn silent(visitor: &Visitor, limit: Duration) {
    tokio::time::sleep(limit).await;
    if visitor.has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn answer<S: Answers>(
    visitor: Arc<Visitor>,
    service: S,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    visitor.has_asked.store(true, Ordering::Relaxed);
    if let Some(text) = host_fault(&request) {
        return Ok(refused(StatusCode::BAD_REQUEST, text));
    }
    if let Some((status, text)) = visitor.door.and_then(|door| door.refusal(&request)) {
        return Ok(refused(status, text));
    }
    request.extensions_mut().insert(Arc::clone(&visitor.peer));
    let response = service.oneshot(request).await?;
    if response.extensions().get::<Admitted>().is_some() {
        visitor.place.keep();
    }
    Ok(response.map(watched))
}

/// What is wrong with the host that an HTTP/1.1 request names, in the reference's words.
fn host_fault(request: &Request<impl hyper::body::Body>) -> Option<&'static str> {
    if request.version() != http::Version::HTTP_11 {
        return None;
    }
    match request.headers().get_all(HOST).iter().count() {
        0 => Some("400 Bad Request: missing required Host header"),
        1 => None,
        _ => Some("400 Bad Request: too many Host headers"),
    }
}

fn refused(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn builder(version: Version, waits: Waits) -> Builder<PacedExecutor> {
    let mut builder = Builder::new(PacedExecutor { limit: waits.frame });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADERS_MAX)
        .max_buf_size(limits::HEADER_BYTES_MAX)
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits::HEADER_BYTES_MAX).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(limits::PENDING_RESETS_MAX)
        .max_local_error_reset_streams(limits::ERROR_RESETS_MAX)
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .max_send_buf_size(limits::STREAM_SEND_BUFFER)
        .keep_alive_interval(limits::PING_EVERY)
        .keep_alive_timeout(limits::PING_ANSWER_MAX);
    match version {
        Version::One => builder.http1_only(),
        Version::Two => builder.http2_only(),
        Version::Either => builder,
    }
}
