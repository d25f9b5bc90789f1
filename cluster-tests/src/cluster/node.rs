//! One `orch serve` process: its directory, its log, its signals. Dropping the handle kills and reaps the process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::Endpoint;

/// Lines of a member's log in an error message.
const LOG_LINES_MAX: usize = 60;

/// A member, running or not.
pub(super) struct Node {
    name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    data: PathBuf,
    log: PathBuf,
    descriptors: Option<u32>,
    child: Option<Child>,
    paused: bool,
}

/// A small disk reserve, so that a machine with a nearly full disk does not refuse the objects of tests.
const RESERVE: &str = "--disk-reserve=64Mi";

/// No namespace gets an account and a config map by itself.
const PLAIN: [&str; 2] = [
    "--controllers=*,-serviceaccount-controller,-root-ca-certificate-publisher-controller",
    "--disable-admission-plugins=ServiceAccount",
];

impl Node {
    /// A member that does not run yet; its files are under `folder`.
    pub(super) fn new(binary: &Path, folder: &Path, name: &str, flags: Vec<String>) -> Self {
        let data = folder.join(name);
        let mut arguments = vec![
            "serve".to_owned(),
            format!("--name={name}"),
            format!("--data-dir={}", data.display()),
            format!("--certs-dir={}", folder.join("certs").display()),
            format!("--token-auth-file={}", folder.join("tokens.csv").display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        if !flags.iter().any(|flag| flag.starts_with("--disk-reserve")) {
            arguments.push(RESERVE.to_owned());
        }
        if !flags.iter().any(|flag| flag.starts_with("--controllers")) {
            arguments.extend(PLAIN.map(str::to_owned));
        }
        arguments.extend(flags);
        let log = folder.join(format!("{name}.log"));
        Self {
            name: name.to_owned(),
            binary: binary.to_owned(),
            arguments,
            data,
            log,
            descriptors: None,
            child: None,
            paused: false,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Limits the process to `count` file descriptors.
    pub(super) fn limit_descriptors(&mut self, count: u32) {
        self.descriptors = Some(count);
    }

    /// Starts with `program` from the next start on.
    pub(super) fn use_program(&mut self, program: &Path) {
        program.clone_into(&mut self.binary);
    }

    /// Starts the process; its output is appended to the log.
    pub(super) fn spawn(&mut self) -> Result<()> {
        self.start(None)
    }

    /// Starts the process with a file size limit of `kilobytes`, beyond which writes fail as on a full disk.
    pub(super) fn spawn_cramped(&mut self, kilobytes: u64) -> Result<()> {
        self.start(Some(kilobytes))
    }

    /// The program with its arguments, under its resource limits.
    fn command(&self, kilobytes: Option<u64>) -> Command {
        let mut script = String::new();
        if let Some(count) = self.descriptors {
            script += &format!("ulimit -n {count}; ");
        }
        if let Some(kilobytes) = kilobytes {
            // Without the trap SIGXFSZ would end the process; an ignored signal stays ignored after exec.
            script += &format!("trap '' XFSZ; ulimit -f {kilobytes}; ");
        }
        if script.is_empty() {
            let mut command = Command::new(&self.binary);
            command.args(&self.arguments);
            return command;
        }
        let mut command = Command::new("bash");
        command.arg("-c").arg(script + "exec \"$0\" \"$@\"").arg(&self.binary).args(&self.arguments);
        command
    }

    fn start(&mut self, kilobytes: Option<u64>) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", self.name);
        }
        let _ = fs::remove_file(self.endpoints_path()); // left by the last process; absent at the first start
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = self
            .command(kilobytes)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// It was started, and neither killed nor paused since.
    pub(super) fn is_running(&self) -> bool {
        self.child.is_some() && !self.paused
    }

    /// An error with the member's log if the process has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else { bail!("{} was not started", self.name) };
        if let Some(status) = child.try_wait()? {
            self.child = None;
            bail!("{} ended with {status}\n{}", self.name, self.log());
        }
        Ok(())
    }

    /// Exit status, once the process has ended by itself.
    pub(super) fn take_end(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { bail!("{} was not started", self.name) };
        let end = child.try_wait()?;
        if end.is_some() {
            self.child = None;
        }
        Ok(end)
    }

    /// Sends SIGTERM.
    pub(super) fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGHUP, on which it reads its certificates again.
    pub(super) fn hang_up(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }

    /// Process id while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Its HTTPS endpoint, once it listens.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        self.child.as_ref()?;
        let text = fs::read_to_string(self.endpoints_path()).ok()?;
        let endpoints: Value = serde_json::from_str(&text).ok()?;
        endpoints["https"].as_str()?.parse().ok()
    }

    /// Kills and reaps it.
    pub(super) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        self.paused = false;
        Ok(())
    }

    /// Sends SIGSTOP.
    pub(super) fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    /// Sends SIGCONT.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)?;
        self.paused = false;
        Ok(())
    }

    /// Its data directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Complete log of all its starts.
    pub(super) fn whole_log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// The last lines of its log, headed by its name.
    pub(super) fn log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let end = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
        format!("--- log of {}\n{}", self.name, end.join("\n"))
    }

    fn endpoints_path(&self) -> PathBuf {
        self.data.join("endpoints.json")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.context("the member does not run")?, signal)?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{} could not be reaped: {error:#}", self.name);
        }
    }
}
