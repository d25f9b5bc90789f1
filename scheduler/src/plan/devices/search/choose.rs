//! Chooses one device, and takes the choice back: holders, taints, capacities, counters and constraints.

use std::collections::BTreeMap;

use orch_schema::quantity::Quantity;

use super::super::Failure;
use super::super::allocated::Allocated;
use super::super::capacity::{self, Consumed};
use super::super::claim::{Alternative, Claim, Mode, Request};
use super::super::constraint::Added;
use super::super::pool::PoolView;
use super::super::slice::{CounterId, Device};
use super::{DeviceCandidate, Picked, Search, Step};
use crate::api::resource::v1::{DeviceTaint, DeviceToleration};

impl<'a> Search<'a> {
    /// Whether the device cannot be chosen because of claims that hold it.
    pub(super) fn is_taken(&self, claim: usize, alternative: &Alternative, candidate: usize) -> bool {
        let by = &self.taken[candidate].claims;
        if alternative.admin_access {
            return by.contains(&claim);
        }
        self.candidates[candidate].is_held || !by.is_empty()
    }

    /// Chooses the device if nothing speaks against it. Returns which constraints took it in.
    pub(super) fn choose(&mut self, step: Step, candidate: usize) -> Result<Option<Vec<Added>>, Failure> {
        let claim: &'a Claim = self.claims[step.claim];
        let request = &claim.requests[step.request];
        let alternative = &request.alternatives[step.alternative];
        let device = self.candidates[candidate].device.clone();
        let device = &device;
        if self.is_taken(step.claim, alternative, candidate)
            || is_repelled(&device.api.taints, &alternative.tolerations)
        {
            return Ok(None);
        }
        let Some(consumed) = capacity::consumption(device, &alternative.capacity) else { return Ok(None) };
        let used = |name: &str| self.used(candidate, name);
        if !capacity::has_room(device, &consumed, used) || !self.has_counters(candidate) {
            return Ok(None);
        }
        let Some(added) = self.constrain(step.claim, request, alternative, device) else {
            if alternative.mode == Mode::All {
                return Err(Failure::Fatal(format!(
                    "claim {}, request {}: cannot add device {} because a claim constraint would not be satisfied",
                    claim.key(),
                    request.own_name(alternative),
                    device.id
                )));
            }
            return Ok(None);
        };
        if self.takes_counters(candidate) {
            self.count(candidate, Quantity::plus);
        }
        let consumed = if device.is_shared() {
            self.taken[candidate].shares.push(consumed.clone());
            consumed
        } else {
            self.taken[candidate].claims.push(step.claim);
            Consumed::new()
        };
        let (request, alternative) = (step.request, step.alternative);
        self.solution.devices[step.claim].push(Picked {
            device: device.clone(),
            request,
            alternative,
            consumed,
        });
        Ok(Some(added))
    }

    pub(super) fn take_back(&mut self, step: Step, candidate: usize, added: &[Added]) {
        for (constraint, added) in self.constraints[step.claim].iter_mut().zip(added) {
            if *added == Added::Yes {
                constraint.take_back();
            }
        }
        // The last choice is taken back first.
        let taken = &mut self.taken[candidate];
        if self.candidates[candidate].device.is_shared() {
            taken.shares.pop();
        } else {
            taken.claims.pop();
        }
        // Counters were taken if, without this device, it is as unused as it was then.
        if self.takes_counters(candidate) {
            self.count(candidate, Quantity::minus);
        }
        self.solution.devices[step.claim].pop();
    }

    /// Adds the device to the constraints of the claim; `None`, and nothing is added, if it breaks one.
    fn constrain(
        &mut self,
        claim: usize,
        request: &Request,
        alternative: &Alternative,
        device: &Device,
    ) -> Option<Vec<Added>> {
        let mut all = Vec::new();
        for at in 0..self.constraints[claim].len() {
            let added = self.constraints[claim][at].add(request, alternative, device);
            if added == Added::No {
                for (constraint, added) in self.constraints[claim].iter_mut().zip(&all) {
                    if *added == Added::Yes {
                        constraint.take_back();
                    }
                }
                return None;
            }
            all.push(added);
        }
        Some(all)
    }

    /// Amount of a shared device's capacity that is consumed here and by other claims.
    fn used(&self, candidate: usize, capacity: &str) -> Quantity {
        let here = self.taken[candidate].shares.iter().filter_map(|consumed| consumed.get(capacity));
        let elsewhere = self.world.allocated.consumed(&self.candidates[candidate].device.id, capacity);
        here.fold(elsewhere, |sum, one| sum.plus(one.value))
    }

    /// Whether choosing the device takes what it consumes of counters: a shared one that is in use has taken it already.
    fn takes_counters(&self, candidate: usize) -> bool {
        let device = &self.candidates[candidate].device;
        let is_in_use =
            || !self.taken[candidate].shares.is_empty() || self.world.allocated.is_shared(&device.id);
        !(device.consumes.is_empty() || device.is_shared() && is_in_use())
    }

    fn has_counters(&mut self, candidate: usize) -> bool {
        if !self.takes_counters(candidate) {
            return true;
        }
        let pool = self.candidates[candidate].pool;
        if !self.available.contains_key(&pool) {
            let available = available(&self.pools[pool], self.world.allocated);
            self.available.insert(pool, available);
        }
        let available = &self.available[&pool];
        self.candidates[candidate].device.consumes.iter().all(|one| {
            let taken = self.counters.get(&(pool, one.counter.clone())).copied().unwrap_or_default();
            available.get(&one.counter).is_some_and(|left| taken.plus(one.amount) <= *left)
        })
    }

    fn count(&mut self, candidate: usize, change: impl Fn(Quantity, Quantity) -> Quantity) {
        let DeviceCandidate { pool, device, .. } = &self.candidates[candidate];
        for one in &device.consumes {
            let taken = self.counters.entry((*pool, one.counter.clone())).or_default();
            *taken = change(*taken, one.amount);
        }
    }
}

/// The rest of a pool's counters beside the claims of the cluster.
fn available(pool: &PoolView, allocated: &Allocated) -> BTreeMap<CounterId, Quantity> {
    let mut available: BTreeMap<CounterId, Quantity> = BTreeMap::new();
    for slice in pool.all.iter() {
        available.extend(slice.counters.iter().map(|(counter, value)| (counter.clone(), *value)));
    }
    let used =
        pool.all.iter().flat_map(|slice| &slice.devices).filter(|device| allocated.is_used(&device.id));
    for one in used.flat_map(|device| &device.consumes) {
        if let Some(left) = available.get_mut(&one.counter) {
            *left = left.minus(one.amount);
        }
    }
    available
}

/// Whether a taint keeps requests with these tolerations away.
fn is_repelled(taints: &[DeviceTaint], tolerations: &[DeviceToleration]) -> bool {
    let mut repelling =
        taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    repelling.any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => toleration.value == taint.value,
            _ => false,
        }
}
