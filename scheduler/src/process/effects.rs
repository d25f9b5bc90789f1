//! Effects of the configuration on plans: each case is a small cluster in which one field decides.
//!
//! Owns the way from the text of a file to the plan. Fields that act elsewhere have their tests there; the table of all
//! fields is in `tests/program/field_table.rs`.

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
        planner.plan(&cluster, &pod, seed, &mut NoExtenders)
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

#[test]
fn ignored_resources_and_groups_are_not_filtered_by() {
    let world = World {
        nodes: vec![node("a", &[], &[])],
        pod: pod("p", "", &[("example.com/gpu", "1")]),
        ..World::default()
    };
    let refused = "0/1 nodes are available: 1 Insufficient example.com/gpu";
    for ignored in ["{ignoredResources: [example.com/gpu]}", "{ignoredResourceGroups: [example.com]}"] {
        world.check(("", refused), (&args("NodeResourcesFit", ignored), "a"));
    }
}

#[test]
fn the_scoring_strategy_its_resources_and_its_curve_choose_the_node() {
    let world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[("cpu", "1"), ("memory", "8G")]), pod("v", "b", &[("cpu", "6")])],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "1G")]),
        ..World::default()
    };
    let strategy = |kind: &str, cpu: i32, memory: i32, more: &str| {
        let resources = format!("[{{name: cpu, weight: {cpu}}}, {{name: memory, weight: {memory}}}]");
        let args = format!("{{scoringStrategy: {{type: {kind}, resources: {resources}{more}}}}}");
        scoring("NodeResourcesFit", "", &args)
    };
    let least = |cpu, memory| strategy("LeastAllocated", cpu, memory, "");
    world.check((&least(9, 1), "a"), (&least(1, 9), "b"));
    world.check((&least(9, 1), "a"), (&strategy("MostAllocated", 9, 1, ""), "b"));
    let only_cpu = "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}}";
    let only_memory = "{scoringStrategy: {type: LeastAllocated, resources: [{name: memory, weight: 1}]}}";
    world.check(
        (&scoring("NodeResourcesFit", "", only_cpu), "a"),
        (&scoring("NodeResourcesFit", "", only_memory), "b"),
    );
    let curve = |empty: i32, full: i32| {
        let shape = format!("[{{utilization: 0, score: {empty}}}, {{utilization: 100, score: {full}}}]");
        let more = format!(", requestedToCapacityRatio: {{shape: {shape}}}");
        strategy("RequestedToCapacityRatio", 9, 1, &more)
    };
    world.check((&curve(10, 0), "a"), (&curve(0, 10), "b"));
    // CPU of the two nodes stands at 20 and at 70 percent: a curve that is flat up to there does not tell them apart.
    let flat = |utilization: i32| {
        let shape = format!("[{{utilization: {utilization}, score: 0}}, {{utilization: 100, score: 10}}]");
        let more = format!(", requestedToCapacityRatio: {{shape: {shape}}}");
        strategy("RequestedToCapacityRatio", 9, 0, &more).replace(", {name: memory, weight: 0}", "")
    };
    world.check((&flat(0), "b"), (&flat(70), "a or b"));
}

#[test]
fn the_balanced_resources_choose_the_node() {
    let gpus = [("example.com/gpu", "10")];
    let world = World {
        nodes: vec![node("a", &[], &gpus), node("b", &[], &gpus)],
        pods: vec![
            pod("u", "a", &[("cpu", "4"), ("memory", "4G")]),
            pod("v", "b", &[("cpu", "4"), ("example.com/gpu", "4")]),
        ],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "1G"), ("example.com/gpu", "1")]),
        ..World::default()
    };
    let balanced = |other: &str| {
        let args = format!("{{resources: [{{name: cpu, weight: 1}}, {{name: {other}, weight: 1}}]}}");
        scoring("NodeResourcesBalancedAllocation", "", &args)
    };
    world.check((&balanced("memory"), "a"), (&balanced("example.com/gpu"), "b"));
}

