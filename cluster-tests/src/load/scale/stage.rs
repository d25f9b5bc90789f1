//! The stage of each work of thousands of watches: servers, a namespace of its own, an administrator, a meter.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::descriptors;
use super::link::Crowd;
use super::meter::Meter;
use super::options::Common;
use crate::client::{Client, Identity};
use crate::cluster::Cluster;
use crate::load::multiplex::Multiplexed;
use crate::load::server::Servers;
use crate::load::target::Target;
use crate::load::{OPERATION_TIMEOUT, fixture};

/// Polling interval of conditions.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Time that a server which was not started for the run has for the default account of a new namespace.
const ACCOUNT_TIME_MAX: Duration = Duration::from_secs(5);

/// The surroundings of a work.
pub(super) struct Stage {
    pub(super) crowd: Arc<Crowd>,
    /// The servers, with access that speaks HTTP/2.
    pub(super) targets: Arc<[Target]>,
    pub(super) admin: Client,
    /// A connection of the writers' own.
    pub(super) writer: Multiplexed,
    pub(super) meter: Meter,
    pub(super) namespace: String,
    setup: Target,
    /// Whether the servers were started for the run.
    is_started: bool,
    cluster: Mutex<Option<Cluster>>,
}

/// Opens the servers of `common` for `connections`, and runs `work` on their stage.
pub(super) fn run<T>(
    common: &Common,
    connections: u32,
    work: impl AsyncFnOnce(&Stage) -> Result<T>,
) -> Result<T> {
    descriptors::raise()?;
    descriptors::check_own(connections)?;
    let servers = common.server.open()?;
    descriptors::check_servers(connections, servers.targets.len(), &servers.pids)?;
    let namespace = format!("bench-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
    let setup = servers.targets.first().context("there is no server")?.clone();
    fixture::make_namespace(&setup, &namespace)?;
    let runtime = runtime(common.threads)?;
    let stage = runtime.block_on(Box::pin(Stage::open(servers, setup, namespace)))?;
    let outcome = runtime.block_on(Box::pin(work(&stage)));
    // Tasks of watches end here, before the servers do.
    runtime.shutdown_timeout(Duration::from_secs(10));
    if !stage.is_started
        && let Err(error) = fixture::remove(&stage.setup, &stage.namespace)
    {
        eprintln!("the namespace {} stays behind: {error:#}", stage.namespace);
    }
    outcome
}

fn runtime(threads: u32) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(threads as usize).enable_all().build()?)
}

impl Stage {
    async fn open(servers: Servers, setup: Target, namespace: String) -> Result<Stage> {
        let Servers { cluster, targets, pids } = servers;
        let http2 = |target: &Target| Target { access: target.access.with_protocol("h2"), ..target.clone() };
        let targets: Arc<[Target]> = targets.iter().map(http2).collect();
        let admin = Client::new(setup.endpoint.clone(), setup.access.clone()).with_timeout(OPERATION_TIMEOUT);
        let writer = Multiplexed::open(&targets[0]).await?;
        let meter = Meter::start(&pids);
        let (is_started, cluster) = (cluster.is_some(), Mutex::new(cluster));
        let stage = Stage {
            crowd: Crowd::new()?,
            targets,
            admin,
            writer,
            meter,
            namespace,
            setup,
            is_started,
            cluster,
        };
        stage.await_account().await?;
        Ok(stage)
    }

    /// Path of the pods of the namespace.
    pub(super) fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Waits for the account without which servers with the usual admission refuse pods.
    async fn await_account(&self) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.namespace);
        let began = Instant::now();
        while !self.is_started && began.elapsed() < ACCOUNT_TIME_MAX {
            if self.admin.get(&path).await?.status == 200 {
                break;
            }
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Makes a pod that runs on `node`.
    pub(super) async fn make_pod(&self, name: &str, node: &str) -> Result<()> {
        let answer = self.admin.post(&self.pods(), &pod(name, Some(node))).await?;
        answer.success().with_context(|| format!("cannot make the pod {name}"))?;
        Ok(())
    }

    /// Directory of the certificates of servers that were started.
    pub(super) async fn certificates(&self) -> Result<PathBuf> {
        let cluster = self.cluster.lock().await;
        let cluster =
            cluster.as_ref().context("the key of the servers' authority is not at hand: --start NODES")?;
        Ok(cluster.certificates())
    }

    /// The servers for another client.
    pub(super) fn targets_as(&self, identity: Identity) -> Arc<[Target]> {
        let access = self.targets[0].access.with_identity(identity);
        self.targets.iter().map(|target| Target { access: access.clone(), ..target.clone() }).collect()
    }

    /// Whether the servers were started for the run, so that their authority is at hand.
    pub(super) fn is_started(&self) -> bool {
        self.is_started
    }

    /// Lets `group` do everything.
    pub(super) async fn grant_all(&self, group: &str) -> Result<()> {
        let rbac = self.group("rbac.").await?;
        let body = json!({
            "metadata": {"name": group},
            "subjects": [{"kind": "Group", "apiGroup": rbac, "name": group}],
            "roleRef": {"kind": "ClusterRole", "apiGroup": rbac, "name": "cluster-admin"},
        });
        let path = format!("/apis/{rbac}/v1/clusterrolebindings");
        self.admin.post(&path, &body).await?.success().with_context(|| format!("cannot bind {group}"))?;
        Ok(())
    }

    /// Name of the API group that begins with `start`, under every brand.
    pub(super) async fn group(&self, start: &str) -> Result<String> {
        let groups = self.admin.get("/apis").await?.success()?;
        let mut names =
            groups["groups"].as_array().into_iter().flatten().filter_map(|group| group["name"].as_str());
        let group = names.find(|name| name.starts_with(start));
        group.map(str::to_owned).with_context(|| format!("no group {start} is served"))
    }

    /// Kills the leader; the time just before.
    pub(super) async fn kill_leader(&self) -> Result<Instant> {
        let mut cluster = self.cluster.lock().await;
        let cluster = cluster.as_mut().context("only servers that were started are killed: --start 3")?;
        let leader = cluster.leader().await?;
        let at = Instant::now();
        cluster.kill(leader)?;
        Ok(at)
    }

    /// Waits until the streams of all `watches` are open.
    pub(super) async fn wait_standing(&self, watches: u64, patience: Duration) -> Result<()> {
        self.wait("watches stand", &self.crowd.standing, |count| count == watches, patience).await
    }

    /// Waits until `counter`, a number of `what`, is as wanted.
    pub(super) async fn wait(
        &self,
        what: &str,
        counter: &AtomicU64,
        is_wanted: impl Fn(u64) -> bool,
        patience: Duration,
    ) -> Result<()> {
        let began = Instant::now();
        while !is_wanted(counter.load(Ordering::Acquire)) {
            if began.elapsed() > patience {
                let (count, failures) = (counter.load(Ordering::Acquire), self.crowd.failures());
                let excused = self.crowd.excused();
                bail!("{count} {what} after {patience:?}; failures: {failures:?}, after a kill: {excused:?}");
            }
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }
}

/// Name of node `number`.
pub(super) fn node_name(number: u32) -> String {
    format!("bench-{number}")
}

/// A pod of one container, on `node` if there is one.
pub(super) fn pod(name: &str, node: Option<&str>) -> Value {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    let container = json!({"name": "main", "image": "image", "resources": {"requests": requests}});
    let mut spec = json!({"containers": [container], "automountServiceAccountToken": false});
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}
