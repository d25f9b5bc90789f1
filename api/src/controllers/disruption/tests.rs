//! Counting over stored pods and what controls them.

use std::time::Duration;

use orch_rules::selector::LabelSelector;

use super::*;
use crate::controllers::testing::Fixture;
use crate::follow::Follower;
use crate::selector::SelectorRoom;

const REPLICA_SETS: &str = "replicasets.apps";
const DEPLOYMENTS: &str = "deployments.apps";

fn workload(name: &str, replicas: i64) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}
            }
        }
    })
}

fn owned(mut object: Value, kind: &str, name: &str, uid: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true});
    set(child_mut(&mut object, "metadata"), "ownerReferences", json!([owner]));
    object
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    })
}

fn budget(name: &str, mut spec: Value) -> Value {
    set(&mut spec, "selector", json!({"matchLabels": {"a": "b"}}));
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Stores a pod that is ready.
async fn ready(fixture: &Fixture, pod: Value) {
    let name = pod.at("metadata").text("name").to_owned();
    fixture.create(PODS, "n", pod).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let resource = fixture.client().stored_resource(PODS).unwrap();
    let place = Place { resource: &resource, path: &format!("n/{name}") };
    fixture.client().patch(place, Action::Status, &status).await.unwrap();
}

fn numbers(fixture: &Fixture, name: &str) -> [i64; 4] {
    let budget = fixture.read(BUDGETS, &format!("n/{name}"));
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| budget.at("status").int(field).unwrap_or(-1))
}

