//! The HTTP client below the transport, and the two ways in which a request has no answer.
//!
//! Owns the connections: their timeouts, their windows, the pings that notice a server that vanished. It chooses no
//! address and sends nothing twice. A simulation takes its place in tests of the crate, and under the feature
//! `simulation`, which only tests of whole clusters ask for; a release has neither the branch nor the field.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
#[cfg(not(any(test, feature = "simulation")))]
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::config::{Config, ConfigError};
use super::error::chain;

/// How often an idle connection with open watches is pinged. With [`PING_TIMEOUT`] it is the time until a server that hangs
/// is left: less than the default renew deadline of 10 s, so that scheduling goes on no later than the lease does.
const PING_INTERVAL: Duration = Duration::from_secs(3);

/// How long the answer to a ping may take: a busy server answers late, and leaving it costs a new connection.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection to one address may take to stand; then the next address is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that a stream and a connection may have under way: a page of a list is some megabytes.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// The body of an answer.
#[cfg(not(any(test, feature = "simulation")))]
pub(super) type ResponseBody = Incoming;
#[cfg(any(test, feature = "simulation"))]
pub use simulated::{Network, ResponseBody, Simulated};

/// The reason why a request has no answer.
#[derive(Debug)]
pub enum Failure {
    /// The connection was not made, so that no request was sent.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, and the request may have been read.
    Lost(String),
}

/// Sends single requests.
pub(super) struct Http {
    client: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    #[cfg(any(test, feature = "simulation"))]
    simulated: Option<Simulated>,
}

impl Http {
    pub(super) fn new(tls: rustls::ClientConfig, config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            client: client(tls, config)?,
            #[cfg(any(test, feature = "simulation"))]
            simulated: config.simulated.clone(),
        })
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    pub(super) async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, Failure> {
        #[cfg(any(test, feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            return simulated.request(request).await;
        }
        match self.client.request(request).await {
            #[cfg(not(any(test, feature = "simulation")))]
            Ok(response) => Ok(response),
            #[cfg(any(test, feature = "simulation"))]
            Ok(response) => Ok(simulated::boxed(response)),
            Err(source) if source.is_connect() => Err(Failure::Connect(source.into())),
            Err(error) => Err(Failure::Lost(chain(&error))),
        }
    }
}

fn client(
    tls: rustls::ClientConfig,
    config: &Config,
) -> Result<HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>, ConfigError> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(PING_INTERVAL));
    tcp.enforce_http(false);
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match &config.tls_server_name {
        None => builder,
        Some(name) => {
            let name =
                rustls::pki_types::ServerName::try_from(name.clone()).map_err(|_| ConfigError::Invalid {
                    field: "tls-server-name",
                    problem: "not a DNS name or an address".to_owned(),
                })?;
            builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
        }
    };
    let connector = builder.enable_all_versions().wrap_connector(tcp);
    let mut http = HttpClient::builder(TokioExecutor::new());
    http.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
    http.http2_keep_alive_interval(PING_INTERVAL).http2_keep_alive_timeout(PING_TIMEOUT);
    http.http2_initial_stream_window_size(STREAM_WINDOW_BYTES);
    http.http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    // The HTTP client resends only what was never written to a connection.
    http.retry_canceled_requests(true);
    Ok(http.build(connector))
}

/// The place of a simulation.
#[cfg(any(test, feature = "simulation"))]
mod simulated {
    use std::fmt;
    use std::sync::Arc;

    use bytes::Bytes;
    use futures::future::BoxFuture;
    use http::{Request, Response};
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;

    use super::Failure;

    /// The body of an answer.
    pub type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

    /// Servers and the network to them.
    pub trait Network: Send + Sync {
        /// Sends a request with this body when it is called, and resolves to the answer's head.
        fn request(
            &self,
            request: Request<Bytes>,
        ) -> BoxFuture<'static, Result<Response<ResponseBody>, Failure>>;
    }

    /// A network in a configuration.
    #[derive(Clone)]
    pub struct Simulated(pub Arc<dyn Network>);

    impl fmt::Debug for Simulated {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Simulated")
        }
    }

    impl Simulated {
        pub(super) async fn request(
            &self,
            request: Request<Full<Bytes>>,
        ) -> Result<Response<ResponseBody>, Failure> {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a whole body cannot fail").to_bytes();
            self.0.request(Request::from_parts(head, body)).await
        }
    }

    pub(super) fn boxed(response: Response<Incoming>) -> Response<ResponseBody> {
        response.map(|body| body.map_err(std::io::Error::other).boxed_unsync())
    }
}
