//! The other clients of the API: users, kubelets, the collector of pods without a node, another scheduler.
//!
//! Owns what happens to pods and nodes but for scheduling. Pods take few names, so that names come back with other UIDs.
//! The other scheduler binds pods of this one, to a node that this one must not use; so it takes pods away, but no room.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::api::{NAMESPACE, Store, is_ending, is_finished, node_of, uid_of};
use super::devices;
use super::run::Phase;
use super::volumes;
use crate::api::core::v1::{
    Binding, Container, Node, NodeSpec, NodeStatus, ObjectReference, Pod, PodSchedulingGate, PodSpec,
    PodStatus, ResourceRequirements,
};
use crate::api::meta::v1::{DeleteOptions, ObjectMeta};
use crate::api::resource::Quantity;

/// Nodes of the scheduler.
const NODES: usize = 5;

/// The node that only the other scheduler uses.
pub(super) const ELSEWHERE: &str = "elsewhere";

/// Names of pods.
const NAMES: usize = 36;

/// CPU of a node when it is whole, in thousandths.
const NODE_CPU: u64 = 4_000;
const NODE_PODS: u64 = 6;

/// Pods that come in the calm, and how long after its begin. All watches end at that moment: the first of these pods has
/// the version right after the last one that they told.
const ARRIVALS: usize = 3;
const ARRIVALS_AFTER: Moment = 10_000;

/// Pods that end in the calm, and how long after its begin: nothing else can wake the pods that wait for their room then.
const LAST_WAVE: usize = 3;
const LAST_WAVE_AFTER: Moment = 25_000;

/// The act of users in a slice of the calm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    Quiet,
    Arrivals,
}

/// Users of one run.
#[derive(Default)]
pub(super) struct Users {
    // The time at which each ending or finished pod is removed.
    removals: BTreeMap<String, Moment>,
    // Nodes that are away or smaller, and when they are whole again.
    broken: BTreeMap<String, Moment>,
    // When some pods come once more; `None` before the calm.
    arrivals: Option<Moment>,
    // When some pods end after which nothing happens any more; `None` before the calm.
    last_wave: Option<Moment>,
}

impl Users {
    /// The nodes at the beginning.
    pub(super) fn found(&mut self, store: &mut Store) {
        for index in 0..NODES {
            store.put(0, whole_node(&node_name(index)));
        }
        let mut elsewhere = whole_node(ELSEWHERE);
        elsewhere.spec.get_or_insert_default().unschedulable = true;
        store.put(0, elsewhere);
    }

    /// The acts of users in a slice of the faults: deletions and repairs that are due, and in a quarter of the slices one more.
    pub(super) fn act(&mut self, now: Moment, store: &mut Store, random: &mut StdRng) {
        self.end_pods(now, store, random);
        devices::collect(now, store, random);
        volumes::act(now, store, random, Phase::Faults);
        self.mend_nodes(now, store);
        match random.random_range(0..40) {
            0..=3 => create_pod(now, store, random),
            4 => self.delete_pod(now, store, random),
            5 => finish_pod(now, store, random),
            6 => lift_gates(now, store, random),
            7 => take_away(now, store, random),
            8 => touch(now, store, random),
            9 if random.random_bool(0.3) => self.break_node(now, store, random),
            10 => replace_pod(now, store, random),
            _ => {}
        }
    }

    /// The acts of users in a slice of the calm: some pods come, some end late, nodes are whole, and deletions come to their end.
    pub(super) fn settle(&mut self, now: Moment, store: &mut Store, random: &mut StdRng) -> Settling {
        self.end_pods(now, store, random);
        devices::collect(now, store, random);
        volumes::act(now, store, random, Phase::Calm);
        for until in self.broken.values_mut() {
            *until = now;
        }
        self.mend_nodes(now, store);
        let arrivals = *self.arrivals.get_or_insert(now + ARRIVALS_AFTER);
        let wave = *self.last_wave.get_or_insert(now + LAST_WAVE_AFTER);
        if now >= wave {
            self.last_wave = Some(Moment::MAX);
            end_some(now, store, random);
        }
        if now < arrivals {
            return Settling::Quiet;
        }
        self.arrivals = Some(Moment::MAX);
        let free = (0..NAMES).map(pod_name).filter(|name| !store.pods.contains_key(name));
        let names: Vec<_> = free.take(ARRIVALS).collect();
        names.into_iter().for_each(|name| make_pod(name, now, store, random));
        Settling::Arrivals
    }

