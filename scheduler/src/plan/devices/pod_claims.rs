//! The claims that a pod names, and its extended resources that devices may stand for.
//!
//! Owns the claims that a pod names, whether they are there, and whose they are.

use super::Devices;
use super::claim::Claim;
use super::extended::Asked;
use crate::api::core::v1::Pod;

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
    /// Requests of its containers for extended resources.
    pub(super) asked: Asked,
    /// The claim for extended resources that its status names.
    pub(super) made_claim: Option<String>,
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
    /// Reads `pod`; `None` if it neither names a claim nor asks for a resource that devices may stand for.
    pub fn new(pod: &Pod) -> Option<PodClaims> {
        let spec = pod.spec.as_ref()?;
        let asked = Asked::new(spec);
        if spec.resource_claims.is_empty() && asked.is_empty() {
            return None;
        }
        let made = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
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
        Some(PodClaims {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            claims,
            asked,
            made_claim: made.map(|made| made.resource_claim_name.clone()),
        })
    }
}

impl Devices {
    /// The claims that a pod names.
    ///
    /// # Errors
    /// A claim is missing, was not made for this pod, or is being deleted.
    pub(super) fn claims_of(&self, pod: &PodClaims) -> Result<Vec<&Claim>, String> {
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
}
