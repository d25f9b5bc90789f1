//! The claims of a pod, and the results of the plugin `DynamicResources`: before nodes are filtered, on each node, and when
//! no node fits.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claim::{Claim, RequestKind, names};
use super::search::{self, Attempt, World};
use super::unmade::{Allocatable, Extended, Unmade};
use super::{Binding, Devices, Failure, NodeOf, PodClaims, binding_state, result};
use crate::api::resource::v1::AllocationResult;
use crate::plan::decision::{ClaimName, NewClaim, UnusableClaim};
use crate::selector::NodeSelector;

/// Pods that may use a claim at once: the API's bound.
pub const RESERVED_FOR_MAX: usize = 256;
/// Alternatives of a request: the API's bound, and the score of the first.
const ALTERNATIVES_MAX: i64 = 8;

/// How long devices may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Bindings of devices that began before this time, in seconds since 1970, have failed.
    pub timed_out_before: i64,
    /// How long the allocation of one node may take, in milliseconds; 0 is no limit.
    pub filter_timeout_ms: u64,
}

/// The claims of a pod that is being planned.
#[derive(Debug)]
pub struct PodDevices<'a> {
    devices: &'a Devices,
    claims: Vec<&'a Claim>,
    /// Extended resources that devices may stand for.
    extended: Option<Extended<'a>>,
    /// Where claims that are allocated can be used; `None` for those that are not, or everywhere.
    available_on: Vec<Option<NodeSelector>>,
    /// Claims that some node could not use.
    unavailable: BTreeSet<usize>,
    pod_uid: String,
    attempt: Attempt,
    /// Allocations whose binding had to end by now were made before this time, in seconds since 1970.
    timed_out_before: i64,
}

/// Result of the plugin's PreFilter, before nodes are looked at.
#[derive(Debug)]
pub enum PreFilter<'a> {
    /// The pod has no claims: the plugin has nothing to do.
    Skip,
    /// No node helps, for this reason.
    Unschedulable(String),
    /// Nodes are to be asked.
    Ready(Box<PodDevices<'a>>),
}

/// Result of the plugin's Filter for a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// The node has the devices.
    Fits(NodeAllocation),
    /// It has not, for this reason. Victims do not help.
    Unschedulable(String),
    /// A claim or class is invalid: the attempt ends with this error.
    Error(String),
}

/// Devices for the claims of a pod on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAllocation {
    /// For each claim that is not allocated its uid, and the result to be written.
    pub results: Vec<(String, AllocationResult)>,
    /// The claim that is to be made for extended resources; its result is the last.
    pub new: Option<Arc<NewClaim>>,
    /// The score of the node before it is normalised: higher for earlier alternatives.
    pub score: i64,
}

/// Result of the plugin's PostFilter, when no node fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilter {
    /// The message.
    pub message: &'static str,
    /// A claim that keeps the pod from every node.
    pub unusable: Option<UnusableClaim>,
}

impl PostFilter {
    /// For a pod without claims, or whose claims were not looked at.
    pub fn without_claims() -> PostFilter {
        PostFilter { message: "no new claims to deallocate", unusable: None }
    }
}

impl Devices {
    /// Whether the claims of a pod are there, so that it can be planned at all; otherwise the reason.
    ///
    /// # Errors
    /// A claim is missing, was not made for this pod, or is being deleted.
    pub fn pre_enqueue(&self, pod: &PodClaims) -> Result<(), String> {
        self.claims_of(pod).map(drop)
    }

    /// The claims of a pod that is being planned.
    pub fn pre_filter<'a>(&'a self, pod: Option<&'a PodClaims>, limits: DeviceLimits) -> PreFilter<'a> {
        let Some(pod) = pod else { return PreFilter::Skip };
        let claims = match self.claims_of(pod) {
            Ok(claims) => claims,
            Err(reason) => return PreFilter::Unschedulable(reason),
        };
        let extended = Extended::new(self, pod);
        if claims.is_empty() && extended.is_none() {
            return PreFilter::Skip;
        }
        let left = extended.as_ref().and_then(Extended::left_claim);
        for claim in claims.iter().copied().chain(left) {
            if let Err(reason) = self.check(claim, &pod.uid) {
                return PreFilter::Unschedulable(reason);
            }
        }
        let selector = |claim: &&Claim| claim.allocation()?.node_selector.as_ref().map(NodeSelector::new);
        PreFilter::Ready(Box::new(PodDevices {
            devices: self,
            available_on: claims.iter().map(selector).collect(),
            claims,
            extended,
            unavailable: BTreeSet::new(),
            pod_uid: pod.uid.clone(),
            attempt: Attempt::new(limits.filter_timeout_ms),
            timed_out_before: limits.timed_out_before,
        }))
    }

