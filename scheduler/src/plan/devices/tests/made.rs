//! Claims that were made for extended resources: those of attempts that failed, and those of pods on their nodes.

use super::extended::{answer, cluster, filter, fits, gpus, no};
use super::*;
use crate::api::core::v1::{PodExtendedResourceClaimStatus, PodStatus};
use crate::plan::decision::UnusableClaim;

/// The claim that an attempt made for a pod, with the devices that it got.
fn made(name: &str, allocation: &NodeAllocation) -> api::ResourceClaim {
    let mut claim = allocation.new.as_ref().unwrap().object.clone();
    let metadata = claim.metadata.as_mut().unwrap();
    metadata.name = name.to_owned();
    metadata.uid = format!("uid-{name}");
    let allocation = allocation.results.last().map(|(_, result)| result.clone());
    claim.status = Some(api::ResourceClaimStatus { allocation, ..Default::default() });
    claim
}

fn is_free(cluster: &Cluster) -> bool {
    matches!(filter(cluster, &gpus("other", "1"), &[]), Filter::Fits(_))
}

#[test]
fn a_claim_of_an_earlier_attempt_goes_before_the_pod_is_planned_again() {
    let mut cluster = cluster(&["d0", "d1"]);
    let claim = made("m", &fits(&cluster, &gpus("pod", "1")));
    cluster.add(claim.clone());
    let (said, after) = answer(&cluster, &gpus("pod", "1"), &[]);
    assert_eq!(said, no("cannot schedule extended resource claim"));
    assert_eq!(after.message, "deletion of ResourceClaim completed");
    let name = ClaimName { namespace: "ns".to_owned(), name: "m".to_owned() };
    assert_eq!(after.unusable, Some(UnusableClaim::Delete { claim: name, uid: "uid-m".to_owned() }));
    assert!(is_free(&cluster), "the claim of one pod is nothing to another");
    let unallocated = api::ResourceClaim { status: None, ..claim };
    cluster.add(unallocated);
    assert_eq!(filter(&cluster, &gpus("pod", "1"), &[]), no("cannot schedule extended resource claim"));
    cluster.devices.remove_claim("ns", "m");
    assert!(matches!(filter(&cluster, &gpus("pod", "1"), &[]), Filter::Fits(_)));
}

#[test]
fn a_claim_without_the_annotation_or_of_another_owner_is_not_the_pods() {
    let mut cluster = cluster(&["d0", "d1"]);
    let mut claim = made("m", &fits(&cluster, &gpus("other", "1")));
    cluster.add(claim.clone());
    assert!(matches!(filter(&cluster, &gpus("pod", "1"), &[]), Filter::Fits(_)));
    let metadata = claim.metadata.as_mut().unwrap();
    metadata.owner_references[0].uid = "uid-pod".to_owned();
    metadata.annotations.clear();
    cluster.add(claim);
    assert!(matches!(filter(&cluster, &gpus("pod", "1"), &[]), Filter::Fits(_)));
}

/// The pod once it is on its node, with the claim that its status names.
fn on_node(claim: Option<&str>) -> PodClaims {
    let mut pod = gpus("pod", "1");
    let status = claim.map(|name| PodExtendedResourceClaimStatus {
        resource_claim_name: name.to_owned(),
        ..PodExtendedResourceClaimStatus::default()
    });
    pod.status = Some(PodStatus { extended_resource_claim_status: status, ..PodStatus::default() });
    PodClaims::new(&pod).unwrap()
}

#[test]
fn assumed_devices_are_held_until_the_claim_names_them() {
    for claim_first in [true, false] {
        let mut cluster = cluster(&["d0"]);
        let allocation = fits(&cluster, &gpus("pod", "1"));
        cluster.devices.assume(&"uid-pod".into(), &allocation.results);
        let claim = made("m", &allocation);
        assert!(!is_free(&cluster));
        if claim_first {
            cluster.add(claim.clone());
            cluster.devices.settle(&on_node(Some("m")));
        } else {
            cluster.devices.settle(&on_node(Some("m")));
            assert!(!is_free(&cluster), "the claim was not seen yet");
            cluster.add(claim.clone());
        }
        assert!(!is_free(&cluster));
        cluster.devices.remove_claim("ns", "m");
        assert!(is_free(&cluster), "nothing is assumed any more, claim first: {claim_first}");
    }
}

#[test]
fn a_claim_of_an_attempt_that_failed_ends_no_assumption() {
    let mut cluster = cluster(&["d0"]);
    let allocation = fits(&cluster, &gpus("pod", "1"));
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    // The watch tells late of a claim that was made and deleted before.
    cluster.add(made("old", &allocation));
    cluster.devices.settle(&on_node(Some("new")));
    cluster.devices.remove_claim("ns", "old");
    assert!(!is_free(&cluster));
    cluster.add(made("new", &allocation));
    cluster.devices.remove_claim("ns", "new");
    assert!(is_free(&cluster));
}

#[test]
fn devices_assumed_for_a_pod_that_goes_are_free() {
    let mut cluster = cluster(&["d0"]);
    let allocation = fits(&cluster, &gpus("pod", "1"));
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    cluster.devices.settle(&on_node(None));
    assert!(!is_free(&cluster), "its status names no claim");
    cluster.devices.settle(&on_node(Some("m")));
    cluster.devices.forget_pod("uid-pod");
    assert!(is_free(&cluster));
    cluster.add(made("m", &allocation));
    cluster.devices.remove_claim("ns", "m");
    assert!(is_free(&cluster), "the claim ends an assumption that is there no more");
}
