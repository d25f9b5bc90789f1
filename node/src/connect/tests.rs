//! Backends on loopback, and what becomes of requests to them.

use std::sync::Arc;

use axum::body::Body;
use http::Request;
use orch_proto::brand::ORCH;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::certs::{Authority, Pair, admin_leaf, server_leaf};

/// A backend that reads one head of a request and writes these bytes.
async fn backend(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        head
    });
    (address, task)
}

async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

fn plain(address: SocketAddr) -> Destination {
    let (host, addresses) = (address.ip().to_string(), vec![address]);
    Destination { scheme: Scheme::Http, host, addresses, trust: BackendTrust::Anyone }
}

fn sockets(files: KubeletFiles) -> Sockets {
    Sockets::new(TrustStore::read(files).unwrap(), Duration::from_secs(5))
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "x").body(Body::empty()).unwrap()
}

async fn text(answer: Response<Body>) -> String {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn redirects_and_failures_are_answers() {
    for (answer, code, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
        ("HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, ""),
        ("HTTP/1.1 500 X\r\nConnection: close\r\n\r\nbroken", 500, "broken"),
    ] {
        let (address, head) = backend(answer).await;
        let answered =
            sockets(KubeletFiles::default()).forward(&plain(address), get("/a?b=c")).await.unwrap();
        assert_eq!(answered.status(), code);
        assert_eq!(text(answered).await, body);
        assert!(head.await.unwrap().starts_with("GET /a?b=c HTTP/1.1\r\n"));
    }
}

#[tokio::test]
async fn a_backend_that_leaves_http_unasked_is_lost() {
    let answer = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let (address, _head) = backend(answer).await;
    let refused = sockets(KubeletFiles::default()).forward(&plain(address), get("/")).await.unwrap_err();
    assert!(matches!(refused, BackendError::Lost(_)), "{refused}");
}

#[tokio::test]
async fn nonsense_and_nothing_are_told_by_their_kind_and_not_quoted() {
    let (address, _head) = backend("canary\r\n\r\n").await;
    let all = sockets(KubeletFiles::default());
    let refused = all.forward(&plain(address), get("/")).await.unwrap_err();
    assert!(matches!(&refused, BackendError::Lost(text) if !text.contains("canary")), "{refused}");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = all.forward(&plain(closed), get("/")).await.unwrap_err().to_string();
    assert!(refused.starts_with(&format!("dial tcp {closed}: connect: ")), "{refused}");
}

fn acceptor(pair: &Pair) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A backend over TLS that answers each connection's request with `hello`.
async fn secured(authority: &Authority) -> SocketAddr {
    let pair = authority.issue(&server_leaf("a", &[], &ORCH), OffsetDateTime::now_utc()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = acceptor(&pair);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            read_head(&mut stream).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            stream.write_all(answer).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn kubelets_are_verified_by_their_authority_and_pods_are_not() {
    let now = OffsetDateTime::now_utc();
    let (authority, other) = (Authority::create("a", now).unwrap(), Authority::create("b", now).unwrap());
    let address = secured(&authority).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let admin = authority.issue(&admin_leaf(), now).unwrap();
    let pair = Some((write("a.crt", &admin.certificate), write("a.key", &admin.key)));
    let files = |authority: Option<&Authority>| KubeletFiles {
        authority: authority.map(|authority| write("ca.crt", &authority.pair.certificate)),
        pair: pair.clone(),
    };
    for (authority, trust, is_reached) in [
        (Some(&authority), BackendTrust::Kubelet, true),
        (Some(&other), BackendTrust::Kubelet, false),
        (Some(&other), BackendTrust::UnverifiedKubelet, true),
        (Some(&other), BackendTrust::Anyone, true),
        (None, BackendTrust::Kubelet, true),
    ] {
        let to = Destination { scheme: Scheme::Https, trust, ..plain(address) };
        let answered = sockets(files(authority)).forward(&to, get("/")).await;
        assert_eq!(answered.is_ok(), is_reached, "{trust:?}: {answered:?}");
    }
    let unreadable = KubeletFiles { authority: Some(folder.path().join("none")), pair: None };
    assert!(matches!(TrustStore::read(unreadable), Err(KubeletTrustError::Unreadable { .. })));
    let unusable = KubeletFiles { authority: Some(write("x", "x")), pair: None };
    assert!(matches!(TrustStore::read(unusable), Err(KubeletTrustError::Unusable(_))));
}
