//! A server on loopback ports, and real clients.

mod event_loops;
mod identity;
mod load;
mod pace;
mod panics;
mod smuggling;
mod strangers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use orch_api::authn::{Peer, User, UserReporter};
use orch_api::flow::InitialEvents;
use orch_api::http::WatchResponse;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::certs::{Authority, Leaf, Pair, Purpose, admin_leaf, server_leaf};
use crate::tls::tests::trust::revocation_list;
use crate::tls::{ProxyFiles, Reloader, TlsFiles};

/// The runtime of the test serves connections.
fn here() -> EventLoops {
    EventLoops::new(tokio::runtime::Handle::current(), [])
}

/// Places of a server for tests.
const CONNECTIONS: usize = 1_000;

/// Synchronizes the test with a request to `/slow` or `/block`.
#[derive(Default)]
struct Meeting {
    arrived: tokio::sync::Notify,
    go_on: tokio::sync::Notify,
    /// Bytes of the responses to `/piece` that the server still holds.
    held: Arc<AtomicUsize>,
}

/// Bytes of a response to `/piece`.
const PIECE_BYTES: usize = 60 << 10;

/// The body of a response to `/piece`, counted while it is there.
struct PieceBody(Vec<u8>, Arc<AtomicUsize>);

impl PieceBody {
    fn new(held: &Arc<AtomicUsize>) -> PieceBody {
        held.fetch_add(PIECE_BYTES, Ordering::Relaxed);
        PieceBody(vec![0; PIECE_BYTES], Arc::clone(held))
    }
}

impl AsRef<[u8]> for PieceBody {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PieceBody {
    fn drop(&mut self) {
        self.1.fetch_sub(PIECE_BYTES, Ordering::Relaxed);
    }
}

/// Answers with the connection's identity. `/slow` waits for the test; `/panic` breaks; `/endless` and `/watch` never end;
/// `/watch-of-much` sends initial events for ever; `/piece` and `/pieces` send one or a thousand of [`PIECE_BYTES`]; `/thread` answers with the
/// name of its thread, and `/block` holds that until the test lets it go. The header `user` authenticates a request as that user.
fn service(meeting: Arc<Meeting>) -> axum::Router {
    axum::Router::new().fallback(move |request: axum::extract::Request| {
        let meeting = Arc::clone(&meeting);
        async move {
            let admission = request.extensions().get::<UserReporter>().expect("every request can be let in");
            if let Some(name) = request.headers().get("user") {
                admission.accept(&User { name: name.to_str().unwrap().to_owned(), ..User::default() });
            }
            let path = request.uri().path();
            if matches!(path, "/endless" | "/watch" | "/watch-of-much") {
                let pieces = futures::stream::repeat(Ok::<_, Infallible>(Bytes::from_static(&[0; 16 << 10])));
                let mut response = Response::new(Body::from_stream(pieces));
                if path != "/endless" {
                    let initial_events = InitialEvents::new(path == "/watch-of-much");
                    response.extensions_mut().insert(WatchResponse { initial_events });
                }
                return Ok(response);
            }
            if path == "/piece" {
                return Ok(Response::new(Body::from(Bytes::from_owner(PieceBody::new(&meeting.held)))));
            }
            if path == "/pieces" {
                let held = Arc::clone(&meeting.held);
                let pieces =
                    (0..1000).map(move |_| Ok::<_, Infallible>(Bytes::from_owner(PieceBody::new(&held))));
                return Ok(Response::new(Body::from_stream(futures::stream::iter(pieces))));
            }
            if request.uri().path() == "/panic" {
                assert!(request.headers().contains_key("authorization"), "the handler holds a token");
                panic!("the handler broke");
            }
            if path == "/thread" {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                return Ok(Response::new(Body::from(name)));
            }
            if path == "/block" {
                meeting.arrived.notify_one();
                futures::executor::block_on(meeting.go_on.notified());
            }
            if request.uri().path() == "/slow" {
                meeting.arrived.notify_one();
                meeting.go_on.notified().await;
            }
            let peer = request.extensions().get::<Arc<Peer>>().expect("every request has a peer");
            if request.uri().path() == "/proxy" {
                return Ok(Response::new(Body::from(peer.is_front_proxy.to_string())));
            }
            let certificate = match &peer.certificate {
                None => "none".to_owned(),
                Some(Ok(certificate)) => certificate.common_name.clone(),
                Some(Err(_)) => "bad".to_owned(),
            };
            Ok::<_, Infallible>(Response::new(Body::from(format!("{certificate} {}", peer.local_admin))))
        }
    })
}

struct Fixture {
    _directory: tempfile::TempDir,
    authority: Authority,
    /// The authority of front proxies; the one of the name `front` is allowed.
    proxies: Authority,
    tls: Reloader,
    server: Server<axum::Router>,
    meeting: Arc<Meeting>,
    secure: SocketAddr,
    plain: SocketAddr,
}

fn start() -> Fixture {
    start_with(|_| {})
}

/// A server, changed by `change` before it listens.
fn start_with(change: impl FnOnce(&mut Server<axum::Router>)) -> Fixture {
    start_on(here(), change)
}

/// The same, whose connections `loops` serve.
fn start_on(loops: EventLoops, change: impl FnOnce(&mut Server<axum::Router>)) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create("ca", OffsetDateTime::now_utc()).unwrap();
    let pair =
        authority.issue(&server_leaf("a", &[], &orch_proto::brand::ORCH), OffsetDateTime::now_utc()).unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let proxies = Authority::create("proxies", OffsetDateTime::now_utc()).unwrap();
    let list = revocation_list(&authority, &pair, OffsetDateTime::now_utc()).pem().unwrap();
    let tls = Reloader::load(TlsFiles {
        certificate: write("server.crt", &pair.certificate),
        key: write("server.key", &pair.key),
        client_authorities: write("ca.crt", &authority.pair.certificate),
        server_authority: None,
        proxies: Some(ProxyFiles {
            authorities: write("proxies.crt", &proxies.pair.certificate),
            allowed_names: vec!["front".to_owned()],
        }),
        revocations: vec![write("revoked.pem", &list)],
    })
    .unwrap();
    let meeting = Arc::new(Meeting::default());
    let mut server = Server::new(service(Arc::clone(&meeting)), CONNECTIONS, loops);
    change(&mut server);
    let open = || bind(([127, 0, 0, 1], 0).into(), "HTTPS", "--secure-port").unwrap();
    let (listener, plain_listener) = (open(), open());
    let (secure, plain) = (listener.local_addr().unwrap(), plain_listener.local_addr().unwrap());
    server.listen(Port::Tls { listener, tls: tls.clone() });
    server.listen(Port::Plain { listener: plain_listener });
    Fixture { _directory: directory, authority, proxies, tls, server, meeting, secure, plain }
}

