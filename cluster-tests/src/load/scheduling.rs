//! The schedule work: pods that wait when a scheduler starts, and the time in which all of them get a node.
//!
//! Owns the nodes and pods of the work and its check: every pod has a node, and no node has more pods than places. The
//! clock runs from the first binding that a watch shows to the last. The scheduler's start and its first lists are not in
//! it, but in the latencies, which count from the start of the process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::driver::{Load, Outcome};
use super::events::Events;
use super::fixture::each;
use super::line::Line;
use super::process::{self, Memory};
use super::tally::Tally;
use super::wire::Call;
use crate::client::Client;
use crate::cluster::{Cluster, Scheduler};

/// Pods that a node has places for, as many as the kubelet's default.
pub(super) const PLACES: u32 = 110;
/// Time without a binding after which the scheduler counts as stuck: its start, and the first lists of 100,000 pods, take
/// some seconds.
const QUIET_MAX: Duration = Duration::from_secs(60);
/// Pods in a page of the check.
const PAGE: u32 = 5_000;
/// Flags of the scheduler: it is the only one, and the client's limit of 50 requests a second is lifted.
const FLAGS: [&str; 3] = ["--leader-elect=false", "--orch-api-qps=100000", "--orch-api-burst=100000"];

/// The measurements of a run, and the scheduler's memory at its end.
pub(super) struct Scheduled {
    pub(super) outcome: Outcome,
    pub(super) memory: Memory,
}

/// Makes `fleet` nodes and `pods` pods in `namespace`, starts a scheduler on `cluster`, and measures until all pods have
/// nodes. The CPU time is that of the servers and the scheduler together.
pub(super) fn schedule(
    load: &Load,
    cluster: &Cluster,
    namespace: &str,
    fleet: u32,
    pods: u32,
) -> Result<Scheduled> {
    ensure!(
        u64::from(pods) <= u64::from(fleet) * u64::from(PLACES),
        "{fleet} nodes have no places for {pods} pods, {PLACES} on each"
    );
    let target = load.targets.first().context("there is no server")?;
    let client = Client::new(target.endpoint.clone(), target.access.clone());
    let client = client.with_timeout(super::OPERATION_TIMEOUT);
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        each(fleet, async |number| make_node(&client, number).await).await?;
        each(pods, async |number| make_pod(&client, &collection, number).await).await?;
        let mut bindings = bindings(load, &client, &collection).await?;
        let started = Instant::now();
        let scheduler = cluster.scheduler("scheduler", &FLAGS)?;
        let pids: Vec<u32> = load.pids.iter().copied().chain([scheduler.pid()]).collect();
        let seen = Seen { pods: pods.into(), started, scheduler: &scheduler, pids: &pids };
        let outcome = seen.follow(&mut bindings).await?;
        check(&client, &collection, pods).await?;
        let memory = process::memory(&[scheduler.pid()])?.remove(0);
        Ok(Scheduled { outcome, memory })
    })
}

async fn make_node(client: &Client, number: u32) -> Result<()> {
    let name = format!("bench-{number}");
    let offer = json!({"cpu": "64", "memory": "256Gi", "pods": PLACES.to_string()});
    let labels = json!({"zone": format!("z{}", number % 3)});
    let node = json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": offer}});
    let answer = client.post("/api/v1/nodes", &node).await?;
    if answer.status != 409 {
        answer.success().with_context(|| format!("cannot make the node {name}"))?;
    }
    // A new node has a taint until somebody says that it is ready.
    let answer =
        client.merge_patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}})).await?;
    answer.success().with_context(|| format!("cannot take the taint from the node {name}"))?;
    Ok(())
}

async fn make_pod(client: &Client, collection: &str, number: u32) -> Result<()> {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    let container = json!({"name": "main", "image": "image", "resources": {"requests": requests}});
    let name = format!("pod-{number}");
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
    client.post(collection, &pod).await?.success().with_context(|| format!("cannot make the pod {name}"))?;
    Ok(())
}

/// A watch that shows each pod once, when it gets its node.
async fn bindings(load: &Load, client: &Client, collection: &str) -> Result<Line> {
    let list = client.get(&format!("{collection}?limit=1")).await?.success()?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    let path = format!("{collection}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName!%3D");
    let mut line = Line::open(&load.targets[0], load.protocol).await?;
    let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
    let status = timeout(super::OPERATION_TIMEOUT, line.begin(&call)).await??;
    ensure!(status == 200, "a watch was answered {status}");
    Ok(line)
}

/// The events that the watch is to show.
struct Seen<'a> {
    pods: u64,
    started: Instant,
    scheduler: &'a Scheduler,
    pids: &'a [u32],
}

impl Seen<'_> {
    async fn follow(&self, bindings: &mut Line) -> Result<Outcome> {
        let (mut events, mut tally) = (Events::counting(), Tally::new()?);
        let mut first = None;
        while events.count < self.pods {
            let piece = timeout(
                QUIET_MAX,
                bindings.piece(|piece| {
                    tally.bytes += piece.len() as u64;
                    events.feed(piece, |_| {});
                }),
            );
            let Ok(more) = piece.await else {
                let count = events.count;
                bail!("{count} pods have nodes, and no other within {QUIET_MAX:?}\n{}", self.scheduler.log());
            };
            ensure!(more? && !events.ended_with_error, "the watch ended after {} bindings", events.count);
            for _ in tally.operations..events.count {
                tally.success(self.started.elapsed(), 0);
            }
            if first.is_none() && events.count > 0 {
                first = Some((Instant::now(), process::cpu_time(self.pids)?));
            }
        }
        let (began, cpu) = first.context("no pod was asked for")?;
        let cpu = process::cpu_time(self.pids)?.saturating_sub(cpu);
        let elapsed = began.elapsed().max(Duration::from_nanos(1));
        Ok(Outcome { tally, elapsed, cpu: Some(cpu), profile: None })
    }
}

/// Recounts from the stored pods.
async fn check(client: &Client, collection: &str, pods: u32) -> Result<()> {
    let mut on_node = HashMap::<String, u32>::new();
    let mut token = String::new();
    loop {
        let page = client.get(&format!("{collection}?limit={PAGE}&continue={token}")).await?.success()?;
        for pod in page["items"].as_array().context("a list without items")? {
            let node = pod["spec"].get("nodeName").and_then(Value::as_str);
            let node = node.with_context(|| format!("{} has no node", pod["metadata"]["name"]))?;
            *on_node.entry(node.to_owned()).or_default() += 1;
        }
        match page["metadata"]["continue"].as_str() {
            Some(more) if !more.is_empty() => more.clone_into(&mut token),
            _ => break,
        }
    }
    let full = on_node.iter().filter(|(_, count)| **count > PLACES).min();
    if let Some((node, count)) = full {
        bail!("the node {node} has {count} pods, and {PLACES} places");
    }
    let bound: u32 = on_node.values().sum();
    ensure!(bound == pods, "{bound} of {pods} pods have nodes");
    Ok(())
}
