//! The requests of claims, and the devices that their selectors select.

use std::collections::HashMap;
use std::sync::Arc;

use orch_rules::expression::{Allowance, Charge, DEVICE_SELECTOR_STEPS_MAX, Exhausted};

use super::super::Failure;
use super::super::capacity;
use super::super::claim::{Alternative, Claim, Class, Mode, Request};
use super::super::constraint::Constraint;
use super::super::expression::Selector;
use super::super::pool::PoolState;
use super::super::slice::Device;
use super::{DEPTH_MAX, RESULTS_MAX, Search, Step, Wanted, timed_out};

/// Candidates for which it is written in one step that nothing is known of them.
const CANDIDATES_PER_STEP: usize = 64;
/// Steps of evaluating classes for the amounts of extended resources, in one plan: a second.
const SELECTION_STEPS_MAX: u64 = 10_000_000;

impl Search<'_> {
    /// Reads what each claim wants, and refuses what can never be had.
    pub(super) fn prepare(&mut self) -> Result<(), Failure> {
        let mut depth = 0_usize;
        for (at, claim) in self.claims.iter().enumerate() {
            let mut of_claim = Vec::new();
            let (mut least, mut most) = (0_usize, 0_usize);
            for request in &claim.requests {
                let mut of_request = Vec::new();
                for alternative in &request.alternatives {
                    self.take_steps(1)?;
                    of_request.push(self.wanted(at, request, alternative)?);
                }
                least = least.saturating_add(of_request.iter().map(|one| one.count).min().unwrap_or(0));
                most = most.saturating_add(of_request.iter().map(|one| one.count).max().unwrap_or(0));
                of_claim.push(of_request);
            }
            if least > RESULTS_MAX {
                return Err(Failure::Fatal(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}",
                    claim.key()
                )));
            }
            depth = depth.saturating_add(1 + claim.requests.len()).saturating_add(most.min(RESULTS_MAX));
            if depth > DEPTH_MAX {
                return Err(Failure::Fatal(format!(
                    "claim {}: the claims of the pod have too many requests and devices",
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
            || format!("claim {}, request {}", self.claims[claim].key(), request.own_name(alternative));
        if !self.world.classes.contains_key(&alternative.class) {
            let class = &alternative.class;
            return Err(Failure::Fatal(format!("{}: could not retrieve device class {class}", place())));
        }
        match &alternative.mode {
            Mode::Count(count) => {
                Ok(Wanted { count: usize::try_from(*count).unwrap_or(usize::MAX), ..Wanted::default() })
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
                for at in 0..self.candidates.len() {
                    let steps = self.candidates[at].weight.steps(0);
                    self.take_steps(steps)?;
                    let fits = |device| capacity::consumption(device, &alternative.capacity).is_some();
                    if self.selects(claim, alternative, at)? && fits(&*self.candidates[at].device) {
                        all.push(at);
                    }
                }
                Ok(Wanted { count: all.len(), all: Some(all), selected: Vec::new() })
            }
        }
    }

    /// Whether the alternative of `step` selects the candidate, which is found out once.
    pub(super) fn is_selected(&mut self, step: Step, candidate: usize) -> Result<bool, Failure> {
        let len = self.candidates.len();
        if self.wanted[step.claim][step.request][step.alternative].selected.is_empty() {
            self.take_steps_of(len / CANDIDATES_PER_STEP)?;
        }
        let selected = &mut self.wanted[step.claim][step.request][step.alternative].selected;
        selected.resize(len, None);
        if let Some(selects) = selected[candidate] {
            return Ok(selects);
        }
        let claim: &Claim = self.claims[step.claim];
        let alternative = &claim.requests[step.request].alternatives[step.alternative];
        let selects = self.selects(step.claim, alternative, candidate)?;
        self.wanted[step.claim][step.request][step.alternative].selected[candidate] = Some(selects);
        Ok(selects)
    }

    /// Whether class and alternative select the candidate, and the node may use it. A slice may hold devices of several
    /// nodes: a selector that fails on one of them is wrong on every node, so that selectors come first.
    fn selects(
        &mut self,
        claim: usize,
        alternative: &Alternative,
        candidate: usize,
    ) -> Result<bool, Failure> {
        let world = self.world;
        let device = self.candidates[candidate].device.clone();
        let Some(class) = world.classes.get(&alternative.class) else { return Ok(false) };
        for (number, selector) in class.selectors.iter().enumerate() {
            let place = || format!("class {}: selector #{number}", class.name);
            if !self.does_select(selector.as_ref(), &device, place)? {
                return Ok(false);
            }
        }
        let claim = self.claims[claim];
        for (number, selector) in alternative.selectors.iter().enumerate() {
            let place = || format!("claim {}: selector #{number}", claim.key());
            if !self.does_select(selector.as_ref(), &device, place)? {
                return Ok(false);
            }
        }
        Ok(self.candidates[candidate].is_usable)
    }

    fn does_select(
        &mut self,
        selector: Option<&Arc<Selector>>,
        device: &Arc<Device>,
        place: impl Fn() -> String,
    ) -> Result<bool, Failure> {
        let selector = selector.ok_or_else(|| missing(&place()))?;
        self.take_steps(1)?;
        let key = (Arc::as_ptr(selector).addr(), Arc::as_ptr(device).addr());
        if let Some(matches) = self.attempt.matches.get(&key) {
            return Ok(*matches);
        }
        let compiled =
            selector.compiled(&mut self.attempt.budget).map_err(|Exhausted| timed_out(self.world.node))?;
        // An expression that may cost more than one evaluation is refused by the evaluation itself, and takes no steps.
        let steps = compiled.steps(&device.object);
        if steps <= DEVICE_SELECTOR_STEPS_MAX {
            self.take_steps(steps)?;
        }
        let matches = compiled
            .matches(&device.object)
            .map_err(|error| Failure::Fatal(format!("{}: {error}", place())))?;
        self.attempt.matches.insert(key, matches);
        Ok(matches)
    }
}

/// The devices that classes select, for the amounts that nodes have of extended resources.
#[derive(Debug)]
pub(in super::super) struct Selection {
    /// By the addresses of selector and device; `None` where the evaluation fails, as it would again.
    answers: HashMap<(usize, usize), Option<bool>>,
    allowance: Allowance,
    progress: Progress,
}

/// Whether the steps of a plan sufficed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Progress {
    /// The steps sufficed.
    Whole,
    /// The steps were used up: answers were missing.
    Cut,
}

impl Default for Selection {
    fn default() -> Self {
        let allowance = Allowance::of(SELECTION_STEPS_MAX);
        Selection { answers: HashMap::new(), allowance, progress: Progress::Whole }
    }
}

impl Selection {
    /// Begins another plan, which has steps of its own, and returns how the last one ended. Answers stay known, so that
    /// each plan comes further.
    pub(in super::super) fn begin(&mut self) -> Progress {
        self.allowance = Allowance::of(SELECTION_STEPS_MAX);
        std::mem::replace(&mut self.progress, Progress::Whole)
    }

    /// Whether the selector selects the device; `None` if it fails, or the steps are used up.
    fn selects(&mut self, selector: &Arc<Selector>, device: &Arc<Device>) -> Option<bool> {
        let key = (Arc::as_ptr(selector).addr(), Arc::as_ptr(device).addr());
        if let Some(answer) = self.answers.get(&key) {
            return *answer;
        }
        let charged = selector.compiled(&mut self.allowance).and_then(|compiled| {
            let steps = compiled.steps(&device.object).min(DEVICE_SELECTOR_STEPS_MAX);
            self.allowance.charge(steps).map(|()| compiled)
        });
        let Ok(compiled) = charged else {
            self.progress = Progress::Cut;
            return None;
        };
        let answer = compiled.matches(&device.object).ok();
        self.answers.insert(key, answer);
        answer
    }
}

impl Class {
    /// Whether all selectors of the class select the device; `None` if one of them has no answer.
    pub(in super::super) fn selects(&self, device: &Arc<Device>, known: &mut Selection) -> Option<bool> {
        for selector in &self.selectors {
            if !known.selects(selector.as_ref()?, device)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn missing(place: &str) -> Failure {
    Failure::Fatal(format!("{place}: CEL expression empty (unsupported selector type?)"))
}
