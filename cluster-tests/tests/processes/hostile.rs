//! Hostile clients, all attacks at once: meanwhile an honest client is answered, and afterwards the server holds none
//! of their resources.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orch_cluster_tests::attacks::template;
use orch_cluster_tests::client::{Access, Client, Endpoint, Identity, Stream};
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::objects::{COLLECTION, config_map, make_namespace};

/// File descriptors of the server: half of them are places for connections, so that a flood of hundreds exceeds the
/// limit.
const DESCRIPTORS: u32 = 1024;

/// Duration of the attacks.
const ATTACK: Duration = Duration::from_secs(6);

/// Longest wait of an honest client for a response, on a machine shared with the attackers; the promise to clients of a
/// server under attack is that they are answered at all.
const ANSWER_MAX: Duration = Duration::from_secs(8);

/// Time within which the server must release the attackers' resources.
const RECOVERY_MAX: Duration = Duration::from_secs(15);

/// Log lines that a start and an attack may cause, although thousands of connections are closed.
const LOG_LINES_MAX: usize = 60;

/// Memory that may remain: buffers that the allocator keeps for the next burst.
const MEMORY_LEFT_KB: u64 = 64 << 10;

/// The target of the attacks, the signal to stop, and counts of the attacks.
#[derive(Clone)]
struct Attack {
    endpoint: Endpoint,
    access: Access,
    stop: Arc<AtomicBool>,
    streams_reset: Arc<AtomicUsize>,
    floods_cut: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_client_is_answered_while_others_attack_and_nothing_is_left_of_them() {
    let options = Options { descriptors: Some(DESCRIPTORS), ..Options::nodes(1) };
    let cluster = Cluster::start(options).await.unwrap();
    let client = cluster.client(0).unwrap().with_timeout(ANSWER_MAX);
    make_namespace(&client).await.unwrap();
    client.post(COLLECTION, &config_map("there", "x")).await.unwrap().success().unwrap();
    let (memory, descriptors) = (cluster.memory(0).unwrap().rss_kb, cluster.descriptors(0).unwrap());

    let (endpoint, access) = cluster.doors().pop().unwrap();
    let attack = Attack {
        endpoint,
        access: access.with_identity(Identity::Anonymous),
        stop: Arc::default(),
        streams_reset: Arc::default(),
        floods_cut: Arc::default(),
        opened: Arc::default(),
    };
    let attackers = attack.start();
    let (answers, slowest) = be_honest(&cluster, &client).await;
    attack.stop.store(true, Ordering::Relaxed);
    attackers.join_all().await;
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let (reset, cut, opened) =
        (count(&attack.streams_reset), count(&attack.floods_cut), count(&attack.opened));
    eprintln!(
        "{answers} answers, the slowest after {slowest:?}; {reset} streams reset, {cut} floods cut, {opened} opened"
    );
    assert!(reset > 3000 && cut > 0 && opened > 600, "no attack: {reset} resets, {cut} cut, {opened} opened");
    assert!(answers >= 6, "only {answers} answers under attack");

    let log = cluster.log(0).unwrap();
    assert!(log.lines().count() < LOG_LINES_MAX, "the attack fills the log:\n{log:.4000}");
    recovers(&cluster, memory, descriptors).await;
    client.get(&format!("{COLLECTION}/there")).await.unwrap().success().unwrap();
}

/// Sends requests over an old connection and over new ones; returns the number of responses and the longest wait.
async fn be_honest(cluster: &Cluster, old: &Client) -> (usize, Duration) {
    let path = format!("{COLLECTION}/there");
    let (began, mut answers, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while began.elapsed() < ATTACK {
        let new = cluster.client(0).unwrap().with_timeout(ANSWER_MAX);
        for client in [old, &new] {
            let asked = Instant::now();
            client.get(&path).await.unwrap().success().unwrap();
            client.merge_patch(&path, &config_map("there", "y")).await.unwrap().success().unwrap();
            slowest = slowest.max(asked.elapsed());
            answers += 1;
        }
        sleep(Duration::from_millis(50)).await;
    }
    (answers, slowest)
}

async fn recovers(cluster: &Cluster, memory: u64, descriptors: Option<usize>) {
    let deadline = Instant::now() + RECOVERY_MAX;
    loop {
        let (now_kb, now_open) = (cluster.memory(0).unwrap().rss_kb, cluster.descriptors(0).unwrap());
        let is_closed = now_open <= descriptors.map(|before| before + 16);
        if is_closed && now_kb <= memory + MEMORY_LEFT_KB {
            eprintln!(
                "{memory} kB and {descriptors:?} descriptors before, {now_kb} kB and {now_open:?} after"
            );
            return;
        }
        let grown = format!("{memory} kB to {now_kb} kB, {descriptors:?} descriptors to {now_open:?}");
        assert!(Instant::now() < deadline, "not let go of: {grown}");
        sleep(Duration::from_millis(100)).await;
    }
}

impl Attack {
    fn start(&self) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        for _ in 0..2 {
            attackers.spawn(self.clone().rapid_reset());
        }
        attackers.spawn(self.clone().continuation_flood());
        attackers.spawn(self.clone().oversized_headers());
        for _ in 0..600 {
            attackers.spawn(self.clone().half_open_handshake());
        }
        for number in 0..60 {
            attackers.spawn(self.clone().slow_request(number % 2 == 0));
        }
        attackers
    }

    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn connect(&self, protocol: &str) -> Option<Box<dyn Stream>> {
        self.endpoint.connect(&self.access.with_protocol(protocol)).await.ok()
    }

    /// Opens streams and resets each at once (rapid reset).
    async fn rapid_reset(self) {
        while self.is_running() {
            let Some(mut stream) = self.connect("h2").await else { continue };
            if stream.write_all(&preface()).await.is_err() {
                continue;
            }
            for first in (1..40_000_u32).step_by(200) {
                let mut frames = Vec::new();
                for id in (first..first + 200).step_by(2) {
                    frames.extend(frame(HEADERS, END_STREAM | END_HEADERS, id, REQUEST));
                    frames.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
                }
                let written = timeout(Duration::from_secs(1), stream.write_all(&frames)).await;
                if !matches!(written, Ok(Ok(()))) || !self.is_running() {
                    break;
                }
                self.streams_reset.fetch_add(100, Ordering::Relaxed);
            }
        }
    }

    /// Sends CONTINUATION frames without end.
    async fn continuation_flood(self) {
        // A literal header with a name and a value, never indexed.
        let header = [&[0x10, 1, b'a', 0x7f, 0x81, 0x7f][..], &[b'x'; 16_000]].concat();
        while self.is_running() {
            let Some(mut stream) = self.connect("h2").await else { continue };
            let mut opening = preface();
            opening.extend(frame(HEADERS, 0, 1, REQUEST));
            let mut broken = stream.write_all(&opening).await.is_err();
            while !broken && self.is_running() {
                let next = frame(CONTINUATION, 0, 1, &header);
                let written = timeout(Duration::from_secs(1), stream.write_all(&next)).await;
                broken = !matches!(written, Ok(Ok(())));
            }
            self.floods_cut.fetch_add(usize::from(broken), Ordering::Relaxed);
        }
    }

    /// Sends a header above the size limit.
    async fn oversized_headers(self) {
        while self.is_running() {
            let Some(mut stream) = self.connect("http/1.1").await else { continue };
            let mut broken = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\na: ").await.is_err();
            for _ in 0..512 {
                broken = broken || stream.write_all(&[b'x'; 16 << 10]).await.is_err();
            }
            let mut answer = Vec::new();
            let reading = stream.read_to_end(&mut answer);
            let ended = timeout(Duration::from_secs(5), reading).await.is_ok();
            let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 431");
            assert!(refused, "{}", String::from_utf8_lossy(&answer));
            self.floods_cut.fetch_add(usize::from(broken || ended), Ordering::Relaxed);
        }
    }

    /// Begins a TLS handshake and waits; connects again when it is closed.
    async fn half_open_handshake(self) {
        let address = self.endpoint.authority();
        while self.is_running() {
            let Ok(mut stream) = TcpStream::connect(&address).await else { continue };
            self.opened.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(b"\x16\x03\x01\x02\x00").await.is_err() {
                continue;
            }
            let mut rest = [0; 64];
            while self.is_running() {
                let read = timeout(Duration::from_millis(500), stream.read(&mut rest)).await;
                if matches!(read, Ok(Ok(0) | Err(_))) {
                    break;
                }
            }
            // A moderate rate of reconnects: a higher one would only measure this machine.
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Sends headers byte by byte; with `has_body`, complete headers with a token and then a slow body.
    async fn slow_request(self, has_body: bool) {
        let head = match has_body {
            true => format!(
                "POST {COLLECTION} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\
                 content-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
            ),
            false => "GET /api HTTP/1.1\r\nhost: x\r\na: ".to_owned(),
        };
        while self.is_running() {
            let Some(mut stream) = self.connect("http/1.1").await else { continue };
            let mut broken = stream.write_all(head.as_bytes()).await.is_err();
            while !broken && self.is_running() {
                sleep(Duration::from_millis(200)).await;
                broken = stream.write_all(b" ").await.is_err() || stream.flush().await.is_err();
            }
        }
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET https://x/` in HPACK.
const REQUEST: &[u8] = &[0x82, 0x87, 0x84, 0x41, 1, b'x'];

/// The connection preface of an HTTP/2 client.
fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Path of the hostile objects.
const TEMPLATES: &str = "/apis/resource.orch.io/v1/namespaces/faults/resourceclaimtemplates";

/// Longest wait for the answer to a large write on a machine shared with the attackers. A hostile object took minutes when
/// its patterns were compiled.
const LARGE_ANSWER_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_hostile_objects_do_not_stop_other_large_writes() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap().with_timeout(LARGE_ANSWER_MAX);
    make_namespace(&client).await.unwrap();
    let mut attackers = JoinSet::new();
    for number in 0..4 {
        let (client, template) = (client.clone(), template(number));
        attackers.spawn(async move { client.post(TEMPLATES, &template).await.unwrap() });
    }
    let large = "x".repeat(500 << 10);
    for number in 0..8 {
        let map = config_map(&format!("large-{number}"), &large);
        client.post(COLLECTION, &map).await.unwrap().success().unwrap();
    }
    for answer in attackers.join_all().await {
        let told = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 422, "{told:.400}");
        assert!(told.contains("too complex, exceeds cost limit"), "{told:.400}");
    }
}
