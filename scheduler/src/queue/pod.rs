//! The facts of a pod, pending or assigned, that the queue keeps.
//!
//! [`PodFacts`] are small and shared: everything that pods of one template have in common stands once, in a [`PodShape`],
//! which [`Shapes`] hands out. Two pods with the same shape are rejected and helped alike, so that one hint speaks for all
//! of them. Never holds the API's structs: a hundred thousand pods have to fit into little memory.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::requests::{self, Amounts};
use crate::api::core::v1::{Pod, PodAffinityTerm, PodSpec, PodStatus, TopologySpreadConstraint, Volume};
use crate::api::meta::v1::ObjectMeta;
use crate::objects::in_tree;
use crate::selector::{LabelSelector, Labels, NodeSelector};

/// The uid of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub Arc<str>);

impl Uid {
    /// The uid written as `text`.
    pub fn new(text: &str) -> Uid {
        Uid(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pod as the queue sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its uid.
    pub uid: Uid,
    /// Its name; the namespace is in the shape.
    pub name: Arc<str>,
    /// `spec.priority`, 0 if there is none.
    pub priority: i32,
    /// `spec.nodeName`, empty while the pod is pending.
    pub node_name: Arc<str>,
    /// `status.nominatedNodeName`, empty if there is none.
    pub nominated_node_name: Arc<str>,
    /// Facts that it shares with equal pods.
    pub shape: Arc<PodShape>,
}

impl PodFacts {
    /// Whether the pod is bound to a node.
    pub fn is_assigned(&self) -> bool {
        !self.node_name.is_empty()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.shape.namespace
    }
}

/// Fields of a pod that hints read and that equal pods share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// Requests of the pod, as filters count them.
    pub requests: Amounts,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// The required node affinity.
    pub node_affinity: Option<NodeSelector>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Ports that the pod takes on its node.
    pub host_ports: Vec<HostPort>,
    /// Names of the PersistentVolumeClaims of its volumes, those of ephemeral volumes among them.
    pub volume_claims: Vec<String>,
    /// Volumes of which a node, or the cluster, may hold one use only.
    pub disks: Vec<Disk>,
    /// Whether a volume without a claim counts against the attach limits of its node.
    pub has_attachable: bool,
    /// Names of its ResourceClaims, those made from templates once they are known.
    pub resource_claims: Vec<String>,
    /// `spec.schedulingGates`, by name.
    pub gates: Vec<String>,
    /// Constraints of `spec.topologySpreadConstraints`.
    pub spreading: Spreading,
    /// Required terms of pod affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required terms of pod anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
}

/// Where the topology spread constraints of a pod come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spreading {
    /// The pod has none, so that default constraints of the profile hold.
    #[default]
    ByDefault,
    /// Its own ones that forbid nodes; those that only score are left out.
    Own(Vec<SpreadConstraint>),
}

/// A topology spread constraint that forbids nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// The label of nodes whose values are the domains.
    pub topology_key: String,
    /// Pods that are counted.
    pub selector: LabelSelector,
    /// Whether nodes with taints that the pod does not tolerate are left out.
    pub honors_taints: bool,
}

/// A required term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The label of nodes whose values are the domains.
    pub topology_key: String,
    /// Pods that the term is about; `None` matches none.
    pub selector: Option<LabelSelector>,
    /// Their namespaces by name.
    pub namespaces: BTreeSet<String>,
    /// Their namespaces by label.
    pub namespace_selector: Option<LabelSelector>,
}

/// A toleration of a taint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key of the taint; empty means every key.
    pub key: String,
    /// The value that the taint must have; `None` if any will do.
    pub value: Option<String>,
    /// Effect of the taint; empty means every effect.
    pub effect: String,
}

impl Toleration {
    /// Whether a taint with this key, value and effect is tolerated.
    pub fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        (self.effect.is_empty() || self.effect == effect)
            && (self.key.is_empty() || self.key == key)
            && self.value.as_deref().is_none_or(|wanted| wanted == value)
    }
}

/// A port on the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Address; empty means all.
    pub address: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Number.
    pub port: i32,
}

impl HostPort {
    /// Whether one node cannot give both.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = |address: &str| matches!(address, "" | "0.0.0.0");
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(&self.address) || everywhere(&other.address) || self.address == other.address)
    }
}

/// A disk that a pod names itself, without a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the identity of a volume of the kind that the variant names")]
pub enum Disk {
    GcePersistentDisk(String),
    AwsElasticBlockStore(String),
    Iscsi(String),
    Rbd { pool: String, image: String },
}

/// Makes facts, and holds each shape once.
#[derive(Debug, Default)]
pub struct Shapes {
    known: HashSet<Arc<PodShape>>,
    /// Number of known shapes at which those that nobody uses are dropped.
    sweep_at: usize,
}

/// Shapes that are kept before the first sweep.
const SWEEP_MIN: usize = 1024;

impl Shapes {
    /// The facts of `pod`.
    pub fn facts(&mut self, pod: &Pod) -> PodFacts {
        let empty = ObjectMeta::default();
        let metadata = pod.metadata.as_ref().unwrap_or(&empty);
        let spec = pod.spec.as_ref();
        let nominated = pod.status.as_ref().map_or("", |status| status.nominated_node_name.as_str());
        PodFacts {
            uid: Uid::new(&metadata.uid),
            name: metadata.name.as_str().into(),
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            node_name: spec.map_or("", |spec| spec.node_name.as_str()).into(),
            nominated_node_name: nominated.into(),
            shape: self.intern(shape(pod)),
        }
    }

