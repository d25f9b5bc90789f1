//! Changes of the cluster that may help a rejected pod.
//!
//! Owns the part of a change that is kept: a small value that can be held while a pod is being planned. One constructor for each
//! kind takes the old and the new object; `None` means that the change helps no plugin, so that the executor can drop it
//! at once. An old object that is not known (`None` after a list) counts as an addition, which helps most. Never decides
//! about a pod: that is [`super::hints`].

mod kind;

use std::sync::Arc;

use orch_schema::quantity::Quantity;

pub use self::kind::{EventKind, EventKinds};

use self::kind::label;
pub(super) use self::kind::{
    BACKOFF_COMPLETE, FORCE_ACTIVATE, POP_FROM_BACKOFF, SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULABLE_TIMEOUT,
};
pub use self::kind::{POD_POPPED, UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_DELETE, UNSCHEDULED_POD_UPDATE};
use super::node::NodeFacts;
use super::pod::{PodFacts, Uid};
use crate::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use crate::api::storage::v1::{CsiDriver, CsiNode, CsiStorageCapacity, StorageClass};

/// A change of the cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterEvent {
    pub(super) kinds: EventKinds,
    pub(super) label: &'static str,
    pub(super) subject: Subject,
}

/// The object that changed.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Node {
        old: Option<Arc<NodeFacts>>,
        new: Option<Arc<NodeFacts>>,
    },
    /// An assigned pod.
    Pod {
        old: Option<Arc<PodFacts>>,
        new: Option<Arc<PodFacts>>,
    },
    /// A pending pod, to itself.
    Own {
        old: Arc<PodFacts>,
        new: Arc<PodFacts>,
    },
    VolumeClaim(ObjectName),
    Volume {
        is_topology_new: bool,
    },
    StorageClass {
        waits_for_consumer: bool,
    },
    ResourceClaim {
        name: ObjectName,
        change: ClaimChange,
    },
    /// Hints read no field of the object.
    Any,
    /// Wakes every pod, or one only.
    Wildcard {
        only: Option<Uid>,
    },
}

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// The annotation of claims that schedulers make for extended resources, without its domain, which is the brand's.
const EXTENDED_RESOURCE_CLAIM: &str = "/extended-resource-claim";

/// The meaning of a change of a ResourceClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimChange {
    /// Its devices are free again, which may help anybody.
    Deallocated,
    /// It is there, or its status is another: may help the pods that use it.
    Added,
}

impl ObjectName {
    fn of(metadata: Option<&ObjectMeta>) -> ObjectName {
        let (namespace, name) = metadata.map_or(("", ""), |one| (one.namespace.as_str(), one.name.as_str()));
        ObjectName { namespace: namespace.into(), name: name.into() }
    }
}

impl ClusterEvent {
    fn new(kind: EventKind, subject: Subject) -> ClusterEvent {
        ClusterEvent { kinds: EventKinds::of(&[kind]), label: label(kind), subject }
    }

    /// A node is there.
    pub fn node_added(new: Arc<NodeFacts>) -> ClusterEvent {
        ClusterEvent::new(EventKind::NodeAdd, Subject::Node { old: None, new: Some(new) })
    }

    /// A node has changed.
    pub fn node_updated(old: Arc<NodeFacts>, new: Arc<NodeFacts>) -> Option<ClusterEvent> {
        let kinds = new.changes(&old);
        let first = FIRST_OF_NODE.into_iter().find(|kind| kinds.contains(*kind))?;
        Some(ClusterEvent {
            kinds,
            label: label(first),
            subject: Subject::Node { old: Some(old), new: Some(new) },
        })
    }

    /// A node is gone.
    pub fn node_deleted(old: Arc<NodeFacts>) -> ClusterEvent {
        ClusterEvent::new(EventKind::NodeDelete, Subject::Node { old: Some(old), new: None })
    }

    /// A pod is bound to a node, or known for the first time and bound.
    pub fn assigned_pod_added(new: Arc<PodFacts>) -> ClusterEvent {
        ClusterEvent::new(EventKind::PodAdd, Subject::Pod { old: None, new: Some(new) })
    }

    /// A bound pod has changed.
    pub fn assigned_pod_updated(old: Arc<PodFacts>, new: Arc<PodFacts>) -> Option<ClusterEvent> {
        let kinds = pod_changes(&old, &new);
        let first = FIRST_OF_POD.into_iter().find(|kind| kinds.contains(*kind))?;
        Some(ClusterEvent {
            kinds,
            label: label(first),
            subject: Subject::Pod { old: Some(old), new: Some(new) },
        })
    }