    /// Marked and finished pods go after a while; so do those whose node is away.
    fn end_pods(&mut self, now: Moment, store: &mut Store, random: &mut StdRng) {
        for pod in store.pods.values() {
            let is_homeless = !node_of(pod).is_empty() && !store.nodes.contains_key(node_of(pod));
            if is_ending(pod) || is_finished(pod) || is_homeless {
                let uid = uid_of(pod).to_owned();
                self.removals.entry(uid).or_insert_with(|| now + random.random_range(200..4_000));
            }
        }
        let due: Vec<String> = store
            .pods
            .iter()
            .filter(|(_, pod)| self.removals.get(uid_of(pod)).is_some_and(|at| *at <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            let pod = store.pods[&name].clone();
            self.removals.remove(uid_of(&pod));
            let is_homeless = !node_of(&pod).is_empty() && !store.nodes.contains_key(node_of(&pod));
            if is_ending(&pod) || is_finished(&pod) || is_homeless {
                store.remove::<Pod>(now, &name);
            }
        }
    }

    fn mend_nodes(&mut self, now: Moment, store: &mut Store) {
        let due: Vec<String> =
            self.broken.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.broken.remove(&name);
            store.put(now, whole_node(&name));
        }
    }

    fn break_node(&mut self, now: Moment, store: &mut Store, random: &mut StdRng) {
        let name = node_name(random.random_range(0..NODES));
        if self.broken.contains_key(&name) {
            return;
        }
        self.broken.insert(name.clone(), now + random.random_range(500..15_000));
        match random.random_range(0..3) {
            0 => store.remove::<Node>(now, &name),
            1 => drop(store.put(now, node(&name, NODE_CPU / 2, NODE_PODS))),
            _ => {
                let mut cordoned = whole_node(&name);
                cordoned.spec.get_or_insert_default().unschedulable = true;
                store.put(now, cordoned);
            }
        }
    }

    /// A node takes no more pods until `until`, and loses those that it has.
    pub(super) fn empty_node(&mut self, now: Moment, until: Moment, store: &mut Store, random: &mut StdRng) {
        let name = node_name(random.random_range(0..NODES));
        if self.broken.insert(name.clone(), until).is_some() {
            return;
        }
        let mut cordoned = whole_node(&name);
        cordoned.spec.get_or_insert_default().unschedulable = true;
        store.put(now, cordoned);
        let pods: Vec<String> =
            store.pods.iter().filter(|(_, pod)| node_of(pod) == name).map(|(pod, _)| pod.clone()).collect();
        pods.iter().for_each(|pod| store.remove::<Pod>(now, pod));
    }

    fn delete_pod(&mut self, now: Moment, store: &mut Store, random: &mut StdRng) {
        if let Some(name) = any(store, random, |_| true) {
            store.delete_pod(now, &name, &DeleteOptions::default()).expect("the pod is there");
        }
    }
}

fn quantity(string: String) -> Quantity {
    Quantity { string }
}

fn node_name(index: usize) -> String {
    format!("n{index}")
}

fn whole_node(name: &str) -> Node {
    node(name, NODE_CPU, NODE_PODS)
}

fn node(name: &str, cpu: u64, pods: u64) -> Node {
    let zone = if name.ends_with(['0', '2', '4']) { "even" } else { "odd" };
    let room: BTreeMap<_, _> =
        [("cpu".to_owned(), quantity(format!("{cpu}m"))), ("pods".to_owned(), quantity(pods.to_string()))]
            .into();
    Node {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            labels: [("zone".to_owned(), zone.to_owned()), ("host".to_owned(), name.to_owned())].into(),
            ..ObjectMeta::default()
        }),
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus { capacity: room.clone(), allocatable: room, ..NodeStatus::default() }),
    }
}

/// The names of the scheduler's nodes.
pub(super) fn node_names() -> impl Iterator<Item = String> {
    (0..NODES).map(node_name)
}

fn pod_name(index: usize) -> String {
    format!("p{index}")
}

/// Deletes some pods that have nodes.
fn end_some(now: Moment, store: &mut Store, random: &mut StdRng) {
    for _ in 0..LAST_WAVE {
        let Some(name) = any(store, random, |pod| !node_of(pod).is_empty() && !is_ending(pod)) else {
            return;
        };
        store.delete_pod(now, &name, &DeleteOptions::default()).expect("the pod is there");
    }
}

