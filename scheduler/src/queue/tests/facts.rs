//! Facts are taken from the API's structs.

use super::*;
use crate::api::core::v1::{
    Affinity, Container, ContainerPort, EphemeralVolumeSource, GcePersistentDiskVolumeSource,
    PersistentVolumeClaimVolumeSource, Pod, PodAffinity, PodAffinityTerm, PodResourceClaim,
    PodResourceClaimStatus, PodSchedulingGate, PodSpec, PodStatus, Toleration, TopologySpreadConstraint,
    Volume, VolumeSource,
};
use crate::api::meta::v1::{LabelSelector, ObjectMeta};
use crate::queue::pod::{Disk, Spreading};
use crate::selector::Labels;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn facts_of(spec: PodSpec, status: PodStatus) -> PodFacts {
    let metadata = ObjectMeta {
        name: "p".to_owned(),
        namespace: "ns".to_owned(),
        uid: "u".to_owned(),
        labels: labels(&[("app", "a")]),
        ..Default::default()
    };
    Shapes::default().facts(&Pod { metadata: Some(metadata), spec: Some(spec), status: Some(status) })
}

fn shape_of(spec: PodSpec) -> Arc<PodShape> {
    facts_of(spec, PodStatus::default()).shape
}

#[test]
fn a_pod_is_known_by_uid_name_and_priority() {
    let spec = PodSpec { priority: Some(7), node_name: "n".to_owned(), ..Default::default() };
    let facts = facts_of(spec, PodStatus { nominated_node_name: "m".to_owned(), ..Default::default() });
    assert_eq!((facts.uid.to_string().as_str(), &*facts.name, facts.namespace()), ("u", "p", "ns"));
    assert_eq!((facts.priority, &*facts.node_name, &*facts.nominated_node_name), (7, "n", "m"));
    assert!(facts.is_assigned());
    assert!(!facts_of(PodSpec::default(), PodStatus::default()).is_assigned());
}

