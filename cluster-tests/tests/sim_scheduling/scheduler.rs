//! One scheduler process: the product's, on a runtime with a stopped clock, inside of the simulated cluster.
//!
//! ```text
//!   world's executor ──every slice──> process's runtime: runs until its clock shows the world's time, then stands
//!                    <──requests────  handed over at the end of the slice; answers wake its tasks for the next one
//! ```
//!
//! Owns the bridge between two runtimes: the scheduler needs Tokio's, with timers of its own; the cluster has its own
//! executor. Nothing of the process runs between two slices, so that its clock is behind the world's by a slice at most,
//! but for a process that stands still. The task that gives the slices belongs to a [`TaskGroup`], like a member's
//! process: it is killed, paused and resumed as one. A kill drops the runtime with everything in it.

use std::sync::Arc;
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use orch_proto::brand::ORCH;
use orch_scheduler::ambient;
use orch_scheduler::client::{Config, ContentType, Endpoint, ObjectKey, Simulated, Trust};
use orch_scheduler::election::Timing;
use orch_scheduler::plan::Profile;
use orch_scheduler::run::{self, ElectionOptions, LockKind, Readiness, Rebuild, SchedulerOptions};
use orch_scheduler::stopwatch::Stopwatch;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::links::{Links, Origin, Outbox};

/// Wall time at the beginning of a run, in microseconds: that of the members.
const WALL: i64 = 1_700_000_000_000_000;

/// Slices that a process may miss before it counts as one that stood still: its clock then jumps.
const MISSED_MAX: u32 = 4;

/// The parts that all processes of a run share.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) links: Links,
    pub(crate) timings: Arc<Vec<Timing>>,
    pub(crate) slice: Duration,
    pub(crate) content_type: ContentType,
    slots: Arc<Mutex<Vec<Slot>>>,
}

/// A process, or the place of one.
#[derive(Clone, Default)]
struct Slot {
    group: Option<TaskGroup>,
    stop: Option<CancellationToken>,
    /// Its name, and when it last led.
    led: Option<(String, Duration)>,
}

impl Fleet {
    pub(crate) fn new(
        links: Links,
        timings: Vec<Timing>,
        slice: Duration,
        content_type: ContentType,
    ) -> Self {
        let slots = Arc::new(Mutex::new(vec![Slot::default(); timings.len()]));
        Self { links, timings: Arc::new(timings), slice, content_type, slots }
    }

    pub(crate) fn len(&self) -> usize {
        self.timings.len()
    }

    /// Starts process `index`, and starts it again whenever it has ended, until the run is over.
    pub(crate) async fn keep(self, index: usize) {
        let world = self.links.world().clone();
        let dice = world.dice(&format!("supervisor {index}"));
        for number in 0_u64.. {
            NodeRuntime::sleep(dice.millis(50..3_000)).await;
            if world.failure().is_some() {
                return;
            }
            let life = format!("s{index}-{number}");
            world.trace().event(format_args!("{life} starts"));
            let group = TaskGroup::default();
            let stop = CancellationToken::new();
            let slot = Slot { group: Some(group.clone()), stop: Some(stop.clone()), led: None };
            self.slots.lock()[index] = slot;
            // Killed, or ended by itself.
            let ended = group.spawn(self.clone().live(index, life.clone(), stop)).await;
            group.kill();
            for panic in group.take_panics() {
                world.fail(format_args!("{life} panicked: {panic}"));
            }
            world.trace().event(format_args!(
                "{life} has ended: {}",
                if ended.is_ok() { "by itself" } else { "killed" }
            ));
            self.slots.lock()[index] = Slot::default();
        }
    }

    async fn live(self, index: usize, life: String, stop: CancellationToken) {
        let mut scheduler = Scheduler::start(&self, index, &life, stop);
        loop {
            NodeRuntime::sleep(self.slice).await;
            let now = NodeRuntime::elapsed();
            set_wall(now);
            if now > scheduler.clock + self.slice * MISSED_MAX {
                scheduler.skip_until(now);
            }
            scheduler.run_until(now);
            let requests = std::mem::take(&mut *scheduler.outbox.requests.lock());
            for outgoing in requests {
                drop(spawn_detached(self.links.clone().carry(Origin::Scheduler(index), outgoing)));
            }
            if scheduler.leads() {
                self.note_leader(index, &life, now);
            } else {
                self.slots.lock()[index].led = None;
            }
            if scheduler.running.is_finished() {
                return scheduler.end(self.links.world());
            }
        }
    }

    /// At most one process leads. One that stands still does not.
    fn note_leader(&self, index: usize, life: &str, now: Duration) {
        let mut slots = self.slots.lock();
        let fresh = now.saturating_sub(self.slice * MISSED_MAX);
        let others = slots.iter().enumerate().filter(|(other, _)| *other != index);
        for (_, other) in others {
            let stands = other.group.as_ref().is_none_or(TaskGroup::is_paused);
            if let Some((name, led)) = other.led.as_ref().filter(|(_, led)| !stands && *led >= fresh) {
                self.links.world().fail(format_args!("{life} and {name} lead, the latter at {led:?}"));
            }
        }
        if slots[index].led.is_none() {
            self.links.world().trace().event(format_args!("{life} leads"));
        }
        slots[index].led = Some((life.to_owned(), now));
    }

