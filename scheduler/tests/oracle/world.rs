//! Random clusters and pods by seed, as objects of the API.

use std::collections::BTreeMap;

use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta, Time};
use orch_scheduler::api::resource::Quantity;
use orch_scheduler::api::resource::v1 as resource;

/// Numbers by seed.
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % bound
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of them.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// The label of host names.
pub(crate) fn hostname() -> String {
    ORCH.label("hostname")
}

/// The label of zones.
pub(crate) fn zone() -> String {
    format!("topology.{}", ORCH.label("zone"))
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn amounts<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, Quantity> {
    pairs.into_iter().map(|(name, string)| (name.to_owned(), Quantity { string })).collect()
}

/// A node.
pub(crate) fn node(random: &mut Random, name: &str) -> v1::Node {
    let mut labels = map([("disk", random.pick(&["ssd", "hdd"])), ("rank", random.pick(&["1", "2", "x"]))]);
    if !random.once_in(6) {
        labels.insert(hostname(), name.to_owned());
    }
    if !random.once_in(5) {
        labels.insert(zone(), random.pick(&["z1", "z2", "z3"]).to_owned());
    }
    let mut taints = Vec::new();
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
        if random.once_in(6) {
            taints.push(v1::Taint {
                key: random.pick(&["k", "l"]).to_owned(),
                value: random.pick(&["", "v"]).to_owned(),
                effect: effect.to_owned(),
                ..Default::default()
            });
        }
    }
    // The size of an image is the same on all nodes.
    let images = (0..random.below(3)).map(|_| {
        let (tag, size) = *random.pick(&[&("0", 40), &("1", 300), &("latest", 800)]);
        v1::ContainerImage { names: vec![format!("img:{tag}")], size_bytes: size << 20 }
    });
    v1::Node {
        status: Some(v1::NodeStatus {
            images: images.collect(),
            allocatable: amounts([
                ("cpu", format!("{}m", 500 + random.below(8) * 500)),
                ("memory", format!("{}Mi", 512 + random.below(8) * 512)),
                ("pods", (1 + random.below(6)).to_string()),
                ("x.com/gpu", random.below(3).to_string()),
            ]),
            ..Default::default()
        }),
        spec: Some(v1::NodeSpec { unschedulable: random.once_in(10), taints, ..Default::default() }),
        metadata: Some(ObjectMeta { name: name.to_owned(), labels, ..Default::default() }),
    }
}

/// The devices of a node.
pub(crate) fn slice(node: &str, devices: usize) -> resource::ResourceSlice {
    let devices = (0..devices)
        .map(|index| resource::Device { name: format!("d{index}"), ..resource::Device::default() });
    let spec = resource::ResourceSliceSpec {
        driver: "d.io".to_owned(),
        pool: Some(resource::ResourcePool { name: node.to_owned(), generation: 1, resource_slice_count: 1 }),
        node_name: Some(node.to_owned()),
        devices: devices.collect(),
        ..resource::ResourceSliceSpec::default()
    };
    let metadata = Some(ObjectMeta { name: node.to_owned(), ..Default::default() });
    resource::ResourceSlice { metadata, spec: Some(spec) }
}

/// The class whose devices stand for an extended resource.
pub(crate) fn class(extended_resource: &str) -> resource::DeviceClass {
    let spec = resource::DeviceClassSpec {
        extended_resource_name: Some(extended_resource.to_owned()),
        ..resource::DeviceClassSpec::default()
    };
    let metadata = Some(ObjectMeta { name: "class".to_owned(), ..Default::default() });
    resource::DeviceClass { metadata, spec: Some(spec) }
}

fn selector(random: &mut Random) -> Option<LabelSelector> {
    if random.once_in(12) {
        return None;
    }
    let mut selector = LabelSelector::default();
    if !random.once_in(4) {
        selector.match_labels = map([("app", random.pick(&["a", "b", "c"]))]);
    }
    if random.once_in(4) {
        selector.match_expressions.push(LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]).to_owned(),
            values: Vec::new(),
        });
        let expression = &mut selector.match_expressions[0];
        if expression.operator.ends_with("In") {
            expression.values = vec![random.pick(&["x", "y"]).to_owned()];
        }
    }
    Some(selector)
}

