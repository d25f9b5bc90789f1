//! Single plans in clusters of a few objects: rules of the reference that neither the recorded cases nor the oracle reach.

use std::sync::Arc;

use orch_proto::brand::ORCH;
use orch_schema::{Limits, apply_defaults, decode_json, encode_protobuf};
use serde_json::{Value, json};

use crate::api::core::v1;
use crate::objects::pod::Pod;
use crate::plan::decision::Refusal;
use crate::plan::profile::Plugin;
use crate::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use crate::wall_time::WallTime;

/// A cluster and its planner.
pub(super) struct Bench {
    /// The cluster.
    pub(super) cluster: Cluster,
    planner: Planner,
}

/// Decodes an object from its JSON, with defaults.
pub(super) fn decode<M: prost::Message + Default>(kind: &str, object: &Value) -> M {
    let schema = orch_schema::testing::orch();
    let type_id = schema.resources().iter().find(|resource| resource.kind == kind).unwrap().type_id;
    let json = serde_json::to_vec(object).unwrap();
    let mut decoded = decode_json(schema, type_id, &json, Limits::default()).unwrap();
    apply_defaults(schema, type_id, &mut decoded.value);
    let mut bytes = Vec::new();
    encode_protobuf(schema, type_id, &decoded.value, &mut bytes);
    M::decode(bytes.as_slice()).unwrap()
}

impl Bench {
    pub(super) fn new() -> Bench {
        Bench::with(Profile::default())
    }

    fn with(profile: Profile) -> Bench {
        let mut cluster = Cluster::new(&ORCH);
        let planner = Planner::new(&mut cluster, profile);
        Bench { cluster, planner }
    }

    /// A node with room for `cpu` and ten pods.
    pub(super) fn node(&mut self, name: &str, cpu: &str, labels: Value) {
        self.node_with(
            name,
            labels,
            json!({ "allocatable": { "cpu": cpu, "memory": "64Gi", "pods": "10" } }),
        );
    }

    pub(super) fn node_with(&mut self, name: &str, labels: Value, status: Value) {
        let object = json!({ "metadata": { "name": name, "labels": labels }, "status": status });
        self.cluster.apply(Change::Upsert(Object::Node(&decode("Node", &object))));
    }

    /// A pod that is on a node.
    fn assigned(&mut self, name: &str, node: &str, labels: Value) {
        let mut pod: v1::Pod = decode("Pod", &pod(name, labels, json!({})));
        pod.spec.as_mut().unwrap().node_name = node.to_owned();
        self.cluster.apply(Change::Upsert(Object::Pod(&pod)));
    }

    fn volume(&mut self, metadata: Value, spec: Value) {
        let object = json!({ "metadata": metadata, "spec": spec, "status": { "phase": "Available" } });
        self.cluster.apply(Change::Upsert(Object::PersistentVolume(&decode("PersistentVolume", &object))));
    }

    pub(super) fn claim(&mut self, metadata: Value, spec: Value, phase: &str) {
        let object = json!({ "metadata": metadata, "spec": spec, "status": { "phase": phase } });
        let claim = decode("PersistentVolumeClaim", &object);
        self.cluster.apply(Change::Upsert(Object::PersistentVolumeClaim(&claim)));
    }

    fn plan(&mut self, pod: &Value) -> Decision {
        let pod: Arc<Pod> = self.cluster.compile(&decode("Pod", pod));
        self.planner.plan(&self.cluster, &pod, WallTime::default(), 1, &mut NoExtenders)
    }

    /// The node of a pod that fits.
    pub(super) fn bound(&mut self, pod: &Value) -> String {
        match self.plan(pod) {
            Decision::Bind(placement) => placement.node.to_string(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn refused(&mut self, pod: &Value) -> Refusal {
        match self.plan(pod) {
            Decision::Unschedulable(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }
}

/// A pod with one container; `spec` has the rest.
pub(super) fn pod(name: &str, labels: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "uid": name, "namespace": "ns", "labels": labels },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let spec = spec.as_object().unwrap().clone();
    pod["spec"].as_object_mut().unwrap().extend(spec);
    pod
}

fn spread(over: &str, unsatisfiable: &str, more: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1, "topologyKey": over, "whenUnsatisfiable": unsatisfiable, "labelSelector": {},
    });
    constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "topologySpreadConstraints": [constraint] })
}

