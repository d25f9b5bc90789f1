//! Connects to a target's server.
//!
//! Owns the order: resolve once, check every address, connect to the first one that may be dialled and answers. No
//! name is resolved a second time, so that an answer of the resolver that changes between check and connection changes
//! nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use orch_api::egress::{EgressError, Reach, Scheme, Url};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Target;
use super::exchange::Sender;
use super::lookups::look_up;

/// For connecting to one address: a dead one must leave time for the next.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Addresses of a host that are tried: a resolver may return many.
const ADDRESSES_MAX: usize = 4;

/// A connection for requests to the server of `url`.
pub(super) async fn dial(target: &Target, url: &Url) -> Result<Sender, EgressError> {
    let unreachable = |reason: String| EgressError::Unreachable { host: url.host.clone(), reason };
    let found = addresses(target, url).await.map_err(|error| unreachable(error.to_string()))?;
    let stream = connected(&target.reach, url, found).await?;
    secure(target, url, stream).await
}

/// A connection to the first of the addresses `found` that `reach` allows and that answers. The host is that of `url`.
pub(super) async fn connected(
    reach: &Reach,
    url: &Url,
    found: Vec<SocketAddr>,
) -> Result<TcpStream, EgressError> {
    let unreachable = |reason: String| EgressError::Unreachable { host: url.host.clone(), reason };
    let mut last = unreachable("it has no address".to_owned());
    for address in found.into_iter().take(ADDRESSES_MAX) {
        if let Err(refused) = reach.check(url, address.ip()) {
            last = refused;
            continue;
        }
        match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are small; a delay for fuller packets would only add to each.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection keeps its delay");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => last = unreachable(error.to_string()),
            Err(_) => last = unreachable("no connection in time".to_owned()),
        }
    }
    Err(last)
}

/// The addresses of the host of `url`.
async fn addresses(target: &Target, url: &Url) -> std::io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(address) = target.address {
        return Ok(vec![address]);
    }
    let (host, port) = match &target.at {
        Some((host, port)) => (host.as_str(), *port),
        None => (url.host.as_str(), url.port),
    };
    resolved(host, port).await
}

/// The addresses of `host`, at `port`.
pub(super) async fn resolved(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    // These names are of this machine wherever they are looked up (RFC 6761), and many resolvers know only the first.
    if host == "localhost" || host.ends_with(".localhost") {
        return Ok([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
            .map(|address| SocketAddr::new(address, port))
            .to_vec());
    }
    look_up(host, port).await
}

async fn secure(target: &Target, url: &Url, stream: TcpStream) -> Result<Sender, EgressError> {
    let unreachable = |reason: String| EgressError::Unreachable { host: url.host.clone(), reason };
    match url.scheme {
        Scheme::Http => Sender::over(stream, false).await.map_err(|error| unreachable(error.to_string())),
        Scheme::Https => {
            let name = target.server_name.as_ref().unwrap_or(&url.host).clone();
            let name = ServerName::try_from(name).map_err(|error| unreachable(error.to_string()))?;
            let connector = TlsConnector::from(target.tls.clone());
            let stream = connector.connect(name, stream).await;
            let stream = stream.map_err(|error| unreachable(error.to_string()))?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            Sender::over(stream, is_http2).await.map_err(|error| unreachable(error.to_string()))
        }
    }
}
