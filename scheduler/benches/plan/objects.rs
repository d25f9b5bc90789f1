//! The nodes and pods of the reference's benchmark.
//!
//! Owns their templates: sizes, labels and rules are those of the reference's, so that its floors can be compared with.

use std::collections::BTreeMap;

use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::{LabelSelector, ObjectMeta};
use orch_scheduler::api::resource::Quantity;

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), Quantity { string: (*amount).to_owned() }))
        .collect()
}

fn zone_label() -> String {
    format!("topology.{}", ORCH.label("zone"))
}

/// A node of four processors in one of so many zones.
pub(crate) fn node(index: usize, zones: usize) -> v1::Node {
    let zone = format!("zone{}", index % zones + 1);
    let name = format!("node-{index}");
    let room = amounts(&[("cpu", "4"), ("memory", "32Gi"), ("pods", "110")]);
    v1::Node {
        metadata: Some(ObjectMeta {
            labels: map(&[(&ORCH.label("hostname"), &name), (&zone_label(), &zone)]),
            name,
            ..Default::default()
        }),
        status: Some(v1::NodeStatus { allocatable: room.clone(), capacity: room, ..Default::default() }),
        ..Default::default()
    }
}

/// A pod of one container; without a colour it has no labels, without CPU it asks for nothing.
fn pod(namespace: &str, name: &str, cpu: &str, color: &str) -> v1::Pod {
    let asked = if cpu.is_empty() { BTreeMap::new() } else { amounts(&[("cpu", cpu), ("memory", "500Mi")]) };
    v1::Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: format!("{namespace}/{name}"),
            labels: if color.is_empty() { BTreeMap::new() } else { map(&[("color", color)]) },
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            containers: vec![v1::Container {
                name: "pause".to_owned(),
                image: "registry.example/pause:3.10".to_owned(),
                ports: vec![v1::ContainerPort { container_port: 80, ..Default::default() }],
                resources: Some(v1::ResourceRequirements {
                    limits: asked.clone(),
                    requests: asked,
                    ..Default::default()
                }),
                ..Default::default()
            }],
            ..Default::default()
        }),
        status: None,
    }
}

fn with_affinity(mut pod: v1::Pod, affinity: v1::Affinity) -> v1::Pod {
    pod.spec.as_mut().unwrap().affinity = Some(affinity);
    pod
}

/// Pods of a colour in both namespaces of the benchmark.
fn term(color: &str, key: String) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: map(&[("color", color)]), ..Default::default() }),
        topology_key: key,
        namespaces: vec!["sched-1".to_owned(), "sched-0".to_owned()],
        ..Default::default()
    }
}

/// Makes the pod of a number, in a namespace.
pub(crate) type Make = fn(&str, usize) -> v1::Pod;

pub(crate) fn basic(namespace: &str, index: usize) -> v1::Pod {
    pod(namespace, &format!("basic-{index}"), "100m", "")
}

pub(crate) fn light(namespace: &str, index: usize) -> v1::Pod {
    pod(namespace, &format!("light-{index}"), "", "")
}

pub(crate) fn node_affinity(namespace: &str, index: usize) -> v1::Pod {
    let zone = v1::NodeSelectorRequirement {
        key: zone_label(),
        operator: "In".to_owned(),
        values: vec!["zone1".to_owned(), "zone2".to_owned()],
    };
    let terms = vec![v1::NodeSelectorTerm { match_expressions: vec![zone], ..Default::default() }];
    let required = v1::NodeSelector { node_selector_terms: terms };
    let node_affinity = v1::NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(required),
        ..Default::default()
    };
    let pod = pod(namespace, &format!("affine-{index}"), "100m", "");
    with_affinity(pod, v1::Affinity { node_affinity: Some(node_affinity), ..Default::default() })
}

pub(crate) fn spreading(namespace: &str, index: usize) -> v1::Pod {
    let mut pod = pod(namespace, &format!("spread-{index}"), "100m", "blue");
    pod.spec.as_mut().unwrap().topology_spread_constraints = vec![v1::TopologySpreadConstraint {
        max_skew: 5,
        topology_key: zone_label(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(LabelSelector { match_labels: map(&[("color", "blue")]), ..Default::default() }),
        ..Default::default()
    }];
    pod
}

pub(crate) fn pod_affinity(namespace: &str, index: usize) -> v1::Pod {
    let pod_affinity = v1::PodAffinity {
        required_during_scheduling_ignored_during_execution: vec![term("blue", zone_label())],
        ..Default::default()
    };
    let pod = pod(namespace, &format!("near-{index}"), "100m", "blue");
    with_affinity(pod, v1::Affinity { pod_affinity: Some(pod_affinity), ..Default::default() })
}

pub(crate) fn pod_anti_affinity(namespace: &str, index: usize) -> v1::Pod {
    let pod_anti_affinity = v1::PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: vec![term("green", ORCH.label("hostname"))],
        ..Default::default()
    };
    let pod = pod(namespace, &format!("apart-{index}"), "100m", "green");
    with_affinity(pod, v1::Affinity { pod_anti_affinity: Some(pod_anti_affinity), ..Default::default() })
}

/// Four of these leave no room for another one on a node, and none for [`high_priority`].
pub(crate) fn low_priority(namespace: &str, index: usize) -> v1::Pod {
    pod(namespace, &format!("low-{index}"), "900m", "")
}

/// Needs the room of three pods of [`low_priority`].
pub(crate) fn high_priority(namespace: &str, index: usize) -> v1::Pod {
    let mut pod = pod(namespace, &format!("high-{index}"), "3", "");
    pod.spec.as_mut().unwrap().priority = Some(10);
    pod
}

/// More than a node has, whoever were evicted.
pub(crate) fn too_large(namespace: &str, index: usize) -> v1::Pod {
    let mut pod = pod(namespace, &format!("large-{index}"), "9", "");
    pod.spec.as_mut().unwrap().priority = Some(10);
    pod
}

pub(crate) fn gated(namespace: &str, index: usize) -> v1::Pod {
    let mut pod = pod(namespace, &format!("gated-{index}"), "", "");
    pod.spec.as_mut().unwrap().scheduling_gates = vec![v1::PodSchedulingGate { name: "hold".to_owned() }];
    pod
}
