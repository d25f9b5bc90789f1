//! Kinds of changes, sets of them, and their names in metrics.

/// A kind of change. Plugins register which kinds can help the pods that they reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the object and the change of it that the name says")]
pub enum EventKind {
    NodeAdd,
    NodeDelete,
    NodeAllocatable,
    NodeLabel,
    NodeTaint,
    NodeCondition,
    NodeAnnotation,
    NodeDeclaredFeature,
    PodAdd,
    PodDelete,
    PodLabel,
    PodScaleDown,
    PodToleration,
    PodGatesEliminated,
    PodGeneratedClaim,
    PodUpdate,
    VolumeClaimAdd,
    VolumeClaimUpdate,
    VolumeAdd,
    VolumeUpdate,
    StorageClassAdd,
    StorageClassUpdate,
    CsiNodeAdd,
    CsiNodeUpdate,
    CsiDriverAdd,
    CsiDriverUpdate,
    CsiStorageCapacityAdd,
    CsiStorageCapacityUpdate,
    VolumeAttachmentDelete,
    ResourceClaimAdd,
    ResourceClaimUpdate,
    ResourceClaimDelete,
    ResourceSliceAdd,
    ResourceSliceUpdate,
    DeviceClassAdd,
    DeviceClassUpdate,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventKinds(u64);

impl EventKinds {
    /// No kind.
    pub const NONE: EventKinds = EventKinds(0);
    /// Every kind.
    pub const ALL: EventKinds = EventKinds(u64::MAX);

    /// The set of `kinds`.
    pub const fn of(kinds: &[EventKind]) -> EventKinds {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << (kinds[at] as u8);
            at += 1;
        }
        EventKinds(bits)
    }

    /// Whether the set has no kind.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: EventKind) -> bool {
        self.0 & (1 << (kind as u8)) != 0
    }

    /// Whether the sets have a kind in common.
    pub const fn intersects(self, other: EventKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn union(self, other: EventKinds) -> EventKinds {
        EventKinds(self.0 | other.0)
    }
}

impl FromIterator<EventKind> for EventKinds {
    fn from_iter<I: IntoIterator<Item = EventKind>>(kinds: I) -> EventKinds {
        kinds.into_iter().fold(EventKinds::NONE, |set, kind| set.union(EventKinds::of(&[kind])))
    }
}

/// Labels of what moves pods without a change of the cluster.
pub(in crate::queue) const SCHEDULE_ATTEMPT_FAILURE: &str = "ScheduleAttemptFailure";
pub(in crate::queue) const BACKOFF_COMPLETE: &str = "BackoffComplete";
pub(in crate::queue) const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
pub(in crate::queue) const FORCE_ACTIVATE: &str = "ForceActivate";
pub(in crate::queue) const UNSCHEDULABLE_TIMEOUT: &str = "UnschedulableTimeout";
/// A pod without a node is new.
pub const UNSCHEDULED_POD_ADD: &str = "UnschedulablePodAdd";
/// A pod without a node has changed.
pub const UNSCHEDULED_POD_UPDATE: &str = "UnschedulablePodUpdate";
/// A pod without a node is gone.
pub const UNSCHEDULED_POD_DELETE: &str = "UnschedulablePodDelete";
/// Label of pods in flight among the events that are kept for them.
pub const POD_POPPED: &str = "PodPopped";

/// The name of an event of this kind in metrics.
pub(super) fn label(kind: EventKind) -> &'static str {
    match kind {
        EventKind::NodeAdd => "NodeAdd",
        EventKind::NodeDelete => "NodeDelete",
        EventKind::NodeAllocatable => "NodeUpdateNodeAllocatable",
        EventKind::NodeLabel => "NodeUpdateNodeLabel",
        EventKind::NodeTaint => "NodeUpdateNodeTaint",
        EventKind::NodeCondition => "NodeUpdateNodeCondition",
        EventKind::NodeAnnotation => "NodeUpdateNodeAnnotation",
        EventKind::NodeDeclaredFeature => "NodeUpdateNodeDeclaredFeature",
        EventKind::PodAdd => "AssignedPodAdd",
        EventKind::PodDelete => "AssignedPodDelete",
        EventKind::PodLabel => "AssignedPodUpdatePodLabel",
        EventKind::PodScaleDown => "AssignedPodUpdatePodScaleDown",
        EventKind::PodToleration => "UnschedulablePodUpdatePodToleration",
        EventKind::PodGatesEliminated => "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        EventKind::PodGeneratedClaim => "UnschedulablePodUpdatePodGeneratedResourceClaim",
        EventKind::PodUpdate => UNSCHEDULED_POD_UPDATE,
        EventKind::VolumeClaimAdd => "PersistentVolumeClaimAdd",
        EventKind::VolumeClaimUpdate => "PersistentVolumeClaimUpdate",
        EventKind::VolumeAdd => "PersistentVolumeAdd",
        EventKind::VolumeUpdate => "PersistentVolumeUpdate",
        EventKind::StorageClassAdd => "StorageClassAdd",
        EventKind::StorageClassUpdate => "StorageClassUpdate",
        EventKind::CsiNodeAdd => "CSINodeAdd",
        EventKind::CsiNodeUpdate => "CSINodeUpdate",
        EventKind::CsiDriverAdd => "CSIDriverAdd",
        EventKind::CsiDriverUpdate => "CSIDriverUpdate",
        EventKind::CsiStorageCapacityAdd => "CSIStorageCapacityAdd",
        EventKind::CsiStorageCapacityUpdate => "CSIStorageCapacityUpdate",
        EventKind::VolumeAttachmentDelete => "VolumeAttachmentDelete",
        EventKind::ResourceClaimAdd => "ResourceClaimAdd",
        EventKind::ResourceClaimUpdate => "ResourceClaimUpdate",
        EventKind::ResourceClaimDelete => "ResourceClaimDelete",
        EventKind::ResourceSliceAdd => "ResourceSliceAdd",
        EventKind::ResourceSliceUpdate => "ResourceSliceUpdate",
        EventKind::DeviceClassAdd => "DeviceClassAdd",
        EventKind::DeviceClassUpdate => "DeviceClassUpdate",
    }
}
