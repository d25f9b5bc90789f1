//! A small API server on loopback, for tests of the rims.
//!
//! Owns a real socket and a store in memory (`store`): lists in pages, watches with history and bookmarks, conditional
//! writes, bindings. It speaks both representations. Tests plant faults: requests that fail before or after they had
//! their effect, watches that break, history that is gone. It does no defaulting and no validation.

mod answer;
mod route;
mod store;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use orch_proto::Brand;
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::codec::ContentType;
use super::config::Config;
use super::endpoint::Endpoint;
use super::request::Client;

pub(crate) use answer::Wire;
pub(crate) use store::Store;

/// How long tests wait for something that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// It is refused with this status, and `Retry-After` where that is not 0.
    Status(u16, u64),
    /// The connection breaks before it has an effect.
    LostBefore,
    /// The connection breaks after it had its effect.
    LostAfter,
    /// It has its effect and is answered after this time.
    Slow(Duration),
}

#[derive(Debug)]
struct Planted {
    method: &'static str,
    path: &'static str,
    times: usize,
    fault: Fault,
}

/// The server. It stops when dropped.
pub(crate) struct FakeApi {
    address: SocketAddr,
    is_encrypted: bool,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) wire: Wire,
    planted: Mutex<Vec<Planted>>,
    log: Mutex<Vec<String>>,
    token: Mutex<Option<String>>,
}

impl FakeApi {
    /// A server without TLS.
    pub(crate) async fn start() -> Self {
        Self::start_with(None, Store::default()).await
    }

    /// Another server of the same store, as another member of a cluster.
    pub(crate) async fn peer(&self) -> Self {
        Self::start_with(None, self.shared.store.clone()).await
    }

    /// A server with TLS.
    pub(crate) async fn start_tls(tls: rustls::ServerConfig) -> Self {
        Self::start_with(Some(TlsAcceptor::from(Arc::new(tls))), Store::default()).await
    }

    async fn start_with(tls: Option<TlsAcceptor>, store: Store) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            store,
            wire: Wire::new(&ORCH),
            planted: Mutex::default(),
            log: Mutex::default(),
            token: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let is_encrypted = tls.is_some();
        tokio::spawn(accept(listener, tls, shared.clone(), stop.clone()));
        Self { address, is_encrypted, shared, stop }
    }

    pub(crate) fn brand() -> &'static Brand {
        &ORCH
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.address.port())
            .replace("localhost", "127.0.0.1")
            .parse()
            .unwrap()
    }

    /// The address by name, as certificates have it.
    pub(crate) fn named_endpoint(&self) -> Endpoint {
        format!("https://localhost:{}", self.address.port()).parse().unwrap()
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(vec![self.endpoint()]);
        config.qps = -1.0;
        config
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(ContentType::Protobuf)
    }

    pub(crate) fn client_of(&self, content_type: ContentType) -> Client {
        let mut config = self.config();
        (config.content_type, config.accepted) = (content_type, content_type);
        Client::new(&config, &ORCH).unwrap()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The next `times` requests of `method` whose path or query contains `path` go wrong.
    pub(crate) fn plant(&self, method: &'static str, path: &'static str, times: usize, fault: Fault) {
        self.shared.planted.lock().push(Planted { method, path, times, fault });
    }

    /// Requests must bring this bearer token from now on.
    pub(crate) fn require_token(&self, token: &str) {
        *self.shared.token.lock() = Some(token.to_owned());
    }

    /// Method and path of each request so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.log.lock().clone()
    }

    /// How many requests so far begin with `start`, for example `POST /api/v1`.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.shared.log.lock().iter().filter(|line| line.starts_with(start)).count()
    }

    /// Stops answering: connections break, new ones are refused.
    pub(crate) fn kill(&self) {
        self.stop.cancel();
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    /// The fault of this request, used up by it.
    fn fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut planted = self.planted.lock();
        let found = planted
            .iter_mut()
            .find(|fault| fault.times > 0 && fault.method == method && path.contains(fault.path))?;
        found.times -= 1;
        Some(found.fault)
    }

    fn is_authorized(&self, request: &Request<Incoming>) -> bool {
        let Some(token) = self.token.lock().clone() else { return true };
        let sent = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        sent == Some(&format!("Bearer {token}"))
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            () = stop.cancelled() => return,
        };
        let (shared, stop, tls) = (shared.clone(), stop.clone(), tls.clone());
        tokio::spawn(async move {
            let serving = async {
                match tls {
                    None => serve(stream, shared).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, shared).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn serve<S>(stream: S, shared: Arc<Shared>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request| handle(request, shared.clone()));
    // A broken connection is what many tests are about.
    drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
}

async fn handle(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, std::io::Error> {
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    shared.log.lock().push(format!("{method} {}", request.uri()));
    if !shared.is_authorized(&request) {
        return Ok(shared.wire.refusal(&request, 401, "Unauthorized", "who are you"));
    }
    let fault = shared.fault(&method, &path);
    match fault {
        Some(Fault::Status(code, retry_after)) => {
            let mut refusal = shared.wire.refusal(&request, code, "", "planted");
            if retry_after > 0 {
                refusal.headers_mut().insert("retry-after", retry_after.into());
            }
            return Ok(refusal);
        }
        Some(Fault::LostBefore) => return Err(std::io::Error::other("planted")),
        Some(Fault::LostAfter | Fault::Slow(_)) | None => {}
    }
    let answer = route::route(request, &shared).await;
    match fault {
        Some(Fault::LostAfter) => Err(std::io::Error::other("planted")),
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            Ok(answer)
        }
        _ => Ok(answer),
    }
}

/// A whole body.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A pod as JSON, without a node.
pub(crate) fn pod(name: &str) -> Value {
    serde_json::json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulerName": "default-scheduler", "containers": [{ "name": "c" }] },
    })
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
