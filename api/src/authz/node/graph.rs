//! Which objects the pods of each node refer to, and the secrets of volumes that their claims are bound to.
//!
//!     node <- pod <- config map, secret, service account, volume claim, resource claim
//!     node <- pod <- volume claim <- volume <- secret
//!
//! Owns the counts that decisions read. A relation is 16 bytes, hashes of its node and object under keys of this process,
//! and a count: 21 bytes of table, less than what the shortest reference takes in a stored pod. A decision is a few
//! look-ups by hash; for a secret of volumes it passes over the node's claims or the secret's, whichever are fewer. Relations
//! that one object tells (the node of a pod, of an attachment, of a slice) are read from that object and not held here.
//!
//! Mirror pods relate their node to nothing but themselves: a kubelet makes them, and must not grant itself rights.
//!
//! Invariant: a graph that took in changes one by one equals one that is derived anew (`oracle.rs`).
//! Invariant: at most [`RELATIONS_MAX`] relations are held. With more, none is, and each decision searches the stored pods.

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, State};
use smol_str::SmolStr;

use super::pod::{MIRROR_ANNOTATION, PodDocument, ReferenceKind};
use super::search::Search;
use super::volume::BoundVolume;
use crate::follow::{Derived, Digest, shrink};

/// Storage resources that the graph is derived from.
pub(super) const PODS: &str = "pods";
/// Persistent volumes.
pub(super) const VOLUMES: &str = "persistentvolumes";

/// Relations of all nodes together: 50 for each of 150,000 pods. Their tables take 180 MB, and 270 MB while they grow.
const RELATIONS_MAX: usize = 7 << 20;

/// The digest of an object.
fn of_object(kind: ReferenceKind, namespace: &str, name: &str) -> Digest {
    Digest::of((kind, namespace, name))
}

/// The digest of the object at `path`.
fn of_path(kind: ReferenceKind, path: &str) -> Digest {
    let (namespace, name) = ObjectPath::of(path).parts();
    of_object(kind, namespace, name)
}

/// Counts of users.
type Counts = HashMap<Digest, u32>;

/// The relations of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Graph {
    /// The annotation of mirror pods.
    mirror_annotation: SmolStr,
    /// `None`: there are too many.
    relations: Option<Relations>,
    relations_max: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Relations {
    /// Pods of a node that refer to an object which is no volume claim, by the digest of both.
    uses: Counts,
    /// Pods of a node that refer to a claim, by the digests of the node and of the claim.
    claims: HashMap<Digest, Counts>,
    /// Volumes of a claim that name a secret, by the digests of the secret and of the claim.
    claims_of_secrets: HashMap<Digest, Counts>,
    /// Entries of all tables.
    count: usize,
}

/// The references of a pod that is bound to a node, each once.
#[derive(PartialEq, Eq)]
struct PodReferences {
    node: Digest,
    uses: Vec<Digest>,
    claims: Vec<Digest>,
}

impl Graph {
    /// The graph of an empty cluster of `brand`.
    pub(super) fn new(brand: &Brand) -> Graph {
        Graph::with_room(brand, RELATIONS_MAX)
    }

    /// A graph that holds at most `relations_max` relations.
    pub(super) fn with_room(brand: &Brand, relations_max: usize) -> Graph {
        let mirror_annotation = brand.label(MIRROR_ANNOTATION).into();
        Graph { mirror_annotation, relations: Some(Relations::default()), relations_max }
    }

    /// Whether a pod of `node`, or a volume that such a pod uses, refers to the object at `path` (`namespace/name`). `state`
    /// is that of the graph, or an older one.
    pub(super) fn has_object(&self, state: &State, node: &str, kind: ReferenceKind, path: &str) -> bool {
        let Some(relations) = &self.relations else {
            return Search { state, mirror_annotation: &self.mirror_annotation }.has_object(node, kind, path);
        };
        let (node, object) = (Digest::of(node), of_path(kind, path));
        match kind {
            ReferenceKind::VolumeClaim => {
                relations.claims.get(&node).is_some_and(|claims| claims.contains_key(&object))
            }
            _ if relations.uses.contains_key(&Digest::of((node, object))) => true,
            ReferenceKind::Secret => relations.has_secret_of_volume(node, object),
            _ => false,
        }
    }

    /// Number of relations; `None`: too many to be held.
    #[cfg(test)]
    pub(super) fn count(&self) -> Option<usize> {
        self.relations.as_ref().map(|relations| relations.count)
    }

