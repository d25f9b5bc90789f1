//! The thread that owns the executor, and the start and end of everything around it.
//!
//! Owns clock and randomness for the executor. Inputs go before plans, so that a plan sees all that is known; between
//! two plans at most [`INPUTS_AT_ONCE`] are taken, so that a flood of changes cannot stop planning. Plans are made only
//! while this process leads. The thread is no part of the runtime: a plan may take long, and waits for extenders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::Rng;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::client::Client;
use crate::election::Leadership;
use crate::metrics::resources::Ledger;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::wall_time::WallTime;

use super::binding::Binder;
use super::effects::{Effects, Observer, Reporter};
use super::executor::{Executor, ExecutorOptions, Now, Rebuild, Wear};
use super::informers::{Informers, follow_all};
use super::input::{Effect, Input};
use super::planning::Planning;
use super::recorder::Recorder;

/// Inputs that wait for the thread. A full channel slows the watches down; the server keeps what they have not read. A
/// decoded pod takes some ten kilobytes, so that these take 20 MB at most, and the thread needs milliseconds for them.
const INPUTS_MAX: usize = 2_048;

/// Inputs between two plans.
const INPUTS_AT_ONCE: usize = 256;

/// How long the thread sleeps at most: leadership may have come meanwhile.
const IDLE_MAX: Duration = Duration::from_millis(500);

/// Stack of the thread, of which the system gives memory only as it is used: device selectors that clients write are
/// evaluated on it, and nest up to a hundred levels of some ten kilobytes each.
const STACK_BYTES: usize = 64 << 20;

/// How long the end waits for jobs under way.
const END_MAX: Duration = Duration::from_secs(5);

/// How long the end waits for the thread: for the plan that it makes, and then [`END_MAX`].
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

/// State that the thread shares with [`Engine`].
struct Shared {
    stop: CancellationToken,
    synced: Arc<AtomicBool>,
    /// Turns of the loop.
    beat: Arc<AtomicU64>,
}

struct Loop<P: Planning> {
    executor: Executor<P>,
    effects: Effects,
    inputs: mpsc::Receiver<Input>,
    leadership: Leadership,
    runtime: Handle,
    origin: Instant,
    shared: Shared,
    report: Reporter,
    reported: Instant,
    waiting: Option<Waiting>,
    informers: Informers,
    // Evictions that were begun, and whose outcome is not known yet.
    evictions: usize,
    // Whether the last turn was made as the leader.
    led: bool,
    lists_wanted: u64,
    // When the planner was last rebuilt, or that was given up.
    rebuilt: Instant,
    // Since when planning pauses for that.
    paused: Option<Instant>,
}

/// The parts of informers that do not follow the cluster yet.
struct Waiting {
    client: Client,
    sender: mpsc::Sender<Input>,
    ledger: Arc<Ledger>,
}

impl Waiting {
    /// Follows the cluster; a runtime must be entered.
    fn follow(self) -> Informers {
        follow_all(&self.client, &self.sender, &self.ledger)
    }
}

impl<P: Planning> Loop<P> {
    fn new(planning: P, options: EngineOptions, runtime: Handle, shared: Shared) -> Self {
        let EngineOptions { client, recorder, observer, leadership, executor, report, .. } = options;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let waiting = Waiting { client: client.clone(), sender: sender.clone(), ledger: options.ledger };
        let (waiting, informers) = match options.waits_for_leadership {
            true => (Some(waiting), Informers::default()),
            false => (None, waiting.follow()),
        };
        let announce = {
            let recorder = recorder.clone();
            Arc::new(move |report| recorder.record(report))
        };
        let binder = Binder::new(client.clone(), leadership.clone(), observer.clone(), announce);
        let effects =
            Effects::new(runtime.clone(), client, leadership.clone(), binder, recorder, observer, sender);
        let now = Instant::now();
        // Without an election this process leads from the start, and its first lists are new.
        let led = waiting.is_none() && leadership.holds(now);
        Self {
            executor: Executor::new(planning, executor),
            effects,
            inputs,
            leadership,
            runtime,
            origin: now,
            shared,
            report,
            reported: now,
            waiting,
            informers,
            evictions: 0,
            led,
            lists_wanted: 0,
            rebuilt: now,
            paused: None,
        }
    }

    /// Runs to the end, and returns how many bindings and evictions are under way then.
    fn run(mut self) -> usize {
        let runtime = self.runtime.clone();
        let mut effects = Vec::new();
        while !self.shared.stop.is_cancelled() {
            if !self.turn(&mut effects) {
                // This thread is no part of the runtime and has nothing to do until an input comes.
                runtime.block_on(self.wait(&mut effects));
            }
        }
        // Bindings under way end on the runtime's threads; this one only collects their outcomes.
        runtime.block_on(self.end(&mut effects))
    }

    /// The same without a thread.
    #[cfg(any(test, feature = "simulation"))]
    async fn run_as_task(mut self) -> usize {
        let mut effects = Vec::new();
        while !self.shared.stop.is_cancelled() {
            match self.turn(&mut effects) {
                true => tokio::task::yield_now().await,
                false => self.wait(&mut effects).await,
            }
        }
        self.end(&mut effects).await
    }

