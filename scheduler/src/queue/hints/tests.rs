//! Tests of hints. [`check`] asks one plugin about one event.

use std::sync::Arc;

use orch_schema::quantity::Quantity;

use super::*;
use crate::api::core::v1::{NodeSelector as ApiNodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use crate::api::meta::v1::LabelSelector as ApiSelector;
use crate::queue::node::{NodeFacts, Taint};
use crate::queue::pod::{
    AffinityTerm, Disk, HostPort, PodFacts, SpreadConstraint, Spreading, Toleration, Uid,
};
use crate::selector::{LabelSelector, NodeSelector};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> Amounts {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), Quantity::parse(text).unwrap())).collect()
}

fn selector(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector::new(&ApiSelector { match_labels: labels(pairs), match_expressions: Vec::new() })
}

fn in_namespace() -> PodShape {
    PodShape { namespace: "ns".to_owned(), ..Default::default() }
}

fn labelled(pairs: &[(&str, &str)]) -> PodShape {
    PodShape { labels: labels(pairs), ..in_namespace() }
}

fn bound(shape: PodShape) -> Arc<PodFacts> {
    Arc::new(PodFacts {
        uid: Uid::new("other"),
        name: "other".into(),
        priority: 0,
        node_name: "n".into(),
        nominated_node_name: "".into(),
        shape: Arc::new(shape),
    })
}

fn added(shape: PodShape) -> ClusterEvent {
    ClusterEvent::assigned_pod_added(bound(shape))
}

fn gone(shape: PodShape) -> ClusterEvent {
    ClusterEvent::assigned_pod_deleted(bound(shape))
}

fn changed(old: PodShape, new: PodShape) -> ClusterEvent {
    ClusterEvent::assigned_pod_updated(bound(old), bound(new)).expect("the change matters")
}

fn node(pairs: &[(&str, &str)]) -> NodeFacts {
    NodeFacts { name: "n".to_owned(), labels: labels(pairs), ..Default::default() }
}

fn node_with(pairs: &[(&str, &str)]) -> NodeFacts {
    NodeFacts { allocatable: amounts(pairs), ..node(&[]) }
}

fn tainted(effect: &str) -> NodeFacts {
    let taint = Taint { key: "k".to_owned(), value: "v".to_owned(), effect: effect.to_owned() };
    NodeFacts { taints: vec![taint], ..node(&[]) }
}

fn node_added(node: NodeFacts) -> ClusterEvent {
    ClusterEvent::node_added(Arc::new(node))
}

fn node_changed(old: NodeFacts, new: NodeFacts) -> ClusterEvent {
    ClusterEvent::node_updated(Arc::new(old), Arc::new(new)).expect("the change matters")
}

fn namespaces() -> NamespaceLabels {
    [("ns".to_owned(), labels(&[("team", "a")])), ("other".to_owned(), labels(&[("team", "b")]))].into()
}

/// Whether `event` wakes a pod of `shape` that `plugin` rejected.
fn check(rejector: impl Into<Rejector>, shape: &PodShape, event: &ClusterEvent) -> bool {
    let rejector = rejector.into();
    interests(rejector).intersects(event.kinds) && hint(rejector, shape, event, &namespaces()) == Hint::Queue
}

fn tolerating(key: &str) -> PodShape {
    let toleration = Toleration { key: key.to_owned(), value: None, effect: String::new() };
    PodShape { tolerations: vec![toleration], ..in_namespace() }
}

#[test]
fn taints_help_when_they_are_tolerated_and_were_not() {
    let plugin = Plugin::TaintToleration;
    assert!(check(plugin, &in_namespace(), &node_added(node(&[]))));
    assert!(!check(plugin, &in_namespace(), &node_added(tainted("NoSchedule"))));
    assert!(!check(plugin, &in_namespace(), &node_added(tainted("NoExecute"))));
    assert!(check(plugin, &in_namespace(), &node_added(tainted("PreferNoSchedule"))));
    assert!(check(plugin, &tolerating("k"), &node_added(tainted("NoSchedule"))));
    assert!(check(plugin, &in_namespace(), &node_changed(tainted("NoSchedule"), node(&[]))));
    assert!(!check(plugin, &in_namespace(), &node_changed(node(&[]), tainted("NoSchedule"))));
    assert!(
        !check(plugin, &tolerating("k"), &node_changed(tainted("NoSchedule"), node(&[]))),
        "was no obstacle"
    );
}

