//! A hostile server, and what a target makes of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orch_api::egress::Local;
use orch_api::webhook::{Call, Caller, Purpose};
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

/// A server that answers each request with the same bytes.
struct Hostile {
    url: String,
    authority: Authority,
    connections: Arc<AtomicUsize>,
    requests: Arc<parking_lot::Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the server does once it has read a request.
#[derive(Clone)]
enum Answer {
    /// Writes this and keeps the connection.
    Whole(String),
    /// Writes this head and then a body without end.
    Endless,
    /// Writes this and nothing more, without closing.
    Stalled(&'static str),
}

fn ok(body: &str) -> Answer {
    Answer::Whole(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

impl Hostile {
    async fn start(answer: Answer) -> Hostile {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::create("ca", now).unwrap();
        let pair = authority.issue(&server_leaf("a", &[], &ORCH), now).unwrap();
        let mut server = Hostile::serving(answer, &pair).await;
        server.authority = authority;
        server
    }

    /// The same with the certificate and key of `pair`.
    async fn serving(answer: Answer, pair: &Pair) -> Hostile {
        let authority = Authority::create("unused", OffsetDateTime::now_utc()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/hook", listener.local_addr().unwrap());
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let task = tokio::spawn(serve(
            listener,
            acceptor(pair, &[]),
            answer,
            connections.clone(),
            Arc::clone(&requests),
        ));
        Hostile { url, authority, connections, requests, task }
    }

    fn target(&self) -> Target {
        self.trusting(&self.authority)
    }

    fn trusting(&self, authority: &Authority) -> Target {
        let trust = Trust::new(Some(authority.pair.certificate.as_bytes()), None).unwrap();
        Target::new(Reach::of([&self.url()]), &trust, Credentials::None)
    }

    fn url(&self) -> Url {
        Url::parse(&self.url).unwrap()
    }

    fn request(&self) -> Outgoing {
        Outgoing {
            url: self.url(),
            document: Some(Bytes::from_static(b"{}")),
            timeout: Duration::from_secs(20),
            trace: None,
        }
    }
}

/// TLS of a server that speaks `protocols`.
pub(super) fn acceptor(pair: &Pair, protocols: &[&str]) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answer: Answer,
    connections: Arc<AtomicUsize>,
    requests: Arc<parking_lot::Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let (acceptor, answer, requests) = (acceptor.clone(), answer.clone(), requests.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            while let Some(head) = read_request(&mut stream).await {
                requests.lock().push(head);
                let written = match &answer {
                    Answer::Whole(text) => stream.write_all(text.as_bytes()).await,
                    Answer::Stalled(text) => stream.write_all(text.as_bytes()).await,
                    Answer::Endless => endless(&mut stream).await,
                };
                if written.is_err() {
                    return;
                }
            }
        });
    }
}

async fn endless(stream: &mut (impl AsyncWriteExt + Unpin)) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    loop {
        stream.write_all(chunk.as_bytes()).await?;
    }
}

/// The head of a request; its body is read and dropped.
async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(head)
}

