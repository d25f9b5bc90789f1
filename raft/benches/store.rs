//! Time of a put (applied in memory, and proposed through a member on a real disk), of a read barrier, and of a
//! restart.
//!
//! Prints one line for each figure. Run with `cargo bench -p orch-raft`; `TMPDIR` chooses the directory of the disk.
//! Nothing is asserted: the figures are of one machine and one moment.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and measures real time"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::member::{ClusterSeed, Options, node_id};
use orch_raft::transport::{Duplex, Peer, Purpose, Transport, TransportError};
use orch_raft::{
    Condition, Index, Key, Member, Operation, Put, Revision, State, Store, TokioRuntime, Transaction,
};

fn put(name: &str, condition: impl FnOnce(Key) -> Option<Condition>) -> Transaction {
    let head = r#"{"metadata":{"name":"x","namespace":"default","uid":"0f8fad5b-d9cb-469f-a165-70867728950e","resourceVersion":""#;
    let json = Bytes::from(format!("{head}\"}},\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(850)));
    let key = Key::new(&Arc::from("configmaps"), "default", name).expect("a good name");
    let index = Index {
        uid: "0f8fad5b-d9cb-469f-a165-70867728950e".into(),
        labels: [("app", "bench")].into_iter().collect(),
        ..Index::default()
    };
    let conditions = condition(key.clone()).into_iter().collect();
    let revision_at = u32::try_from(head.len()).expect("a short constant");
    Transaction {
        proposed_ms: 1,
        conditions,
        operations: vec![Operation::Put(Put { key, json, revision_at, index })],
    }
}

/// Microseconds since `began`, divided by `count`.
fn each(began: Instant, count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of a benchmark")]
    let count = count as f64;
    began.elapsed().as_secs_f64() * 1e6 / count
}

fn apply(batch: usize) {
    let mut state = State::default();
    let transactions: Vec<_> =
        (0..20_000).map(|i| put(&format!("object-{}", i * 7919 % 10_007), |_| None)).collect();
    let mut published = Arc::new(State::default());
    let began = Instant::now();
    for (at, transaction) in (2..).zip(&transactions) {
        state.apply(Revision(at), transaction);
        if at % (batch as u64) == 0 {
            published = Arc::new(state.clone());
        }
    }
    let figure = each(began, 20_000);
    println!(
        "apply a 1 kB put, published every {batch}: {figure:.2} us ({} objects)",
        published.collection("configmaps").len()
    );
}

/// The transport of a cluster of one member: every call fails.
#[derive(Clone)]
struct NoTransport;

impl Transport for NoTransport {
    async fn call(&self, peer: &Peer, _: Purpose, _: Bytes, _: Duration) -> Result<Bytes, TransportError> {
        Err(TransportError::Unreachable { peer: peer.name.clone(), reason: "there is no network".into() })
    }

    async fn open(&self, peer: &Peer, _: Purpose) -> Result<Duplex, TransportError> {
        Err(TransportError::Unreachable { peer: peer.name.clone(), reason: "there is no network".into() })
    }
}

type OneMember = Member<TokioRuntime, RocksDisk, NoTransport>;

async fn member(path: &std::path::Path) -> OneMember {
    let peer = Peer { id: node_id("a"), name: "a".into(), address: "a:1".into() };
    let seed = ClusterSeed { cluster: "c".into(), brand: "orch".into(), token_key: [0; 32] };
    let now = || {
        u64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_millis())).unwrap_or(0)
    };
    let options = Options::new(peer.clone(), vec![peer], seed, now(), Arc::new(now));
    // The last tasks of a stopped member may hold its disk for some milliseconds.
    let disk = loop {
        match RocksDisk::open(path) {
            Ok(disk) => break Arc::new(disk),
            Err(error) => println!("waiting for the disk: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let member = OneMember::start(options, disk, NoTransport).await.expect("a member");
    member.handle().found().await.expect("a cluster");
    member.handle().wait_cluster().await;
    member
}

async fn propose(member: &OneMember, clients: u64, of_each: u64) {
    let made = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let client = |_| {
        let (handle, made) = (member.handle(), made.clone());
        tokio::spawn(async move {
            for _ in 0..of_each {
                let name = format!("p{clients}-{}", made.fetch_add(1, Ordering::Relaxed));
                handle.propose(put(&name, |key| Some(Condition::Absent(key)))).await.expect("an outcome");
            }
        })
    };
    join_all((0..clients).map(client)).await;
    println!("propose a 1 kB create, {clients} clients: {:.1} us each", each(began, clients * of_each));
}

async fn barriers(member: &OneMember, clients: u64, of_each: u64) {
    let began = Instant::now();
    let client = |_| {
        let handle = member.handle();
        tokio::spawn(async move {
            for _ in 0..of_each {
                handle.barrier().await.expect("a barrier");
            }
        })
    };
    join_all((0..clients).map(client)).await;
    println!("read barrier, {clients} clients: {:.1} us each", each(began, clients * of_each));
}

fn main() -> Result<(), Infallible> {
    for batch in [1, 16, 256] {
        apply(batch);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let running = member(directory.path()).await;
        for (clients, of_each) in [(1, 2_000), (64, 500), (512, 100)] {
            propose(&running, clients, of_each).await;
        }
        for (clients, of_each) in [(1, 20_000), (32, 5_000)] {
            barriers(&running, clients, of_each).await;
        }
        let entries = running.handle().status().applied;
        running.shutdown().await;
        let began = Instant::now();
        let again = member(directory.path()).await;
        println!("start with {entries} entries to replay: {} ms", began.elapsed().as_millis());
        again.shutdown().await;
    });
    Ok(())
}
