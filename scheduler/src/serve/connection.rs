//! Accepts connections and serves HTTP on them, within limits.
//!
//! Owns the deadlines. Invariant: every wait on a client ends: the handshake, the headers, a request, the wait for the
//! next one, and the connection as a whole. How many connections there are is the business of [`Places`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{Answer, error, uncached};
use super::places::{Place, Places};
use super::profile;
use super::router::{Authenticated, Router};
use super::tls::{Certificate, Tls};
use crate::ambient;

/// Longest TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a request's headers; also how long an HTTP/1.1 connection may idle.
const HEADERS_MAX: Duration = Duration::from_secs(30);
/// Bytes that are taken of a request without TLS before it is refused.
const UNENCRYPTED_BYTES_MAX: usize = 4096;
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

/// State that connections share.
pub(super) struct Shared {
    pub(super) tls: Tls,
    pub(super) router: Arc<Router>,
    /// Streams that an HTTP/2 connection may have; `None` for the library's default.
    pub(super) streams_max: Option<u32>,
    pub(super) stopping: CancellationToken,
}

/// Serves connections until `shared.stopping`, and then until all have ended or were given up. Returns how many were
/// given up.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) -> usize {
    let places = Arc::new(Places::default());
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stopping.cancelled() => break,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Some(place) = places.take(address.ip()) {
                    connections.spawn(serve(stream, address, Arc::clone(&shared), Arc::new(place)));
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
    match tokio::time::timeout(DRAIN_MAX * 2, connections.wait()).await {
        Ok(()) => 0,
        Err(_) => connections.len(),
    }
}

/// Whether the first byte of a connection begins the name of a method of HTTP. A TLS handshake begins with 0x16.
async fn speaks_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0].is_ascii_alphabetic())
}

/// Answers in the reference's words that the port speaks TLS, and closes.
async fn refuse_http<T>(mut stream: TcpStream) -> io::Result<T> {
    // An unread request would reset the connection before its answer.
    let mut request = [0; UNENCRYPTED_BYTES_MAX];
    match stream.try_read(&mut request) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    Err(io::Error::other("an HTTP request without TLS"))
}

/// Serves one connection. Its faults are the client's, and tell an operator nothing at usual verbosity.
async fn serve(stream: TcpStream, address: SocketAddr, shared: Arc<Shared>, place: Arc<Place>) {
    let local = stream.local_addr().ok().map(|address| address.ip());
    let acceptor = TlsAcceptor::from(shared.tls.at(local));
    let handshake = async {
        stream.set_nodelay(true)?;
        if speaks_http(&stream).await? {
            return refuse_http(stream).await;
        }
        acceptor.accept(stream).await
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_MAX, handshake) => shaken,
        () = place.evicted() => return tracing::debug!(%address, "another connection needs its place"),
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(fault)) => return tracing::debug!(%address, error = %fault, "TLS handshake"),
        Err(_) => return tracing::debug!(%address, "no TLS handshake in time"),
    };
    let chain = stream.get_ref().1.peer_certificates().map(|chain| {
        chain
            .iter()
            .map(|certificate| certificate.clone().into_owned())
            .collect::<Vec<CertificateDer<'static>>>()
    });
    let asked = Arc::new(Asked { shared: Arc::clone(&shared), chain, place: Arc::clone(&place) });
    let service = service_fn(move |request: Request<Incoming>| {
        let asked = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(asked.answer(request).await) }
    });
    let builder = builder(shared.streams_max);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = tokio::time::sleep(CONNECTION_MAX) => None,
        () = place.idle() => None,
        () = place.evicted() => return tracing::debug!(%address, "another connection needs its place"),
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
}

/// State that the requests of a connection share.
struct Asked {
    shared: Arc<Shared>,
    /// The certificates that the client presented, its own first.
    chain: Option<Vec<CertificateDer<'static>>>,
    place: Arc<Place>,
}

impl Asked {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let _under_way = self.place.request();
        let is_profile = request.uri().path().starts_with(profile::ROOT);
        let longest = if is_profile { PROFILE_MAX } else { REQUEST_MAX };
        // With each request anew: a certificate expires, and its authority may be trusted no longer.
        let peer = self.shared.tls.clients().identify(self.chain.as_deref(), ambient::system_time());
        if peer.is_front_proxy || matches!(peer.certificate, Certificate::User(_)) {
            self.place.hold();
        }
        let router = Arc::clone(&self.shared.router);
        match tokio::time::timeout(longest, router.answer(Arc::new(peer), request)).await {
            Ok(mut answer) => {
                if answer.extensions_mut().remove::<Authenticated>().is_some() {
                    self.place.hold();
                }
                answer
            }
            Err(_) => uncached(error(StatusCode::GATEWAY_TIMEOUT, "the request took too long")),
        }
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
