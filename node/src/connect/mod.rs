//! The adapter of [`orch_api::connect`]: HTTP/1.1 to kubelets and pods over TCP and TLS, and bytes after an upgrade.
//!
//! Owns resolving, connecting to the addresses that were checked, sending and streaming. Each request has a connection of its
//! own, which ends with it: nothing of one client is left for the next, and what a failed upgrade left behind is never used.
//! It follows no redirect and resolves no name a second time.
//!
//!     Sockets   resolve, or: dial -> TLS (trust) -> request -> head of the answer -> body as it comes
//!                                                          -> 101: tunnel, run by the client's connection

mod trust;
mod tunnel;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use orch_api::connect::{BackendError, BackendTrust, Backends, Destination};
use orch_api::egress::Scheme;
use orch_api::http::Lasting;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use self::trust::{KubeletFiles, KubeletTrustError, TrustStore};
use crate::egress::lookups::look_up;
use crate::server::TunnelSlot;

/// Bytes of an answer's head, and of what is read ahead of the client.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Addresses of one destination that are tried: a resolver may return many.
const ADDRESSES_MAX: usize = 4;

/// For TCP and TLS to a pod. A kubelet has `--kubelet-timeout`.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// From the request to the head of its answer. Programs that answer late on purpose (long polls) do so within a minute or
/// two; one that does not answer at all must not hold its client's room for ever.
const HEAD_MAX: Duration = Duration::from_secs(300);

/// Idle time after which the system asks whether the backend is still there: streams are idle for hours.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// The sockets to kubelets and pods.
#[derive(Debug)]
pub struct Sockets {
    trust: TrustStore,
    /// `--kubelet-timeout`: for TCP and TLS to one address of a kubelet.
    kubelet_connect_max: Duration,
}

impl Sockets {
    /// Sockets that are secured by `trust`.
    pub fn new(trust: TrustStore, kubelet_connect_max: Duration) -> Sockets {
        Sockets { trust, kubelet_connect_max }
    }

    async fn pass(&self, to: &Destination, request: Request<Body>) -> Result<Response<Body>, BackendError> {
        let limit = match to.trust {
            BackendTrust::Kubelet | BackendTrust::UnverifiedKubelet => self.kubelet_connect_max,
            BackendTrust::Anyone => CONNECT_MAX,
        };
        let stream = dial(&to.addresses, limit).await?;
        match to.scheme {
            Scheme::Http => exchange(stream, request).await,
            Scheme::Https => {
                let address = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
                let failed = |reason: String| BackendError::Dial(format!("tls: {address}: {reason}"));
                let name =
                    ServerName::try_from(to.host.clone()).map_err(|error| failed(error.to_string()))?;
                let connector = TlsConnector::from(self.trust.client(to.trust).await);
                let shaken = tokio::time::timeout(limit, connector.connect(name, stream)).await;
                let stream = shaken.map_err(|_| failed("no handshake in time".to_owned()))?;
                exchange(stream.map_err(|error| failed(error.to_string()))?, request).await
            }
        }
    }
}

impl Backends for Sockets {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        async move {
            let found = tokio::time::timeout(CONNECT_MAX, look_up(host, 0)).await;
            let found = found.map_err(|_| "no answer in time".to_owned())?;
            let found = found.map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(|address| address.ip()).take(ADDRESSES_MAX).collect())
        }
        .boxed()
    }

    fn forward<'a>(
        &'a self,
        to: &'a Destination,
        request: Request<Body>,
    ) -> BoxFuture<'a, Result<Response<Body>, BackendError>> {
        self.pass(to, request).boxed()
    }
}

/// Connects to the first of `addresses` that answers.
async fn dial(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, BackendError> {
    let mut last = BackendError::Dial("there is no address".to_owned());
    for address in addresses.iter().take(ADDRESSES_MAX) {
        let failed = |reason: String| BackendError::Dial(format!("dial tcp {address}: {reason}"));
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream).map_err(|error| failed(error.to_string()))?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = failed(format!("connect: {error}")),
            Err(_) => last = failed("no connection in time".to_owned()),
        }
    }
    Err(last)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(TCP_KEEPALIVE);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Sends `request` over `stream`. The connection ends with the body of the answer.
async fn exchange<S>(stream: S, request: Request<Body>) -> Result<Response<Body>, BackendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    exchange_by(&Builder::new(), stream, request).await
}

/// The same, where `builder` says how the request is written.
pub(crate) async fn exchange_by<S>(
    builder: &Builder,
    stream: S,
    mut request: Request<Body>,
) -> Result<Response<Body>, BackendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |error: hyper::Error| BackendError::Lost(error.to_string());
    let asker = Asker::take(&mut request);
    let mut builder = builder.clone();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake::<_, Body>(TokioIo::new(stream)).await.map_err(lost)?;
    // Its errors show at the answer, or at the tunnel.
    tokio::spawn(connection.with_upgrades());
    let answer = tokio::time::timeout(HEAD_MAX, sender.send_request(request)).await;
    let mut answer = answer.map_err(|_| BackendError::Timeout)?.map_err(lost)?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer.map(|body| kept_with(body, sender)));
    }
    let Some(Asker { client, slot, held }) = asker else {
        return Err(BackendError::Lost("the backend left HTTP without having been asked to".to_owned()));
    };
    let backend = hyper::upgrade::on(&mut answer);
    slot.open(tunnel::carry(client, backend, held));
    Ok(answer.map(|_| Body::empty()))
}

/// The side of an upgrade that is the client's.
struct Asker {
    client: OnUpgrade,
    slot: TunnelSlot,
    /// Kept until the tunnel ends.
    held: Option<Lasting>,
}

impl Asker {
    /// Takes it from the extensions of `request`; `None` where the client's connection cannot leave HTTP.
    fn take(request: &mut Request<Body>) -> Option<Asker> {
        let extensions = std::mem::take(request.extensions_mut());
        let (client, slot) =
            (extensions.get::<OnUpgrade>()?.clone(), extensions.get::<TunnelSlot>()?.clone());
        Some(Asker { client, slot, held: extensions.get::<Lasting>().cloned() })
    }
}

/// `body`, which keeps its connection open until its end.
fn kept_with(body: hyper::body::Incoming, sender: SendRequest<Body>) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _ = &sender;
        frame
    }))
}
