//! Allocated devices of all claims.
//!
//! Kept up to date result by result. Devices with admin access are left out: they are used beside whoever holds them.

use std::collections::{BTreeMap, HashMap};

use orch_schema::quantity::Quantity;

use super::slice::{DeviceId, full_name};
use crate::api::resource::v1::{AllocationResult, DeviceRequestAllocationResult};

/// Devices and shares of devices that the claims of the cluster hold.
#[derive(Debug, Default)]
pub(super) struct Allocated {
    /// Devices that one claim holds alone, with the number of results that say so.
    exclusive: HashMap<DeviceId, usize>,
    /// Amounts that claims consume of devices that they share.
    shared: HashMap<DeviceId, Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    results: usize,
    consumed: BTreeMap<String, Quantity>,
}

impl Allocated {
    pub(super) fn add(&mut self, allocation: &AllocationResult) {
        for result in held(allocation) {
            let id = DeviceId::new(&result.driver, &result.pool, &result.device);
            if result.share_id.is_none() {
                *self.exclusive.entry(id).or_default() += 1;
                continue;
            }
            let shares = self.shared.entry(id).or_default();
            shares.results += 1;
            for (name, amount) in consumed(result) {
                let sum = shares.consumed.entry(name).or_default();
                *sum = sum.plus(amount);
            }
        }
    }

    pub(super) fn remove(&mut self, allocation: &AllocationResult) {
        for result in held(allocation) {
            let id = DeviceId::new(&result.driver, &result.pool, &result.device);
            if result.share_id.is_none() {
                let count = self.exclusive.get_mut(&id).expect("what is removed was added");
                *count -= 1;
                if *count == 0 {
                    self.exclusive.remove(&id);
                }
                continue;
            }
            let shares = self.shared.get_mut(&id).expect("what is removed was added");
            shares.results -= 1;
            for (name, amount) in consumed(result) {
                let sum = shares.consumed.entry(name).or_default();
                *sum = sum.minus(amount);
            }
            if shares.results == 0 {
                self.shared.remove(&id);
            }
        }
    }

    /// Whether a claim holds the device alone.
    pub(super) fn is_held(&self, id: &DeviceId) -> bool {
        self.exclusive.contains_key(id)
    }

    /// Whether a claim uses the device at all, and so its counters.
    pub(super) fn is_used(&self, id: &DeviceId) -> bool {
        self.is_held(id) || self.is_shared(id)
    }

    /// Whether a claim uses a part of the device.
    pub(super) fn is_shared(&self, id: &DeviceId) -> bool {
        self.shared.contains_key(id)
    }

    /// The consumed amount of a capacity, by its name with the domain.
    pub(super) fn consumed(&self, id: &DeviceId, capacity: &str) -> Quantity {
        self.shared.get(id).and_then(|shares| shares.consumed.get(capacity)).copied().unwrap_or_default()
    }
}

fn held(allocation: &AllocationResult) -> impl Iterator<Item = &DeviceRequestAllocationResult> {
    let results = allocation.devices.iter().flat_map(|devices| &devices.results);
    results.filter(|result| result.admin_access != Some(true))
}

fn consumed(result: &DeviceRequestAllocationResult) -> impl Iterator<Item = (String, Quantity)> {
    result.consumed_capacity.iter().map(|(name, amount)| {
        (full_name(&result.driver, name), Quantity::parse(&amount.string).unwrap_or_default())
    })
}