/// Two pods of the namespace on node `a`, in zone z1. Node `b`, in zone z2, has no CPU.
fn two_zones() -> Bench {
    let mut bench = Bench::new();
    bench.node("a", "4", json!({ "zone": "z1" }));
    bench.node("b", "0", json!({ "zone": "z2" }));
    bench.assigned("one", "a", json!({ "app": "x" }));
    bench.assigned("two", "a", json!({ "app": "x" }));
    bench
}

fn with_cpu(mut spec: Value) -> Value {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } });
    spec["containers"] = json!([container]);
    spec
}

#[test]
fn a_spread_whose_selector_is_empty_counts_no_pod_on_nodes() {
    let mut bench = two_zones();
    let hard = with_cpu(spread("zone", "DoNotSchedule", json!({})));
    assert_eq!(bench.bound(&pod("p", json!({ "app": "x" }), hard)), "a");
    // The selector is that which `matchLabelKeys` leaves.
    let keyed = with_cpu(spread("zone", "DoNotSchedule", json!({ "matchLabelKeys": ["app"] })));
    assert!(bench.refused(&pod("p", json!({ "app": "x" }), keyed.clone())).message.contains("spread"));
    assert_eq!(bench.bound(&pod("p", json!({}), keyed)), "a");
}

#[test]
fn an_eviction_takes_a_pod_off_a_spread_that_did_not_count_it() {
    let mut bench = Bench::new();
    bench.node("a", "1", json!({ "zone": "z1" }));
    let mut victim: v1::Pod = decode("Pod", &pod("victim", json!({}), with_cpu(json!({}))));
    victim.spec.as_mut().unwrap().node_name = "a".to_owned();
    bench.cluster.apply(Change::Upsert(Object::Pod(&victim)));
    let mut hard = with_cpu(spread("zone", "DoNotSchedule", json!({})));
    hard["priority"] = 10.into();
    let refusal = bench.refused(&pod("p", json!({}), hard));
    let preemption =
        refusal.preemption.expect("the room of the victim is enough, and both counts fall alike");
    assert_eq!((&*preemption.node, preemption.victims.len()), ("a", 1));
}

#[test]
fn a_preferred_spread_whose_selector_is_empty_prefers_no_node() {
    let mut bench = Bench::new();
    // What is left free makes `a` the better node; a spread that counted its pods would prefer `b`.
    let host = ORCH.label("hostname");
    bench.node("a", "64", json!({ "zone": "z1", host.clone(): "a" }));
    bench.node("b", "2", json!({ "zone": "z2", host.clone(): "b" }));
    bench.assigned("one", "a", json!({ "app": "x" }));
    for key in ["zone", &host] {
        let all = with_cpu(spread(key, "ScheduleAnyway", json!({})));
        assert_eq!(bench.bound(&pod("p", json!({ "app": "x" }), all)), "a", "{key}");
        let some = json!({ "labelSelector": { "matchLabels": { "app": "x" } } });
        let some = with_cpu(spread(key, "ScheduleAnyway", some));
        assert_eq!(bench.bound(&pod("p", json!({ "app": "x" }), some)), "b", "{key}");
    }
}

