//! The planner against a slow and obvious oracle, on random clusters that change between plans.
//!
//! One planner and one snapshot live through all changes of a cluster, so that every index that was kept up to date is
//! compared with a computation from nothing. `SEEDS=100000` searches further, `SEED=17` replays one.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers are small, and the definitions compute in floats"
)]

mod filters;
mod scores;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::ObjectMeta;
use orch_scheduler::api::resource::v1::ResourceClaim;
use orch_scheduler::plan::decision::Placement;
use orch_scheduler::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use orch_scheduler::wall_time::WallTime;

use filters::{GPU, State, devices_for};
use world::Random;

/// Plans per cluster.
const STEPS: usize = 30;

struct Run {
    random: Random,
    state: State,
    cluster: Cluster,
    planner: Planner,
    made: usize,
    /// Claims for extended resources, by the uid of their pod.
    claims: BTreeMap<String, ResourceClaim>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut cluster = Cluster::new(&orch_proto::brand::ORCH);
        let planner = Planner::new(&mut cluster, Profile::default());
        let (random, state, claims) = (Random::new(seed), State::default(), BTreeMap::new());
        let mut run = Run { random, state, cluster, planner, made: 0, claims };
        for (name, team) in [("n1", "t"), ("n2", "u")] {
            run.set_namespace(name, team);
        }
        for _ in 0..1 + run.random.below(6) {
            run.change_node();
            run.change_devices();
        }
        run
    }

    fn set_namespace(&mut self, name: &str, team: &str) {
        let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        self.state.namespaces.insert(name.to_owned(), labels.clone());
        let metadata = Some(ObjectMeta { name: name.to_owned(), labels, ..Default::default() });
        let namespace = v1::Namespace { metadata, ..Default::default() };
        self.cluster.apply(Change::Upsert(Object::Namespace(&namespace)));
    }

    fn change_node(&mut self) {
        let name = format!("node-{}", self.random.below(8));
        if self.state.nodes.len() > 1 && self.random.once_in(4) {
            if let Some(node) = self.state.nodes.remove(&name) {
                self.cluster.apply(Change::Delete(Object::Node(&node)));
            }
            return;
        }
        let node = world::node(&mut self.random, &name);
        self.cluster.apply(Change::Upsert(Object::Node(&node)));
        self.state.nodes.insert(name, node);
    }

    fn change_something(&mut self) {
        match self.random.below(8) {
            0 => self.change_node(),
            1 => {
                let team = self.random.pick(&["t", "u"]);
                self.set_namespace("n2", team);
            }
            2 | 3 => {
                let at = self.random.below(self.state.pods.len().max(1));
                if let Some(uid) = self.state.pods.keys().nth(at).cloned() {
                    let pod = self.state.pods.remove(&uid).unwrap();
                    self.cluster.apply(Change::Delete(Object::Pod(&pod)));
                    self.state.held.remove(&uid);
                    if let Some(claim) = self.claims.remove(&uid) {
                        self.cluster.apply(Change::Delete(Object::ResourceClaim(&claim)));
                    }
                }
            }
            4 => self.change_devices(),
            5 => {
                self.state.has_class = !self.state.has_class;
                let class = world::class(GPU);
                let class = Object::DeviceClass(&class);
                let has_class = self.state.has_class;
                self.cluster.apply(if has_class { Change::Upsert(class) } else { Change::Delete(class) });
            }
            _ => {}
        }
    }

    fn change_devices(&mut self) {
        let node = format!("node-{}", self.random.below(8));
        let devices = self.random.below(4);
        self.state.devices.insert(node.clone(), devices);
        self.cluster.apply(Change::Upsert(Object::ResourceSlice(&world::slice(&node, devices))));
    }

    /// Takes in what a placement says of devices.
    fn hold(&mut self, pod: &v1::Pod, placement: &Placement) {
        let uid = &pod.metadata.as_ref().unwrap().uid;
        if !self.state.uses_devices(pod, &placement.node) {
            assert_eq!(placement.claims, [], "the node offers what the pod asks for");
            return;
        }
        let [write] = placement.claims.as_slice() else { panic!("{:?}", placement.claims) };
        let results = &write.allocation.chosen().unwrap().devices.as_ref().unwrap().results;
        let held = results.iter().map(|result| (result.pool.clone(), result.device.clone()));
        let held: BTreeSet<_> = held.collect();
        assert_eq!((held.len(), results.len()), (devices_for(pod), devices_for(pod)), "{results:?}");
        assert!(held.iter().all(|(node, _)| *node == *placement.node), "{held:?} on {}", placement.node);
        let others = || self.state.held.values().flatten();
        assert!(others().all(|other| !held.contains(other)), "{held:?} is not free");
        self.state.held.insert(uid.clone(), held);
    }

    /// Shows the claim of a pod that was placed with devices, under this name.
    fn show_claim(&mut self, uid: &str, name: &str, placement: &Placement) {
        let Some(write) = placement.claims.first() else { return };
        let mut claim = write.new.as_ref().unwrap().object.clone();
        let metadata = claim.metadata.as_mut().unwrap();
        (metadata.name, metadata.uid) = (name.to_owned(), name.to_owned());
        claim.status.get_or_insert_default().allocation = write.allocation.chosen().cloned();
        self.cluster.apply(Change::Upsert(Object::ResourceClaim(&claim)));
        self.claims.insert(uid.to_owned(), claim);
    }

    fn plan_one(&mut self) {
        self.made += 1;
        let mut object = world::pod(&mut self.random, &format!("pod-{}", self.made));
        let pod = self.cluster.compile(&object);
        let decision =
            self.planner.plan(&self.cluster, &pod, WallTime::default(), self.made as u64, &mut NoExtenders);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut feasible = Vec::new();
        for name in self.state.nodes.keys() {
            let refused = self.state.reasons(&object, name);
            if refused.is_empty() {
                feasible.push(name.clone());
            }
            refused.into_iter().for_each(|reason| *reasons.entry(reason).or_default() += 1);
        }
        if feasible.is_empty() {
            let Decision::Unschedulable(refusal) = decision else { panic!("{decision:?}, but nothing fits") };
            let mut texts: Vec<String> =
                reasons.iter().map(|(text, count)| format!("{count} {text}")).collect();
            texts.sort();
            let expected = format!("0/{} nodes are available: {}.", self.state.nodes.len(), texts.join(", "));
            assert!(refusal.message.starts_with(&expected), "expected {expected}, got {}", refusal.message);
            return;
        }
        let Decision::Bind(placement) = decision else { panic!("{decision:?}, but {feasible:?} fit") };
        assert_eq!(placement.feasible, feasible.len(), "nodes that fit: {feasible:?}");
        let totals = self.state.totals(&object, &feasible);
        let best = totals.iter().max().unwrap();
        let scores: Vec<_> = feasible.iter().zip(&totals).collect();
        let chosen = scores.iter().find(|(name, _)| **name == *placement.node);
        let chosen = chosen.unwrap_or_else(|| panic!("{} does not fit", placement.node));
        assert_eq!(chosen.1, best, "{} was chosen among {scores:?}", placement.node);
        self.cluster.assume(&pod, &placement).unwrap();
        if self.random.once_in(8) {
            self.cluster.forget(&pod.uid);
            return;
        }
        self.hold(&object, &placement);
        object.spec.as_mut().unwrap().node_name = placement.node.to_string();
        let claim = format!("claim-{}", self.made);
        if !placement.claims.is_empty() {
            let made = v1::PodExtendedResourceClaimStatus {
                resource_claim_name: claim.clone(),
                ..v1::PodExtendedResourceClaimStatus::default()
            };
            object.status.get_or_insert_default().extended_resource_claim_status = Some(made);
        }
        // Claim and pod are told of in any order, or not yet.
        let shows_claim = self.random.below(3);
        if shows_claim == 0 {
            self.show_claim(&pod.uid, &claim, &placement);
        }
        if self.random.once_in(2) {
            self.cluster.apply(Change::Upsert(Object::Pod(&object)));
        }
        if shows_claim == 1 {
            self.show_claim(&pod.uid, &claim, &placement);
        }
        self.state.pods.insert(pod.uid.to_string(), object);
    }
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.plan_one();
        run.change_something();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn plans_equal_those_of_the_oracle() {
    if let Some(seed) = number("SEED") {
        return run(seed);
    }
    for seed in 0..number("SEEDS").unwrap_or(300) {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
