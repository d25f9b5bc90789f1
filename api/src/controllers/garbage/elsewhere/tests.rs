//! Dependents that an aggregated server keeps.

mod leaders;
mod looks;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use orch_raft::Store;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::super::questions::Asking;
use super::super::remote_owners::{Answer, Question};
use super::super::run;
use super::super::sightings::Sightings;
use super::look::Outcome;
use super::{DELAY_MAX, EVERY, Memory, Rhythm, SOON};
use crate::aggregation::described::Description;
use crate::aggregation::{API_SERVICES, Aggregation, Relay, Remote, Server};
use crate::connect::BackendError;
use crate::controllers::client::{Moment, Place};
use crate::controllers::testing::{Fixture, owned};
use crate::follow::Builder;
use crate::webhook::Routing;

/// The resources that the server of widgets can do all to.
const VERBS: [&str; 4] = ["get", "list", "delete", "patch"];

const SERVICE: &str = "v1.a.example.com";
const WIDGETS: &str = "/apis/a.example.com/v1/namespaces/n/widgets";

/// What the server of widgets does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mood {
    #[default]
    Serves,
    Hangs,
    /// It answers nothing about gadgets.
    HidesGadgets,
    RefusesWrites,
    RefusesLists,
    /// Its pages are too large to be read but for those of one object.
    SendsMuch,
    /// Its answers break off.
    BreaksOff,
}

/// A server of widgets. It gives one object in a page, unless told otherwise.
#[derive(Debug, Default)]
struct Widgets {
    objects: Mutex<Vec<Value>>,
    /// Methods and paths of writes, with what was sent.
    written: Mutex<Vec<(String, Value)>>,
    lists: Mutex<usize>,
    mood: Mutex<Mood>,
    /// Objects of a page; 0: one.
    page_objects: Mutex<usize>,
}

impl Widgets {
    fn answer(&self, method: &Method, target: &http::Uri, document: &Value) -> (u16, Value) {
        let path = &*percent_encoding::percent_decode_str(target.path()).decode_utf8().unwrap();
        if path == "/apis/a.example.com/v1/widgets" {
            return self.page(target.query().unwrap_or_default());
        }
        let name = path.rsplit('/').next().unwrap();
        let mut objects = self.objects.lock();
        let Some(at) = objects.iter().position(|object| object["metadata"]["name"] == name) else {
            return (404, json!({"kind": "Status", "reason": "NotFound", "details": {"name": name}}));
        };
        if *method == Method::GET {
            return (200, objects[at].clone());
        }
        self.written.lock().push((format!("{method} {path}"), document.clone()));
        let sent = if *method == Method::DELETE { &document["preconditions"] } else { &document["metadata"] };
        let own = &objects[at]["metadata"];
        if sent["uid"] != own["uid"] || sent["resourceVersion"] != own["resourceVersion"] {
            return (409, Value::Null);
        }
        if *self.mood.lock() == Mood::RefusesWrites {
            return (403, Value::Null);
        }
        if *method == Method::DELETE {
            objects.remove(at);
            return (200, json!({"kind": "Status"}));
        }
        objects[at]["metadata"]["ownerReferences"] = document["metadata"]["ownerReferences"].clone();
        (200, objects[at].clone())
    }

    fn page(&self, query: &str) -> (u16, Value) {
        *self.lists.lock() += 1;
        assert!(query.starts_with("limit="), "{query}");
        match *self.mood.lock() {
            Mood::RefusesLists => return (403, Value::Null),
            Mood::SendsMuch if !query.starts_with("limit=1&") && query != "limit=1" => {
                return (200, json!("x".repeat(4 << 20)));
            }
            _ => {}
        }
        let objects = self.objects.lock();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let token = query.split_once("continue=").map(|(_, token)| token.replace("%2D", "-"));
        let at = objects.iter().position(|object| token.as_ref().is_none_or(|token| *token == name(object)));
        let count = (*self.page_objects.lock()).max(1);
        let from = at.unwrap_or(objects.len());
        let page: Vec<Value> = objects.iter().skip(from).take(count).cloned().collect();
        let next = objects.get(from + count).map(name).unwrap_or_default();
        (200, json!({"kind": "WidgetList", "metadata": {"continue": next}, "items": page}))
    }

