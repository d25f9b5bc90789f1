//! Binding conditions of allocated devices: whether the devices of a claim have been made ready for its pod.
//!
//! Owns how the status of a claim is read for that. It writes nothing: the writes of claims are in `run::binding`.

use crate::api::meta::v1::Condition;
use crate::api::resource::v1::{
    AllocationResult, DeviceRequestAllocationResult, ResourceClaim, ResourceClaimStatus,
};

/// Whether the devices of a claim can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// All conditions hold, or there are none.
    Ready,
    /// At least one binding condition does not hold yet.
    Waiting {
        /// When the devices were allocated, in seconds since 1970.
        since: Option<i64>,
    },
    /// A condition holds that stands for a failure of the device.
    Failed,
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
