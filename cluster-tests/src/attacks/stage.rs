//! A cluster of one member with an attacking tenant and an honest one, each with all rights in a namespace of its own, and
//! the measuring of what an attack costs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use orch_proto::brand::ORCH;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::honest::{self, NAMESPACE, Work};
use super::report::Measured;
use crate::client::{Client, Identity};
use crate::cluster::{ADMIN_TOKEN, ALICE_TOKEN, BOB_TOKEN, Cluster, Options, Scheduler};
use crate::load::process::{cpu_time, memory};

/// Namespace of the attacking tenant.
pub(super) const TENANT: &str = "tenant";
/// Interval of looks at the memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

/// The cluster and its users.
pub(super) struct Stage {
    /// A scheduler, where the attack is on it. It ends before the cluster.
    pub(super) scheduler: Option<Scheduler>,
    pub(super) cluster: Cluster,
    pub(super) admin: Client,
    /// The attacker.
    pub(super) tenant: Client,
    /// Files and servers that the cluster's flags name.
    pub(super) surroundings: Option<Surroundings>,
    honest: Client,
}

/// Surroundings of the cluster that outlive it: files that its flags name, and another server.
pub(super) struct Surroundings {
    pub(super) _folder: TempDir,
    pub(super) _hook: super::hook::Hook,
}

impl Stage {
    /// A cluster with `flags` of its member.
    pub(super) async fn start(flags: Vec<String>) -> Result<Stage> {
        let cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await?;
        let (stage, rbac) = (Stage::of(cluster)?, ORCH.group("rbac.authorization"));
        for (namespace, user) in [(TENANT, "alice"), (NAMESPACE, "bob")] {
            stage.make("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await?;
            let binding = json!({
                "metadata": {"name": user},
                "roleRef": {"apiGroup": &rbac, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": &rbac, "kind": "User", "name": user}],
            });
            stage.make(&format!("/apis/{rbac}/v1/namespaces/{namespace}/rolebindings"), binding).await?;
        }
        Ok(stage)
    }

    fn of(cluster: Cluster) -> Result<Stage> {
        let client = |token: &str| cluster.client_as(0, Identity::Token(token.into()));
        let (admin, tenant, honest) = (client(ADMIN_TOKEN)?, client(ALICE_TOKEN)?, client(BOB_TOKEN)?);
        Ok(Stage { scheduler: None, cluster, admin, tenant, surroundings: None, honest })
    }

    /// Kills the member and starts it again.
    pub(super) async fn restart(mut self) -> Result<Stage> {
        self.cluster.kill(0)?;
        self.cluster.respawn(0)?;
        self.cluster.wait_ready(0).await?;
        Stage::of(self.cluster)
    }

    /// Makes an object as the administrator.
    pub(super) async fn make(&self, path: &str, object: serde_json::Value) -> Result<()> {
        let answer = self.admin.post(path, &object).await?;
        answer.success().with_context(|| format!("cannot make an object in {path}"))?;
        Ok(())
    }

    /// Processes that are attacked.
    fn pids(&self) -> Vec<u32> {
        self.cluster.pids().into_iter().chain(self.scheduler.as_ref().map(Scheduler::pid)).collect()
    }

    /// Carries out `attack` for at most `most` beside the second client's work.
    pub(super) async fn measure(
        &self,
        work: Work,
        most: Duration,
        attack: impl Future<Output = Result<String>>,
    ) -> Result<Measured> {
        let stop = Arc::new(AtomicBool::new(false));
        let second = tokio::spawn(honest::work(self.honest.clone(), work, stop.clone()));
        let peak_kb = Arc::new(AtomicU64::new(0));
        let watch = tokio::spawn(watch_memory(self.pids(), peak_kb.clone(), stop.clone()));
        let before_kb = resident_kb(&self.pids());
        let (began, cpu) = (Instant::now(), cpu_time(&self.pids())?);
        let answers = match timeout(most, attack).await {
            Ok(answers) => answers?,
            Err(_) => format!("broken off after {most:?}"),
        };
        let (took, used) = (began.elapsed(), cpu_time(&self.pids())?.saturating_sub(cpu));
        stop.store(true, Ordering::Relaxed);
        watch.await?;
        let samples = second.await?;
        let peak_kb = peak_kb.load(Ordering::Relaxed);
        Ok(Measured { samples, took, cpu: used, before_kb, peak_kb, answers })
    }

    /// Cores that the processes use in the next `time`, in which nobody asks for anything.
    pub(super) async fn cores_in(&self, time: Duration) -> Result<f64> {
        let before = cpu_time(&self.pids())?;
        sleep(time).await;
        Ok(cpu_time(&self.pids())?.saturating_sub(before).as_secs_f64() / time.as_secs_f64())
    }

    /// Attacked processes that have ended, each with its log: the scheduler's watchdog ends it where planning hangs.
    pub(super) fn ended_processes(&self) -> Vec<String> {
        let scheduler = self.scheduler.iter().filter(|scheduler| memory(&[scheduler.pid()]).is_err());
        scheduler.map(|scheduler| format!("the scheduler ended:\n{}", scheduler.log())).collect()
    }
}

async fn watch_memory(pids: Vec<u32>, peak_kb: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        peak_kb.fetch_max(resident_kb(&pids), Ordering::Relaxed);
        sleep(MEMORY_INTERVAL).await;
    }
}

/// Resident memory of all of `pids` together; that of a process which ended is none.
fn resident_kb(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| memory(&[*pid]).ok()).flatten().map(|memory| memory.rss_kb).sum()
}
