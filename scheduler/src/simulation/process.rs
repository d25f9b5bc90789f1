//! A scheduler process: the product's, on a runtime with a clock of its own.
//!
//! Owns that clock. It stands still but for the slices that the world gives; a process that was stopped finds that time
//! has passed. A crash drops the runtime with everything in it; what it has sent is on its way.

use std::sync::Arc;
use std::time::Duration;

use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Moment;
use super::api::NAMESPACE;
use super::extenders;
use super::manner::{Standby, Theme};
use super::network::{Life, Link, World};
use crate::client::{Config, ObjectKey, Simulated, Trust};
use crate::election::Timing;
use crate::plan::Profile;
use crate::run::{self, ElectionOptions, LockKind, Readiness, Rebuild, SchedulerOptions};
use crate::stopwatch::Stopwatch;

/// A running process.
pub(super) struct Scheduler {
    pub(super) life: Life,
    runtime: Runtime,
    // The process's clock at the moment `began`.
    origin: Instant,
    began: Moment,
    clock: Moment,
    pub(super) stopped_until: Moment,
    readiness: Readiness,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

fn millis(time: Moment) -> Duration {
    Duration::from_millis(time)
}

/// Settings that all processes of a run share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    pub(super) theme: Theme,
    pub(super) timing: Timing,
    pub(super) standby: Standby,
    pub(super) rebuild: Rebuild,
}

impl Scheduler {
    pub(super) fn start(life: Life, habits: Habits, world: &Arc<Mutex<World>>) -> Self {
        let now = world.lock().now;
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without sockets needs nothing of the system");
        let stop = CancellationToken::new();
        let (origin, readiness, running) = runtime.block_on(async {
            let origin = Instant::now();
            let options = options(life, habits, world.clone());
            let process = run::Scheduler::start(options).expect("the options are valid");
            let readiness = process.readiness();
            let stop = stop.clone();
            let running = tokio::spawn(async move {
                process.run(stop).await.expect("no part of the process panics");
            });
            (origin, readiness, running)
        });
        Self { life, runtime, origin, began: now, clock: now, stopped_until: 0, readiness, stop, running }
    }

    /// Lets the process run until `moment`.
    pub(super) fn run_until(&mut self, moment: Moment) {
        self.clock = moment;
        let until = self.origin + millis(moment - self.began);
        self.runtime.block_on(async { sleep_until(until).await });
    }

    /// Lets time pass without letting the process run.
    pub(super) fn skip_until(&mut self, moment: Moment) {
        let passed = millis(moment - self.clock);
        self.clock = moment;
        self.runtime.block_on(async { advance(passed).await });
    }

    /// Tells the process to end in order.
    pub(super) fn terminate(&self) {
        self.stop.cancel();
    }

    /// Whether the process has ended, by itself or because it was told to.
    pub(super) fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    pub(super) fn leads(&self) -> bool {
        self.runtime.block_on(async { self.readiness.leads() })
    }

    /// How the process ended: with a panic of one of its parts, or without.
    pub(super) fn panicked(self) -> bool {
        self.runtime.block_on(self.running).is_err()
    }
}

fn options(life: Life, habits: Habits, world: Arc<Mutex<World>>) -> SchedulerOptions {
    let endpoint = |name: &str| format!("http://{name}:80").parse().expect("a valid address");
    let mut client = Config::new(vec![endpoint("api-0"), endpoint("api-1")]);
    client.qps = -1.0;
    client.trust = Trust::Anyone;
    client.simulated = Some(Simulated(Arc::new(Link { from: life, origin: Instant::now(), world })));
    SchedulerOptions {
        client,
        brand: &ORCH,
        host: format!("s{}", life.process),
        profiles: vec![Profile::default()],
        extenders: (habits.theme == Theme::Extenders).then(extenders::config).into_iter().collect(),
        initial_backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(10),
        max_in_unschedulable: Duration::from_secs(300),
        election: Some(ElectionOptions {
            lock: LockKind::Leases,
            key: ObjectKey::new(NAMESPACE, "scheduler"),
            timing: habits.timing,
        }),
        waits_for_leadership: habits.standby == Standby::Waits,
        observer: Arc::new(|_| ()),
        ledger: Arc::default(),
        report: Box::new(|_| ()),
        stopwatch: Stopwatch::default(),
        rebuild: habits.rebuild,
    }
}
