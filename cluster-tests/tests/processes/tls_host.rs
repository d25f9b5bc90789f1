//! A TLS server that a test speaks for: webhooks and aggregated servers that misbehave.
//!
//! Owns the listener, the certificate that new connections are shown, their end, and the reading and writing of HTTP/1.1. What is
//! answered is the test's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A connection of a client.
pub(crate) type Stream = TlsStream<TcpStream>;

/// Serves one connection to its end.
type Serve = dyn Fn(Stream) -> BoxFuture<'static, io::Result<()>> + Send + Sync;

/// Certificate and key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    /// A pair of its own for `host`, which no authority has signed; `has_ended`: its time is over.
    pub(crate) fn of(host: &str, has_ended: bool) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([host.to_owned()]).unwrap();
        if has_ended {
            parameters.not_before = date_time_ymd(2020, 1, 1);
            parameters.not_after = date_time_ymd(2021, 1, 1);
        }
        Pair { certificate: parameters.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server on this machine. It ends with its value, and its connections with it.
pub(crate) struct TlsHost {
    pub(crate) address: SocketAddr,
    shown: Arc<Mutex<TlsAcceptor>>,
    serve: Arc<Serve>,
    /// `None`: it is dead.
    accepting: Option<JoinHandle<()>>,
}

impl Drop for TlsHost {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

impl TlsHost {
    /// A server that shows `pair`, and whose connections `serve` answers.
    pub(crate) async fn start<F>(pair: &Pair, serve: impl Fn(Stream) -> F + Send + Sync + 'static) -> TlsHost
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        TlsHost::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST), pair, serve).await
    }

    /// The same at an address of this machine.
    pub(crate) async fn start_at<F>(
        address: IpAddr,
        pair: &Pair,
        serve: impl Fn(Stream) -> F + Send + Sync + 'static,
    ) -> TlsHost
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shown = Arc::new(Mutex::new(pair.acceptor()));
        let serve: Arc<Serve> = Arc::new(move |stream| serve(stream).boxed());
        let accepting = Some(tokio::spawn(accept(listener, shown.clone(), serve.clone())));
        TlsHost { address, shown, serve, accepting }
    }

    /// Shows `pair` to connections from now on.
    pub(crate) fn show(&self, pair: &Pair) {
        *self.shown.lock().unwrap() = pair.acceptor();
    }

    /// Ends the listener and all connections.
    pub(crate) async fn die(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        accepting.abort();
        // It was cancelled.
        let _ = accepting.await;
    }

    /// Listens again where it did.
    pub(crate) async fn revive(&mut self) {
        self.die().await;
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = Some(tokio::spawn(accept(listener, self.shown.clone(), self.serve.clone())));
    }
}

async fn accept(listener: TcpListener, shown: Arc<Mutex<TlsAcceptor>>, serve: Arc<Serve>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, serve) = (shown.lock().unwrap().clone(), serve.clone());
        connections.spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // A connection that breaks concerns no other.
                let _ = serve(stream).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query.
    pub(crate) target: String,
    /// The head, with names of headers in lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Request {
    /// The next request of a connection.
    pub(crate) async fn read(stream: &mut Stream) -> io::Result<Request> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut first = head.split(' ');
        let mut word = || first.next().unwrap_or_default().to_owned();
        let (method, target) = (word(), word());
        let lower = |line: &str| match line.split_once(':') {
            Some((name, value)) => format!("{}:{value}", name.to_ascii_lowercase()),
            None => line.to_owned(),
        };
        let head = head.lines().map(lower).collect::<Vec<_>>().join("\n");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let body = match head.contains("transfer-encoding: chunked") {
            true => read_chunks(stream).await?,
            false => {
                let mut body = vec![0; length.unwrap_or_default()];
                stream.read_exact(&mut body).await?;
                body
            }
        };
        Ok(Request { method, target, head, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// The body of a request that was passed on without its length.
async fn read_chunks(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(stream.read_u8().await?);
        }
        let length = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16);
        // Behind each chunk is the end of a line, which is all that the last one has.
        let mut chunk = vec![0; length.map_err(io::Error::other)? + 2];
        stream.read_exact(&mut chunk).await?;
        chunk.truncate(chunk.len() - 2);
        if chunk.is_empty() {
            return Ok(body);
        }
        body.append(&mut chunk);
    }
}

/// Answers with `status`, a code and its words, and `text`.
pub(crate) async fn answer(stream: &mut Stream, status: &str, text: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes()).await?;
    stream.flush().await
}
