//! The executor in a simulated cluster: watches that lag, bindings that are slow or have no effect, pods and nodes that
//! vanish, another scheduler, and restarts.
//!
//! Owns the proof, on many seeds, that no node ever has more pods than slots, that no pod is bound twice, and that once
//! nothing fails any more every pod that has room gets a node.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::super::binding::{BindOutcome, Job, Why};
use super::super::super::input::{Effect, Evicting, Input, Patching};
use super::super::super::stored::{Followed, Stored};
use super::super::{Executor, Now};
use super::planner::Slots;
use super::{deleted, node, options, pod, with_priority};
use crate::api::core::v1::Pod;
use crate::client::ObjectKey;
use crate::wall_time::WallTime;

const NODES: usize = 4;
const SLOTS: u32 = 3;

/// The store of the API, and its changes that the executor has not got yet.
struct Api {
    pods: BTreeMap<String, Pod>,
    nodes: BTreeMap<String, u32>,
    // Changes that the watch of each kind still has to tell, in order.
    untold_pods: Vec<Input>,
    untold_nodes: Vec<Input>,
    serial: u64,
    bindings: usize,
}

struct World {
    random: StdRng,
    api: Api,
    executor: Executor<Slots>,
    now: Duration,
    // Jobs that have not reached the API, and outcomes that have not reached the executor.
    jobs: Vec<Job>,
    outcomes: Vec<(Job, BindOutcome)>,
    others: Vec<Input>,
    log: Vec<String>,
}

impl Api {
    fn put(&mut self, pod: Pod) {
        let name = pod.metadata.as_ref().unwrap().name.clone();
        self.untold_pods.push(Input::Upsert(Stored::Pod(Box::new(pod.clone()))));
        self.pods.insert(name, pod);
    }

    fn remove(&mut self, name: &str) {
        if self.pods.remove(name).is_some() {
            self.untold_pods.push(deleted(name));
        }
    }

    fn node_of(&self, name: &str) -> &str {
        &self.pods[name].spec.as_ref().unwrap().node_name
    }

    fn count_on(&self, node: &str) -> usize {
        self.pods.keys().filter(|name| self.node_of(name) == node).count()
    }

    fn bind(&mut self, job: &Job) -> BindOutcome {
        let Some(found) = self.pods.get(&*job.pod.name) else { return BindOutcome::NotBound(Why::Gone) };
        if found.metadata.as_ref().unwrap().uid != *job.pod.uid {
            return BindOutcome::NotBound(Why::Gone);
        }
        match self.node_of(&job.pod.name) {
            "" => {}
            node if node == &*job.node => return BindOutcome::Bound,
            other => return BindOutcome::NotBound(Why::Taken(other.to_owned())),
        }
        let mut bound = found.clone();
        bound.spec.as_mut().unwrap().node_name = job.node.to_string();
        self.bindings += 1;
        self.put(bound);
        BindOutcome::Bound
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let api = Api {
            pods: BTreeMap::new(),
            nodes: (0..NODES).map(|index| (format!("n{index}"), SLOTS)).collect(),
            untold_pods: Vec::new(),
            untold_nodes: Vec::new(),
            serial: 0,
            bindings: 0,
        };
        let mut world = Self {
            random: StdRng::seed_from_u64(seed),
            api,
            executor: Executor::new(Slots::default(), options()),
            now: Duration::ZERO,
            jobs: Vec::new(),
            outcomes: Vec::new(),
            others: Vec::new(),
            log: Vec::new(),
        };
        world.restart();
        world
    }

    /// The process ends and another begins. Jobs under way still reach the API, or not, before the new one lists:
    /// the lock is let go after them.
    fn restart(&mut self) {
        self.log.push(format!("{:?} restart", self.now));
        for job in std::mem::take(&mut self.jobs) {
            if self.random.random_bool(0.5) {
                self.api.bind(&job);
            }
        }
        self.outcomes.clear();
        self.others.clear();
        self.executor = Executor::new(Slots::default(), options());
        self.executor.planning.preempts = true;
        let nodes = self.api.nodes.iter();
        self.api.untold_nodes =
            nodes.map(|(name, slots)| Input::Upsert(Stored::Node(Box::new(node(name, *slots))))).collect();
        let pods = self.api.pods.values().cloned();
        self.api.untold_pods = pods.map(|pod| Input::Upsert(Stored::Pod(Box::new(pod)))).collect();
        self.tell_all();
        for kind in Followed::ALL {
            self.tell(Input::Synced(*kind, 0));
        }
    }

