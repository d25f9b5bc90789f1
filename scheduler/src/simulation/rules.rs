//! The rules of writes: what the API refuses, and what an accepted write does.
//!
//! Owns the conditions that the scheduler's promises rest on: a binding needs the pod's UID and a pod without a node; a
//! lease is replaced only by who knows its version; a deletion takes exactly the UID that it names.

use std::sync::Arc;

use serde_json::Value;

use super::Moment;
use super::api::{Store, is_ending, node_of, uid_of};
use crate::api::coordination::v1::Lease;
use crate::api::core::v1::{Binding, Pod, PodCondition, PodExtendedResourceClaimStatus, PodStatus};
use crate::api::meta::v1::{DeleteOptions, Time};

/// A refusal: code, reason, message.
pub(super) type Refused = (u16, &'static str, String);

pub(super) fn conflict(message: impl Into<String>) -> Refused {
    (409, "Conflict", message.into())
}

pub(super) fn missing(name: &str) -> Refused {
    (404, "NotFound", format!("{name} not found"))
}

/// Makes anew the condition of this type.
fn set_condition(status: &mut PodStatus, kind: &str, fill: impl FnOnce(&mut PodCondition)) {
    status.conditions.retain(|held| held.r#type != kind);
    let mut condition = PodCondition { r#type: kind.to_owned(), ..PodCondition::default() };
    fill(&mut condition);
    status.conditions.push(condition);
}

impl Store {
    pub(super) fn pod(&self, name: &str) -> Result<&Arc<Pod>, Refused> {
        self.pods.get(name).ok_or_else(|| missing(name))
    }

    pub(super) fn bind(&mut self, at: Moment, name: &str, binding: &Binding) -> Result<(), Refused> {
        let mut pod = (**self.pod(name)?).clone();
        let wanted = binding.metadata.as_ref().map_or("", |metadata| &metadata.uid);
        if !wanted.is_empty() && wanted != uid_of(&pod) {
            return Err(conflict("another UID"));
        }
        if is_ending(&pod) {
            return Err(conflict("the pod is being deleted"));
        }
        if !node_of(&pod).is_empty() {
            return Err(conflict("the pod has a node already"));
        }
        let target = binding.target.as_ref().map_or("", |target| &target.name);
        target.clone_into(&mut pod.spec.get_or_insert_default().node_name);
        let status = pod.status.get_or_insert_default();
        status.nominated_node_name.clear();
        set_condition(status, "PodScheduled", |condition| "True".clone_into(&mut condition.status));
        self.put_pod(at, pod);
        Ok(())
    }

    /// A strategic merge patch of a pod's status: conditions by their type, and the nomination.
    pub(super) fn patch_status(
        &mut self,
        at: Moment,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Pod>, Refused> {
        let mut pod = (**self.pod(name)?).clone();
        if let Some(uid) = patch["metadata"]["uid"].as_str()
            && uid != uid_of(&pod)
        {
            return Err(conflict("another UID"));
        }
        let version = pod.metadata.as_ref().map_or("", |metadata| &metadata.resource_version);
        if patch["metadata"]["resourceVersion"].as_str().is_some_and(|wanted| wanted != version) {
            return Err(conflict("the pod has been modified"));
        }
        let status = pod.status.get_or_insert_default();
        for condition in patch["status"]["conditions"].as_array().into_iter().flatten() {
            let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
            set_condition(status, &text("type"), |condition| {
                (condition.status, condition.reason) = (text("status"), text("reason"));
                condition.message = text("message");
            });
        }
        if let Some(made) = patch["status"].get("extendedResourceClaimStatus") {
            let name = made["resourceClaimName"].as_str().unwrap_or_default().to_owned();
            status.extended_resource_claim_status = Some(PodExtendedResourceClaimStatus {
                resource_claim_name: name,
                ..PodExtendedResourceClaimStatus::default()
            });
        }
        match patch["status"].get("nominatedNodeName") {
            None => {}
            Some(node) => {
                node.as_str().unwrap_or_default().clone_into(&mut status.nominated_node_name);
            }
        }
        Ok(self.put_pod(at, pod))
    }

    /// Deletes a pod: at once where nothing has to end first, otherwise it is marked.
    pub(super) fn delete_pod(
        &mut self,
        at: Moment,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Refused> {
        let pod = self.pod(name)?.clone();
        let wanted = options.preconditions.as_ref().and_then(|conditions| conditions.uid.as_deref());
        if wanted.is_some_and(|wanted| wanted != uid_of(&pod)) {
            return Err(conflict("another UID"));
        }
        let metadata = pod.metadata.clone().unwrap_or_default();
        if is_ending(&pod) {
            return Ok(());
        }
        if node_of(&pod).is_empty() && metadata.finalizers.is_empty() {
            self.remove_pod(at, name);
            return Ok(());
        }
        let mut marked = (*pod).clone();
        let seconds = i64::try_from(at / 1_000).unwrap_or(i64::MAX);
        marked.metadata.get_or_insert_default().deletion_timestamp = Some(Time { seconds, nanos: 0 });
        self.put_pod(at, marked);
        Ok(())
    }

    pub(super) fn create_lease(&mut self, at: Moment, lease: Lease) -> Result<Arc<Lease>, Refused> {
        match self.lease {
            Some(_) => Err((409, "AlreadyExists", "the lease exists".to_owned())),
            None => Ok(self.put_lease(at, lease)),
        }
    }

    pub(super) fn replace_lease(&mut self, at: Moment, lease: Lease) -> Result<Arc<Lease>, Refused> {
        let Some(before) = &self.lease else { return Err(missing("the lease")) };
        let version = |lease: &Lease| {
            lease.metadata.as_ref().map(|metadata| metadata.resource_version.clone()).unwrap_or_default()
        };
        if version(before) != version(&lease) {
            return Err(conflict("the lease has been modified"));
        }
        Ok(self.put_lease(at, lease))
    }
}
