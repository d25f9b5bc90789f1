//! The graph against a slow and obvious oracle, on random pods and volumes.
//!
//! Owns the random changes: small alphabets, so that objects share what they refer to. After each sequence of changes the
//! graph must equal one that is derived anew, and answer every question as a search of all objects does.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use orch_proto::brand::ORCH;
use orch_raft::object::{Index, Object, SharedObject};
use orch_raft::{Change, Revision};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::graph::{ATTACHMENTS, Graph, PODS, SLICES, VOLUMES};
use super::pod::ReferenceKind;
use crate::follow::Derived;

/// Cases of one run. `PROPTEST_CASES` overrides it.
const CASES: u32 = 20_000;

const NODES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["x", "y", "p-v"];
const NAMESPACES: [&str; 2] = ["n", "m"];
const KINDS: [ReferenceKind; 5] = [
    ReferenceKind::ConfigMap,
    ReferenceKind::ResourceClaim,
    ReferenceKind::Secret,
    ReferenceKind::ServiceAccount,
    ReferenceKind::VolumeClaim,
];

#[derive(Clone, Debug)]
struct Pod {
    node: &'static str,
    is_mirror: bool,
    references: Vec<(ReferenceKind, &'static str)>,
}

#[derive(Clone, Debug)]
struct Volume {
    claim: Option<(&'static str, &'static str)>,
    secrets: Vec<(&'static str, &'static str)>,
}

#[derive(Clone, Debug)]
enum Written {
    Pod(Pod),
    Volume(Volume),
    OfNode(&'static str),
}

/// Source and path of what is written, or removed.
type Step = (&'static str, &'static str, Option<Written>);

impl Written {
    fn json(&self) -> Json {
        match self {
            Written::Pod(pod) => pod.json(),
            Written::OfNode(node) => json!({"spec": {"nodeName": node}}),
            Written::Volume(Volume { claim, secrets }) => {
                let reference = |(namespace, name)| json!({"namespace": namespace, "name": name});
                let members = ["nodePublishSecretRef", "nodeStageSecretRef"];
                let secrets = members.into_iter().zip(secrets.iter().copied().map(reference));
                let csi: BTreeMap<&str, Json> = secrets.collect();
                json!({"spec": {"claimRef": claim.map(reference), "csi": csi}})
            }
        }
    }
}

impl Pod {
    fn json(&self) -> Json {
        let of = |wanted: ReferenceKind| self.references.iter().filter(move |(kind, _)| *kind == wanted);
        let secrets: Vec<Json> =
            of(ReferenceKind::Secret).map(|(_, name)| json!({"secretRef": {"name": name}})).collect();
        let maps = of(ReferenceKind::ConfigMap).map(|(_, name)| json!({"configMap": {"name": name}}));
        let claims = of(ReferenceKind::VolumeClaim)
            .map(|(_, name)| json!({"persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Json> = maps.chain(claims).collect();
        let resource_claims: Vec<Json> =
            of(ReferenceKind::ResourceClaim).map(|(_, name)| json!({"resourceClaimName": name})).collect();
        let account = of(ReferenceKind::ServiceAccount).map(|(_, name)| *name).next().unwrap_or_default();
        let annotations = if self.is_mirror { json!({"orch.io/config.mirror": "h"}) } else { Json::Null };
        json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {
                "nodeName": self.node, "serviceAccountName": account, "volumes": volumes,
                "ephemeralContainers": [{"envFrom": secrets}], "resourceClaims": resource_claims,
            },
        })
    }

    /// The references that the pod's JSON has: it has one service account.
    fn refers_to(&self, wanted: (ReferenceKind, &str)) -> bool {
        let mut accounts = self.references.iter().filter(|(kind, _)| *kind == ReferenceKind::ServiceAccount);
        match wanted {
            (ReferenceKind::ServiceAccount, name) => accounts.next().is_some_and(|(_, own)| *own == name),
            wanted => self.references.contains(&wanted),
        }
    }
}

/// The latest version of each object.
type Objects = BTreeMap<(&'static str, &'static str), Written>;

/// The relations of the reference, found by a search of all objects.
struct Oracle<'a>(&'a Objects);

impl Oracle<'_> {
    fn pods_of<'s>(&'s self, node: &'s str) -> impl Iterator<Item = (&'static str, &'s Pod)> {
        self.0.iter().filter_map(move |((_, path), written)| match written {
            Written::Pod(pod) if pod.node == node => Some((*path, pod)),
            _ => None,
        })
    }

    fn volumes(&self) -> impl Iterator<Item = (&'static str, &Volume)> {
        self.0.iter().filter_map(|((_, name), written)| match written {
            Written::Volume(volume) => Some((*name, volume)),
            _ => None,
        })
    }

    fn uses(&self, node: &str, kind: ReferenceKind, namespace: &str, name: &str) -> bool {
        let is_within = |path: &str| path.split_once('/').is_some_and(|(own, _)| own == namespace);
        let direct = self
            .pods_of(node)
            .any(|(path, pod)| is_within(path) && !pod.is_mirror && pod.refers_to((kind, name)));
        let by_volume = kind == ReferenceKind::Secret
            && self.volumes().any(|(_, volume)| {
                volume.secrets.contains(&(namespace, name)) && self.uses_volume(node, volume)
            });
        direct || by_volume
    }

