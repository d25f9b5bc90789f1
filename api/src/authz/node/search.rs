//! The relations of a node, searched in the stored objects themselves.
//!
//! Owns the answers where there are too many relations to be held, and the relations that one object tells. A search passes
//! over the pods of the object's namespace and decodes those whose text holds the node's name: it takes no memory, and a
//! millisecond for some hundred pods of the node. It decides as the graph does (`oracle.rs`).

use orch_raft::object::SharedObject;
use orch_raft::{ObjectPath, State};
use serde::Deserialize;
use smol_str::SmolStr;

use super::graph::{PODS, VOLUMES};
use super::pod::{PodDocument, ReferenceKind, nullable};
use super::volume::BoundVolume;

/// A search of one state.
pub(super) struct Search<'a> {
    pub(super) state: &'a State,
    pub(super) mirror_annotation: &'a str,
}

impl Search<'_> {
    /// Whether a pod of `node`, or a volume that such a pod uses, refers to the object at `path` (`namespace/name`).
    pub(super) fn has_object(&self, node: &str, kind: ReferenceKind, path: &str) -> bool {
        self.does_pod_refer(node, kind, path)
            || kind == ReferenceKind::Secret && self.is_of_volume(node, path)
    }

    fn does_pod_refer(&self, node: &str, kind: ReferenceKind, path: &str) -> bool {
        let (namespace, name) = ObjectPath::of(path).parts();
        let prefix = format!("{namespace}/");
        let pods = self.state.collection(PODS);
        let of_namespace = pods.range_from(&prefix).take_while(|(path, _)| path.starts_with(&prefix));
        let mut of_node = of_namespace.filter_map(|(_, pod)| self.pod_of(node, name, pod));
        of_node.any(|pod| {
            let mut found = false;
            pod.visit_references(&mut |of, referred| found |= of == kind && referred == name);
            found
        })
    }

    /// The pod, if it is bound to `node` and no mirror pod. An ephemeral claim's name begins with the pod's, so that the
    /// text of a pod need not hold `name`.
    fn pod_of(&self, node: &str, name: &str, object: &SharedObject) -> Option<PodDocument> {
        memchr::memmem::find(&object.json, node.as_bytes())?;
        let is_spelt_out = memchr::memmem::find(&object.json, name.as_bytes()).is_some();
        if !is_spelt_out && !name.contains('-') {
            return None;
        }
        let pod = PodDocument::parse(&object.json)?;
        (pod.node_name() == node && !pod.has_annotation(self.mirror_annotation)).then_some(pod)
    }

    fn is_of_volume(&self, node: &str, secret: &str) -> bool {
        let name = ObjectPath::of(secret).name();
        let volumes = self.state.collection(VOLUMES);
        let naming = volumes
            .range_from("")
            .filter(|(_, volume)| memchr::memmem::find(&volume.json, name.as_bytes()).is_some());
        let mut bound = naming.filter_map(|(_, volume)| BoundVolume::parse(&volume.json));
        bound.any(|volume| {
            volume.secrets.iter().any(|own| own == secret)
                && self.does_pod_refer(node, ReferenceKind::VolumeClaim, &volume.claim)
        })
    }
}

/// The node that the object at `path` names in its spec; `None` where it names none, or there is no such object.
pub(super) fn node_of(state: &State, storage: &str, path: &str) -> Option<SmolStr> {
    let objects = state.collection(storage);
    let object = objects.get(path)?;
    let document = serde_json::from_slice::<OfNode>(&object.json).ok()?;
    Some(document.spec.node_name).filter(|node| !node.is_empty())
}

/// The claim that the volume is bound to.
pub(super) fn claim_of(state: &State, volume: &str) -> Option<SmolStr> {
    let volumes = state.collection(VOLUMES);
    let object = volumes.get(volume)?;
    BoundVolume::parse(&object.json).map(|volume| volume.claim)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfNode {
    spec: OfNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OfNodeSpec {
    #[serde(deserialize_with = "nullable")]
    node_name: SmolStr,
}
