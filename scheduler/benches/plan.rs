//! What a plan costs: pods per second for the shapes of the reference's benchmark, every node considered.
//!
//! Each pod is compiled, planned and assumed, as in the process; binding and the API are left out. `NODES=100000`
//! changes the size of the cluster, an argument chooses shapes by a part of their name.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::{LabelSelector, ObjectMeta};
use orch_scheduler::api::resource::Quantity;
use orch_scheduler::plan::decision::Admission;
use orch_scheduler::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), Quantity { string: (*amount).to_owned() }))
        .collect()
}

fn node(index: usize) -> v1::Node {
    let zone = format!("zone-{}", index % 3);
    let name = format!("node-{index}");
    v1::Node {
        metadata: Some(ObjectMeta {
            labels: map(&[
                (&ORCH.label("hostname"), &name),
                (&format!("topology.{}", ORCH.label("zone")), &zone),
            ]),
            name,
            ..Default::default()
        }),
        status: Some(v1::NodeStatus {
            allocatable: amounts(&[("cpu", "4"), ("memory", "32Gi"), ("pods", "110")]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pod(name: &str, cpu: &str, label: &str) -> v1::Pod {
    v1::Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            namespace: "bench".to_owned(),
            uid: name.to_owned(),
            labels: if label.is_empty() { BTreeMap::new() } else { map(&[("color", label)]) },
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            containers: vec![v1::Container {
                name: "pause".to_owned(),
                image: "pause:3".to_owned(),
                resources: Some(v1::ResourceRequirements {
                    requests: amounts(&[("cpu", cpu), ("memory", "500Mi")]),
                    ..Default::default()
                }),
                ..Default::default()
            }],
            ..Default::default()
        }),
        status: None,
    }
}

fn term(label: &str, key: &str) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: map(&[("color", label)]), ..Default::default() }),
        topology_key: key.to_owned(),
        ..Default::default()
    }
}

/// Makes the pod of a number.
type Make = fn(usize) -> v1::Pod;

fn basic(index: usize) -> v1::Pod {
    pod(&format!("basic-{index}"), "100m", "")
}

fn node_affinity(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("affine-{index}"), "100m", "");
    let zone = v1::NodeSelectorRequirement {
        key: format!("topology.{}", ORCH.label("zone")),
        operator: "In".to_owned(),
        values: vec!["zone-1".to_owned(), "zone-2".to_owned()],
    };
    let terms = vec![v1::NodeSelectorTerm { match_expressions: vec![zone], ..Default::default() }];
    let required = v1::NodeSelector { node_selector_terms: terms };
    pod.spec.as_mut().unwrap().affinity = Some(v1::Affinity {
        node_affinity: Some(v1::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..Default::default()
        }),
        ..Default::default()
    });
    pod
}

fn spreading(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("spread-{index}"), "100m", "blue");
    pod.spec.as_mut().unwrap().topology_spread_constraints = vec![v1::TopologySpreadConstraint {
        max_skew: 5,
        topology_key: format!("topology.{}", ORCH.label("zone")),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(LabelSelector { match_labels: map(&[("color", "blue")]), ..Default::default() }),
        ..Default::default()
    }];
    pod
}

fn pod_affinity(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("near-{index}"), "100m", "blue");
    pod.spec.as_mut().unwrap().affinity = Some(v1::Affinity {
        pod_affinity: Some(v1::PodAffinity {
            required_during_scheduling_ignored_during_execution: vec![term(
                "blue",
                &format!("topology.{}", ORCH.label("zone")),
            )],
            ..Default::default()
        }),
        ..Default::default()
    });
    pod
}

fn pod_anti_affinity(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("apart-{index}"), "100m", "green");
    pod.spec.as_mut().unwrap().affinity = Some(v1::Affinity {
        pod_anti_affinity: Some(v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: vec![term("green", &ORCH.label("hostname"))],
            ..Default::default()
        }),
        ..Default::default()
    });
    pod
}

fn too_large(index: usize) -> v1::Pod {
    pod(&format!("large-{index}"), "9", "")
}

