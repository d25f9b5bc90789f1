//! The snapshot of the cluster that plans are made against, kept up to date by events.
//!
//! ```text
//!   nodes (slots, loads, journal) <- pods <- events, assumptions
//!     |                               |
//!     topologies, selections (made when a plan asks)   terms (of pods on nodes)
//!   storage   workloads   budgets   namespaces   nominations   claims of devices
//! ```
//!
//! Owns every index. Never chooses a node, and knows no profile.
//!
//! Invariant: a pod counts on exactly one node, or on none: the one of its newest event, or of its assumption while no
//! event shows it on a node. Pods of nodes that were not seen wait for their node.
//! Invariant: every index equals one built anew from the nodes and pods (`plan/tests/indexes.rs`).

mod apply;
pub mod budgets;
pub mod counts;
pub mod grouped;
pub mod images;
mod load;
pub mod namespaces;
pub mod nodes;
pub mod nominations;
pub mod selections;
pub mod storage;
pub mod terms;
pub mod topology;
pub mod workloads;

use std::cell::RefCell;
use std::sync::Arc;

use hashbrown::HashMap;
use orch_proto::Brand;

use crate::api;
use crate::objects::intern::{Interner, Symbol};
use crate::objects::pod::{Pod, Shapes};

use super::decision::{ClaimName, ClaimWrite, Placement, VolumeWrites};
use super::devices::Devices;
use budgets::Budgets;
use images::Images;
use namespaces::Namespaces;
use nodes::Nodes;
use nominations::Nominations;
use selections::Selections;
use storage::Storage;
use terms::Terms;
use topology::Topologies;
use workloads::Workloads;

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The object is there, in this state.
    Upsert(Object<'a>),
    /// The object is gone. Only its metadata is looked at.
    Delete(Object<'a>),
}

/// An object of a kind that plans look at.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the kinds")]
pub enum Object<'a> {
    Node(&'a api::core::v1::Node),
    Pod(&'a api::core::v1::Pod),
    Namespace(&'a api::core::v1::Namespace),
    PersistentVolume(&'a api::core::v1::PersistentVolume),
    PersistentVolumeClaim(&'a api::core::v1::PersistentVolumeClaim),
    Service(&'a api::core::v1::Service),
    ReplicationController(&'a api::core::v1::ReplicationController),
    ReplicaSet(&'a api::apps::v1::ReplicaSet),
    StatefulSet(&'a api::apps::v1::StatefulSet),
    PodDisruptionBudget(&'a api::policy::v1::PodDisruptionBudget),
    StorageClass(&'a api::storage::v1::StorageClass),
    CsiNode(&'a api::storage::v1::CsiNode),
    CsiDriver(&'a api::storage::v1::CsiDriver),
    CsiStorageCapacity(&'a api::storage::v1::CsiStorageCapacity),
    VolumeAttachment(&'a api::storage::v1::VolumeAttachment),
    ResourceClaim(&'a api::resource::v1::ResourceClaim),
    ResourceSlice(&'a api::resource::v1::ResourceSlice),
    DeviceClass(&'a api::resource::v1::DeviceClass),
}

/// A pod was not assumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// There is no such node any more.
    #[error("assume pod {pod}: node {node} is gone")]
    NodeGone {
        /// The pod.
        pod: Arc<str>,
        /// The node.
        node: Arc<str>,
    },
    /// It is on a node already.
    #[error("assume pod {pod}: it is on node {node} already")]
    Assigned {
        /// The pod.
        pod: Arc<str>,
        /// The node it is on.
        node: Arc<str>,
    },
}

/// The snapshot.
#[derive(Debug)]
pub struct Cluster {
    brand: &'static Brand,
    texts: Interner,
    shapes: Shapes,
    nodes: Nodes,
    pods: HashMap<Arc<str>, Assigned>,
    /// Pods of nodes that are not there, by the node's name.
    homeless: HashMap<Symbol, Vec<Arc<Pod>>>,
    terms: Terms,
    namespaces: Namespaces,
    storage: Storage,
    /// Pods on nodes by the claims they use, by namespace and claim.
    claim_users: HashMap<(Symbol, String), Vec<Arc<Pod>>>,
    workloads: Workloads,
    budgets: Budgets,
    budgets_version: u64,
    nominations: Nominations,
    devices: Devices,
    images: Images,
    memo: RefCell<Memo>,
}

/// Indexes that are made when a plan first asks for them. They hold nothing that the rest does not say.
#[derive(Debug, Default)]
pub(in crate::plan) struct Memo {
    pub(in crate::plan) topologies: Topologies,
    pub(in crate::plan) selections: Selections,
}

/// A pod that counts on a node.
#[derive(Debug)]
struct Assigned {
    node: Symbol,
    /// The volumes that are to be written before it is bound, while it is assumed; `None` once an event shows it on its node.
    assumed: Option<VolumeWrites>,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(brand: &'static Brand) -> Cluster {
        Cluster {
            brand,
            texts: Interner::default(),
            shapes: Shapes::default(),
            nodes: Nodes::default(),
            pods: HashMap::new(),
            homeless: HashMap::new(),
            terms: Terms::default(),
            namespaces: Namespaces::default(),
            storage: Storage::default(),
            claim_users: HashMap::new(),
            workloads: Workloads::default(),
            budgets: Budgets::new(),
            budgets_version: 0,
            nominations: Nominations::default(),
            devices: Devices::new(brand),
            images: Images::default(),
            memo: RefCell::default(),
        }
    }

    /// Compiles a pod, so that it can be planned.
    pub fn compile(&mut self, pod: &api::core::v1::Pod) -> Arc<Pod> {
        Arc::new(self.shapes.compile(&mut self.texts, pod))
    }

    /// Counts a pod on the node of its placement, before it is bound, with what will be written for it.
    ///
    /// # Errors
    /// The node is gone, or the pod is on a node already.
    pub fn assume(&mut self, pod: &Arc<Pod>, placement: &Placement) -> Result<(), AssumeError> {
        let node = self.texts.intern(&placement.node);
        if let Some(assigned) = self.pods.get(&pod.uid) {
            let node = Arc::clone(self.texts.text(assigned.node));
            return Err(AssumeError::Assigned { pod: Arc::clone(&pod.name), node });
        }
        if self.nodes.find(node).is_none() {
            let node = Arc::clone(&placement.node);
            return Err(AssumeError::NodeGone { pod: Arc::clone(&pod.name), node });
        }
        self.storage.assume(&placement.volumes, node);
        let results = placement
            .claims
            .iter()
            .filter_map(|write| Some((write.uid.clone(), write.allocation.chosen()?.clone())));
        self.devices.assume(&pod.uid, &results.collect::<Vec<_>>());
        let assumed = Some(placement.volumes.clone());
        self.pods.insert(Arc::clone(&pod.uid), Assigned { node, assumed });
        self.withdraw(&pod.uid);
        self.attach(node, Arc::clone(pod));
        Ok(())
    }

    /// Takes an assumed pod off its node, because it will not be bound. Does nothing if an event showed it there. Its devices
    /// are given back by [`Cluster::forget_claims`].
    pub fn forget(&mut self, uid: &str) {
        let Some(writes) = self.pods.get_mut(uid).and_then(|assigned| assigned.assumed.take()) else {
            return;
        };
        self.storage.forget(&writes);
        self.unassign(uid);
    }

    /// Gives back devices that were assumed with a placement of the pod `uid`, because the job that was to write them into
    /// the claims has ended otherwise. Does nothing where the claims say themselves what they hold.
    pub fn forget_claims(&mut self, uid: &str, claims: &[ClaimWrite]) {
        for write in claims.iter().filter(|write| write.allocation.chosen().is_some()) {
            self.devices.forget(uid, &write.uid);
        }
    }

    /// Devices that were assumed for a pod were written into the claim with this uid, which has `version` since. Returns whether
    /// they are free now, and no event will say so.
    pub fn settle_claim(&mut self, pod: &str, claim: &ClaimName, uid: &str, version: &str) -> bool {
        self.devices.settle_claim(pod, claim, uid, version)
    }

    /// Whether a pod is assumed: it counts on a node, but no event showed it there.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|assigned| assigned.assumed.is_some())
    }

    /// Lets a pod wait on a node: plans for pods of at most its priority leave room for it.
    pub fn nominate(&mut self, pod: &Arc<Pod>, node: &str) {
        let node = self.texts.intern(node);
        self.withdraw(&pod.uid);
        self.nominations.nominate(Arc::clone(pod), node);
        self.nodes.touch_named(node);
    }

    /// Ends the nomination of a pod.
    pub fn withdraw(&mut self, uid: &str) {
        if let Some(node) = self.nominations.withdraw(uid) {
            self.nodes.touch_named(node);
        }
    }

    /// The brand.
    pub fn brand(&self) -> &'static Brand {
        self.brand
    }

    /// The strings.
    pub fn texts(&self) -> &Interner {
        &self.texts
    }

    pub(in crate::plan) fn texts_mut(&mut self) -> &mut Interner {
        &mut self.texts
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The terms of pods on nodes.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Labels of namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Volumes and claims.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The pods on nodes that use a claim.
    pub fn claim_users(&self, namespace: Symbol, claim: &str) -> &[Arc<Pod>] {
        if self.claim_users.is_empty() {
            return &[];
        }
        self.claim_users.get(&(namespace, claim.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Services and controllers.
    pub fn workloads(&self) -> &Workloads {
        &self.workloads
    }

    /// Disruption budgets.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Changes with each change of a budget.
    pub fn budgets_version(&self) -> u64 {
        self.budgets_version
    }

    /// Nominated pods.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Claims of devices, devices, their classes.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Images that nodes hold.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Name of the slot's node.
    pub fn node_name(&self, id: nodes::NodeId) -> Arc<str> {
        let slot = self.nodes.slot(id).expect("names are asked for of nodes that exist");
        Arc::clone(self.texts.text(slot.node.name))
    }

    pub(in crate::plan) fn memo(&self) -> std::cell::RefMut<'_, Memo> {
        self.memo.borrow_mut()
    }
}
