//! Connects to a target's server.
//!
//! Owns the order: resolve once, check every address, connect to the first one that may be dialled and answers. No
//! name is resolved a second time, so that an answer of the resolver that changes between check and connection changes
//! nothing. Where a host may be at no address of this machine, the system is asked which these are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
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
        let is_elsewhere = !reach.may_be_here(url);
        let own = || EgressError::Forbidden { host: url.host.clone(), address: address.ip().to_canonical() };
        if is_elsewhere && is_own(address.ip()) {
            last = own();
            continue;
        }
        match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) if is_elsewhere && leads_here(&stream) => last = own(),
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

/// Whether `address` is one of this machine's: the system lets a socket have it. Nothing is sent.
fn is_own(address: IpAddr) -> bool {
    let can_be_had = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    let address = address.to_canonical();
    // No machine has these (RFC 1112, RFC 6666). Where a socket may have any address (`ip_nonlocal_bind`), this tells nothing.
    let nowhere = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)),
    };
    can_be_had(address) && !can_be_had(nowhere)
}

/// Whether both ends of `stream` have one address: that of an interface of this machine.
fn leads_here(stream: &TcpStream) -> bool {
    match (stream.peer_addr(), stream.local_addr()) {
        (Ok(peer), Ok(local)) => peer.ip().to_canonical() == local.ip().to_canonical(),
        // One that has ended already: its handshake fails.
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use orch_api::egress::Local;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_of_this_machine_is_known_by_what_a_socket_may_have() {
        // The second is no address that a connection to it would come from.
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.9.8.7", true),
            ("::ffff:127.0.0.1", true),
            ("203.0.113.7", false),
            ("::ffff:203.0.113.7", false),
            ("2001:db8::7", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn a_connection_whose_ends_have_one_address_leads_to_this_machine() {
        for (address, expected) in [("127.0.0.1:0", true), ("127.9.8.7:0", false)] {
            let listener = TcpListener::bind(address).await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            assert_eq!(leads_here(&stream), expected, "{address}");
        }
    }

    /// The address from which this machine sends to others; `None` on a machine without a network. Nothing is sent.
    fn own_address() -> Option<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("203.0.113.7:9").ok()?;
        let address = socket.local_addr().unwrap().ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    }

    #[tokio::test]
    async fn a_host_at_an_interface_of_this_machine_is_dialled_only_where_this_machine_may_be() {
        let Some(address) = own_address() else { return };
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let url = Url::parse(&format!("https://hook.example:{}/", at.port())).unwrap();
        let refused = connected(&Reach::of_objects(Local::None), &url, vec![at]).await.unwrap_err();
        assert_eq!(refused, EgressError::Forbidden { host: "hook.example".to_owned(), address });
        for reach in [Reach::of_objects(Local::Any), Reach::of_objects(Local::Interfaces), Reach::of([&url])]
        {
            assert!(connected(&reach, &url, vec![at]).await.is_ok());
        }
    }
}
