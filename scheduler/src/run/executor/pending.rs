//! A pod that has no node yet.
//!
//! Owns what is kept of it. Decoded as the API has it, a pod takes some ten kilobytes, so that a hundred thousand that
//! wait would take a gigabyte: unless an extender wants to see them whole, only what the executor itself reads is kept.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::api::core::v1::{Pod, PodSpec, PodStatus};
use crate::api::meta::v1::ObjectMeta;
use crate::queue::PodFacts;

use super::super::planning::Planning;
use super::super::pod_status::Unscheduled;

/// A pod without a node.
pub(super) struct Pending<P: Planning> {
    /// As the API has it, or reduced to what the executor reads.
    pub(super) api: Arc<Pod>,
    /// What the queue knows of it.
    pub(super) facts: Arc<PodFacts>,
    /// What the planner knows of it.
    pub(super) compiled: Arc<P::Compiled>,
    /// Index of its profile.
    pub(super) profile: usize,
    /// How far it is.
    pub(super) stage: Stage,
    /// Ends its job while that still waits for volumes or devices; `None` for a job that only binds.
    pub(super) preparing: Option<CancellationToken>,
    /// What was last written of its status, which watches tell only later.
    pub(super) reported: Option<Reported>,
}

/// What was told of a pod, without the times in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) reason: Unscheduled,
    pub(super) message: String,
    /// The change of the nomination, if there was one; null for its end.
    pub(super) nominated: Option<serde_json::Value>,
}

/// How far a pod without a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is in the queue.
    Queued,
    /// A job binds it to a node, or has bound it and the API has not confirmed it yet.
    Assumed,
}

/// What the executor reads of a pod: its names and versions, whether it is being deleted or has gates, its conditions and
/// its nomination.
pub(super) fn reduced(pod: Pod) -> Pod {
    let metadata = pod.metadata.map(|metadata| ObjectMeta {
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    });
    let spec = pod.spec.filter(|spec| !spec.scheduling_gates.is_empty());
    let spec = spec.map(|spec| PodSpec { scheduling_gates: spec.scheduling_gates, ..PodSpec::default() });
    let status = pod.status.map(|status| PodStatus {
        conditions: status.conditions,
        nominated_node_name: status.nominated_node_name,
        ..PodStatus::default()
    });
    Pod { metadata, spec, status }
}
