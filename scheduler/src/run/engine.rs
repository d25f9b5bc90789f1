//! The thread that owns the executor, and the start and end of everything around it.
//!
//! Owns the thread's settings, its watchdog and its stop. `turns` owns the work of the thread. The thread is no part of the runtime: a
//! plan may take long, and waits for extenders.

mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::turns::{Loop, Shared};
use super::effects::{Observer, Reporter};
use super::executor::ExecutorOptions;
use super::planning::Planning;
use super::recorder::Recorder;
use crate::client::Client;
use crate::election::Leadership;
use crate::metrics::resources::Ledger;

/// Stack of the thread, of which the system gives memory only as it is used: device selectors that clients write are
/// evaluated on it, and nest up to a hundred levels of some ten kilobytes each.
const STACK_BYTES: usize = 64 << 20;

/// How long the end waits for the thread: for the plan that it makes, and then for the jobs under way.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A turn without an end for so long is a fault: plans are bounded, and extenders have time limits of some seconds. The
/// process then ends, since while it lives nobody schedules.
const STUCK_MAX: Duration = Duration::from_secs(60);

/// How often the thread is looked at. Looks that found no new turn are counted, rather than the time between two, so that
/// a process that was stopped and continued is not taken for one that is stuck.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Settings and parts of an engine.
pub struct EngineOptions {
    /// The client that reads and binds.
    pub client: Client,
    /// Takes events.
    pub recorder: Recorder,
    /// Takes figures.
    pub observer: Observer,
    /// Whether this process may work.
    pub leadership: Leadership,
    /// Whether the cluster is followed only once this process leads: a standby then holds nothing in memory.
    pub waits_for_leadership: bool,
    /// The executor's settings.
    pub executor: ExecutorOptions,
    /// Takes what pods ask for, for the metrics.
    pub ledger: Arc<Ledger>,
    /// Told what is held, about once a second.
    pub report: Reporter,
}

/// The reason why an engine did not stop in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// The thread panicked.
    #[error("the scheduling thread panicked")]
    Panicked,
    /// The thread does not end. What it binds is unknown.
    #[error("the scheduling thread did not stop within {STOP_MAX:?}")]
    Stuck,
}

/// A running engine.
pub struct Engine {
    stop: CancellationToken,
    synced: Arc<AtomicBool>,
    beat: Arc<AtomicU64>,
    // Bindings and evictions under way at the end of the thread.
    ended: oneshot::Receiver<usize>,
}

impl Engine {
    /// Starts to follow the cluster, and to schedule while this process leads.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start<P: Planning + 'static>(planning: P, options: EngineOptions) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let (synced, beat) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (sender, ended) = oneshot::channel();
        #[cfg(any(test, feature = "simulation"))]
        let is_simulated = options.client.is_simulated();
        let shared = Shared { stop: stop.clone(), synced: synced.clone(), beat: beat.clone() };
        let run = Loop::new(planning, options, Handle::current(), shared);
        let engine = Self { stop, synced, beat, ended };
        let tell = |under_way| {
            // Where the process has not waited so long, nobody wants to know.
            let _ = sender.send(under_way);
        };
        // Simulations have one thread.
        #[cfg(any(test, feature = "simulation"))]
        if is_simulated {
            tokio::spawn(async move { tell(run.run_as_task().await) });
            return Ok(engine);
        }
        let builder = thread::Builder::new().name("scheduling".to_owned()).stack_size(STACK_BYTES);
        builder.spawn(move || tell(run.run()))?;
        Ok(engine)
    }

    /// The flag behind [`Engine::is_synced`], for health checks.
    pub(super) fn synced(&self) -> Arc<AtomicBool> {
        self.synced.clone()
    }

    /// Whether everything that was stored at the start is known: ready to work.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Waits until the thread is stuck in a turn; for ever while it is not.
    pub async fn stuck(&self) {
        let (mut seen, mut waited) = (self.beat.load(Ordering::Relaxed), Duration::ZERO);
        while waited < STUCK_MAX {
            tokio::time::sleep(BEAT_INTERVAL).await;
            let beat = self.beat.load(Ordering::Relaxed);
            waited = if beat == seen { waited + BEAT_INTERVAL } else { Duration::ZERO };
            seen = beat;
        }
    }

    /// Stops planning and waits for what is under way, but not for ever. Returns how many bindings and evictions are
    /// under way all the same: only if there are none may the lock be let go, because the next leader plans at once.
    ///
    /// # Errors
    /// [`StopError`]; the lock may not be let go then.
    pub async fn stop(self) -> Result<usize, StopError> {
        self.stop.cancel();
        match tokio::time::timeout(STOP_MAX, self.ended).await {
            Ok(ended) => ended.map_err(|_| StopError::Panicked),
            Err(_) => Err(StopError::Stuck),
        }
    }
}
