//! Client and server on loopback: calls, streams, refusals, crashes, certificate reloads, and malformed bytes.

mod ended;
mod revocation;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_rustls::TlsConnector;

use super::*;
use crate::transport::{Duplex, Known, NodeId, Peer, PeerService, Purpose, Transport, TransportError};

const PATIENCE: Duration = Duration::from_secs(20);

/// A peer authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key of the member `name`, as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![peer_dns_name(name), "localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn tls(&self, name: &str) -> PeerTls {
        self.tls_trusting(&self.pem, name).unwrap()
    }

    fn tls_trusting(&self, authorities: &str, name: &str) -> Result<PeerTls, PeerTlsError> {
        let (certificate, key) = self.issue(name);
        PeerTls::from_pem(authorities.as_bytes(), certificate.as_bytes(), key.as_bytes(), &[], name)
    }
}

fn pinned(cluster: &str) -> ClusterPin {
    let pin = ClusterPin::default();
    pin.pin(cluster).unwrap();
    pin
}

/// Answers calls with the caller's id, the purpose and the frame, and echoes streams.
#[derive(Default)]
struct Echo {
    calls: AtomicUsize,
    // A call of `hang` has arrived.
    hanging: Notify,
    // Snapshot streams are read only after this.
    read_on: Notify,
    // A stream has ended.
    ended: Notify,
}

impl PeerService for Arc<Echo> {
    fn call(
        &self,
        from: NodeId,
        purpose: Purpose,
        frame: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        let echo = Arc::clone(self);
        echo.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match frame.as_ref() {
                b"fail" => Err("it failed".to_owned()),
                b"huge" => Ok(vec![0; FRAME_BYTES_MAX + 1].into()),
                b"hang" => {
                    echo.hanging.notify_one();
                    std::future::pending().await
                }
                text => Ok(format!("{} {purpose:?} {}", from.0, text.escape_ascii()).into()),
            }
        })
    }

    fn stream(&self, _: NodeId, purpose: Purpose, mut duplex: Duplex) -> BoxFuture<'static, ()> {
        let echo = Arc::clone(self);
        Box::pin(async move {
            if purpose == Purpose::Snapshot {
                echo.read_on.notified().await;
            }
            while let Some(frame) = duplex.receiver.recv().await {
                if frame == "leave" || duplex.sender.send(frame).await.is_err() {
                    break;
                }
            }
            echo.ended.notify_one();
        })
    }
}

/// A member that serves until the value drops.
struct Served {
    peer: Peer,
    echo: Arc<Echo>,
    tls: PeerTls,
    _stop: oneshot::Sender<()>,
}

/// Serves `tls`'s member with id 1, which knows member b with id 2. Ids under 100 are admitted.
async fn serve_cluster(tls: PeerTls, cluster: ClusterPin) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().into();
    let echo = Arc::new(Echo::default());
    let members = admit_by_membership(|id, name| match (id.0, name) {
        (2, "b") => Known::Member,
        (2, _) => Known::Impostor,
        _ => Known::Stranger,
    });
    let admits: Admits = Arc::new(move |claim| match claim.id.0 {
        ..100 => members(claim),
        _ => Err(format!("{} is not a member", claim.name)),
    });
    let server = PeerServer::new(tls.clone(), cluster, admits, Arc::new(Arc::clone(&echo)));
    let (stop, stopped) = oneshot::channel::<()>();
    spawn(async move {
        let stop = async {
            // Dropping the other end is the signal.
            stopped.await.unwrap_err();
        };
        server.serve(listener, stop).await.unwrap();
    });
    let peer = Peer { id: NodeId(1), name: Arc::clone(tls.name()), address };
    Served { peer, echo, tls, _stop: stop }
}

async fn serve(tls: PeerTls) -> Served {
    serve_cluster(tls, pinned("c1")).await
}

fn transport(id: u64, tls: PeerTls) -> TonicTransport {
    TonicTransport::new(NodeId(id), tls, pinned("c1")).unwrap()
}

async fn call(
    transport: &TonicTransport,
    peer: &Peer,
    purpose: Purpose,
    frame: &'static [u8],
) -> Result<Bytes, TransportError> {
    transport.call(peer, purpose, Bytes::from_static(frame), PATIENCE).await
}