    /// The writes so far, as methods and names, in order.
    fn writes(&self) -> Vec<String> {
        let short = |at: &str| at.replace(WIDGETS, "").replace(" /", " ");
        let mut writes: Vec<String> = self.written.lock().iter().map(|(at, _)| short(at)).collect();
        writes.sort();
        writes
    }

    fn owners_of(&self, name: &str) -> Option<Value> {
        let objects = self.objects.lock();
        let found = objects.iter().find(|object| object["metadata"]["name"] == name)?;
        Some(found["metadata"]["ownerReferences"].clone())
    }
}

#[derive(Debug)]
struct To(Arc<Widgets>);

impl Relay for To {
    fn relay(
        &self,
        _server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        let path = request.uri().path();
        match *self.0.mood.lock() {
            Mood::Hangs => return Box::pin(std::future::pending()),
            Mood::HidesGadgets if path.contains("gadgets") => return Box::pin(std::future::pending()),
            _ if path.starts_with("/apis/silent.example.com") => return Box::pin(std::future::pending()),
            _ => {}
        }
        assert_eq!(request.headers()["x-remote-user"], "system:orch-aggregator");
        let widgets = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let document = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, answer) = widgets.answer(&head.method, &head.uri, &document);
            let body = match *widgets.mood.lock() {
                Mood::BreaksOff => {
                    let parts = [Ok(answer.to_string()), Err(std::io::Error::other("reset"))];
                    Body::from_stream(futures::stream::iter(parts))
                }
                _ => Body::from(answer.to_string()),
            };
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

/// A reference to the config map `name` with the uid `uid`.
fn config_map((name, uid): (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
}

/// A widget `name` that `owners` own.
fn widget(name: &str, owners: &[Value]) -> Value {
    json!({"kind": "Widget", "metadata": {
        "name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": "7",
        "ownerReferences": owners.to_vec(),
    }})
}

/// A resource as discovery tells of it.
fn resource(name: &str, kind: &str, verbs: &[&str]) -> Value {
    json!({
        "resource": name, "scope": "Namespaced", "responseKind": {"kind": kind}, "verbs": verbs.to_vec(),
    })
}

struct Scene {
    fixture: Fixture,
    server: Arc<Widgets>,
    /// What this process saw.
    seen: Arc<Mutex<Sightings>>,
}

impl Scene {
    /// A server of widgets, which `verbs` can be applied to.
    async fn with_verbs(verbs: &[&str]) -> Scene {
        let server = Arc::new(Widgets::default());
        let aggregation =
            Aggregation::none(Builder::Caller).through(Arc::new(To(server.clone())), Routing::ClusterAddress);
        let fixture = Fixture::with_aggregation(aggregation);
        fixture.namespace("n").await;
        let service = json!({"type": "ExternalName", "externalName": "things.example.com"});
        fixture.create("services", "n", json!({"metadata": {"name": "s"}, "spec": service})).await;
        let scene = Scene { fixture, server, seen: Arc::default() };
        scene.register(SERVICE).await;
        scene.set_available("True").await;
        scene.describe(Description::Current([resource("widgets", "Widget", verbs)].into()));
        scene
    }

    async fn new() -> Scene {
        Scene::with_verbs(&VERBS).await
    }

    /// A server with the widget `a`, and two objects that it owns: the widget `there` and the secret `here` of this cluster.
    async fn with_owner_elsewhere() -> Scene {
        let scene = Scene::new().await;
        scene.keep(&[widget("a", &[]), widget("there", &[widget_owner("a", "u-a")])]);
        let secret = json!({"metadata": {"name": "here", "ownerReferences": [widget_owner("a", "u-a")]}});
        scene.fixture.create("secrets", "n", secret).await;
        scene
    }

    /// Makes the APIService `name`, the server of which is not available yet.
    async fn register(&self, name: &str) {
        let (version, group) = name.split_once('.').unwrap();
        let spec = json!({
            "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"namespace": "n", "name": "s"},
        });
        self.fixture.create(API_SERVICES, "", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn set_available(&self, status: &str) {
        self.set_available_of(SERVICE, status).await;
    }

    async fn set_available_of(&self, service: &str, status: &str) {
        let condition = json!({"type": "Available", "status": status, "reason": "R"});
        let status = json!({"status": {"conditions": [condition]}});
        let client = self.fixture.client();
        let resource = client.stored_resource(API_SERVICES).unwrap();
        let place = Place { resource: &resource, path: service };
        client.patch(place, orch_rules::Action::Status, &status).await.unwrap();
    }

    fn describe(&self, description: Description) {
        self.fixture.client().aggregation().descriptions().set(&SERVICE.into(), description);
    }

    /// A config map `name`, and the reference to it.
    async fn owner(&self, name: &str) -> Value {
        let uid = self.fixture.create("configmaps", "n", json!({"metadata": {"name": name}})).await;
        config_map((name, &uid))
    }

    /// Deletes the config map `name` with this policy.
    async fn delete(&self, name: &str, policy: &str) {
        let options = json!({"propagationPolicy": policy});
        self.fixture.delete("configmaps", &format!("n/{name}"), options).await;
    }

    fn keep(&self, widgets: &[Value]) {
        *self.server.objects.lock() = widgets.to_vec();
    }

    fn has(&self, name: &str) -> bool {
        self.fixture.exists("configmaps", &format!("n/{name}"))
    }

    async fn wait(&self, seconds: u64) {
        self.fixture.store().sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits, and has the time of day go on as well.
    async fn pass(&self, seconds: u64) {
        self.wait(seconds).await;
        self.fixture.advance(Duration::from_secs(seconds));
    }

    /// Has the widget `name` be deleted with `Orphan`.
    fn orphan(&self, name: &str) {
        let mut objects = self.server.objects.lock();
        let metadata = &mut objects.iter_mut().find(|of| of["metadata"]["name"] == name).unwrap()["metadata"];
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["finalizers"] = json!(["orphan"]);
    }

    /// Removes the widget `name`.
    fn remove(&self, name: &str) {
        self.server.objects.lock().retain(|of| of["metadata"]["name"] != name);
    }

    /// Runs the collector beside `steps`.
    async fn run(&self, steps: impl Future<Output = ()>) {
        self.run_as(&self.seen, steps).await;
    }

    /// Runs that of the member that saw `seen` while it led before.
    async fn run_as(&self, seen: &Arc<Mutex<Sightings>>, steps: impl Future<Output = ()>) {
        let client = self.fixture.client();
        self.fixture.beside(run(&client, seen), steps).await;
    }
}

const LOOK: u64 = EVERY.as_secs() + 5;

#[tokio::test(start_paused = true)]
async fn a_dependent_goes_when_the_end_of_its_last_owner_was_seen() {
    let scene = Scene::new().await;
    let (first, second) = (scene.owner("a").await, scene.owner("b").await);
    let mut leaving = widget("leaving", std::slice::from_ref(&first));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.keep(&[
        widget("of-first", std::slice::from_ref(&first)),
        widget("of-both", &[first.clone(), second.clone()]),
        widget("of-second", &[second]),
        widget("free", &[]),
        leaving,
    ]);
    scene
        .run(async {
            scene.wait(LOOK).await;
            assert!(scene.server.writes().is_empty(), "all owners are there");
            scene.delete("a", "Background").await;
            scene.wait(LOOK).await;
            assert_eq!(scene.server.writes(), ["DELETE of-first", "PATCH of-both"]);
            let sent = |at: usize| scene.server.written.lock()[at].1.clone();
            let versions = json!({"uid": "u-of-first", "resourceVersion": "7"});
            assert_eq!(sent(0)["preconditions"], versions);
            assert_eq!(sent(0)["propagationPolicy"], "Background");
            assert_eq!(sent(1)["metadata"]["uid"], "u-of-both");
            assert_eq!(sent(1)["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
            scene.delete("b", "Background").await;
            scene.wait(LOOK).await;
            let writes = scene.server.writes();
            assert_eq!(writes, ["DELETE of-both", "DELETE of-first", "DELETE of-second", "PATCH of-both"]);
            assert_eq!(scene.server.objects.lock().len(), 2, "one has no owner, one is being deleted");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_yet_to_come_is_not_gone() {
    let scene = Scene::new().await;
    let mut unserved = config_map(("x", "u-x"));
    unserved["kind"] = json!("Nothing");
    scene.keep(&[
        widget("of-import", &[config_map(("later", "u-later"))]),
        widget("of-unserved", &[unserved]),
    ]);
    scene
        .run(async {
            // Another object of the name comes and goes meanwhile.
            scene.owner("later").await;
            scene.delete("later", "Background").await;
            scene.wait(3 * LOOK).await;
            assert!(scene.server.writes().is_empty());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_went_before_this_leader_was_one_is_known_from_the_history() {
    let scene = Scene::new().await;
    let (gone, forgotten) = (scene.owner("a").await, scene.owner("b").await);
    scene.delete("b", "Background").await;
    scene.fixture.forget_history();
    scene.delete("a", "Background").await;
    scene.keep(&[widget("of-gone", &[gone]), widget("of-forgotten", &[forgotten])]);
    scene.run(scene.wait(LOOK)).await;
    assert_eq!(scene.server.writes(), ["DELETE of-gone"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphaning_owner_waits_until_its_dependents_have_lost_their_references() {
    let scene = Scene::new().await;
    let (owner, other) = (scene.owner("a").await, scene.owner("b").await);
    let uid = owner["uid"].as_str().unwrap().to_owned();
    scene.fixture.create("secrets", "n", owned("local", &[("ConfigMap", "a", &uid)])).await;
    scene.keep(&[widget("alone", std::slice::from_ref(&owner)), widget("shared", &[owner, other])]);
    scene
        .run(async {
            *scene.server.mood.lock() = Mood::RefusesWrites;
            scene.delete("a", "Orphan").await;
            scene.wait(30).await;
            assert!(scene.has("a"), "the references are still there");
            let local = scene.fixture.read("secrets", "n/local");
            assert!(
                local["metadata"]["ownerReferences"].is_null(),
                "nothing here waits for the other server"
            );
            *scene.server.mood.lock() = Mood::Serves;
            scene.wait(10).await;
            assert!(!scene.has("a"));
            assert_eq!(scene.server.owners_of("alone"), Some(Value::Null));
            assert_eq!(scene.server.owners_of("shared").unwrap().as_array().unwrap().len(), 1);
            scene.wait(2 * LOOK).await;
            assert!(!scene.server.writes().iter().any(|write| write.starts_with("DELETE")));
            assert!(scene.fixture.exists("secrets", "n/local"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_delays_an_orphaning_owner_and_its_dependents_stay_for_good() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    scene.keep(&[widget("of-a", &[owner])]);
    scene
        .run(async {
            scene.wait(2).await;
            scene.set_available("False").await;
            scene.describe(Description::Stale);
            scene.delete("a", "Orphan").await;
            scene.wait(DELAY_MAX.as_secs() - 10).await;
            assert!(scene.has("a"));
            scene.wait(20).await;
            assert!(!scene.has("a"), "the delay is bounded");
            scene.set_available("True").await;
            let widgets = json!({
                "resource": "widgets", "scope": "Namespaced", "responseKind": {"kind": "Widget"},
                "verbs": ["list", "delete", "patch"],
            });
            scene.describe(Description::Current([widgets].into()));
            scene.wait(3 * LOOK).await;
            assert!(scene.server.writes().is_empty(), "{:?}", scene.server.writes());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_takes_the_dependents_first_and_waits_for_those_that_block_it_for_a_while() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    let mut held = widget("held", std::slice::from_ref(&owner));
    held["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scene.keep(&[widget("of-a", &[owner]), held]);
    scene
        .run(async {
            scene.delete("a", "Foreground").await;
            scene.wait(DELAY_MAX.as_secs() - 10).await;
            assert_eq!(scene.server.writes(), ["DELETE of-a"]);
            assert!(scene.has("a"), "one that is being deleted is still there");
            scene.wait(20).await;
            assert!(!scene.has("a"), "it does not stop the cluster");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn owners_wait_for_no_server_that_keeps_nothing_or_was_never_heard_of() {
    let scene = Scene::with_verbs(&["get", "list"]).await;
    scene.owner("a").await;
    scene.owner("b").await;
    scene
        .run(async {
            scene.delete("a", "Orphan").await;
            scene.wait(2).await;
            assert!(!scene.has("a") && *scene.server.lists.lock() == 0);
            scene.describe(Description::Stale);
            scene.wait(2).await;
            scene.delete("b", "Foreground").await;
            scene.wait(2).await;
            assert!(!scene.has("b"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_holds_up_no_local_dependent() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    let uid = owner["uid"].as_str().unwrap().to_owned();
    scene.fixture.create("secrets", "n", owned("local", &[("ConfigMap", "a", &uid)])).await;
    scene.keep(&[widget("of-a", &[owner])]);
    *scene.server.mood.lock() = Mood::Hangs;
    scene
        .run(async {
            scene.delete("a", "Background").await;
            scene.wait(2).await;
            assert!(!scene.fixture.exists("secrets", "n/local"));
            scene.wait(2 * LOOK).await;
            *scene.server.mood.lock() = Mood::Serves;
            scene.wait(2 * LOOK).await;
            assert_eq!(scene.server.writes(), ["DELETE of-a"]);
        })
        .await;
}

/// A reference to the widget `name` with the uid `uid`.
fn widget_owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "name": name, "uid": uid})
}

#[tokio::test(start_paused = true)]
async fn dependents_of_owners_at_the_same_server_go_one_after_the_other_if_these_were_seen() {
    let scene = Scene::new().await;
    scene.keep(&[
        widget("a", &[]),
        widget("b", &[widget_owner("a", "u-a")]),
        widget("c", &[widget_owner("b", "u-b")]),
        widget("d", &[widget_owner("a", "another")]),
        widget("e", &[widget_owner("never", "u-never")]),
    ]);
    scene
        .run(async {
            scene.wait(LOOK).await;
            scene.server.objects.lock().remove(0);
            scene.wait(2 * LOOK).await;
            assert_eq!(scene.server.writes(), ["DELETE b", "DELETE c"], "others may be yet to come");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_at_a_server_that_orphaned_takes_nothing_along_here_or_there() {
    let scene = Scene::with_owner_elsewhere().await;
    scene
        .run(async {
            scene.wait(LOOK).await;
            scene.orphan("a");
            scene.wait(2 * LOOK).await;
            scene.remove("a");
            scene.wait(3 * LOOK).await;
            assert!(scene.server.writes().is_empty(), "{:?}", scene.server.writes());
            assert!(scene.fixture.exists("secrets", "n/here"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_does_not_wait_for_a_dependent_that_stays_with_another_owner() {
    let scene = Scene::new().await;
    let owner = scene.owner("a").await;
    scene.keep(&[widget("shared", &[owner, config_map(("unheard-of", "u-x"))])]);
    scene
        .run(async {
            scene.delete("a", "Foreground").await;
            scene.wait(10).await;
            assert!(!scene.has("a"));
            assert_eq!(scene.server.owners_of("shared").unwrap()[0]["uid"], "u-x");
            assert_eq!(scene.server.writes(), ["PATCH shared"]);
        })
        .await;
}