    /// Bytes of the tables, less those that are too small to count.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let Some(Relations { uses, claims, claims_of_secrets, .. }) = &self.relations else { return 0 };
        let nested = claims.values().chain(claims_of_secrets.values()).map(Counts::allocation_size);
        uses.allocation_size()
            + claims.allocation_size()
            + claims_of_secrets.allocation_size()
            + nested.sum::<usize>()
    }

    fn set_pod(&mut self, path: &str, old: Option<&SharedObject>, new: Option<&SharedObject>) {
        let Some(relations) = &mut self.relations else { return };
        let references = |object: &SharedObject| PodReferences::of(path, object, &self.mirror_annotation);
        let (old, new) = (old.and_then(references), new.and_then(references));
        // Most changes of a pod are of its status.
        if old != new {
            old.into_iter().for_each(|pod| relations.release(&pod));
            new.into_iter().for_each(|pod| relations.take_in(&pod));
        }
        self.check_room();
    }

    fn set_volume(&mut self, old: Option<&SharedObject>, new: Option<&SharedObject>) {
        let Some(relations) = &mut self.relations else { return };
        let bound = |object: &SharedObject| BoundVolume::parse(&object.json);
        let (old, new) = (old.and_then(bound), new.and_then(bound));
        if old != new {
            for (claim, secret) in old.iter().flat_map(digests) {
                relations.count -= usize::from(release(&mut relations.claims_of_secrets, secret, claim));
            }
            for (claim, secret) in new.iter().flat_map(digests) {
                let claims = relations.claims_of_secrets.entry(secret).or_default();
                relations.count += usize::from(increment(claims, claim));
            }
        }
        self.check_room();
    }

    fn set(&mut self, source: &str, path: &str, old: Option<&SharedObject>, new: Option<&SharedObject>) {
        match source {
            PODS => self.set_pod(path, old, new),
            _ => self.set_volume(old, new),
        }
    }

    /// Gives up all relations if they are too many. They are counted again when the graph is next derived anew.
    fn check_room(&mut self) {
        if self.relations.as_ref().is_some_and(|relations| relations.count > self.relations_max) {
            self.relations = None;
            tracing::warn!(
                max = self.relations_max,
                "the pods of all nodes refer to too many objects to remember which: each decision on a request of a kubelet \
                 searches the pods, until this process is started again with fewer"
            );
        }
    }
}

impl Relations {
    fn has_secret_of_volume(&self, node: Digest, secret: Digest) -> bool {
        let (of_node, of_secret) = (self.claims.get(&node), self.claims_of_secrets.get(&secret));
        let (Some(of_node), Some(of_secret)) = (of_node, of_secret) else { return false };
        let (few, many) =
            if of_node.len() < of_secret.len() { (of_node, of_secret) } else { (of_secret, of_node) };
        few.keys().any(|claim| many.contains_key(claim))
    }

    fn take_in(&mut self, pod: &PodReferences) {
        for object in &pod.uses {
            self.count += usize::from(increment(&mut self.uses, Digest::of((pod.node, object))));
        }
        for claim in &pod.claims {
            self.count += usize::from(increment(self.claims.entry(pod.node).or_default(), *claim));
        }
    }

    /// Takes back what `pod` related its node to.
    fn release(&mut self, pod: &PodReferences) {
        for object in &pod.uses {
            self.count -= usize::from(decrement(&mut self.uses, Digest::of((pod.node, object))));
        }
        for claim in &pod.claims {
            self.count -= usize::from(release(&mut self.claims, pod.node, *claim));
        }
    }
}

impl PodReferences {
    /// The references of the pod at `path`; `None` where it is bound to no node.
    fn of(path: &str, object: &SharedObject, mirror_annotation: &str) -> Option<PodReferences> {
        // Stored JSON has no spaces. A pod that waits for its node is not decoded.
        memchr::memmem::find(&object.json, br#""nodeName":"#)?;
        let pod = PodDocument::parse(&object.json).filter(|pod| !pod.node_name().is_empty())?;
        let namespace = ObjectPath::of(path).namespace();
        let (mut uses, mut claims) = (Vec::new(), Vec::new());
        if !pod.has_annotation(mirror_annotation) {
            pod.visit_references(&mut |kind, name| {
                let list = if kind == ReferenceKind::VolumeClaim { &mut claims } else { &mut uses };
                list.push(of_object(kind, namespace, name));
            });
        }
        for list in [&mut uses, &mut claims] {
            list.sort_unstable();
            list.dedup();
        }
        Some(PodReferences { node: Digest::of(&**pod.node_name()), uses, claims })
    }
}

/// The digests of a volume's claim and of each of its secrets.
fn digests(volume: &BoundVolume) -> impl Iterator<Item = (Digest, Digest)> {
    let claim = of_path(ReferenceKind::VolumeClaim, &volume.claim);
    volume.secrets.iter().map(move |secret| (claim, of_path(ReferenceKind::Secret, secret)))
}

/// Counts one more user of `key`; whether it is the first.
fn increment(counts: &mut Counts, key: Digest) -> bool {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
    *count == 1
}

/// Counts one user of `key` less, and forgets `key` with its last; whether it was the last.
fn decrement(counts: &mut Counts, key: Digest) -> bool {
    match counts.get_mut(&key) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        Some(_) => {
            counts.remove(&key);
            shrink(counts);
            true
        }
        None => false,
    }
}

/// As [`decrement`], in the counts at `of`, which are forgotten with their last entry.
fn release(tables: &mut HashMap<Digest, Counts>, of: Digest, key: Digest) -> bool {
    let Some(counts) = tables.get_mut(&of) else { return false };
    let was_last = decrement(counts, key);
    if counts.is_empty() {
        tables.remove(&of);
        shrink(tables);
    }
    was_last
}

impl Derived for Graph {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCES: LazyLock<[Arc<str>; 2]> = LazyLock::new(|| [PODS, VOLUMES].map(Into::into));
        SOURCES.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        self.set(source, &change.path, change.old.as_ref(), change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.relations = Some(Relations::default());
        for source in [PODS, VOLUMES] {
            for (path, object) in state.collection(source).range_from("") {
                self.set(source, path, None, Some(object));
            }
        }
    }
}
