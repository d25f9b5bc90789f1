//! The scheduler beside a node for development: a process of its own, started again when it ends.
//!
//! Owns that process: its flags, the pauses between starts, its end. It decides nothing about pods.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use orch_proto::Brand;
use orch_proto::environment::STOP_WITH_STDIN;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::cli::LogFormat;
use crate::logging;

/// Name of the program, which is installed beside this one.
const PROGRAM: &str = "scheduler";
/// How often the node is asked whether it is ready. It is within half a second of its start.
const READY_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before the second start in a row.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: an end whose cause is mended, a port that is free again, is noticed within it.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A process that lived this long did not end for want of something at its start.
const LASTING: Duration = Duration::from_secs(60);
/// Longest wait for its end. It gives up its lease in a request or two.
const END_MAX: Duration = Duration::from_secs(5);

/// Where the scheduler of a node for development comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// None is wanted.
    Unwanted,
    /// This program.
    Program(PathBuf),
    /// It should be this program, which does not exist.
    Missing(PathBuf),
}

impl Scheduler {
    /// The program beside the running one.
    pub(super) fn beside_this_program() -> io::Result<Scheduler> {
        let path = std::env::current_exe()?.with_file_name(PROGRAM);
        Ok(if path.is_file() { Scheduler::Program(path) } else { Scheduler::Missing(path) })
    }
}

/// A running scheduler, or one that waits to be started again.
#[derive(Debug)]
pub(super) struct Supervised {
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Supervised {
    /// Starts `program` with the client configuration `config` of a cluster of `brand`, once the node whose requests
    /// `router` takes is ready: before, the scheduler would be turned away, as its rights are not stored yet.
    pub(super) fn start(program: &Path, config: &Path, brand: &Brand, router: Router) -> Supervised {
        let stopping = CancellationToken::new();
        let format = logging::format().unwrap_or(LogFormat::Text);
        let started = Start { program: program.to_owned(), flags: flags(config, brand, format), format };
        let stopped = stopping.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = ready(router) => supervise(started, stopped).await,
                () = stopped.clone().cancelled_owned() => {}
            }
        });
        Supervised { stopping, task }
    }

    /// Ends it and waits for its end, while the node still takes the requests with which it gives up its lease.
    pub(super) async fn stop(self) {
        self.stopping.cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the scheduler's supervisor failed");
        }
    }
}

/// The program, its flags and the form of its log lines, which is that of the node's.
struct Start {
    program: PathBuf,
    flags: Vec<String>,
    format: LogFormat,
}

/// A lease that another holds is waited for at most these five seconds: after a crash people wait for their pods.
fn flags(config: &Path, brand: &Brand, format: LogFormat) -> Vec<String> {
    let format = match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    vec![
        format!("--logging-format={format}"),
        format!("--brand={}", brand.name),
        format!("--{}config={}", brand.component_prefix, config.display()),
        // Several nodes for development may run on one machine: none of their schedulers takes the usual port.
        "--secure-port=0".to_owned(),
        // Its lines get the node's time: held back, they would get a wrong one.
        "--log-flush-frequency=0s".to_owned(),
        "--leader-elect-lease-duration=5s".to_owned(),
        "--leader-elect-renew-deadline=4s".to_owned(),
        "--leader-elect-retry-period=1s".to_owned(),
    ]
}

async fn ready(router: Router) {
    loop {
        let request = Request::get("/readyz").body(Body::empty()).expect("a request for a constant path");
        let Ok(answer) = router.clone().oneshot(request).await;
        if answer.status().is_success() {
            return;
        }
        tokio::time::sleep(READY_INTERVAL).await;
    }
}

async fn supervise(start: Start, stopping: CancellationToken) {
    let mut pause = PAUSE_MIN;
    while !stopping.is_cancelled() {
        let started = Instant::now();
        let ended = run(&start, &stopping).await;
        if started.elapsed() >= LASTING {
            pause = PAUSE_MIN;
        }
        match ended {
            _ if stopping.is_cancelled() => return,
            Ok(status) => {
                tracing::warn!(%status, "the scheduler ended, and will be started again in {pause:?}")
            }
            Err(error) => {
                tracing::warn!(%error, program = %start.program.display(), "the scheduler cannot be started; next attempt in {pause:?}");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
            () = stopping.cancelled() => {}
        }
    }
}

/// Runs the program to its end, which `stopping` brings about.
async fn run(start: &Start, stopping: &CancellationToken) -> io::Result<ExitStatus> {
    let mut child = Command::new(&start.program)
        .args(&start.flags)
        .env(STOP_WITH_STDIN, "1")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for the node, which ends the scheduler first.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    // Waiting for its end would close the input, and so bring it about.
    let input = child.stdin.take();
    if let Some(lines) = child.stderr.take() {
        tokio::spawn(pass_on(lines, start.format));
    }
    tokio::select! {
        status = child.wait() => return status,
        () = stopping.cancelled() => {}
    }
    end(child, input).await
}

/// Writes its log lines as lines of the node's log, in the form that this one has.
async fn pass_on(lines: ChildStderr, format: LogFormat) {
    let mut lines = BufReader::new(lines).lines();
    loop {
        match lines.next_line().await {
            Ok(Some(line)) => pass_on_line(&line, format),
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "a log line of the scheduler is lost"),
        }
    }
}

