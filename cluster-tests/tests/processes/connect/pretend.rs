//! A pretend kubelet, which asks for a client certificate, and a pretend pod, which speaks plain HTTP. Each connection carries
//! one request.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use orch_cluster_tests::client::Client;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{channels, forwarding};

/// A server that answers as its paths say.
pub(crate) struct Pretend {
    pub(crate) address: SocketAddr,
    said: Arc<Said>,
    folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

/// The bytes that have come in, and those that go out when a test says so.
struct Said {
    heads: Mutex<Vec<String>>,
    /// A permit for each further line of a log that is followed.
    more: Semaphore,
}

impl Drop for Pretend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pretend {
    /// A kubelet, whose certificates are in its folder.
    pub(crate) async fn kubelet() -> Pretend {
        let folder = tempfile::tempdir().unwrap();
        let acceptor = acceptor(folder.path());
        Pretend::start(folder, Some(acceptor)).await
    }

    /// A pod.
    pub(crate) async fn pod() -> Pretend {
        Pretend::start(tempfile::tempdir().unwrap(), None).await
    }

    async fn start(folder: tempfile::TempDir, acceptor: Option<TlsAcceptor>) -> Pretend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let said = Arc::new(Said { heads: Mutex::default(), more: Semaphore::new(0) });
        let kept = said.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, said) = (acceptor.clone(), kept.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &said).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => serve(stream, &said).await,
                            Err(_) => Some(()),
                        },
                    }
                });
            }
        });
        Pretend { address, said, folder, task }
    }

    /// Flags of a node that reaches this kubelet.
    pub(crate) fn flags(&self) -> Vec<String> {
        let flag =
            |name: &str, file: &str| format!("--kubelet-{name}={}", self.folder.path().join(file).display());
        vec![
            flag("certificate-authority", "ca.crt"),
            flag("client-certificate", "client.crt"),
            flag("client-key", "client.key"),
        ]
    }

    /// Makes the node `name` with this kubelet.
    pub(crate) async fn register(&self, client: &Client, name: &str) {
        let (ip, port) = (self.address.ip().to_string(), self.address.port());
        let node = json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": ip}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            },
        });
        client.post("/api/v1/nodes", &node).await.unwrap().success().unwrap();
    }

    /// The heads of the requests so far, in lower case; forgets them.
    pub(crate) fn take_heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.heads.lock().unwrap())
    }

    /// Writes the next line of a log that is followed.
    pub(crate) fn say_more(&self) {
        self.said.more.add_permits(1);
    }
}

/// Makes the authority of kubelets, the certificate of this one and that of its clients in `folder`.
fn acceptor(folder: &Path) -> TlsAcceptor {
    let (authority_key, mut params) =
        (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
    params.distinguished_name.push(DnType::CommonName, "kubelets");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let issued = |names: Vec<String>, usage: ExtendedKeyUsagePurpose| {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(names).unwrap());
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &issuer).unwrap(), key.serialize_pem())
    };
    let (client, client_key) = issued(Vec::new(), ExtendedKeyUsagePurpose::ClientAuth);
    for (file, text) in
        [("ca.crt", authority.pem()), ("client.crt", client.pem()), ("client.key", client_key)]
    {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let (server, server_key) = issued(vec!["127.0.0.1".to_owned()], ExtendedKeyUsagePurpose::ServerAuth);
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from(server.der().to_vec())],
            PrivateKeyDer::from_pem_slice(server_key.as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Answers one request; `None` where the connection broke.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, said: &Said) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    said.heads.lock().unwrap().push(head.to_ascii_lowercase());
    let target = head.split(' ').nth(1)?.to_owned();
    let (original, head) = (head.clone(), head.to_ascii_lowercase());
    let upgrade = head.lines().find_map(|line| line.strip_prefix("upgrade: "));
    match (target.split(['/', '?']).nth(1)?, upgrade) {
        ("exec" | "attach", Some("websocket")) if head.contains("v5.channel") => {
            return channels::run(stream, &original, &target).await;
        }
        // As kubelets do, which forward ports over SPDY only.
        ("portForward", Some("websocket")) => {
            answer(&mut stream, "400 Bad Request", "", "unable to upgrade: SPDY is spoken here").await
        }
        ("portForward", Some(_)) if head.contains("x-stream-protocol-version: portforward") => {
            return forwarding::serve(stream).await;
        }
        ("exec" | "portForward" | "tunnel", Some(protocol)) => {
            let granted = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n>"
            );
            write(&mut stream, &granted).await?;
            return shout(stream).await;
        }
        ("containerLogs", _) if target.contains("follow=true") => return follow(stream, said).await,
        ("containerLogs", _) if target.contains("previous=true") => {
            answer(&mut stream, "400 Bad Request", "", "there is no run before this one").await
        }
        ("containerLogs", _) if target.contains("sinceSeconds=302") => {
            answer(&mut stream, "302 Found", "Location: https://192.0.2.1/secrets\r\n", "").await
        }
        ("containerLogs", _) => answer(&mut stream, "200 OK", "X-Own: 1\r\n", "one\ntwo\n").await,
        ("attach", _) => answer(&mut stream, "403 Forbidden", "", "nobody attaches here").await,
        ("unasked", _) => answer(&mut stream, "200 OK", "", "hello").await,
        ("moved", _) => answer(&mut stream, "302 Found", "Location: /elsewhere/?a=b\r\n", "").await,
        ("away", _) => answer(&mut stream, "302 Found", "Location: http://192.0.2.1/x\r\n", "").await,
        ("echo", _) => {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).await.ok()?;
            let body = String::from_utf8(body).ok()?;
            answer(&mut stream, "201 Created", "Access-Control-Allow-Origin: *\r\nX-Own: 1\r\n", &body).await
        }
        _ => answer(&mut stream, "404 Not Found", "", "no such page").await,
    }?;
    stream.shutdown().await.ok()
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> Option<()> {
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()
}

async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    status: &str,
    headers: &str,
    body: &str,
) -> Option<()> {
    let length = body.len();
    write(stream, &format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")).await
}

/// A log that goes on when the test says so, without an end.
async fn follow(mut stream: impl AsyncRead + AsyncWrite + Unpin, said: &Said) -> Option<()> {
    write(&mut stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    for number in 0.. {
        let line = format!("line {number}\n");
        write(&mut stream, &format!("{:x}\r\n{line}\r\n", line.len())).await?;
        let mut gone = [0];
        tokio::select! {
            permit = said.more.acquire() => permit.ok()?.forget(),
            _ = stream.read(&mut gone) => return None,
        }
    }
    None
}

/// Returns what comes in capitals, until the other side has ended.
async fn shout(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            write(&mut stream, "<").await?;
            return stream.shutdown().await.ok();
        }
        buffer[..read].make_ascii_uppercase();
        stream.write_all(&buffer[..read]).await.ok()?;
        stream.flush().await.ok()?;
    }
}
