//! The search for devices: claims, their requests and alternatives in order, the first fit in the order of pools, slices
//! and devices, with a way back out of every choice.
//!
//! The first solution counts, as in the reference. Within a request devices are only taken in their order, so that no set
//! is tried twice. Bounded: a claim has [`RESULTS_MAX`] devices at most, and each turn of a search takes from the
//! [`Budget`] of the attempt, without which it gives up. It recurses once for each claim, request and device: no deeper
//! than [`DEPTH_MAX`]. Devices are numbers here, their places among the candidates.

mod budget;
mod choose;
mod select;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use orch_rules::expression::Exhausted;
use orch_schema::quantity::Quantity;

use self::budget::{Budget, Weight};
pub(super) use self::select::{Progress, Selection};
use super::allocated::Allocated;
use super::capacity::Consumed;
use super::claim::{Claim, Class, RequestKind};
use super::constraint::Constraint;
use super::pool::{PoolState, PoolView, Pools};
use super::slice::{CounterId, Device};
use super::{Failure, NodeOf};

/// Devices of one claim: the API's bound.
pub(super) const RESULTS_MAX: usize = 32;
/// Claims, requests and devices of one search together, each of which takes some hundred bytes of stack. Pods have ten.
const DEPTH_MAX: usize = 1024;

/// Results of selectors for devices, by the addresses of both.
type Matches = HashMap<(usize, usize), bool>;

/// State that the searches of one attempt share: those on the nodes that one pod is tried on.
#[derive(Debug)]
pub(super) struct Attempt {
    matches: Matches,
    budget: Budget,
}

impl Attempt {
    /// An attempt whose searches may take `filter_timeout_ms` on each node; 0 is no limit.
    pub(super) fn new(filter_timeout_ms: u64) -> Attempt {
        Attempt { matches: HashMap::new(), budget: Budget::new(filter_timeout_ms) }
    }

    /// Steps that its searches took.
    pub(super) fn taken(&self) -> u64 {
        self.budget.taken()
    }
}

/// Input of a search.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) node: NodeOf<'a>,
    pub(super) classes: &'a BTreeMap<String, Class>,
    pub(super) allocated: &'a Allocated,
    pub(super) pools: &'a Pools,
}

/// A device that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Picked {
    pub(super) device: Arc<Device>,
    pub(super) request: usize,
    pub(super) alternative: usize,
    pub(super) consumed: Consumed,
}

/// For each claim the chosen devices, and for each of its requests the chosen alternative.
#[derive(Debug, Default)]
pub(super) struct Solution {
    pub(super) devices: Vec<Vec<Picked>>,
    pub(super) alternatives: Vec<Vec<usize>>,
}

/// How a part of the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Yes,
    No,
    /// A claim would have too many devices: other devices do not help, other alternatives may.
    TooMany,
}

/// A device that can be chosen.
#[derive(Clone, Debug)]
struct DeviceCandidate {
    pool: usize,
    device: Arc<Device>,
    weight: Weight,
    /// Whether the node may use it.
    is_usable: bool,
    /// Whether a claim of the cluster holds it.
    is_held: bool,
}

/// The claims that this search chose a candidate for.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// The claims that hold it alone.
    claims: Vec<usize>,
    /// Consumed capacity, if it is shared.
    shares: Vec<Consumed>,
}

/// How many devices an alternative takes, and which if that is all.
#[derive(Debug, Default)]
struct Wanted {
    count: usize,
    all: Option<Vec<usize>>,
    /// For each candidate whether it is selected, once that is known. Empty until one is looked at.
    selected: Vec<Option<bool>>,
}

struct Search<'a> {
    world: World<'a>,
    attempt: &'a mut Attempt,
    claims: &'a [&'a Claim],
    pools: Vec<PoolView>,
    candidates: Vec<DeviceCandidate>,
    wanted: Vec<Vec<Vec<Wanted>>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    /// By candidate.
    taken: Vec<Taken>,
    /// By pool: the rest of its counters, without the amounts that this search takes.
    available: HashMap<usize, BTreeMap<CounterId, Quantity>>,
    counters: BTreeMap<(usize, CounterId), Quantity>,
    solution: Solution,
}

/// A place in the search: the claim, its request, the alternative, and the number of devices of it that are chosen.
#[derive(Clone, Copy, Debug)]
struct Step {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
}

/// Finds devices for `claims`; `None` if there are none.
pub(super) fn search<'a>(
    world: World<'a>,
    claims: &'a [&'a Claim],
    attempt: &'a mut Attempt,
) -> Result<Option<Solution>, Failure> {
    attempt.budget.begin();
    attempt.budget.take(1).map_err(|Exhausted| timed_out(world.node))?;
    let pools = world.pools.of_node(world.node);
    let candidates = candidates(world, &pools);
    let mut search = Search {
        world,
        attempt,
        claims,
        taken: vec![Taken::default(); candidates.len()],
        candidates,
        wanted: Vec::new(),
        constraints: Vec::new(),
        available: HashMap::new(),
        counters: BTreeMap::new(),
        solution: Solution::default(),
        pools,
    };
    search.take_steps_of(search.candidates.len())?;
    search.prepare()?;
    if search.of_claim(0)? == Found::Yes {
        return Ok(Some(search.solution));
    }
    if search.pools.iter().any(|pool| pool.state == PoolState::Invalid) {
        return Err(Failure::OnNode("invalid resource pools were encountered".to_owned()));
    }
    Ok(None)
}