#[test]
fn affinity_of_other_pods_weighs_as_configured() {
    let world = |affinity: PodAffinity| World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![with_affinity(pod("u", "a", &[("cpu", "5")]), affinity)],
        pod: pod("p", "", &[("cpu", "1")]),
        ..World::default()
    };
    let required = PodAffinity {
        required_during_scheduling_ignored_during_execution: vec![term()],
        ..PodAffinity::default()
    };
    let weighing =
        |weight: i32| scoring("InterPodAffinity", FIT, &format!("{{hardPodAffinityWeight: {weight}}}"));
    world(required).check((&weighing(1), "a"), (&weighing(0), "b"));
    let preferred = WeightedPodAffinityTerm { weight: 10, pod_affinity_term: Some(term()) };
    let preferred = PodAffinity {
        preferred_during_scheduling_ignored_during_execution: vec![preferred],
        ..PodAffinity::default()
    };
    let ignoring = |ignores: bool| {
        let args = format!("{{ignorePreferredTermsOfExistingPods: {ignores}}}");
        scoring("InterPodAffinity", FIT, &args)
    };
    world(preferred).check((&ignoring(false), "a"), (&ignoring(true), "b"));
}

#[test]
fn added_affinity_requires_and_prefers_nodes() {
    let world = World {
        nodes: vec![node("a", &[("disk", "ssd")], &[]), node("b", &[("disk", "hdd")], &[])],
        pods: vec![pod("u", "a", &[("cpu", "5")])],
        pod: pod("p", "", &[("cpu", "1")]),
        ..World::default()
    };
    let required = |term: &str| {
        let added =
            format!("requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}");
        args("NodeAffinity", &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world
        .check(("", "b"), (&required("{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}"), "a"));
    world.check(
        (&required("{matchExpressions: [{key: disk, operator: Exists}]}"), "b"),
        (&required("{matchExpressions: [{key: disk, operator: NotIn, values: [hdd]}]}"), "a"),
    );
    let by_name = "{matchFields: [{key: metadata.name, operator: In, values: [a]}]}";
    world.check(("", "b"), (&required(by_name), "a"));
    let prefers = |value: &str| {
        let term = format!("{{matchExpressions: [{{key: disk, operator: In, values: [{value}]}}]}}");
        let preferred = format!("[{{weight: 5, preference: {term}}}]");
        let added = format!("preferredDuringSchedulingIgnoredDuringExecution: {preferred}");
        scoring("NodeAffinity", FIT, &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world.check((&prefers("hdd"), "b"), (&prefers("ssd"), "a"));
    let two = |a: i32, b: i32| {
        let term = |weight: i32, value: &str| {
            format!(
                "{{weight: {weight}, preference: {{matchExpressions: [{{key: disk, operator: In, values: [{value}]}}]}}}}"
            )
        };
        let both = format!("[{}, {}]", term(a, "ssd"), term(b, "hdd"));
        let added = format!("preferredDuringSchedulingIgnoredDuringExecution: {both}");
        scoring("NodeAffinity", "", &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world.check((&two(5, 1), "a"), (&two(1, 5), "b"));
}

/// A profile with one default constraint, whose members are `constraint`.
fn spreading(constraint: &str) -> String {
    let list = format!("{{defaultingType: List, defaultConstraints: [{{{constraint}}}]}}");
    args("PodTopologySpread", &list)
}

#[test]
fn default_constraints_spread_pods() {
    let mut world = World {
        nodes: vec![node("a", &[("zone", "z")], &[]), node("b", &[("zone", "z")], &[])],
        pods: vec![pod("u", "b", &[]), pod("other", "a", &[("cpu", "5")])],
        services: services(),
        pod: pod("p", "", &[("cpu", "1")]),
    };
    world.pods[1].metadata.as_mut().unwrap().labels.clear();
    let none = args("PodTopologySpread", "{defaultingType: List}");
    let constraint = |skew: i32, key: &str, action: &str| {
        spreading(&format!("maxSkew: {skew}, topologyKey: {key}, whenUnsatisfiable: {action}"))
    };
    let strict = constraint(1, "host", "DoNotSchedule");
    world.check((&none, "b"), (&strict, "a"));
    world.check((&strict, "a"), (&constraint(2, "host", "DoNotSchedule"), "b"));
    world.check((&strict, "a"), (&constraint(1, "zone", "DoNotSchedule"), "b"));
    // The other node counts as a domain, and has no room.
    let mut full = node("c", &[("zone", "z")], &[]);
    full.status.as_mut().unwrap().allocatable.extend(amounts(&[("cpu", "0")]));
    world.nodes[0] = full;
    let refused = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread";
    world.check((&strict, refused), (&constraint(1, "host", "ScheduleAnyway"), "b"));
}

#[test]
fn default_constraints_count_domains_as_configured() {
    let strict = "maxSkew: 1, topologyKey: host, whenUnsatisfiable: DoNotSchedule";
    let with = |more: &str| spreading(&format!("{strict}{more}"));
    let mut world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[]), pod("v", "b", &[("cpu", "5")])],
        services: services(),
        pod: pod("p", "", &[("cpu", "1")]),
    };
    world.check((&with(""), "a"), (&with(", minDomains: 3"), "0/2 nodes are available"));
    // A third node that the pod does not want, and then one that it does not tolerate.
    world.nodes.push(node("c", &[("out", "yes")], &[]));
    world.nodes[0].metadata.as_mut().unwrap().labels.insert("in".to_owned(), "yes".to_owned());
    world.nodes[1].metadata.as_mut().unwrap().labels.insert("in".to_owned(), "yes".to_owned());
    let mut choosy = world.clone();
    choosy.pod.spec.as_mut().unwrap().node_selector = texts(&[("in", "yes")]);
    choosy.check((&with(""), "a"), (&with(", nodeAffinityPolicy: Ignore"), "0/3 nodes are available"));
    let taint = Taint { key: "t".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    world.nodes[2].spec = Some(NodeSpec { taints: vec![taint], ..NodeSpec::default() });
    world.check((&with(""), "0/3 nodes are available"), (&with(", nodeTaintsPolicy: Honor"), "a"));
}

#[test]
fn fewer_candidates_of_a_preemption_may_miss_the_best() {
    let world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![
            with_priority(pod("u", "a", &[("cpu", "10")]), 5),
            with_priority(pod("v", "b", &[("cpu", "10")]), 1),
        ],
        pod: with_priority(pod("p", "", &[("cpu", "1")]), 10),
        ..World::default()
    };
    let candidates = |percentage: i32, absolute: i32| {
        let given =
            format!("{{minCandidateNodesPercentage: {percentage}, minCandidateNodesAbsolute: {absolute}}}");
        args("DefaultPreemption", &given)
    };
    world.check((&candidates(1, 100), "nominated b"), (&candidates(1, 1), "nominated a or nominated b"));
    world.check((&candidates(100, 1), "nominated b"), (&candidates(1, 1), "nominated a or nominated b"));
    let without = "profiles:\n- plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}\n";
    world.check(("", "nominated b"), (without, "0/2 nodes are available: 2 Insufficient cpu. no new claims"));
}

#[test]
fn a_percentage_of_nodes_ends_the_search_early() {
    let nodes = (0..200).map(|index| node(&format!("n{index}"), &[], &[])).collect();
    let world = World { nodes, pod: pod("p", "", &[]), ..World::default() };
    for (members, expected) in [
        ("", 200),
        ("percentageOfNodesToScore: 60\n", 120),
        ("percentageOfNodesToScore: 60\nprofiles:\n- percentageOfNodesToScore: 100\n", 200),
        ("profiles:\n- percentageOfNodesToScore: 5\n", 100),
    ] {
        let Decision::Bind(placement) = world.plan(members, 0) else { panic!("{members}") };
        assert_eq!(placement.feasible, expected, "{members}");
    }
}

#[test]
fn plugins_that_are_disabled_at_a_point_do_not_run_there() {
    let mut port = pod("p", "", &[]);
    port.spec.as_mut().unwrap().containers[0].ports =
        vec![ContainerPort { host_port: 80, container_port: 80, ..ContainerPort::default() }];
    let mut taken = port.clone();
    taken.metadata = metadata("u", &[]);
    taken.spec.as_mut().unwrap().node_name = "a".to_owned();
    let world = World { nodes: vec![node("a", &[], &[])], pods: vec![taken], pod: port, ..World::default() };
    let refused = "0/1 nodes are available: 1 node(s) didn't have free ports";
    let disabled =
        |point: &str| format!("profiles:\n- plugins: {{{point}: {{disabled: [{{name: NodePorts}}]}}}}\n");
    world.check(("", refused), (&disabled("filter"), "a"));
    world.check(("", refused), (&disabled("multiPoint"), "a"));
    let mut gated = world.clone();
    gated.pod.spec.as_mut().unwrap().scheduling_gates = vec![PodSchedulingGate { name: "g".to_owned() }];
    let without = "profiles:\n- plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}\n";
    for (members, is_admitted) in [("", false), (without, true)] {
        let (mut cluster, planner) = gated.planner(members);
        let pod = cluster.compile(&gated.pod);
        assert_eq!(planner.admit(&cluster, &pod) == Admission::Admitted, is_admitted, "{members}");
    }
}

#[test]
fn the_weight_of_a_plugin_decides_between_two() {
    let world = World {
        nodes: vec![node("a", &[("disk", "ssd")], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[("cpu", "5"), ("memory", "5G")])],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "1G")]),
        ..World::default()
    };
    let weighing = |affinity: i32, fit: i32| {
        let term = "{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}";
        format!(
            "profiles:\n- plugins: {{score: {{disabled: [{{name: '*'}}], enabled: [{{name: NodeAffinity, weight: \
             {affinity}}}, {{name: NodeResourcesFit, weight: {fit}}}]}}}}\n  pluginConfig: [{{name: NodeAffinity, args: \
             {{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: {term}}}]}}}}}}]\n"
        )
    };
    world.check((&weighing(1, 1), "a"), (&weighing(1, 9), "b"));
}

