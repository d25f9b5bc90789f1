//! The search for devices: claims, their requests and alternatives in order, the first fit in the order of pools, slices
//! and devices, with a way back out of every choice.
//!
//! The first solution counts, as in the reference. Within a request devices are only taken in their order, so that no set
//! is tried twice. Bounded: a claim has [`RESULTS_MAX`] devices at most, and a search gives up after a number of devices
//! were looked at ([`steps_max`]).

mod choose;
mod select;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use orch_schema::quantity::Quantity;

use super::allocated::Allocated;
use super::capacity::Consumed;
use super::claim::{Claim, Class, RequestKind};
use super::constraint::Constraint;
use super::slice::{CounterId, Device, DeviceId, PoolState, PoolView};
use super::{Failure, NodeOf};

/// Devices of one claim: the API's bound.
pub(super) const RESULTS_MAX: usize = 32;
/// Devices that a search may look at for each millisecond of `filterTimeout`: the time is counted in steps, so that equal
/// clusters give equal answers on any machine. A step takes well under two hundredths of a millisecond.
const STEPS_PER_MILLISECOND: u64 = 50;

/// Which selectors select which devices, by their addresses: the same for all nodes that one pod is tried on.
pub(super) type Matches = HashMap<(usize, usize), bool>;

/// What a search looks at.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) node: NodeOf<'a>,
    pub(super) classes: &'a BTreeMap<String, Class>,
    pub(super) allocated: &'a Allocated,
    /// Devices that the search may look at.
    pub(super) steps_max: usize,
}

/// The steps of a search that may take `filter_timeout_ms`; 0 is no limit.
pub(in crate::plan) fn steps_max(filter_timeout_ms: u64) -> usize {
    match filter_timeout_ms {
        0 => usize::MAX,
        timeout => usize::try_from(timeout.saturating_mul(STEPS_PER_MILLISECOND)).unwrap_or(usize::MAX),
    }
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
struct Candidate {
    pool: usize,
    device: Arc<Device>,
}

/// How many devices an alternative takes, and which if that is all.
#[derive(Debug, Default)]
struct Wanted {
    count: usize,
    all: Option<Vec<Candidate>>,
}

struct Search<'a> {
    world: World<'a>,
    matches: &'a mut Matches,
    claims: &'a [&'a Claim],
    pools: Vec<PoolView>,
    candidates: Vec<Candidate>,
    wanted: Vec<Vec<Vec<Wanted>>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    /// Devices that are chosen, with the claims that they are chosen for.
    taken: BTreeMap<DeviceId, BTreeSet<usize>>,
    shares: BTreeMap<DeviceId, Vec<Consumed>>,
    /// By pool: what is left of counters but for what this search takes.
    available: HashMap<usize, BTreeMap<CounterId, Quantity>>,
    counters: BTreeMap<(usize, CounterId), Quantity>,
    solution: Solution,
    steps: usize,
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
    pools: Vec<PoolView>,
    claims: &'a [&'a Claim],
    matches: &'a mut Matches,
) -> Result<Option<Solution>, Failure> {
    let usable = pools.iter().enumerate().filter(|(_, pool)| pool.state == PoolState::Complete);
    let candidates = usable.flat_map(|(number, pool)| {
        let devices = pool.slices.iter().flat_map(|slice| &slice.devices);
        devices.map(move |device| Candidate { pool: number, device: device.clone() })
    });
    let candidates: Vec<Candidate> = candidates.collect();
    let mut search = Search {
        world,
        matches,
        claims,
        candidates,
        wanted: Vec::new(),
        constraints: Vec::new(),
        taken: BTreeMap::new(),
        shares: BTreeMap::new(),
        available: HashMap::new(),
        counters: BTreeMap::new(),
        solution: Solution::default(),
        steps: 0,
        pools,
    };
    search.prepare()?;
    if search.of_claim(0)? == Found::Yes {
        return Ok(Some(search.solution));
    }
    if search.pools.iter().any(|pool| pool.state == PoolState::Invalid) {
        return Err(Failure::OnNode("invalid resource pools were encountered".to_owned()));
    }
    Ok(None)
}

impl<'a> Search<'a> {
    fn of_claim(&mut self, claim: usize) -> Result<Found, Failure> {
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
            let candidate = all[step.device].clone();
            return self.with_device(step, &candidate, 0);
        }
        let claim: &Claim = self.claims[step.claim];
        let alternative = &claim.requests[step.request].alternatives[step.alternative];
        for at in start..self.candidates.len() {
            self.steps += 1;
            if self.steps > self.world.steps_max {
                let node = self.world.node.name;
                return Err(Failure::Fatal(format!("node {node}: timed out trying to allocate devices")));
            }
            let candidate = self.candidates[at].clone();
            if self.is_taken(step.claim, alternative, &candidate.device)
                || !self.is_selected(step.claim, alternative, &candidate.device)?
            {
                continue;
            }
            match self.with_device(step, &candidate, at + 1)? {
                Found::No => {}
                found => return Ok(found),
            }
        }
        Ok(Found::No)
    }

    /// Chooses `candidate`, goes on, and takes it back if that leads nowhere.
    fn with_device(&mut self, step: Step, candidate: &Candidate, next: usize) -> Result<Found, Failure> {
        let Some(added) = self.choose(step, candidate)? else { return Ok(Found::No) };
        let found = self.of_device(Step { device: step.device + 1, ..step }, next)?;
        if found != Found::Yes {
            self.take_back(step, candidate, &added);
        }
        Ok(found)
    }
}
