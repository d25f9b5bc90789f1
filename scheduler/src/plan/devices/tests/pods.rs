//! Pods and their claims: what is said before nodes are looked at, on nodes, and when none fits.

use super::*;
use crate::api::core::v1::{PodResourceClaimStatus, PodStatus};
use crate::api::meta::v1::{OwnerReference, Time};
use crate::plan::decision::UnusableClaim;

fn cluster() -> Cluster {
    Cluster::new(vec![slice("a", "pa", plain(&["d0"])), slice("b", "pb", plain(&["d1"]))])
}

/// A pod with a claim from a template; `made` is what the status says of it.
fn templated(made: Option<Option<&str>>) -> Pod {
    let mut pod = pod_with(&[]);
    pod.spec.as_mut().unwrap().resource_claims = vec![PodResourceClaim {
        name: "c".to_owned(),
        resource_claim_name: None,
        resource_claim_template_name: Some("t".to_owned()),
    }];
    let statuses = made.map(|made| PodResourceClaimStatus {
        name: "c".to_owned(),
        resource_claim_name: made.map(str::to_owned),
    });
    pod.status =
        Some(PodStatus { resource_claim_statuses: statuses.into_iter().collect(), ..Default::default() });
    pod
}

fn pre_enqueue(cluster: &Cluster, pod: &Pod) -> Result<(), String> {
    cluster.devices.pre_enqueue(&PodClaims::new(pod).unwrap())
}

fn owned_by(mut claim: api::ResourceClaim, uid: &str) -> api::ResourceClaim {
    let owner = OwnerReference { uid: uid.to_owned(), controller: Some(true), ..Default::default() };
    claim.metadata.as_mut().unwrap().owner_references = vec![owner];
    claim
}

#[test]
fn pods_without_claims_are_none_of_this() {
    assert_eq!(PodClaims::new(&pod_with(&[])), None);
    assert!(matches!(cluster().devices.pre_filter(None, LIMITS), PreFilter::Skip));
}

#[test]
fn claims_have_to_be_there() {
    let mut cluster = cluster();
    assert_eq!(pre_enqueue(&cluster, &pod_with(&["x"])), refused("resourceclaim \"x\" not found"));
    cluster.add(claim("x", Vec::new()));
    assert_eq!(pre_enqueue(&cluster, &pod_with(&["x"])), Ok(()));
}

#[test]
fn claims_that_are_being_deleted_do_not_count() {
    let mut cluster = cluster();
    let mut deleted = claim("x", Vec::new());
    deleted.metadata.as_mut().unwrap().deletion_timestamp = Some(Time { seconds: 1, nanos: 0 });
    cluster.add(deleted);
    assert_eq!(pre_enqueue(&cluster, &pod_with(&["x"])), refused("resourceclaim \"x\" is being deleted"));
}

#[test]
fn claims_from_templates_have_to_be_made() {
    let mut cluster = cluster();
    let told = pre_enqueue(&cluster, &templated(None));
    assert_eq!(told, refused("pod \"ns/pod\": ResourceClaim not created yet"));
    assert_eq!(pre_enqueue(&cluster, &templated(Some(None))), Ok(()), "none was needed");
    cluster.add(owned_by(claim("made", Vec::new()), "uid-pod"));
    assert_eq!(pre_enqueue(&cluster, &templated(Some(Some("made")))), Ok(()));
}

#[test]
fn claims_from_templates_belong_to_their_pods() {
    let mut cluster = cluster();
    cluster.add(owned_by(claim("made", Vec::new()), "uid-other"));
    let expected = "ResourceClaim ns/made was not created for pod ns/pod (pod is not owner)";
    assert_eq!(pre_enqueue(&cluster, &templated(Some(Some("made")))), refused(expected));
    assert_eq!(pre_enqueue(&cluster, &pod_with(&["made"])), Ok(()), "named directly it may be another's");
}

#[test]
fn a_claim_that_is_named_in_no_known_way_is_refused() {
    let mut pod = templated(None);
    pod.spec.as_mut().unwrap().resource_claims[0].resource_claim_template_name = None;
    let expected = "pod \"ns/pod\", spec.resourceClaims[\"c\"]: none of the supported fields are set";
    assert_eq!(pre_enqueue(&cluster(), &pod), refused(expected));
}

