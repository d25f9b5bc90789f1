//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use orch_api::authn::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::limits;
use super::loopback;
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

/// Why a connection ended other than by the client's leave.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("socket: {0}")]
    Socket(std::io::Error),
    #[error("no TLS handshake within {} seconds", limits::HANDSHAKE_MAX.as_secs())]
    HandshakeTimeout,
    #[error("TLS handshake: {0}")]
    Handshake(std::io::Error),
    #[error("HTTP: {0}")]
    Http(Box<dyn std::error::Error + Send + Sync>),
}

/// Serves a connection over TLS until it ends, `stopping` has drained it, or its client's certificate expires.
pub(super) async fn serve_tls<S: Answers>(
    stream: TcpStream,
    address: SocketAddr,
    tls: Arc<Tls>,
    service: S,
    stopping: CancellationToken,
) -> Result<(), ConnectionError> {
    let stream = Stall::new(prepared(stream)?, limits::STALL_MAX);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&tls.server));
    let handshake =
        acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(limits::TLS_BUFFER)));
    let stream = tokio::time::timeout(limits::HANDSHAKE_MAX, handshake)
        .await
        .map_err(|_| ConnectionError::HandshakeTimeout)?
        .map_err(ConnectionError::Handshake)?;
    let session = stream.get_ref().1;
    let version = if session.alpn_protocol() == Some(b"h2") { Version::Two } else { Version::One };
    let identified = tls.clients.identify(session.peer_certificates(), SystemTime::now());
    let valid_for = identified.as_ref().and_then(|identified| identified.valid_for);
    let certificate = identified.map(|identified| identified.certificate);
    let peer = Arc::new(Peer { address, certificate, local_admin: false });
    let ends = async move {
        match valid_for {
            Some(left) => tokio::time::sleep(left.min(limits::IDENTITY_MAX)).await,
            None => std::future::pending().await,
        }
    };
    serve_http(stream, version, peer, service, stopping, ends).await
}

/// Serves a connection of the plain loopback port.
pub(super) async fn serve_plain<S: Answers>(
    stream: TcpStream,
    address: SocketAddr,
    service: S,
    stopping: CancellationToken,
) -> Result<(), ConnectionError> {
    let stream = Stall::new(prepared(stream)?, limits::STALL_MAX);
    let peer = Arc::new(Peer { address, certificate: None, local_admin: true });
    serve_http(stream, Version::Either, peer, service, stopping, std::future::pending()).await
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
    peer: Arc<Peer>,
    service: S,
    stopping: CancellationToken,
    ends: impl Future<Output = ()>,
) -> Result<(), ConnectionError> {
    let answer = service_fn(move |request| answer(Arc::clone(&peer), service.clone(), request));
    let builder = builder(version);
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(ConnectionError::Http),
        // The server as a whole bounds how long it waits for its connections.
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return connection.await.map_err(ConnectionError::Http);
        }
        () = ends => connection.as_mut().graceful_shutdown(),
    }
    // The client's certificate has expired: requests under way may finish, but a watch would never.
    match tokio::time::timeout(limits::DRAIN_MAX, connection).await {
        Ok(ended) => ended.map_err(ConnectionError::Http),
        Err(_) => Ok(()),
    }
}

async fn answer<S: Answers>(
    peer: Arc<Peer>,
    service: S,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if peer.local_admin
        && let Some(refusal) = loopback::refusal(request.uri(), request.headers())
    {
        let mut response = Response::new(Body::from(refusal));
        *response.status_mut() = StatusCode::FORBIDDEN;
        return Ok(response);
    }
    request.extensions_mut().insert(peer);
    service.oneshot(request).await
}

fn builder(version: Version) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
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
