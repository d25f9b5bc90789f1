//! Every case of the rules, on states written by the pipeline.

use orch_proto::brand::ORCH;

use super::*;
use crate::controllers::garbage::graph::Watched;
use crate::controllers::testing::{Fixture, owned};
use crate::follow::{Applied, Follower};

/// The decision on `storage:path`, as text.
fn decided(fixture: &Fixture, object: &str) -> Vec<String> {
    let (storage, path) = object.split_once(':').unwrap();
    let registry = Registry::builtin(&ORCH);
    let mut storages: Vec<Arc<str>> = registry.resources().map(|resource| resource.storage.clone()).collect();
    storages.dedup();
    let state = fixture.state();
    let watched =
        Follower::new(Watched::new(storages, std::time::Duration::ZERO), &Applied::certain(state.clone()));
    let graph = &watched.value().graph;
    let owners = RemoteOwners::default();
    let holds = Holds::default();
    let (now, now_ms) = (std::time::Duration::ZERO, fixture.now_ms());
    let view =
        View { state: &state, graph, registry: &registry, owners: &owners, holds: &holds, now, now_ms };
    let object = ObjectRef { storage: storage.into(), path: path.into() };
    let Decision { actions, look, .. } = view.decide(&object).unwrap();
    let actions = actions.into_iter().map(|action| match action.write {
        Write::Delete(propagation, _) => format!("delete {} {propagation:?}", action.object.path),
        Write::Metadata(fields) => format!("{} {fields}", action.object.path),
    });
    actions.chain(look.into_iter().map(|object| format!("look {}", object.path))).collect()
}

/// Two config maps `n/o` and `n/p` to be owners, and their uids.
async fn owners() -> (Fixture, String, String) {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let first = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
    let second = fixture.create("configmaps", "n", json!({"metadata": {"name": "p"}})).await;
    (fixture, first, second)
}

/// Checks the decision on a secret with these owners.
async fn check_owners(fixture: &Fixture, owners: &[(&str, &str, &str)], expected: &[&str]) {
    fixture.create("secrets", "n", owned("d", owners)).await;
    assert_eq!(decided(fixture, "secrets:n/d"), expected, "{owners:?}");
    fixture.remove_by_force("secrets", "n/d").await;
}

fn foreground() -> Value {
    json!({"propagationPolicy": "Foreground"})
}

