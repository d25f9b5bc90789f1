//! What is written to claims before a pod that uses them is bound, and when that fails.
//!
//! Pure: each function takes a claim as it was last read, and gives the claims to be written. Conflicts are the caller's:
//! it reads again and asks again.

use orch_proto::Brand;

use super::claim::names;
use super::pod::RESERVED_FOR_MAX;
use crate::api::meta::v1::{Condition, Time};
use crate::api::resource::v1::{
    AllocationResult, DeviceRequestAllocationResult, ResourceClaim, ResourceClaimConsumerReference,
    ResourceClaimStatus,
};

/// The writes of a claim, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimWrites {
    /// The claim with the finalizer that keeps it while it has devices; `None` if it has it already. An update, before
    /// the status: its answer has the resource version of the next write.
    pub object: Option<ResourceClaim>,
    /// The claim with allocation and reservation: an update of its status.
    pub status: ResourceClaim,
}

/// Why a claim cannot be bound. The pod is planned again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// It is being deleted.
    #[error("claim {0} got deleted in the meantime")]
    Deleted(String),
    /// Another scheduler was faster.
    #[error("claim {0} got allocated elsewhere in the meantime")]
    AllocatedElsewhere(String),
    /// As many pods use it as may.
    #[error("claim {0} is used by as many pods as may use it")]
    Full(String),
    /// It was planned with an allocation that it has no more.
    #[error("claim {0} got deallocated in the meantime")]
    Deallocated(String),
}

/// A pod that uses claims.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Name of the pod.
    pub name: &'a str,
    /// Uid of the pod.
    pub uid: &'a str,
}

/// Whether the devices of a claim can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// All conditions hold, or there are none.
    Ready,
    /// Some do not hold yet, since this time in seconds since 1970.
    Waiting {
        /// When the devices were allocated.
        since: Option<i64>,
    },
    /// One that says that it failed holds.
    Failed,
}

/// The finalizer of allocated claims.
pub fn finalizer(brand: &Brand) -> String {
    format!("resource.{}/delete-protection", brand.label_domain)
}

/// The writes that reserve `claim` for a pod; `None` if it is reserved already. `allocation` is what the plan found for it,
/// `None` if it was allocated already.
///
/// # Errors
/// The claim has changed so that the plan no longer holds.
pub fn bind(
    claim: &ResourceClaim,
    pod: Consumer<'_>,
    allocation: Option<&AllocationResult>,
    now: Time,
    brand: &Brand,
) -> Result<Option<ClaimWrites>, BindError> {
    let (namespace, name) = names(claim);
    let key = || format!("{namespace}/{name}");
    let status = claim.status.clone().unwrap_or_default();
    let mut metadata = claim.metadata.clone().unwrap_or_default();
    if status.reserved_for.iter().any(|one| one.uid == pod.uid) && allocation.is_none() {
        return Ok(None);
    }
    if metadata.deletion_timestamp.is_some() {
        return Err(BindError::Deleted(key()));
    }
    match (&status.allocation, allocation) {
        (Some(_), Some(_)) => return Err(BindError::AllocatedElsewhere(key())),
        (None, None) => return Err(BindError::Deallocated(key())),
        (Some(_), None) | (None, Some(_)) => {}
    }
    if status.reserved_for.len() >= RESERVED_FOR_MAX {
        return Err(BindError::Full(key()));
    }
    let mut written = claim.clone();
    let mut object = None;
    let mut status = status;
    if let Some(allocation) = allocation {
        let finalizer = finalizer(brand);
        if !metadata.finalizers.contains(&finalizer) {
            metadata.finalizers.push(finalizer);
            written.metadata = Some(metadata);
            object = Some(written.clone());
        }
        let mut allocation = allocation.clone();
        if has_conditions(&allocation) {
            allocation.allocation_timestamp = Some(now);
        }
        status.allocation = Some(allocation);
    }
    status.reserved_for.push(ResourceClaimConsumerReference {
        api_group: String::new(),
        resource: "pods".to_owned(),
        name: pod.name.to_owned(),
        uid: pod.uid.to_owned(),
    });
    written.status = Some(status);
    Ok(Some(ClaimWrites { object, status: written }))
}

/// The claim without its allocation, to be written to its status; `None` if other pods than `pod_uid` use it by now.
pub fn deallocated(claim: &ResourceClaim, pod_uid: &str) -> Option<ResourceClaim> {
    let mut status = claim.status.clone().unwrap_or_default();
    if status.reserved_for.iter().any(|one| one.uid != pod_uid) {
        return None;
    }
    status.reserved_for.clear();
    status.allocation = None;
    status.devices.clear();
    Some(ResourceClaim { status: Some(status), ..claim.clone() })
}

/// The strategic merge patch of the status of a claim that withdraws the reservation for a pod.
pub fn unreserve_patch(claim_uid: &str, pod_uid: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": { "uid": claim_uid },
        "status": { "reservedFor": [{ "$patch": "delete", "uid": pod_uid }] },
    })
}

/// Whether the devices of `claim` can be used by a pod that is about to be bound.
pub fn binding_state(claim: &ResourceClaim) -> Binding {
    let Some(status) = &claim.status else { return Binding::Ready };
    let Some(allocation) = &status.allocation else { return Binding::Ready };
    if binding_failure(claim).is_some() {
        return Binding::Failed;
    }
    let holds = |result, name| held_condition(status, result, name).is_some();
    let mut results = allocation.devices.iter().flat_map(|devices| &devices.results);
    if results.all(|result| result.binding_conditions.iter().all(|name| holds(result, name))) {
        return Binding::Ready;
    }
    Binding::Waiting { since: allocation.allocation_timestamp.map(|time| time.seconds) }
}

/// The condition of a device of `claim` that says why it cannot be used.
pub fn binding_failure(claim: &ResourceClaim) -> Option<&Condition> {
    let status = claim.status.as_ref()?;
    let devices = status.allocation.as_ref()?.devices.as_ref()?;
    devices.results.iter().find_map(|result| {
        result.binding_failure_conditions.iter().find_map(|name| held_condition(status, result, name))
    })
}

/// The condition `name` of the device of a result, if it holds.
fn held_condition<'a>(
    status: &'a ResourceClaimStatus,
    result: &DeviceRequestAllocationResult,
    name: &str,
) -> Option<&'a Condition> {
    let told = status.devices.iter().find(|one| {
        (&one.driver, &one.pool, &one.device, &one.share_id)
            == (&result.driver, &result.pool, &result.device, &result.share_id)
    });
    let mut conditions = told?.conditions.iter();
    conditions.find(|condition| condition.r#type == name && condition.status == "True")
}

/// Whether devices of the allocation have to be made ready before the pod may start: the allocation then gets a time.
pub fn has_conditions(allocation: &AllocationResult) -> bool {
    let mut results = allocation.devices.iter().flat_map(|devices| &devices.results);
    results.any(|result| !result.binding_conditions.is_empty())
}
