//! Two schedulers and three nodes: the scheduler that leads is killed, then the node that leads, while pods arrive.
//!
//! The pods fill the nodes to the last place, so that one pod counted twice or forgotten shows: as a node over its
//! capacity, or as a pod without a place. What happened is judged by the pods' whole history, seen by a watch that began
//! before the first of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::{Client, Watch};
use orch_cluster_tests::cluster::{Cluster, Options, Scheduler};
use serde_json::{Value, json};

use super::{create, node, plain_flags, until};

const NODES: usize = 250;
/// Places for pods on each node.
const PLACES: usize = 20;
const PODS: usize = NODES * PLACES;
/// Bound pods at which the leading scheduler is killed, and at which the leading node is.
const SCHEDULER_DIES: usize = 500;
const NODE_DIES: usize = 2_500;

const LEASE: &str = "/apis/coordination.orch.io/v1/namespaces/orch-system/leases/orch-scheduler";
/// Duration of the lease, by default.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A contender looks at the lease once in 2.4 s: it may see the last renewal that late, and its end, too. The cluster is
/// busy besides.
const LOOKS: Duration = Duration::from_secs(10);
/// The client's own limits would stretch the test: by default 50 requests a second, two for each pod.
const FLAGS: [&str; 2] = ["--orch-api-qps=2000", "--orch-api-burst=2000"];
/// Longest wait for all pods to be bound.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_bound_once_while_the_leading_scheduler_and_then_the_leading_node_die() {
    let mut cluster = Cluster::start(Options { flags: plain_flags(), ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let stays = (0..3).find(|member| *member != leader).unwrap();
    let client = cluster.client(stays).unwrap();
    for index in 0..NODES {
        create(&client, "/api/v1/nodes", &node(&format!("n{index}"), "64", &PLACES.to_string())).await;
    }
    let start = client.get("/api/v1/pods?limit=1").await.unwrap().success().unwrap();
    let version = start["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = client.watch(&format!("/api/v1/pods?watch=1&resourceVersion={version}")).await.unwrap();
    let bound = Arc::new(AtomicUsize::new(0));
    let history = tokio::spawn(History::follow(watch, bound.clone()));

    let (mut first, name) = lead(&cluster, &client).await;
    let _second = cluster.scheduler("second", &FLAGS).unwrap();
    let creates = tokio::spawn(create_pods(client.clone()));
    until_bound(&bound, SCHEDULER_DIES).await;
    first.kill().unwrap();
    let died = Instant::now();
    let successor = until(LEASE_DURATION + LOOKS, "another scheduler leads", async || {
        holder(&client).await.filter(|holder| *holder != name)
    })
    .await;
    eprintln!("{successor} leads {:?} after the other scheduler was killed", died.elapsed());
    until_bound(&bound, NODE_DIES).await;
    let leader = cluster.leader().await.unwrap();
    if leader != stays {
        cluster.kill(leader).unwrap();
    } else {
        // The watch must outlive it: the other node takes its place, and dies.
        let other = (0..3).find(|member| *member != stays).unwrap();
        cluster.kill(other).unwrap();
    }
    creates.await.unwrap();
    let history = tokio::time::timeout(PATIENCE, history).await.expect("all pods are bound in time").unwrap();
    history.judge();
}

/// Starts a scheduler and waits until it leads; returns its name in the lease.
async fn lead(cluster: &Cluster, client: &Client) -> (Scheduler, String) {
    let scheduler = cluster.scheduler("first", &FLAGS).unwrap();
    let name = until(Duration::from_secs(10), "a scheduler leads", async || holder(client).await).await;
    (scheduler, name)
}

async fn holder(client: &Client) -> Option<String> {
    let lease = client.get(LEASE).await.ok()?.success().ok()?;
    lease["spec"]["holderIdentity"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

async fn create_pods(client: Client) {
    let creating = (0..8).map(|writer| {
        let client = client.clone();
        tokio::spawn(async move {
            for index in (writer..PODS).step_by(8) {
                create_pod(&client, index).await;
            }
        })
    });
    for writer in creating.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Creates a pod, again where the cluster has no leader just now.
async fn create_pod(client: &Client, index: usize) {
    let requests = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let pod = json!({
        "metadata": {"name": format!("p{index}")},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": requests}]},
    });
    let began = Instant::now();
    loop {
        let answer = client.post("/api/v1/namespaces/default/pods", &pod).await;
        // 409: an attempt whose answer was lost has made it.
        if answer.as_ref().is_ok_and(|answer| matches!(answer.status, 201 | 409)) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until_bound(bound: &AtomicUsize, least: usize) {
    until(PATIENCE, "pods are bound", async || (bound.load(Ordering::Relaxed) >= least).then_some(())).await;
}

/// The nodes of each pod, in the order in which the pod was on them.
struct History(HashMap<String, Vec<String>>);

impl History {
    /// Follows the pods until all are bound, counting those that are.
    async fn follow(mut watch: Watch, bound: Arc<AtomicUsize>) -> History {
        let mut nodes = HashMap::<String, Vec<String>>::new();
        while bound.load(Ordering::Relaxed) < PODS {
            let event = watch.line().await.unwrap().expect("the watch goes on");
            assert!(matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")), "{event}");
            let pod = &event["object"];
            let of_pod = nodes.entry(pod["metadata"]["uid"].as_str().unwrap().to_owned()).or_default();
            let Some(node) = pod["spec"].get("nodeName").and_then(Value::as_str) else {
                assert!(of_pod.is_empty(), "a pod left its node: {pod}");
                continue;
            };
            if of_pod.last().map(String::as_str) != Some(node) {
                bound.fetch_add(usize::from(of_pod.is_empty()), Ordering::Relaxed);
                of_pod.push(node.to_owned());
            }
        }
        History(nodes)
    }

    fn judge(&self) {
        assert_eq!(self.0.len(), PODS);
        let mut places = HashMap::<&str, usize>::new();
        for (pod, nodes) in &self.0 {
            assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
            *places.entry(&nodes[0]).or_default() += 1;
        }
        let over: Vec<_> = places.iter().filter(|(_, count)| **count > PLACES).collect();
        assert!(over.is_empty(), "over {PLACES}: {over:?}");
    }
}
