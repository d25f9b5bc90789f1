//! Memory under clients that read slowly or not at all: it stays below the sum of the state and fixed buffers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, make_namespace, version};

const MIB: u64 = 1024;

/// The listed collection: 48 MiB of large objects.
const OBJECTS: usize = 192;
const OBJECT_BYTES: usize = 256 << 10;
const STATE_KB: u64 = (OBJECTS * OBJECT_BYTES) as u64 / 1024;

/// Concurrent lists.
const LISTS: usize = 16;

/// Memory of an idle process with its empty database, in an unoptimized build, too.
const IDLE_KB: u64 = 96 * MIB;

/// Bound of one slow list: written frames that the client has not read (1 MiB), TLS (256 KiB) and the next frame.
const LIST_KB: u64 = 2 * MIB;

/// Watchers that read nothing: nine connections of a hundred streams, and a hundred connections of one.
const CONNECTIONS: usize = 9;
const STREAMS: usize = 100;
const LONE: usize = 100;

/// Bound of one stalled watcher: the stream's buffer (256 KiB) and the next frame.
const WATCHER_KB: u64 = 512;

/// Bound of the history, which the changes below exceed, and of the same changes in the log's memory.
const HISTORY_KB: u64 = 40 * MIB + 4 * MIB;

/// Changes of one object while the watchers stall.
const CHANGES: usize = 800;
const CHANGE_BYTES: usize = 64 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_lists_that_are_read_slowly_hold_frames_and_no_copies() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    fill(&client).await;
    let before = cluster.memory(0).unwrap().rss_kb;
    assert!(before < IDLE_KB + 3 * STATE_KB, "{before} kB for a state of {STATE_KB} kB");

    let mut lists = JoinSet::new();
    for _ in 0..LISTS {
        let client = client.clone();
        lists.spawn(async move { read_slowly(&client).await });
    }
    let mut most = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        most = most.max(cluster.memory(0).unwrap().rss_kb);
        let made = client.get(&format!("{COLLECTION}/o0")).await.unwrap();
        assert_eq!(made.status, 200, "an honest client is not served");
    }
    let ceiling = before + LISTS as u64 * LIST_KB + 16 * MIB;
    eprintln!("{before} kB before, at most {most} kB while {LISTS} lists of {STATE_KB} kB are read");
    assert!(most < ceiling, "{most} kB while lists are read, {before} kB before");
    let sizes = lists.join_all().await;
    assert!(sizes.iter().all(|size| *size > 512 << 10), "lists were not read: {sizes:?}");
}

async fn fill(client: &Client) {
    let mut filling = JoinSet::new();
    for writer in 0..4 {
        let client = client.clone();
        filling.spawn(async move {
            let value = "x".repeat(OBJECT_BYTES);
            for number in (writer..OBJECTS).step_by(4) {
                let object = config_map(&format!("o{number}"), &value);
                client.post(COLLECTION, &object).await.unwrap().success().unwrap();
            }
        });
    }
    filling.join_all().await;
}

/// Bytes that a slow reader takes at most between two pauses: in the time of the test, half of a list.
const TAKEN_BYTES: usize = 256 << 10;

