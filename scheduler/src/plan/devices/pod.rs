//! The claims of a pod, and what the plugin `DynamicResources` says of it: before it is planned, on each node, and when
//! no node fits.

use std::collections::BTreeSet;

use super::claim::{Claim, RequestKind, names};
use super::search::{self, Attempt, World};
use super::{Binding, Devices, Failure, NodeOf, binding_state, result};
use crate::api::core::v1::Pod;
use crate::api::resource::v1::AllocationResult;
use crate::selector::NodeSelector;

/// Pods that may use a claim at once: the API's bound.
pub const RESERVED_FOR_MAX: usize = 256;
/// Alternatives of a request: the API's bound, and the score of the first.
const ALTERNATIVES_MAX: i64 = 8;

/// A pod, and the claims that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodClaims {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    claims: Vec<ClaimReference>,
}

/// How a pod names a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClaimReference {
    /// Directly.
    Named(String),
    /// By a template; the claim was made under this name.
    Made(String),
    /// By a template from which none had to be made.
    NotNeeded,
    /// By a template from which none was made yet.
    NotMade,
    /// Not at all.
    Unsupported(String),
}

impl PodClaims {
    /// Reads `pod`; `None` if it names no claim.
    pub fn new(pod: &Pod) -> Option<PodClaims> {
        let spec = pod.spec.as_ref().filter(|spec| !spec.resource_claims.is_empty())?;
        let statuses = pod.status.iter().flat_map(|status| &status.resource_claim_statuses);
        let reference = |claim: &crate::api::core::v1::PodResourceClaim| {
            if let Some(name) = &claim.resource_claim_name {
                return ClaimReference::Named(name.clone());
            }
            if claim.resource_claim_template_name.is_none() {
                return ClaimReference::Unsupported(claim.name.clone());
            }
            match statuses
                .clone()
                .find(|status| status.name == claim.name)
                .map(|one| &one.resource_claim_name)
            {
                Some(Some(made)) => ClaimReference::Made(made.clone()),
                Some(None) => ClaimReference::NotNeeded,
                None => ClaimReference::NotMade,
            }
        };
        let claims = spec.resource_claims.iter().map(reference).collect();
        let metadata = pod.metadata.clone().unwrap_or_default();
        Some(PodClaims { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid, claims })
    }
}

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
    /// Where claims that are allocated can be used; `None` for those that are not, or everywhere.
    available_on: Vec<Option<NodeSelector>>,
    /// Claims that some node could not use.
    unavailable: BTreeSet<usize>,
    pod_uid: String,
    attempt: Attempt,
    /// Allocations whose binding had to end by now were made before this time, in seconds since 1970.
    timed_out_before: i64,
}

/// What the plugin says before nodes are looked at.
#[derive(Debug)]
pub enum PreFilter<'a> {
    /// The pod has no claims: the plugin has nothing to do.
    Skip,
    /// No node helps, for this reason.
    Unschedulable(String),
    /// Nodes are to be asked.
    Ready(Box<PodDevices<'a>>),
}

/// What the plugin says of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// The node has the devices.
    Fits(NodeAllocation),
    /// It has not, for this reason. Victims do not help.
    Unschedulable(String),
    /// Something is wrong with claim or class: the attempt ends with this error.
    Error(String),
}

/// Devices for the claims of a pod on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAllocation {
    /// For each claim that is not allocated its uid, and the result to be written.
    pub results: Vec<(String, AllocationResult)>,
    /// The score of the node before it is normalised: higher for earlier alternatives.
    pub score: i64,
}

/// What the plugin says when no node fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilter {
    /// The message.
    pub message: &'static str,
    /// Namespace and name of a claim whose allocation is to be removed, since it keeps the pod from every node.
    pub deallocate: Option<(String, String)>,
}

