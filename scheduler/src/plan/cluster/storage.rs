//! Persistent volumes, claims, storage classes and capacities.
//!
//! Owns compact forms by name, and the bindings that were planned and not yet seen in an event. It decides nothing.

use hashbrown::HashMap;
use orch_proto::Brand;

use crate::api::core::v1;
use crate::api::meta::v1::ObjectMeta;
use crate::api::storage::v1 as storage;
use crate::objects::in_tree::{self, DriverVolume};
use crate::objects::intern::{Interner, Symbol};
use crate::objects::labels::{Labels, Operator, Requirement, Selector};
use crate::objects::node_selector::NodeSelector;
use crate::objects::quantity;
use crate::plan::decision::{ClaimName, VolumeWrites};

use super::grouped::Grouped;

/// A persistent volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Driver and handle of a CSI volume.
    pub csi: Option<(String, String)>,
    /// Driver and handle of a volume that names its storage system instead of a driver.
    pub in_tree: Option<DriverVolume>,
    /// The nodes that can use it.
    pub nodes: Option<NodeSelector>,
    /// Its storage class.
    pub class: String,
    /// Bytes.
    pub capacity: i64,
    /// Its access modes.
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub mode: String,
    /// Its volume attributes class.
    pub attributes_class: String,
    /// The claim that it is bound to or kept for, and the claim's uid; an empty uid matches every claim of the name.
    pub claim: Option<(ClaimName, String)>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// `status.phase` is `Available`, or not set yet.
    pub available: bool,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its uid.
    pub uid: String,
    /// The volume; empty while there is none.
    pub volume: String,
    /// Whether the binding is complete on both sides.
    pub bound: bool,
    /// Its storage class; empty if it wants none.
    pub class: String,
    /// Bytes.
    pub requested: i64,
    /// Access modes that it wants.
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub mode: String,
    /// Its volume attributes class.
    pub attributes_class: String,
    /// Volumes that may be bound to it; `None`: all.
    pub selector: Option<Selector>,
    /// The node for which its volume is to be made.
    pub selected_node: Option<Symbol>,
    /// Its volume is gone.
    pub lost: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Uid of the pod that owns it as its ephemeral volume.
    pub owner: Option<String>,
}

impl Volume {
    /// The driver that attaches it, and the handle by which that knows it; `None` if no attach limit counts it.
    pub fn driver_and_handle(&self) -> Option<(&str, &str)> {
        let csi = self.csi.as_ref().map(|(driver, handle)| (driver.as_str(), handle.as_str()));
        csi.or_else(|| self.in_tree.as_ref().map(|(driver, handle)| (*driver, handle.as_str())))
    }
}

/// A storage class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name of the provisioner.
    pub provisioner: String,
    /// The driver that attaches them; `None` if no attach limit counts them.
    pub driver: Option<String>,
    /// Whether binding waits for the first pod.
    pub waits: bool,
    /// Where volumes can be made: alternatives; empty is everywhere.
    pub topologies: Vec<Vec<Requirement>>,
}

/// Room for new volumes of a class in a part of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The nodes.
    pub nodes: Selector,
    /// Bytes; the largest volume that can be made, if that is known, else the room. `None`: unknown.
    pub bytes: Option<i64>,
}

/// Attach limits of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDrivers {
    /// Drivers on the node and how many volumes of each it takes at most.
    pub limits: Vec<(String, Option<i32>)>,
}

/// Settings of a CSI driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Whether it publishes storage capacity.
    pub publishes_capacity: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Storage {
    /// Volumes by name and by class.
    pub volumes: Grouped<String, Volume>,
    /// Claims.
    pub claims: HashMap<ClaimName, Claim>,
    /// Classes by name.
    pub classes: HashMap<String, Class>,
    /// Room, by `NAMESPACE/NAME` of the object and by class.
    pub capacities: Grouped<String, Capacity>,
    /// Drivers by node.
    pub node_drivers: HashMap<Symbol, NodeDrivers>,
    /// Drivers by name.
    pub drivers: HashMap<String, Driver>,
    /// VolumeAttachments by name and by node.
    pub attachments: Grouped<Symbol, Attachment>,
    assumed: Assumed,
}