/// A pod without a node goes at once, and another of its name comes.
fn replace_pod(now: Moment, store: &mut Store, random: &mut StdRng) {
    let Some(name) = any(store, random, |pod| node_of(pod).is_empty()) else { return };
    store.remove::<Pod>(now, &name);
    make_pod(name, now, store, random);
}

fn create_pod(now: Moment, store: &mut Store, random: &mut StdRng) {
    let name = pod_name(random.random_range(0..NAMES));
    if !store.pods.contains_key(&name) {
        make_pod(name, now, store, random);
    }
}

fn make_pod(name: String, now: Moment, store: &mut Store, random: &mut StdRng) {
    let cpu = [500, 1_000, 1_000, 2_000, 3_500][random.random_range(0..5)];
    let mut requests: BTreeMap<_, _> = [("cpu".to_owned(), quantity(format!("{cpu}m")))].into();
    let limits: BTreeMap<_, _> = devices::wanted_extended(store, random).into_iter().collect();
    requests.extend(limits.clone());
    let container = Container {
        name: "c".to_owned(),
        resources: Some(ResourceRequirements { requests, limits, ..ResourceRequirements::default() }),
        ..Container::default()
    };
    let mut spec = PodSpec {
        scheduler_name: "default-scheduler".to_owned(),
        containers: vec![container],
        priority: Some([0, 0, 0, 10, 1_000][random.random_range(0..5)]),
        ..PodSpec::default()
    };
    if random.random_bool(0.2) {
        let zone = if random.random_bool(0.5) { "even" } else { "odd" };
        spec.node_selector = [("zone".to_owned(), zone.to_owned())].into();
    }
    if random.random_bool(0.1) {
        spec.scheduling_gates = vec![PodSchedulingGate { name: "gate".to_owned() }];
    }
    spec.resource_claims = devices::wanted(store, random);
    spec.volumes = volumes::wanted(store, random);
    let finalizers = if random.random_bool(0.2) { vec!["hold".to_owned()] } else { Vec::new() };
    let metadata = ObjectMeta { name, namespace: NAMESPACE.to_owned(), finalizers, ..ObjectMeta::default() };
    let status = PodStatus { phase: "Pending".to_owned(), ..PodStatus::default() };
    store.put(now, Pod { metadata: Some(metadata), spec: Some(spec), status: Some(status) });
}

fn finish_pod(now: Moment, store: &mut Store, random: &mut StdRng) {
    let Some(name) = any(store, random, |pod| !node_of(pod).is_empty() && !is_finished(pod)) else { return };
    let mut pod = (*store.pods[&name]).clone();
    pod.status.get_or_insert_default().phase = "Succeeded".to_owned();
    store.put(now, pod);
}

/// Gates may be lifted only.
fn lift_gates(now: Moment, store: &mut Store, random: &mut StdRng) {
    let gated = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| !spec.scheduling_gates.is_empty());
    let Some(name) = any(store, random, gated) else { return };
    let mut pod = (*store.pods[&name]).clone();
    pod.spec.get_or_insert_default().scheduling_gates.clear();
    store.put(now, pod);
}

fn take_away(now: Moment, store: &mut Store, random: &mut StdRng) {
    let free = |pod: &Pod| {
        let is_gated = pod.spec.as_ref().is_some_and(|spec| !spec.scheduling_gates.is_empty());
        node_of(pod).is_empty() && !is_gated && !is_ending(pod)
    };
    let Some(name) = any(store, random, free) else { return };
    let target = Some(ObjectReference { name: ELSEWHERE.to_owned(), ..ObjectReference::default() });
    store.bind(now, &name, &Binding { metadata: None, target }).expect("a pod without a node is bound");
}

/// A change of an annotation, which concerns no other client.
fn touch(now: Moment, store: &mut Store, random: &mut StdRng) {
    let Some(name) = any(store, random, |_| true) else { return };
    let mut pod = (*store.pods[&name]).clone();
    pod.metadata.get_or_insert_default().annotations.insert("touched".to_owned(), now.to_string());
    store.put(now, pod);
}

fn any(store: &Store, random: &mut StdRng, wanted: impl Fn(&Pod) -> bool) -> Option<String> {
    let names: Vec<&String> =
        store.pods.iter().filter(|(_, pod)| wanted(pod)).map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| names[random.random_range(0..names.len())].clone())
}