/// The devices of complete pools, in the order in which they are tried.
fn candidates(world: World<'_>, pools: &[PoolView]) -> Vec<DeviceCandidate> {
    let usable = pools.iter().enumerate().filter(|(_, pool)| pool.state == PoolState::Complete);
    let candidates = usable.flat_map(|(number, pool)| {
        let devices = pool.slices.iter().flat_map(|slice| &slice.devices);
        devices.map(move |device| DeviceCandidate {
            pool: number,
            device: device.clone(),
            weight: Weight::new(device),
            is_usable: device.access.includes(world.node),
            is_held: world.allocated.is_held(&device.id),
        })
    });
    candidates.collect()
}

/// Timeouts are an error, so that the pod is tried again after a while and not only after a change of the cluster.
fn timed_out(node: NodeOf<'_>) -> Failure {
    Failure::Fatal(format!("node {}: timed out trying to allocate devices", node.name))
}

impl<'a> Search<'a> {
    /// Takes steps from the budget, before what they are for.
    fn take_steps(&mut self, steps: u64) -> Result<(), Failure> {
        self.attempt.budget.take(steps).map_err(|Exhausted| timed_out(self.world.node))
    }

    /// A step for each of so many things.
    fn take_steps_of(&mut self, things: usize) -> Result<(), Failure> {
        self.take_steps(u64::try_from(things).unwrap_or(u64::MAX))
    }

    fn of_claim(&mut self, claim: usize) -> Result<Found, Failure> {
        self.take_steps(1)?;
        if claim == self.claims.len() {
            return Ok(Found::Yes);
        }
        // Too many devices in this claim may be fewer with other alternatives of it alone, which were all tried.
        match self.of_request(claim, 0)? {
            Found::TooMany => Ok(Found::No),
            found => Ok(found),
        }
    }

    fn of_request(&mut self, claim: usize, request: usize) -> Result<Found, Failure> {
        let requests = &self.claims[claim].requests;
        let Some(wanted) = requests.get(request) else { return self.of_claim(claim + 1) };
        let is_list = wanted.kind == RequestKind::FirstAvailable;
        let mut all_too_many = true;
        for alternative in 0..wanted.alternatives.len() {
            self.solution.alternatives[claim][request] = alternative;
            let found = self.of_device(Step { claim, request, alternative, device: 0 }, 0)?;
            if found == Found::Yes || !is_list {
                return Ok(found);
            }
            all_too_many &= found == Found::TooMany;
        }
        Ok(if all_too_many { Found::TooMany } else { Found::No })
    }

    /// Chooses the next device of an alternative among the candidates from `start` on.
    fn of_device(&mut self, step: Step, start: usize) -> Result<Found, Failure> {
        self.take_steps(1)?;
        let wanted = &self.wanted[step.claim][step.request][step.alternative];
        let (count, all) = (wanted.count, wanted.all.as_ref());
        if all.is_some_and(Vec::is_empty) {
            return Ok(Found::No);
        }
        if step.device >= count {
            return self.of_request(step.claim, step.request + 1);
        }
        if self.solution.devices[step.claim].len().saturating_add(count - step.device) > RESULTS_MAX {
            return Ok(Found::TooMany);
        }
        if let Some(all) = all {
            let candidate = all[step.device];
            return self.with_device(step, candidate, 0);
        }
        let claim: &Claim = self.claims[step.claim];
        let alternative = &claim.requests[step.request].alternatives[step.alternative];
        for at in start..self.candidates.len() {
            self.take_steps(1)?;
            if self.is_taken(step.claim, alternative, at) || !self.is_selected(step, at)? {
                continue;
            }
            match self.with_device(step, at, at + 1)? {
                Found::No => {}
                found => return Ok(found),
            }
        }
        Ok(Found::No)
    }

    /// Chooses the candidate, goes on, and takes it back if that leads nowhere.
    fn with_device(&mut self, step: Step, candidate: usize, next: usize) -> Result<Found, Failure> {
        let steps = self.candidates[candidate].weight.steps(self.constraints[step.claim].len());
        self.take_steps(steps)?;
        let Some(added) = self.choose(step, candidate)? else { return Ok(Found::No) };
        let found = self.of_device(Step { device: step.device + 1, ..step }, next)?;
        if found != Found::Yes {
            self.take_back(step, candidate, &added);
        }
        Ok(found)
    }
}
