//! The loop of the scheduling thread.
//!
//! Owns clock and randomness for the executor. Inputs go before plans, so that a plan sees all that is known; between
//! two plans at most [`INPUTS_AT_ONCE`] are taken, so that a flood of changes cannot stop planning. Plans are made only
//! while this process leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::binding::Binder;
use super::super::effects::{Effects, Reporter};
use super::super::executor::{Executor, Now, Rebuild, Wear};
use super::super::informers::{Informers, follow_all};
use super::super::input::{Effect, Input};
use super::super::planning::Planning;
use super::EngineOptions;
use crate::ambient;
use crate::client::Client;
use crate::election::Leadership;
use crate::metrics::resources::Ledger;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::wall_time::WallTime;

/// Inputs that wait for the thread. A full channel slows the watches down; the server keeps what they have not read. A
/// decoded pod takes some ten kilobytes, so that these take 20 MB at most, and the thread needs milliseconds for them.
const INPUTS_MAX: usize = 2_048;

/// Inputs between two plans.
const INPUTS_AT_ONCE: usize = 256;

/// How long the thread sleeps at most: leadership may have come meanwhile.
const IDLE_MAX: Duration = Duration::from_millis(500);

/// How long the end waits for jobs under way.
const END_MAX: Duration = Duration::from_secs(5);

/// State that the thread shares with [`Engine`].
pub(super) struct Shared {
    pub(super) stop: CancellationToken,
    pub(super) synced: Arc<AtomicBool>,
    /// Turns of the loop.
    pub(super) beat: Arc<AtomicU64>,
}

/// The executor with its inputs and effects, and what it needs to know of leadership and time.
pub(super) struct Loop<P: Planning> {
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
    pub(super) fn new(planning: P, options: EngineOptions, runtime: Handle, shared: Shared) -> Self {
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
    pub(super) fn run(mut self) -> usize {
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
    pub(super) async fn run_as_task(mut self) -> usize {
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