impl PostFilter {
    /// For a pod without claims, or whose claims were not looked at.
    pub fn without_claims() -> PostFilter {
        PostFilter { message: "no new claims to deallocate", deallocate: None }
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

    /// Begins to plan a pod.
    pub fn pre_filter(&self, pod: Option<&PodClaims>, limits: DeviceLimits) -> PreFilter<'_> {
        let Some(pod) = pod else { return PreFilter::Skip };
        let claims = match self.claims_of(pod) {
            Ok(claims) if claims.is_empty() => return PreFilter::Skip,
            Ok(claims) => claims,
            Err(reason) => return PreFilter::Unschedulable(reason),
        };
        for claim in &claims {
            if let Err(reason) = self.check(claim, &pod.uid) {
                return PreFilter::Unschedulable(reason);
            }
        }
        let selector = |claim: &&Claim| claim.allocation()?.node_selector.as_ref().map(NodeSelector::new);
        PreFilter::Ready(Box::new(PodDevices {
            devices: self,
            available_on: claims.iter().map(selector).collect(),
            claims,
            unavailable: BTreeSet::new(),
            pod_uid: pod.uid.clone(),
            attempt: Attempt::new(limits.filter_timeout_ms),
            timed_out_before: limits.timed_out_before,
        }))
    }

    fn claims_of(&self, pod: &PodClaims) -> Result<Vec<&Claim>, String> {
        let mut claims = Vec::new();
        let key = format!("{}/{}", pod.namespace, pod.name);
        for reference in &pod.claims {
            let (name, must_be_owned) = match reference {
                ClaimReference::Named(name) => (name, false),
                ClaimReference::Made(name) => (name, true),
                ClaimReference::NotNeeded => continue,
                ClaimReference::NotMade => {
                    return Err(format!("pod \"{key}\": ResourceClaim not created yet"));
                }
                ClaimReference::Unsupported(name) => {
                    return Err(format!(
                        "pod \"{key}\", spec.resourceClaims[\"{name}\"]: none of the supported fields are set"
                    ));
                }
            };
            let claim = self.claim(&pod.namespace, name);
            let claim = claim.ok_or_else(|| format!("resourceclaim \"{name}\" not found"))?;
            let metadata = claim.api.metadata.as_ref();
            if metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some()) {
                return Err(format!("resourceclaim \"{name}\" is being deleted"));
            }
            let owners = metadata.into_iter().flat_map(|metadata| &metadata.owner_references);
            let is_owned = || owners.clone().any(|one| one.controller == Some(true) && one.uid == pod.uid);
            if must_be_owned && !is_owned() {
                let claim = claim.key();
                return Err(format!(
                    "ResourceClaim {claim} was not created for pod {key} (pod is not owner)"
                ));
            }
            claims.push(claim);
        }
        Ok(claims)
    }

    /// Whether a claim can be used, or allocated, by a pod.
    fn check(&self, claim: &Claim, pod_uid: &str) -> Result<(), String> {
        if claim.allocation().is_some() {
            let is_reserved = claim.reserved_for().iter().any(|one| one.uid == pod_uid);
            if !is_reserved && claim.reserved_for().len() >= RESERVED_FOR_MAX {
                return Err("resourceclaim in use".to_owned());
            }
            return Ok(());
        }
        if self.is_pending(claim.uid()) {
            return Err(format!("resource claim {} is in the process of being allocated", claim.key()));
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
    pub fn filter(&mut self, node: NodeOf<'_>) -> Filter {
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
        let allocation = match self.allocate(node) {
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

    fn allocate(&mut self, node: NodeOf<'_>) -> Result<Option<NodeAllocation>, Failure> {
        let claims: Vec<&Claim> =
            self.claims.iter().copied().filter(|one| one.allocation().is_none()).collect();
        if claims.is_empty() {
            return Ok(Some(NodeAllocation::default()));
        }
        let devices = self.devices;
        let world =
            World { node, classes: &devices.classes, allocated: &devices.allocated, pools: &devices.pools };
        let Some(solution) = search::search(world, &claims, &mut self.attempt)? else {
            return Ok(None);
        };
        let mut allocation = NodeAllocation::default();
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

    /// What to do when no node fits: a claim that no other pod uses gives its devices back.
    pub fn post_filter(&self) -> PostFilter {
        let is_free = |claim: &&Claim| match claim.reserved_for() {
            [] => true,
            [only] => only.uid == self.pod_uid,
            _ => false,
        };
        let mut unavailable = self.unavailable.iter().map(|at| self.claims[*at]);
        match unavailable.find(is_free) {
            Some(claim) => {
                let (namespace, name) = names(&claim.api);
                let deallocate = Some((namespace.to_owned(), name.to_owned()));
                PostFilter { message: "deallocation of ResourceClaim completed", deallocate }
            }
            None => PostFilter { message: "still not schedulable", deallocate: None },
        }
    }

    /// Namespaces and names of the pod's claims, for the writes before it is bound.
    pub fn claim_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.claims.iter().map(|claim| names(&claim.api))
    }
}