/// Takes a frame of a full list now and then, with pauses in proportion to its size: frame sizes depend on the speed of
/// node and network. Returns the bytes taken.
async fn read_slowly(client: &Client) -> usize {
    let (_connection, answer) = client.start(Method::GET, COLLECTION, &[], Bytes::new()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let (began, mut size) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(5) {
        let frame = body.frame().await.unwrap_or_else(|| panic!("the list ends after {size} bytes")).unwrap();
        let taken = frame.into_data().map_or(0, |data| data.len());
        size += taken;
        let pauses = u32::try_from(taken.div_ceil(TAKEN_BYTES)).unwrap_or(u32::MAX);
        sleep(Duration::from_millis(50) * pauses).await;
    }
    size
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_stalled_watchers_hold_little_and_an_honest_one_misses_nothing() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    let made = client.post(COLLECTION, &config_map("busy", "x")).await.unwrap().success().unwrap();
    let start = version(&made).unwrap();
    let path = format!("{COLLECTION}?watch=1&resourceVersion={start}");
    let mut stalled = Vec::new();
    for _ in 0..CONNECTIONS {
        stalled.extend(stall(&cluster, &path).await);
    }
    let mut lone = Vec::new();
    for _ in 0..LONE {
        lone.push(client.watch(&path).await.unwrap());
    }
    let before = cluster.memory(0).unwrap().rss_kb;
    let mut honest = client.watch(&path).await.unwrap();
    let follower = tokio::spawn(async move {
        let mut versions = Vec::new();
        while versions.len() < CHANGES {
            let event = honest.next(Duration::from_secs(20)).await.unwrap().expect("the watch goes on");
            versions.push(version(&event["object"]).unwrap());
        }
        versions
    });
    let (mut written, mut most) = (Vec::new(), 0);
    for number in 0..CHANGES {
        let value = format!("{number}{}", "x".repeat(CHANGE_BYTES));
        let answer = client.merge_patch(&format!("{COLLECTION}/busy"), &config_map("busy", &value)).await;
        written.push(version(&answer.unwrap().success().unwrap()).unwrap());
        most = most.max(cluster.memory(0).unwrap().rss_kb);
    }
    assert_eq!(follower.await.unwrap(), written, "an honest watcher missed a change");
    let watchers = (stalled.len() + lone.len()) as u64;
    let ceiling = IDLE_KB.max(before) + 2 * HISTORY_KB + watchers * WATCHER_KB;
    eprintln!("{before} kB with {watchers} watchers, at most {most} kB while they stall");
    assert!(most < ceiling, "{most} kB while {watchers} watchers stall, {before} kB before");
    for mut watcher in lone.into_iter().take(3) {
        assert!(
            is_told(&mut watcher, written.len()).await,
            "a stalled watcher is not told that it missed changes"
        );
    }
}

/// Opens a hundred watches on one connection and reads from none.
async fn stall(cluster: &Cluster, path: &str) -> Vec<hyper::Response<Incoming>> {
    let (endpoint, access) = cluster.doors().pop().unwrap();
    let stream = endpoint.connect(&access.with_protocol("h2")).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let request = Request::get(format!("{endpoint}{path}"))
            .header("authorization", format!("Bearer {ADMIN_TOKEN}"))
            .body(Full::<Bytes>::default())
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        open.push(answer);
    }
    open
}

/// Connections whose clients take no byte of a hundred small answers each: 360 MB of answers.
const HOARDERS: usize = 60;
const SMALL_BYTES: usize = 60 << 10;

/// Bound of one user's answers that are not taken: 64 MiB, and on each connection 64 KiB, a frame and the buffers of TLS.
const HOARD_KB: u64 = 64 * MIB + HOARDERS as u64 * 320;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_responses_that_nobody_takes_hold_little_memory() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    let path = format!("{COLLECTION}/small");
    client.post(COLLECTION, &config_map("small", &"x".repeat(SMALL_BYTES))).await.unwrap().success().unwrap();
    // Without a window, and with one of a byte, by which the connection takes a whole answer over.
    for window in [0, 1] {
        let before = cluster.memory(0).unwrap().rss_kb;
        let mut held = Vec::new();
        for _ in 0..HOARDERS {
            held.push(hoard(&cluster, &path, window).await);
        }
        let during = cluster.memory(0).unwrap().rss_kb;
        let answered = held.iter().flatten().filter(|answer| answer.status() == 200).count();
        eprintln!(
            "window {window}: {before} kB before, {during} kB with {answered} answers that nobody takes"
        );
        assert!(answered > 1000, "no attack: {answered} answers");
        assert!(during < before + HOARD_KB + 32 * MIB, "{before} kB before, {during} kB during");
        let read = client.get(&path).await.unwrap().success().unwrap();
        assert!(read.to_string().len() > SMALL_BYTES, "an honest client is not served");
    }
}

/// Asks for `path` on each stream of a connection whose streams have windows of `window` bytes, and reads no answer.
async fn hoard(cluster: &Cluster, path: &str, window: u32) -> Vec<hyper::Response<Incoming>> {
    let (endpoint, access) = cluster.doors().pop().unwrap();
    let stream = endpoint.connect(&access.with_protocol("h2")).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let asked = (0..STREAMS).map(|_| {
        let request = Request::get(format!("{endpoint}{path}"))
            .header("authorization", format!("Bearer {ADMIN_TOKEN}"))
            .body(Full::<Bytes>::default())
            .unwrap();
        let mut sender = sender.clone();
        // A response for which there is no room is broken off.
        async move { sender.send_request(request).await.ok() }
    });
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

/// Reads the rest of a stalled watch: changes, and at the end an ERROR with 410, or all changes.
async fn is_told(watcher: &mut orch_cluster_tests::client::Watch, all: usize) -> bool {
    for _ in 0..all {
        match watcher.next(Duration::from_secs(10)).await {
            Ok(Some(event)) if event["type"] == "ERROR" => return event["object"]["code"] == 410,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
    true
}