    fn uses_volume(&self, node: &str, volume: &Volume) -> bool {
        volume
            .claim
            .is_some_and(|(namespace, name)| self.uses(node, ReferenceKind::VolumeClaim, namespace, name))
    }

    fn is_of(&self, node: &str, source: &str, name: &str) -> bool {
        self.0.iter().any(|(key, written)| {
            *key == (source, name) && matches!(written, Written::OfNode(own) if *own == node)
        })
    }
}

fn pod() -> impl Strategy<Value = Written> {
    let reference = (prop::sample::select(&KINDS[..]), prop::sample::select(&NAMES[..]));
    let node = prop::sample::select(&["", "a", "b"][..]);
    (node, prop::bool::weighted(0.1), prop::collection::vec(reference, 0..5))
        .prop_map(|(node, is_mirror, references)| Written::Pod(Pod { node, is_mirror, references }))
}

fn volume() -> impl Strategy<Value = Written> {
    let name = || (prop::sample::select(&NAMESPACES[..]), prop::sample::select(&NAMES[..]));
    (prop::option::weighted(0.9, name()), prop::collection::vec(name(), 0..3))
        .prop_map(|(claim, secrets)| Written::Volume(Volume { claim, secrets }))
}

fn step() -> impl Strategy<Value = Step> {
    let gone = |written: BoxedStrategy<Written>| prop::option::weighted(0.8, written);
    let at = |paths: &'static [&'static str]| prop::sample::select(paths);
    let of_node = || prop::sample::select(&["", "a", "b"][..]).prop_map(Written::OfNode).boxed();
    prop_oneof![
        4 => (at(&["n/p", "n/q", "m/p"]), gone(pod().boxed())).prop_map(|(path, new)| (PODS, path, new)),
        2 => (at(&["v", "w"]), gone(volume().boxed())).prop_map(|(path, new)| (VOLUMES, path, new)),
        1 => (at(&["t", "u"]), gone(of_node())).prop_map(|(path, new)| (ATTACHMENTS, path, new)),
        1 => (at(&["t", "u"]), gone(of_node())).prop_map(|(path, new)| (SLICES, path, new)),
    ]
}

fn stored(written: &Written) -> SharedObject {
    Arc::new(Object {
        revision: Revision(1),
        created: Revision(1),
        written_ms: 0,
        json: written.json().to_string().into(),
        revision_at: 0,
        index: Index::default(),
        protobuf: OnceLock::new(),
    })
}

fn take_in(graph: &mut Graph, source: &str, path: &str, new: Option<&Written>) {
    let new = new.map(stored);
    let change = Change { revision: Revision(1), time_ms: 0, path: path.into(), old: None, new };
    graph.change(&source.into(), &change);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_equals_one_derived_anew_and_a_search(steps in prop::collection::vec(step(), 0..9)) {
        let mut graph = Graph::new(&ORCH);
        let mut objects = Objects::new();
        for (source, path, new) in &steps {
            take_in(&mut graph, source, path, new.as_ref());
            match new {
                Some(new) => objects.insert((*source, *path), new.clone()),
                None => objects.remove(&(*source, *path)),
            };
        }
        let mut anew = Graph::new(&ORCH);
        for ((source, path), written) in &objects {
            take_in(&mut anew, source, path, Some(written));
        }
        prop_assert_eq!(&graph, &anew);
        let oracle = Oracle(&objects);
        for node in NODES {
            for (kind, namespace, name) in every_object() {
                let path = format!("{namespace}/{name}");
                let expected = oracle.uses(node, kind, namespace, name);
                prop_assert_eq!(graph.has_object(node, kind, &path), expected, "{} {:?} {}", node, kind, path);
            }
            for path in ["n/p", "n/q", "m/p"] {
                let expected = oracle.pods_of(node).any(|(own, _)| own == path);
                prop_assert_eq!(graph.has_pod(node, path), expected);
            }
            for name in ["v", "w"] {
                let expected = oracle.volumes().any(|(own, volume)| own == name && oracle.uses_volume(node, volume));
                prop_assert_eq!(graph.has_volume(node, name), expected);
            }
            for name in ["t", "u"] {
                prop_assert_eq!(graph.has_attachment(node, name), oracle.is_of(node, ATTACHMENTS, name));
                prop_assert_eq!(graph.has_slice(node, name), oracle.is_of(node, SLICES, name));
            }
        }
    }
}

/// Every kind, namespace and name.
fn every_object() -> impl Iterator<Item = (ReferenceKind, &'static str, &'static str)> {
    let of_kind = |kind| {
        NAMESPACES
            .into_iter()
            .flat_map(move |namespace| NAMES.into_iter().map(move |name| (kind, namespace, name)))
    };
    KINDS.into_iter().flat_map(of_kind)
}