impl Fixture {
    fn client(&self, certificate: Option<&Pair>, protocol: &[u8]) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.pair.certificate.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
                let chain = chain.map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    /// A connection over TLS.
    async fn connect(&self, certificate: Option<&Pair>, protocol: &[u8]) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.secure).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.client(certificate, protocol).connect(name, stream).await.unwrap()
    }

    /// A client of HTTP/1.1 over TLS.
    async fn one(&self, certificate: Option<&Pair>) -> http1::SendRequest<Empty<Bytes>> {
        let stream = TokioIo::new(self.connect(certificate, b"http/1.1").await);
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A client of HTTP/2 over TLS.
    async fn two(&self, certificate: Option<&Pair>) -> http2::SendRequest<Empty<Bytes>> {
        let stream = TokioIo::new(self.connect(certificate, b"h2").await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn ask(&self, certificate: Option<&Pair>, protocol: &[u8]) -> String {
        let stream = self.connect(certificate, protocol).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        let response = if protocol == b"h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            sender.send_request(request("https://localhost/")).await.unwrap()
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request("/")).await.unwrap()
        };
        text(response).await
    }

    /// Revokes `pair` of the authority `of`, and nothing else.
    fn revoke(&self, of: &Authority, pair: &Pair) {
        let list = revocation_list(of, pair, OffsetDateTime::now_utc()).pem().unwrap();
        std::fs::write(self._directory.path().join("revoked.pem"), list).unwrap();
        self.tls.reload().unwrap();
    }

    async fn plain(&self) -> hyper::client::conn::http1::SendRequest<Empty<Bytes>> {
        let stream = TokioIo::new(TcpStream::connect(self.plain).await.unwrap());
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn request(uri: &str) -> Request<Empty<Bytes>> {
    Request::builder().uri(uri).header("host", "localhost").body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn expired() -> OffsetDateTime {
    OffsetDateTime::now_utc() - Duration::days(400)
}

#[tokio::test]
async fn requests_carry_the_identity_of_their_connection() {
    let fixture = start();
    let now = OffsetDateTime::now_utc();
    let admin = fixture.authority.issue(&admin_leaf(), now).unwrap();
    let carol = Leaf {
        common_name: "carol".to_owned(),
        organization: None,
        hosts: Vec::new(),
        purpose: Purpose::Client,
    };
    let carol = fixture.authority.issue(&carol, now).unwrap();
    let late = fixture.authority.issue(&admin_leaf(), expired()).unwrap();
    let stranger = Authority::create("ca", now).unwrap().issue(&admin_leaf(), now).unwrap();
    for protocol in [&b"h2"[..], b"http/1.1"] {
        assert_eq!(fixture.ask(None, protocol).await, "none false");
        assert_eq!(fixture.ask(Some(&admin), protocol).await, "system:admin false");
        assert_eq!(fixture.ask(Some(&carol), protocol).await, "carol false");
        assert_eq!(fixture.ask(Some(&late), protocol).await, "bad false");
        assert_eq!(fixture.ask(Some(&stranger), protocol).await, "bad false");
    }
}

#[tokio::test]
async fn a_resumed_session_is_judged_again() {
    let fixture = start();
    let admin = fixture.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    let connector = fixture.client(Some(&admin), b"http/1.1");
    for resumed in [false, true] {
        let stream = TcpStream::connect(fixture.secure).await.unwrap();
        let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind();
        assert_eq!(kind == Some(rustls::HandshakeKind::Resumed), resumed, "{kind:?}");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "system:admin false");
    }
}

#[tokio::test]
async fn the_plain_port_is_the_administrator_and_refuses_web_pages() {
    let fixture = start();
    let mut sender = fixture.plain().await;
    assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "none true");
    let mut page = request("/");
    page.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(sender.send_request(page).await.unwrap().status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_socket_is_the_administrator_under_any_name() {
    let fixture = start();
    let path = fixture._directory.path().join("orch.sock");
    fixture.server.listen(Port::Socket { listener: bind_socket(&path).unwrap() });
    let stream = TokioIo::new(tokio::net::UnixStream::connect(&path).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let named = Request::builder().uri("/").header("host", "orch").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(text(sender.send_request(named).await.unwrap()).await, "none true");
}

#[tokio::test]
async fn stopping_lets_requests_under_way_finish_and_takes_no_more() {
    let fixture = start();
    let mut sender = fixture.plain().await;
    let mut idle = fixture.plain().await;
    assert_eq!(text(idle.send_request(request("/")).await.unwrap()).await, "none true");
    let slow = sender.send_request(request("/slow"));
    let stop = async {
        fixture.meeting.arrived.notified().await;
        let cut = fixture.server.stop();
        tokio::pin!(cut);
        assert!(futures::poll!(cut.as_mut()).is_pending());
        fixture.meeting.go_on.notify_one();
        cut.await
    };
    let (response, cut) = tokio::join!(slow, stop);
    assert_eq!(text(response.unwrap()).await, "none true");
    assert_eq!(cut, 0);
    assert!(TcpStream::connect(fixture.plain).await.is_err());
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_flag_that_chooses_it() {
    let taken = bind(([127, 0, 0, 1], 0).into(), "HTTPS", "--secure-port").unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address, "HTTPS", "--secure-port").unwrap_err();
    let hint = "(choose another with --secure-port, 0 takes any free one)";
    assert_eq!(error.to_string(), format!("cannot listen on {address} for HTTPS {hint}"));
    assert_eq!(error.source.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let fixture = start();
    for (headers, expected) in [
        ("", "400 Bad Request: missing required Host header"),
        ("Host: localhost\r\nHost: localhost\r\n", "400 Bad Request: too many Host headers"),
        ("Host: localhost\r\n", "none true"),
    ] {
        let mut stream = TcpStream::connect(fixture.plain).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.trim_end().ends_with(expected), "{headers:?}: {answer}");
    }
}

/// A short deadline, yet longer than a request on this machine takes.
const SHORT: std::time::Duration = std::time::Duration::from_millis(300);

/// A deadline far longer than any test takes.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

#[tokio::test]
async fn a_client_that_asks_for_nothing_is_let_go_and_one_that_did_stays() {
    let fixture = start_with(|server| server.waits.first_request = SHORT);
    let mut asked = fixture.plain().await;
    assert_eq!(text(asked.send_request(request("/")).await.unwrap()).await, "none true");
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let stream = TcpStream::connect(fixture.secure).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = fixture.client(None, protocol).connect(name, stream).await.unwrap();
        let mut rest = Vec::new();
        // An error counts, too: a TLS connection may be closed without `close_notify`.
        drop(tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is let go"));
    }
    assert_eq!(text(asked.send_request(request("/")).await.unwrap()).await, "none true");
}

#[tokio::test]
async fn a_connection_whose_answer_is_not_read_is_closed() {
    let fixture = start_with(|server| server.waits.frame = SHORT);
    let mut stream = TcpStream::connect(fixture.plain).await.unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(SHORT * 4).await;
    let mut rest = Vec::new();
    drop(tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is closed"));
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_flood_of_strangers_keeps_nobody_out() {
    let fixture = start_with(|server| server.places = places::Places::new(4));
    let admin = fixture.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    let mut known = fixture.plain().await;
    assert_eq!(text(known.send_request(request("/")).await.unwrap()).await, "none true");
    let mut strangers = Vec::new();
    for _ in 0..3 {
        for _ in 0..10 {
            strangers.push(TcpStream::connect(fixture.secure).await.unwrap());
        }
        let answer = tokio::time::timeout(PATIENCE, fixture.ask(Some(&admin), b"http/1.1")).await;
        assert_eq!(answer.expect("there is a place"), "system:admin false");
    }
    assert_eq!(text(known.send_request(request("/")).await.unwrap()).await, "none true");
}