    /// The index of the process that leads.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.slots.lock().iter().position(|slot| slot.led.is_some())
    }

    pub(crate) fn kill(&self, index: usize) {
        let group = self.slots.lock()[index].group.clone();
        if let Some(group) = group {
            group.kill();
        }
    }

    /// Tells the process to end in order.
    pub(crate) fn terminate(&self, index: usize) {
        if let Some(stop) = &self.slots.lock()[index].stop {
            stop.cancel();
        }
    }

    /// Stops the process for `length`.
    pub(crate) fn pause(&self, index: usize, length: Duration) {
        let Some(group) = self.slots.lock()[index].group.clone() else { return };
        group.pause();
        spawn_detached(async move {
            NodeRuntime::sleep(length).await;
            group.resume();
        });
    }

    /// Ends the standstill of every process.
    pub(crate) fn resume_all(&self) {
        let groups: Vec<_> = self.slots.lock().iter().filter_map(|slot| slot.group.clone()).collect();
        groups.iter().for_each(TaskGroup::resume);
    }
}

fn set_wall(now: Duration) {
    let micros = i64::try_from(now.as_micros()).expect("runs are short");
    ambient::replace_wall(Some(WALL + micros));
}

/// A running process.
struct Scheduler {
    // Before the runtime: those who deal with its requests are woken in their order.
    _end: DropGuard,
    runtime: Runtime,
    /// The process's clock at the moment `began`.
    origin: Instant,
    began: Duration,
    clock: Duration,
    outbox: Arc<Outbox>,
    readiness: Readiness,
    running: JoinHandle<()>,
}

impl Scheduler {
    fn start(fleet: &Fleet, index: usize, life: &str, stop: CancellationToken) -> Self {
        let now = NodeRuntime::elapsed();
        set_wall(now);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without sockets needs nothing of the system");
        let (requests, end) = (Mutex::default(), CancellationToken::new());
        let outbox = Outbox { life: life.to_owned(), links: fleet.links.clone(), requests, end: end.clone() };
        let outbox = Arc::new(outbox);
        let options = options(fleet, index, life, outbox.clone());
        let (origin, readiness, running) = runtime.block_on(async {
            let origin = Instant::now();
            let process = run::Scheduler::start(options).expect("the options are valid");
            let readiness = process.readiness();
            let running = tokio::spawn(async move {
                process.run(stop).await.expect("no part of the process panics");
            });
            (origin, readiness, running)
        });
        Self { _end: end.drop_guard(), runtime, origin, began: now, clock: now, outbox, readiness, running }
    }

    /// Lets the process run until the world's time `now`.
    fn run_until(&mut self, now: Duration) {
        self.clock = now;
        let until = self.origin + (now - self.began);
        self.runtime.block_on(async { sleep_until(until).await });
    }

    /// Whether it leads, by its own clock: outside of its runtime the time would be the machine's.
    fn leads(&self) -> bool {
        self.runtime.block_on(async { self.readiness.leads() })
    }

    /// Time has passed in which the process did not run.
    fn skip_until(&mut self, now: Duration) {
        let passed = now - self.clock;
        self.clock = now;
        self.runtime.block_on(async { advance(passed).await });
    }

    fn end(self, world: &orch_cluster_tests::sim::world::World) {
        if let Err(error) = self.runtime.block_on(self.running) {
            world.fail(format_args!("{} ended badly: {error}", self.outbox.life));
        }
    }
}

fn options(fleet: &Fleet, index: usize, life: &str, outbox: Arc<Outbox>) -> SchedulerOptions {
    let members = fleet.links.world().members();
    let endpoint =
        |number: u64| -> Endpoint { format!("http://n{number}:80").parse().expect("a valid address") };
    let mut endpoints: Vec<_> = members.iter().map(|node| endpoint(node.0)).collect();
    let first = index % endpoints.len();
    endpoints.rotate_left(first);
    let mut client = Config::new(endpoints).with_limits(fleet.content_type, -1.0, 0);
    client.trust = Trust::Anyone;
    client.simulated = Some(Simulated(outbox));
    SchedulerOptions {
        client,
        brand: &ORCH,
        host: life.to_owned(),
        profiles: vec![Profile::default()],
        extenders: Vec::new(),
        initial_backoff: Duration::from_millis(500),
        max_backoff: Duration::from_secs(4),
        max_in_unschedulable: Duration::from_secs(300),
        election: Some(ElectionOptions {
            lock: LockKind::Leases,
            key: ObjectKey::new("default", "scheduler"),
            timing: fleet.timings[index],
        }),
        waits_for_leadership: false,
        observer: Arc::new(|_| ()),
        ledger: Arc::default(),
        report: Box::new(|_| ()),
        stopwatch: Stopwatch::default(),
        // As often as there is a text that was not known before.
        rebuild: Rebuild {
            bytes_min: 0,
            factor: 1,
            interval_min: Duration::from_secs(10),
            ..Rebuild::default()
        },
    }
}