fn pass_on_line(line: &str, format: LogFormat) {
    let event = match format {
        LogFormat::Text => None,
        LogFormat::Json => own_event(line),
    };
    match event {
        // Standard error may be closed; the line then has no other destination.
        Some(event) => drop(io::stderr().write_all(event.as_bytes())),
        None => log(line),
    }
}

/// The event that `line` is in JSON, as a line of the node's log: the message names the scheduler, and fields stay fields. `None`
/// for a line that is none.
fn own_event(line: &str) -> Option<String> {
    let mut event: Map<String, Value> = serde_json::from_str(line).ok()?;
    let Some(Value::String(message)) = event.get_mut("message") else { return None };
    message.insert_str(0, "scheduler: ");
    Some(serde_json::to_string(&event).ok()? + "\n")
}

/// `line` is a time, a level and the text, or lines of a panic.
fn log(line: &str) {
    let mut parts = line.splitn(2, ' ');
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_time = first.ends_with('Z') && first.starts_with(|c: char| c.is_ascii_digit());
    let text = if is_time { rest.trim_start() } else { line };
    let (level, message) = text.split_once(' ').unwrap_or(("", text));
    match level {
        "INFO" => tracing::info!("scheduler: {message}"),
        "DEBUG" | "TRACE" => tracing::debug!("scheduler: {message}"),
        "WARN" => tracing::warn!("scheduler: {message}"),
        "ERROR" => tracing::error!("scheduler: {message}"),
        _ => tracing::error!("scheduler: {text}"),
    }
}

async fn end(mut child: Child, input: Option<ChildStdin>) -> io::Result<ExitStatus> {
    drop(input);
    if let Ok(ended) = tokio::time::timeout(END_MAX, child.wait()).await {
        return ended;
    }
    tracing::warn!("the scheduler did not end in time and is killed");
    child.kill().await?;
    child.wait().await
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;

    /// A program that writes its flags to `out`, and then does `rest`.
    fn program(directory: &Path, rest: &str) -> PathBuf {
        let path = directory.join("program");
        let script = format!("#!/bin/sh\necho \"$@\" >> {}/out\n{rest}\n", directory.display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// A node that becomes ready when it is asked again.
    fn ready_node() -> Router {
        let asked = std::sync::atomic::AtomicBool::new(false);
        let asked = std::sync::Arc::new(asked);
        Router::new().fallback(move || async move {
            match asked.swap(true, std::sync::atomic::Ordering::Relaxed) {
                true => http::StatusCode::OK,
                false => http::StatusCode::INTERNAL_SERVER_ERROR,
            }
        })
    }

    async fn starts(directory: &Path, least: usize) -> String {
        loop {
            let text = std::fs::read_to_string(directory.join("out")).unwrap_or_default();
            if text.lines().count() >= least {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_scheduler_that_ends_is_started_again_and_a_running_one_ends_with_its_input() {
        let directory = tempfile::tempdir().unwrap();
        let marks = directory.path().display();
        // The first one fails; the second one waits for the end of its input.
        let rest =
            format!("[ -e {marks}/first ] || {{ touch {marks}/first; exit 3; }}\ncat\ntouch {marks}/ended");
        let program = program(directory.path(), &rest);
        let config = Path::new("/data/scheduler.conf");
        let supervised = Supervised::start(&program, config, &KUBERNETES, ready_node());
        let text = starts(directory.path(), 2).await;
        assert!(
            text.contains("--brand=kubernetes --kubeconfig=/data/scheduler.conf --secure-port=0"),
            "{text}"
        );
        assert!(text.contains(" --log-flush-frequency=0s"), "lines come when they are written: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!directory.path().join("ended").exists(), "it runs until it is told");
        supervised.stop().await;
        assert!(directory.path().join("ended").exists(), "it ended by itself");
        assert_eq!(starts(directory.path(), 2).await.lines().count(), 2);
    }

    #[test]
    fn events_in_json_keep_their_fields() {
        let line =
            r#"{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","message":"new leader","holder":"a"}"#;
        let event = own_event(line).unwrap();
        assert!(event.ends_with("}\n"), "{event}");
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!(
            (&event["message"], &event["holder"]),
            (&"scheduler: new leader".into(), &"a".into()),
            "{event}"
        );
        for other in ["2026-01-01T00:00:00Z  INFO new leader holder=a", "note: run with", "{}", "[1]"] {
            assert_eq!(own_event(other), None, "{other}");
        }
        let flags = flags(Path::new("/x"), &ORCH, LogFormat::Json);
        assert!(flags.contains(&"--logging-format=json".to_owned()), "{flags:?}");
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_started_does_not_keep_the_node_from_stopping() {
        let program = Path::new("/nowhere/scheduler");
        let supervised = Supervised::start(program, Path::new("/x"), &ORCH, ready_node());
        tokio::time::sleep(2 * READY_INTERVAL).await;
        supervised.stop().await;
    }
}
