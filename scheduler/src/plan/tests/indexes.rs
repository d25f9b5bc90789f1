//! Indexes that followed a sequence of changes equal those of a snapshot that is made anew from what is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::core::v1;
use crate::api::meta::v1::{LabelSelector, ObjectMeta};
use crate::api::resource::Quantity;
use crate::plan::cluster::nodes::Load;
use crate::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use crate::wall_time::WallTime;

/// A sequence of numbers by seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn labels(pairs: &[(&str, String)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn node(index: u64, zone: u64) -> v1::Node {
    let amounts = [("cpu", "64"), ("memory", "64Gi"), ("pods", "200")];
    let amounts = amounts.map(|(name, amount)| (name.to_owned(), Quantity { string: amount.to_owned() }));
    v1::Node {
        metadata: Some(ObjectMeta {
            name: format!("node-{index}"),
            labels: labels(&[("host", index.to_string()), ("zone", zone.to_string())]),
            ..Default::default()
        }),
        status: Some(v1::NodeStatus { allocatable: BTreeMap::from(amounts), ..Default::default() }),
        ..Default::default()
    }
}

fn term(random: &mut Random) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        topology_key: if random.below(2) == 0 { "host" } else { "zone" }.to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: labels(&[("app", random.below(3).to_string())]),
            ..Default::default()
        }),
        namespace_selector: (random.below(3) == 0).then(|| LabelSelector {
            match_labels: labels(&[("team", random.below(2).to_string())]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A container that asks for a little, or for more than any sum of 64 bits holds twice.
fn container(random: &mut Random) -> v1::Container {
    let memory = if random.below(8) == 0 { "8E" } else { "1Mi" };
    let requests = BTreeMap::from([("memory".to_owned(), Quantity { string: memory.to_owned() })]);
    let resources = v1::ResourceRequirements { requests, ..Default::default() };
    v1::Container { resources: Some(resources), ..Default::default() }
}

fn pod(random: &mut Random, name: &str, node: &str) -> v1::Pod {
    let preferred = v1::WeightedPodAffinityTerm { weight: 5, pod_affinity_term: Some(term(random)) };
    let claim = v1::PersistentVolumeClaimVolumeSource { claim_name: "shared".to_owned(), read_only: false };
    let source = v1::VolumeSource { persistent_volume_claim: Some(claim), ..Default::default() };
    let volume = v1::Volume { name: "v".to_owned(), volume_source: Some(source) };
    v1::Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            uid: name.to_owned(),
            namespace: format!("ns-{}", random.below(2)),
            labels: labels(&[("app", random.below(3).to_string())]),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            node_name: node.to_owned(),
            containers: vec![container(random)],
            volumes: if random.below(4) == 0 && !node.is_empty() { vec![volume] } else { Vec::new() },
            affinity: Some(v1::Affinity {
                pod_affinity: Some(v1::PodAffinity {
                    preferred_during_scheduling_ignored_during_execution: vec![preferred],
                    ..Default::default()
                }),
                pod_anti_affinity: (random.below(3) == 0).then(|| v1::PodAntiAffinity {
                    required_during_scheduling_ignored_during_execution: vec![term(random)],
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What is there, apart from the snapshot.
#[derive(Default)]
struct Stored {
    nodes: BTreeMap<String, v1::Node>,
    pods: BTreeMap<String, v1::Pod>,
    namespaces: BTreeMap<String, v1::Namespace>,
}

fn change(random: &mut Random, stored: &mut Stored, cluster: &mut Cluster, step: u64) {
    let index = random.below(6);
    match random.below(8) {
        0 => {
            let node = node(index, random.below(3));
            cluster.apply(Change::Upsert(Object::Node(&node)));
            stored.nodes.insert(format!("node-{index}"), node);
        }
        1 => {
            if let Some(node) = stored.nodes.remove(&format!("node-{index}")) {
                cluster.apply(Change::Delete(Object::Node(&node)));
            }
        }
        2 => {
            let name = format!("ns-{}", random.below(2));
            let team = labels(&[("team", random.below(2).to_string())]);
            let metadata = ObjectMeta { name: name.clone(), labels: team, ..Default::default() };
            let namespace = v1::Namespace { metadata: Some(metadata), ..Default::default() };
            cluster.apply(Change::Upsert(Object::Namespace(&namespace)));
            stored.namespaces.insert(name, namespace);
        }
        3 => {
            let at = usize::try_from(random.below(100)).unwrap() % stored.pods.len().max(1);
            if let Some(uid) = stored.pods.keys().nth(at).cloned() {
                let pod = stored.pods.remove(&uid).unwrap();
                cluster.apply(Change::Delete(Object::Pod(&pod)));
            }
        }
        _ => {
            let pod = pod(random, &format!("pod-{step}"), &format!("node-{index}"));
            cluster.apply(Change::Upsert(Object::Pod(&pod)));
            stored.pods.insert(format!("pod-{step}"), pod);
        }
    }
}

/// A snapshot of what is there, made at once.
fn anew(stored: &Stored) -> Cluster {
    let mut cluster = Cluster::new(&orch_proto::brand::ORCH);
    stored.namespaces.values().for_each(|n| cluster.apply(Change::Upsert(Object::Namespace(n))));
    stored.pods.values().for_each(|pod| cluster.apply(Change::Upsert(Object::Pod(pod))));
    stored.nodes.values().for_each(|node| cluster.apply(Change::Upsert(Object::Node(node))));
    cluster
}

/// Loads by node; lists in an order that does not depend on that of the changes.
fn loads(cluster: &Cluster) -> BTreeMap<String, (Load, Vec<Arc<str>>)> {
    let slots = cluster.nodes().iter().map(|(_, slot)| {
        let mut pods: Vec<_> = slot.pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        pods.sort();
        (cluster.texts().text(slot.node.name).to_string(), (slot.load.clone(), pods))
    });
    slots.collect()
}

/// Affinity terms by what they are, with the number of pods that have them on each node.
fn terms(cluster: &Cluster) -> Vec<String> {
    let held = cluster.terms().iter().map(|held| {
        let text = |symbol| cluster.texts().text(symbol).to_string();
        let namespaces: Vec<_> = held.term.pods.namespaces.iter().map(|name| text(*name)).collect();
        let counts: BTreeMap<String, u32> =
            held.nodes.iter().map(|(node, count)| (cluster.node_name(node).to_string(), count)).collect();
        format!("{:?} {namespaces:?} {} {counts:?}", held.kind, text(held.term.topology_key))
    });
    let mut held: Vec<_> = held.collect();
    held.sort();
    held
}

/// Every counter equals a count over the pods of each node.
fn assert_counters(cluster: &Cluster) {
    let memo = cluster.memo();
    for (counted, counts) in memo.selections.all() {
        for (id, slot) in cluster.nodes().iter() {
            let matching =
                slot.pods.iter().filter(|pod| counted.counts(pod, cluster.namespaces(), cluster.texts()));
            assert_eq!(counts.of(id) as usize, matching.count(), "{counted:?} on {}", cluster.node_name(id));
        }
        assert!(
            counts.iter().all(|(id, _)| cluster.nodes().slot(id).is_some()),
            "counts on a node that is gone"
        );
    }
}

#[test]
fn indexes_equal_those_that_are_made_anew() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut stored = Stored::default();
        let mut cluster = Cluster::new(&orch_proto::brand::ORCH);
        let mut planner = Planner::new(&mut cluster, Profile::default());
        for step in 0..80 {
            change(&mut random, &mut stored, &mut cluster, step);
            // A plan makes counters, which follow the changes after it.
            let waiting = pod(&mut random, "waiting", "");
            let waiting = cluster.compile(&waiting);
            let decision = planner.plan(&cluster, &waiting, WallTime::default(), step, &mut NoExtenders);
            if let Decision::Bind(placement) = decision
                && random.below(4) == 0
            {
                cluster.assume(&waiting, &placement).unwrap();
                assert!(cluster.is_assumed("waiting"));
                cluster.forget("waiting");
            }
            assert_counters(&cluster);
        }
        let anew = anew(&stored);
        assert_eq!(loads(&cluster), loads(&anew), "seed {seed}");
        assert_eq!(terms(&cluster), terms(&anew), "seed {seed}");
        for namespace in ["ns-0", "ns-1"] {
            let users = |cluster: &Cluster| {
                cluster.texts().find(namespace).map_or(0, |ns| cluster.claim_users(ns, "shared").len())
            };
            assert_eq!(users(&cluster), users(&anew), "users of a claim, seed {seed}");
        }
    }
}
