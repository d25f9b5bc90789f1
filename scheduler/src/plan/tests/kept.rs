//! Results that a planner keeps between plans change no answer.
//!
//! On random clusters, where pods of several priorities crowd nodes, preempt each other, and wait for their victims, a
//! planner that lives through all changes answers as one that knows nothing yet, and as one that looks at each node for
//! each pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::indexes::Random;
use crate::api::core::v1;
use crate::api::meta::v1::{LabelSelector, ObjectMeta};
use crate::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use crate::api::resource::Quantity;
use crate::objects::pod::Pod;
use crate::plan::cluster::nodes::NodeId;
use crate::plan::decision::Preemption;
use crate::plan::extenders::Rejection;
use crate::plan::preempt::Candidate;
use crate::plan::{Change, Cluster, Decision, Extenders, NoExtenders, Object, Planner, Profile};
use crate::wall_time::WallTime;

/// An extender that wants to see every node and changes nothing.
struct Onlooker;

impl Extenders for Onlooker {
    fn sees_nodes(&self) -> bool {
        true
    }

    fn filter(&mut self, _: &Cluster, _: &Pod, _: &[NodeId]) -> Result<Vec<Rejection>, String> {
        Ok(Vec::new())
    }

    fn prioritize(&mut self, _: &Cluster, _: &Pod, _: &[NodeId]) -> Vec<i64> {
        Vec::new()
    }

    fn preempt(
        &mut self,
        _: &Cluster,
        _: &Pod,
        _: &[Arc<Candidate>],
    ) -> Result<Option<Vec<Candidate>>, String> {
        Ok(None)
    }
}

