//! One `scheduler` process of a cluster: its log and its signals. Dropping the handle kills and reaps the process.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{Cluster, binary};

/// Longest wait for the end of a process that was told to stop: it gives up its lease.
const END_MAX: Duration = Duration::from_secs(10);

/// A running scheduler.
pub struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Cluster {
    /// Starts a scheduler that reaches every member that runs, with the rights that `orch certs init` gives it. Its log is
    /// kept under `name`.
    pub fn scheduler(&self, name: &str, flags: &[&str]) -> Result<Scheduler> {
        let binary = binary::find("scheduler")?;
        let addresses: Vec<String> = self.doors().iter().map(|(door, _)| door.to_string()).collect();
        let prefix = if self.brand == "kubernetes" { "kube" } else { self.brand };
        let config = self.certificates().join("scheduler.conf");
        let log = self.folder.path().join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(&binary)
            .arg(format!("--brand={}", self.brand))
            .arg(format!("--{prefix}config={}", config.display()))
            .arg(format!("--master={}", addresses.join(",")))
            .arg("--secure-port=0")
            .args(flags)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        Ok(Scheduler { child, log })
    }
}

impl Scheduler {
    /// Kills it with SIGKILL and reaps it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for its end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM)?;
        let deadline = Instant::now() + END_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(super::LOOK_INTERVAL).await;
        }
        bail!("the scheduler did not stop within {END_MAX:?}\n{}", self.log())
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Ended already, where a test ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of a scheduler\n{}", self.log());
        }
    }
}
