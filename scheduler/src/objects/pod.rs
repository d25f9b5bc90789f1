//! Pods.
//!
//! Owns the compiled form in three layers, so that pods of one template share what they have in common: [`LocalShape`]
//! is all that a single node is asked about, [`Shape`] adds what depends on other pods, volumes and claims, and [`Pod`]
//! the identity. Layers are shared by [`Shapes`].

use std::hash::Hash;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use crate::api::core::v1;
use crate::api::meta::v1::{ObjectMeta, Time};
use crate::plan::devices::PodClaims;

use super::affinity::PodTerms;
use super::controller::Controller;
use super::features::Features;
use super::images::normalized;
use super::intern::{Interner, Symbol};
use super::labels::Labels;
use super::node_selector::{PreferredTerm, RequiredNodes, compile_preferred};
use super::ports::{self, HostPort};
use super::requests::Requests;
use super::spread::Spreads;
use super::taints::Toleration;
use super::volumes::Volumes;

/// Fields of a pod that filters and scores of a single node read. Pods with equal ones share the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalShape {
    /// Requests.
    pub requests: Requests,
    /// Ports of the node.
    pub ports: Box<[HostPort]>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Node selector and required node affinity.
    pub nodes: RequiredNodes,
    /// Preferred node affinity.
    pub preferred_nodes: Vec<PreferredTerm>,
    /// Images of containers and init containers, in normal form.
    pub images: Vec<Symbol>,
    /// How many containers and init containers there are.
    pub containers: usize,
    /// Features that the node has to declare.
    pub features: Features,
}

/// A pod's fields that planning reads, without its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Fields that filters and scores of a single node read.
    pub local: Arc<LocalShape>,
    /// Namespace.
    pub namespace: Symbol,
    /// Labels.
    pub labels: Labels,
    /// Affinity and anti-affinity between pods.
    pub terms: PodTerms,
    /// Spreading over topologies.
    pub spreads: Spreads,
    /// Volumes.
    pub volumes: Volumes,
    /// The controller that owns the pod, and its name. Default constraints of spreading follow it.
    pub owner: Option<(Controller, Symbol)>,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Arc<str>,
    /// `spec.nodeName`; empty while it is not assigned.
    pub node_name: Symbol,
    /// `status.nominatedNodeName`; empty if there is none.
    pub nominated_node: Symbol,
    /// `spec.priority`.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it is being deleted because a scheduler evicted it.
    pub preempted: bool,
    /// Whether it has ended.
    pub finished: bool,
    /// Names of its scheduling gates.
    pub gates: Vec<String>,
    /// `status.startTime`.
    pub start_time: Option<(i64, i32)>,
    /// Claims of devices; `None` if it names none.
    pub claims: Option<Arc<PodClaims>>,
    /// Fields that equal pods share.
    pub shape: Arc<Shape>,
}

/// Shapes that are in use.
#[derive(Debug, Default)]
pub struct Shapes {
    locals: Shared<LocalShape>,
    shapes: Shared<Shape>,
}

impl Shapes {
    /// Compiles a pod.
    pub fn compile(&mut self, interner: &mut Interner, pod: &v1::Pod) -> Pod {
        let (no_meta, no_spec, no_status) = Default::default();
        let meta: &ObjectMeta = pod.metadata.as_ref().unwrap_or(&no_meta);
        let spec: &v1::PodSpec = pod.spec.as_ref().unwrap_or(&no_spec);
        let status: &v1::PodStatus = pod.status.as_ref().unwrap_or(&no_status);
        let local = self.locals.share(compile_local(interner, pod, spec));
        let shape = self.shapes.share(compile_shape(interner, local, meta, spec));
        let namespace = Arc::clone(interner.text(shape.namespace));
        Pod {
            namespace,
            name: Arc::from(&*meta.name),
            uid: Arc::from(&*meta.uid),
            node_name: interner.intern(&spec.node_name),
            nominated_node: interner.intern(&status.nominated_node_name),
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            terminating: meta.deletion_timestamp.is_some(),
            preempted: meta.deletion_timestamp.is_some() && was_preempted(status),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            gates: spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect(),
            start_time: status.start_time.as_ref().map(|Time { seconds, nanos }| (*seconds, *nanos)),
            claims: PodClaims::new(pod).map(Arc::new),
            shape,
        }
    }
}

fn was_preempted(status: &v1::PodStatus) -> bool {
    status.conditions.iter().any(|condition| {
        condition.r#type == "DisruptionTarget"
            && condition.status == "True"
            && condition.reason == "PreemptionByScheduler"
    })
}

fn compile_local(interner: &mut Interner, pod: &v1::Pod, spec: &v1::PodSpec) -> LocalShape {
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = node_affinity
        .map_or(&[][..], |affinity| &affinity.preferred_during_scheduling_ignored_during_execution);
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|container| &container.image);
    let sources = spec.volumes.iter().filter_map(|volume| volume.volume_source.as_ref()?.image.as_ref());
    let images = containers.chain(sources.map(|source| &source.reference));
    LocalShape {
        requests: Requests::compile(interner, pod),
        ports: ports::compile(interner, spec),
        tolerations: spec.tolerations.iter().filter_map(|t| Toleration::compile(interner, t)).collect(),
        nodes: RequiredNodes::compile(interner, &spec.node_selector, required),
        preferred_nodes: compile_preferred(interner, preferred),
        images: images.map(|image| interner.intern(&normalized(image))).collect(),
        containers: spec.init_containers.len() + spec.containers.len(),
        features: Features::needed(interner, spec),
    }
}

fn compile_shape(
    interner: &mut Interner,
    local: Arc<LocalShape>,
    meta: &ObjectMeta,
    spec: &v1::PodSpec,
) -> Shape {
    let namespace = interner.intern(&meta.namespace);
    let labels = Labels::compile(interner, &meta.labels);
    let owner = meta.owner_references.iter().find(|owner| owner.controller == Some(true));
    Shape {
        local,
        namespace,
        terms: PodTerms::compile(interner, namespace, spec.affinity.as_ref()),
        spreads: Spreads::compile(interner, &labels, &spec.topology_spread_constraints),
        labels,
        volumes: Volumes::compile(&meta.name, &spec.volumes),
        owner: owner.and_then(|owner| Some((Controller::of(owner)?, interner.intern(&owner.name)))),
    }
}

/// Equal values stand once, for as long as somebody holds them.
#[derive(Debug)]
struct Shared<T> {
    values: HashMap<u64, Vec<Weak<T>>>,
    hasher: hashbrown::DefaultHashBuilder,
    sweep_at: usize,
}

/// Dead entries are swept out when the table has doubled since the last time, from this size on.
const SWEEP_MIN: usize = 1024;

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared { values: HashMap::new(), hasher: Default::default(), sweep_at: SWEEP_MIN }
    }
}

impl<T: Hash + Eq> Shared<T> {
    fn share(&mut self, value: T) -> Arc<T> {
        use std::hash::BuildHasher;
        if self.values.len() >= self.sweep_at {
            self.values.retain(|_, same| {
                same.retain(|weak| weak.strong_count() > 0);
                !same.is_empty()
            });
            self.sweep_at = (self.values.len() * 2).max(SWEEP_MIN);
        }
        let same = self.values.entry(self.hasher.hash_one(&value)).or_default();
        if let Some(found) = same.iter().filter_map(Weak::upgrade).find(|found| **found == value) {
            return found;
        }
        let shared = Arc::new(value);
        same.push(Arc::downgrade(&shared));
        shared
    }
}