#[test]
fn nodes_without_a_zone_are_one_domain_more_of_the_systems_spread() {
    let mut bench = Bench::new();
    let label = |name: &str, zone: Option<&str>| {
        let mut labels = json!({ ORCH.label("hostname"): name });
        if let Some(zone) = zone {
            labels[zone_label()] = zone.into();
        }
        labels
    };
    // Rooms are so large that 60 pods make no difference to other scores. Node `d` only counts, it is full.
    for (name, zone, pods, room) in [
        ("a", Some("z1"), 20, 200),
        ("b", Some("z2"), 0, 200),
        ("c", None, 60, 200),
        ("d", Some("z2"), 42, 42),
    ] {
        let amounts = json!({ "cpu": "1000", "memory": "4000Gi", "pods": room.to_string() });
        bench.node_with(name, label(name, zone), json!({ "allocatable": amounts }));
        for index in 0..pods {
            bench.assigned(&format!("{name}-{index}"), name, json!({ "app": "x" }));
        }
    }
    let service =
        json!({ "metadata": { "name": "s", "namespace": "ns" }, "spec": { "selector": { "app": "x" } } });
    bench.cluster.apply(Change::Upsert(Object::Service(&decode("Service", &service))));
    // Three hosts and three domains of zones weigh the same: 20 pods on the host and in the zone are fewer than 42 in the
    // zone. Were there two domains, zones would weigh less, and `b` were better.
    assert_eq!(bench.bound(&pod("p", json!({ "app": "x" }), json!({}))), "a");
}

fn nominated(mut pod: Value, node: &str) -> Value {
    pod["status"] = json!({ "nominatedNodeName": node });
    pod
}

#[test]
fn a_nomination_is_cleared_where_no_node_can_be_made_to_fit() {
    let mut profile = Profile::default();
    // The other plugin that runs after the filters fails where it could not prepare, and leaves nominations alone.
    profile.enabled.post_filter.retain(|plugin| *plugin == Plugin::DefaultPreemption);
    let mut bench = Bench::with(profile);
    assert!(bench.refused(&nominated(pod("p", json!({}), json!({})), "a")).clear_nomination, "no nodes");
    bench.node("a", "4", json!({}));
    let claim = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "none" } }]);
    let early = |policy: &str| {
        let spec = json!({ "volumes": claim, "preemptionPolicy": policy });
        nominated(pod("p", json!({}), spec), "a")
    };
    let refusal = bench.refused(&early("PreemptLowerPriority"));
    assert!(refusal.message.contains("persistentvolumeclaim \"none\" not found"), "{}", refusal.message);
    assert!(refusal.clear_nomination, "preemption looked");
    assert!(!bench.refused(&early("Never")).clear_nomination, "preemption did not look");
    let mut bench = Bench::new();
    bench.node("a", "4", json!({}));
    assert!(!bench.refused(&early("PreemptLowerPriority")).clear_nomination, "its turn did not come");
}

#[test]
fn a_nomination_is_cleared_where_nothing_preempts() {
    let mut profile = Profile::default();
    profile.enabled.post_filter.clear();
    let mut bench = Bench::with(profile);
    bench.node("a", "0", json!({}));
    let late = nominated(pod("p", json!({}), with_cpu(json!({}))), "a");
    assert!(bench.refused(&late).clear_nomination);
    let claim = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "none" } }]);
    let early = nominated(pod("p", json!({}), json!({ "volumes": claim })), "a");
    assert!(bench.refused(&early).clear_nomination);
}

fn zone_label() -> String {
    format!("topology.{}", ORCH.label("zone"))
}

fn old_zone_label() -> String {
    format!("failure-domain.beta.{}", ORCH.label("zone"))
}

/// Whether a pod fits onto a node with this label whose claim has a volume with that one.
fn fits_in_zone(node: (&str, &str), volume: (&str, &str)) -> bool {
    let mut bench = Bench::new();
    bench.node("a", "4", json!({ node.0: node.1 }));
    let spec = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
        "claimRef": { "namespace": "ns", "name": "c", "uid": "uid-c" },
    });
    bench.volume(json!({ "name": "v", "labels": { volume.0: volume.1 } }), spec);
    let bound = format!("pv.{}", ORCH.label("bind-completed"));
    let metadata = json!({ "name": "c", "namespace": "ns", "uid": "uid-c", "annotations": { bound: "yes" } });
    let spec = json!({
        "volumeName": "v", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    });
    bench.claim(metadata, spec, "Bound");
    let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }]);
    match bench.plan(&pod("p", json!({}), json!({ "volumes": volumes }))) {
        Decision::Bind(_) => true,
        Decision::Unschedulable(refusal) => {
            assert!(refusal.message.contains("node(s) had no available volume zone"), "{}", refusal.message);
            false
        }
        Decision::Failed(failure) => panic!("{failure}"),
    }
}