/// The reason why a call was certainly not delivered.
async fn refusal(transport: &TonicTransport, served: &Served) -> String {
    match call(transport, &served.peer, Purpose::Control, b"x").await {
        Err(TransportError::Unreachable { reason, .. }) => {
            assert_eq!(served.echo.calls.load(Ordering::SeqCst), 0);
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn calls_are_answered_and_say_who_asks_for_what() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    for (purpose, name) in [
        (Purpose::Control, "Control"),
        (Purpose::Append, "Append"),
        (Purpose::Snapshot, "Snapshot"),
        (Purpose::Forward, "Forward"),
    ] {
        let answer = call(&transport, &served.peer, purpose, b"hello").await.unwrap();
        assert_eq!(answer, format!("2 {name} hello"));
    }
}

#[tokio::test]
async fn a_failure_of_the_service_is_seen_and_may_have_had_effects() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let failed = call(&transport, &served.peer, Purpose::Forward, b"fail").await;
    assert_eq!(failed, Err(TransportError::Lost { peer: "a".into(), reason: "it failed".into() }));
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_lost() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    call(&transport, &served.peer, Purpose::Control, b"connect").await.unwrap();
    let late = transport
        .call(&served.peer, Purpose::Control, Bytes::from_static(b"hang"), Duration::from_millis(50))
        .await;
    assert!(matches!(late, Err(TransportError::Lost { .. })), "{late:?}");
    call(&transport, &served.peer, Purpose::Control, b"next").await.unwrap();
}

#[tokio::test]
async fn streams_keep_the_order_and_end_with_either_side() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let Duplex { sender, mut receiver } = transport.open(&served.peer, Purpose::Append).await.unwrap();
    spawn(async move {
        for number in 0..500_u32 {
            sender.send(number.to_string().into()).await.unwrap();
        }
    });
    for number in 0..500_u32 {
        assert_eq!(receiver.recv().await.unwrap(), number.to_string());
    }
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn a_receiver_that_does_not_read_holds_up_the_sender() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let Duplex { sender, mut receiver } = transport.open(&served.peer, Purpose::Snapshot).await.unwrap();
    let frame = |number: u8| Bytes::from(vec![number; 1 << 20]);
    let (done, mut all_sent) = mpsc::channel(1);
    spawn(async move {
        for number in 0..64 {
            sender.send(frame(number)).await.unwrap();
        }
        done.send(()).await.unwrap();
    });
    // Both queues and the window hold less than half of the frames.
    assert!(tokio::time::timeout(Duration::from_millis(300), all_sent.recv()).await.is_err());
    served.echo.read_on.notify_one();
    for number in 0..64 {
        assert_eq!(receiver.recv().await.unwrap(), frame(number));
    }
    assert_eq!(all_sent.recv().await, Some(()));
}

#[tokio::test]
async fn a_stream_that_is_not_read_any_more_ends_on_both_sides() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let Duplex { sender, receiver } = transport.open(&served.peer, Purpose::Append).await.unwrap();
    sender.send(Bytes::from_static(b"x")).await.unwrap();
    drop(receiver);
    sender.closed().await;
    served.echo.ended.notified().await;
}

#[tokio::test]
async fn a_stream_ends_here_when_the_service_is_done_with_it() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let Duplex { sender, mut receiver } = transport.open(&served.peer, Purpose::Append).await.unwrap();
    sender.send(Bytes::from_static(b"leave")).await.unwrap();
    assert_eq!(receiver.recv().await, None);
    sender.closed().await;
}

#[tokio::test]
async fn a_service_answers_after_the_last_frame() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let Duplex { sender, mut receiver } = transport.open(&served.peer, Purpose::Snapshot).await.unwrap();
    sender.send(Bytes::from_static(b"all of it")).await.unwrap();
    drop(sender);
    served.echo.read_on.notify_one();
    assert_eq!(receiver.recv().await.unwrap(), "all of it");
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let served = serve(other.tls("a")).await;
    let reason = refusal(&transport(2, ours.tls("b")), &served).await;
    assert!(reason.contains("invalid peer certificate"), "{reason}");
}

