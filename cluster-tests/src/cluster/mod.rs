//! A cluster of real `orch serve` processes on loopback, for tests and for the benchmark.
//!
//! Owns the processes, their directories and their certificates: dropping a `Cluster` kills and reaps every process (by
//! its handle, never by name) and removes every file. Tests see the cluster only from outside, through the API and `GET
//! /orch/v1/cluster`. One cluster runs at a time on a machine's target directory: two would compete for the cores and
//! cause elections by slowness.

mod alone;
mod binary;
mod node;
mod scheduler;
mod status;
mod upkeep;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::client::{Access, Client, Endpoint, Identity, Response, Trust};
pub use crate::load::process::Memory;
pub use alone::{Alone, alone};
pub use binary::find as program;
use node::Node;
pub use scheduler::Scheduler;
pub use status::{Member, Status};
pub use upkeep::Ending;

/// The administrator's token, in the group `system:masters`.
pub const ADMIN_TOKEN: &str = "admintoken";

/// The token of `alice`, in the group `devs`.
pub const ALICE_TOKEN: &str = "alicetoken";

/// The token of `bob`, in the group `devs`.
pub const BOB_TOKEN: &str = "bob-27c4e8a150d96bf3";

/// Timeout of a cluster's start, an election under load included. It is far above the promised time: a test that
/// measures the promise has its own bound.
pub const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Polling interval of conditions.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Names of members. Five is the largest supported cluster.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Size and flags of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of members, one to five.
    pub nodes: usize,
    /// Brand of the names on the wire: `orch` or `kubernetes`.
    pub brand: &'static str,
    /// Further flags of `orch serve`. Without `--controllers` among them, no namespace gets objects by itself, and pods need
    /// no account: most tests count objects.
    pub flags: Vec<String>,
    /// Further members that get certificates but do not belong to the cluster yet; see [`Cluster::add`].
    pub spares: usize,
    /// Limit of file descriptors of each process; `None` leaves the system's.
    pub descriptors: Option<u32>,
    /// The program that makes the certificates and that members start with; `None` for the one built with this harness.
    pub program: Option<PathBuf>,
}

impl Options {
    /// A cluster of `nodes` members with default options.
    pub fn nodes(nodes: usize) -> Self {
        Self { nodes, brand: "orch", flags: Vec::new(), spares: 0, descriptors: None, program: None }
    }

    /// The same with default accounts and the config map of the authority in every namespace, as without flags.
    pub fn with_service_accounts(mut self) -> Self {
        self.flags
            .extend(["--controllers=*".to_owned(), "--enable-admission-plugins=ServiceAccount".to_owned()]);
        self
    }
}

/// A running cluster. Members are numbered from 0.
pub struct Cluster {
    // Fields drop in this order: processes first, then their files, then the lock.
    nodes: Vec<Node>,
    folder: TempDir,
    ready: Duration,
    authority: Vec<u8>,
    brand: &'static str,
    /// Flags of every member, of those that are added later, too.
    flags: Vec<String>,
    _alone: Alone,
}