#[test]
fn only_labels_of_older_volumes_are_looked_up_under_their_newer_name() {
    let (new, old) = (zone_label(), old_zone_label());
    assert!(fits_in_zone((&new, "z1"), (&new, "z1")));
    assert!(!fits_in_zone((&new, "z2"), (&new, "z1__z3")));
    assert!(fits_in_zone((&old, "z1"), (&old, "z1")));
    assert!(fits_in_zone((&new, "z1"), (&old, "z1")));
    assert!(!fits_in_zone((&old, "z1"), (&new, "z1")));
}

#[test]
fn a_zone_label_with_an_empty_part_asks_for_nothing() {
    for value in ["z1__", "__z1", ""] {
        assert!(fits_in_zone((&zone_label(), "z2"), (&zone_label(), value)), "{value}");
    }
}

/// The volume that a waiting claim of class `c` gets, of one that is kept for it.
fn kept_volume(metadata: Value, spec: Value) -> Option<String> {
    let mut bench = Bench::new();
    bench.node("a", "4", json!({}));
    let class = json!({
        "metadata": { "name": "c" }, "provisioner": ORCH.label("no-provisioner"),
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    bench.cluster.apply(Change::Upsert(Object::StorageClass(&decode("StorageClass", &class))));
    let mut volume = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "claimRef": { "namespace": "ns", "name": "c" },
    });
    volume.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    bench.volume(metadata, volume);
    let spec = json!({
        "storageClassName": "c", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    });
    bench.claim(json!({ "name": "c", "namespace": "ns", "uid": "uid-c" }), spec, "Pending");
    let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }]);
    match bench.plan(&pod("p", json!({}), json!({ "volumes": volumes }))) {
        Decision::Bind(placement) => placement.volumes.bind.first().map(|bind| bind.volume.clone()),
        Decision::Unschedulable(_) => None,
        Decision::Failed(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_volume_that_is_kept_for_a_claim_has_to_be_right_for_it_all_the_same() {
    assert_eq!(kept_volume(json!({ "name": "v" }), json!({})).as_deref(), Some("v"));
    let ending = json!({ "name": "v", "deletionTimestamp": "2026-01-01T00:00:00Z" });
    assert_eq!(kept_volume(ending, json!({})), None);
    assert_eq!(kept_volume(json!({ "name": "v" }), json!({ "volumeAttributesClassName": "gold" })), None);
}

#[test]
fn features_that_a_pod_needs_are_declared_by_its_node() {
    let mut bench = Bench::new();
    let status = |features: Value| {
        let room = json!({ "cpu": "4", "memory": "64Gi", "pods": "10" });
        json!({ "allocatable": room, "declaredFeatures": features })
    };
    let restarting = || {
        let rule =
            json!({ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [3] } });
        let container = json!({
            "name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule],
        });
        json!({ "containers": [container] })
    };
    let own_users = || json!({ "hostNetwork": true, "hostUsers": false });
    bench.node_with("a", json!({}), status(json!(["Other"])));
    for spec in [restarting(), own_users()] {
        let refusal = bench.refused(&pod("p", json!({}), spec));
        let expected = "0/1 nodes are available: 1 node(s) didn't match Pod's required features. ";
        assert!(refusal.message.starts_with(expected), "{}", refusal.message);
        assert!(
            refusal.message.ends_with("1 Preemption is not helpful for scheduling."),
            "{}",
            refusal.message
        );
        assert!(refusal.plugins.iter().eq([Plugin::NodeDeclaredFeatures]));
    }
    bench.node_with("b", json!({}), status(json!(["RestartAllContainersOnContainerExits", "Other"])));
    assert_eq!(bench.bound(&pod("p", json!({}), restarting())), "b");
    bench.node_with("a", json!({}), status(json!(["UserNamespacesHostNetworkSupport"])));
    assert_eq!(bench.bound(&pod("p", json!({}), own_users())), "a");
    let mut profile = Profile::default();
    profile.enabled.filter.retain(|plugin| *plugin != Plugin::NodeDeclaredFeatures);
    let mut bench = Bench::with(profile);
    bench.node_with("a", json!({}), status(json!([])));
    assert_eq!(bench.bound(&pod("p", json!({}), restarting())), "a");
}

pub(super) fn with_requests(mut pod: Value, requests: Value) -> Value {
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": requests });
    pod
}

#[test]
fn a_pod_that_asks_for_all_there_can_be_leaves_no_room_behind_when_it_goes() {
    let mut bench = Bench::new();
    bench.node("a", "4", json!({}));
    let mut put = |name: &str, memory: &str| {
        let pod = with_requests(pod(name, json!({}), json!({})), json!({ "memory": memory }));
        let mut pod: v1::Pod = decode("Pod", &pod);
        pod.spec.as_mut().unwrap().node_name = "a".to_owned();
        bench.cluster.apply(Change::Upsert(Object::Pod(&pod)));
        pod
    };
    put("there", "60Gi");
    let huge = [put("huge", "9223372036854775807"), put("another", "5E"), put("third", "5E")];
    huge.iter().for_each(|pod| bench.cluster.apply(Change::Delete(Object::Pod(pod))));
    let asking = |memory: &str| with_requests(pod("p", json!({}), json!({})), json!({ "memory": memory }));
    assert_eq!(bench.bound(&asking("4Gi")), "a");
    assert!(bench.refused(&asking("5Gi")).message.contains("Insufficient memory"));
}

#[test]
fn keys_that_no_node_has_are_nowhere() {
    let mut bench = Bench::new();
    bench.node("a", "4", json!({ "zone": "z1" }));
    bench.node("b", "4", json!({ "rack": "r1" }));
    let terms: Vec<Value> = (0..100)
        .map(|index| {
            let term = json!({ "topologyKey": format!("k{index}"), "labelSelector": {} });
            json!({ "weight": 1, "podAffinityTerm": term })
        })
        .collect();
    let affinity = json!({ "affinity": { "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms,
    } } });
    let mut held: v1::Pod = decode("Pod", &pod("held", json!({}), affinity));
    held.spec.as_mut().unwrap().node_name = "a".to_owned();
    bench.cluster.apply(Change::Upsert(Object::Pod(&held)));
    bench.bound(&pod("p", json!({}), json!({})));
    assert_eq!(bench.cluster.memo().topologies.kept(), 0);
    // A pod that has to be with others by such a key fits nowhere; by a key of one node it fits there.
    let near = |key: &str| {
        let term = json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": "x" } } });
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        pod("p", json!({ "app": "x" }), json!({ "affinity": { "podAffinity": required } }))
    };
    bench.refused(&near("nowhere"));
    assert_eq!(bench.bound(&near("rack")), "b");
    bench.node("b", "4", json!({ "nowhere": "x" }));
    bench.refused(&near("rack"));
    assert_eq!(bench.bound(&near("nowhere")), "b");
}

#[test]
fn of_victims_that_have_not_started_the_first_goes() {
    let mut bench = Bench::new();
    bench.node("a", "3", json!({}));
    for name in ["e1", "e2", "e3"] {
        let pod = with_requests(pod(name, json!({}), json!({ "priority": 0 })), json!({ "cpu": "1" }));
        let mut pod: v1::Pod = decode("Pod", &pod);
        pod.spec.as_mut().unwrap().node_name = "a".to_owned();
        bench.cluster.apply(Change::Upsert(Object::Pod(&pod)));
    }
    let urgent = with_requests(pod("p", json!({}), json!({ "priority": 10 })), json!({ "cpu": "1" }));
    let preemption = bench.refused(&urgent).preemption.unwrap();
    let victims: Vec<&str> = preemption.victims.iter().map(|victim| &*victim.name).collect();
    assert_eq!(victims, ["e1"]);
}