fn map(pairs: &[(&str, String)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn amounts(cpu: u64, pods: u64) -> BTreeMap<String, Quantity> {
    let amounts = [("cpu", format!("{cpu}")), ("memory", "8Gi".to_owned()), ("pods", format!("{pods}"))];
    amounts.into_iter().map(|(name, string)| (name.to_owned(), Quantity { string })).collect()
}

fn node(random: &mut Random, index: u64) -> v1::Node {
    let taint = |effect: &str| v1::Taint { key: "k".into(), effect: effect.into(), ..Default::default() };
    let effect = ["PreferNoSchedule", "NoSchedule"][usize::from(random.below(3) == 0)];
    let spec = v1::NodeSpec {
        unschedulable: random.below(12) == 0,
        taints: if random.below(8) == 0 { vec![taint(effect)] } else { Vec::new() },
        ..Default::default()
    };
    v1::Node {
        metadata: Some(ObjectMeta {
            name: format!("node-{index}"),
            labels: map(&[("host", index.to_string()), ("zone", random.below(2).to_string())]),
            ..Default::default()
        }),
        spec: Some(spec),
        status: Some(v1::NodeStatus {
            allocatable: amounts(2 + random.below(3), 3 + random.below(3)),
            ..Default::default()
        }),
    }
}

fn requirement(zone: u64) -> v1::NodeSelectorRequirement {
    v1::NodeSelectorRequirement {
        key: "zone".to_owned(),
        operator: "In".to_owned(),
        values: vec![zone.to_string()],
    }
}

fn affinity(random: &mut Random) -> v1::Affinity {
    let term = v1::NodeSelectorTerm { match_expressions: vec![requirement(0)], ..Default::default() };
    let preferred = v1::PreferredSchedulingTerm { weight: 7, preference: Some(term) };
    let apart = v1::PodAffinityTerm {
        topology_key: "host".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: map(&[("app", "0".into())]),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut affinity = v1::Affinity::default();
    if random.below(2) == 0 {
        affinity.node_affinity = Some(v1::NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: vec![preferred],
            ..Default::default()
        });
    } else {
        affinity.pod_anti_affinity = Some(v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: vec![apart],
            ..Default::default()
        });
    }
    affinity
}

fn pod(random: &mut Random, name: &str) -> v1::Pod {
    let port = v1::ContainerPort { host_port: 80, container_port: 80, ..Default::default() };
    let container = v1::Container {
        ports: if random.below(6) == 0 { vec![port] } else { Vec::new() },
        resources: Some(v1::ResourceRequirements {
            requests: amounts(1 + random.below(3), 1).into_iter().filter(|(name, _)| name == "cpu").collect(),
            ..Default::default()
        }),
        ..Default::default()
    };
    v1::Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            uid: name.to_owned(),
            namespace: "ns".to_owned(),
            labels: map(&[("app", random.below(3).to_string())]),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            containers: vec![container],
            priority: Some(i32::try_from(random.below(3)).unwrap()),
            affinity: (random.below(6) == 0).then(|| affinity(random)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

struct Run {
    random: Random,
    cluster: Cluster,
    planner: Planner,
    each: Planner,
    waiting: Vec<(v1::Pod, Preemption)>,
    bound: Vec<v1::Pod>,
    preemptions: usize,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut cluster = Cluster::new(&orch_proto::brand::ORCH);
        let planner = Planner::new(&mut cluster, Profile::default());
        let each = Planner::new(&mut cluster, Profile::default());
        let (waiting, bound) = (Vec::new(), Vec::new());
        Run { random: Random(seed), cluster, planner, each, waiting, bound, preemptions: 0 }
    }

    fn change(&mut self) {
        match self.random.below(10) {
            0..3 => {
                let index = self.random.below(7);
                let node = node(&mut self.random, index);
                self.cluster.apply(Change::Upsert(Object::Node(&node)));
            }
            3 => {
                let name = format!("node-{}", self.random.below(7));
                let metadata = Some(ObjectMeta { name, ..Default::default() });
                let node = v1::Node { metadata, ..Default::default() };
                self.cluster.apply(Change::Delete(Object::Node(&node)));
            }
            4 => self.set_budget(),
            5 | 6 if !self.bound.is_empty() => {
                let at = usize::try_from(self.random.below(self.bound.len() as u64)).unwrap();
                let pod = self.bound.swap_remove(at);
                self.cluster.apply(Change::Delete(Object::Pod(&pod)));
            }
            _ => {}
        }
    }

    fn set_budget(&mut self) {
        let selector = LabelSelector { match_labels: map(&[("app", "1".into())]), ..Default::default() };
        let allowed = i32::try_from(self.random.below(2)).unwrap();
        let budget = PodDisruptionBudget {
            metadata: Some(ObjectMeta { name: "b".into(), namespace: "ns".into(), ..Default::default() }),
            spec: Some(PodDisruptionBudgetSpec { selector: Some(selector), ..Default::default() }),
            status: Some(PodDisruptionBudgetStatus { disruptions_allowed: allowed, ..Default::default() }),
        };
        self.cluster.apply(Change::Upsert(Object::PodDisruptionBudget(&budget)));
    }

    /// Plans a pod by all planners, and carries out what they say.
    fn plan(&mut self, object: v1::Pod, seed: u64) {
        let pod = self.cluster.compile(&object);
        let mut anew = Planner::new(&mut self.cluster, Profile::default());
        let decision = self.planner.plan(&self.cluster, &pod, WallTime::default(), seed, &mut NoExtenders);
        let by_anew = anew.plan(&self.cluster, &pod, WallTime::default(), seed, &mut NoExtenders);
        assert_eq!(decision, by_anew, "of a planner that knows nothing yet");
        let by_each = self.each.plan(&self.cluster, &pod, WallTime::default(), seed, &mut Onlooker);
        assert_eq!(decision, by_each, "of a planner that looks at each node");
        self.planner.assert_tables(&self.cluster);
        match decision {
            Decision::Bind(placement) => {
                self.cluster.assume(&pod, &placement).unwrap();
                self.bound.push(object);
            }
            Decision::Unschedulable(refusal) => {
                let Some(preemption) = refusal.preemption else { return };
                self.preemptions += 1;
                self.cluster.nominate(&pod, &preemption.node);
                self.waiting.push((object, preemption));
            }
            Decision::Failed(failure) => panic!("{failure:?}"),
        }
    }

    /// The victims of a pod that waits for them go, some or all of them, and it is tried again.
    fn retry(&mut self, seed: u64) {
        let at = usize::try_from(self.random.below(self.waiting.len() as u64)).unwrap();
        let (mut object, preemption) = self.waiting.swap_remove(at);
        for victim in &preemption.victims {
            if self.random.below(4) > 0 {
                let metadata = Some(ObjectMeta { uid: victim.uid.to_string(), ..Default::default() });
                self.cluster.apply(Change::Delete(Object::Pod(&v1::Pod { metadata, ..Default::default() })));
                self.bound.retain(|pod| pod.metadata.as_ref().unwrap().uid != *victim.uid);
            }
        }
        if self.random.below(2) == 0 {
            object.status.get_or_insert_default().nominated_node_name = preemption.node.to_string();
        }
        self.plan(object, seed);
    }
}

#[test]
fn plans_do_not_depend_on_what_is_kept() {
    let mut preemptions = 0;
    for seed in 0..150 {
        let mut run = Run::new(seed);
        for step in 0..60 {
            run.change();
            let object = pod(&mut run.random, &format!("pod-{step}"));
            run.plan(object, step);
            if !run.waiting.is_empty() && run.random.below(3) == 0 {
                run.retry(step);
            }
        }
        preemptions += run.preemptions;
    }
    assert!(preemptions > 300, "pods were in each other's way {preemptions} times only");
}