#[test]
fn classes_have_to_be_there() {
    let mut cluster = cluster();
    cluster.add(claim("x", vec![request("r", exactly("no-such-class", 1, &[]))]));
    let told = cluster.allocate(&["x"], "a");
    assert_eq!(told, refused("error: pre-filter: request r: device class no-such-class does not exist"));
    let listed = api::DeviceSubRequest { device_class_name: "none".to_owned(), ..alternative("s", 1, &[]) };
    cluster.add(claim("x", vec![first_of("r", vec![alternative("q", 1, &[]), listed])]));
    let told = cluster.allocate(&["x"], "a");
    assert_eq!(told, refused("error: pre-filter: request r/s: device class none does not exist"));
    cluster.class("none", &[]);
    assert!(cluster.allocate(&["x"], "a").is_ok());
    cluster.devices.remove_class("none");
    assert!(cluster.allocate(&["x"], "a").is_err());
}

#[test]
fn requests_of_an_unknown_kind_are_refused() {
    let mut cluster = cluster();
    cluster.add(claim("x", vec![first_of("r", Vec::new())]));
    let told = cluster.allocate(&["x"], "a");
    assert_eq!(told, refused("error: pre-filter: resource claim ns/x, request r: unknown request type"));
}

fn reserved(cluster: &mut Cluster, name: &str, pods: &[&str]) {
    let mut claim = cluster.devices.resource_claim("ns", name).unwrap().clone();
    let reference = |uid: &&str| api::ResourceClaimConsumerReference {
        resource: "pods".to_owned(),
        uid: (*uid).to_owned(),
        ..Default::default()
    };
    claim.status.as_mut().unwrap().reserved_for = pods.iter().map(reference).collect();
    cluster.add(claim);
}

#[test]
fn an_allocated_claim_leads_to_its_nodes() {
    let mut cluster = cluster();
    cluster.hold(claim("x", vec![one("r", &[])]), "b");
    assert_eq!(cluster.allocate(&["x"], "b"), Ok(BTreeMap::new()), "nothing is left to allocate");
    assert_eq!(cluster.allocate(&["x"], "a"), refused("resourceclaim not available on the node"));
}

#[test]
fn as_many_pods_share_a_claim_as_may() {
    let mut cluster = cluster();
    cluster.hold(claim("x", vec![one("r", &[])]), "b");
    let others: Vec<String> = (0..RESERVED_FOR_MAX).map(|number| number.to_string()).collect();
    let mut others: Vec<&str> = others.iter().map(String::as_str).collect();
    reserved(&mut cluster, "x", &others);
    assert_eq!(cluster.allocate(&["x"], "b"), refused("error: pre-filter: resourceclaim in use"));
    others[7] = "uid-pod";
    reserved(&mut cluster, "x", &others);
    assert!(cluster.allocate(&["x"], "b").is_ok(), "it is reserved for this one");
    reserved(&mut cluster, "x", &others[..RESERVED_FOR_MAX - 1]);
    assert!(cluster.allocate(&["x"], "b").is_ok());
}

/// What is said after no node fitted a pod with the claim `x`.
fn after_all_nodes(cluster: &Cluster) -> PostFilter {
    let pod = PodClaims::new(&pod_with(&["x"]));
    let PreFilter::Ready(mut devices) = cluster.devices.pre_filter(pod.as_ref(), LIMITS) else {
        panic!("it is ready")
    };
    for node in ["a", "b"] {
        devices.filter(NodeOf { name: node, labels: &labels_of(node) }, &|_| None);
    }
    devices.post_filter()
}

#[test]
fn a_claim_that_keeps_its_only_pod_away_is_deallocated() {
    let mut cluster = cluster();
    cluster.hold(claim("x", vec![one("r", &[])]), "a");
    let expected = PostFilter {
        message: "deallocation of ResourceClaim completed",
        unusable: Some(UnusableClaim::Deallocate(ClaimName {
            namespace: "ns".to_owned(),
            name: "x".to_owned(),
        })),
    };
    assert_eq!(after_all_nodes(&cluster), expected);
    reserved(&mut cluster, "x", &["uid-pod"]);
    assert_eq!(after_all_nodes(&cluster), expected);
    reserved(&mut cluster, "x", &["uid-other"]);
    let expected = PostFilter { message: "still not schedulable", unusable: None };
    assert_eq!(after_all_nodes(&cluster), expected);
}

#[test]
fn without_devices_nothing_is_deallocated() {
    let mut cluster = cluster();
    cluster.add(claim("x", vec![many("r", 2)]));
    assert_eq!(after_all_nodes(&cluster).message, "still not schedulable");
    assert_eq!(PostFilter::without_claims().message, "no new claims to deallocate");
}

