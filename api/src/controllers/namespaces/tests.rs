//! Terminating namespaces, through the pipeline on one state machine in memory.

use orch_schema::json;

use super::*;
use crate::controllers::testing::{Fixture, event, pod};
use crate::follow::Follower;
use crate::request::Verb;

/// A namespace `n` with a config map in it.
async fn filled() -> Fixture {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    fixture.create("configmaps", "n", json!({"metadata": {"name": "c"}})).await;
    fixture
}

async fn run_for(fixture: &Fixture, seconds: u64) {
    let client = fixture.client();
    fixture.while_running(run(&client), seconds).await;
}

fn condition(fixture: &Fixture, kind: &str) -> [String; 3] {
    let namespace = fixture.read(NAMESPACES, "n");
    let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| found.text(field).to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_goes_with_its_content_and_no_other() {
    let fixture = filled().await;
    fixture.namespace("n-2").await;
    for at in 0..40 {
        fixture.create("configmaps", "n-2", json!({"metadata": {"name": format!("c-{at}")}})).await;
        fixture.create("secrets", "n", json!({"metadata": {"name": format!("s-{at}")}})).await;
    }
    fixture.delete(NAMESPACES, "n", json!({})).await;
    run_for(&fixture, 5).await;
    assert!(!fixture.exists(NAMESPACES, "n"));
    assert!(!fixture.exists("configmaps", "n/c"));
    assert!(fixture.state().collection("secrets").is_empty());
    assert!(fixture.exists(NAMESPACES, "n-2"));
    assert_eq!(fixture.state().collection("configmaps").len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_live_namespace_is_left_alone() {
    let fixture = filled().await;
    let before = fixture.state().applied();
    run_for(&fixture, 5).await;
    assert_eq!(fixture.state().applied(), before);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_seen_as_its_client_left_it_and_ends_well_within_half_a_second() {
    let fixture = filled().await;
    let client = fixture.client();
    let steps = async {
        let sleep = |time: Duration| fixture.store().sleep(time);
        sleep(Duration::from_secs(5)).await;
        fixture.delete(NAMESPACES, "n", json!({})).await;
        sleep(SETTLE).await;
        assert!(fixture.exists("configmaps", "n/c"));
        assert_eq!(fixture.read(NAMESPACES, "n")["status"], json!({"phase": "Terminating"}));
        sleep(Duration::from_millis(50)).await;
        assert!(!fixture.exists(NAMESPACES, "n"));
    };
    fixture.beside(run(&client), steps).await;
}

#[tokio::test(start_paused = true)]
async fn many_namespaces_end_side_by_side() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..5 * NAMESPACES_AT_ONCE).map(|at| format!("n-{at}")).collect();
    for name in &names {
        fixture.namespace(name).await;
    }
    let client = fixture.client();
    let steps = async {
        for name in &names {
            fixture.delete(NAMESPACES, name, json!({})).await;
        }
        fixture.store().sleep(Duration::from_millis(250)).await;
        assert!(names.iter().all(|name| !fixture.exists(NAMESPACES, name)));
    };
    fixture.beside(run(&client), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_content_hangs_delays_no_other() {
    let fixture = Fixture::hanging();
    for name in ["n", "m"] {
        fixture.namespace(name).await;
    }
    fixture.create("configmaps", "n", json!({"metadata": {"name": "hung"}})).await;
    let client = fixture.client();
    let steps = async {
        fixture.delete(NAMESPACES, "n", json!({})).await;
        fixture.store().sleep(Duration::from_millis(100)).await;
        fixture.delete(NAMESPACES, "m", json!({})).await;
        fixture.store().sleep(Duration::from_millis(100)).await;
    };
    fixture.beside(run(&client), steps).await;
    assert_eq!((fixture.exists(NAMESPACES, "n"), fixture.exists(NAMESPACES, "m")), (true, false));
}

#[test]
fn the_next_pass_waits_longer_the_more_is_left() {
    assert_eq!([0, 10, 10_000].map(delay), [0, 200, 200_000].map(Duration::from_micros));
}

#[tokio::test]
async fn a_second_delete_changes_nothing() {
    let fixture = filled().await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    let before = fixture.read(NAMESPACES, "n");
    assert!(!before["metadata"].has("deletionGracePeriodSeconds"), "a namespace has no time to end in");
    fixture.advance(Duration::from_secs(60));
    fixture.delete(NAMESPACES, "n", json!({})).await;
    assert_eq!(fixture.read(NAMESPACES, "n"), before);
}

#[tokio::test(start_paused = true)]
async fn held_content_holds_the_namespace_and_is_reported() {
    let fixture = filled().await;
    let hold = |name: &str| json!({"metadata": {"name": name, "finalizers": ["example.com/hold"]}});
    fixture.create("configmaps", "n", hold("held")).await;
    fixture.create("secrets", "n", hold("held")).await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    run_for(&fixture, 5).await;
    assert!(!fixture.exists("configmaps", "n/c"));
    assert!(fixture.read("secrets", "n/held")["metadata"].has("deletionTimestamp"));
    assert_eq!(
        condition(&fixture, "NamespaceContentRemaining"),
        [
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances, secrets. has 1 resource instances"
        ]
    );
    assert_eq!(
        condition(&fixture, "NamespaceFinalizersRemaining"),
        [
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances"
        ]
    );
    let before = fixture.state().applied();
    run_for(&fixture, 30).await;
    assert_eq!(fixture.state().applied(), before, "waiting writes nothing");
    let client = fixture.client();
    let steps = async {
        for resource in ["configmaps", "secrets"] {
            fixture.merge(resource, "n/held", json!({"metadata": {"finalizers": null}})).await;
        }
        fixture.store().sleep(Duration::from_secs(2)).await;
    };
    fixture.beside(run(&client), steps).await;
    assert!(!fixture.exists(NAMESPACES, "n"));
}

#[tokio::test(start_paused = true)]
async fn pods_end_before_anything_else_does() {
    let fixture = filled().await;
    let mut held = pod("p");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    fixture.create("pods", "n", held).await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    run_for(&fixture, 5).await;
    assert!(fixture.exists("configmaps", "n/c"));
    assert_eq!(
        condition(&fixture, "NamespaceContentRemaining")[2],
        "Some resources are remaining: pods. has 1 resource instances"
    );
    fixture.merge("pods", "n/p", json!({"metadata": {"finalizers": null}})).await;
    run_for(&fixture, 5).await;
    assert!(!fixture.exists(NAMESPACES, "n"));
}

#[tokio::test(start_paused = true)]
async fn nothing_new_comes_into_a_namespace_that_ends_but_what_is_there_can_change() {
    let fixture = filled().await;
    let hold = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    fixture.create("secrets", "n", hold).await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    for _ in 0..2 {
        for storage in ["configmaps", "pods", "events"] {
            let mut object = pod("new");
            if storage == "events" {
                object = event("n", "new");
            }
            let sent = fixture.send(Verb::Create, storage, "n/", "application/json", &object).await;
            let told = sent.err().map(|error| error.to_string()).unwrap_or_default();
            let expected = "unable to create new content in namespace n because it is being terminated";
            assert!(told.ends_with(expected), "{storage}: {told}");
        }
        fixture.merge("secrets", "n/held", json!({"data": {"k": "dg=="}})).await;
        run_for(&fixture, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_go_in_bounded_passes_under_leaders_that_change() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let objects = 3 * BATCH_MAX + 7;
    for at in 0..objects {
        fixture.create("configmaps", "n", json!({"metadata": {"name": format!("c-{at}")}})).await;
    }
    fixture.delete(NAMESPACES, "n", json!({})).await;
    let state = fixture.state();
    let resources = content::resources(&fixture.client().registry());
    assert_eq!(content::doomed(&state, &resources, "n", BATCH_MAX).len(), BATCH_MAX);
    let mut left = objects;
    for _ in 0..objects {
        let client = fixture.client();
        let lead = fixture.store().sleep(2 * SETTLE);
        fixture.beside(run(&client), lead).await;
        let now = fixture.state().collection("configmaps").len();
        assert!(now < left || now == 0, "each leader gets on");
        left = now;
        if !fixture.exists(NAMESPACES, "n") {
            break;
        }
    }
    assert_eq!((left, fixture.exists(NAMESPACES, "n")), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_dependents_of_its_own_waits_for_their_owner_reference() {
    let fixture = filled().await;
    fixture.delete(NAMESPACES, "n", json!({"orphanDependents": false})).await;
    run_for(&fixture, 5).await;
    assert!(!fixture.exists("configmaps", "n/c"), "its content goes");
    let namespace = fixture.read(NAMESPACES, "n");
    assert_eq!(namespace["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(!namespace["spec"].has("finalizers"), "ours is gone: the collector has the last word");
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_keep_the_namespace_without_ours() {
    let fixture = Fixture::new();
    let own = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/own"]}});
    fixture.create(NAMESPACES, "", own).await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    run_for(&fixture, 5).await;
    assert_eq!(fixture.read(NAMESPACES, "n")["spec"]["finalizers"], json!(["example.com/own"]));
    assert_eq!(condition(&fixture, "NamespaceContentRemaining")[1], "ContentRemoved");
}

#[tokio::test(start_paused = true)]
async fn content_that_nothing_serves_is_reported_and_kept() {
    let fixture = filled().await;
    fixture.put_raw("widgets.example", "n", "w").await;
    fixture.delete(NAMESPACES, "n", json!({})).await;
    run_for(&fixture, 5).await;
    assert!(fixture.exists("widgets.example", "n/w"));
    assert_eq!(
        condition(&fixture, "NamespaceDeletionDiscoveryFailure"),
        ["True", "DiscoveryFailed", "Discovery failed for some groups, 1 failing: widgets.example"]
    );
}

#[tokio::test]
async fn a_namespace_is_found_again_when_history_is_lost() {
    let fixture = filled().await;
    let mut follower =
        Follower::new(Work::new(&fixture.client().registry(), Duration::ZERO), &fixture.applied());
    let work = follower.value();
    assert!(work.terminating.is_empty());
    fixture.delete(NAMESPACES, "n", json!({})).await;
    fixture.forget_history();
    let work = follower.advance(&fixture.applied());
    assert_eq!(work.terminating.len(), 1);
    assert!(work.queue.wait().is_some());
    fixture.remove_by_force(NAMESPACES, "n").await;
    let work = follower.advance(&fixture.applied());
    assert!(work.terminating.is_empty());
}
