//! Writes of claims before a pod is bound.

use orch_proto::Brand;

use super::*;
use crate::api::meta::v1::Time;
use crate::plan::devices::binding::{self, BindError, ClaimWrites, Consumer};

const POD: Consumer<'static> = Consumer { name: "pod", uid: "uid-pod" };
const NOW: Time = Time { seconds: 7, nanos: 0 };

fn brand() -> &'static Brand {
    Brand::named("orch").unwrap()
}

fn allocation() -> AllocationResult {
    AllocationResult { devices: Some(api::DeviceAllocationResult::default()), ..Default::default() }
}

fn allocated(reserved_for: &[&str]) -> api::ResourceClaim {
    let reference =
        |uid: &&str| api::ResourceClaimConsumerReference { uid: (*uid).to_owned(), ..Default::default() };
    let status = api::ResourceClaimStatus {
        allocation: Some(allocation()),
        reserved_for: reserved_for.iter().map(reference).collect(),
        ..Default::default()
    };
    api::ResourceClaim { status: Some(status), ..claim("x", Vec::new()) }
}

fn bind(
    claim: &api::ResourceClaim,
    allocation: Option<&AllocationResult>,
) -> Result<Option<ClaimWrites>, BindError> {
    binding::bind(claim, POD, allocation, NOW, brand())
}

fn uids(claim: &api::ResourceClaim) -> Vec<&str> {
    claim.status.as_ref().unwrap().reserved_for.iter().map(|one| one.uid.as_str()).collect()
}

#[test]
fn a_new_allocation_is_written_behind_its_finalizer() {
    let writes = bind(&claim("x", Vec::new()), Some(&allocation())).unwrap().unwrap();
    let object = writes.object.unwrap();
    assert_eq!(object.metadata.as_ref().unwrap().finalizers, ["resource.orch.io/delete-protection"]);
    assert_eq!(object.status, None, "the status has a write of its own");
    let status = writes.status.status.as_ref().unwrap();
    assert_eq!(status.allocation, Some(allocation()));
    let reserved = &status.reserved_for[0];
    assert_eq!(
        (reserved.resource.as_str(), reserved.name.as_str(), reserved.uid.as_str()),
        ("pods", "pod", "uid-pod")
    );
    assert_eq!(writes.status.metadata, object.metadata);
}

#[test]
fn a_finalizer_that_is_there_is_not_written_again() {
    let mut claim = claim("x", Vec::new());
    claim.metadata.as_mut().unwrap().finalizers = vec![binding::finalizer(brand())];
    let writes = bind(&claim, Some(&allocation())).unwrap().unwrap();
    assert_eq!(writes.object, None);
    assert_eq!(binding::finalizer(Brand::named("kubernetes").unwrap()).matches("resource.").count(), 1);
}

#[test]
fn an_allocated_claim_is_only_reserved() {
    let writes = bind(&allocated(&["uid-other"]), None).unwrap().unwrap();
    assert_eq!(writes.object, None);
    assert_eq!(uids(&writes.status), ["uid-other", "uid-pod"]);
}

#[test]
fn a_claim_that_is_reserved_already_is_not_written() {
    assert_eq!(bind(&allocated(&["uid-pod"]), None), Ok(None));
}

#[test]
fn devices_that_have_to_be_bound_carry_the_time() {
    let result =
        api::DeviceRequestAllocationResult { binding_conditions: vec!["c".to_owned()], ..Default::default() };
    let devices = api::DeviceAllocationResult { results: vec![result], ..Default::default() };
    let allocation = AllocationResult { devices: Some(devices), ..Default::default() };
    let writes = bind(&claim("x", Vec::new()), Some(&allocation)).unwrap().unwrap();
    let written = writes.status.status.unwrap().allocation.unwrap();
    assert_eq!(written.allocation_timestamp, Some(NOW));
}

#[test]
fn a_claim_that_changed_since_the_plan_is_not_bound() {
    let key = || "ns/x".to_owned();
    let mut deleted = claim("x", Vec::new());
    deleted.metadata.as_mut().unwrap().deletion_timestamp = Some(NOW);
    assert_eq!(bind(&deleted, Some(&allocation())), Err(BindError::Deleted(key())));
    assert_eq!(bind(&allocated(&[]), Some(&allocation())), Err(BindError::AllocatedElsewhere(key())));
    assert_eq!(bind(&claim("x", Vec::new()), None), Err(BindError::Deallocated(key())));
    let others: Vec<String> = (0..RESERVED_FOR_MAX).map(|number| number.to_string()).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_eq!(bind(&allocated(&others), None), Err(BindError::Full(key())));
}

#[test]
fn a_claim_is_deallocated_unless_others_use_it() {
    let freed = binding::deallocated(&allocated(&["uid-pod"]), "uid-pod").unwrap();
    assert_eq!(freed.status, Some(api::ResourceClaimStatus::default()));
    assert!(binding::deallocated(&allocated(&[]), "uid-pod").is_some());
    assert!(binding::deallocated(&allocated(&["uid-pod", "uid-other"]), "uid-pod").is_none());
}

#[test]
fn a_reservation_is_withdrawn_by_uid() {
    let patch = binding::unreserve_patch("c", "p");
    assert_eq!(patch["metadata"]["uid"], "c");
    assert_eq!(patch["status"]["reservedFor"][0]["$patch"], "delete");
    assert_eq!(patch["status"]["reservedFor"][0]["uid"], "p");
}

#[test]
fn a_claim_without_conditions_is_ready() {
    assert_eq!(binding_state(&claim("x", Vec::new())), Binding::Ready);
    assert_eq!(binding_state(&allocated(&[])), Binding::Ready);
}