async fn settled() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_follows_its_pods_and_the_scale_of_their_deployment() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let deployment = fixture.create(DEPLOYMENTS, "n", workload("d", 4)).await;
    let set_of = owned(workload("r", 2), "Deployment", "d", &deployment);
    let replica_set = fixture.create(REPLICA_SETS, "n", set_of).await;
    fixture.create(BUDGETS, "n", budget("number", json!({"minAvailable": 2}))).await;
    fixture.create(BUDGETS, "n", budget("share", json!({"maxUnavailable": "50%"}))).await;
    let controlled = |name: &str| owned(pod(name), "ReplicaSet", "r", &replica_set);
    let steps = async {
        settled().await;
        assert_eq!(numbers(&fixture, "number"), [0, 2, 0, 0]);
        for name in ["p", "q", "s"] {
            ready(&fixture, controlled(name)).await;
        }
        settled().await;
        assert_eq!(numbers(&fixture, "number"), [3, 2, 3, 1]);
        assert_eq!(numbers(&fixture, "share"), [4, 2, 3, 1], "the deployment wants four");
        fixture.merge(DEPLOYMENTS, "n/d", json!({"spec": {"replicas": 6}})).await;
        settled().await;
        assert_eq!(numbers(&fixture, "share"), [6, 3, 3, 0]);
        fixture.delete(PODS, "n/p", json!({})).await;
        settled().await;
        assert_eq!(numbers(&fixture, "number"), [3, 2, 2, 0], "a pod that is being deleted does not count");
        let written = fixture.state().applied();
        settled().await;
        assert_eq!(fixture.state().applied(), written, "nothing is written without need");
    };
    fixture.beside(run(&fixture.client()), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_whose_pods_cannot_be_counted_allows_nothing_and_says_why() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    fixture.create(BUDGETS, "n", budget("b", json!({"minAvailable": "1%"}))).await;
    ready(&fixture, owned(pod("p"), "ReplicaSet", "gone", "u")).await;
    let steps = async {
        settled().await;
        let status = fixture.read(BUDGETS, "n/b").at("status").clone();
        let condition = &status.items("conditions")[0];
        assert_eq!(condition.text("reason"), "SyncFailed");
        assert_eq!(condition.text("message"), "found no controllers for pod \"p\"");
        assert_eq!(status.int("disruptionsAllowed"), Some(0));
    };
    fixture.beside(run(&fixture.client()), steps).await;
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_that_stays_counts_again_after_two_minutes() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    fixture.create(BUDGETS, "n", budget("b", json!({"minAvailable": 1}))).await;
    ready(&fixture, pod("p")).await;
    ready(&fixture, pod("q")).await;
    let steps = async {
        settled().await;
        assert_eq!(numbers(&fixture, "b"), [2, 1, 2, 1]);
        let resource = fixture.client().stored_resource(BUDGETS).unwrap();
        let place = Place { resource: &resource, path: "n/b" };
        let taken =
            json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"p": fixture.client().now_text()}}});
        fixture.client().patch(place, Action::Status, &taken).await.unwrap();
        settled().await;
        assert_eq!(numbers(&fixture, "b"), [2, 1, 1, 0]);
        fixture.advance(Duration::from_secs(121));
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert_eq!(numbers(&fixture, "b"), [2, 1, 2, 1]);
        assert!(!fixture.read(BUDGETS, "n/b").at("status").has("disruptedPods"));
    };
    fixture.beside(run(&fixture.client()), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_thousands_of_requirements_is_parsed_once_and_other_tasks_run_between_budgets() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let requirements: Vec<Value> = (0..20_000).map(|_| json!({"key": "a", "operator": "Exists"})).collect();
    for at in 0..3 {
        let mut large = budget(&format!("b{at}"), json!({"minAvailable": 1}));
        set(child_mut(child_mut(&mut large, "spec"), "selector"), "matchExpressions", requirements.clone());
        fixture.create(BUDGETS, "n", large).await;
    }
    ready(&fixture, pod("p")).await;
    let follower = Follower::new(Budgets::new(&fixture.client().registry()), &fixture.applied());
    let budgets = follower.value();
    let kept = &budgets.by_namespace["n"];
    let one = LabelSelector::parse("a=b").unwrap();
    assert!(
        kept.values().all(|budget| budget.selection == Selection::By(one.clone())),
        "one condition for each label"
    );
    assert!(kept.values().all(|budget| budget.counted.to_string().len() < 1000));
    assert!(
        kept.values().all(|budget| u32::try_from(budget.bytes).unwrap() > CONCURRENT_BYTES_MAX / 2),
        "written one by one"
    );
    let (client, room) = (fixture.client(), Room::new());
    let counts = kept
        .iter()
        .map(|(path, budget)| count(&client, room.clone(), fixture.state(), path.clone(), budget.clone()));
    let mut counting = Box::pin(futures::future::join_all(counts));
    let mut pauses = 0;
    while futures::poll!(&mut counting).is_pending() {
        pauses += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(pauses >= 3, "{pauses}");
    assert_eq!(numbers(&fixture, "b2"), [1, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_whose_selector_is_not_held_is_counted_now_and_then() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    fixture.create(BUDGETS, "n", budget("b", json!({"minAvailable": 1}))).await;
    ready(&fixture, pod("p")).await;
    let mut empty = Budgets::new(&fixture.client().registry());
    empty.room = SelectorRoom::of(1);
    let mut follower = Follower::new(empty, &fixture.applied());
    let is_held = |budgets: &Budgets| matches!(budgets.find("n/b").unwrap().selection, Selection::By(_));
    assert!(!is_held(follower.value()));
    let (client, path) = (fixture.client(), Arc::from("n/b"));
    let budget = follower.value_mut().take(&fixture.state(), &path).unwrap();
    let counted = count(&client, Room::new(), fixture.state(), path.clone(), budget).await.unwrap();
    assert_eq!(numbers(&fixture, "b"), [1, 1, 1, 0]);
    assert_eq!(counted.again, Some(NOT_HELD_RECHECK), "its pods are looked at again without a change of it");
    let budgets = follower.advance(&fixture.applied());
    budgets.take(&fixture.state(), &path).unwrap();
    assert!(!is_held(budgets), "there is no room yet");
    budgets.room = SelectorRoom::default();
    budgets.take(&fixture.state(), &path).unwrap();
    assert!(is_held(budgets));
    fixture.delete(BUDGETS, "n/b", json!({})).await;
    assert_eq!(follower.advance(&fixture.applied()).room.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_ends_holds_up_no_other_budget() {
    let fixture = Fixture::hanging();
    for namespace in ["stuck", "n"] {
        fixture.namespace(namespace).await;
        fixture.create(BUDGETS, namespace, budget("b", json!({"minAvailable": 1}))).await;
    }
    let steps = async {
        settled().await;
        assert_eq!(numbers(&fixture, "b"), [0, 1, 0, 0]);
        fixture.create(PODS, "n", pod("p")).await;
        settled().await;
        assert_eq!(numbers(&fixture, "b"), [1, 1, 0, 0]);
    };
    fixture.beside(run(&fixture.client()), steps).await;
}

#[test]
fn the_wait_for_an_evicted_pod_is_bounded_whatever_the_time_of_day() {
    let status = json!({"disruptedPods": {"p": "2026-01-02T03:04:05Z"}});
    let at = recheck_time(&status).unwrap();
    for (now, wait) in [(at - 7, 7), (at, 1), (at + 1_000_000, 1), (at - 1_000_000, 121), (i64::MIN, 121)] {
        assert_eq!(recheck_wait(&status, now), Some(Duration::from_secs(wait)), "{now}");
    }
    assert_eq!(recheck_wait(&json!({}), at), None);
}
