//! The second client: requests at a fixed rate, whatever came of those before, so that a long wait hides no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::client::Client;

/// Namespace of the second client.
pub(super) const NAMESPACE: &str = "honest";

/// Time between two requests.
const WRITE_INTERVAL: Duration = Duration::from_millis(25);
/// Time between two pods.
const POD_INTERVAL: Duration = Duration::from_millis(200);
/// Number of writes of which the last is large.
const LARGE_EVERY: u64 = 20;
/// Bytes of a large object and of a small one.
const LARGE_BYTES: usize = 500 << 10;
const SMALL_BYTES: usize = 1 << 10;
/// Objects that are written in turn.
const OBJECTS: u64 = 16;
/// Longest wait for an answer or a node; a longer one counts as failed.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Polling interval of a pod.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The work of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Small writes, and a large one in twenty.
    Writes,
    /// Pods that wait for a node.
    Pods,
}

/// The size of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Small,
    Large,
}

/// A request of the honest client, or its pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) size: Size,
    pub(super) took: Duration,
    pub(super) is_good: bool,
}

/// Works until `stop`, and waits for what it began.
pub(super) async fn work(client: Client, work: Work, stop: Arc<AtomicBool>) -> Vec<Sample> {
    let client = client.with_timeout(WAIT_MAX);
    let mut ticks = interval(match work {
        Work::Writes => WRITE_INTERVAL,
        Work::Pods => POD_INTERVAL,
    });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut began, mut number) = (JoinSet::new(), 0_u64);
    // Names of pods differ between the calm time and the attack.
    let prefix = rand::random::<u32>();
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let client = client.clone();
        match work {
            Work::Writes => began.spawn(timed(size_of(number), async move { write(&client, number).await })),
            Work::Pods => {
                let name = format!("pod-{prefix:x}-{number}");
                began.spawn(timed(Size::Small, async move { place(&client, &name).await }))
            }
        };
        number += 1;
    }
    began.join_all().await
}

fn size_of(number: u64) -> Size {
    if number % LARGE_EVERY == LARGE_EVERY - 1 { Size::Large } else { Size::Small }
}

async fn timed(size: Size, request: impl Future<Output = Result<()>>) -> Sample {
    let began = Instant::now();
    let is_good = request.await.is_ok();
    Sample { size, took: began.elapsed(), is_good }
}

/// Replaces the value of a config map, or makes it.
async fn write(client: &Client, number: u64) -> Result<()> {
    let bytes = match size_of(number) {
        Size::Small => SMALL_BYTES,
        Size::Large => LARGE_BYTES,
    };
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let name = format!("map-{bytes}-{}", number % OBJECTS);
    let map =
        json!({"metadata": {"name": name}, "data": {"value": format!("{number}{}", "x".repeat(bytes))}});
    let patched = client.merge_patch(&format!("{collection}/{name}"), &map).await?;
    if patched.status != 404 {
        ensure!(patched.status == 200, "{}", patched.status);
        return Ok(());
    }
    let made = client.post(&collection, &map).await?;
    ensure!(made.status == 201 || made.status == 409, "{}", made.status);
    Ok(())
}

/// Makes a pod, waits until it has a node, and removes it.
async fn place(client: &Client, name: &str) -> Result<()> {
    let collection = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "image"}], "terminationGracePeriodSeconds": 0},
    });
    client.post(&collection, &pod).await?.success()?;
    let path = format!("{collection}/{name}");
    let began = Instant::now();
    loop {
        let pod = client.get(&path).await?.success()?;
        if pod["spec"]["nodeName"].is_string() {
            break;
        }
        if began.elapsed() > WAIT_MAX {
            bail!("{name} has no node");
        }
        sleep(LOOK_INTERVAL).await;
    }
    client.delete(&path).await?.success()?;
    Ok(())
}