    /// Takes inputs in, and plans a pod. Returns whether there was one to plan.
    fn turn(&mut self, effects: &mut Vec<Effect>) -> bool {
        self.shared.beat.fetch_add(1, Ordering::Relaxed);
        self.take_inputs(effects);
        self.executor.tick(self.now());
        self.report();
        let leads = self.leadership.holds(Instant::now());
        if leads && !self.led {
            self.take_over(effects);
        }
        self.led = leads;
        let is_paused = self.rebuild_when_due(effects);
        let may_plan = leads && !is_paused && self.executor.is_synced() && self.executor.has_room();
        let planned = may_plan && {
            let seed = ambient::rng().random();
            self.executor.step(self.now(), seed, effects)
        };
        self.carry_out(effects);
        planned
    }

    /// Begins to lead. Bindings of the one before have arrived by now, or never will; but watches may not have told them
    /// yet. So nothing is planned before everything has been listed since.
    fn take_over(&mut self, effects: &mut Vec<Effect>) {
        if let Some(waiting) = self.waiting.take() {
            let _runtime = self.runtime.enter();
            self.informers = waiting.follow();
            return;
        }
        self.executor.report_all_gates(self.now(), effects);
        #[cfg(test)]
        if plant::is(Plant::TrustsOldView) {
            return;
        }
        self.lists_wanted += 1;
        self.executor.distrust(self.lists_wanted);
        self.informers.relist(self.lists_wanted);
    }

    /// Rebuilds the planner where that is due, once nothing is under way. Returns whether planning has to wait for that.
    fn rebuild_when_due(&mut self, effects: &mut Vec<Effect>) -> bool {
        let (wear, Rebuild { interval_min, pause_max, .. }) =
            (self.executor.wear(), self.executor.rebuild_options());
        if wear == Wear::Light || self.rebuilt.elapsed() < interval_min {
            return false;
        }
        if self.under_way() == 0 {
            self.rebuild();
            return true;
        }
        match wear {
            Wear::Heavy => self.executor.cancel_preparing(effects),
            // They may wait for minutes: a quiet moment comes without them.
            _ if self.executor.preparing() > 0 => return false,
            _ => {}
        }
        if self.paused.get_or_insert_with(Instant::now).elapsed() < pause_max {
            return true;
        }
        tracing::warn!("what is under way does not end: objects that are gone are kept for now");
        (self.rebuilt, self.paused) = (Instant::now(), None);
        false
    }

    fn rebuild(&mut self) {
        tracing::info!("forgetting objects that are gone: listing the cluster anew");
        (self.rebuilt, self.paused) = (Instant::now(), None);
        self.lists_wanted += 1;
        self.executor.rebuild(self.lists_wanted);
        #[cfg(test)]
        if plant::is(Plant::TellsNothingAgain) {
            self.informers.relist(self.lists_wanted);
            return;
        }
        self.informers.relist_all(self.lists_wanted);
    }

    fn now(&self) -> Now {
        Now { monotonic: self.origin.elapsed(), wall: WallTime::now() }
    }

    fn take_inputs(&mut self, effects: &mut Vec<Effect>) {
        for _ in 0..INPUTS_AT_ONCE {
            let Ok(input) = self.inputs.try_recv() else { break };
            self.handle(input, effects);
        }
        self.carry_out(effects);
    }

    fn handle(&mut self, input: Input, effects: &mut Vec<Effect>) {
        let now = self.now();
        if let Input::Evicted(..) = &input {
            self.evictions -= 1;
        }
        self.executor.handle(input, now, effects);
        if self.executor.is_synced() && !self.shared.synced.swap(true, Ordering::Relaxed) {
            tracing::info!("all objects are known");
        }
    }

    fn carry_out(&mut self, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            self.evictions += usize::from(matches!(effect, Effect::Evict(_)));
            self.effects.carry_out(effect);
        }
    }

    /// Sleeps until an input, until the queue has something to do, or for [`IDLE_MAX`].
    async fn wait(&mut self, effects: &mut Vec<Effect>) {
        let due = self.executor.next_tick().map(|at| self.origin + at);
        let latest = Instant::now() + IDLE_MAX;
        let until = due.map_or(latest, |due| due.min(latest));
        let (inputs, stop) = (&mut self.inputs, &self.shared.stop);
        let input = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            input = inputs.recv() => input,
            () = tokio::time::sleep_until(until) => None,
        };
        if let Some(input) = input {
            self.handle(input, effects);
        }
    }

    fn report(&mut self) {
        if self.reported.elapsed() >= Duration::from_secs(1) {
            self.reported = Instant::now();
            (self.report)(&self.executor.levels());
        }
    }

    /// Number of bindings and evictions under way, which must end before another leader plans.
    fn under_way(&self) -> usize {
        self.executor.bindings() + self.evictions
    }

    /// Waits for the jobs and the evictions under way, so that the next leader finds no pod half bound, and none is deleted
    /// behind its back.
    async fn end(mut self, effects: &mut Vec<Effect>) -> usize {
        self.informers.stop();
        // Without them the lock could not be let go for minutes.
        self.executor.cancel_preparing(effects);
        self.carry_out(effects);
        let until = Instant::now() + END_MAX;
        while self.under_way() > 0 && Instant::now() < until {
            let waited = tokio::time::timeout_at(until, self.inputs.recv()).await;
            let Ok(Some(input)) = waited else { break };
            self.handle(input, effects);
            self.carry_out(effects);
        }
        if self.under_way() > 0 {
            let (bindings, evictions) = (self.executor.bindings(), self.evictions);
            tracing::warn!(bindings, evictions, "bindings or evictions are still under way at the end");
        }
        self.under_way()
    }
}