    /// Number of shapes that are held.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no shape is held.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The one shape that equals `shape`.
    pub fn intern(&mut self, shape: PodShape) -> Arc<PodShape> {
        if let Some(known) = self.known.get(&shape) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.known.retain(|shape| Arc::strong_count(shape) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let shape = Arc::new(shape);
        self.known.insert(shape.clone());
        shape
    }
}

fn shape(pod: &Pod) -> PodShape {
    let empty = ObjectMeta::default();
    let metadata = pod.metadata.as_ref().unwrap_or(&empty);
    let own = PodShape {
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        ..Default::default()
    };
    let Some(spec) = &pod.spec else { return own };
    let affinity = spec.affinity.as_ref();
    let of_nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let of_nodes = of_nodes.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    let to_pods = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let to_pods = to_pods.map(|one| one.required_during_scheduling_ignored_during_execution.as_slice());
    let from_pods = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let from_pods = from_pods.map(|one| one.required_during_scheduling_ignored_during_execution.as_slice());
    let terms = |terms: Option<&[PodAffinityTerm]>| {
        terms.unwrap_or_default().iter().map(|one| term(one, &metadata.namespace)).collect()
    };
    PodShape {
        scheduler_name: spec.scheduler_name.clone(),
        requests: requests::of_pod(pod),
        node_selector: spec.node_selector.clone(),
        node_affinity: of_nodes.map(NodeSelector::new),
        tolerations: spec.tolerations.iter().map(toleration).collect(),
        host_ports: host_ports(spec),
        volume_claims: spec.volumes.iter().filter_map(|volume| claim_name(volume, &metadata.name)).collect(),
        disks: spec.volumes.iter().filter_map(disk).collect(),
        has_attachable: spec.volumes.iter().any(is_attachable),
        resource_claims: resource_claims(spec, pod.status.as_ref()),
        gates: spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect(),
        spreading: spreading(spec, &metadata.labels),
        affinity: terms(to_pods),
        anti_affinity: terms(from_pods),
        ..own
    }
}

fn toleration(toleration: &crate::api::core::v1::Toleration) -> Toleration {
    let value = (toleration.operator != "Exists").then(|| toleration.value.clone());
    Toleration { key: toleration.key.clone(), value, effect: toleration.effect.clone() }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let ports = ports.filter(|port| port.host_port > 0).map(|port| HostPort {
        address: port.host_ip.clone(),
        protocol: if port.protocol.is_empty() { "TCP".to_owned() } else { port.protocol.clone() },
        port: port.host_port,
    });
    ports.collect()
}

fn claim_name(volume: &Volume, pod: &str) -> Option<String> {
    let source = volume.volume_source.as_ref()?;
    match (&source.persistent_volume_claim, &source.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
        (None, None) => None,
    }
}

fn is_attachable(volume: &Volume) -> bool {
    volume.volume_source.as_ref().and_then(in_tree::of_pod).is_some()
}

fn disk(volume: &Volume) -> Option<Disk> {
    let source = volume.volume_source.as_ref()?;
    if let Some(disk) = &source.gce_persistent_disk {
        return Some(Disk::GcePersistentDisk(disk.pd_name.clone()));
    }
    if let Some(disk) = &source.aws_elastic_block_store {
        return Some(Disk::AwsElasticBlockStore(disk.volume_id.clone()));
    }
    if let Some(disk) = &source.iscsi {
        return Some(Disk::Iscsi(disk.iqn.clone()));
    }
    let disk = source.rbd.as_ref()?;
    Some(Disk::Rbd { pool: disk.pool.clone(), image: disk.image.clone() })
}

/// Names of claims that are known: those in the spec, those made from templates, and that for extended resources.
fn resource_claims(spec: &PodSpec, status: Option<&PodStatus>) -> Vec<String> {
    let made = |name: &str| {
        let statuses = status.into_iter().flat_map(|status| &status.resource_claim_statuses);
        statuses.filter(|one| one.name == name).find_map(|one| one.resource_claim_name.clone())
    };
    let named = spec.resource_claims.iter();
    let named = named.filter_map(|claim| claim.resource_claim_name.clone().or_else(|| made(&claim.name)));
    let extended = status.and_then(|status| status.extended_resource_claim_status.as_ref());
    named.chain(extended.map(|extended| extended.resource_claim_name.clone())).collect()
}

fn spreading(spec: &PodSpec, labels: &Labels) -> Spreading {
    if spec.topology_spread_constraints.is_empty() {
        return Spreading::ByDefault;
    }
    let forbidding = spec.topology_spread_constraints.iter();
    let forbidding = forbidding.filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule");
    Spreading::Own(forbidding.map(|constraint| spread_constraint(constraint, labels)).collect())
}

/// The constraint with the pod's own values under `matchLabelKeys`.
fn spread_constraint(constraint: &TopologySpreadConstraint, labels: &Labels) -> SpreadConstraint {
    let selector = constraint.label_selector.as_ref().map(LabelSelector::new).unwrap_or_default();
    let keys = constraint.match_label_keys.iter();
    let selector = keys.fold(selector, |selector, key| match labels.get(key) {
        Some(value) => selector.and_in(key, vec![value.clone()]),
        None => selector,
    });
    SpreadConstraint {
        topology_key: constraint.topology_key.clone(),
        selector,
        honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

fn term(term: &PodAffinityTerm, namespace: &str) -> AffinityTerm {
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.insert(namespace.to_owned());
    }
    AffinityTerm {
        topology_key: term.topology_key.clone(),
        selector: term.label_selector.as_ref().map(LabelSelector::new),
        namespaces,
        namespace_selector: term.namespace_selector.as_ref().map(LabelSelector::new),
    }
}