    /// Whether a claim can be used, or allocated, by a pod.
    fn check(&self, claim: &Claim, pod_uid: &str) -> Result<(), String> {
        // Where it is told to have others, that is over, or will not be.
        if self.is_pending(claim.uid()) {
            return Err(format!("resource claim {} is in the process of being allocated", claim.key()));
        }
        if claim.allocation().is_some() {
            let is_reserved = claim.reserved_for().iter().any(|one| one.uid == pod_uid);
            if !is_reserved && claim.reserved_for().len() >= RESERVED_FOR_MAX {
                return Err("resourceclaim in use".to_owned());
            }
            return Ok(());
        }
        for request in &claim.requests {
            if request.kind == RequestKind::Unknown {
                let key = claim.key();
                return Err(format!("resource claim {key}, request {}: unknown request type", request.name));
            }
            for alternative in &request.alternatives {
                if !self.classes.contains_key(&alternative.class) {
                    let name = request.full_name(alternative);
                    return Err(format!("request {name}: device class {} does not exist", alternative.class));
                }
            }
        }
        Ok(())
    }
}

impl PodDevices<'_> {
    /// Asks about one node.
    pub fn filter(&mut self, node: NodeOf<'_>, allocatable: Allocatable<'_>) -> Filter {
        let unmade = match &mut self.extended {
            None => None,
            Some(extended) => match extended.on_node(self.devices, allocatable) {
                Ok(unmade) => unmade,
                Err(reason) => return Filter::Unschedulable(reason),
            },
        };
        let mut unavailable = Vec::new();
        for (at, claim) in self.claims.iter().enumerate() {
            let is_here =
                self.available_on[at].as_ref().is_none_or(|one| one.matches(node.name, node.labels));
            let can_bind = match binding_state(&claim.api) {
                Binding::Ready => true,
                Binding::Failed => false,
                Binding::Waiting { since } => since.is_none_or(|since| since >= self.timed_out_before),
            };
            if !is_here || !can_bind {
                unavailable.push(at);
            }
        }
        let allocation = match self.allocate(node, unmade.as_ref()) {
            Ok(Some(allocation)) => allocation,
            Ok(None) => return Filter::Unschedulable("cannot allocate all claims".to_owned()),
            Err(Failure::OnNode(reason)) => return Filter::Unschedulable(reason),
            Err(Failure::Fatal(reason)) => return Filter::Error(reason),
        };
        if !unavailable.is_empty() {
            self.unavailable.extend(unavailable);
            return Filter::Unschedulable("resourceclaim not available on the node".to_owned());
        }
        Filter::Fits(allocation)
    }

    fn allocate(
        &mut self,
        node: NodeOf<'_>,
        unmade: Option<&Unmade>,
    ) -> Result<Option<NodeAllocation>, Failure> {
        let claims = self.claims.iter().copied().filter(|one| one.allocation().is_none());
        let claims: Vec<&Claim> = claims.chain(unmade.map(|unmade| &*unmade.claim)).collect();
        if claims.is_empty() {
            return Ok(Some(NodeAllocation::default()));
        }
        let devices = self.devices;
        let world =
            World { node, classes: &devices.classes, allocated: &devices.allocated, pools: &devices.pools };
        let found = search::search(world, &claims, &mut self.attempt);
        devices.claim_steps.set(self.attempt.taken());
        let Some(solution) = found? else { return Ok(None) };
        let new = unmade.map(|unmade| unmade.new.clone());
        let mut allocation = NodeAllocation { new, ..NodeAllocation::default() };
        for ((claim, picked), alternatives) in
            claims.iter().zip(&solution.devices).zip(&solution.alternatives)
        {
            let result = result::result(claim, picked, alternatives, &devices.classes, node);
            allocation.results.push((claim.uid().to_owned(), result));
            let listed = claim.requests.iter().zip(alternatives);
            let listed = listed.filter(|(request, _)| request.kind == RequestKind::FirstAvailable);
            allocation.score +=
                listed.map(|(_, at)| ALTERNATIVES_MAX - i64::try_from(*at).unwrap_or(0)).sum::<i64>();
        }
        Ok(Some(allocation))
    }

    /// The act when no node fits: a claim that no other pod uses gives its devices back, and one that is left of an
    /// earlier attempt goes.
    pub fn post_filter(&self) -> PostFilter {
        let is_free = |claim: &&Claim| match claim.reserved_for() {
            [] => true,
            [only] => only.uid == self.pod_uid,
            _ => false,
        };
        let mut unavailable = self.unavailable.iter().map(|at| self.claims[*at]);
        if let Some(claim) = unavailable.find(is_free) {
            let (namespace, name) = names(&claim.api);
            let claim = ClaimName { namespace: namespace.to_owned(), name: name.to_owned() };
            let unusable = Some(UnusableClaim::Deallocate(claim));
            return PostFilter { message: "deallocation of ResourceClaim completed", unusable };
        }
        match self.extended.as_ref().and_then(Extended::left) {
            Some((claim, uid)) => PostFilter {
                message: "deletion of ResourceClaim completed",
                unusable: Some(UnusableClaim::Delete { claim, uid }),
            },
            None => PostFilter { message: "still not schedulable", unusable: None },
        }
    }

    /// Namespaces and names of the pod's claims, for the writes before it is bound.
    pub fn claim_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.claims.iter().map(|claim| names(&claim.api))
    }
}