#[test]
fn unschedulable_nodes_help_those_that_tolerate_them() {
    let plugin = Plugin::NodeUnschedulable;
    let closed = || NodeFacts { is_unschedulable: true, ..node(&[]) };
    assert!(check(plugin, &in_namespace(), &node_added(node(&[]))));
    assert!(!check(plugin, &in_namespace(), &node_added(closed())));
    assert!(check(plugin, &tolerating("node.orch.io/unschedulable"), &node_added(closed())));
    assert!(check(plugin, &tolerating(""), &node_added(closed())));
    assert!(!check(plugin, &tolerating("k"), &node_added(closed())));
    assert!(check(plugin, &in_namespace(), &node_changed(closed(), node(&[]))));
}

fn in_zone(zone: &str) -> PodShape {
    let requirement = NodeSelectorRequirement {
        key: "zone".to_owned(),
        operator: "In".to_owned(),
        values: vec![zone.to_owned()],
    };
    let term = NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() };
    let required = NodeSelector::new(&ApiNodeSelector { node_selector_terms: vec![term] });
    PodShape { node_affinity: Some(required), ..in_namespace() }
}

#[test]
fn node_affinity_is_helped_by_nodes_that_begin_to_match() {
    let plugin = Plugin::NodeAffinity;
    let zone = |zone| node(&[("zone", zone)]);
    assert!(check(plugin, &in_zone("a"), &node_added(zone("a"))));
    assert!(!check(plugin, &in_zone("a"), &node_added(zone("b"))));
    assert!(check(plugin, &in_zone("a"), &node_changed(zone("b"), zone("a"))));
    assert!(!check(plugin, &in_zone("a"), &node_changed(zone("a"), zone("b"))));
    let both = node(&[("zone", "a"), ("x", "y")]);
    assert!(!check(plugin, &in_zone("a"), &node_changed(zone("a"), both)), "matched before");
    let selecting = PodShape { node_selector: labels(&[("zone", "a")]), ..in_namespace() };
    assert!(check(plugin, &selecting, &node_added(zone("a"))));
    assert!(!check(plugin, &selecting, &node_added(zone("b"))));
    assert!(!check(plugin, &in_zone("a"), &node_changed(zone("a"), tainted("NoSchedule"))));
}

fn asking(pairs: &[(&str, &str)]) -> PodShape {
    PodShape { requests: amounts(pairs), ..in_namespace() }
}

#[test]
fn room_on_nodes_helps_if_it_is_enough_and_new() {
    let plugin = Plugin::NodeResourcesFit;
    let asks = asking(&[("cpu", "2"), ("memory", "0")]);
    assert!(check(plugin, &asks, &node_added(node_with(&[("cpu", "2")]))));
    assert!(!check(plugin, &asks, &node_added(node_with(&[("cpu", "1900m")]))));
    assert!(!check(plugin, &asks, &node_added(node_with(&[("memory", "1Gi")]))));
    let small = || node_with(&[("cpu", "2"), ("memory", "1Gi")]);
    assert!(check(plugin, &asks, &node_changed(small(), node_with(&[("cpu", "3"), ("memory", "1Gi")]))));
    assert!(!check(plugin, &asks, &node_changed(small(), node_with(&[("cpu", "2"), ("memory", "2Gi")]))));
    assert!(!check(plugin, &asks, &node_changed(node_with(&[("cpu", "3")]), small())));
    let more_pods = node_with(&[("cpu", "2"), ("memory", "1Gi"), ("pods", "10")]);
    assert!(check(plugin, &asks, &node_changed(small(), more_pods)));
}

#[test]
fn nodes_that_do_not_offer_an_extended_resource_may_have_devices_for_it() {
    let plugin = Plugin::NodeResourcesFit;
    let asks = asking(&[("cpu", "2"), ("x.com/gpu", "2")]);
    let with = |cpu: &str, gpus: &str| node_with(&[("cpu", cpu), ("x.com/gpu", gpus)]);
    assert!(check(plugin, &asks, &node_added(node_with(&[("cpu", "2")]))));
    assert!(check(plugin, &asks, &node_added(with("2", "0"))));
    assert!(!check(plugin, &asks, &node_added(with("2", "1"))), "it offers too few itself");
    assert!(!check(plugin, &asks, &node_added(with("1", "0"))), "devices are no CPUs");
    assert!(check(plugin, &asks, &node_changed(with("2", "1"), with("2", "0"))));
    assert!(interests(Plugin::DynamicResources.into()).contains(EventKind::NodeAllocatable));
}