impl Cluster {
    /// Starts a cluster and waits until every member is ready.
    pub async fn start(options: Options) -> Result<Self> {
        let named = options.nodes + options.spares;
        ensure!(options.nodes >= 1 && named <= NAMES.len(), "a cluster has one to {} members", NAMES.len());
        let binary = options.program.map_or_else(|| binary::find("orch"), Ok)?;
        let alone = alone().await?;
        let folder = tempfile::Builder::new().prefix("orch-cluster-").tempdir()?;
        let names = &NAMES[..options.nodes];
        make_certificates(&binary, folder.path(), &NAMES[..named], options.brand)?;
        write_tokens(folder.path())?;
        let ports = free_ports(names.len())?;
        let entries: Vec<_> =
            names.iter().zip(ports).map(|(name, port)| format!("{name}=127.0.0.1:{port}")).collect();
        let initial_cluster = entries.join(",");
        let nodes = names
            .iter()
            .map(|name| {
                let mut flags = vec![format!("--initial-cluster={initial_cluster}")];
                flags.push(format!("--brand={}", options.brand));
                flags.extend(options.flags.iter().cloned());
                Node::new(&binary, folder.path(), name, flags)
            })
            .collect();
        let authority = fs::read(folder.path().join("certs/ca.crt"))?;
        let brand = options.brand;
        let flags = options.flags.clone();
        let mut cluster =
            Self { nodes, folder, ready: Duration::ZERO, authority, brand, flags, _alone: alone };
        let start = Instant::now();
        for node in &mut cluster.nodes {
            if let Some(count) = options.descriptors {
                node.limit_descriptors(count);
            }
            node.spawn()?;
        }
        cluster.found().await?;
        for node in 0..cluster.nodes.len() {
            cluster.wait_ready(node).await?;
        }
        cluster.ready = start.elapsed();
        Ok(cluster)
    }

    /// Starts a cluster, for programs without a Tokio runtime.
    pub fn start_blocking(options: Options) -> Result<Self> {
        Builder::new_current_thread().enable_all().build()?.block_on(Self::start(options))
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// A client of member `node`, as the administrator.
    pub fn client(&self, node: usize) -> Result<Client> {
        self.client_as(node, Identity::Token(ADMIN_TOKEN.into()))
    }

    /// A client of member `node` with another identity, for the process that runs now: a restarted one has another
    /// port.
    pub fn client_as(&self, node: usize, identity: Identity) -> Result<Client> {
        let endpoint = self.nodes[node].endpoint().context("the member does not run")?;
        Ok(Client::new(endpoint, Access::new(Trust::Authority(self.authority.clone()), identity)))
    }

    /// Every member's endpoint with the administrator's access.
    pub fn doors(&self) -> Vec<(Endpoint, Access)> {
        let identity = Identity::Token(ADMIN_TOKEN.into());
        let access = Access::new(Trust::Authority(self.authority.clone()), identity);
        self.nodes.iter().filter_map(Node::endpoint).map(|endpoint| (endpoint, access.clone())).collect()
    }

    /// Process ids of the members that run.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(Node::pid).collect()
    }

    /// Milliseconds from the start of the processes until all were ready.
    pub fn ready_ms(&self) -> u64 {
        u64::try_from(self.ready.as_millis()).unwrap_or(u64::MAX)
    }

    /// Directory of the certificates that `orch certs init` made.
    pub fn certificates(&self) -> PathBuf {
        self.folder.path().join("certs")
    }

