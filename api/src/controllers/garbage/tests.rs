//! The collector, through the pipeline on one state machine in memory.

use std::sync::atomic::{AtomicBool, Ordering};

use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::decide::Write;
use super::ownership::Ownership;
use super::*;
use crate::controllers::client::{Place, Propagation};
use crate::controllers::testing::{Fixture, event, owned, pod};
use crate::pipeline::Answer;
use crate::request::Verb;
use crate::testing::{ProposalOutcome, ScriptedStore};

/// An owner `n/o` with dependents `n/d-0`.. in another resource, and its uid.
async fn family(size: usize) -> (Fixture, String) {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
    for at in 0..size {
        fixture.create("secrets", "n", owned(&format!("d-{at}"), &[("ConfigMap", "o", &uid)])).await;
    }
    (fixture, uid)
}

/// Runs the collector beside the deletion of the owner and for `seconds` more.
async fn delete_owner(fixture: &Fixture, options: Value, seconds: u64) {
    let client = fixture.client();
    let steps = async {
        fixture.delete("configmaps", "n/o", options).await;
        fixture.store().sleep(Duration::from_secs(seconds)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
}

async fn run_for(fixture: &Fixture, seconds: u64) {
    let client = fixture.client();
    fixture.while_running(run(&client, &Arc::default()), seconds).await;
}

fn policy(name: &str) -> Value {
    json!({"propagationPolicy": name})
}

#[tokio::test(start_paused = true)]
async fn background_takes_the_dependents_after_the_owner() {
    let (fixture, _) = family(600).await;
    fixture.create("secrets", "n", json!({"metadata": {"name": "stranger"}})).await;
    delete_owner(&fixture, policy("Background"), 3).await;
    assert!(!fixture.exists("configmaps", "n/o"));
    assert_eq!(fixture.state().collection("secrets").len(), 1);
    assert!(fixture.exists("secrets", "n/stranger"));
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_to_a_family_that_is_whole() {
    let (fixture, _) = family(10).await;
    let before = fixture.state().applied();
    run_for(&fixture, 10).await;
    assert_eq!(fixture.state().applied(), before);
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_owners_goes_link_by_link() {
    let (fixture, uid) = family(0).await;
    let mut owner = ("ConfigMap", "o".to_owned(), uid);
    for at in 0..4 {
        let name = format!("link-{at}");
        let link = owned(&name, &[(owner.0, &owner.1, &owner.2)]);
        owner = ("Secret", name, fixture.create("secrets", "n", link).await);
    }
    delete_owner(&fixture, json!({}), 10).await;
    assert!(fixture.state().collection("secrets").is_empty());
}

#[tokio::test(start_paused = true)]
async fn foreground_keeps_the_owner_until_its_dependents_are_gone() {
    let (fixture, _) = family(300).await;
    fixture.merge("secrets", "n/d-7", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    delete_owner(&fixture, policy("Foreground"), 5).await;
    assert_eq!(fixture.state().collection("secrets").len(), 1);
    assert_eq!(fixture.read("configmaps", "n/o")["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let client = fixture.client();
    let steps = async {
        fixture.merge("secrets", "n/d-7", json!({"metadata": {"finalizers": null}})).await;
        fixture.store().sleep(Duration::from_secs(3)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    assert!(!fixture.exists("configmaps", "n/o"));
}

#[tokio::test(start_paused = true)]
async fn foreground_goes_down_a_tree_leaves_first() {
    let (fixture, uid) = family(0).await;
    let middle = fixture.create("secrets", "n", owned("middle", &[("ConfigMap", "o", &uid)])).await;
    let mut leaf = owned("leaf", &[("Secret", "middle", &middle)]);
    leaf["metadata"]["finalizers"] = json!(["example.com/hold"]);
    fixture.create("secrets", "n", leaf).await;
    delete_owner(&fixture, policy("Foreground"), 10).await;
    for path in ["n/middle", "n/leaf"] {
        assert!(fixture.read("secrets", path)["metadata"].has("deletionTimestamp"), "{path}");
    }
    assert!(fixture.exists("configmaps", "n/o"));
    fixture.merge("secrets", "n/leaf", json!({"metadata": {"finalizers": null}})).await;
    run_for(&fixture, 10).await;
    assert!(fixture.state().collection("secrets").is_empty());
    assert!(!fixture.exists("configmaps", "n/o"));
}

#[tokio::test(start_paused = true)]
async fn a_circle_goes_as_a_whole() {
    let (fixture, uid) = family(0).await;
    let other = fixture.create("secrets", "n", owned("other", &[("ConfigMap", "o", &uid)])).await;
    let back = owned("o", &[("Secret", "other", &other)])["metadata"]["ownerReferences"].clone();
    fixture.merge("configmaps", "n/o", json!({"metadata": {"ownerReferences": back}})).await;
    delete_owner(&fixture, policy("Foreground"), 10).await;
    assert!(!fixture.exists("configmaps", "n/o"));
    assert!(!fixture.exists("secrets", "n/other"));
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_the_reference() {
    let (fixture, _) = family(300).await;
    delete_owner(&fixture, policy("Orphan"), 5).await;
    assert!(!fixture.exists("configmaps", "n/o"));
    assert_eq!(fixture.state().collection("secrets").len(), 300);
    assert!(!fixture.read("secrets", "n/d-7")["metadata"].has("ownerReferences"));
    run_for(&fixture, 5).await;
    assert_eq!(fixture.state().collection("secrets").len(), 300);
}

#[tokio::test(start_paused = true)]
async fn pods_outlive_a_job_deleted_without_a_word_about_them() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    let spec = pod("p")["spec"].clone();
    let mut template = json!({"spec": spec});
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
    let uid = fixture.create("jobs.batch", "n", job).await;
    let mut child = pod("p");
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid});
    child["metadata"]["ownerReferences"] = json!([owner]);
    fixture.create("pods", "n", child).await;
    let sent = fixture.send(Verb::Delete, "jobs.batch", "n/j", "", &json!({})).await;
    assert!(matches!(sent, Ok(Answer::Written(_))), "the job waits for its orphans");
    run_for(&fixture, 5).await;
    assert!(!fixture.exists("jobs.batch", "n/j"));
    assert!(!fixture.read("pods", "n/p")["metadata"].has("ownerReferences"));
}

#[tokio::test]
async fn events_know_no_propagation_policy() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    for name in ["Foreground", "Orphan"] {
        fixture.create("events", "n", event("n", "e")).await;
        fixture.delete("events", "n/e", policy(name)).await;
        assert!(!fixture.exists("events", "n/e"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_policy_named_before_the_first_look_holds() {
    let (fixture, _) = family(1).await;
    let client = fixture.client();
    let steps = async {
        // The loop has its first graph.
        fixture.store().sleep(2 * SETTLE).await;
        fixture.delete("configmaps", "n/o", policy("Foreground")).await;
        fixture.store().sleep(SETTLE / 2).await;
        assert!(fixture.exists("configmaps", "n/o"));
        fixture.delete("configmaps", "n/o", policy("Orphan")).await;
        fixture.store().sleep(Duration::from_secs(3)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    assert!(!fixture.exists("configmaps", "n/o"));
    assert!(fixture.exists("secrets", "n/d-0"));
}

/// The time until everything below `n/o` and itself is gone, for an owner with `levels` of dependents under one another, each
/// of which has `width` objects.
async fn time_of(policy_name: &str, levels: usize, width: usize) -> Duration {
    let (fixture, uid) = family(0).await;
    let mut owner = ("ConfigMap", "o".to_owned(), uid);
    for level in 0..levels {
        let references = [(owner.0, owner.1.as_str(), owner.2.as_str())];
        let mut first = String::new();
        for at in 0..width {
            let uid = fixture.create("secrets", "n", owned(&format!("{level}-{at}"), &references)).await;
            first = if at == 0 { uid } else { first };
        }
        owner = ("Secret", format!("{level}-0"), first);
    }
    let (client, store) = (fixture.client(), fixture.store());
    let mut took = Duration::ZERO;
    let steps = async {
        // The collector has looked at everything and is idle.
        store.sleep(Duration::from_secs(5)).await;
        let began = store.elapsed();
        fixture.delete("configmaps", "n/o", policy(policy_name)).await;
        while fixture.exists("configmaps", "n/o") || !fixture.state().collection("secrets").is_empty() {
            store.sleep(Duration::from_millis(1)).await;
        }
        took = store.elapsed() - began;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    took
}

#[tokio::test(start_paused = true)]
async fn a_level_of_owners_takes_fifty_milliseconds_at_most() {
    for levels in 1..6_u32 {
        for name in ["Background", "Foreground"] {
            let took = time_of(name, levels as usize, 3).await;
            assert!(took <= levels * Duration::from_millis(50), "{name} {levels}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_hangs_holds_up_no_other() {
    let fixture = Fixture::hanging();
    fixture.namespace("n").await;
    let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
    for name in ["a", "hung", "z"] {
        fixture.create("secrets", "n", owned(name, &[("ConfigMap", "o", &uid)])).await;
    }
    let next = fixture.create("configmaps", "n", json!({"metadata": {"name": "next"}})).await;
    fixture.create("secrets", "n", owned("later", &[("ConfigMap", "next", &next)])).await;
    let client = fixture.client();
    let steps = async {
        fixture.delete("configmaps", "n/o", json!({})).await;
        fixture.store().sleep(Duration::from_millis(100)).await;
        fixture.delete("configmaps", "n/next", json!({})).await;
        fixture.store().sleep(Duration::from_millis(100)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    let left = ["a", "hung", "z", "later"].map(|name| fixture.exists("secrets", &format!("n/{name}")));
    assert_eq!(left, [false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn many_deletions_are_looked_at_in_batches() {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    for at in 0..1000 {
        let (owner, dependent) = (format!("o-{at}"), format!("d-{at}"));
        let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": owner}})).await;
        fixture.create("secrets", "n", owned(&dependent, &[("ConfigMap", &owner, &uid)])).await;
    }
    let (below, leads, fate) =
        (fixture.store().clone(), Arc::new(AtomicBool::new(true)), ProposalOutcome::Applied);
    let scripted = ScriptedStore { below, leads, fate, lag: Arc::default() };
    let client = Client::new(fixture.pipeline_over(scripted.clone()), "test");
    let steps = async {
        fixture.store().sleep(Duration::from_secs(5)).await;
        scripted.lag.barriers.store(0, Ordering::Relaxed);
        for at in 0..1000 {
            fixture.delete("configmaps", &format!("n/o-{at}"), json!({})).await;
            if at % 100 == 0 {
                fixture.store().sleep(Duration::from_millis(1)).await;
            }
        }
        fixture.store().sleep(Duration::from_secs(1)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    assert!(fixture.state().collection("secrets").is_empty());
    let barriers = scripted.lag.barriers.load(Ordering::Relaxed);
    assert!(barriers < 20, "{barriers} read barriers, and as many batches, for 1000 owners");
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_comes_too_late_is_collected() {
    let (fixture, uid) = family(0).await;
    let client = fixture.client();
    let steps = async {
        fixture.delete("configmaps", "n/o", json!({})).await;
        fixture.store().sleep(Duration::from_secs(5)).await;
        fixture
            .create("pods", "n", {
                let mut late = pod("late");
                late["metadata"]["ownerReferences"] =
                    owned("late", &[("ConfigMap", "o", &uid)])["metadata"]["ownerReferences"].clone();
                late
            })
            .await;
        fixture.store().sleep(Duration::from_secs(3)).await;
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
    assert!(!fixture.exists("pods", "n/late"));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_what_the_last_one_left() {
    let (fixture, _) = family(3).await;
    fixture.delete("configmaps", "n/o", json!({})).await;
    fixture.forget_history();
    run_for(&fixture, 3).await;
    assert!(fixture.state().collection("secrets").is_empty());
}

fn deletion(object: &ObjectRef, stored: &orch_raft::object::SharedObject) -> Action {
    let write = Write::Delete(Propagation::Background, Ownership::of(stored).unwrap());
    Action { object: object.clone(), uid: stored.index.uid.clone(), revision: stored.revision, write }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_matter_saves_nobody() {
    let (fixture, _) = family(1).await;
    let object = ObjectRef { storage: "secrets".into(), path: "n/d-0".into() };
    let action = deletion(&object, &object.find(&fixture.state()).unwrap());
    fixture.merge("secrets", "n/d-0", json!({"data": {"k": "dg=="}})).await;
    super::write(&fixture.client(), &action).await.unwrap();
    assert!(!fixture.exists("secrets", "n/d-0"));
}

#[tokio::test(start_paused = true)]
async fn a_new_finalizer_calls_for_another_decision() {
    let (fixture, _) = family(1).await;
    let object = ObjectRef { storage: "secrets".into(), path: "n/d-0".into() };
    let action = deletion(&object, &object.find(&fixture.state()).unwrap());
    fixture.merge("secrets", "n/d-0", json!({"metadata": {"finalizers": ["orphan"]}})).await;
    assert!(is_overtaken(&super::write(&fixture.client(), &action).await.unwrap_err()));
    assert!(!fixture.read("secrets", "n/d-0")["metadata"].has("deletionTimestamp"));
}

/// The only event of `namespace`.
fn only_event(fixture: &Fixture, namespace: &str) -> Value {
    let state = fixture.state();
    let collection = state.collection("events");
    let paths: Vec<_> = collection.range_from("").map(|(path, _)| path.to_string()).collect();
    let [path] = &paths[..] else { panic!("{paths:?}") };
    assert!(path.starts_with(&format!("{namespace}/")), "{path}");
    fixture.read("events", path)
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_told_of_once() {
    let (fixture, uid) = family(0).await;
    fixture.namespace("m").await;
    let mut held = owned("d", &[("ConfigMap", "o", &uid)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let dependent = fixture.create("secrets", "m", held).await;
    run_for(&fixture, 3).await;
    assert!(fixture.read("secrets", "m/d")["metadata"].has("deletionTimestamp"));
    let event = only_event(&fixture, "m");
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: m, name: o, uid: {uid}] does not exist in namespace \"m\""
        )
    );
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    let about =
        json!({"kind": "Secret", "namespace": "m", "name": "d", "uid": dependent, "apiVersion": "v1"});
    assert_eq!(event["involvedObject"], about);
    fixture.create("secrets", "m", owned("gone", &[("ConfigMap", "o", "no-such-uid")])).await;
    run_for(&fixture, 3).await;
    assert!(!fixture.exists("secrets", "m/gone"));
    only_event(&fixture, "m");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_dependent_of_a_namespaced_owner_stays_and_is_told_of() {
    let (fixture, uid) = family(0).await;
    fixture.namespace("default").await;
    fixture.create("nodes", "", owned("d", &[("ConfigMap", "o", &uid)])).await;
    for _ in 0..3 {
        // Each run is that of a new leader, which decides on everything again.
        run_for(&fixture, 3).await;
        assert!(!fixture.read("nodes", "d")["metadata"].has("deletionTimestamp"));
        let event = only_event(&fixture, "default");
        assert_eq!(event["involvedObject"]["name"], "d");
        assert!(event["message"].as_str().unwrap().ends_with("does not exist in namespace \"\""));
    }
}

#[tokio::test(start_paused = true)]
async fn leaders_that_change_all_the_time_come_to_the_same_end() {
    for (name, left) in [("Background", 0), ("Foreground", 0), ("Orphan", 40)] {
        let (fixture, uid) = family(40).await;
        let middle = fixture.create("secrets", "n", owned("middle", &[("ConfigMap", "o", &uid)])).await;
        fixture
            .create("pods", "n", {
                let mut leaf = pod("leaf");
                leaf["metadata"]["ownerReferences"] =
                    owned("leaf", &[("Secret", "middle", &middle)])["metadata"]["ownerReferences"].clone();
                leaf
            })
            .await;
        fixture.delete("configmaps", "n/o", policy(name)).await;
        for step in 0..60 {
            // A run may stop before its first write, or in the middle of its writes.
            let client = fixture.client();
            let lead = fixture.store().sleep(Duration::from_millis(900 + 60 * (step % 7)));
            fixture.beside(run(&client, &Arc::default()), lead).await;
        }
        assert!(!fixture.exists("configmaps", "n/o"), "{name}");
        let kept = usize::from(name == "Orphan");
        assert_eq!(fixture.state().collection("secrets").len(), left + kept, "{name}");
        assert_eq!(fixture.state().collection("pods").len(), kept, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_overtaken_does_nothing() {
    let (fixture, _) = family(1).await;
    let object = ObjectRef { storage: "secrets".into(), path: "n/d-0".into() };
    let stored = object.find(&fixture.state()).unwrap();
    let action = deletion(&object, &stored);
    fixture.merge("secrets", "n/d-0", json!({"metadata": {"ownerReferences": null}})).await;
    let error = super::write(&fixture.client(), &action).await.unwrap_err();
    assert!(is_overtaken(&error), "{error:?}");
    assert!(fixture.exists("secrets", "n/d-0"));
}

/// An aggregated server that answers each request with the code and document that it was told last, 503 before that.
#[derive(Debug, Default)]
struct Telling {
    answer: parking_lot::Mutex<Option<(u16, Value)>>,
    asked: std::sync::atomic::AtomicUsize,
}

impl Telling {
    fn tell(&self, code: u16, document: Value) {
        *self.answer.lock() = Some((code, document));
    }
}

impl crate::aggregation::Relay for Telling {
    fn relay(
        &self,
        _server: crate::aggregation::Server,
        request: http::Request<axum::body::Body>,
    ) -> futures::future::BoxFuture<
        'static,
        Result<http::Response<axum::body::Body>, crate::connect::BackendError>,
    > {
        assert_eq!(request.uri().path(), "/apis/a.example.com/v1/namespaces/n/widgets/w");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (code, document) = self.answer.lock().clone().unwrap_or((503, Value::Null));
        let answer = http::Response::builder().status(code);
        let answer = answer.body(axum::body::Body::from(document.to_string())).unwrap();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// A server with an available aggregated one for widgets, and a secret `n/d` that the widget `w` with the uid `u` owns.
async fn owned_elsewhere() -> (Fixture, Arc<Telling>) {
    use crate::aggregation::described::Description;
    let server = Arc::new(Telling::default());
    let aggregation = crate::aggregation::Aggregation::none(crate::follow::Builder::Caller)
        .through(server.clone(), crate::webhook::Routing::ClusterAddress);
    let fixture = Fixture::with_aggregation(aggregation);
    fixture.namespace("n").await;
    let service = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create("services", "n", json!({"metadata": {"name": "s"}, "spec": service})).await;
    let spec = json!({
        "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "n", "name": "s"},
    });
    let name = "v1.a.example.com";
    fixture.create(API_SERVICES, "", json!({"metadata": {"name": name}, "spec": spec})).await;
    let there = json!({"status": {"conditions": [{"type": "Available", "status": "True", "reason": "R"}]}});
    let client = fixture.client();
    let resource = client.stored_resource(API_SERVICES).unwrap();
    client
        .patch(Place { resource: &resource, path: name }, orch_rules::Action::Status, &there)
        .await
        .unwrap();
    let widgets = json!({"resource": "widgets", "scope": "Namespaced", "responseKind": {"kind": "Widget"}});
    client.aggregation().descriptions().set(&name.into(), Description::Current([widgets].into()));
    let owner = json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "name": "w", "uid": "u"});
    let secret = json!({"metadata": {"name": "d", "ownerReferences": [owner]}});
    fixture.create("secrets", "n", secret).await;
    (fixture, server)
}

const API_SERVICES: &str = crate::aggregation::API_SERVICES;

fn widget(uid: &str) -> Value {
    json!({"kind": "Widget", "metadata": {"name": "w", "uid": uid}})
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_aggregated_owner_stays_until_the_live_server_says_that_it_is_gone() {
    let (fixture, server) = owned_elsewhere().await;
    let client = fixture.client();
    let missing =
        json!({"kind": "Status", "reason": "NotFound", "details": {"name": "w", "kind": "widgets"}});
    let steps = async {
        let later = || fixture.store().sleep(AGAIN + Duration::from_secs(2));
        later().await;
        let said = [(404, Value::Null), (500, missing.clone()), (200, widget("u"))];
        for (code, document) in said {
            server.tell(code, document.clone());
            later().await;
            assert!(fixture.exists("secrets", "n/d"), "{code} {document}");
        }
        assert!(server.asked.load(Ordering::Relaxed) < 12, "it is asked once a minute");
        server.tell(404, missing.clone());
        later().await;
        assert!(!fixture.exists("secrets", "n/d"));
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
}

#[tokio::test(start_paused = true)]
async fn dependents_of_one_aggregated_owner_ask_once_and_another_uid_is_another_owner() {
    let (fixture, server) = owned_elsewhere().await;
    let owner = json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "name": "w", "uid": "u"});
    for at in 0..200 {
        let secret = json!({"metadata": {"name": format!("d-{at}"), "ownerReferences": [owner.clone()]}});
        fixture.create("secrets", "n", secret).await;
    }
    server.tell(200, widget("another"));
    let client = fixture.client();
    let steps = async {
        let sleep = |seconds| fixture.store().sleep(Duration::from_secs(seconds));
        sleep(20).await;
        assert!(server.asked.load(Ordering::Relaxed) < 20, "{server:?}");
        assert_eq!(fixture.state().collection("secrets").len(), 201, "theirs may be yet to come");
        server.tell(200, widget("u"));
        sleep(AGAIN.as_secs()).await;
        server.tell(200, widget("another"));
        sleep(AGAIN.as_secs() + 5).await;
        assert!(fixture.state().collection("secrets").is_empty());
    };
    fixture.beside(run(&client, &Arc::default()), steps).await;
}

#[test]
fn objects_that_only_ask_take_no_room_of_others() {
    let mut queue = Queue::default();
    for at in 0..UNDER_WAY_MAX {
        let object = ObjectRef { storage: "secrets".into(), path: format!("n/{at}").into() };
        queue.add(&object, Duration::ZERO);
    }
    assert_eq!(queue.take_due(UNDER_WAY_MAX).len(), UNDER_WAY_MAX);
    assert!(UnderWay::default().is_full(&queue));
    assert!(!UnderWay { writes: 0, asking: 1 }.is_full(&queue));
    assert!(UnderWay { writes: WRITES_MAX, asking: UNDER_WAY_MAX }.is_full(&queue));
}