/// A volume that is attached to a node, or is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The driver.
    pub driver: String,
    /// The persistent volume.
    pub volume: String,
}

/// Bindings that were planned.
#[derive(Debug, Default)]
struct Assumed {
    /// Volume to claim.
    volumes: HashMap<String, ClaimName>,
    /// Claim to the node for which its volume is to be made.
    claims: HashMap<ClaimName, Symbol>,
}

impl Storage {
    /// The claim that a volume is bound to, kept for, or planned for; and the claim's uid (empty: any).
    pub fn claim_of<'a>(&'a self, volume: &'a Volume) -> Option<(&'a ClaimName, &'a str)> {
        match &volume.claim {
            Some((claim, uid)) => Some((claim, uid)),
            None => Some((self.assumed.volumes.get(&volume.name)?, "")),
        }
    }

    /// The node for which a claim's volume is to be made.
    pub fn selected_node(&self, name: &ClaimName, claim: &Claim) -> Option<Symbol> {
        claim.selected_node.or_else(|| self.assumed.claims.get(name).copied())
    }

    /// Remembers planned writes for the plans that follow.
    pub(super) fn assume(&mut self, writes: &VolumeWrites, node: Symbol) {
        for bind in &writes.bind {
            self.assumed.volumes.insert(bind.volume.clone(), bind.claim.clone());
        }
        for claim in &writes.provision {
            self.assumed.claims.insert(claim.clone(), node);
        }
    }

    /// A volume was seen; `written`: it shows the claim that was planned for it, or another.
    pub(super) fn volume_seen(&mut self, name: &str, written: bool) {
        if written {
            self.assumed.volumes.remove(name);
        }
    }

    /// A claim was seen; `written`: it shows the node that was planned for it, or its volume.
    pub(super) fn claim_seen(&mut self, name: &ClaimName, written: bool) {
        if written {
            self.assumed.claims.remove(name);
        }
    }

    /// Forgets planned writes that will not happen.
    pub(super) fn forget(&mut self, writes: &VolumeWrites) {
        for bind in &writes.bind {
            self.assumed.volumes.remove(&bind.volume);
        }
        for claim in &writes.provision {
            self.assumed.claims.remove(claim);
        }
    }
}

/// Compiles a persistent volume.
pub fn volume(texts: &mut Interner, brand: &Brand, object: &v1::PersistentVolume) -> Volume {
    let (no_meta, no_spec) = Default::default();
    let meta = object.metadata.as_ref().unwrap_or(&no_meta);
    let spec: &v1::PersistentVolumeSpec = object.spec.as_ref().unwrap_or(&no_spec);
    let source = spec.persistent_volume_source.as_ref();
    let csi = source.and_then(|source| source.csi.as_ref());
    let mut prefixes = ["topology", "failure-domain.beta"].iter();
    let zones = prefixes.find_map(|prefix| meta.labels.get(&format!("{prefix}.{}", brand.label("zone"))));
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let claim = spec.claim_ref.as_ref().map(|claim| {
        (ClaimName { namespace: claim.namespace.clone(), name: claim.name.clone() }, claim.uid.clone())
    });
    let phase = object.status.as_ref().map_or("", |status| &status.phase);
    Volume {
        name: meta.name.clone(),
        labels: Labels::compile(texts, &meta.labels),
        csi: csi.map(|csi| (csi.driver.clone(), csi.volume_handle.clone())),
        in_tree: source.and_then(|source| in_tree::of_persistent(source, zones.map(String::as_str))),
        nodes: required.map(|required| NodeSelector::compile(texts, required)),
        class: beta_class(brand, meta).unwrap_or(&spec.storage_class_name).clone(),
        capacity: spec.capacity.get("storage").map_or(0, |amount| quantity::units(&amount.string)),
        access_modes: spec.access_modes.clone(),
        mode: spec.volume_mode.clone().unwrap_or_else(|| "Filesystem".into()),
        attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
        claim,
        terminating: meta.deletion_timestamp.is_some(),
        available: matches!(phase, "" | "Available"),
    }
}