    /// A bound pod is gone or has ended, or a pod that room was kept for.
    pub fn assigned_pod_deleted(old: Arc<PodFacts>) -> ClusterEvent {
        ClusterEvent::new(EventKind::PodDelete, Subject::Pod { old: Some(old), new: None })
    }

    /// A pending pod has changed; made by the queue.
    pub(super) fn own(old: Arc<PodFacts>, new: Arc<PodFacts>) -> Option<ClusterEvent> {
        let kinds = pod_changes(&old, &new);
        let kinds = if kinds.is_empty() { EventKinds::of(&[EventKind::PodUpdate]) } else { kinds };
        (old.shape != new.shape).then_some(ClusterEvent {
            kinds,
            label: UNSCHEDULED_POD_UPDATE,
            subject: Subject::Own { old, new },
        })
    }

    /// A PersistentVolumeClaim is there or has changed.
    pub fn volume_claim(
        old: Option<&PersistentVolumeClaim>,
        new: &PersistentVolumeClaim,
    ) -> Option<ClusterEvent> {
        let kind = kind(old, EventKind::VolumeClaimAdd, EventKind::VolumeClaimUpdate);
        Some(ClusterEvent::new(kind, Subject::VolumeClaim(ObjectName::of(new.metadata.as_ref()))))
    }

    /// A PersistentVolume is there or has changed.
    pub fn volume(old: Option<&PersistentVolume>, new: &PersistentVolume) -> Option<ClusterEvent> {
        let labels =
            |volume: &PersistentVolume| volume.metadata.as_ref().map(|metadata| metadata.labels.clone());
        let is_topology_new = old.is_none_or(|old| labels(old) != labels(new));
        let kind = kind(old, EventKind::VolumeAdd, EventKind::VolumeUpdate);
        Some(ClusterEvent::new(kind, Subject::Volume { is_topology_new }))
    }