    /// Kills member `node` with SIGKILL and reaps it.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.nodes[node].kill()
    }

    /// Pauses member `node` (SIGSTOP); it keeps its connections and, if it leads, its belief to be the leader.
    pub fn pause(&mut self, node: usize) -> Result<()> {
        self.nodes[node].pause()
    }

    /// Resumes a paused member (SIGCONT).
    pub fn resume(&mut self, node: usize) -> Result<()> {
        self.nodes[node].resume()
    }

    /// Restarts a killed member on its data without waiting for readiness.
    pub fn respawn(&mut self, node: usize) -> Result<()> {
        self.nodes[node].spawn()
    }

    /// Lets member `node` start with `program` from its next start on.
    pub fn use_program(&mut self, node: usize, program: &Path) {
        self.nodes[node].use_program(program);
    }

    /// Waits until `/readyz` of member `node` answers 200.
    pub async fn wait_ready(&mut self, node: usize) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            self.nodes[node].check_alive()?;
            let seen = match self.readiness(node).await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Ok(answer) => format!("/readyz answers {}", answer.status),
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() > deadline {
                let node = &self.nodes[node];
                bail!("{} is not ready after {READY_TIMEOUT:?}: {seen}\n{}", node.name(), node.log());
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    async fn readiness(&self, node: usize) -> Result<Response> {
        self.client(node)?.with_timeout(Duration::from_secs(2)).get("/readyz").await
    }

    /// The cluster's status as member `node` reports it.
    pub async fn status(&self, node: usize) -> Result<Status> {
        let client = self.client(node)?.with_timeout(Duration::from_secs(2));
        let answer = client.get("/orch/v1/cluster").await?.success()?;
        serde_json::from_value(answer).context("the cluster's status is not as expected")
    }

    /// The leader that a majority of the members agree on; waits for it.
    pub async fn leader(&self) -> Result<usize> {
        self.agreed_leader(None).await
    }

    /// The next leader after `old` that a majority agree on; waits for it.
    pub async fn leader_other_than(&self, old: usize) -> Result<usize> {
        self.agreed_leader(Some(old)).await
    }

    async fn agreed_leader(&self, old: Option<usize>) -> Result<usize> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while Instant::now() < deadline {
            let mut votes = vec![0; self.nodes.len()];
            for node in 0..self.nodes.len() {
                if let Some(leader) = self.leader_seen_by(node).await {
                    votes[leader] += 1;
                }
            }
            let elected = votes.iter().position(|count| *count * 2 > self.nodes.len());
            if let Some(leader) = elected.filter(|leader| Some(*leader) != old) {
                return Ok(leader);
            }
            sleep(LOOK_INTERVAL).await;
        }
        bail!("no leader that most members agree on within {READY_TIMEOUT:?}")
    }

    async fn leader_seen_by(&self, node: usize) -> Option<usize> {
        if !self.nodes[node].is_running() {
            return None;
        }
        let status = self.status(node).await.ok()?;
        let name = status.leader_name()?;
        self.nodes.iter().position(|node| node.name() == name)
    }

    /// Waits until member `node` has applied at least `index`.
    pub async fn wait_applied(&self, node: usize, index: u64) -> Result<()> {
        self.wait_status(node, &format!("entry {index} applied"), |status| status.applied >= index).await?;
        Ok(())
    }

    /// Waits until `node` is in a later term than `term`; its status then. A leader that was paused shows the old term until
    /// it has heard of the next leader.
    ///
    /// # Errors
    /// It is in none in time.
    pub async fn wait_later_term(&self, node: usize, term: u64) -> Result<Status> {
        self.wait_status(node, &format!("a term after {term}"), |status| status.term > term).await
    }

    async fn wait_status(
        &self,
        node: usize,
        wanted: &str,
        is_wanted: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut last = None;
        while Instant::now() < deadline {
            last = self.status(node).await.ok();
            if let Some(found) = last.take_if(|status| is_wanted(status)) {
                return Ok(found);
            }
            sleep(LOOK_INTERVAL).await;
        }
        bail!("{} has not {wanted} after {READY_TIMEOUT:?}, but {last:?}", self.nodes[node].name())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                eprintln!("{}", node.log());
            }
        }
    }
}

fn make_certificates(binary: &Path, folder: &Path, names: &[&str], brand: &str) -> Result<()> {
    let mut command = Command::new(binary);
    command.args(["certs", "init", "--brand", brand, "--dir"]).arg(folder.join("certs"));
    for name in names {
        command.arg("--member").arg(format!("{name}=127.0.0.1,localhost"));
    }
    let output = command.output().with_context(|| format!("cannot run {}", binary.display()))?;
    if !output.status.success() {
        bail!("`orch certs init` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn write_tokens(folder: &Path) -> Result<()> {
    let text = format!(
        "{ADMIN_TOKEN},admin,admin-uid,\"system:masters\"\n{ALICE_TOKEN},alice,alice-uid,\"devs\"\n{BOB_TOKEN},bob,3,\"devs\"\n"
    );
    fs::write(folder.join("tokens.csv"), text)?;
    Ok(())
}

/// Free loopback ports for peers, which must be known before the processes start. All are bound together while they are
/// chosen, so that they differ, and released just before use.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
