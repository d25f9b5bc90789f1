//! What claims want, and which devices their selectors select.

use std::sync::Arc;

use super::super::Failure;
use super::super::capacity;
use super::super::claim::{Alternative, Class, Mode, Request};
use super::super::constraint::Constraint;
use super::super::expression::Selector;
use super::super::slice::{Device, PoolState};
use super::{Matches, RESULTS_MAX, Search, Wanted};

impl Search<'_> {
    /// Reads what each claim wants, and refuses what can never be had.
    pub(super) fn prepare(&mut self) -> Result<(), Failure> {
        for (at, claim) in self.claims.iter().enumerate() {
            let mut of_claim = Vec::new();
            let mut least = 0_usize;
            for request in &claim.requests {
                let mut of_request = Vec::new();
                for alternative in &request.alternatives {
                    of_request.push(self.wanted(at, request, alternative)?);
                }
                least = least.saturating_add(of_request.iter().map(|one| one.count).min().unwrap_or(0));
                of_claim.push(of_request);
            }
            if least > RESULTS_MAX {
                return Err(Failure::Fatal(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}",
                    claim.key()
                )));
            }
            let constraints = claim.constraints().iter().enumerate().map(|(number, constraint)| {
                Constraint::new(constraint).ok_or_else(|| {
                    let key = claim.key();
                    Failure::Fatal(format!(
                        "claim {key}, constraint #{number}: empty constraint (unsupported constraint type?)"
                    ))
                })
            });
            self.constraints.push(constraints.collect::<Result<_, _>>()?);
            self.solution.devices.push(Vec::new());
            self.solution.alternatives.push(vec![0; claim.requests.len()]);
            self.wanted.push(of_claim);
        }
        Ok(())
    }

    fn wanted(
        &mut self,
        claim: usize,
        request: &Request,
        alternative: &Alternative,
    ) -> Result<Wanted, Failure> {
        let place =
            || format!("claim {}, request {}", self.claims[claim].key(), request.full_name(alternative));
        if !self.world.classes.contains_key(&alternative.class) {
            let class = &alternative.class;
            return Err(Failure::Fatal(format!("{}: could not retrieve device class {class}", place())));
        }
        match &alternative.mode {
            Mode::Count(count) => {
                Ok(Wanted { count: usize::try_from(*count).unwrap_or(usize::MAX), all: None })
            }
            Mode::Unknown(mode) => Err(Failure::Fatal(format!("{}: unsupported count mode {mode}", place()))),
            Mode::All => {
                if let Some(pool) = self.pools.iter().find(|pool| pool.state != PoolState::Complete) {
                    let state = if pool.state == PoolState::Incomplete { "being updated" } else { "invalid" };
                    return Err(Failure::Fatal(format!(
                        "{}: asks for all devices, but resource pool {} is currently {state}",
                        place(),
                        pool.id
                    )));
                }
                let mut all = Vec::new();
                for candidate in self.candidates.clone() {
                    let device = &candidate.device;
                    let fits = || capacity::consumption(device, &alternative.capacity).is_some();
                    if self.is_selected(claim, alternative, device)? && fits() {
                        all.push(candidate);
                    }
                }
                Ok(Wanted { count: all.len(), all: Some(all) })
            }
        }
    }

    /// Whether class and alternative select the device, and the node may use it. A slice may hold devices of several nodes:
    /// a selector that fails on one of them is wrong on every node, so that selectors come first.
    pub(super) fn is_selected(
        &mut self,
        claim: usize,
        alternative: &Alternative,
        device: &Arc<Device>,
    ) -> Result<bool, Failure> {
        let world = self.world;
        let Some(class) = world.classes.get(&alternative.class) else { return Ok(false) };
        if !class.selects(device, self.matches)? {
            return Ok(false);
        }
        let claim = self.claims[claim];
        for (number, selector) in alternative.selectors.iter().enumerate() {
            let place = || format!("claim {}: selector #{number}", claim.key());
            if !does_select(selector.as_ref(), device, self.matches, place)? {
                return Ok(false);
            }
        }
        Ok(device.access.includes(world.node))
    }
}

impl Class {
    /// Whether all selectors of the class select the device.
    pub(in super::super) fn selects(
        &self,
        device: &Arc<Device>,
        matches: &mut Matches,
    ) -> Result<bool, Failure> {
        for (number, selector) in self.selectors.iter().enumerate() {
            let place = || format!("class {}: selector #{number}", self.name);
            if !does_select(selector.as_ref(), device, matches, place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn does_select(
    selector: Option<&Arc<Selector>>,
    device: &Arc<Device>,
    known: &mut Matches,
    place: impl Fn() -> String,
) -> Result<bool, Failure> {
    let Some(selector) = selector else {
        let place = place();
        return Err(Failure::Fatal(format!("{place}: CEL expression empty (unsupported selector type?)")));
    };
    let key = (Arc::as_ptr(selector).addr(), Arc::as_ptr(device).addr());
    if let Some(matches) = known.get(&key) {
        return Ok(*matches);
    }
    let matches =
        selector.matches(&device.object).map_err(|error| Failure::Fatal(format!("{}: {error}", place())))?;
    known.insert(key, matches);
    Ok(matches)
}