fn pod_term(random: &mut Random) -> v1::PodAffinityTerm {
    v1::PodAffinityTerm {
        label_selector: selector(random),
        topology_key: if random.once_in(2) { hostname() } else { zone() },
        namespaces: if random.once_in(4) { vec!["n2".to_owned()] } else { Vec::new() },
        namespace_selector: random.once_in(6).then(|| LabelSelector {
            match_labels: if random.once_in(2) { map([("team", "t")]) } else { BTreeMap::new() },
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn weighted_terms(random: &mut Random) -> Vec<v1::WeightedPodAffinityTerm> {
    let count = if random.once_in(4) { 1 + random.below(2) } else { 0 };
    let terms = (0..count).map(|_| v1::WeightedPodAffinityTerm {
        weight: i32::try_from(1 + random.below(100)).unwrap(),
        pod_affinity_term: Some(pod_term(random)),
    });
    terms.collect()
}

fn required_terms(random: &mut Random) -> Vec<v1::PodAffinityTerm> {
    let count = if random.once_in(6) { 1 + random.below(2) } else { 0 };
    (0..count).map(|_| pod_term(random)).collect()
}

fn node_term(random: &mut Random) -> v1::NodeSelectorTerm {
    let (key, operator, values) = match random.below(5) {
        0 => ("disk", "In", vec!["ssd"]),
        1 => ("disk", "NotIn", vec!["ssd"]),
        2 => ("rank", "Gt", vec!["1"]),
        3 => ("rank", "Lt", vec!["2"]),
        _ => ("rank", "Exists", vec![]),
    };
    let expression = v1::NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
    };
    v1::NodeSelectorTerm { match_expressions: vec![expression], ..Default::default() }
}

fn affinity(random: &mut Random) -> v1::Affinity {
    let required = random
        .once_in(5)
        .then(|| v1::NodeSelector { node_selector_terms: vec![node_term(random), node_term(random)] });
    let preferred = (0..if random.once_in(3) { 2 } else { 0 }).map(|_| v1::PreferredSchedulingTerm {
        weight: i32::try_from(1 + random.below(100)).unwrap(),
        preference: Some(node_term(random)),
    });
    let preferred = preferred.collect();
    v1::Affinity {
        node_affinity: Some(v1::NodeAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        }),
        pod_affinity: Some(v1::PodAffinity {
            required_during_scheduling_ignored_during_execution: required_terms(random),
            preferred_during_scheduling_ignored_during_execution: weighted_terms(random),
        }),
        pod_anti_affinity: Some(v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: required_terms(random),
            preferred_during_scheduling_ignored_during_execution: weighted_terms(random),
        }),
    }
}

fn constraints(random: &mut Random) -> Vec<v1::TopologySpreadConstraint> {
    let count = if random.once_in(3) { 1 + random.below(2) } else { 0 };
    let policy = |random: &mut Random| match random.below(4) {
        0 => Some("Honor".to_owned()),
        1 => Some("Ignore".to_owned()),
        _ => None,
    };
    let constraints = (0..count).map(|_| v1::TopologySpreadConstraint {
        max_skew: i32::try_from(1 + random.below(2)).unwrap(),
        topology_key: if random.once_in(2) { hostname() } else { zone() },
        when_unsatisfiable: random.pick(&["DoNotSchedule", "ScheduleAnyway"]).to_owned(),
        label_selector: selector(random),
        min_domains: random.once_in(5).then_some(3),
        node_affinity_policy: policy(random),
        node_taints_policy: policy(random),
        match_label_keys: if random.once_in(5) { vec!["tier".to_owned()] } else { Vec::new() },
    });
    constraints.collect()
}

fn tolerations(random: &mut Random) -> Vec<v1::Toleration> {
    let count = random.below(3);
    let tolerations = (0..count).map(|_| v1::Toleration {
        key: random.pick(&["k", "l", ""]).to_owned(),
        operator: random.pick(&["Exists", "Equal", ""]).to_owned(),
        value: random.pick(&["", "v"]).to_owned(),
        effect: random.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute", ""]).to_owned(),
        ..Default::default()
    });
    tolerations.collect()
}

fn container(random: &mut Random) -> v1::Container {
    let mut requests = BTreeMap::new();
    if !random.once_in(4) {
        requests.extend(amounts([("cpu", format!("{}m", random.below(8) * 125))]));
    }
    if !random.once_in(4) {
        requests.extend(amounts([("memory", format!("{}Mi", random.below(8) * 100))]));
    }
    if random.once_in(4) {
        requests.extend(amounts([("x.com/gpu", "1".to_owned())]));
    }
    let ports = random.once_in(8).then(|| v1::ContainerPort {
        host_port: 80,
        container_port: 80,
        protocol: random.pick(&["TCP", "UDP", ""]).to_owned(),
        host_ip: random.pick(&["", "1.1.1.1", "2.2.2.2"]).to_owned(),
        ..Default::default()
    });
    v1::Container {
        image: random.pick(&["img:0", "img:1", "img"]).to_owned(),
        ports: ports.into_iter().collect(),
        resources: Some(v1::ResourceRequirements { requests, ..Default::default() }),
        ..Default::default()
    }
}

/// A pod that waits.
pub(crate) fn pod(random: &mut Random, name: &str) -> v1::Pod {
    let mut labels = map([("app", random.pick(&["a", "b", "c"]))]);
    if random.once_in(2) {
        labels.insert("tier".to_owned(), random.pick(&["x", "y"]).to_owned());
    }
    let mut init = container(random);
    init.restart_policy = random.once_in(2).then(|| "Always".to_owned());
    v1::Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            uid: name.to_owned(),
            namespace: random.pick(&["n1", "n2"]).to_owned(),
            labels,
            deletion_timestamp: random.once_in(12).then(Time::default),
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            containers: vec![container(random)],
            init_containers: if random.once_in(4) { vec![init] } else { Vec::new() },
            node_selector: if random.once_in(6) { map([("disk", "ssd")]) } else { BTreeMap::new() },
            affinity: random.once_in(2).then(|| affinity(random)),
            topology_spread_constraints: constraints(random),
            tolerations: tolerations(random),
            priority: Some(i32::try_from(random.below(3)).unwrap()),
            ..Default::default()
        }),
        status: None,
    }
}