#[tokio::test]
async fn an_answer_is_returned_and_the_connection_used_again() {
    let server = Hostile::start(ok("hello")).await;
    let target = server.target();
    for _ in 0..3 {
        let reply = target.send(server.request()).await.unwrap();
        assert_eq!((reply.status, &reply.body[..]), (200, &b"hello"[..]));
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let head = server.requests.lock()[0].to_ascii_lowercase();
    assert!(head.starts_with("post /hook http/1.1\r\n") && head.contains("host: 127.0.0.1:"), "{head}");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_never_followed() {
    let other = Hostile::start(ok("metadata")).await;
    for code in [301, 302, 303, 307, 308] {
        let text = format!("HTTP/1.1 {code} X\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", other.url);
        let server = Hostile::start(Answer::Whole(text)).await;
        let target = server.target();
        assert_eq!(target.send(server.request()).await.unwrap().status, code);
        let get = Outgoing { document: None, ..server.request() };
        assert_eq!(target.send(get).await.unwrap().status, code);
    }
    assert_eq!(other.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn bodies_and_heads_are_bounded() {
    let server = Hostile::start(Answer::Endless).await;
    let refused = server.target().send(server.request()).await.unwrap_err();
    assert!(matches!(refused, EgressError::TooLarge { .. }), "{refused}");
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let server = Hostile::start(Answer::Whole(large)).await;
    let refused = server.target().send(server.request()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Lost { .. }), "{refused}");
}

#[tokio::test]
async fn a_slow_answer_ends_with_its_time() {
    for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsecret"] {
        let server = Hostile::start(Answer::Stalled(text)).await;
        let request = Outgoing { timeout: Duration::from_millis(200), ..server.request() };
        let refused = server.target().send(request).await.unwrap_err();
        assert_eq!(refused.to_string(), "127.0.0.1: no answer in time", "{text:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_lost_and_not_asked_for_again() {
    let server = Hostile::start(Answer::Whole("secret nonsense\r\n\r\n".to_owned())).await;
    let refused = server.target().send(server.request()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Lost { .. }), "{refused}");
    assert!(!refused.to_string().contains("secret"), "{refused}");
}

#[tokio::test]
async fn another_authority_and_another_name_are_refused() {
    let server = Hostile::start(ok("hello")).await;
    let other = Authority::create("ca", OffsetDateTime::now_utc()).unwrap();
    let refused = server.trusting(&other).send(server.request()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Unreachable { .. }), "{refused}");
    let misnamed = server.target().named(Some("hook.example".to_owned()));
    let refused = misnamed.send(server.request()).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert_eq!(server.requests.lock().len(), 0, "nothing was sent before the server proved its name");
    let named = server.target().named(Some("localhost".to_owned()));
    assert_eq!(named.send(server.request()).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_host_from_an_answer_reaches_nothing_on_this_machine() {
    let server = Hostile::start(ok("metadata")).await;
    let trust = Trust::new(Some(server.authority.pair.certificate.as_bytes()), None).unwrap();
    let issuer = Url::parse("https://issuer.example/").unwrap();
    let target = Target::new(Reach::of([&issuer]), &trust, Credentials::None);
    let refused = target.send(server.request()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Forbidden { .. }), "{refused}");
    // Resolvers read some of these as 127.0.0.1, and refuse others: what counts is the address that would be dialled.
    let port = server.request().url.port;
    for host in ["0177.0.0.1", "127.1", "2130706433", "0x7f000001", "127.000.000.001", "[::ffff:7f00:1]", "0"]
    {
        let url = Url::parse(&format!("https://{host}:{port}/")).unwrap();
        let sent = target.send(Outgoing { url, ..server.request() }).await;
        assert!(sent.is_err(), "{host}: {sent:?}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn requests_beyond_the_places_are_refused_at_once() {
    let server = Hostile::start(Answer::Stalled("")).await;
    let target = Arc::new(server.target());
    let request = Outgoing { timeout: Duration::from_secs(5), ..server.request() };
    let _all = target.known.try_acquire_many(u32::try_from(REQUESTS_MAX + WAITING_MAX).unwrap()).unwrap();
    let refused = target.send(request).await.unwrap_err();
    assert!(matches!(refused, EgressError::Busy { .. }), "{refused}");
}

#[tokio::test]
async fn a_request_whose_time_ends_before_it_has_a_place_tells_nothing_of_the_server() {
    let server = Hostile::start(Answer::Stalled("")).await;
    let target = Arc::new(server.target());
    let request = || Outgoing { timeout: Duration::from_millis(50), ..server.request() };
    let late = target.send(request()).await.unwrap_err();
    assert!(matches!(late, EgressError::Timeout { .. }), "{late}");
    let _all = target.places.try_acquire_many(u32::try_from(REQUESTS_MAX).unwrap()).unwrap();
    let waited = target.send(request()).await.unwrap_err();
    assert!(matches!(waited, EgressError::Busy { .. }), "{waited}");
}

#[tokio::test]
async fn a_connection_beyond_its_greatest_age_takes_no_request() {
    let server = Hostile::start(ok("x")).await;
    let target = server.target();
    let origin = Origin::of(&server.request().url);
    target.send(server.request()).await.unwrap();
    target.send(server.request()).await.unwrap();
    let before = server.connections.load(Ordering::SeqCst);
    let sender = target.idle.take(&origin).unwrap();
    target.idle.keep(origin.clone(), sender.aged());
    assert!(target.idle.take(&origin).is_none());
    target.send(server.request()).await.unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn a_connection_that_nobody_used_for_a_while_is_closed() {
    let server = Hostile::start(ok("x")).await;
    let target = server.target();
    target.send(server.request()).await.unwrap();
    target.idle.pass(Duration::from_secs(89));
    assert!(!target.idle.is_empty());
    target.idle.pass(Duration::from_secs(1));
    assert!(target.idle.is_empty());
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A client configuration with these members of the cluster and of the user.
    fn config(&self, cluster: &str, user: &str) -> PathBuf {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n"
        );
        self.write("config", &text)
    }
}

#[tokio::test]
async fn a_client_configuration_names_server_authority_and_credentials() {
    let server = Hostile::start(ok("hello")).await;
    let files = Files { directory: tempfile::tempdir().unwrap() };
    let admin = server.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    files.write("ca.crt", &server.authority.pair.certificate);
    files.write("a.crt", &admin.certificate);
    files.write("a.key", &admin.key);
    files.write("token", "filed\n");
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    for (user, sent) in [
        ("token: embedded", Some("Bearer embedded")),
        ("tokenFile: token", Some("Bearer filed")),
        ("username: a, password: b", Some("Basic YTpi")),
        ("client-certificate: a.crt, client-key: a.key", None),
    ] {
        let TargetFile { target, url } = read_target(&files.config(&cluster, user)).unwrap();
        let request = Outgoing { url, ..server.request() };
        assert_eq!(target.send(request).await.unwrap().status, 200, "{user}");
        let heads = std::mem::take(&mut *server.requests.lock());
        let found = heads[0].lines().find_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(found, sent, "{user}");
    }
}

#[tokio::test]
async fn a_token_file_that_became_a_pipe_or_too_large_holds_no_request() {
    let server = Hostile::start(ok("hello")).await;
    let files = Files { directory: tempfile::tempdir().unwrap() };
    files.write("ca.crt", &server.authority.pair.certificate);
    let cluster = format!("server: '{}', certificate-authority: ca.crt", server.url);
    let token = files.write("token", &"x".repeat((16 << 10) + 1));
    let ask = async |told: &str| {
        let TargetFile { target, url } = read_target(&files.config(&cluster, "tokenFile: token")).unwrap();
        let request = Outgoing { url, ..server.request() };
        let refused = target.send(request).await.unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    };
    ask("larger than 16384 bytes").await;
    std::fs::remove_file(&token).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &token, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    ask("no regular file").await;
}

#[test]
fn a_fault_of_a_client_configuration_is_told_by_its_member_and_without_secrets() {
    let files = Files { directory: tempfile::tempdir().unwrap() };
    for (cluster, user, told) in [
        ("", "", "server: it is missing"),
        ("server: 'ftp://x/'", "", "server: URL scheme must be https"),
        ("server: 'https://x/', insecure-skip-tls-verify: true", "", "insecure-skip-tls-verify: "),
        ("server: 'https://x/'", "exec: {command: canary}", "exec: no program"),
        ("server: 'https://x/'", "token: canary, as: admin", "as: no other user is impersonated"),
        ("server: 'https://x/'", "as-uid: u", "as-uid: no other user"),
        ("server: 'https://x/'", "as-groups: [g]", "as-groups: no other user"),
        ("server: 'https://x/'", "as-user-extra: {k: [v]}", "as-user-extra: no other user"),
        ("server: 'https://x/'", "client-key-data: Y2FuYXJ5", "client-certificate: it is missing"),
        ("server: 'https://x/', certificate-authority-data: canary!", "", "certificate-authority: "),
        ("server: 'https://x/', certificate-authority-data: Y2FuYXJ5", "", ""),
    ] {
        let path = files.config(cluster, user);
        let refused = read_target(&path).map(drop).unwrap_err();
        let text = orch_serving::Causes(&refused).to_string();
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
    let missing = read_target(&files.directory.path().join("none")).map(drop).unwrap_err();
    assert!(matches!(missing, TargetFileError::Unreadable { .. }), "{missing}");
}

fn hook_call(url: Url, authorities: &[u8]) -> Call {
    Call {
        purpose: Purpose::Validating,
        url,
        at: None,
        authorities: Some(authorities.into()),
        document: Bytes::from_static(b"{}"),
        timeout: Duration::from_secs(20),
        answer_bytes_max: 16,
        trace: None,
    }
}

#[tokio::test]
async fn a_webhook_is_trusted_by_its_authority_or_by_its_own_certificate_and_by_no_other() {
    let now = OffsetDateTime::now_utc();
    let authority = Authority::create("ca", now).unwrap();
    let other = Authority::create("other", now).unwrap();
    let leaf = authority.issue(&server_leaf("a", &[], &ORCH), now).unwrap();
    let long_ago = now - time::Duration::days(4_000);
    let old = authority.issue(&server_leaf("a", &[], &ORCH), long_ago).unwrap();
    for (serves, bundle, expected) in [
        (&leaf, &authority.pair.certificate, true),
        (&leaf, &leaf.certificate, true),
        (&leaf, &other.pair.certificate, false),
        (&old, &authority.pair.certificate, false),
        (&old, &old.certificate, false),
        // An authority that serves with its own certificate, which names no host.
        (&authority.pair, &authority.pair.certificate, false),
    ] {
        let server = Hostile::serving(ok("hello"), serves).await;
        let hooks = Hooks::new(Reach::of_objects(Local::Any), HookUsers::default());
        let answered = hooks.call(hook_call(server.url(), bundle.as_bytes())).await;
        assert_eq!(answered.is_ok(), expected, "{answered:?}");
        // The name counts for a certificate that is trusted by itself, too.
        let mut elsewhere = hook_call(server.url(), bundle.as_bytes());
        elsewhere.at = Some(("127.0.0.1".to_owned(), elsewhere.url.port));
        elsewhere.url.host = "hook.ns.svc".to_owned();
        assert!(hooks.call(elsewhere).await.is_err());
    }
}

#[tokio::test]
async fn a_webhook_is_called_once_and_its_connection_kept() {
    let server = Hostile::start(ok("hello")).await;
    let hooks = Hooks::new(Reach::of_objects(Local::Any), HookUsers::default());
    let call = || hook_call(server.url(), server.authority.pair.certificate.as_bytes());
    for _ in 0..3 {
        assert_eq!(&hooks.call(call()).await.unwrap().body[..], b"hello");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let small = Call { answer_bytes_max: 4, ..call() };
    let refused = hooks.call(small).await.unwrap_err();
    assert!(matches!(refused, EgressError::TooLarge { .. }), "{refused}");
    let denied =
        Hooks::new(Reach::of_objects(Local::None), HookUsers::default()).call(call()).await.unwrap_err();
    assert!(matches!(denied, EgressError::Forbidden { .. }), "{denied}");
    // A connection that was lost with the request on it: the webhook may have acted.
    let server = Hostile::start(Answer::Whole("HTTP/1.1 nonsense\r\n\r\n".to_owned())).await;
    let call = hook_call(server.url(), server.authority.pair.certificate.as_bytes());
    let hooks = Hooks::new(Reach::of_objects(Local::Any), HookUsers::default());
    assert!(hooks.call(call).await.is_err());
    assert_eq!(server.requests.lock().len(), 1);
}
