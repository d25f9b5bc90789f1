//! The claim for a pod's extended resources before it is created.
//!
//! Owns the requests of the claim on a node: devices for those resources that the node does not offer itself. The claim
//! exists in memory only until the pod is about to be bound; a claim that is there already, when the pod is planned, is left
//! of an attempt that failed, and keeps the pod from every node until it is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_proto::Brand;

use super::claim::{Claim, names};
use super::expression::Selectors;
use super::extended::is_extended;
use super::{Devices, PodClaims};
use crate::api::meta::v1::{ObjectMeta, OwnerReference};
use crate::api::resource::v1 as api;
use crate::plan::decision::{ClaimName, NewClaim};

/// The name of a claim that is not made yet. No object can have it.
pub(super) const UNNAMED: &str = "<extended-resources>";

/// The annotation of claims for extended resources, which has the value `true`.
fn annotation(brand: &Brand) -> String {
    format!("resource.{}", brand.label("extended-resource-claim"))
}

/// The uid of a pod's claim until it is made.
pub(super) fn unmade_uid(pod_uid: &str) -> String {
    format!("{pod_uid}/extended-resources")
}

/// The uid of the pod that `claim` was made for by a scheduler; `None` if it is any other claim.
pub(super) fn pod_of(claim: &api::ResourceClaim, brand: &Brand) -> Option<String> {
    let metadata = claim.metadata.as_ref()?;
    metadata.annotations.get(&annotation(brand)).filter(|value| *value == "true")?;
    let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}

/// Amounts of resources that a node offers itself, by their names; `None` for those that it does not list.
pub type Allocatable<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// The extended resources of a pod, of which a class offers at least one.
#[derive(Debug)]
pub(super) struct Extended<'a> {
    pod: &'a PodClaims,
    resources: Vec<&'a str>,
    /// A claim that an earlier attempt made.
    left: Option<&'a Claim>,
    /// By the resources that devices stand for.
    unmade: BTreeMap<Vec<&'a str>, Unmade>,
}

/// A claim that is to be made, in the form of the search and in that of the API.
#[derive(Clone, Debug)]
pub(super) struct Unmade {
    pub(super) claim: Arc<Claim>,
    pub(super) new: Arc<NewClaim>,
}

impl<'a> Extended<'a> {
    /// `None` if no class offers a resource that the pod asks for.
    pub(super) fn new(devices: &'a Devices, pod: &'a PodClaims) -> Option<Extended<'a>> {
        let resources = pod.asked.resources();
        resources.iter().find(|resource| devices.offers(resource))?;
        let left = devices.made.get(&pod.uid).and_then(|made| made.first());
        let left = left.and_then(|left| devices.claim(&left.namespace, &left.name));
        Some(Extended { pod, resources, left, unmade: BTreeMap::new() })
    }

    /// The claim that is needed on a node; `None` if the node offers everything itself.
    ///
    /// # Errors
    /// The node does not fit, for this reason.
    pub(super) fn on_node(
        &mut self,
        devices: &Devices,
        allocatable: Allocatable<'_>,
    ) -> Result<Option<Unmade>, String> {
        if self.left.is_some() {
            return Err("cannot schedule extended resource claim".to_owned());
        }
        let mut delegated = Vec::new();
        for resource in &self.resources {
            match allocatable(resource) {
                Some(0) | None if devices.offers(resource) => delegated.push(*resource),
                None if is_extended(resource, devices.brand) => return Err("cannot fit resource".to_owned()),
                Some(_) | None => {}
            }
        }
        if delegated.is_empty() {
            return Ok(None);
        }
        let unmade = self.unmade.entry(delegated);
        let unmade = unmade.or_insert_with_key(|delegated| Unmade::new(self.pod, delegated, devices));
        Ok(Some(unmade.clone()))
    }

    /// The claim that an earlier attempt made, with its uid.
    pub(super) fn left(&self) -> Option<(ClaimName, String)> {
        let left = self.left?;
        let (namespace, name) = names(&left.api);
        Some((ClaimName { namespace: namespace.to_owned(), name: name.to_owned() }, left.uid().to_owned()))
    }

    /// The claim that an earlier attempt made.
    pub(super) fn left_claim(&self) -> Option<&'a Claim> {
        self.left
    }
}

impl Unmade {
    /// The claim of `pod` for `resources`, which classes offer.
    fn new(pod: &PodClaims, resources: &[&str], devices: &Devices) -> Unmade {
        let offered =
            resources.iter().filter_map(|resource| Some((*resource, devices.offers.class(resource)?)));
        let (requests, mappings) = pod.asked.requests(&offered.collect::<Vec<_>>());
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta {
            namespace: pod.namespace.clone(),
            generate_name: format!("{}-extended-resources-", pod.name),
            annotations: [(annotation(devices.brand), "true".to_owned())].into(),
            owner_references: vec![owner],
            ..ObjectMeta::default()
        };
        let asked = api::DeviceClaim { requests, ..api::DeviceClaim::default() };
        let object = api::ResourceClaim {
            metadata: Some(metadata.clone()),
            spec: Some(api::ResourceClaimSpec { devices: Some(asked) }),
            status: None,
        };
        let named = ObjectMeta { name: UNNAMED.to_owned(), uid: unmade_uid(&pod.uid), ..metadata };
        let searched = api::ResourceClaim { metadata: Some(named), ..object.clone() };
        // The requests have no selectors of their own.
        let claim = Arc::new(Claim::new(searched, &mut Selectors::default()));
        Unmade { claim, new: Arc::new(NewClaim { object, mappings }) }
    }
}
