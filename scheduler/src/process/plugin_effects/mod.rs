//! Effects of the configuration on plans: each case is a small cluster in which one field decides.
//!
//! Owns the way from the text of a file to the plan. Fields that act elsewhere have their tests there; the table of all
//! fields is in `tests/program/field_table.rs`.

mod affinity;
mod points;
mod resources;
mod spreading;

use std::collections::{BTreeMap, BTreeSet};

use orch_proto::brand::ORCH;

use super::profiles::plan_profiles;
use super::testing::configuration;
use crate::api::core::v1::{
    Affinity, Container, ContainerPort, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, NodeSpec, NodeStatus, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Pod, PodAffinity, PodAffinityTerm, PodSchedulingGate, PodSpec,
    PodStatus, ResourceRequirements, Service, ServiceSpec, Taint, Volume, VolumeSource,
    WeightedPodAffinityTerm,
};
use crate::api::meta::v1::{LabelSelector, ObjectMeta};
use crate::api::resource::Quantity;
use crate::api::storage::v1::StorageClass;
use crate::plan::decision::{Admission, Decision};
use crate::plan::{Change, Cluster, NoExtenders, Object, Planner};
use crate::wall_time::WallTime;

/// A cluster, and the pod that is planned in it.
#[derive(Clone, Default)]
struct World {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    services: Vec<Service>,
    pod: Pod,
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), Quantity { string: (*text).to_owned() })).collect()
}

fn metadata(name: &str, labels: &[(&str, &str)]) -> Option<ObjectMeta> {
    Some(ObjectMeta {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        labels: texts(labels),
        ..ObjectMeta::default()
    })
}

/// A node with its name as a label, ten CPUs and as many gigabytes, and `more`.
fn node(name: &str, labels: &[(&str, &str)], more: &[(&str, &str)]) -> Node {
    let mut labels = labels.to_vec();
    labels.push(("host", name));
    let mut room = amounts(&[("cpu", "10"), ("memory", "10G"), ("pods", "10")]);
    room.extend(amounts(more));
    let metadata = metadata(name, &labels).map(|one| ObjectMeta { namespace: String::new(), ..one });
    let status = NodeStatus { allocatable: room, ..NodeStatus::default() };
    Node { metadata, status: Some(status), spec: None }
}

/// A pod of `app: x` that asks for `asks`, on `on` unless that is empty.
fn pod(name: &str, on: &str, asks: &[(&str, &str)]) -> Pod {
    let resources = Some(ResourceRequirements { requests: amounts(asks), ..ResourceRequirements::default() });
    let spec = PodSpec {
        node_name: on.to_owned(),
        containers: vec![Container { resources, ..Container::default() }],
        ..PodSpec::default()
    };
    Pod { metadata: metadata(name, &[("app", "x")]), spec: Some(spec), status: Some(PodStatus::default()) }
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    pod.spec.as_mut().unwrap().priority = Some(priority);
    pod
}

fn services() -> Vec<Service> {
    let spec = ServiceSpec { selector: texts(&[("app", "x")]), ..ServiceSpec::default() };
    vec![Service { metadata: metadata("s", &[]), spec: Some(spec), ..Service::default() }]
}

/// A term for pods of `app: x` on the same host.
fn term() -> PodAffinityTerm {
    let selector = LabelSelector { match_labels: texts(&[("app", "x")]), ..LabelSelector::default() };
    PodAffinityTerm {
        label_selector: Some(selector),
        topology_key: "host".to_owned(),
        ..PodAffinityTerm::default()
    }
}

fn with_affinity(mut pod: Pod, affinity: PodAffinity) -> Pod {
    let affinity = Affinity { pod_affinity: Some(affinity), ..Affinity::default() };
    pod.spec.as_mut().unwrap().affinity = Some(affinity);
    pod
}

impl World {
    fn planner(&self, members: &str) -> (Cluster, Planner) {
        let mut cluster = Cluster::new(&ORCH);
        let profile = plan_profiles(&configuration(members)).unwrap().remove(0);
        let planner = Planner::new(&mut cluster, profile);
        self.nodes.iter().for_each(|node| cluster.apply(Change::Upsert(Object::Node(node))));
        self.services.iter().for_each(|one| cluster.apply(Change::Upsert(Object::Service(one))));
        self.pods.iter().for_each(|pod| cluster.apply(Change::Upsert(Object::Pod(pod))));
        (cluster, planner)
    }

    fn plan(&self, members: &str, seed: u64) -> Decision {
        let (mut cluster, mut planner) = self.planner(members);
        let pod = cluster.compile(&self.pod);
        planner.plan(&cluster, &pod, WallTime::default(), seed, &mut NoExtenders)
    }

    /// The node that the pod goes to whatever the seed, or the beginning of why it goes nowhere.
    fn outcome(&self, members: &str) -> String {
        let outcomes: BTreeSet<String> = (0..8)
            .map(|seed| match self.plan(members, seed) {
                Decision::Bind(placement) => placement.node.to_string(),
                Decision::Unschedulable(refusal) => match refusal.preemption {
                    Some(preemption) => format!("nominated {}", preemption.node),
                    None => refusal.message,
                },
                Decision::Failed(failure) => failure.message,
            })
            .collect();
        outcomes.into_iter().collect::<Vec<_>>().join(" or ")
    }

    /// With the members of the file `before`, the outcome begins with the one text, with `after` with the other.
    fn check(&self, before: (&str, &str), after: (&str, &str)) {
        for (members, expected) in [before, after] {
            let outcome = self.outcome(members);
            assert!(outcome.starts_with(expected), "{members}: {outcome}, expected {expected}");
        }
    }
}

/// A profile with `args` of `plugin`, in which only `plugin`, and `others`, score.
fn scoring(plugin: &str, others: &str, args: &str) -> String {
    format!(
        "profiles:\n- plugins: {{score: {{disabled: [{{name: '*'}}], enabled: [{{name: {plugin}}}{others}]}}}}\n  \
         pluginConfig: [{{name: {plugin}, args: {args}}}]\n"
    )
}

/// Scores that prefer empty nodes, a little.
const FIT: &str = ", {name: NodeResourcesFit}";

fn args(plugin: &str, args: &str) -> String {
    format!("profiles:\n- pluginConfig: [{{name: {plugin}, args: {args}}}]\n")
}
