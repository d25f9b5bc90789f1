//! Aggregated servers of HTTP/1.1 and HTTP/2, and what requests to them show.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Version;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1 as server1, http2 as server2};
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use orch_api::aggregation::ServerTrust;
use orch_api::egress::Local;
use orch_proto::brand::ORCH;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::certs::{Authority, Pair, admin_leaf, server_leaf};
use crate::egress::lasting::tests::Burning;
use crate::egress::sweep::IDLE_TIME_MAX;

/// A server that answers with what it was asked: version, method and target. It asks for a client's certificate, and tells whether
/// there was one.
struct Own {
    authority: Authority,
    port: u16,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Own {
    /// One that speaks `protocols`; each connection ends after `requests`.
    async fn start(protocols: &[&str], lives: Duration) -> Own {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::create("ca", now).unwrap();
        let pair = authority.issue(&server_leaf("a", &["s.ns.svc".to_owned()], &ORCH), now).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let acceptor = acceptor(&authority, &pair, protocols);
        let task = tokio::spawn(serve(listener, acceptor, connections.clone(), lives));
        Own { authority, port, connections, task }
    }

    fn server(&self, name: &str, trust: ServerTrust) -> Server {
        Server { name: name.to_owned(), at: ("127.0.0.1".to_owned(), self.port), trust }
    }

    fn bundle(&self) -> ServerTrust {
        ServerTrust::Bundle(self.authority.pair.certificate.as_bytes().into())
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn acceptor(authority: &Authority, pair: &Pair, protocols: &[&str]) -> TlsAcceptor {
    let read = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(read(&authority.pair.certificate)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let clients = clients.allow_unauthenticated().build().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![read(&pair.certificate)], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, connections: Arc<AtomicUsize>, lives: Duration) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, connections) = (acceptor.clone(), connections.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            connections.fetch_add(1, Ordering::SeqCst);
            let (_, session) = stream.get_ref();
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let has_certificate = session.peer_certificates().is_some();
            let answer = service_fn(move |request: Request<Incoming>| async move {
                let (head, body) = request.into_parts();
                if head.uri.path() == LARGE {
                    return Ok(Response::new(Body::from(vec![b'x'; 3 << 20])));
                }
                let body = body.collect().await.unwrap().to_bytes();
                let host = head.headers.get(HOST).map(|host| host.to_str().unwrap().to_owned());
                let host = host.or(head.uri.authority().map(ToString::to_string));
                let text = format!(
                    "{:?} {} {} {} {has_certificate} {}",
                    head.version,
                    head.method,
                    head.uri.path(),
                    host.unwrap_or_default(),
                    String::from_utf8_lossy(&body)
                );
                Ok::<_, Infallible>(Response::new(Body::from(text)))
            });
            let io = TokioIo::new(stream);
            let serving: BoxFuture<'_, ()> = match is_http2 {
                true => {
                    server2::Builder::new(TokioExecutor::new()).serve_connection(io, answer).map(drop).boxed()
                }
                false => server1::Builder::new().serve_connection(io, answer).map(drop).boxed(),
            };
            // A client that keeps a connection finds it closed.
            let _ = tokio::time::timeout(lives, serving).await;
        });
    }
}

fn relays(pair: Option<(PathBuf, PathBuf)>) -> Relays {
    Relays::new(Reach::of_objects(Local::Any), ProxyPair::read(pair).unwrap())
}

async fn ask(relays: &Relays, server: Server, body: &'static str) -> Result<String, BackendError> {
    let host = server.authority();
    let request = Request::post("/apis/a/v1/things?x=y").header(HOST, host).body(Body::from(body)).unwrap();
    let answer = relays.relay(server, request).await?;
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

/// Path of an answer that is larger than the window of a stream.
const LARGE: &str = "/large";

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_share_one_connection_of_http2_and_have_their_own_of_http1() {
    for (protocols, version, connections) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2, 1),
        (&["http/1.1"], Version::HTTP_11, 3),
        (&[], Version::HTTP_11, 3),
    ] {
        let (own, relays) = (Own::start(protocols, LONG).await, relays(None));
        let server = own.server("s.ns.svc", own.bundle());
        for body in ["one", "two", "three"] {
            let expected = format!("{version:?} POST /apis/a/v1/things 127.0.0.1:{} false {body}", own.port);
            assert_eq!(ask(&relays, server.clone(), body).await, Ok(expected));
        }
        assert_eq!(own.count(), connections, "{protocols:?}");
    }
}

