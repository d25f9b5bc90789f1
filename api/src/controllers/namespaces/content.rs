//! The content of a namespace: objects still to be deleted, and objects that wait for a finalizer or grace period.
//!
//! Owns the order: pods are gone before anything they depend on (network policies, secrets) is touched. Everything here
//! is a function of one state.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use orch_raft::State;
use orch_raft::object::SharedObject;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::conditions::Findings;
use crate::registry::{Registry, Resource};

/// The storage resource that is deleted first.
const PODS: &str = "pods";

/// Objects of a resource that one pass looks at to count finalizers.
const DECODED_MAX: usize = 1000;

/// An object to delete, which is not terminating yet.
#[derive(Clone, Debug)]
pub(super) struct ObjectToDelete {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// `namespace/name`.
    pub path: Arc<str>,
    /// Its uid.
    pub uid: String,
}

/// The namespaced resources, one for each storage resource, pods first.
pub(super) fn resources(registry: &Registry) -> Vec<Arc<Resource>> {
    let stored = registry.stored_resources().filter(|resource| resource.namespaced);
    let mut by_storage: BTreeMap<(bool, Arc<str>), Arc<Resource>> = BTreeMap::new();
    for resource in stored {
        let key = (*resource.storage != *PODS, resource.storage.clone());
        by_storage.entry(key).or_insert_with(|| resource.clone());
    }
    by_storage.into_values().collect()
}

/// The objects to delete now, at most `most`: pods, and the others once no pod is left.
pub(super) fn doomed(
    state: &State,
    resources: &[Arc<Resource>],
    namespace: &str,
    most: usize,
) -> Vec<ObjectToDelete> {
    let mut doomed = Vec::new();
    for resource in resources {
        let collection = state.collection(&resource.storage);
        let live = collection.within(namespace, "").filter(|(_, object)| !object.index.terminating);
        doomed.extend(live.take(most - doomed.len()).map(|(path, object)| ObjectToDelete {
            resource: resource.clone(),
            path: path.clone(),
            uid: object.index.uid.clone(),
        }));
        if *resource.storage == *PODS && collection.within(namespace, "").next().is_some() {
            break;
        }
    }
    doomed
}

/// The content that remains. While there are pods, only pods are reported.
pub(super) fn findings(state: &State, resources: &[Arc<Resource>], namespace: &str) -> Findings {
    let mut findings = Findings::default();
    for resource in resources {
        let collection = state.collection(&resource.storage);
        let count = collection.within(namespace, "").count();
        if count == 0 {
            continue;
        }
        findings.remaining.insert(format!("{}.{}", resource.plural, resource.group), count);
        for (_, object) in collection.within(namespace, "").take(DECODED_MAX) {
            for finalizer in finalizers(object) {
                *findings.finalizers.entry(finalizer).or_default() += 1;
            }
        }
        if *resource.storage == *PODS {
            return findings;
        }
    }
    let served: HashSet<&str> = resources.iter().map(|resource| &*resource.storage).collect();
    let left = state.collections().filter(|(storage, collection)| {
        // set: of names.
        !served.contains(&***storage) && collection.within(namespace, "").next().is_some()
    });
    findings.unserved = left.map(|(storage, _)| storage.to_string()).collect();
    findings
}

fn finalizers(object: &SharedObject) -> Vec<String> {
    // A finalizer holds only terminating objects; the others are still to be deleted.
    if !object.index.terminating {
        return Vec::new();
    }
    let decoded: Value = serde_json::from_slice(&object.json).unwrap_or_default();
    decoded.at("metadata").texts("finalizers").into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::{Fixture, pod};
    use orch_proto::brand::ORCH;

    use orch_schema::json;

    async fn filled() -> (Fixture, Vec<Arc<Resource>>) {
        let fixture = Fixture::new();
        for namespace in ["n", "n-other"] {
            fixture.namespace(namespace).await;
            fixture.create("configmaps", namespace, json!({"metadata": {"name": "c"}})).await;
        }
        (fixture, resources(&Registry::builtin(&ORCH)))
    }

    fn paths(fixture: &Fixture, resources: &[Arc<Resource>], most: usize) -> Vec<String> {
        let doomed = doomed(&fixture.state(), resources, "n", most);
        doomed.into_iter().map(|doomed| format!("{}:{}", doomed.resource.plural, doomed.path)).collect()
    }

    #[test]
    fn every_namespaced_place_is_looked_at_once_and_pods_first() {
        let resources = resources(&Registry::builtin(&ORCH));
        assert_eq!(&*resources[0].storage, PODS);
        let events: Vec<_> = resources.iter().filter(|resource| resource.plural == "events").collect();
        assert_eq!((events.len(), events[0].group.as_str()), (1, ""));
        assert!(resources.iter().all(|resource| resource.namespaced));
        assert!(resources.len() > 10);
    }

    #[tokio::test]
    async fn only_this_namespace_is_emptied_and_in_batches() {
        let (fixture, resources) = filled().await;
        fixture.create("configmaps", "n", json!({"metadata": {"name": "d"}})).await;
        assert_eq!(paths(&fixture, &resources, 10), ["configmaps:n/c", "configmaps:n/d"]);
        assert_eq!(paths(&fixture, &resources, 1), ["configmaps:n/c"]);
        let findings = findings(&fixture.state(), &resources, "n");
        assert_eq!(findings.remaining, [("configmaps.".to_owned(), 2)].into());
    }

    #[tokio::test]
    async fn nothing_else_is_touched_while_a_pod_is_left() {
        let (fixture, resources) = filled().await;
        let mut held = pod("p");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        fixture.create("pods", "n", held).await;
        assert_eq!(paths(&fixture, &resources, 10), ["pods:n/p"]);
        fixture.delete("pods", "n/p", json!({"gracePeriodSeconds": 0})).await;
        assert!(paths(&fixture, &resources, 10).is_empty());
        let found = findings(&fixture.state(), &resources, "n");
        assert_eq!(found.remaining, [("pods.".to_owned(), 1)].into());
        assert_eq!(found.finalizers, [("example.com/hold".to_owned(), 1)].into());
        fixture.merge("pods", "n/p", json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(paths(&fixture, &resources, 10), ["configmaps:n/c"]);
    }

    #[tokio::test]
    async fn content_that_nothing_serves_is_found() {
        let (fixture, resources) = filled().await;
        fixture.put_raw("widgets.example", "n", "w").await;
        assert_eq!(findings(&fixture.state(), &resources, "n").unserved, ["widgets.example"]);
        assert!(findings(&fixture.state(), &resources, "other").unserved.is_empty());
    }
}