#[test]
fn what_is_not_prepared_or_written_has_no_effect() {
    let mut named = pod("p", "", &[]);
    named.spec.as_mut().unwrap().affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_fields: vec![NodeSelectorRequirement {
                        key: "metadata.name".to_owned(),
                        operator: "In".to_owned(),
                        values: vec!["elsewhere".to_owned()],
                    }],
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    });
    let world = World { nodes: vec![node("a", &[], &[])], pod: named, ..World::default() };
    let disabled = |point: &str, plugin: &str| {
        format!("profiles:\n- plugins: {{{point}: {{disabled: [{{name: {plugin}}}]}}}}\n")
    };
    world.check(
        ("", "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        (
            &disabled("preFilter", "NodeAffinity"),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
        ),
    );
    let mut stored = pod("p", "", &[]);
    let source = PersistentVolumeClaimVolumeSource { claim_name: "c".to_owned(), ..Default::default() };
    let source = VolumeSource { persistent_volume_claim: Some(source), ..VolumeSource::default() };
    stored.spec.as_mut().unwrap().volumes =
        vec![Volume { name: "v".to_owned(), volume_source: Some(source) }];
    let world = World { nodes: vec![node("a", &[], &[])], pod: stored, ..World::default() };
    for (members, writes) in [("", 1), (&*disabled("preBind", "VolumeBinding"), 0)] {
        let (mut cluster, mut planner) = world.planner(members);
        let class = StorageClass {
            metadata: metadata("fast", &[]).map(|one| ObjectMeta { namespace: String::new(), ..one }),
            provisioner: "d.io".to_owned(),
            volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
            ..StorageClass::default()
        };
        cluster.apply(Change::Upsert(Object::StorageClass(&class)));
        let spec = PersistentVolumeClaimSpec {
            storage_class_name: Some("fast".to_owned()),
            ..PersistentVolumeClaimSpec::default()
        };
        let claim = PersistentVolumeClaim { metadata: metadata("c", &[]), spec: Some(spec), status: None };
        cluster.apply(Change::Upsert(Object::PersistentVolumeClaim(&claim)));
        let pod = cluster.compile(&world.pod);
        let decision = planner.plan(&cluster, &pod, 0, &mut NoExtenders);
        let Decision::Bind(placement) = decision else { panic!("{members}: {decision:?}") };
        assert_eq!(placement.volumes.provision.len(), writes, "{members}");
    }
}