    fn moment(&self) -> Now {
        Now { monotonic: self.now, wall: WallTime(0) }
    }

    fn tell(&mut self, input: Input) {
        let mut effects = Vec::new();
        let now = self.moment();
        self.executor.handle(input, now, &mut effects);
        self.carry_out(effects);
    }

    fn tell_all(&mut self) {
        for input in std::mem::take(&mut self.api.untold_nodes) {
            self.tell(input);
        }
        for input in std::mem::take(&mut self.api.untold_pods) {
            self.tell(input);
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Bind(job) => self.jobs.push(*job),
                Effect::Evict(eviction) => {
                    let mut outcomes = Vec::new();
                    for victim in &eviction.victims {
                        if self.random.random_bool(0.1) {
                            outcomes.push(Evicting::Failed(victim.clone(), "planted".to_owned()));
                            continue;
                        }
                        let is_same = self
                            .api
                            .pods
                            .get(&*victim.name)
                            .is_some_and(|pod| pod.metadata.as_ref().unwrap().uid == *victim.uid);
                        if is_same {
                            self.api.remove(&victim.name);
                            outcomes.push(Evicting::Deleted(victim.clone()));
                        } else {
                            outcomes.push(Evicting::Gone(victim.clone()));
                        }
                    }
                    self.others.push(Input::Evicted(eviction, outcomes));
                }
                Effect::Patch(pod, _) => {
                    let outcome =
                        if self.random.random_bool(0.9) { Patching::Done } else { Patching::Failed };
                    self.others.push(Input::Patched { uid: pod.uid, outcome });
                }
                Effect::Cancel(job) => job.cancel(),
                Effect::GiveUp { .. } | Effect::Record(_) | Effect::Observe(_) => {}
            }
        }
    }

    /// Something happens.
    fn turn(&mut self, is_calm: bool) {
        self.now += Duration::from_millis(self.random.random_range(0..400));
        let now = self.moment();
        self.executor.tick(now);
        match self.random.random_range(0..if is_calm { 7 } else { 14 }) {
            0 | 1 if self.executor.has_room() => self.step(),
            2 => self.tell_next_pod(),
            3 if !self.api.untold_nodes.is_empty() => {
                let input = self.api.untold_nodes.remove(0);
                self.tell(input);
            }
            4 => self.job_reaches_the_api(is_calm),
            5 => self.outcome_arrives(),
            6 if !self.others.is_empty() => {
                let input = self.others.remove(0);
                self.tell(input);
            }
            7 | 8 => self.create_pod(),
            9 => self.delete_pod(),
            10 => self.finish_pod(),
            11 => self.toggle_node(),
            12 if self.random.random_bool(0.1) => self.restart(),
            _ => {}
        }
    }

    fn step(&mut self) {
        let (now, seed) = (self.moment(), self.random.random());
        let mut effects = Vec::new();
        self.executor.step(now, seed, &mut effects);
        self.carry_out(effects);
    }

    fn tell_next_pod(&mut self) {
        if !self.api.untold_pods.is_empty() {
            let input = self.api.untold_pods.remove(0);
            self.tell(input);
        }
    }

    fn job_reaches_the_api(&mut self, is_calm: bool) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.remove(self.random.random_range(0..self.jobs.len()));
        let outcome = match !is_calm && self.random.random_bool(0.2) {
            true => BindOutcome::NotBound(Why::Refused("planted".to_owned())),
            false => self.api.bind(&job),
        };
        self.log.push(format!("{:?} {} on {}: {outcome:?}", self.now, job.pod.name, job.node));
        self.outcomes.push((job, outcome));
    }

    fn outcome_arrives(&mut self) {
        if self.outcomes.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.outcomes.len());
        let (job, outcome) = self.outcomes.remove(at);
        self.tell(Input::Finished(Box::new(job), outcome));
    }

    fn create_pod(&mut self) {
        if self.api.pods.len() > NODES * 5 {
            return;
        }
        self.api.serial += 1;
        let name = format!("p{}", self.random.random_range(0..30));
        if self.api.pods.contains_key(&name) {
            return;
        }
        let mut created = with_priority(pod(&name), self.random.random_range(0..3));
        created.metadata.as_mut().unwrap().uid = format!("uid-{}", self.api.serial);
        self.api.put(created);
    }

    fn any_pod(&mut self) -> Option<String> {
        let count = self.api.pods.len();
        (count > 0).then(|| self.api.pods.keys().nth(self.random.random_range(0..count)).unwrap().clone())
    }

    fn delete_pod(&mut self) {
        if let Some(name) = self.any_pod() {
            self.log.push(format!("{:?} {name} is deleted", self.now));
            self.api.remove(&name);
        }
    }

    /// A pod with a node ends: the watch of unfinished pods tells it as a deletion.
    fn finish_pod(&mut self) {
        if let Some(name) = self.any_pod()
            && !self.api.node_of(&name).is_empty()
        {
            self.api.remove(&name);
        }
    }

    /// A node vanishes with its pods, or comes back.
    fn toggle_node(&mut self) {
        let name = format!("n{}", self.random.random_range(0..NODES));
        if self.api.nodes.remove(&name).is_some() {
            self.log.push(format!("{:?} {name} vanishes", self.now));
            let key = ObjectKey::new("", name.as_str());
            self.api.untold_nodes.push(Input::Delete(Stored::Node(Box::new(node(&name, SLOTS))), key));
            return;
        }
        self.api.nodes.insert(name.clone(), SLOTS);
        self.api.untold_nodes.push(Input::Upsert(Stored::Node(Box::new(node(&name, SLOTS)))));
    }

    fn check(&self) -> Result<(), String> {
        for index in 0..NODES {
            let name = format!("n{index}");
            let count = self.api.count_on(&name);
            if count > usize::try_from(SLOTS).unwrap() {
                return Err(format!("at {:?} node {name} has {count} pods", self.now));
            }
        }
        Ok(())
    }

    /// Lets everything come to rest; all nodes are back.
    fn settle(&mut self) {
        for index in 0..NODES {
            let name = format!("n{index}");
            if !self.api.nodes.contains_key(&name) {
                self.api.nodes.insert(name.clone(), SLOTS);
                self.api.untold_nodes.push(Input::Upsert(Stored::Node(Box::new(node(&name, SLOTS)))));
            }
        }
        for _ in 0..6_000 {
            self.turn(true);
        }
    }
}

fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..1_500 {
        world.turn(false);
        if let Err(problem) = world.check() {
            panic!("seed {seed}: {problem}\n{}", world.log.join("\n"));
        }
    }
    world.settle();
    world
}

#[test]
fn no_node_is_over_its_slots_and_in_the_end_every_slot_that_is_wanted_is_taken() {
    let mut bindings = 0;
    for seed in 0..150 {
        let world = run(seed);
        if let Err(problem) = world.check() {
            panic!("seed {seed}: {problem}\n{}", world.log.join("\n"));
        }
        let waiting = world.api.pods.keys().filter(|name| world.api.node_of(name).is_empty()).count();
        let slots = NODES * usize::try_from(SLOTS).unwrap();
        let taken: usize = (0..NODES).map(|index| world.api.count_on(&format!("n{index}"))).sum();
        let log = world.log.join("\n");
        assert!(
            waiting == 0 || taken == slots,
            "seed {seed}: {waiting} wait, {taken} of {slots} taken\n{log}"
        );
        assert_eq!(world.executor.bindings(), 0, "seed {seed}");
        bindings += world.api.bindings;
    }
    assert!(bindings > 3_000, "pods are bound: {bindings}");
}

#[test]
fn a_seed_replays_the_same_run() {
    assert_eq!(run(3).log, run(3).log);
    assert_ne!(run(3).log, run(4).log);
}
