//! The graph against a slow and obvious oracle, on random pods and volumes.
//!
//! Owns the random changes: small alphabets, so that objects share what they refer to. After each sequence of changes the
//! graph must equal one that is derived anew, and answer every question as a search of all objects does; so must the search
//! of the stored objects, which decides where there are too many relations.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::object::{Index, Object, SharedObject};
use orch_raft::{Change, Key, Operation, Put, Revision, Store, Transaction};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::graph::{Graph, PODS, VOLUMES};
use super::pod::ReferenceKind;
use super::search::{claim_of, node_of};
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
}

/// Source and path of what is written, or removed.
type Step = (&'static str, &'static str, Option<Written>);

impl Written {
    fn json(&self) -> Json {
        match self {
            Written::Pod(pod) => pod.json(),
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
    prop_oneof![
        4 => (at(&["n/p", "n/q", "m/p"]), gone(pod().boxed())).prop_map(|(path, new)| (PODS, path, new)),
        2 => (at(&["v", "w"]), gone(volume().boxed())).prop_map(|(path, new)| (VOLUMES, path, new)),
    ]
}

fn stored(written: &Written) -> SharedObject {
    stored_json(&written.json())
}

fn stored_json(json: &Json) -> SharedObject {
    Arc::new(Object {
        revision: Revision(1),
        created: Revision(1),
        written_ms: 0,
        json: json.to_string().into(),
        revision_at: 0,
        index: Index::default(),
        protobuf: OnceLock::new(),
    })
}

fn take_in(graph: &mut Graph, source: &str, path: &str, old: Option<&Written>, new: Option<&Written>) {
    let (old, new) = (old.map(stored), new.map(stored));
    let change = Change { revision: Revision(1), time_ms: 0, path: path.into(), old, new };
    graph.change(&source.into(), &change);
}

/// A store of `objects`.
fn store_of(objects: &Objects) -> MemoryStore {
    let store = MemoryStore::default();
    for ((source, path), written) in objects {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        let key = Key::new(&(*source).into(), namespace, name).expect("a good name");
        let json = format!(r#"{{"resourceVersion":"",{}"#, &written.json().to_string()[1..]);
        let put = Put { key, json: json.into(), revision_at: 20, index: Index::default() };
        let operations = vec![Operation::Put(put)];
        let proposed = store.propose(Transaction { proposed_ms: 0, conditions: Vec::new(), operations });
        proposed.now_or_never().expect("it waits for nobody").expect("it is applied");
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_equals_one_derived_anew_and_a_search(steps in prop::collection::vec(step(), 0..9)) {
        let mut graph = Graph::new(&ORCH);
        let mut objects = Objects::new();
        for (source, path, new) in &steps {
            take_in(&mut graph, source, path, objects.get(&(*source, *path)), new.as_ref());
            match new {
                Some(new) => objects.insert((*source, *path), new.clone()),
                None => objects.remove(&(*source, *path)),
            };
        }
        let state = store_of(&objects).state();
        let mut anew = Graph::new(&ORCH);
        anew.rebuild(&state);
        prop_assert_eq!(&graph, &anew);
        let mut full = Graph::with_room(&ORCH, 0);
        full.rebuild(&state);
        let oracle = Oracle(&objects);
        for node in NODES {
            for (kind, namespace, name) in every_object() {
                let path = format!("{namespace}/{name}");
                let expected = oracle.uses(node, kind, namespace, name);
                for graph in [&graph, &full] {
                    let found = graph.has_object(&state, node, kind, &path);
                    prop_assert_eq!(found, expected, "{} {:?} {}", node, kind, path);
                }
            }
            for path in ["n/p", "n/q", "m/p"] {
                let expected = oracle.pods_of(node).any(|(own, _)| own == path);
                prop_assert_eq!(node_of(&state, PODS, path).is_some_and(|of| of == node), expected);
            }
            for name in ["v", "w"] {
                let expected = oracle.volumes().any(|(own, volume)| own == name && oracle.uses_volume(node, volume));
                let claim = claim_of(&state, name).unwrap_or_default();
                prop_assert_eq!(graph.has_object(&state, node, ReferenceKind::VolumeClaim, &claim), expected);
            }
        }
    }
}

/// A graph of `nodes` nodes, each with `pods` pods that refer to `own` secrets each and to one account, and the bytes of
/// those pods.
fn graph_of(nodes: usize, pods: usize, own: usize, padding: usize) -> (Graph, usize) {
    let (mut graph, mut stored_bytes) = (Graph::new(&ORCH), 0);
    let padding = "x".repeat(padding);
    for (node, pod) in (0..nodes).flat_map(|node| (0..pods).map(move |pod| (node, pod))) {
        let secrets: Vec<Json> =
            (0..own).map(|at| json!({"secretRef": {"name": format!("{at}-{pod}")}})).collect();
        let json = json!({
            "metadata": {"annotations": {"padding": padding}},
            "spec": {
                "nodeName": format!("n{node}"), "serviceAccountName": "default",
                "containers": [{"envFrom": secrets}],
                "volumes": [{"persistentVolumeClaim": {"claimName": format!("c{pod}")}}],
            },
        });
        let object = stored_json(&json);
        stored_bytes += object.json.len();
        let path = format!("n/p{node}-{pod}");
        let change =
            Change { revision: Revision(1), time_ms: 0, path: path.into(), old: None, new: Some(object) };
        graph.change(&PODS.into(), &change);
    }
    (graph, stored_bytes)
}

/// The figures of docs/performance.md. A table is between seven sixteenths and seven eighths full.
#[test]
fn a_relation_takes_48_bytes_at_most() {
    let (usual, stored_bytes) = graph_of(50, 110, 4, 4000);
    let (count, bytes) = (usual.count().unwrap(), usual.bytes());
    eprintln!("usual pods: {count} relations in {bytes} bytes, {stored_bytes} bytes of pods");
    assert!(bytes * 20 < stored_bytes, "more than a twentieth of the pods");
    for own in [1_000, 2_000] {
        let (hostile, stored_bytes) = graph_of(10, 10, own, 0);
        let (count, bytes) = (hostile.count().unwrap(), hostile.bytes());
        eprintln!(
            "{own} short references a pod: {count} relations in {bytes} bytes, {stored_bytes} bytes of pods"
        );
        assert!(count >= own * 100 && bytes <= count * 48 + (64 << 10));
    }
}

#[test]
fn ten_thousand_pods_that_go_leave_their_room() {
    let mut graph = Graph::new(&ORCH);
    let empty = graph.bytes();
    let pods: Vec<_> = (0..10_000)
        .map(|at| {
            let secret = json!([{"secretRef": {"name": format!("s{at}")}}]);
            let volumes = json!([{"persistentVolumeClaim": {"claimName": format!("c{at}")}}]);
            let spec = json!({
                "nodeName": format!("n{}", at % 7), "serviceAccountName": "default",
                "containers": [{"envFrom": secret}], "volumes": volumes,
            });
            (format!("n/p{at}"), stored_json(&json!({"spec": spec})))
        })
        .collect();
    let mut change = |path: &str, old: Option<SharedObject>, new: Option<SharedObject>| {
        let change = Change { revision: Revision(1), time_ms: 0, path: path.into(), old, new };
        graph.change(&PODS.into(), &change);
        graph.bytes()
    };
    let full = pods.iter().map(|(path, pod)| change(path, None, Some(pod.clone()))).last().unwrap();
    let after = pods.iter().map(|(path, pod)| change(path, Some(pod.clone()), None)).last().unwrap();
    assert!(full > 400_000 && after < empty + 20_000, "{full}, {after}");
}

#[test]
fn too_many_relations_are_not_held_and_are_again_when_there_are_fewer() {
    let mut graph = Graph::with_room(&ORCH, 3);
    let pod = |names: &[&'static str]| {
        let references = names.iter().map(|name| (ReferenceKind::Secret, *name)).collect();
        Written::Pod(Pod { node: "a", is_mirror: false, references })
    };
    let (few, many) = (pod(&["x"]), pod(&["x", "y", "z", "p-v"]));
    take_in(&mut graph, PODS, "n/p", None, Some(&few));
    assert_eq!(graph.count(), Some(1));
    take_in(&mut graph, PODS, "n/p", Some(&few), Some(&many));
    assert_eq!((graph.count(), graph.bytes()), (None, 0));
    let state = |written: &Written| store_of(&Objects::from([((PODS, "n/p"), written.clone())])).state();
    assert!(graph.has_object(&state(&many), "a", ReferenceKind::Secret, "n/z"), "searched");
    assert!(!graph.has_object(&state(&many), "b", ReferenceKind::Secret, "n/z"));
    graph.rebuild(&state(&few));
    assert_eq!(graph.count(), Some(1));
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
