//! The leader is killed under load: writes resume, no acknowledged write is lost, a watch resumes at another member.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use orch_cluster_tests::client::{Client, Watch};
use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::time::sleep;

use crate::load::Writers;
use crate::objects::{COLLECTION, list, make_namespace, name, version};

/// Clients that write while the leader dies.
const WRITERS: usize = 64;

/// The promise: writes resume within this time after the leader's death.
const RESUME_TIME_MAX: Duration = Duration::from_secs(3);

/// Acknowledged writes before the kill, and again after writes have resumed: without load the test proves nothing.
const WRITES_MIN: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_seconds_and_no_write_and_no_event() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let (second, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let clients: Vec<_> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&clients[second]).await.unwrap();
    let (_, start) = list(&clients[second], "").await.unwrap();
    let mut follower = Follower::open(&clients[second], start).await.unwrap();

    let writers = Writers::start(WRITERS, &clients);
    wait_for_writes(&writers, WRITES_MIN).await.unwrap();
    follower.take(WRITES_MIN / 2).await.unwrap();
    cluster.kill(leader).unwrap();
    let killed = Instant::now();
    let pause = writers.resumed_after(killed, Duration::from_secs(30)).await.unwrap();
    eprintln!("writes resumed {pause:?} after the leader was killed");
    // The watch resumes at another member, from the last version it saw, under writes.
    follower.resume(&clients[third]).await.unwrap();
    wait_for_writes(&writers, writers.count() + WRITES_MIN).await.unwrap();
    let acknowledged = writers.stop().await;

    let (objects, last) = list(&clients[third], "").await.unwrap();
    for write in &acknowledged {
        assert!(objects.contains_key(&write.name), "the acknowledged {} is lost", write.name);
    }
    follower.take_until(&objects).await.unwrap();
    assert!(pause < RESUME_TIME_MAX, "writes resumed only after {pause:?}");

    cluster.respawn(leader).unwrap();
    cluster.wait_ready(leader).await.unwrap();
    cluster.wait_applied(leader, last).await.unwrap();
    let (at_returned, _) = list(&cluster.client(leader).unwrap(), "?resourceVersion=0").await.unwrap();
    assert_eq!(at_returned, objects, "the returned member has other objects");
}

async fn wait_for_writes(writers: &Writers, count: usize) -> Result<()> {
    let start = Instant::now();
    while writers.count() < count {
        ensure!(
            start.elapsed() < Duration::from_secs(30),
            "only {} of {count} writes in time",
            writers.count()
        );
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A watcher that checks every event: versions rise, and no object comes twice.
struct Follower {
    watch: Watch,
    last: u64,
    seen: BTreeMap<String, u64>,
}

impl Follower {
    async fn open(client: &Client, version: u64) -> Result<Self> {
        Ok(Self { watch: watch(client, version).await?, last: version, seen: BTreeMap::new() })
    }

    /// Resumes at another server from the last version seen.
    async fn resume(&mut self, client: &Client) -> Result<()> {
        self.watch = watch(client, self.last).await?;
        Ok(())
    }

    async fn take(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.event().await?;
        }
        Ok(())
    }

    /// Takes events until as many objects as in `objects` have come; they must be exactly those.
    async fn take_until(&mut self, objects: &BTreeMap<String, u64>) -> Result<()> {
        while self.seen.len() < objects.len() {
            self.event().await?;
        }
        ensure!(self.seen == *objects, "the watch saw other objects than the list shows");
        Ok(())
    }

    async fn event(&mut self) -> Result<()> {
        let event = self.watch.next(Duration::from_secs(10)).await?;
        let Some(event) = event else { anyhow::bail!("the watch ended after {}", self.last) };
        ensure!(event["type"] == "ADDED", "an event that is no creation: {event}");
        let (name, version) = (name(&event["object"])?, version(&event["object"])?);
        ensure!(version > self.last, "version {version} after {}", self.last);
        ensure!(self.seen.insert(name, version).is_none(), "an event came twice: {event}");
        self.last = version;
        Ok(())
    }
}

async fn watch(client: &Client, version: u64) -> Result<Watch> {
    client.watch(&format!("{COLLECTION}?watch=1&resourceVersion={version}")).await
}
