//! Which objects each node is related to: by its pods, by volumes that their claims are bound to, or by its name.
//!
//!     node <- pod <- config map, secret, service account, volume claim, resource claim
//!     node <- pod <- volume claim <- volume <- secret
//!     node <- volume attachment, resource slice
//!
//! Owns the view that decisions read. A change of an object touches only what that object refers to; versions share the
//! rest. A decision is a few look-ups by hash; for a secret of volumes it passes over the node's claims or the secret's,
//! whichever are fewer.
//!
//! Mirror pods relate their node to nothing but themselves: a kubelet makes them, and must not grant itself rights.
//!
//! Invariant: a graph that took in changes one by one equals one that is derived anew (`oracle.rs`).

use std::sync::{Arc, LazyLock};

use imbl::HashMap;
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

use super::pod::{MIRROR_ANNOTATION, PodDocument, ReferenceKind};
use super::volume::BoundVolume;
use crate::follow::Derived;

/// Storage resources that the graph is derived from.
pub(super) const PODS: &str = "pods";
/// Persistent volumes.
pub(super) const VOLUMES: &str = "persistentvolumes";
/// Volume attachments.
pub(super) const ATTACHMENTS: &str = "volumeattachments.storage";
/// Resource slices.
pub(super) const SLICES: &str = "resourceslices.resource";

/// Kind and path (`namespace/name`) of an object that a pod refers to.
type Reference = (ReferenceKind, SmolStr);

/// A pod that is bound to a node.
#[derive(Debug, PartialEq, Eq)]
struct BoundPod {
    node: SmolStr,
    /// Each once; empty for a mirror pod.
    references: Box<[Reference]>,
}

/// Objects that the pods of one node refer to, with the count of those pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    /// All but volume claims.
    objects: HashMap<Reference, u32>,
    /// Volume claims by path.
    claims: HashMap<SmolStr, u32>,
}

/// The relations of all nodes. Cheap to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Graph {
    /// The annotation of mirror pods.
    mirror_annotation: SmolStr,
    /// Bound pods by path.
    pods: HashMap<Arc<str>, Arc<BoundPod>>,
    /// By name of the node.
    uses: HashMap<SmolStr, Uses>,
    /// Volumes that are bound to a claim, by name.
    volumes: HashMap<Arc<str>, Arc<BoundVolume>>,
    /// Claims of the volumes that name a secret, with the count of those volumes, by path of the secret.
    claims_of_secrets: HashMap<SmolStr, HashMap<SmolStr, u32>>,
    /// The node of each attachment that names one, by name of the attachment.
    attachments: HashMap<Arc<str>, SmolStr>,
    /// The node of each resource slice that names one, by name of the slice.
    slices: HashMap<Arc<str>, SmolStr>,
}

impl Graph {
    /// The graph of an empty cluster of `brand`.
    pub(super) fn new(brand: &Brand) -> Graph {
        Graph::empty(brand.label(MIRROR_ANNOTATION).into())
    }

    fn empty(mirror_annotation: SmolStr) -> Graph {
        Graph {
            mirror_annotation,
            pods: HashMap::new(),
            uses: HashMap::new(),
            volumes: HashMap::new(),
            claims_of_secrets: HashMap::new(),
            attachments: HashMap::new(),
            slices: HashMap::new(),
        }
    }

    /// Whether the pod is bound to `node`.
    pub(super) fn has_pod(&self, node: &str, path: &str) -> bool {
        self.pods.get(path).is_some_and(|pod| pod.node == node)
    }

    /// Whether a pod of `node`, or a volume that such a pod uses, refers to the object.
    pub(super) fn has_object(&self, node: &str, kind: ReferenceKind, path: &str) -> bool {
        let Some(uses) = self.uses.get(node) else { return false };
        match kind {
            ReferenceKind::VolumeClaim => uses.claims.contains_key(path),
            ReferenceKind::Secret => {
                uses.objects.contains_key(&(kind, path.into())) || self.has_secret_of_volume(uses, path)
            }
            _ => uses.objects.contains_key(&(kind, path.into())),
        }
    }

    fn has_secret_of_volume(&self, uses: &Uses, path: &str) -> bool {
        let Some(claims) = self.claims_of_secrets.get(path) else { return false };
        if claims.len() <= uses.claims.len() {
            claims.keys().any(|claim| uses.claims.contains_key(claim))
        } else {
            uses.claims.keys().any(|claim| claims.contains_key(claim))
        }
    }

    /// Whether a pod of `node` uses the volume by its claim.
    pub(super) fn has_volume(&self, node: &str, name: &str) -> bool {
        let claim = self.volumes.get(name).map(|volume| &volume.claim);
        claim.is_some_and(|claim| self.has_object(node, ReferenceKind::VolumeClaim, claim))
    }

    /// Whether the attachment is one to `node`.
    pub(super) fn has_attachment(&self, node: &str, name: &str) -> bool {
        self.attachments.get(name).is_some_and(|of| of == node)
    }

