//! Binding conditions in the status of a claim.

use super::*;
use crate::api::meta::v1::{Condition, Time};

/// A claim whose only device waits for `ready` since second 7, and fails with `broken`; `conditions` are those that its
/// driver wrote, with their status.
fn waiting(conditions: &[(&str, &str)]) -> api::ResourceClaim {
    let result = api::DeviceRequestAllocationResult {
        device: "d0".to_owned(),
        binding_conditions: vec!["ready".to_owned()],
        binding_failure_conditions: vec!["broken".to_owned()],
        ..Default::default()
    };
    let devices = api::DeviceAllocationResult { results: vec![result], ..Default::default() };
    let allocation = AllocationResult {
        devices: Some(devices),
        allocation_timestamp: Some(Time { seconds: 7, nanos: 0 }),
        ..Default::default()
    };
    let condition = |&(name, status): &(&str, &str)| Condition {
        r#type: name.to_owned(),
        status: status.to_owned(),
        ..Default::default()
    };
    let device = api::AllocatedDeviceStatus {
        device: "d0".to_owned(),
        conditions: conditions.iter().map(condition).collect(),
        ..Default::default()
    };
    let status = api::ResourceClaimStatus {
        allocation: Some(allocation),
        devices: vec![device],
        ..Default::default()
    };
    api::ResourceClaim { status: Some(status), ..claim("x", Vec::new()) }
}

#[test]
fn a_device_is_ready_when_its_conditions_hold_and_none_says_that_it_failed() {
    for (conditions, expected) in [
        (&[][..], Binding::Waiting { since: Some(7) }),
        (&[("ready", "False")], Binding::Waiting { since: Some(7) }),
        (&[("ready", "True")], Binding::Ready),
        (&[("ready", "True"), ("broken", "False")], Binding::Ready),
        (&[("ready", "True"), ("broken", "True")], Binding::Failed),
    ] {
        assert_eq!(binding_state(&waiting(conditions)), expected, "{conditions:?}");
    }
    let mut of_another = waiting(&[("ready", "True")]);
    of_another.status.as_mut().unwrap().devices[0].device = "d1".to_owned();
    assert_eq!(binding_state(&of_another), Binding::Waiting { since: Some(7) });
}

#[test]
fn devices_without_conditions_are_ready() {
    assert_eq!(binding_state(&claim("x", Vec::new())), Binding::Ready, "nothing is allocated");
    let mut unconditional = waiting(&[]);
    let allocation = unconditional.status.as_mut().unwrap().allocation.as_mut().unwrap();
    assert!(has_conditions(allocation));
    let result = &mut allocation.devices.as_mut().unwrap().results[0];
    result.binding_conditions.clear();
    assert!(!has_conditions(allocation));
    assert_eq!(binding_state(&unconditional), Binding::Ready);
}
