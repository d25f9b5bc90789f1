//! The adapter of [`orch_api::aggregation`]: requests to aggregated servers over TLS, with their answers streamed.
//!
//! Owns the connections. Requests to a server that speaks HTTP/2 share some ([`shared`]), which end when they are idle or a request has
//! no answer; requests that leave HTTP, and those to servers of HTTP/1.1, have one each, which ends with them. It follows no redirect. Which addresses may be dialled, and who vouches
//! for a server that an object names, is as for webhooks.
//!
//! Invariant: two servers share a connection only if address, name and trust are the same, and no request is sent over one that was
//! opened with another pair of this client than the newest.
//! Invariant: no file is read, and no certificate parsed, under the lock.

mod shared;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::HOST;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use orch_api::aggregation::{LongLived, Relay, Server, ServerTrust};
use orch_api::connect::BackendError;
use orch_api::egress::{Reach, Scheme, Url};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::shared::{CONNECTION_WINDOW_BYTES, Carrier, Connections, Place, STREAM_WINDOW_BYTES, Span};
use super::exchange::{ALIVE_EVERY, ALIVE_WITHIN, HEAD_BYTES_MAX};
use super::lasting::{Life, life};
use super::proxy_pair::{Pair, ProxyPair};
use super::sweep::{Sweep, Swept, look_after};
use super::{Trust, TrustError, dial};
use crate::connect::exchange_by;

/// Servers that are kept ready; the one that was asked longest ago goes.
const SERVERS_MAX: usize = 200;

/// For the handshake with one server.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// The aggregated servers of this node. Clones share everything.
#[derive(Clone)]
pub struct Relays(Arc<Inner>);

struct Inner {
    reach: Reach,
    pair: ProxyPair,
    servers: Arc<Mutex<Swept<Servers>>>,
}

/// The servers that are kept ready.
#[derive(Default)]
struct Servers(HashMap<Server, Known>);

/// A server that was asked.
struct Known {
    /// Made by the first request, for those that come meanwhile, too: its authorities are parsed once.
    settings: Arc<OnceCell<Settings>>,
    /// Those of HTTP/2.
    connections: Connections,
    asked: Instant,
    /// The version of the client's pair that the settings were made of.
    pair: u64,
}

/// A server as a request finds it.
struct Found {
    settings: Settings,
    /// The version of the client's pair.
    pair: u64,
    carrier: Option<Carrier>,
}

/// TLS settings of a server.
#[derive(Clone)]
struct Settings {
    /// For requests: HTTP/2 or HTTP/1.1.
    any: Arc<ClientConfig>,
    /// For requests that leave HTTP: HTTP/1.1.
    http1: Arc<ClientConfig>,
}

impl fmt::Debug for Relays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relays").field("reach", &self.0.reach).finish_non_exhaustive()
    }
}

impl Relays {
    /// Servers at the addresses of `reach`, which are shown the certificate of `pair`.
    pub fn new(reach: Reach, pair: ProxyPair) -> Relays {
        Relays(Arc::new(Inner { reach, pair, servers: Arc::default() }))
    }
}

impl Relay for Relays {
    fn relay(
        &self,
        server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        let inner = self.0.clone();
        async move { inner.pass(server, request).await }.boxed()
    }
}

impl Settings {
    /// Settings for `server`, which is shown `pair`.
    fn of(server: &ServerTrust, pair: Option<&Pair>) -> Result<Settings, TrustError> {
        let pair = pair.map(|pair| (pair.0.as_slice(), pair.1.as_slice()));
        let trust = Trust::of_server(server, pair)?;
        Ok(Settings { any: trust.with_http2().client(), http1: trust.client() })
    }
}