#[test]
fn devices_that_could_not_be_bound_are_not_available() {
    let bound = api::Device {
        binding_conditions: vec!["ready".to_owned()],
        binding_failure_conditions: vec!["failed".to_owned()],
        ..device("d0", &[])
    };
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![bound])]);
    cluster.hold(claim("x", vec![one("r", &[])]), "a");
    let mut allocated = cluster.devices.resource_claim("ns", "x").unwrap().clone();
    let allocation = allocated.status.as_mut().unwrap().allocation.as_mut().unwrap();
    allocation.allocation_timestamp = Some(Time { seconds: 100, nanos: 0 });
    cluster.add(allocated.clone());
    let said = |cluster: &Cluster, timed_out_before| {
        let pod = PodClaims::new(&pod_with(&["x"]));
        let PreFilter::Ready(mut devices) =
            cluster.devices.pre_filter(pod.as_ref(), DeviceLimits { timed_out_before, ..LIMITS })
        else {
            panic!("it is ready")
        };
        devices.filter(NodeOf { name: "a", labels: &labels_of("a") }, &|_| None)
    };
    let not_available = Filter::Unschedulable("resourceclaim not available on the node".to_owned());
    assert!(matches!(said(&cluster, 100), Filter::Fits(_)), "it still may be bound in time");
    assert_eq!(said(&cluster, 101), not_available);
    let condition = |name: &str| crate::api::meta::v1::Condition {
        r#type: name.to_owned(),
        status: "True".to_owned(),
        ..Default::default()
    };
    let told = |name: &str| api::AllocatedDeviceStatus {
        driver: "d.io".to_owned(),
        pool: "pa".to_owned(),
        device: "d0".to_owned(),
        conditions: vec![condition(name)],
        ..Default::default()
    };
    allocated.status.as_mut().unwrap().devices = vec![told("ready")];
    cluster.add(allocated.clone());
    assert!(matches!(said(&cluster, 101), Filter::Fits(_)), "it is bound");
    allocated.status.as_mut().unwrap().devices = vec![told("failed")];
    cluster.add(allocated);
    assert_eq!(said(&cluster, 0), not_available);
}

#[test]
fn recorded_cases_come_out_as_recorded() {
    // device-on-one-node, device-shared-claim and device-class-missing of the recorded scenarios.
    let mut cluster = Cluster::new(vec![slice("b", "b", plain(&["d0"]))]);
    cluster.add(claim("dc-1", vec![one("r", &[])])).add(claim("dc-2", vec![one("r", &[])]));
    assert!(cluster.allocate(&["dc-1"], "a").is_err());
    cluster.hold(claim("dc-1", vec![one("r", &[])]), "b");
    assert_eq!(cluster.allocate(&["dc-2"], "a"), refused(CANNOT));
    assert_eq!(cluster.allocate(&["dc-2"], "b"), refused(CANNOT));
    assert!(cluster.allocate(&["dc-1"], "b").is_ok(), "a second pod goes where the claim is");
}

#[test]
fn claims_are_named_for_their_writes() {
    let mut cluster = cluster();
    cluster.add(claim("x", Vec::new())).add(claim("y", Vec::new()));
    let pod = PodClaims::new(&pod_with(&["y", "x"]));
    let PreFilter::Ready(devices) = cluster.devices.pre_filter(pod.as_ref(), LIMITS) else {
        panic!("it is ready")
    };
    assert_eq!(devices.claim_names().collect::<Vec<_>>(), [("ns", "y"), ("ns", "x")]);
}

#[test]
fn a_search_gives_up_after_the_time_of_its_profile() {
    let names: Vec<String> = (0..12).map(|index| format!("d{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(&names))]);
    cluster.add(claim("x", vec![many("r", 6), one("s", &["false"])]));
    assert_eq!(cluster.allocate(&["x"], "a"), refused(CANNOT));
    cluster.limits.filter_timeout_ms = 1;
    assert_eq!(
        cluster.allocate(&["x"], "a"),
        refused("error: node a: timed out trying to allocate devices"),
        "a thousand sets of devices are more than a millisecond's"
    );
    cluster.limits.filter_timeout_ms = 0;
    assert_eq!(cluster.allocate(&["x"], "a"), refused(CANNOT), "there is no limit");
}