#[tokio::test]
async fn a_client_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let served = serve(ours.tls("a")).await;
    // It trusts the server's authority, so that only the server can refuse.
    let both = format!("{}{}", ours.pem, other.pem);
    let transport = transport(2, other.tls_trusting(&both, "b").unwrap());
    for _ in 0..3 {
        call(&transport, &served.peer, Purpose::Control, b"x").await.unwrap_err();
    }
    assert_eq!(served.echo.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_with_another_members_name_is_refused() {
    let authority = Authority::new();
    for name in ["c", "A", "*", "a.b"] {
        let mut served = serve(authority.tls(name)).await;
        served.peer.name = "a".into();
        let reason = refusal(&transport(2, authority.tls("b")), &served).await;
        assert!(reason.contains(&peer_dns_name("a")), "{reason}");
    }
}

#[tokio::test]
async fn any_answer_is_good_enough_for_a_member_that_knows_no_name() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let joiner = TonicTransport::new(NodeId(3), authority.tls("j"), ClusterPin::default()).unwrap();
    let somebody = Peer { id: NodeId(0), name: "".into(), address: Arc::clone(&served.peer.address) };
    call(&joiner, &somebody, Purpose::Control, b"who are you").await.unwrap();
    let refused = call(&joiner, &somebody, Purpose::Append, b"entries").await;
    assert!(matches!(refused, Err(TransportError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn frames_of_another_cluster_are_refused() {
    let authority = Authority::new();
    let served = serve_cluster(authority.tls("a"), pinned("c2")).await;
    let transport = transport(2, authority.tls("b"));
    let reason = refusal(&transport, &served).await;
    assert_eq!(reason, "this member does not belong to cluster c1", "its own cluster is not told");
    let stream = transport.open(&served.peer, Purpose::Append).await;
    assert!(matches!(stream, Err(TransportError::Unreachable { .. })), "{stream:?}");
}

#[tokio::test]
async fn a_peer_that_is_not_admitted_is_refused() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    assert_eq!(refusal(&transport(100, authority.tls("b")), &served).await, "b is not a member");
}

#[tokio::test]
async fn a_member_that_is_down_is_unreachable_and_found_when_it_is_back() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Arc<str> = listener.local_addr().unwrap().to_string().into();
    drop(listener);
    let transport = transport(2, authority.tls("b"));
    let down = Peer { id: NodeId(1), name: "a".into(), address };
    for _ in 0..3 {
        let refused = call(&transport, &down, Purpose::Control, b"x").await;
        assert!(matches!(refused, Err(TransportError::Refused { .. })), "{refused:?}");
    }
    // It comes back at another address under the same id.
    let served = serve(authority.tls("a")).await;
    call(&transport, &served.peer, Purpose::Control, b"x").await.unwrap();
}

#[test]
fn a_server_that_dies_loses_the_call_and_the_next_server_is_found() {
    let authority = Authority::new();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    let served = theirs.block_on(serve(authority.tls("a")));
    let transport = ours.block_on(async { transport(2, authority.tls("b")) });
    let peer = served.peer.clone();
    let hanging = {
        let (transport, peer) = (transport.clone(), peer.clone());
        ours.spawn(async move { call(&transport, &peer, Purpose::Control, b"hang").await })
    };
    ours.block_on(served.echo.hanging.notified());
    theirs.shutdown_background();
    let lost = ours.block_on(hanging).unwrap();
    assert!(matches!(lost, Err(TransportError::Lost { .. })), "{lost:?}");
    let gone = ours.block_on(call(&transport, &peer, Purpose::Control, b"x"));
    // The connection was younger than `STEADY_AFTER`: its end counts as a failure, so that the link backs off and does
    // not dial.
    assert!(matches!(gone, Err(TransportError::Unreachable { .. })), "{gone:?}");
    let next = ours.block_on(serve(authority.tls("a")));
    ours.block_on(call(&transport, &next.peer, Purpose::Control, b"x")).unwrap();
}

#[tokio::test]
async fn oversized_frames_are_refused_in_both_directions() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let transport = transport(2, authority.tls("b"));
    let large = Bytes::from(vec![0; FRAME_BYTES_MAX + 1]);
    let refused = transport.call(&served.peer, Purpose::Control, large.clone(), PATIENCE).await;
    assert!(matches!(refused, Err(TransportError::Unreachable { .. })), "{refused:?}");
    assert_eq!(served.echo.calls.load(Ordering::SeqCst), 0);
    let answered = call(&transport, &served.peer, Purpose::Control, b"huge").await;
    assert!(matches!(answered, Err(TransportError::Lost { .. })), "{answered:?}");
    let mut duplex = transport.open(&served.peer, Purpose::Append).await.unwrap();
    duplex.sender.send(large.slice(1..)).await.unwrap();
    assert_eq!(duplex.receiver.recv().await.unwrap().len(), FRAME_BYTES_MAX);
    duplex.sender.send(large).await.unwrap();
    assert_eq!(duplex.receiver.recv().await, None);
}

#[tokio::test]
async fn reloaded_certificates_hold_for_new_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let served = serve(old.tls("a")).await;
    let (tls, stranger) = (old.tls("b"), transport(3, old.tls("c")));
    let transport = transport(2, tls.clone());
    call(&transport, &served.peer, Purpose::Control, b"x").await.unwrap();
    for (tls, name) in [(&served.tls, "a"), (&tls, "b")] {
        let (certificate, key) = new.issue(name);
        tls.reload(new.pem.as_bytes(), certificate.as_bytes(), key.as_bytes(), &[]).unwrap();
    }
    // The existing connection stays. A connection for another purpose is new.
    call(&transport, &served.peer, Purpose::Control, b"x").await.unwrap();
    call(&transport, &served.peer, Purpose::Append, b"x").await.unwrap();
    call(&stranger, &served.peer, Purpose::Append, b"x").await.unwrap_err();
}

