//! A client of the program's port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use orch_serving::tls::AnyServer;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// How to connect.
pub(crate) struct Client {
    pub(crate) port: u16,
    /// Name that is asked for.
    pub(crate) name: &'static str,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) certificate: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Client {
    pub(crate) fn new(port: u16) -> Client {
        let versions = vec![&rustls::version::TLS13, &rustls::version::TLS12];
        Client { port, name: "localhost", versions, certificate: None }
    }

    /// Connects; the handshake has ended when this returns.
    pub(crate) async fn connect(&self, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer::default()));
        let mut config = match &self.certificate {
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).await?;
        let name = ServerName::try_from(self.name).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends a request over a connection of its own.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let stream = self.connect(&["http/1.1"]).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    pub(crate) async fn get(&self, path: &str, token: Option<&str>) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> =
            bearer.iter().map(|value| ("authorization", value.as_str())).collect();
        self.send("GET", path, &headers, "").await
    }
}
