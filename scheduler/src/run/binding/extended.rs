//! Claims for extended resources: made before a pod is bound, named in the pod's status, deleted where the pod is not
//! bound.
//!
//! Owns these writes. A claim is made under a name that the server chooses, so that an answer which is lost leaves a claim
//! that nobody here knows; the pod's next plan finds it by its owner and deletes it, as it does with one whose deletion
//! failed. The claim belongs to the pod and goes with it at the latest.

use serde_json::{Value, json};

use crate::api::resource::v1::ResourceClaim;
use crate::client::{Backoff, DeleteOptions, Error, Reason, chain};
use crate::plan::decision::{ClaimName, ClaimWrite, NewClaim};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::super::status::patch_unbound;
use super::claims::{ATTEMPTS_MAX, LOOK_FIRST, LOOK_LAST};
use super::{Binder, PodRef, Why, refused};

/// How a deletion of a claim went on.
enum Deleting {
    Done,
    /// Another writer was first, or the answer was lost.
    LookAgain,
}

impl Binder {
    /// Makes the claim of `write`, and returns the write that reserves it for the pod, and what was made.
    pub(super) async fn create_claim(
        &self,
        write: &ClaimWrite,
        new: &NewClaim,
    ) -> Result<(ClaimWrite, ResourceClaim), Why> {
        let what = "making a claim for extended resources";
        let created = self.client.create::<ResourceClaim>(&write.claim.namespace, &new.object).await;
        let claim = created.and_then(|created| created.object()).map_err(|error| refused(what, &error))?;
        let metadata = claim.metadata.clone().unwrap_or_default();
        let name = ClaimName { namespace: metadata.namespace, name: metadata.name };
        Ok((ClaimWrite { claim: name, uid: metadata.uid, ..write.clone() }, claim))
    }

    /// Writes into the pod's status which of its containers may use which requests of the claim.
    pub(super) async fn name_claim(
        &self,
        pod: &PodRef,
        claim: &ClaimName,
        new: &NewClaim,
    ) -> Result<(), Why> {
        #[cfg(test)]
        if plant::is(Plant::NamesNoClaim) {
            return Ok(());
        }
        match patch_unbound(&self.client, pod, status_patch(claim, new)).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Why::Gone),
            Err(error) => Err(refused("naming the claim for extended resources in the pod", &error)),
        }
    }

    /// Deletes a claim that was made for a pod which does not use it. A failure is logged: the pod's next plan finds the
    /// claim and asks for its deletion again.
    pub async fn delete_claim(&self, claim: &ClaimName, uid: &str) {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let mut backoff = Backoff::new(LOOK_FIRST, LOOK_LAST);
        for _ in 0..ATTEMPTS_MAX {
            match self.try_delete_claim(claim, uid).await {
                Ok(Deleting::Done) => return,
                Ok(Deleting::LookAgain) => tokio::time::sleep(backoff.random_pause()).await,
                Err(error) => {
                    tracing::warn!(%namespace, %name, error = chain(&error), "cannot delete a claim");
                    return;
                }
            }
        }
        tracing::warn!(%namespace, %name, "cannot delete a claim: it is written all the time");
    }

    async fn try_delete_claim(&self, claim: &ClaimName, uid: &str) -> Result<Deleting, Error> {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let found = match self.client.get::<ResourceClaim>(namespace, name).await {
            Ok(found) => found,
            Err(error) if error.is(Reason::NotFound) => return Ok(Deleting::Done),
            Err(error) => return Err(error),
        };
        if found.metadata.as_ref().is_none_or(|metadata| metadata.uid != uid) {
            return Ok(Deleting::Done);
        }
        let written = match without_finalizer(found, &self.finalizer()) {
            Some(changed) => self.client.update(&changed, "").await.map(|_| ()),
            None => Ok(()),
        };
        let options = DeleteOptions { uid: uid.to_owned(), ..DeleteOptions::default() };
        let deleted = match written {
            Ok(()) => self.client.delete::<ResourceClaim>(namespace, name, &options).await,
            Err(error) => Err(error),
        };
        match deleted {
            Ok(()) => Ok(Deleting::Done),
            Err(error) if error.is(Reason::NotFound) => Ok(Deleting::Done),
            Err(error) if error.is(Reason::Conflict) || error.is_outcome_unknown() => Ok(Deleting::LookAgain),
            Err(error) => Err(error),
        }
    }
}

/// The claim without the finalizer that keeps it while it has devices; `None` if it does not have it.
fn without_finalizer(mut claim: ResourceClaim, finalizer: &str) -> Option<ResourceClaim> {
    let finalizers = &mut claim.metadata.as_mut()?.finalizers;
    let before = finalizers.len();
    finalizers.retain(|held| held != finalizer);
    (finalizers.len() != before).then_some(claim)
}

/// The patch of the pod's status.
fn status_patch(claim: &ClaimName, new: &NewClaim) -> Value {
    let mapping = |mapping: &crate::api::core::v1::ContainerExtendedResourceRequest| {
        json!({
            "containerName": mapping.container_name,
            "resourceName": mapping.resource_name,
            "requestName": mapping.request_name,
        })
    };
    let mappings: Vec<Value> = new.mappings.iter().map(mapping).collect();
    json!({
        "status": {
            "extendedResourceClaimStatus": { "requestMappings": mappings, "resourceClaimName": claim.name },
        },
    })
}