#[tokio::test]
async fn a_connection_that_has_ended_is_replaced() {
    let (own, relays) = (Own::start(&["h2"], Duration::from_millis(50)).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    for _ in 0..3 {
        assert!(ask(&relays, server.clone(), "x").await.is_ok());
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(own.count(), 3);
}

#[tokio::test]
async fn a_server_is_who_its_object_says_or_gets_no_request() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let stranger = Authority::create("other", OffsetDateTime::now_utc()).unwrap();
    let stranger = ServerTrust::Bundle(stranger.pair.certificate.as_bytes().into());
    for (name, trust, is_asked) in [
        ("s.ns.svc", own.bundle(), true),
        ("other.ns.svc", own.bundle(), false),
        ("s.ns.svc", stranger, false),
        ("s.ns.svc", ServerTrust::Unreadable, false),
        ("other.ns.svc", ServerTrust::Anyone, true),
    ] {
        let asked = ask(&relays, own.server(name, trust.clone()), "x").await;
        assert_eq!(asked.is_ok(), is_asked, "{name} {trust:?}: {asked:?}");
        assert!(is_asked || matches!(asked, Err(BackendError::Dial(_))));
    }
    let denied = Relays::new(Reach::of_objects(Local::Interfaces), ProxyPair::read(None).unwrap());
    let refused = ask(&denied, own.server("s.ns.svc", own.bundle()), "x").await;
    assert!(matches!(refused, Err(BackendError::Dial(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_is_shown_the_pair_that_knows_this_one() {
    let own = Own::start(&["h2"], LONG).await;
    let pair = own.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = (write("p.crt", &pair.certificate), write("p.key", &pair.key));
    let answer = ask(&relays(Some(files.clone())), own.server("s.ns.svc", own.bundle()), "x").await;
    assert!(answer.unwrap().contains(" true "));
    let missing = (files.0.clone(), Path::new("/nowhere").to_owned());
    assert!(ProxyPair::read(Some(missing)).is_err());
    assert!(ProxyPair::read(Some((files.1, files.0))).is_err());
}

/// The head of the answer to a request for `LARGE`, of a client that does not read it.
async fn unread(relays: &Relays, server: &Server, span: Span) -> Response<Body> {
    let mut request = Request::get(LARGE).header(HOST, server.authority()).body(Body::empty()).unwrap();
    if span == Span::Long {
        request.extensions_mut().insert(LongLived);
    }
    relays.relay(server.clone(), request).await.unwrap()
}

#[tokio::test]
async fn answers_that_are_not_read_delay_no_other_request() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(unread(&relays, &server, Span::Short).await);
    }
    assert_eq!(own.count(), 1);
    let asked = tokio::time::timeout(Duration::from_secs(10), ask(&relays, server.clone(), "x")).await;
    assert!(asked.is_ok_and(|answer| answer.is_ok()));
    let first = held.remove(0).into_body().collect();
    let first = tokio::time::timeout(Duration::from_secs(10), first).await.unwrap().unwrap();
    assert_eq!(first.to_bytes().len(), 3 << 20, "the others do not delay it, either");
}

#[tokio::test]
async fn requests_that_last_and_more_than_a_connection_carries_have_others() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    let _watch = unread(&relays, &server, Span::Long).await;
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(unread(&relays, &server, Span::Short).await);
    }
    assert_eq!(own.count(), 2, "one carries the watch, another one the rest");
    assert!(ask(&relays, server.clone(), "x").await.is_ok());
    assert_eq!(own.count(), 3, "it is full");
    held.clear();
    assert!(ask(&relays, server, "x").await.is_ok());
    assert_eq!(own.count(), 3);
}

#[tokio::test]
async fn a_connection_that_is_old_or_of_an_earlier_pair_takes_no_request() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    let kept = || relays.0.servers.lock().kept.0[&server].connections.len();
    assert!(ask(&relays, server.clone(), "x").await.is_ok());
    relays.0.servers.lock().kept.0.get_mut(&server).unwrap().connections.age(Duration::from_secs(600));
    assert!(ask(&relays, server.clone(), "x").await.is_ok());
    assert_eq!((own.count(), kept()), (2, 1));
    // The pair changed while a request with the earlier one opened its connection.
    let (sender, _place) =
        relays.0.servers.lock().kept.0.get_mut(&server).unwrap().connections.take(Span::Short).unwrap();
    let earlier = 0;
    relays.0.servers.lock().kept.0.get_mut(&server).unwrap().pair = 1;
    drop(relays.0.share((&server, earlier), (&sender, life().0), Span::Short));
    assert_eq!(kept(), 1);
    drop(relays.0.share((&server, 1), (&sender, life().0), Span::Short));
    assert_eq!(kept(), 2);
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_that_carries_a_request_does_not() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    let watch = unread(&relays, &server, Span::Long).await;
    assert!(ask(&relays, server.clone(), "x").await.is_ok());
    let sweep = || {
        let mut servers = relays.0.servers.lock();
        servers.kept.0.get_mut(&server).unwrap().connections.idle(IDLE_TIME_MAX);
        servers.kept.sweep();
        servers.kept.0[&server].connections.len()
    };
    assert_eq!(sweep(), 1, "the watch stays");
    drop(watch);
    assert_eq!(sweep(), 0);
    assert!(ask(&relays, server.clone(), "x").await.is_ok());
    assert_eq!(own.count(), 3);
}

#[tokio::test]
async fn requests_that_come_together_find_the_authorities_parsed_once() {
    let (own, relays) = (Own::start(&["h2"], LONG).await, relays(None));
    let server = own.server("s.ns.svc", own.bundle());
    let asked = (0..16).map(|_| relays.0.known(&server, Span::Short));
    let found = futures::future::join_all(asked).await;
    let first = found[0].as_ref().unwrap();
    assert!(found.iter().all(|found| {
        found.as_ref().is_ok_and(|found| Arc::ptr_eq(&found.settings.any, &first.settings.any))
    }));
}

#[tokio::test]
async fn a_server_that_did_not_answer_keeps_no_connection_busy() {
    let (mut burning, relays) = (Burning::start().await, relays(None));
    let trust = ServerTrust::Bundle(burning.authority.pair.certificate.as_bytes().into());
    let server = Server { name: "s.ns.svc".to_owned(), at: ("127.0.0.1".to_owned(), burning.port), trust };
    let asked = tokio::time::timeout(Duration::from_secs(2), ask(&relays, server.clone(), "x")).await;
    assert!(asked.is_err(), "its client went");
    relays.0.servers.lock().kept.sweep();
    assert_eq!(relays.0.servers.lock().kept.0[&server].connections.len(), 0);
    assert!(!burning.is_connected().await);
}