#[test]
fn pods_of_one_template_share_their_shape() {
    let mut shapes = Shapes::default();
    let pod = |name: &str| Pod {
        metadata: Some(ObjectMeta { name: name.to_owned(), uid: name.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let (a, b) = (shapes.facts(&pod("a")), shapes.facts(&pod("b")));
    assert!(Arc::ptr_eq(&a.shape, &b.shape));
    assert_ne!(a, b);
}

#[test]
fn shapes_that_nobody_uses_are_dropped() {
    let mut shapes = Shapes::default();
    let kept = shapes.intern(PodShape { namespace: "kept".to_owned(), ..Default::default() });
    for number in 0..5000 {
        shapes.intern(PodShape { namespace: number.to_string(), ..Default::default() });
    }
    assert!(shapes.len() < 2000, "{}", shapes.len());
    assert!(Arc::ptr_eq(
        &kept,
        &shapes.intern(PodShape { namespace: "kept".to_owned(), ..Default::default() })
    ));
}

#[test]
fn host_ports_are_those_of_containers_and_sidecars() {
    let container = |port: i32, restart: Option<&str>| Container {
        ports: vec![ContainerPort { host_port: port, container_port: 1, ..Default::default() }],
        restart_policy: restart.map(str::to_owned),
        ..Default::default()
    };
    let shape = shape_of(PodSpec {
        containers: vec![container(80, None), container(0, None)],
        init_containers: vec![container(81, None), container(82, Some("Always"))],
        ..Default::default()
    });
    let ports: Vec<_> = shape.host_ports.iter().map(|port| (port.port, port.protocol.as_str())).collect();
    assert_eq!(ports, [(80, "TCP"), (82, "TCP")]);
}

#[test]
fn host_ports_conflict_by_address_and_protocol() {
    let port = |address: &str, protocol: &str, port: i32| HostPort {
        address: address.to_owned(),
        protocol: protocol.to_owned(),
        port,
    };
    let cases = [
        (port("", "TCP", 80), port("", "TCP", 80), true),
        (port("", "TCP", 80), port("", "UDP", 80), false),
        (port("", "TCP", 80), port("", "TCP", 81), false),
        (port("1.1.1.1", "TCP", 80), port("", "TCP", 80), true),
        (port("1.1.1.1", "TCP", 80), port("0.0.0.0", "TCP", 80), true),
        (port("1.1.1.1", "TCP", 80), port("2.2.2.2", "TCP", 80), false),
    ];
    for (one, other, expected) in cases {
        assert_eq!((one.conflicts(&other), other.conflicts(&one)), (expected, expected), "{one:?} {other:?}");
    }
}

#[test]
fn volumes_name_claims_and_disks() {
    let volume =
        |name: &str, source: VolumeSource| Volume { name: name.to_owned(), volume_source: Some(source) };
    let claim = PersistentVolumeClaimVolumeSource { claim_name: "c".to_owned(), read_only: false };
    let disk = GcePersistentDiskVolumeSource { pd_name: "d".to_owned(), ..Default::default() };
    let shape = shape_of(PodSpec {
        volumes: vec![
            volume("v", VolumeSource { persistent_volume_claim: Some(claim), ..Default::default() }),
            volume(
                "w",
                VolumeSource { ephemeral: Some(EphemeralVolumeSource::default()), ..Default::default() },
            ),
            volume("x", VolumeSource { gce_persistent_disk: Some(disk), ..Default::default() }),
            volume("y", VolumeSource::default()),
        ],
        ..Default::default()
    });
    assert_eq!(shape.volume_claims, ["c", "p-w"]);
    assert_eq!(shape.disks, [Disk::GcePersistentDisk("d".to_owned())]);
    assert!(shape.has_attachable);
}

#[test]
fn claims_of_devices_are_known_once_they_are_made() {
    let claim = |name: &str, claim: Option<&str>| PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: claim.map(str::to_owned),
        resource_claim_template_name: claim.is_none().then(|| "t".to_owned()),
    };
    let spec =
        PodSpec { resource_claims: vec![claim("a", Some("x")), claim("b", None)], ..Default::default() };
    assert_eq!(facts_of(spec.clone(), PodStatus::default()).shape.resource_claims, ["x"]);
    let made = PodResourceClaimStatus { name: "b".to_owned(), resource_claim_name: Some("y".to_owned()) };
    let status = PodStatus { resource_claim_statuses: vec![made], ..Default::default() };
    assert_eq!(facts_of(spec, status).shape.resource_claims, ["x", "y"]);
}

#[test]
fn constraints_that_only_score_forbid_nothing() {
    let constraint = |when: &str| TopologySpreadConstraint {
        topology_key: "zone".to_owned(),
        when_unsatisfiable: when.to_owned(),
        match_label_keys: vec!["app".to_owned(), "none".to_owned()],
        ..Default::default()
    };
    assert_eq!(shape_of(PodSpec::default()).spreading, Spreading::ByDefault);
    let constraints = vec![constraint("DoNotSchedule"), constraint("ScheduleAnyway")];
    let shape = shape_of(PodSpec { topology_spread_constraints: constraints, ..Default::default() });
    let Spreading::Own(constraints) = &shape.spreading else { panic!("the pod has constraints") };
    assert_eq!(constraints.len(), 1);
    assert!(constraints[0].selector.matches(&labels(&[("app", "a")])));
    assert!(!constraints[0].selector.matches(&labels(&[("app", "b")])), "the pod's own value counts");
}

#[test]
fn terms_without_namespaces_are_about_the_own_one() {
    let spec = |term: PodAffinityTerm| {
        let terms = vec![term];
        let affinity =
            PodAffinity { required_during_scheduling_ignored_during_execution: terms, ..Default::default() };
        PodSpec {
            affinity: Some(Affinity { pod_affinity: Some(affinity), ..Default::default() }),
            ..Default::default()
        }
    };
    let namespaces = |term| shape_of(spec(term)).affinity[0].namespaces.iter().cloned().collect::<Vec<_>>();
    assert_eq!(namespaces(PodAffinityTerm::default()), ["ns"]);
    let named = PodAffinityTerm { namespaces: vec!["other".to_owned()], ..Default::default() };
    assert_eq!(namespaces(named), ["other"]);
    let selected =
        PodAffinityTerm { namespace_selector: Some(LabelSelector::default()), ..Default::default() };
    assert!(namespaces(selected).is_empty());
}

#[test]
fn tolerations_are_read_as_the_api_means_them() {
    let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        toleration_seconds: None,
    };
    let tolerates = |toleration: Toleration| {
        let shape = shape_of(PodSpec { tolerations: vec![toleration], ..Default::default() });
        shape.tolerations[0].tolerates("k", "v", "NoSchedule")
    };
    assert!(tolerates(toleration("k", "Equal", "v", "NoSchedule")));
    assert!(tolerates(toleration("k", "", "v", "")));
    assert!(!tolerates(toleration("k", "Equal", "w", "NoSchedule")));
    assert!(!tolerates(toleration("k", "Equal", "v", "NoExecute")));
    assert!(!tolerates(toleration("l", "Exists", "", "")));
    assert!(tolerates(toleration("", "Exists", "", "")));
}

#[test]
fn gates_and_scheduler_are_part_of_the_shape() {
    let spec = PodSpec {
        scheduler_name: "s".to_owned(),
        scheduling_gates: vec![PodSchedulingGate { name: "g".to_owned() }],
        ..Default::default()
    };
    let shape = shape_of(spec);
    assert_eq!((shape.scheduler_name.as_str(), shape.gates.as_slice()), ("s", ["g".to_owned()].as_slice()));
}
