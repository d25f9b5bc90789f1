//! Operations and accidents of members: stopping, emptied and full disks, replacement, memory and descriptors.
//!
//! A member that ends is reaped here. Its exit code and log are returned, so that a test can tell why it ended.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::node::Node;
use super::{Cluster, LOOK_INTERVAL, NAMES, READY_TIMEOUT, binary, free_ports};
use crate::load::process::{Memory, memory};

/// Log lines of a member that has read the certificates of its two ports again.
const RELOADED: [&str; 2] = [r#"reloaded what="api certificates""#, r#"reloaded what="peer certificates""#];

/// Exit of a member's process.
#[derive(Debug)]
pub struct Ending {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Complete log of all its starts.
    pub log: String,
}

impl Cluster {
    /// Data directory of member `node`.
    pub fn data(&self, node: usize) -> PathBuf {
        self.nodes[node].data().to_owned()
    }

    /// Complete log of member `node`.
    pub fn log(&self, node: usize) -> Result<String> {
        self.nodes[node].whole_log()
    }

    /// Waits until member `node` ends by itself.
    pub async fn wait_end(&mut self, node: usize, patience: Duration) -> Result<Ending> {
        let deadline = Instant::now() + patience;
        let node = &mut self.nodes[node];
        loop {
            if let Some(status) = node.take_end()? {
                return Ok(Ending { code: status.code(), log: node.whole_log()? });
            }
            if Instant::now() > deadline {
                bail!("{} still runs after {patience:?}\n{}", node.name(), node.log());
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Sends SIGTERM to member `node` and waits until it has ended.
    pub async fn stop(&mut self, node: usize, patience: Duration) -> Result<Ending> {
        self.nodes[node].terminate()?;
        self.wait_end(node, patience).await
    }

    /// Has every member read its certificates again, and waits until each has read those of both ports.
    pub async fn reload_certificates(&self) -> Result<()> {
        let counts = |node: &Node| -> Result<[usize; 2]> {
            let log = node.whole_log()?;
            Ok(RELOADED.map(|line| log.matches(line).count()))
        };
        let before = self.nodes.iter().map(counts).collect::<Result<Vec<_>>>()?;
        self.nodes.iter().try_for_each(Node::hang_up)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        for (node, before) in self.nodes.iter().zip(before) {
            while counts(node)?.iter().zip(before).any(|(now, before)| *now == before) {
                ensure!(Instant::now() < deadline, "{} reads no certificates\n{}", node.name(), node.log());
                sleep(LOOK_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Restarts a killed member with a file size limit of `kilobytes`, without waiting for readiness.
    pub fn respawn_cramped(&mut self, node: usize, kilobytes: u64) -> Result<()> {
        self.nodes[node].spawn_cramped(kilobytes)
    }

    /// Removes the data directory of a killed member.
    pub fn empty_disk(&self, node: usize) -> Result<()> {
        let data = self.nodes[node].data();
        fs::remove_dir_all(data).with_context(|| format!("cannot empty {}", data.display()))
    }

    /// Memory of the process of member `node`.
    pub fn memory(&self, node: usize) -> Result<Memory> {
        let pid = self.nodes[node].pid().context("the member does not run")?;
        memory(&[pid])?.pop().context("no figures of the process")
    }

    /// Open file descriptors of the process of member `node`. `None` without root: of a process that holds secrets the
    /// system shows them to root alone.
    pub fn descriptors(&self, node: usize) -> Result<Option<usize>> {
        let pid = self.nodes[node].pid().context("the member does not run")?;
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(open) => Ok(Some(open.count())),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the next spare to the cluster as a learner, starts it and returns its number. It may not be ready yet.
    pub async fn add(&mut self) -> Result<usize> {
        let number = self.nodes.len();
        ensure!(number < NAMES.len(), "no name is left");
        let name = NAMES[number];
        let running = self.nodes.iter().position(Node::is_running).context("no member runs")?;
        let through = self.status(running).await?;
        let door = through.members.iter().find(|member| member.name == through.name);
        let join = door.context("the member does not know itself")?.address.clone();
        let address = format!("127.0.0.1:{}", free_ports(1)?[0]);
        self.operate(running, &["add", name, &address])?;
        let flags = vec![format!("--join={join}"), format!("--peer-address={address}")];
        let brand = format!("--brand={}", self.brand);
        let flags = flags.into_iter().chain([brand]).chain(self.flags.iter().cloned()).collect();
        let mut node = Node::new(&binary::find("orch")?, self.folder.path(), name, flags);
        node.spawn()?;
        self.nodes.push(node);
        Ok(number)
    }

    /// Runs `orch cluster` with `arguments` against member `through` and returns its output.
    pub fn operate(&self, through: usize, arguments: &[&str]) -> Result<String> {
        let config = self.operator_config(through)?;
        let mut command = Command::new(binary::find("orch")?);
        let output = command.arg("cluster").args(arguments).arg("--kubeconfig").arg(&config).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        // A status tells the health of the cluster by its code.
        let is_told = arguments.first() == Some(&"status") && matches!(output.status.code(), Some(3 | 4));
        ensure!(output.status.success() || is_told, "orch cluster {}: {errors}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `orch` with `arguments`, whatever comes of it.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new(binary::find("orch")?).args(arguments).output()?)
    }

    /// Runs `orch cluster` until it succeeds or `patience` is over: a change is refused while another is under way, for
    /// example.
    pub async fn operate_until_done(
        &self,
        through: usize,
        arguments: &[&str],
        patience: Duration,
    ) -> Result<String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.operate(through, arguments) {
                Ok(shown) => return Ok(shown),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(LOOK_INTERVAL * 10).await,
            }
        }
    }

    /// Founds the cluster, once all members listen.
    pub(super) async fn found(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while self.nodes[0].endpoint().is_none() {
            self.nodes[0].check_alive()?;
            ensure!(Instant::now() < deadline, "the first member does not listen\n{}", self.nodes[0].log());
            sleep(LOOK_INTERVAL).await;
        }
        self.operate_until_done(0, &["found"], READY_TIMEOUT).await.map(drop)
    }

    /// The name of member `node`.
    pub fn name(&self, node: usize) -> &str {
        self.nodes[node].name()
    }

    /// The administrator's kubeconfig with the port that the system chose for member `through`.
    fn operator_config(&self, through: usize) -> Result<PathBuf> {
        let endpoint = self.nodes[through].endpoint().context("the member does not run")?;
        let made: PathBuf = self.certificates().join("admin.conf");
        let mut config: Value = serde_json::from_str(&read(&made)?)?;
        let mut cluster = config["clusters"][0].take();
        cluster["cluster"]["server"] = endpoint.to_string().into();
        config["clusters"] = vec![cluster].into();
        let path = self.folder.path().join("operator.conf");
        fs::write(&path, config.to_string())?;
        Ok(path)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