    /// Whether the resource slice is one of `node`.
    pub(super) fn has_slice(&self, node: &str, name: &str) -> bool {
        self.slices.get(name).is_some_and(|of| of == node)
    }

    fn set_pod(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let new = object.and_then(|object| self.bound_pod(path, object)).map(Arc::new);
        let old = self.pods.get(path).cloned();
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.pods.remove(path);
            self.release(&old);
        }
        if let Some(new) = new {
            let uses = self.uses.entry(new.node.clone()).or_default();
            for (kind, of) in &new.references {
                let count = match kind {
                    ReferenceKind::VolumeClaim => uses.claims.entry(of.clone()).or_default(),
                    _ => uses.objects.entry((*kind, of.clone())).or_default(),
                };
                *count = count.saturating_add(1);
            }
            if new.references.is_empty() {
                self.drop_node_without_uses(&new.node);
            }
            self.pods.insert(path.clone(), new);
        }
    }

    fn bound_pod(&self, path: &str, object: &SharedObject) -> Option<BoundPod> {
        let pod = PodDocument::parse(&object.json).filter(|pod| !pod.node_name().is_empty())?;
        let (namespace, _) = path.split_once('/')?;
        let mut references = Vec::new();
        if !pod.has_annotation(&self.mirror_annotation) {
            pod.visit_references(&mut |kind, name| {
                references.push((kind, format_smolstr!("{namespace}/{name}")))
            });
        }
        references.sort_unstable();
        references.dedup();
        Some(BoundPod { node: pod.node_name().clone(), references: references.into() })
    }

    /// Takes back what `pod` related its node to.
    fn release(&mut self, pod: &BoundPod) {
        let Some(uses) = self.uses.get_mut(&pod.node) else { return };
        for reference in &pod.references {
            match reference {
                (ReferenceKind::VolumeClaim, path) => decrement(&mut uses.claims, path),
                reference => decrement(&mut uses.objects, reference),
            }
        }
        self.drop_node_without_uses(&pod.node);
    }

    fn drop_node_without_uses(&mut self, node: &SmolStr) {
        let is_empty = |uses: &Uses| uses.objects.is_empty() && uses.claims.is_empty();
        if self.uses.get(node).is_some_and(is_empty) {
            self.uses.remove(node);
        }
    }

    fn set_volume(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        let new = object.and_then(|object| BoundVolume::parse(&object.json)).map(Arc::new);
        let old = self.volumes.get(name).cloned();
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.volumes.remove(name);
            for secret in &old.secrets {
                if let Some(claims) = self.claims_of_secrets.get_mut(secret) {
                    decrement(claims, &old.claim);
                    if claims.is_empty() {
                        self.claims_of_secrets.remove(secret);
                    }
                }
            }
        }
        if let Some(new) = new {
            for secret in &new.secrets {
                let claims = self.claims_of_secrets.entry(secret.clone()).or_default();
                let count = claims.entry(new.claim.clone()).or_default();
                *count = count.saturating_add(1);
            }
            self.volumes.insert(name.clone(), new);
        }
    }

    fn set(&mut self, source: &str, path: &Arc<str>, object: Option<&SharedObject>) {
        match source {
            PODS => self.set_pod(path, object),
            VOLUMES => self.set_volume(path, object),
            ATTACHMENTS => set_node(&mut self.attachments, path, object),
            _ => set_node(&mut self.slices, path, object),
        }
    }
}

/// Counts one user of `key` less, and forgets `key` with its last.
fn decrement<K: Clone + Eq + std::hash::Hash>(counts: &mut HashMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        Some(_) => {
            counts.remove(key);
        }
        None => {}
    }
}

/// Sets the node that the object names in its spec.
fn set_node(nodes: &mut HashMap<Arc<str>, SmolStr>, path: &Arc<str>, object: Option<&SharedObject>) {
    let document = object.and_then(|object| serde_json::from_slice::<OfNode>(&object.json).ok());
    match document.map(|document| document.spec.node_name).filter(|node| !node.is_empty()) {
        Some(node) => nodes.insert(path.clone(), node),
        None => nodes.remove(path),
    };
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfNode {
    spec: OfNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OfNodeSpec {
    #[serde(deserialize_with = "super::pod::nullable")]
    node_name: SmolStr,
}

impl Derived for Graph {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCES: LazyLock<[Arc<str>; 4]> =
            LazyLock::new(|| [PODS, VOLUMES, ATTACHMENTS, SLICES].map(Into::into));
        SOURCES.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        self.set(source, &change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        *self = Graph::empty(self.mirror_annotation.clone());
        for source in [PODS, VOLUMES, ATTACHMENTS, SLICES] {
            for (path, object) in state.collection(source).range_from("") {
                self.set(source, path, Some(object));
            }
        }
    }
}