#[test]
fn room_left_by_pods_helps() {
    let plugin = Plugin::NodeResourcesFit;
    assert!(check(plugin, &asking(&[("cpu", "2")]), &gone(in_namespace())));
    let scaled = changed(asking(&[("cpu", "2"), ("memory", "1")]), asking(&[("cpu", "1"), ("memory", "1")]));
    assert!(check(plugin, &asking(&[("cpu", "1")]), &scaled));
    assert!(!check(plugin, &asking(&[("memory", "1")]), &scaled));
    assert!(!check(plugin, &asking(&[("cpu", "1")]), &added(in_namespace())));
}

#[test]
fn classes_of_devices_help_those_that_ask_for_extended_resources() {
    let class = crate::api::resource::v1::DeviceClass::default();
    let event = ClusterEvent::device_class(None, &class).unwrap();
    assert!(check(Plugin::NodeResourcesFit, &asking(&[("x.com/gpu", "1")]), &event));
    assert!(!check(Plugin::NodeResourcesFit, &asking(&[("cpu", "1")]), &event));
    assert!(!check(Plugin::NodeResourcesFit, &asking(&[("x.com/gpu", "0")]), &event));
    assert!(check(Plugin::DynamicResources, &in_namespace(), &event));
}

#[test]
fn ports_help_when_the_one_that_is_wanted_is_free() {
    let port = |port| PodShape {
        host_ports: vec![HostPort { address: String::new(), protocol: "TCP".to_owned(), port }],
        ..in_namespace()
    };
    assert!(check(Plugin::NodePorts, &port(80), &gone(port(80))));
    assert!(!check(Plugin::NodePorts, &port(80), &gone(port(81))));
    assert!(!check(Plugin::NodePorts, &port(80), &gone(in_namespace())));
    assert!(check(Plugin::NodePorts, &port(80), &node_added(node(&[]))));
    assert!(!check(Plugin::NodePorts, &port(80), &added(port(80))));
}

fn claiming(claim: &str) -> PodShape {
    PodShape { volume_claims: vec![claim.to_owned()], ..in_namespace() }
}

#[test]
fn volumes_help_when_they_are_shared_and_free() {
    let plugin = Plugin::VolumeRestrictions;
    assert!(check(plugin, &claiming("c"), &gone(claiming("c"))));
    assert!(!check(plugin, &claiming("c"), &gone(claiming("d"))));
    let elsewhere = PodShape { namespace: "other".to_owned(), ..claiming("c") };
    assert!(!check(plugin, &claiming("c"), &gone(elsewhere)));
    let disk =
        |name: &str| PodShape { disks: vec![Disk::GcePersistentDisk(name.to_owned())], ..in_namespace() };
    assert!(check(plugin, &disk("d"), &gone(disk("d"))));
    assert!(!check(plugin, &disk("d"), &gone(disk("e"))));
}

#[test]
fn limits_of_volumes_are_relieved_by_pods_with_volumes() {
    let plugin = Plugin::NodeVolumeLimits;
    assert!(check(plugin, &claiming("c"), &gone(claiming("d"))));
    assert!(!check(plugin, &claiming("c"), &gone(in_namespace())));
    assert!(check(plugin, &claiming("c"), &gone(PodShape { has_attachable: true, ..in_namespace() })));
    assert!(check(plugin, &claiming("c"), &ClusterEvent::volume_attachment_deleted()));
    assert!(!check(Plugin::VolumeBinding, &claiming("c"), &ClusterEvent::volume_attachment_deleted()));
}

