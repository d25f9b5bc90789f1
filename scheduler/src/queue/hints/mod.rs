//! The reference's queueing hints: the changes that help a pod that a plugin rejected.
//!
//! Owns, for each plugin, the kinds of events that can help ([`interests`]) and whether one event helps one pod ([`hint`]).
//! A hint errs on the side of waking: a pod that sleeps on although it fits is a fault, one that is planned in vain costs
//! a plan. Hints look at the shape of a pod only, so that pods with the same shape share them.

mod node;
mod own;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::event::{ClaimChange, ClusterEvent, EventKind, EventKinds, Subject};
use super::pod::PodShape;
use super::rejector::Rejector;
use super::requests::Amounts;
use crate::plugin::Plugin;
use crate::selector::Labels;

/// Whether an event may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The pod should be planned again.
    Queue,
    /// The event improves none of the fields that the plugin reads.
    Skip,
}

impl Hint {
    fn when(helps: bool) -> Hint {
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Labels of namespaces, which terms of pod affinity may select by.
pub type NamespaceLabels = BTreeMap<String, Labels>;

/// The kinds of events that may help a pod that `rejector` rejected: any, where nothing is known of it.
pub fn interests(rejector: Rejector) -> EventKinds {
    use EventKind as Kind;
    let Rejector::Plugin(plugin) = rejector else { return EventKinds::ALL };
    let kinds: &[Kind] = match plugin {
        Plugin::SchedulingGates => &[Kind::PodGatesEliminated],
        Plugin::NodeUnschedulable | Plugin::TaintToleration => {
            &[Kind::NodeAdd, Kind::NodeTaint, Kind::PodToleration]
        }
        Plugin::NodeName => &[Kind::NodeAdd],
        Plugin::NodeAffinity => &[Kind::NodeAdd, Kind::NodeLabel],
        Plugin::NodePorts => &[Kind::NodeAdd, Kind::PodDelete],
        Plugin::NodeResourcesFit => &[
            Kind::NodeAdd,
            Kind::NodeAllocatable,
            Kind::PodDelete,
            Kind::PodScaleDown,
            Kind::DeviceClassAdd,
            Kind::DeviceClassUpdate,
        ],
        Plugin::VolumeRestrictions => {
            &[Kind::NodeAdd, Kind::PodDelete, Kind::VolumeClaimAdd, Kind::VolumeClaimUpdate]
        }
        Plugin::NodeVolumeLimits => &[
            Kind::CsiNodeAdd,
            Kind::CsiNodeUpdate,
            Kind::CsiDriverAdd,
            Kind::CsiDriverUpdate,
            Kind::PodDelete,
            Kind::VolumeClaimAdd,
            Kind::VolumeAttachmentDelete,
        ],
        Plugin::VolumeBinding => &VOLUME_BINDING,
        Plugin::VolumeZone => &[
            Kind::NodeAdd,
            Kind::NodeLabel,
            Kind::StorageClassAdd,
            Kind::VolumeClaimAdd,
            Kind::VolumeClaimUpdate,
            Kind::VolumeAdd,
            Kind::VolumeUpdate,
        ],
        Plugin::PodTopologySpread => &[
            Kind::NodeAdd,
            Kind::NodeDelete,
            Kind::NodeLabel,
            Kind::NodeTaint,
            Kind::PodAdd,
            Kind::PodDelete,
            Kind::PodLabel,
            Kind::PodToleration,
        ],
        Plugin::InterPodAffinity => {
            &[Kind::NodeAdd, Kind::NodeLabel, Kind::PodAdd, Kind::PodDelete, Kind::PodLabel]
        }
        Plugin::DynamicResources => &DYNAMIC_RESOURCES,
        Plugin::NodeDeclaredFeatures => &[Kind::NodeAdd, Kind::NodeDeclaredFeature, Kind::PodUpdate],
        // Tells when a gated pod is looked at again. Whether it is woken say the plugins that rejected it before.
        Plugin::DefaultPreemption => &[Kind::PodDelete],
        // Score and bind plugins reject no pod for good; what their failure was is tried again as an error.
        Plugin::PrioritySort
        | Plugin::NodeResourcesBalancedAllocation
        | Plugin::ImageLocality
        | Plugin::DefaultBinder => &[],
    };
    EventKinds::of(kinds)
}

const VOLUME_BINDING: [EventKind; 14] = [
    EventKind::NodeAdd,
    EventKind::NodeLabel,
    EventKind::StorageClassAdd,
    EventKind::StorageClassUpdate,
    EventKind::VolumeClaimAdd,
    EventKind::VolumeClaimUpdate,
    EventKind::VolumeAdd,
    EventKind::VolumeUpdate,
    EventKind::CsiNodeAdd,
    EventKind::CsiNodeUpdate,
    EventKind::CsiDriverAdd,
    EventKind::CsiDriverUpdate,
    EventKind::CsiStorageCapacityAdd,
    EventKind::CsiStorageCapacityUpdate,
];

const DYNAMIC_RESOURCES: [EventKind; 11] = [
    EventKind::NodeAdd,
    // Devices stand for extended resources that the node does not offer.
    EventKind::NodeAllocatable,
    EventKind::NodeLabel,
    EventKind::ResourceClaimAdd,
    EventKind::ResourceClaimUpdate,
    EventKind::ResourceClaimDelete,
    EventKind::PodGeneratedClaim,
    EventKind::DeviceClassAdd,
    EventKind::DeviceClassUpdate,
    EventKind::ResourceSliceAdd,
    EventKind::ResourceSliceUpdate,
];

/// Whether `event` may help a pod of `shape` that `rejector` rejected. The caller has checked [`interests`]. Events of a
/// pending pod itself are its own: they help no other one.
pub(super) fn hint(
    rejector: Rejector,
    shape: &PodShape,
    event: &ClusterEvent,
    namespaces: &NamespaceLabels,
) -> Hint {
    let Rejector::Plugin(plugin) = rejector else { return Hint::Queue };
    if plugin == Plugin::DefaultPreemption {
        return Hint::Skip;
    }
    match &event.subject {
        Subject::Node { old, new } => node::hint(plugin, shape, old.as_deref(), new.as_deref(), event.kinds),
        Subject::Pod { old, new } => pod::hint(plugin, shape, old.as_deref(), new.as_deref(), namespaces),
        Subject::Own { old, new } => own::hint(plugin, &old.shape, &new.shape, event.kinds),
        Subject::VolumeClaim(claim) => {
            let uses = shape.namespace == *claim.namespace
                && shape.volume_claims.iter().any(|one| **one == *claim.name);
            Hint::when(uses)
        }
        Subject::Volume { is_topology_new } => Hint::when(*is_topology_new || plugin != Plugin::VolumeZone),
        Subject::StorageClass { waits_for_consumer } => {
            Hint::when(*waits_for_consumer || plugin != Plugin::VolumeZone)
        }
        Subject::ResourceClaim { name, change } => {
            let uses = shape.namespace == *name.namespace
                && shape.resource_claims.iter().any(|one| **one == *name.name);
            Hint::when(*change == ClaimChange::Deallocated || uses)
        }
        Subject::Any if plugin == Plugin::NodeResourcesFit => Hint::when(asks_for_extended(&shape.requests)),
        Subject::Any | Subject::Wildcard { .. } => Hint::Queue,
    }
}

/// Whether a resource with a domain is asked for, which a device class may offer.
fn asks_for_extended(requests: &Amounts) -> bool {
    requests.iter().any(|(name, amount)| name.contains('/') && !amount.is_zero())
}
