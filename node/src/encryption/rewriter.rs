//! Rewriting the records of a running node, in the background.
//!
//! Owns at most one rewrite, its pace and its progress. The store does the work, and goes on where an interrupted one ended:
//! nothing but the records is remembered across a restart. The thread waits as long as it works, so that it takes at most
//! half of one processor, and writes at most so many bytes a second.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use orch_raft::disk::DiskError;
use orch_raft::disk::rocks::{Progress, RewriteEnd, Rewritten, RocksDisk};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of records that are examined in a second at most: a tenth of what a slow disk reads, and the same again where they
/// are written.
const BYTES_PER_SECOND_MAX: u64 = 32 << 20;
/// Longest wait after a step: an end of the node waits for it. Ranges of a compaction are steps of about a second.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// Rewrites the records of a node when asked to.
#[derive(Debug)]
pub struct Rewriter {
    disk: Weak<RocksDisk>,
    shared: Arc<Shared>,
    // The last rewrite that was started.
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    is_stopping: AtomicBool,
}

/// The state of the last rewrite.
#[derive(Clone, Debug)]
enum State {
    /// None was started since the node was.
    Idle,
    Running(Progress),
    Done(Rewritten),
    Failed(Progress, String),
}

/// The last rewrite, for the administrator.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// `idle`, `running`, `done` or `failed`.
    state: &'static str,
    examined: u64,
    rewritten: u64,
    /// Records that the store was estimated to hold when the rewrite began.
    estimated: u64,
    /// Ranges without older forms of records; counts after all records were examined.
    compacted: u64,
    ranges: u64,
    /// Keys that no record needs any more; empty before the end.
    unneeded: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Rewriter {
    /// For the records on `disk`.
    pub fn new(disk: Weak<RocksDisk>) -> Rewriter {
        let shared = Shared { state: Mutex::new(State::Idle), is_stopping: AtomicBool::new(false) };
        Rewriter { disk, shared: Arc::new(shared), task: Mutex::default() }
    }

    /// Starts a rewrite, unless one runs. Needs a runtime.
    pub fn start(&self) {
        let mut state = self.shared.state.lock();
        if matches!(*state, State::Running(_)) || self.shared.is_stopping.load(Ordering::Relaxed) {
            return;
        }
        *state = State::Running(Progress::default());
        drop(state);
        let (disk, shared) = (self.disk.clone(), Arc::clone(&self.shared));
        let task = spawn_blocking(move || match disk.upgrade() {
            Some(disk) => shared.run(&disk),
            None => {
                *shared.state.lock() = State::Failed(Progress::default(), "the disk is closed".to_owned())
            }
        });
        *self.task.lock() = Some(task);
    }

    /// The last rewrite.
    pub fn view(&self) -> View {
        let state = self.shared.state.lock().clone();
        let (name, progress, unneeded, reason) = match state {
            State::Idle => ("idle", Progress::default(), Vec::new(), None),
            State::Running(progress) => ("running", progress, Vec::new(), None),
            State::Done(Rewritten { progress, unneeded, .. }) => ("done", progress, unneeded, None),
            State::Failed(progress, reason) => ("failed", progress, Vec::new(), Some(reason)),
        };
        let Progress { examined, rewritten, estimated, compacted, ranges, .. } = progress;
        View { state: name, examined, rewritten, estimated, compacted, ranges, unneeded, reason }
    }

    /// Ends a running rewrite and waits until it has let go of the disk. None starts afterwards.
    pub async fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        let task = self.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the rewrite of records ended badly");
        }
    }
}

impl Shared {
    fn run(&self, disk: &RocksDisk) {
        tracing::info!("rewriting records with the keys that new records get");
        let mut pace = Pace::begin();
        let rewritten = disk.rewrite(&mut |progress| {
            *self.state.lock() = State::Running(progress);
            if self.is_stopping.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            std::thread::sleep(pace.wait(progress.bytes, Instant::now()));
            pace.resume(Instant::now());
            ControlFlow::Continue(())
        });
        self.end(rewritten);
    }

    fn end(&self, rewritten: Result<Rewritten, DiskError>) {
        let mut state = self.state.lock();
        let progress = if let State::Running(progress) = *state { progress } else { Progress::default() };
        *state = match rewritten {
            Ok(done) if done.end == RewriteEnd::Complete => {
                tracing::info!(records = done.progress.rewritten, unneeded = ?done.unneeded, "rewrote records");
                State::Done(done)
            }
            Ok(Rewritten { end: RewriteEnd::Stopped, .. }) => {
                State::Failed(progress, "the node stops; start it again to go on".to_owned())
            }
            Ok(Rewritten { end, .. }) => {
                let reason = format!("{end}; start it again to go on");
                tracing::warn!(reason, "records were not all rewritten");
                State::Failed(progress, reason)
            }
            Err(error) => {
                tracing::warn!(%error, "records were not all rewritten");
                State::Failed(progress, error.to_string())
            }
        };
    }
}

/// The share of time in which a rewrite works.
struct Pace {
    resumed: Instant,
    bytes: u64,
}

impl Pace {
    fn begin() -> Pace {
        Pace { resumed: Instant::now(), bytes: 0 }
    }

    /// The wait after a step, with `bytes` of records examined since the beginning.
    fn wait(&mut self, bytes: u64, now: Instant) -> Duration {
        let worked = now.saturating_duration_since(self.resumed);
        let examined = bytes.saturating_sub(self.bytes);
        self.bytes = bytes;
        let least = Duration::from_millis(examined.saturating_mul(1000) / BYTES_PER_SECOND_MAX);
        worked.max(least.saturating_sub(worked)).min(WAIT_MAX)
    }

    fn resume(&mut self, now: Instant) {
        self.resumed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_waits_as_long_as_it_works_and_keeps_its_rate() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace { resumed: start, bytes: 0 };
        assert_eq!(pace.wait(0, after(10)), Duration::from_millis(10));
        pace.resume(after(20));
        // A megabyte takes 31 ms at least.
        assert_eq!(pace.wait(1 << 20, after(25)), Duration::from_millis(26));
        pace.resume(after(60));
        assert_eq!(pace.wait(1 << 20, after(5060)), WAIT_MAX);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_rewrite_runs_to_its_end_and_none_starts_after_a_stop() {
        let root = tempfile::tempdir().unwrap();
        let disk = Arc::new(RocksDisk::open(root.path()).unwrap());
        let rewriter = Rewriter::new(Arc::downgrade(&disk));
        assert_eq!(rewriter.view().state, "idle");
        rewriter.start();
        rewriter.start();
        while rewriter.view().state == "running" {
            tokio::task::yield_now().await;
        }
        let view = serde_json::to_value(rewriter.view()).unwrap();
        assert_eq!((&view["state"], &view["unneeded"]), (&"done".into(), &serde_json::json!([])), "{view}");
        rewriter.stop().await;
        rewriter.start();
        assert_eq!(rewriter.view().state, "done");
    }
}
