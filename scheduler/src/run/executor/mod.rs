//! The executor: the choice of the pod that is planned, and the consequences of its plan.
//!
//! ```text
//!   Upsert, Delete ──> pods, cluster ──> planner's snapshot, queue (events wake pods)
//!                                              │
//!   step ──> pop ──> plan ──┬─ Bind ──> assume, Effect::Bind ──> Finished ──┬─ bound: wait for the API to confirm
//!                           │                                              └─ not: forget, back to the queue
//!                           ├─ Unschedulable ──> nominate, Effect::Evict; requeue, Effect::Patch, Effect::Record
//!                           └─ Failed ──> requeue
//! ```
//!
//! Pure: inputs and time come in, effects go out; it reads no clock and sends nothing. One thread owns it.
//!
//! Invariants: a pod that waits for a node is in `pending` and in the queue; while a job binds it, it is also assumed in
//! the planner's snapshot, exactly once. An assumption ends in one of three ways only: the API confirms a node, the API
//! says that the pod is gone, or a job ends certainly without effect. The state in the API always wins.

mod changes;
mod costly;
mod evicting;
mod finish;
mod pending;
mod pods;
mod rebuild;
mod report;
mod step;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::WarningLimit;

use crate::api::core::v1::Pod;
use crate::client::ObjectKey;
use crate::plan::decision::Admission;
use crate::plugin::Plugin;
use crate::queue::{At, NodeFacts, PodFacts, Queue, QueueOptions, Shapes, Uid};
use crate::stopwatch::{Started, Stopwatch};
use crate::wall_time::WallTime;

use super::binding::{Job, PodRef};
use super::extender::Extender;
use super::input::{Effect, Input, Levels, Observation};
use super::planning::Planning;
use super::stored::Followed;

use changes::Objects;
use costly::Costly;
use evicting::Preempting;
use pending::{Pending, Stage};
pub use rebuild::{Rebuild, Wear};

/// The planner of the tests, and settings that go with it, for tests of the engine.
#[cfg(test)]
pub(super) use tests::slots_for_tests;

/// Pods that are bound at the same time. At a thousandth of a second for each binding this is far from a limit of
/// throughput; it bounds the requests that a slow API leaves under way, and the outcomes that are unsure when the process ends.
pub const BINDINGS_MAX: usize = 1_024;

/// Pods whose volumes or devices are made ready at the same time, which may take minutes each and must not hold up pods
/// that need none. Each takes a few kilobytes; beyond, planning waits.
const PREPARING_MAX: usize = 16_384;

/// A profile as the executor sees it.
#[derive(Debug, Clone)]
pub struct ProfileOptions {
    /// Pods with this `spec.schedulerName` are its.
    pub scheduler_name: Arc<str>,
    /// How long a job waits until volumes are bound.
    pub volume_timeout: Duration,
    /// How long a job waits until devices are usable.
    pub device_timeout: Duration,
}

/// Settings of the executor.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The profiles, in the order of the configuration.
    pub profiles: Vec<ProfileOptions>,
    /// The queue's settings, for the same profiles.
    pub queue: QueueOptions,
    /// Extenders that bind.
    pub binders: Vec<Arc<Extender>>,
    /// Measures durations for the metrics.
    pub stopwatch: Stopwatch,
    /// When the planner is rebuilt.
    pub rebuild: Rebuild,
}

/// The moment of a call.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Time since the process began.
    pub monotonic: Duration,
    /// The time that is told to users.
    pub wall: WallTime,
}

/// The executor.
pub struct Executor<P: Planning> {
    planning: P,
    queue: Queue,
    shapes: Shapes,
    options: ExecutorOptions,
    // Pods without a node, of this scheduler's profiles.
    pending: HashMap<Uid, Pending<P>>,
    // Pods with a node.
    assigned: HashMap<Uid, Arc<PodFacts>>,
    // The known UID of each name.
    uids: HashMap<ObjectKey, Uid>,
    nodes: HashMap<String, Arc<NodeFacts>>,
    objects: Objects,
    preempting: HashMap<Uid, Preempting>,
    costly: Costly,
    // Pods whose planning failed, which is tried again without end.
    unplannable: WarningLimit<Duration>,
    // Pods whose jobs were cancelled, with their preemptors.
    giving_way: HashMap<Uid, Uid>,
    unsynced: BTreeSet<Followed>,
    // The request for new lists that all kinds have to answer before a pod is planned; 0 for the first lists.
    lists_wanted: u64,
    // Bytes that the planner held once all kinds had been listed, after the start or the last rebuild.
    known_bytes: Option<usize>,
    // Jobs under way, those that only bind and those that have to prepare first. Invariant: bindings <= BINDINGS_MAX,
    // preparing <= PREPARING_MAX.
    bindings: usize,
    preparing: usize,
}

impl<P: Planning> Executor<P> {
    /// An executor that knows nothing of the cluster yet.
    pub fn new(planning: P, options: ExecutorOptions) -> Self {
        Self {
            planning,
            queue: Queue::new(options.queue.clone()),
            shapes: Shapes::default(),
            options,
            pending: HashMap::new(),
            assigned: HashMap::new(),
            uids: HashMap::new(),
            nodes: HashMap::new(),
            objects: Objects::default(),
            preempting: HashMap::new(),
            costly: Costly::default(),
            unplannable: WarningLimit::default(),
            giving_way: HashMap::new(),
            unsynced: Followed::ALL.iter().copied().collect(),
            lists_wanted: 0,
            known_bytes: None,
            bindings: 0,
            preparing: 0,
        }
    }

