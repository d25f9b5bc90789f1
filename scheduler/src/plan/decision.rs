//! The answer of the planner: a node with the writes that come before the binding, or the reasons why there is none.
//!
//! Owns the types of the answer only; they are plain data that the executor carries out.

use std::fmt;
use std::sync::Arc;

use crate::api::core::v1::ContainerExtendedResourceRequest;
use crate::api::resource::v1::{AllocationResult, ResourceClaim};

use super::profile::{ExtensionPoint, Plugin, PluginSet};

/// The answer to "where does this pod go?".
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Assume the pod on this node, write `volumes` and `claims`, bind.
    Bind(Placement),
    /// No node takes the pod now. It goes to the unschedulable set with the plugins that refused it.
    Unschedulable(Refusal),
    /// Planning itself failed (reason `SchedulerError`): try again after backoff.
    Failed(Failure),
}

/// A node for the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Name of the node.
    pub node: Arc<str>,
    /// Nodes that were filtered.
    pub evaluated: usize,
    /// Nodes that passed every filter.
    pub feasible: usize,
    /// Persistent volumes and claims to write before binding (`PreBind` of VolumeBinding).
    pub volumes: VolumeWrites,
    /// Resource claims to write before binding (`PreBind` of DynamicResources); empty for pods without claims.
    pub claims: Vec<ClaimWrite>,
}

/// Writes of VolumeBinding before a pod is bound. Empty for pods without unbound claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeWrites {
    /// Persistent volumes whose `spec.claimRef` is set to a claim, with the annotation `bound-by-controller: yes`.
    pub bind: Vec<BindVolume>,
    /// Claims that get the annotation `volume.<brand>/selected-node` with the node's name.
    pub provision: Vec<ClaimName>,
}

impl VolumeWrites {
    /// Whether nothing has to be written.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}

/// A persistent volume that is to be bound to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindVolume {
    /// Name of the persistent volume.
    pub volume: String,
    /// The claim.
    pub claim: ClaimName,
}

/// A resource claim that is reserved for the pod before it is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimWrite {
    /// The claim.
    pub claim: ClaimName,
    /// The claim's uid; one that no object has if the claim is new.
    pub uid: String,
    /// The devices that the plan counted with.
    pub allocation: Allocation,
    /// The claim is made first, and this way; name and uid are then those that it gets.
    pub new: Option<Arc<NewClaim>>,
}

/// Where a plan has the devices of a claim from.
#[derive(Clone, Debug, PartialEq)]
pub enum Allocation {
    /// The plan chose them: they are written to `status.allocation`, with the finalizer.
    Chosen(AllocationResult),
    /// The claim had them: `status.reservedFor` gains the pod, while the claim has this very allocation.
    Held(AllocationResult),
}

impl Allocation {
    /// The devices that the plan chose, which have to be written.
    pub fn chosen(&self) -> Option<&AllocationResult> {
        match self {
            Allocation::Chosen(chosen) => Some(chosen),
            Allocation::Held(_) => None,
        }
    }
}

/// A claim for devices in the place of extended resources, which the pod does not name.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClaim {
    /// The claim, without a name.
    pub object: ResourceClaim,
    /// The claim's requests in `status.extendedResourceClaimStatus` of the pod.
    pub mappings: Vec<ContainerExtendedResourceRequest>,
}

/// A claim that keeps a pod from every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableClaim {
    /// Its reservation for the pod and its allocation are removed from its status.
    Deallocate(ClaimName),
    /// It was made by a scheduler for this pod, in an attempt that failed, and is deleted.
    Delete {
        /// The claim.
        claim: ClaimName,
        /// Its uid.
        uid: String,
    },
}

/// Identity of a claim (a PersistentVolumeClaim, or a ResourceClaim).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The reason why no node takes the pod, and the pods that it may preempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The message of the `PodScheduled` condition and of the `FailedScheduling` event.
    pub message: String,
    /// Plugins that refused the pod on some node; their queueing hints wake it up.
    pub plugins: PluginSet,
    /// Whether extenders refused nodes, of whom nobody knows what they look at: any event may help then.
    pub by_extenders: bool,
    /// Plugins that wait for something outside of the scheduler: once it happens, the pod skips its backoff.
    pub pending: PluginSet,
    /// Result of preemption.
    pub preemption: Option<Preemption>,
    /// The pod's `status.nominatedNodeName` is cleared: there is no node at all, or preemption looked and found none, or
    /// no plugin looks.
    pub clear_nomination: bool,
    /// A claim that helps nobody and is to be given up (`PostFilter` of DynamicResources).
    pub unusable: Option<UnusableClaim>,
}

/// A node that fits once the victims are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// The node to nominate.
    pub node: Arc<str>,
    /// Pods to evict, the most important first.
    pub victims: Vec<PodName>,
    /// Pods nominated to the same node with a lower priority: their nomination is cleared.
    pub superseded: Vec<PodName>,
    /// Victims whose eviction breaks a disruption budget.
    pub budget_violations: usize,
}

/// Identity of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
}

/// An error in planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The plugin that failed, where one did, and at which extension point.
    pub plugin: Option<(Plugin, ExtensionPoint)>,
    /// The fault, in words.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reference words the two forms differently.
        match self.plugin {
            Some((plugin, ExtensionPoint::Filter)) => {
                write!(f, "running {:?} filter plugin: ", plugin.name())?
            }
            Some((plugin, point)) => write!(f, "running {point:?} plugin {:?}: ", plugin.name())?,
            None => {}
        }
        f.write_str(&self.message)
    }
}

/// Whether a pod may enter the active queue (`PreEnqueue`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The pod may be planned.
    Admitted,
    /// `plugin` holds it back.
    Held {
        /// The plugin.
        plugin: Plugin,
        /// The message for the event and the condition.
        message: String,
    },
}