impl Inner {
    async fn pass(&self, server: Server, request: Request<Body>) -> Result<Response<Body>, BackendError> {
        self.pair.look().await;
        let leaves_http = request.extensions().get::<OnUpgrade>().is_some();
        let span = match request.extensions().get::<LongLived>() {
            Some(LongLived) => Span::Long,
            None => Span::Short,
        };
        let Found { settings, pair, carrier } = self.known(&server, span).await?;
        let mut request = request;
        if let Some((sender, place)) = carrier.filter(|_| !leaves_http) {
            let place = place.asked();
            match over_http2(sender, &server, request).await {
                Ok(answer) => return Ok(keeping(answer, place)),
                // The connection had ended before the request was sent.
                Err(Unsent::Request(unsent)) => request = *unsent,
                Err(Unsent::Nothing(error)) => return Err(error),
            }
        }
        let tls = if leaves_http { settings.http1 } else { settings.any };
        let stream = self.dial(&server, tls).await?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            // As clients of the reference write names of headers: servers may read extra attributes of users by case.
            let mut builder = http1::Builder::new();
            builder.title_case_headers(true);
            return exchange_by(&builder, stream, request).await;
        }
        let (life, tasks) = life();
        let mut builder = http2::Builder::new(tasks.clone());
        builder.timer(TokioTimer::new()).keep_alive_interval(ALIVE_EVERY);
        builder.keep_alive_timeout(ALIVE_WITHIN).max_header_list_size(HEAD_BYTES_MAX);
        builder.initial_stream_window_size(STREAM_WINDOW_BYTES);
        builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let lost = |error: hyper::Error| BackendError::Lost(error.to_string());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(lost)?;
        // Its errors show at the requests that it carries.
        tasks.execute(connection);
        let place = self.share((&server, pair), (&sender, life), span).asked();
        match over_http2(sender, &server, request).await {
            Ok(answer) => Ok(keeping(answer, place)),
            Err(Unsent::Request(_)) => Err(BackendError::Lost("the connection ended".to_owned())),
            Err(Unsent::Nothing(error)) => Err(error),
        }
    }

    /// The settings of `server`, made where there are none, and a connection of HTTP/2 that has a place for a request.
    async fn known(&self, server: &Server, span: Span) -> Result<Found, BackendError> {
        let (version, pair) = self.pair.current();
        let (cell, carrier) = {
            let mut servers = self.servers.lock();
            let known = servers.kept.of(server, version);
            (known.settings.clone(), known.connections.take(span))
        };
        let settings = cell.get_or_try_init(|| settings_of(server, pair)).await?.clone();
        Ok(Found { settings, pair: version, carrier })
    }

    /// Has other requests to `server` use a connection that was opened with the client's pair of this version, if that is still the
    /// newest one. The result is the place of the first request.
    fn share(
        &self,
        (server, pair): (&Server, u64),
        (sender, life): (&http2::SendRequest<Body>, Life),
        span: Span,
    ) -> Place {
        let place = {
            let mut servers = self.servers.lock();
            match servers.kept.0.get_mut(server).filter(|known| known.pair == pair) {
                Some(known) => known.connections.keep((sender, life), span),
                None => return shared::unkept(life),
            }
        };
        look_after(&self.servers);
        place
    }

    async fn dial(
        &self,
        server: &Server,
        tls: Arc<ClientConfig>,
    ) -> Result<TlsStream<TcpStream>, BackendError> {
        let (host, port) = &server.at;
        let url = Url { scheme: Scheme::Https, host: host.clone(), port: *port, target: "/".to_owned() };

        let found =
            dial::resolved(host, *port).await.map_err(|error| BackendError::Dial(error.to_string()))?;
        let stream = dial::connected(&self.reach, &url, found)
            .await
            .map_err(|error| BackendError::Dial(error.to_string()))?;
        let failed = |reason: String| BackendError::Dial(format!("tls: {}: {reason}", server.authority()));
        let name = ServerName::try_from(server.name.clone()).map_err(|error| failed(error.to_string()))?;
        let shaking = TlsConnector::from(tls).connect(name, stream);
        let shaken = tokio::time::timeout(HANDSHAKE_MAX, shaking).await;
        let shaken = shaken.map_err(|_| failed("no handshake in time".to_owned()))?;
        shaken.map_err(|error| failed(error.to_string()))
    }
}

impl Servers {
    /// `server`, for requests with the client's pair of this version: connections that were opened with an earlier one take none.
    fn of(&mut self, server: &Server, version: u64) -> &mut Known {
        let is_known = self.0.get(server).is_some_and(|known| known.pair >= version);
        if !is_known && self.0.len() >= SERVERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, known)| known.asked).map(|(server, _)| server.clone());
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let new = || Known {
            settings: Arc::default(),
            connections: Connections::default(),
            asked: Instant::now(),
            pair: version,
        };
        let known = self.0.entry(server.clone()).or_insert_with(new);
        if !is_known {
            *known = new();
        }
        known.asked = Instant::now();
        known
    }
}

impl Sweep for Servers {
    fn sweep(&mut self) -> bool {
        // All of them, also behind the first that keeps one.
        self.0.values_mut().filter_map(|known| known.connections.sweep().then_some(())).count() > 0
    }
}

/// TLS settings for `server`, which is shown `pair`.
async fn settings_of(server: &Server, pair: Option<Pair>) -> Result<Settings, BackendError> {
    // The machine's authorities are a file of some hundred certificates.
    let trust = server.trust.clone();
    let made = tokio::task::spawn_blocking(move || Settings::of(&trust, pair.as_ref())).await;
    // A node that stops starts no more such work.
    let settings = made.map_err(|error| BackendError::Dial(error.to_string()))?;
    settings.map_err(|error| BackendError::Dial(format!("tls: {}", orch_serving::Causes(&error))))
}

/// `answer`, which has `place` until it has ended.
fn keeping(answer: Response<Body>, place: Place) -> Response<Body> {
    let place = place.answered();
    answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            // Moved into the body, and dropped with it.
            let _ = &place;
            frame
        }))
    })
}

/// The reason why a request has no answer.
enum Unsent {
    /// The request was not sent: here it is.
    Request(Box<Request<Body>>),
    /// It may have been sent.
    Nothing(BackendError),
}

/// Sends `request` over a connection of HTTP/2, in which scheme and host are part of the request.
async fn over_http2(
    mut sender: http2::SendRequest<Body>,
    server: &Server,
    mut request: Request<Body>,
) -> Result<Response<Body>, Unsent> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let uri = Uri::builder().scheme("https").authority(server.authority()).path_and_query(target).build();
    let uri = uri.map_err(|error| Unsent::Nothing(BackendError::Lost(error.to_string())))?;
    let before = std::mem::replace(request.uri_mut(), uri);
    request.headers_mut().remove(HOST);
    // Extensions lead to the client's connection: they are of no use here, and must not outlive the request.
    request.extensions_mut().clear();
    match sender.try_send_request(request).await {
        Ok(answer) => Ok(answer.map(Body::new)),
        Err(mut error) => match error.take_message() {
            Some(mut request) => {
                *request.uri_mut() = before;
                if let Ok(host) = server.authority().parse() {
                    request.headers_mut().insert(HOST, host);
                }
                Err(Unsent::Request(Box::new(request)))
            }
            None => Err(Unsent::Nothing(BackendError::Lost(error.into_error().to_string()))),
        },
    }
}
