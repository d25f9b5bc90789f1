//! Tests of the executor over a planner of a few lines.

mod claims;
mod costly;
mod planner;
mod preempting;
mod rebuild;
mod simulation;
mod transitions;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use tokio_util::sync::CancellationToken;

use crate::api::core::v1::{Node, NodeStatus, Pod, PodSchedulingGate, PodSpec, PodStatus};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::Quantity;
use crate::client::ObjectKey;
use crate::queue::{QueueOptions, Uid};
use crate::stopwatch::Stopwatch;
use crate::wall_time::WallTime;

use super::super::binding::{BindOutcome, Job};
use super::super::event::Report;
use super::super::input::{Effect, Eviction, Input};
use super::super::stored::{Follow, Followed, Stored};
use super::{Executor, ExecutorOptions, Now, ProfileOptions, Rebuild, Wear};

use planner::Slots;

/// An executor, its clock, and the effects that are not looked at yet.
struct Bench {
    executor: Executor<Slots>,
    now: Duration,
    effects: Vec<Effect>,
}

fn options() -> ExecutorOptions {
    let profile = |name: &str| ProfileOptions {
        scheduler_name: Arc::from(name),
        volume_timeout: Duration::from_secs(600),
        device_timeout: Duration::from_secs(600),
    };
    let queue = QueueOptions::default();
    let plugins = queue.profiles[0];
    ExecutorOptions {
        profiles: vec![profile("default-scheduler"), profile("second")],
        queue: QueueOptions { profiles: vec![plugins, plugins], ..queue },
        binders: Vec::new(),
        stopwatch: Stopwatch::default(),
        rebuild: Rebuild { bytes_min: 3, factor: 2, ..Rebuild::default() },
    }
}

/// The planner, and settings for it.
pub(crate) fn slots_for_tests() -> (impl crate::run::Planning, ExecutorOptions) {
    (Slots::default(), options())
}

fn synced() -> Executor<Slots> {
    let mut executor = Executor::new(Slots::default(), options());
    let now = Now { monotonic: Duration::ZERO, wall: WallTime(0) };
    for kind in Followed::ALL {
        assert!(!executor.is_synced());
        executor.handle(Input::Synced(*kind, 0), now, &mut Vec::new());
    }
    executor
}

impl Bench {
    fn new() -> Self {
        Self { executor: synced(), now: Duration::ZERO, effects: Vec::new() }
    }

    /// With nodes of so many slots.
    fn with(nodes: &[(&str, u32)]) -> Self {
        let mut bench = Self::new();
        for (name, slots) in nodes {
            bench.tell(Input::Upsert(Stored::Node(Box::new(node(name, *slots)))));
        }
        bench
    }

    fn now(&self) -> Now {
        Now { monotonic: self.now, wall: WallTime(1_700_000_000_000_000) }
    }

    fn tell(&mut self, input: Input) {
        let now = self.now();
        self.executor.handle(input, now, &mut self.effects);
    }

    fn upsert(&mut self, pod: &Pod) {
        self.tell(Input::Upsert(Stored::Pod(Box::new(pod.clone()))));
    }

    fn delete(&mut self, name: &str) {
        self.tell(deleted(name));
    }

    /// Plans one pod. Returns whether there was one.
    fn step(&mut self) -> bool {
        let now = self.now();
        self.executor.step(now, 0, &mut self.effects)
    }

    /// Plans until no pod is active. Bounded, as a pod in backoff is planned early when there is nothing else.
    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let now = self.now();
        self.executor.tick(now);
    }

    fn jobs(&mut self) -> Vec<Job> {
        self.take(|effect| match effect {
            Effect::Bind(job) => Ok(*job),
            other => Err(Box::new(other)),
        })
    }

    fn job(&mut self) -> Job {
        let mut jobs = self.jobs();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    fn patches(&mut self) -> Vec<(String, Value)> {
        self.take(|effect| match effect {
            Effect::Patch(pod, patch) => Ok((pod.name.to_string(), patch)),
            other => Err(Box::new(other)),
        })
    }

    /// Ends the jobs that were told to give way.
    fn cancel(&mut self) {
        let jobs = self.take(|effect| match effect {
            Effect::Cancel(job) => Ok(job),
            other => Err(Box::new(other)),
        });
        jobs.iter().for_each(CancellationToken::cancel);
    }

    fn evictions(&mut self) -> Vec<Eviction> {
        self.take(|effect| match effect {
            Effect::Evict(eviction) => Ok(eviction),
            other => Err(Box::new(other)),
        })
    }

    fn reports(&mut self) -> Vec<Report> {
        self.take(|effect| match effect {
            Effect::Record(report) => Ok(report),
            other => Err(Box::new(other)),
        })
    }

    fn take<T>(&mut self, pick: impl Fn(Effect) -> Result<T, Box<Effect>>) -> Vec<T> {
        let mut picked = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match pick(effect) {
                Ok(one) => picked.push(one),
                Err(other) => self.effects.push(*other),
            }
        }
        picked
    }

    fn finish(&mut self, job: Job, outcome: BindOutcome) {
        self.tell(Input::Finished(Box::new(job), outcome));
    }

    /// How many slots of the node are taken, by assigned and assumed pods.
    fn taken(&self, node: &str) -> usize {
        self.executor.planning().taken(node)
    }

    fn place(&self, name: &str) -> Option<&'static str> {
        self.executor.queue().place_of(&uid(name)).map(crate::queue::QueueName::label)
    }
}

fn uid(name: &str) -> Uid {
    Uid::new(&format!("uid-{name}"))
}

fn node(name: &str, slots: u32) -> Node {
    let pods = Quantity { string: slots.to_string() };
    let status = NodeStatus { allocatable: [("pods".to_owned(), pods)].into(), ..NodeStatus::default() };
    Node {
        metadata: Some(ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() }),
        status: Some(status),
        ..Node::default()
    }
}

/// A pod that waits for a node.
fn pod(name: &str) -> Pod {
    let metadata = ObjectMeta {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        ..ObjectMeta::default()
    };
    let spec = PodSpec { scheduler_name: "default-scheduler".to_owned(), ..PodSpec::default() };
    Pod { metadata: Some(metadata), spec: Some(spec), status: Some(PodStatus::default()) }
}

fn on_node(name: &str, node: &str) -> Pod {
    let mut pod = pod(name);
    pod.spec.as_mut().unwrap().node_name = node.to_owned();
    pod
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    pod.spec.as_mut().unwrap().priority = Some(priority);
    pod
}

fn gated(mut pod: Pod) -> Pod {
    pod.spec.as_mut().unwrap().scheduling_gates = vec![PodSchedulingGate { name: "g".to_owned() }];
    pod
}

fn deleted(name: &str) -> Input {
    let key = ObjectKey::new("default", name);
    Input::Delete(Box::new(Pod::of_key(&key)).stored(), key)
}
