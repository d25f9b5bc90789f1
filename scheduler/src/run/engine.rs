//! The thread that owns the executor, and the start and end of everything around it.
//!
//! Owns clock and randomness for the executor. Inputs go before plans, so that a plan sees all that is known; between
//! two plans at most [`INPUTS_AT_ONCE`] are taken, so that a flood of changes cannot stop planning. Plans are made only
//! while this process leads. The thread is no part of the runtime: a plan may take long, and waits for extenders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::Rng;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::election::{Leadership, WallTime};
use crate::metrics::resources::Ledger;

use super::binding::Binder;
use super::effects::{Effects, Observer, Reporter};
use super::executor::{Executor, ExecutorOptions, Now};
use super::informers::follow_all;
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

/// What the engine needs.
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

/// A running engine.
pub struct Engine {
    stop: CancellationToken,
    synced: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Engine {
    /// Starts to follow the cluster, and to schedule while this process leads.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start<P: Planning + 'static>(planning: P, options: EngineOptions) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let synced = Arc::<AtomicBool>::default();
        let runtime = Handle::current();
        let run = Loop::new(planning, options, runtime, stop.clone(), synced.clone());
        let builder = thread::Builder::new().name("scheduling".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || run.run())?;
        Ok(Self { stop, synced, thread })
    }

    /// The flag behind [`Engine::is_synced`], for health checks.
    pub(super) fn synced(&self) -> Arc<AtomicBool> {
        self.synced.clone()
    }

    /// Whether everything that was stored at the start is known: ready to work.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Stops planning, waits for what is under way, and returns once nothing is sent any more. The lock may be let go
    /// after it.
    ///
    /// # Errors
    /// Where the thread panicked.
    pub async fn stop(self) -> Result<(), String> {
        self.stop.cancel();
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        match joined {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err("the scheduling thread panicked".to_owned()),
        }
    }
}

struct Loop<P: Planning> {
    executor: Executor<P>,
    effects: Effects,
    inputs: mpsc::Receiver<Input>,
    leadership: Leadership,
    runtime: Handle,
    origin: Instant,
    stop: CancellationToken,
    synced: Arc<AtomicBool>,
    report: Reporter,
    reported: Instant,
    waiting: Option<Waiting>,
    informers: tokio::task::JoinSet<()>,
}

/// What informers are made of that do not follow the cluster yet.
struct Waiting {
    client: Client,
    sender: mpsc::Sender<Input>,
    ledger: Arc<Ledger>,
}

impl Waiting {
    /// Follows the cluster; a runtime must be entered.
    fn follow(self) -> tokio::task::JoinSet<()> {
        follow_all(&self.client, &self.sender, &self.ledger)
    }
}

impl<P: Planning> Loop<P> {
    fn new(
        planning: P,
        options: EngineOptions,
        runtime: Handle,
        stop: CancellationToken,
        synced: Arc<AtomicBool>,
    ) -> Self {
        let EngineOptions { client, recorder, observer, leadership, executor, report, .. } = options;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let waiting = Waiting { client: client.clone(), sender: sender.clone(), ledger: options.ledger };
        let (waiting, informers) = match options.waits_for_leadership {
            true => (Some(waiting), tokio::task::JoinSet::new()),
            false => (None, waiting.follow()),
        };
        let binder = Binder::new(client.clone(), leadership.clone(), observer.clone());
        let effects = Effects::new(runtime.clone(), client, binder, recorder, observer, sender);
        let now = Instant::now();
        Self {
            executor: Executor::new(planning, executor),
            effects,
            inputs,
            leadership,
            runtime,
            origin: now,
            stop,
            synced,
            report,
            reported: now,
            waiting,
            informers,
        }
    }

    fn run(mut self) {
        let mut effects = Vec::new();
        while !self.stop.is_cancelled() {
            self.take_inputs(&mut effects);
            self.executor.tick(self.now());
            self.report();
            let leads = self.leadership.holds(Instant::now());
            if leads && let Some(waiting) = self.waiting.take() {
                let _runtime = self.runtime.enter();
                self.informers = waiting.follow();
            }
            let may_plan = leads && self.executor.is_synced() && self.executor.has_room();
            let planned = may_plan && {
                let seed = rand::rng().random();
                self.executor.step(self.now(), seed, &mut effects)
            };
            self.carry_out(&mut effects);
            if !planned {
                self.wait(&mut effects);
            }
        }
        self.end(&mut effects);
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
        self.executor.handle(input, now, effects);
        if self.executor.is_synced() && !self.synced.swap(true, Ordering::Relaxed) {
            tracing::info!("all objects are known");
        }
    }

    fn carry_out(&self, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            self.effects.carry_out(effect);
        }
    }

    /// Sleeps until an input, until the queue has something to do, or for [`IDLE_MAX`].
    fn wait(&mut self, effects: &mut Vec<Effect>) {
        let due = self.executor.next_tick().map(|at| self.origin + at);
        let latest = Instant::now() + IDLE_MAX;
        let until = due.map_or(latest, |due| due.min(latest));
        let (inputs, stop) = (&mut self.inputs, &self.stop);
        let input = self.runtime.block_on(async {
            tokio::select! {
                input = inputs.recv() => input,
                () = tokio::time::sleep_until(until) => None,
                () = stop.cancelled() => None,
            }
        });
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

    /// Waits for the jobs under way, so that the next leader finds no pod half bound.
    fn end(mut self, effects: &mut Vec<Effect>) {
        self.informers.abort_all();
        let until = Instant::now() + END_MAX;
        while self.executor.bindings() > 0 && Instant::now() < until {
            let inputs = &mut self.inputs;
            let waited = self.runtime.block_on(async { tokio::time::timeout_at(until, inputs.recv()).await });
            let Ok(Some(input)) = waited else { break };
            self.executor.handle(input, self.now(), effects);
            self.carry_out(effects);
        }
        if self.executor.bindings() > 0 {
            tracing::warn!(bindings = self.executor.bindings(), "bindings are still under way at the end");
        }
    }
}