    /// Takes an input in.
    pub fn handle(&mut self, input: Input, now: Now, effects: &mut Vec<Effect>) {
        match input {
            Input::Upsert(object) => {
                let started = self.options.stopwatch.start();
                let event = self.upsert(object, now, effects);
                self.observe_event(event, started, effects);
            }
            Input::Delete(object, key) => {
                let started = self.options.stopwatch.start();
                let event = self.delete(object, &key, now, effects);
                self.observe_event(event, started, effects);
            }
            Input::Synced(kind, number) => {
                if number >= self.lists_wanted {
                    self.unsynced.remove(&kind);
                }
                if self.unsynced.is_empty() {
                    self.all_known();
                }
            }
            Input::Finished(job, outcome) => self.finished(&job, outcome, now, effects),
            Input::Evicted(eviction, outcomes) => self.evicted(eviction, outcomes, now, effects),
            Input::Patched { uid, outcome } => self.patched(&Uid(uid), outcome, now, effects),
        }
    }

    /// Takes in that the view of the cluster may be old: it counts as known again once every kind was listed after `request`.
    pub fn distrust(&mut self, request: u64) {
        self.lists_wanted = request;
        self.unsynced = Followed::ALL.iter().copied().collect();
    }

    /// Whether all objects are known that were stored at the start, or at the last [`Executor::distrust`].
    pub fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// Whether another pod may be planned: there is room for its job.
    pub fn has_room(&self) -> bool {
        self.bindings < BINDINGS_MAX && self.preparing < PREPARING_MAX
    }

    /// Jobs under way that have to prepare first.
    pub fn preparing(&self) -> usize {
        self.preparing
    }

    /// Jobs under way.
    pub fn bindings(&self) -> usize {
        self.bindings + self.preparing
    }

    /// The number that counts jobs like this one.
    fn jobs_like(&mut self, job: &Job) -> &mut usize {
        if job.prepares() { &mut self.preparing } else { &mut self.bindings }
    }

    /// Moves on pods by time.
    pub fn tick(&mut self, now: Now) {
        self.with_queue(now, |queue, at| queue.tick(at));
    }

    /// When [`Executor::tick`] has something to do, as time since the process began.
    pub fn next_tick(&self) -> Option<Duration> {
        self.queue.next_tick()
    }

    /// When the planner is rebuilt.
    pub fn rebuild_options(&self) -> Rebuild {
        self.options.rebuild
    }

    /// The queue, for metrics.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The planner, for metrics and tests.
    pub fn planning(&self) -> &P {
        &self.planning
    }

    /// The objects that are held now, for metrics.
    pub fn levels(&self) -> Levels<'_> {
        let assumed_pods = self.pending.values().filter(|pending| pending.stage == Stage::Assumed).count();
        Levels {
            queue: &self.queue,
            nodes: self.nodes.len(),
            pods: self.assigned.len() + assumed_pods,
            assumed_pods,
            bindings: self.bindings(),
        }
    }

    /// Tells how long an event of an object took, and the hints that it asked for.
    fn observe_event(
        &mut self,
        event: Option<&'static str>,
        started: Option<Started>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(took) = self.options.stopwatch.since(started) else { return };
        if let Some(event) = event {
            effects.push(Effect::Observe(Observation::Handled { event, took }));
        }
        let hints = self.queue.take_hint_costs().into_iter();
        effects.extend(hints.map(|cost| Effect::Observe(Observation::Hinted(cost))));
    }

    /// Calls the queue with the check of this moment.
    fn with_queue<R>(&mut self, now: Now, call: impl FnOnce(&mut Queue, At<'_>) -> R) -> R {
        let Self { queue, planning, pending, preempting, .. } = self;
        let check = |facts: &PodFacts| {
            if preempting.contains_key(&facts.uid) {
                return Some(Plugin::DefaultPreemption);
            }
            let pod = pending.get(&facts.uid)?;
            match planning.admit(pod.profile, &pod.compiled) {
                Admission::Admitted => None,
                Admission::Held { plugin, .. } => Some(plugin),
            }
        };
        call(queue, At { now: now.monotonic, pre_enqueue: &check })
    }

    /// The index of the profile for `pod`; `None` for pods of other schedulers.
    fn profile_of(&self, pod: &Pod) -> Option<usize> {
        let name = pod.spec.as_ref().map_or("", |spec| &spec.scheduler_name);
        // few: the profiles of one process.
        self.options.profiles.iter().position(|profile| &*profile.scheduler_name == name)
    }
}

/// All names of a pod, and its version.
fn pod_ref(pod: &Pod) -> PodRef {
    let metadata = pod.metadata.as_ref();
    let text = |field: fn(&crate::api::meta::v1::ObjectMeta) -> &String| {
        metadata.map_or_else(|| Arc::from(""), |metadata| Arc::from(field(metadata).as_str()))
    };
    PodRef {
        namespace: text(|meta| &meta.namespace),
        name: text(|meta| &meta.name),
        uid: text(|meta| &meta.uid),
        version: text(|meta| &meta.resource_version),
    }
}