#[test]
fn claims_of_volumes_help_the_pods_that_use_them() {
    let claim = |namespace: &str| crate::api::core::v1::PersistentVolumeClaim {
        metadata: Some(crate::api::meta::v1::ObjectMeta {
            name: "c".to_owned(),
            namespace: namespace.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let event = |namespace| ClusterEvent::volume_claim(None, &claim(namespace)).unwrap();
    for plugin in
        [Plugin::VolumeBinding, Plugin::VolumeZone, Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits]
    {
        assert!(check(plugin, &claiming("c"), &event("ns")), "{plugin:?}");
        assert!(!check(plugin, &claiming("c"), &event("other")), "{plugin:?}");
        assert!(!check(plugin, &claiming("d"), &event("ns")), "{plugin:?}");
    }
    assert!(!check(Plugin::NodeResourcesFit, &claiming("c"), &event("ns")));
}

#[test]
fn zones_of_volumes_are_helped_by_new_labels_and_classes_that_wait() {
    let volume = |pairs| crate::api::core::v1::PersistentVolume {
        metadata: Some(crate::api::meta::v1::ObjectMeta { labels: labels(pairs), ..Default::default() }),
        ..Default::default()
    };
    let same = ClusterEvent::volume(Some(&volume(&[])), &volume(&[])).unwrap();
    let moved = ClusterEvent::volume(Some(&volume(&[])), &volume(&[("zone", "a")])).unwrap();
    assert!(!check(Plugin::VolumeZone, &claiming("c"), &same));
    assert!(check(Plugin::VolumeZone, &claiming("c"), &moved));
    assert!(check(Plugin::VolumeBinding, &claiming("c"), &same));
    let class = |mode: &str| crate::api::storage::v1::StorageClass {
        volume_binding_mode: Some(mode.to_owned()),
        ..Default::default()
    };
    let event = |mode| ClusterEvent::storage_class(None, &class(mode)).unwrap();
    assert!(check(Plugin::VolumeZone, &claiming("c"), &event("WaitForFirstConsumer")));
    assert!(!check(Plugin::VolumeZone, &claiming("c"), &event("Immediate")));
    assert!(check(Plugin::VolumeBinding, &claiming("c"), &event("Immediate")));
}

fn spreading(key: &str, pairs: &[(&str, &str)], honors_taints: bool) -> PodShape {
    let constraint =
        SpreadConstraint { topology_key: key.to_owned(), selector: selector(pairs), honors_taints };
    PodShape { spreading: Spreading::Own(vec![constraint]), ..in_namespace() }
}

#[test]
fn spreading_is_changed_by_pods_that_are_counted() {
    let plugin = Plugin::PodTopologySpread;
    let shape = spreading("zone", &[("app", "a")], false);
    assert!(check(plugin, &shape, &added(labelled(&[("app", "a")]))));
    assert!(!check(plugin, &shape, &added(labelled(&[("app", "b")]))));
    assert!(check(plugin, &shape, &gone(labelled(&[("app", "a")]))));
    assert!(!check(plugin, &shape, &gone(labelled(&[("app", "b")]))));
    let elsewhere = PodShape { namespace: "other".to_owned(), ..labelled(&[("app", "a")]) };
    assert!(!check(plugin, &shape, &gone(elsewhere)));
    let to = |from, to| changed(labelled(&[("app", from)]), labelled(&[("app", to)]));
    assert!(check(plugin, &shape, &to("a", "b")));
    assert!(check(plugin, &shape, &to("b", "a")));
    assert!(!check(plugin, &shape, &to("b", "c")));
    assert!(check(plugin, &in_namespace(), &gone(in_namespace())), "default constraints are not known here");
}

#[test]
fn spreading_is_changed_by_nodes_that_make_domains() {
    let plugin = Plugin::PodTopologySpread;
    let shape = spreading("zone", &[], false);
    assert!(check(plugin, &shape, &node_added(node(&[("zone", "a")]))));
    assert!(!check(plugin, &shape, &node_added(node(&[]))));
    let deleted = |node| ClusterEvent::node_deleted(Arc::new(node));
    assert!(check(plugin, &shape, &deleted(node(&[("zone", "a")]))));
    assert!(!check(plugin, &shape, &deleted(node(&[]))));
    assert!(check(plugin, &shape, &node_changed(node(&[("zone", "a")]), node(&[("zone", "b")]))));
    assert!(check(plugin, &shape, &node_changed(node(&[("zone", "a")]), node(&[]))));
    let other_label = node_changed(node(&[("zone", "a")]), node(&[("zone", "a"), ("x", "y")]));
    assert!(!check(plugin, &shape, &other_label));
    let taints = NodeFacts { labels: labels(&[("zone", "a")]), ..tainted("NoSchedule") };
    assert!(check(plugin, &shape, &node_changed(taints, node(&[("zone", "a")]))));
}

#[test]
fn spreading_is_changed_by_the_pods_own_labels_and_tolerations() {
    let own = |old: PodShape, new: PodShape| {
        let facts = |shape| Arc::new(PodFacts { node_name: "".into(), ..PodFacts::clone(&bound(shape)) });
        ClusterEvent::own(facts(old), facts(new)).unwrap()
    };
    let with = |app: &str, honors: bool, tolerates: bool| PodShape {
        labels: labels(&[("app", app)]),
        tolerations: if tolerates { tolerating("k").tolerations } else { Vec::new() },
        ..spreading("zone", &[("app", "a")], honors)
    };
    let wakes = |old: PodShape, new: PodShape| check(Plugin::PodTopologySpread, &new.clone(), &own(old, new));
    assert!(wakes(with("b", false, false), with("a", false, false)));
    assert!(!wakes(with("b", false, false), with("c", false, false)));
    assert!(wakes(with("b", true, false), with("b", true, true)));
    assert!(!wakes(with("b", false, false), with("b", false, true)));
}

fn term(pairs: &[(&str, &str)]) -> AffinityTerm {
    AffinityTerm {
        topology_key: "zone".to_owned(),
        selector: Some(selector(pairs)),
        namespaces: ["ns".to_owned()].into(),
        namespace_selector: None,
    }
}

fn affine(terms: Vec<AffinityTerm>) -> PodShape {
    PodShape { affinity: terms, ..in_namespace() }
}

fn averse(terms: Vec<AffinityTerm>) -> PodShape {
    PodShape { anti_affinity: terms, ..in_namespace() }
}

#[test]
fn affinity_is_helped_by_pods_that_match_all_terms() {
    let plugin = Plugin::InterPodAffinity;
    let both = affine(vec![term(&[("app", "a")]), term(&[("tier", "x")])]);
    assert!(check(plugin, &both, &added(labelled(&[("app", "a"), ("tier", "x")]))));
    assert!(!check(plugin, &both, &added(labelled(&[("app", "a")]))));
    assert!(check(
        plugin,
        &both,
        &changed(labelled(&[("app", "a")]), labelled(&[("app", "a"), ("tier", "x")]))
    ));
    assert!(!check(
        plugin,
        &both,
        &changed(labelled(&[("app", "a"), ("tier", "x")]), labelled(&[("app", "a")]))
    ));
    assert!(!check(plugin, &both, &gone(labelled(&[("app", "a"), ("tier", "x")]))));
}

#[test]
fn anti_affinity_is_helped_by_pods_that_go_or_no_longer_match() {
    let plugin = Plugin::InterPodAffinity;
    let shape = averse(vec![term(&[("app", "a")])]);
    assert!(check(plugin, &shape, &gone(labelled(&[("app", "a")]))));
    assert!(!check(plugin, &shape, &gone(labelled(&[("app", "b")]))));
    assert!(check(plugin, &shape, &changed(labelled(&[("app", "a")]), labelled(&[("app", "b")]))));
    assert!(!check(plugin, &shape, &changed(labelled(&[("app", "b")]), labelled(&[("app", "a")]))));
    assert!(!check(plugin, &shape, &added(labelled(&[("app", "a")]))));
}

#[test]
fn the_anti_affinity_of_others_is_lifted_when_they_go() {
    let plugin = Plugin::InterPodAffinity;
    assert!(check(plugin, &labelled(&[("app", "a")]), &gone(averse(vec![term(&[("app", "a")])]))));
    assert!(!check(plugin, &labelled(&[("app", "b")]), &gone(averse(vec![term(&[("app", "a")])]))));
}

#[test]
fn terms_reach_namespaces_by_name_and_by_label() {
    let plugin = Plugin::InterPodAffinity;
    let elsewhere = || PodShape { namespace: "other".to_owned(), ..labelled(&[("app", "a")]) };
    assert!(!check(plugin, &affine(vec![term(&[("app", "a")])]), &added(elsewhere())));
    let by_label = |team: &str| AffinityTerm {
        namespaces: Default::default(),
        namespace_selector: Some(selector(&[("team", team)])),
        ..term(&[("app", "a")])
    };
    assert!(check(plugin, &affine(vec![by_label("b")]), &added(elsewhere())));
    assert!(!check(plugin, &affine(vec![by_label("c")]), &added(elsewhere())));
    let nothing = AffinityTerm { selector: None, ..term(&[]) };
    assert!(!check(plugin, &affine(vec![nothing]), &added(labelled(&[]))));
}

#[test]
fn affinity_is_helped_by_nodes_with_the_topology_key() {
    let plugin = Plugin::InterPodAffinity;
    for shape in [affine(vec![term(&[])]), averse(vec![term(&[])])] {
        assert!(check(plugin, &shape, &node_added(node(&[("zone", "a")]))));
        assert!(!check(plugin, &shape, &node_added(node(&[("rack", "a")]))));
    }
    assert!(check(plugin, &in_namespace(), &node_added(node(&[]))));
}

#[test]
fn claims_of_devices_help_users_and_all_when_they_free_devices() {
    use crate::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimStatus};
    let plugin = Plugin::DynamicResources;
    let claim = |is_allocated: bool| ResourceClaim {
        metadata: Some(crate::api::meta::v1::ObjectMeta {
            name: "c".to_owned(),
            namespace: "ns".to_owned(),
            ..Default::default()
        }),
        spec: None,
        status: is_allocated.then(|| ResourceClaimStatus {
            allocation: Some(AllocationResult::default()),
            ..Default::default()
        }),
    };
    let uses = PodShape { resource_claims: vec!["c".to_owned()], ..in_namespace() };
    let event = |old, new| ClusterEvent::resource_claim(Some(&claim(old)), &claim(new)).unwrap();
    assert!(check(plugin, &uses, &ClusterEvent::resource_claim(None, &claim(false)).unwrap()));
    assert!(!check(plugin, &in_namespace(), &ClusterEvent::resource_claim(None, &claim(false)).unwrap()));
    assert!(check(plugin, &uses, &event(false, true)));
    assert!(!check(plugin, &in_namespace(), &event(false, true)));
    assert!(check(plugin, &in_namespace(), &event(true, false)));
    assert!(check(plugin, &in_namespace(), &ClusterEvent::resource_claim_deleted(&claim(true)).unwrap()));
    let mut made = claim(false);
    let annotation = format!("resource.{}", orch_proto::brand::ORCH.label("extended-resource-claim"));
    made.metadata.as_mut().unwrap().annotations.insert(annotation, "true".to_owned());
    let gone = ClusterEvent::resource_claim_deleted(&made).unwrap();
    assert!(check(plugin, &in_namespace(), &gone), "its pod waits for that, and names it nowhere");
}

#[test]
fn features_of_nodes_help_when_there_are_more() {
    let plugin = Plugin::NodeDeclaredFeatures;
    let with = |features: &[&str]| NodeFacts {
        features: features.iter().map(|one| (*one).to_owned()).collect(),
        ..node(&[])
    };
    assert!(check(plugin, &in_namespace(), &node_added(with(&[]))));
    assert!(check(plugin, &in_namespace(), &node_changed(with(&["a"]), with(&["a", "b"]))));
    assert!(!check(plugin, &in_namespace(), &node_changed(with(&["a", "b"]), with(&["a"]))));
}

#[test]
fn extenders_are_helped_by_anything() {
    for event in
        [gone(in_namespace()), added(in_namespace()), node_added(node(&[])), ClusterEvent::wildcard()]
    {
        assert!(check(Rejector::Extenders, &in_namespace(), &event));
    }
    let claim = crate::api::core::v1::PersistentVolumeClaim::default();
    assert!(check(Rejector::Extenders, &in_namespace(), &ClusterEvent::volume_claim(None, &claim).unwrap()));
}

#[test]
fn preemption_helps_nothing_itself() {
    assert!(interests(Plugin::DefaultPreemption.into()).contains(EventKind::PodDelete));
    assert!(!check(Plugin::DefaultPreemption, &in_namespace(), &gone(in_namespace())));
}

#[test]
fn scores_are_helped_by_nothing() {
    for plugin in [Plugin::ImageLocality, Plugin::PrioritySort, Plugin::DefaultBinder] {
        assert!(interests(plugin.into()).is_empty(), "{plugin:?}");
    }
}