fn gated(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("gated-{index}"), "100m", "");
    pod.spec.as_mut().unwrap().scheduling_gates = vec![v1::PodSchedulingGate { name: "wait".to_owned() }];
    pod
}

fn preemptor(index: usize) -> v1::Pod {
    let mut pod = pod(&format!("high-{index}"), "3", "");
    pod.spec.as_mut().unwrap().priority = Some(10);
    pod
}

struct World {
    cluster: Cluster,
    planner: Planner,
    seed: u64,
}

impl World {
    fn new(nodes: usize) -> World {
        let mut cluster = Cluster::new(&ORCH);
        (0..nodes).for_each(|index| cluster.apply(Change::Upsert(Object::Node(&node(index)))));
        let planner = Planner::new(&mut cluster, Profile::default());
        World { cluster, planner, seed: 0 }
    }

    /// Plans a pod and assumes it. Victims leave at once. Returns whether it has a node.
    fn schedule(&mut self, object: &v1::Pod) -> bool {
        let pod = self.cluster.compile(object);
        if self.planner.admit(&self.cluster, &pod) != Admission::Admitted {
            return false;
        }
        self.seed += 1;
        match self.planner.plan(&self.cluster, &pod, self.seed, &mut NoExtenders) {
            Decision::Bind(placement) => {
                self.cluster.assume(&pod, &placement).unwrap();
                true
            }
            Decision::Unschedulable(refusal) => {
                let Some(preemption) = refusal.preemption else { return false };
                self.cluster.nominate(&pod, &preemption.node);
                for victim in &preemption.victims {
                    let meta = ObjectMeta { uid: victim.uid.to_string(), ..Default::default() };
                    let gone = v1::Pod { metadata: Some(meta), ..Default::default() };
                    self.cluster.apply(Change::Delete(Object::Pod(&gone)));
                }
                let mut again = object.clone();
                again.status.get_or_insert_default().nominated_node_name = preemption.node.to_string();
                self.schedule(&again)
            }
            Decision::Failed(failure) => panic!("{failure:?}"),
        }
    }
}

/// The floor is what the reference reaches on its own machine, in pods per second.
fn measure(name: &str, floor: f64, world: &mut World, pods: usize, make: Make, expected: bool) {
    let made: Vec<v1::Pod> = (0..pods).map(make).collect();
    let start = Instant::now();
    let mut planned = 0;
    for pod in &made {
        planned += 1;
        assert_eq!(world.schedule(pod), expected, "{name}: pod {planned} of {pods}");
        if start.elapsed() > Duration::from_secs(20) {
            break;
        }
    }
    let rate = f64::from(planned) / start.elapsed().as_secs_f64();
    println!("{name:<28} {planned:>6} pods {rate:>10.0} pods/s {:>7.1} x floor", rate / floor);
}

fn main() {
    let nodes = std::env::var("NODES").ok().and_then(|nodes| nodes.parse().ok()).unwrap_or(5000);
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let shapes: [(&str, f64, usize, Make, bool); 7] = [
        ("basic", 270.0, 5000, basic, true),
        ("node affinity", 220.0, 5000, node_affinity, true),
        ("topology spreading", 85.0, 5000, spreading, true),
        ("required affinity", 35.0, 5000, pod_affinity, true),
        ("required anti-affinity", 60.0, nodes.min(4000), pod_anti_affinity, true),
        ("unschedulable", 140.0, 5000, too_large, false),
        ("gated", 130.0, 5000, gated, false),
    ];
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    for (name, floor, pods, make, expected) in shapes.into_iter().filter(|shape| is_wanted(shape.0)) {
        let mut world = World::new(nodes);
        (0..1000).for_each(|index| assert!(world.schedule(&basic(100_000 + index))));
        measure(name, floor, &mut world, pods, make, expected);
    }
    if is_wanted("preemption") {
        let mut world = World::new(nodes);
        for index in 0..nodes * 4 {
            assert!(world.schedule(&pod(&format!("low-{index}"), "900m", "")));
        }
        measure("preemption", 160.0, &mut world, nodes, preemptor, true);
    }
}