#[test]
fn certificates_that_do_not_fit_are_named() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.issue("a");
    let (_, other_key) = ours.issue("a");
    let check = |ca: &str, certificate: &str, key: &str, name: &str| {
        PeerTls::from_pem(ca.as_bytes(), certificate.as_bytes(), key.as_bytes(), &[], name).unwrap_err()
    };
    let wrong_name = PeerTlsError::WrongName { expected: "b".into(), found: "a".to_owned() };
    assert_eq!(check(&ours.pem, &certificate, &key, "b"), wrong_name);
    assert!(matches!(check(&other.pem, &certificate, &key, "a"), PeerTlsError::Untrusted(_)));
    assert!(matches!(check(&ours.pem, &certificate, &other_key, "a"), PeerTlsError::KeyMismatch(_)));
    for (ca, certificate, key, unreadable) in [
        ("", certificate.as_str(), key.as_str(), "authority"),
        (&ours.pem, "junk", &key, "certificate"),
        (&ours.pem, &certificate, "", "private key"),
        // Its line breaks were lost: the parser's error would quote the key.
        (&ours.pem, &certificate, &key.replace('\n', ""), "private key"),
    ] {
        let error = check(ca, certificate, key, "a");
        assert!(matches!(error, PeerTlsError::Unreadable { item, .. } if item == unreadable), "{error}");
        assert!(!error.to_string().contains("77, 73"), "the input as a list of bytes: {error}");
    }
    let tls = ours.tls("a");
    assert!(tls.reload(other.pem.as_bytes(), certificate.as_bytes(), key.as_bytes(), &[]).is_err());
}

#[tokio::test]
async fn strangers_on_the_port_disturb_nobody() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let connect = || TcpStream::connect(served.peer.address.as_ref());
    let _silent = [connect().await.unwrap(), connect().await.unwrap()];
    for greeting in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff, 1]]
    {
        let mut tcp = connect().await.unwrap();
        tcp.write_all(greeting).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // An alert or a reset, and then the end: never an HTTP response.
        if tcp.read_to_end(&mut answer).await.is_ok() {
            assert!(!answer.starts_with(b"HTTP"), "{}", answer.escape_ascii());
        }
    }
    call(&transport(2, authority.tls("b")), &served.peer, Purpose::Control, b"x").await.unwrap();
}

#[tokio::test]
async fn a_long_chain_of_certificates_is_refused_in_the_handshake() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    for (count, is_taken) in [(4, true), (5, false)] {
        let (end, key) = authority.issue("b");
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&authority.pem)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let chain = vec![certificate(&end); count];
        let mut config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tcp = TcpStream::connect(served.peer.address.as_ref()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut io = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        // The client finishes its handshake before the server reads the chain. The server answers the bytes after that
        // with HTTP/2 settings, or with an alert.
        drop(io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await);
        let read = io.read(&mut [0; 64]).await;
        assert_eq!(matches!(read, Ok(1..)), is_taken, "{count} certificates: {read:?}");
    }
}

#[tokio::test]
async fn idle_connections_keep_no_member_out() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let early = transport(2, authority.tls("b"));
    call(&early, &served.peer, Purpose::Control, b"before").await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(served.peer.address.as_ref()).await.unwrap());
    }
    // A stranger's handshake may take five seconds. A member gives up a connection attempt after three.
    for purpose in [Purpose::Control, Purpose::Append, Purpose::Snapshot, Purpose::Forward] {
        call(&transport(2, authority.tls("b")), &served.peer, purpose, b"among them").await.unwrap();
    }
    call(&early, &served.peer, Purpose::Control, b"after").await.unwrap();
    drop(idle);
}

mod any_bytes {
    use orch_proto::peer::Frame;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    proptest! {
        #[test]
        fn a_frame_survives_its_encoding(body: Vec<u8>) {
            let frame = Frame { body: body.into() };
            prop_assert_eq!(Frame::decode(Bytes::from(frame.encode_to_vec())).unwrap(), frame);
        }

        #[test]
        fn decoding_a_frame_never_panics(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::decode(Bytes::from(bytes.clone())) {
                prop_assert!(frame.body.len() <= bytes.len());
            }
        }

        #[test]
        fn reading_a_name_from_a_damaged_certificate_never_panics(at: prop::sample::Index, bit in 0..8_u32) {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![peer_dns_name("a")]).unwrap();
            let mut bytes = params.self_signed(&key).unwrap().der().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(name) = peer_name_of(&CertificateDer::from(bytes)) {
                prop_assert!(!name.is_empty());
            }
        }
    }
}