/// Compiles a claim.
pub fn claim(texts: &mut Interner, brand: &Brand, object: &v1::PersistentVolumeClaim) -> (ClaimName, Claim) {
    let (no_meta, no_spec, no_status) = Default::default();
    let meta = object.metadata.as_ref().unwrap_or(&no_meta);
    let spec: &v1::PersistentVolumeClaimSpec = object.spec.as_ref().unwrap_or(&no_spec);
    let status: &v1::PersistentVolumeClaimStatus = object.status.as_ref().unwrap_or(&no_status);
    let annotation =
        |prefix: &str, name: &str| meta.annotations.get(&format!("{prefix}.{}", brand.label(name)));
    let requested = spec.resources.as_ref().and_then(|resources| resources.requests.get("storage"));
    let owner = meta.owner_references.iter().find(|owner| owner.controller == Some(true));
    let claim = Claim {
        uid: meta.uid.clone(),
        volume: spec.volume_name.clone(),
        bound: !spec.volume_name.is_empty() && annotation("pv", "bind-completed").is_some(),
        class: beta_class(brand, meta).or(spec.storage_class_name.as_ref()).cloned().unwrap_or_default(),
        requested: requested.map_or(0, |amount| quantity::units(&amount.string)),
        access_modes: spec.access_modes.clone(),
        mode: spec.volume_mode.clone().unwrap_or_else(|| "Filesystem".into()),
        attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
        selector: spec.selector.as_ref().map(|selector| Selector::compile(texts, Some(selector))),
        selected_node: annotation("volume", "selected-node").map(|node| texts.intern(node)),
        lost: status.phase == "Lost",
        terminating: meta.deletion_timestamp.is_some(),
        owner: owner.filter(|owner| owner.kind == "Pod").map(|owner| owner.uid.clone()),
    };
    (ClaimName { namespace: meta.namespace.clone(), name: meta.name.clone() }, claim)
}

/// The class of a volume or a claim in the older form, which goes before the field.
fn beta_class<'a>(brand: &Brand, meta: &'a ObjectMeta) -> Option<&'a String> {
    meta.annotations.get(&format!("volume.beta.{}", brand.label("storage-class")))
}

/// Compiles a storage class.
pub fn class(texts: &mut Interner, brand: &Brand, object: &storage::StorageClass) -> Class {
    let topologies = object.allowed_topologies.iter().map(|term| {
        let expressions = term.match_label_expressions.iter().map(|expression| {
            let mut values: Vec<Symbol> = expression.values.iter().map(|value| texts.intern(value)).collect();
            values.sort_unstable();
            Requirement { key: texts.intern(&expression.key), operator: Operator::In(values.into()) }
        });
        expressions.collect()
    });
    Class {
        topologies: topologies.collect(),
        provisioner: object.provisioner.clone(),
        driver: in_tree::driver_of(brand, &object.provisioner),
        waits: object.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
    }
}

/// Compiles an object about room for volumes.
pub fn capacity(texts: &mut Interner, object: &storage::CsiStorageCapacity) -> Capacity {
    let bytes = object.maximum_volume_size.as_ref().or(object.capacity.as_ref());
    Capacity {
        nodes: Selector::compile(texts, object.node_topology.as_ref()),
        bytes: bytes.map(|amount| quantity::units(&amount.string)),
    }
}

/// Compiles what a node says of its drivers.
pub fn node_drivers(object: &storage::CsiNode) -> NodeDrivers {
    let drivers = object.spec.iter().flat_map(|spec| &spec.drivers);
    let limits = drivers.map(|driver| {
        (driver.name.clone(), driver.allocatable.as_ref().and_then(|allocatable| allocatable.count))
    });
    NodeDrivers { limits: limits.collect() }
}

/// Compiles a driver.
pub fn driver(object: &storage::CsiDriver) -> Driver {
    let spec = object.spec.as_ref();
    Driver { publishes_capacity: spec.is_some_and(|spec| spec.storage_capacity == Some(true)) }
}

/// Compiles an attachment, and the node that it is to; `None` if it is not of a persistent volume.
pub fn attachment(texts: &mut Interner, object: &storage::VolumeAttachment) -> Option<(Symbol, Attachment)> {
    let spec = object.spec.as_ref()?;
    let volume = spec.source.as_ref()?.persistent_volume_name.clone()?;
    Some((texts.intern(&spec.node_name), Attachment { driver: spec.attacher.clone(), volume }))
}
