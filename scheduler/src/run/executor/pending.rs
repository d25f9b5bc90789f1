//! A pod that has no node yet.
//!
//! Owns the form in which a pod is kept. Decoded whole, a pod takes about ten kilobytes, so that a hundred thousand waiting pods
//! would take a gigabyte: unless an extender wants to see whole pods, only the fields that the executor reads are kept.

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
    /// The pod in the form of the queue.
    pub(super) facts: Arc<PodFacts>,
    /// The pod in the form of the planner.
    pub(super) compiled: Arc<P::Compiled>,
    /// Index of its profile.
    pub(super) profile: usize,
    /// How far it is.
    pub(super) stage: Stage,
    /// Ends its job while that still waits for volumes or devices; `None` for a job that only binds.
    pub(super) preparing: Option<CancellationToken>,
    /// The last write of its status, which watches tell only later.
    pub(super) reported: Option<Reported>,
}

/// The written status of a pod, without the times in it.
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

/// The fields of a pod that the executor reads: its names and versions, whether it is being deleted or has gates, its conditions and
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