    /// A StorageClass is there or has changed: of changes only those of the allowed topologies help.
    pub fn storage_class(old: Option<&StorageClass>, new: &StorageClass) -> Option<ClusterEvent> {
        let helps = old.is_none_or(|old| old.allowed_topologies != new.allowed_topologies);
        let waits_for_consumer = new.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        let kind = kind(old, EventKind::StorageClassAdd, EventKind::StorageClassUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::StorageClass { waits_for_consumer }))
    }

    /// A CSINode is there or has changed: its drivers, their limits, or the plugins that were migrated to it.
    pub fn csi_node(old: Option<&CsiNode>, new: &CsiNode) -> Option<ClusterEvent> {
        let annotations =
            |node: &CsiNode| node.metadata.as_ref().map(|metadata| metadata.annotations.clone());
        let helps = old.is_none_or(|old| old.spec != new.spec || annotations(old) != annotations(new));
        let kind = kind(old, EventKind::CsiNodeAdd, EventKind::CsiNodeUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::Any))
    }

    /// A CSIDriver is there or has changed: one that no longer tracks capacity refuses fewer nodes.
    pub fn csi_driver(old: Option<&CsiDriver>, new: &CsiDriver) -> Option<ClusterEvent> {
        let helps = old.is_none_or(|old| old.spec != new.spec);
        let kind = kind(old, EventKind::CsiDriverAdd, EventKind::CsiDriverUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::Any))
    }

    /// A CSIStorageCapacity is there or has changed: of changes only more room helps.
    pub fn csi_storage_capacity(
        old: Option<&CsiStorageCapacity>,
        new: &CsiStorageCapacity,
    ) -> Option<ClusterEvent> {
        let limit = |capacity: &CsiStorageCapacity| {
            let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
            limit.and_then(|limit| Quantity::parse(&limit.string))
        };
        let helps = old.is_none_or(|old| limit(new) > limit(old));
        let kind = kind(old, EventKind::CsiStorageCapacityAdd, EventKind::CsiStorageCapacityUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::Any))
    }

    /// A VolumeAttachment is gone: its node has room for another.
    pub fn volume_attachment_deleted() -> ClusterEvent {
        ClusterEvent::new(EventKind::VolumeAttachmentDelete, Subject::Any)
    }

    /// A ResourceClaim is there or has changed: only its status matters.
    pub fn resource_claim(old: Option<&ResourceClaim>, new: &ResourceClaim) -> Option<ClusterEvent> {
        let is_allocated =
            |claim: &ResourceClaim| claim.status.as_ref().is_some_and(|one| one.allocation.is_some());
        let change = match old {
            Some(old) if is_allocated(old) && !is_allocated(new) => ClaimChange::Deallocated,
            Some(old) if old.status == new.status => return None,
            Some(_) | None => ClaimChange::Added,
        };
        let name = ObjectName::of(new.metadata.as_ref());
        let kind = kind(old, EventKind::ResourceClaimAdd, EventKind::ResourceClaimUpdate);
        Some(ClusterEvent::new(kind, Subject::ResourceClaim { name, change }))
    }

    /// A ResourceClaim is gone, which helps if it had devices, or was left of an attempt to bind the pod that it was made
    /// for: that one waits for its end.
    pub fn resource_claim_deleted(old: &ResourceClaim) -> Option<ClusterEvent> {
        let is_allocated = old.status.as_ref().is_some_and(|status| status.allocation.is_some());
        let mut annotations = old.metadata.iter().flat_map(|metadata| metadata.annotations.keys());
        if !is_allocated && !annotations.any(|name| name.ends_with(EXTENDED_RESOURCE_CLAIM)) {
            return None;
        }
        let name = ObjectName::of(old.metadata.as_ref());
        let subject = Subject::ResourceClaim { name, change: ClaimChange::Deallocated };
        Some(ClusterEvent::new(EventKind::ResourceClaimDelete, subject))
    }

    /// Devices that were chosen for a claim were not written into it, and are free again.
    pub fn devices_given_back(namespace: &str, name: &str) -> ClusterEvent {
        let name = ObjectName { namespace: namespace.into(), name: name.into() };
        let subject = Subject::ResourceClaim { name, change: ClaimChange::Deallocated };
        ClusterEvent::new(EventKind::ResourceClaimUpdate, subject)
    }

    /// A ResourceSlice is there or has changed.
    pub fn resource_slice(old: Option<&ResourceSlice>, new: &ResourceSlice) -> Option<ClusterEvent> {
        let helps = old.is_none_or(|old| old.spec != new.spec);
        let kind = kind(old, EventKind::ResourceSliceAdd, EventKind::ResourceSliceUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::Any))
    }

    /// A DeviceClass is there or has changed.
    pub fn device_class(old: Option<&DeviceClass>, new: &DeviceClass) -> Option<ClusterEvent> {
        let helps = old.is_none_or(|old| old.spec != new.spec);
        let kind = kind(old, EventKind::DeviceClassAdd, EventKind::DeviceClassUpdate);
        helps.then(|| ClusterEvent::new(kind, Subject::Any))
    }

    /// Helps every pod: for changes of which nothing is known.
    pub fn wildcard() -> ClusterEvent {
        ClusterEvent {
            kinds: EventKinds::ALL,
            label: UNSCHEDULABLE_TIMEOUT,
            subject: Subject::Wildcard { only: None },
        }
    }

    /// Helps the pod `uid` only, whatever rejected it.
    pub(super) fn force_activate(uid: Uid) -> ClusterEvent {
        let subject = Subject::Wildcard { only: Some(uid) };
        ClusterEvent { kinds: EventKinds::ALL, label: FORCE_ACTIVATE, subject }
    }

    /// The event's name in metrics.
    pub fn label(&self) -> &'static str {
        self.label
    }
}

/// Kinds of changes of a node; the first one that holds names the event.
const FIRST_OF_NODE: [EventKind; 6] = [
    EventKind::NodeAllocatable,
    EventKind::NodeLabel,
    EventKind::NodeTaint,
    EventKind::NodeCondition,
    EventKind::NodeAnnotation,
    EventKind::NodeDeclaredFeature,
];

/// Kinds of changes of a bound pod that help others; the first one that holds names the event.
const FIRST_OF_POD: [EventKind; 2] = [EventKind::PodLabel, EventKind::PodScaleDown];

fn kind<T>(old: Option<&T>, added: EventKind, updated: EventKind) -> EventKind {
    if old.is_none() { added } else { updated }
}

fn pod_changes(old: &PodFacts, new: &PodFacts) -> EventKinds {
    let (before, after) = (&old.shape, &new.shape);
    if before == after {
        return EventKinds::NONE;
    }
    let scaled_down = before.requests.iter().any(|(name, amount)| after.requests.get(name) < Some(amount));
    let changes = [
        (EventKind::PodLabel, before.labels != after.labels),
        (EventKind::PodScaleDown, scaled_down),
        (EventKind::PodGatesEliminated, !before.gates.is_empty() && after.gates.is_empty()),
        (EventKind::PodToleration, before.tolerations != after.tolerations),
        (EventKind::PodGeneratedClaim, before.resource_claims != after.resource_claims),
    ];
    changes.into_iter().filter_map(|(kind, changed)| changed.then_some(kind)).collect()
}
