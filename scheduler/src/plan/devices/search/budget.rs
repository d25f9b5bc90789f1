//! The limit of steps for the searches of one attempt to plan a pod.
//!
//! Owns the limit and what is left of it. Plans read no clock, so that equal clusters give equal answers on any machine:
//! time is counted in steps of about a tenth of a microsecond. A step is a candidate that is passed over, or one of
//! compiling or evaluating an expression; choosing a device takes more ([`Weight`]). Invariant: whatever a pod asks for, all
//! its searches together take no more than [`ATTEMPT_STEPS_MAX`] steps ([`LONG_ATTEMPT_STEPS_MAX`] without a timeout), since
//! all are taken before what they are for.

use orch_rules::expression::{Charge, Exhausted};

use super::super::slice::Device;

/// Steps for each millisecond of `filterTimeout`.
const STEPS_PER_MILLISECOND: u64 = 10_000;
/// Steps of an attempt on all nodes: about a second, in which no other pod is planned. It suffices to evaluate usual
/// selectors for half a million devices.
const ATTEMPT_STEPS_MAX: u64 = 10_000_000;
/// The same where an operator chose no timeout: ten seconds, a sixth of the time after which the process ends because its
/// planning thread is stuck.
const LONG_ATTEMPT_STEPS_MAX: u64 = 100_000_000;
/// Steps of choosing a device and taking it back.
const CHOICE_STEPS: u64 = 10;

/// Steps that are left to an attempt, and to its search on the current node.
#[derive(Debug)]
pub(super) struct Budget {
    of_node: u64,
    of_attempt: u64,
    left_of_attempt: u64,
    left_of_node: u64,
}

impl Budget {
    /// The steps of searches that may take `filter_timeout_ms` on each node. 0 is no limit of a node, which an
    /// operator chooses.
    pub(super) fn new(filter_timeout_ms: u64) -> Budget {
        let (of_node, of_attempt) = match filter_timeout_ms {
            0 => (u64::MAX, LONG_ATTEMPT_STEPS_MAX),
            timeout => (timeout.saturating_mul(STEPS_PER_MILLISECOND), ATTEMPT_STEPS_MAX),
        };
        Budget { of_node, of_attempt, left_of_attempt: of_attempt, left_of_node: 0 }
    }

    /// Begins the search on another node.
    pub(super) fn begin(&mut self) {
        self.left_of_node = self.of_node.min(self.left_of_attempt);
    }

    /// Steps that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.of_attempt - self.left_of_attempt
    }

    /// Takes `steps`, those of something that is about to be done.
    pub(super) fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        let is_left = self.left_of_node > steps;
        self.left_of_attempt = self.left_of_attempt.saturating_sub(steps);
        self.left_of_node = self.left_of_node.saturating_sub(steps);
        if is_left { Ok(()) } else { Err(Exhausted) }
    }
}

impl Charge for Budget {
    fn charge(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.take(steps)
    }
}

/// Steps of choosing a device, by what it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    own: u64,
    of_constraint: u64,
}

impl Weight {
    pub(super) fn new(device: &Device) -> Weight {
        let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        // A policy has ten values at most, each of which is parsed.
        let capacities = device.capacity.values().map(|one| if one.policy.is_some() { 30 } else { 5 });
        let own = capacities.fold(CHOICE_STEPS, |sum: u64, steps| sum.saturating_add(steps));
        let counters = length(device.consumes.len()).saturating_mul(8);
        let taints = length(device.api.taints.len()).saturating_mul(2);
        let own = own.saturating_add(counters).saturating_add(taints);
        let values =
            device.api.attributes.values().map(|one| {
                one.ints.len().max(one.bools.len()).max(one.strings.len()).max(one.versions.len())
            });
        // All values are copied, and compared with those of the devices that are chosen already.
        Weight { own, of_constraint: length(values.max().unwrap_or(0)).saturating_mul(2).saturating_add(10) }
    }

    /// The steps, in a claim with so many constraints.
    pub(super) fn steps(self, constraints: usize) -> u64 {
        let constraints = u64::try_from(constraints).unwrap_or(u64::MAX);
        self.own.saturating_add(self.of_constraint.saturating_mul(constraints))
    }
}
