//! The address of a server (scheme, host and port), and connecting to it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::Access;

/// Timeout of the TCP and TLS handshakes together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The byte stream of a connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The address of one server, parsed from a base URL such as `https://127.0.0.1:6443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    encrypted: bool,
}

impl Endpoint {
    /// An HTTPS endpoint.
    pub fn https(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, encrypted: true }
    }

    /// `host:port`, as the Host header carries it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }

    /// Connects, with TLS where the scheme says so, presenting the certificate of `access`.
    pub async fn connect(&self, access: &Access) -> Result<Box<dyn Stream>> {
        let connecting = async {
            let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
            tcp.set_nodelay(true)?;
            if !self.encrypted {
                return Ok(Box::new(tcp) as Box<dyn Stream>);
            }
            let name = ServerName::try_from(self.host.clone())?;
            let stream = access.connector()?.connect(name, tcp).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        let outcome: Result<_> = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .with_context(|| format!("connecting to {self} took over {CONNECT_TIMEOUT:?}"))?;
        outcome.with_context(|| format!("cannot connect to {self}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.encrypted { "https" } else { "http" }, self.authority())
    }
}

impl FromStr for Endpoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (encrypted, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => bail!("`{text}` is not a base URL: https://HOST:PORT is wanted"),
        };
        let authority = rest.trim_end_matches('/');
        if authority.contains('/') || authority.is_empty() {
            bail!("`{text}` has a path: only https://HOST:PORT is wanted");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().with_context(|| format!("bad port in `{text}`"))?)
            }
            _ => (authority, if encrypted { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, encrypted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&str>) {
        let parsed = text.parse::<Endpoint>().ok().map(|endpoint| endpoint.to_string());
        assert_eq!(parsed.as_deref(), want, "{text}");
    }

    #[test]
    fn base_urls_parse_and_print() {
        check("https://127.0.0.1:6443", Some("https://127.0.0.1:6443"));
        check("https://127.0.0.1:6443/", Some("https://127.0.0.1:6443"));
        check("http://localhost", Some("http://localhost:80"));
        check("https://[::1]:7", Some("https://[::1]:7"));
        check("127.0.0.1:6443", None);
        check("https://", None);
        check("https://host:99999", None);
        check("https://host:1/api", None);
    }
}