#[tokio::test]
async fn an_owner_is_there_only_under_its_own_coordinates() {
    let (fixture, o, _) = owners().await;
    let node = fixture.create("nodes", "", json!({"metadata": {"name": "node"}})).await;
    let gone = ["delete n/d Background"];
    check_owners(&fixture, &[("ConfigMap", "o", &o)], &[]).await;
    check_owners(&fixture, &[("Node", "node", &node)], &[]).await;
    check_owners(&fixture, &[("ConfigMap", "o", "another-uid")], &gone).await;
    check_owners(&fixture, &[("ConfigMap", "another-name", &o)], &gone).await;
    check_owners(&fixture, &[("Secret", "o", &o)], &gone).await;
    check_owners(&fixture, &[("Node", "o", &o)], &gone).await;
    check_owners(&fixture, &[("Nonesuch", "o", &o)], &[]).await;
    check_owners(&fixture, &[("Nonesuch", "o", &o), ("ConfigMap", "o", "gone")], &[]).await;
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_none() {
    let (fixture, o, _) = owners().await;
    fixture.namespace("m").await;
    fixture.create("secrets", "m", owned("d", &[("ConfigMap", "o", &o)])).await;
    assert_eq!(decided(&fixture, "secrets:m/d"), ["delete m/d Background"]);
}

#[tokio::test]
async fn a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() {
    let (fixture, o, _) = owners().await;
    fixture.create("nodes", "", owned("d", &[("ConfigMap", "o", &o)])).await;
    fixture.create("nodes", "", owned("e", &[("ConfigMap", "o", "gone"), ("Node", "x", "gone")])).await;
    fixture.create("nodes", "", owned("f", &[("Node", "x", "gone")])).await;
    assert!(decided(&fixture, "nodes:d").is_empty());
    assert!(decided(&fixture, "nodes:e").is_empty());
    assert_eq!(decided(&fixture, "nodes:f"), ["delete f Background"]);
}

#[tokio::test]
async fn a_live_owner_keeps_the_dependent_and_references_to_the_others_go() {
    let (fixture, o, p) = owners().await;
    let kept = |uid: &str, name: &str| {
        let left = owned("d", &[("ConfigMap", name, uid)])["metadata"]["ownerReferences"].clone();
        format!("n/d {}", json!({"ownerReferences": left}))
    };
    check_owners(&fixture, &[("ConfigMap", "o", &o), ("ConfigMap", "p", &p)], &[]).await;
    check_owners(&fixture, &[("ConfigMap", "o", &o), ("ConfigMap", "x", "gone")], &[&kept(&o, "o")]).await;
    let dead = [("ConfigMap", "x", "gone"), ("Secret", "y", "gone-too")];
    check_owners(&fixture, &dead, &["delete n/d Background"]).await;
    fixture.create("secrets", "n", owned("block", &[("ConfigMap", "o", &o)])).await;
    fixture.delete("configmaps", "n/o", foreground()).await;
    let both = [("ConfigMap", "o", o.as_str()), ("ConfigMap", "p", p.as_str())];
    check_owners(&fixture, &both, &[&kept(&p, "p")]).await;
}

#[tokio::test]
async fn a_dependent_keeps_the_propagation_that_its_finalizers_ask_for() {
    let (fixture, ..) = owners().await;
    for (finalizer, propagation) in
        [("orphan", "Orphan"), ("foregroundDeletion", "Foreground"), ("example.com/x", "Background")]
    {
        let mut dependent = owned("d", &[("ConfigMap", "x", "gone")]);
        dependent["metadata"]["finalizers"] = json!([finalizer]);
        fixture.create("secrets", "n", dependent).await;
        assert_eq!(decided(&fixture, "secrets:n/d"), [format!("delete n/d {propagation}")]);
        fixture.remove_by_force("secrets", "n/d").await;
    }
}

#[tokio::test]
async fn dependents_that_are_being_deleted_are_not_deleted_again() {
    let (fixture, ..) = owners().await;
    let mut dependent = owned("d", &[("ConfigMap", "x", "gone")]);
    dependent["metadata"]["finalizers"] = json!(["example.com/x"]);
    fixture.create("secrets", "n", dependent).await;
    fixture.delete("secrets", "n/d", json!({})).await;
    assert!(decided(&fixture, "secrets:n/d").is_empty());
    assert!(decided(&fixture, "secrets:n/never-there").is_empty());
}

#[tokio::test]
async fn a_foreground_owner_waits_for_those_that_block_it() {
    let (fixture, o, _) = owners().await;
    fixture.create("secrets", "n", owned("blocks", &[("ConfigMap", "o", &o)])).await;
    let mut free = owned("free", &[("ConfigMap", "o", &o)]);
    free["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(false);
    fixture.create("secrets", "n", free).await;
    fixture.delete("configmaps", "n/o", foreground()).await;
    assert_eq!(decided(&fixture, "configmaps:n/o"), ["look n/blocks", "look n/free"]);
    assert_eq!(decided(&fixture, "secrets:n/blocks"), ["delete n/blocks Background"]);
    assert_eq!(decided(&fixture, "secrets:n/free"), ["delete n/free Background"]);
    fixture.remove_by_force("secrets", "n/blocks").await;
    assert_eq!(decided(&fixture, "configmaps:n/o"), [r#"n/o {"finalizers":[]}"#, "look n/free"]);
}

#[tokio::test]
async fn a_dependent_with_dependents_passes_the_foreground_on() {
    let (fixture, o, _) = owners().await;
    let middle = fixture.create("secrets", "n", owned("middle", &[("ConfigMap", "o", &o)])).await;
    fixture.create("secrets", "n", owned("leaf", &[("Secret", "middle", &middle)])).await;
    fixture.delete("configmaps", "n/o", foreground()).await;
    assert_eq!(decided(&fixture, "secrets:n/middle"), ["delete n/middle Foreground"]);
    assert!(decided(&fixture, "secrets:n/leaf").is_empty());
}

#[tokio::test]
async fn a_circle_is_broken_where_it_is_found() {
    let (fixture, o, _) = owners().await;
    let other = fixture.create("secrets", "n", owned("other", &[("ConfigMap", "o", &o)])).await;
    let back = owned("o", &[("Secret", "other", &other)])["metadata"]["ownerReferences"].clone();
    fixture.merge("configmaps", "n/o", json!({"metadata": {"ownerReferences": back}})).await;
    fixture.delete("configmaps", "n/o", foreground()).await;
    let first = decided(&fixture, "secrets:n/other");
    assert!(first[0].contains(r#""blockOwnerDeletion":false"#), "{first:?}");
    let unblocked = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": o}]);
    fixture.merge("secrets", "n/other", json!({"metadata": {"ownerReferences": unblocked}})).await;
    assert_eq!(decided(&fixture, "secrets:n/other"), ["delete n/other Foreground"]);
    assert_eq!(decided(&fixture, "configmaps:n/o")[0], r#"n/o {"finalizers":[]}"#);
}

#[tokio::test]
async fn an_owner_of_itself_does_not_wait_for_itself() {
    for policy in ["Foreground", "Orphan"] {
        let (fixture, o, _) = owners().await;
        let own = owned("o", &[("ConfigMap", "o", &o)])["metadata"]["ownerReferences"].clone();
        fixture.merge("configmaps", "n/o", json!({"metadata": {"ownerReferences": own}})).await;
        assert!(decided(&fixture, "configmaps:n/o").is_empty());
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": policy})).await;
        assert_eq!(decided(&fixture, "configmaps:n/o"), [r#"n/o {"finalizers":[]}"#]);
    }
}

#[tokio::test]
async fn orphans_lose_their_reference_before_the_owner_goes() {
    let (fixture, o, p) = owners().await;
    fixture.create("secrets", "n", owned("one", &[("ConfigMap", "o", &o)])).await;
    fixture.create("secrets", "n", owned("two", &[("ConfigMap", "o", &o), ("ConfigMap", "p", &p)])).await;
    fixture.merge("configmaps", "n/o", json!({"metadata": {"finalizers": ["example.com/x"]}})).await;
    fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Orphan"})).await;
    let left = owned("two", &[("ConfigMap", "p", &p)])["metadata"]["ownerReferences"].clone();
    let two = format!("n/two {}", json!({"ownerReferences": left}));
    assert_eq!(decided(&fixture, "configmaps:n/o"), [r#"n/one {"ownerReferences":[]}"#, &two]);
    fixture.remove_by_force("secrets", "n/one").await;
    fixture.remove_by_force("secrets", "n/two").await;
    assert_eq!(decided(&fixture, "configmaps:n/o"), [r#"n/o {"finalizers":["example.com/x"]}"#]);
}

#[tokio::test]
async fn an_owner_takes_a_bounded_number_of_actions() {
    let (fixture, o, _) = owners().await;
    for at in 0..=DEPENDENTS_MAX {
        fixture.create("configmaps", "n", owned(&format!("d-{at}"), &[("ConfigMap", "o", &o)])).await;
    }
    fixture.delete("configmaps", "n/o", foreground()).await;
    assert_eq!(decided(&fixture, "configmaps:n/o").len(), DEPENDENTS_MAX);
    fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!(decided(&fixture, "configmaps:n/o").len(), DEPENDENTS_MAX);
}
