//! Kinds that come and go while the node runs: their definitions are created, changed and deleted while clients write.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::join_all;

use super::*;
use crate::admission::slow::Slow;
use crate::admission::testing::builtin_with;
use crate::controllers;
use crate::definitions::RECORDS;

const STORAGE: &str = "widgets.example.com.";
pub(super) const CRDS: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";

/// Clients that write while the kind is taken away.
const CLIENTS: usize = 64;

/// Longest wait for a loop.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The versions of a widget's definition. `more` adds a field.
fn versions(more: bool) -> Value {
    let mut spec = json!({"size": {"type": "integer"}});
    if more {
        spec["color"] = json!({"type": "string"});
    }
    json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": spec}}
    }}}])
}

/// The definition of widgets.
pub(super) fn definition() -> Value {
    json!({"apiVersion": "apiextensions.orch.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions(false),
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}}})
}

/// A server that shares its pipeline with the test.
pub(super) struct Platform {
    pub(super) server: Server,
    pipeline: Arc<Pipeline<MemoryStore>>,
}

impl Platform {
    pub(super) async fn new(change: impl FnOnce(&mut Pipeline<MemoryStore>)) -> Platform {
        let server = Server::new().await;
        let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
        change(&mut pipeline);
        let pipeline = Arc::new(pipeline);
        let router = Api::new(pipeline.clone(), server.stopping.clone()).router();
        let platform = Platform { server: Server { router, ..server }, pipeline };
        platform.start_loops();
        platform
    }

    /// Creates the definition, and waits until it is in force.
    pub(super) async fn define(&self) {
        self.server.create(CRDS, definition()).await;
        self.until(CRD, |answered| condition(answered, "Established")["status"] == "True").await;
    }

    /// Runs the loops of a leader.
    fn start_loops(&self) {
        let (pipeline, stopping) = (self.pipeline.clone(), self.server.stopping.clone());
        tokio::spawn(async move {
            controllers::run(pipeline, controllers::Options::default(), stopping.cancelled_owned()).await;
        });
    }

    /// Waits until the answer at `path` is as wanted, and returns it.
    pub(super) async fn until(&self, path: &str, is_wanted: impl Fn(&Answered) -> bool) -> Answered {
        let wanted = async {
            loop {
                let answered = self.server.get(path).await;
                if is_wanted(&answered) {
                    return answered;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(WAIT_MAX, wanted).await;
        match found {
            Ok(answered) => answered,
            Err(_) => panic!("{path} stays {}", self.server.get(path).await.text),
        }
    }

    /// Waits until `path` is not found.
    pub(super) async fn until_gone(&self, path: &str) {
        self.until(path, |answered| answered.code == StatusCode::NOT_FOUND).await;
    }

    fn stored(&self) -> usize {
        self.server.store.state().collection(STORAGE).len()
    }
}

/// The condition of this type of a definition that was answered; null where there is none.
fn condition(answered: &Answered, kind: &str) -> Value {
    let conditions = answered.json()["status"]["conditions"].clone();
    let found = conditions.as_array().into_iter().flatten().find(|found| found["type"] == kind);
    found.cloned().unwrap_or_default()
}

fn widget(name: &str, owners: Value) -> Value {
    json!({"kind": "Widget", "apiVersion": "example.com/v1",
        "metadata": {"name": name, "ownerReferences": owners}, "spec": {"size": 1}})
}

/// A reference to `owner`, a widget.
fn owned_by(owner: &Value) -> Value {
    json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"]}])
}

/// Writes widgets until the kind is gone; returns the codes of all answers.
async fn write_until_gone(platform: Arc<Platform>, number: usize, is_gone: Arc<AtomicBool>) -> Vec<u16> {
    let (server, mut codes) = (&platform.server, Vec::new());
    for round in 0.. {
        let was_gone = is_gone.load(Ordering::SeqCst);
        let name = format!("w-{number}-{round}");
        let path = format!("{WIDGETS}/{name}");
        let body = Body::from(widget(&name, json!([])).to_string());
        codes.push(server.send(Method::POST, WIDGETS, &[], body).await.code.as_u16());
        codes.push(server.merge(&path, json!({"spec": {"size": round}})).await.code.as_u16());
        codes.push(server.get(&path).await.code.as_u16());
        if round % 3 == 0 {
            codes.push(server.delete(&path).await.code.as_u16());
        }
        if was_gone {
            let last = &codes[codes.len() - 3..];
            assert!(last.iter().all(|code| *code == 404), "{last:?}");
            return codes;
        }
        tokio::task::yield_now().await;
    }
    codes
}

/// Discovery and OpenAPI know the kind. `index` is that of OpenAPI before it came: documents of other groups are the same.
async fn is_described(server: &Server, index: &Value) {
    let groups = server.get("/apis").await.text;
    assert!(groups.contains("example.com/v1"), "{groups}");
    let listed = server.get("/apis/example.com/v1").await.json();
    assert_eq!(listed["resources"][0]["shortNames"], json!(["wd"]));
    let described = server.get("/openapi/v3/apis/example.com/v1").await.text;
    assert!(described.contains("com.example.v1.Widget") && described.contains("ObjectMeta"), "{described}");
    let after = server.get("/openapi/v3").await.json()["paths"].clone();
    assert!(index["apis/apps/v1"].is_object() && index["apis/example.com/v1"].is_null());
    assert_eq!(after["apis/apps/v1"], index["apis/apps/v1"]);
    assert!(after["apis/example.com/v1"].is_object());
}

/// Objects are written, listed and watched.
async fn is_written(server: &Server) {
    let created = server.create(WIDGETS, widget("a", json!([]))).await;
    let patch = json!({"spec": {"size": 2, "nope": 1}});
    assert_eq!(server.merge(&format!("{WIDGETS}/a"), patch).await.code, StatusCode::OK);
    let read = server.get(&format!("{WIDGETS}/a")).await.json();
    assert_eq!(read["spec"], json!({"size": 2}), "what its table does not have is dropped");
    assert_eq!(server.get("/apis/example.com/v1/widgets").await.names(), ["a"]);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.orch.io")];
    let table = server.send(Method::GET, WIDGETS, &table, Body::empty()).await.json();
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    let since = created["metadata"]["resourceVersion"].as_str().unwrap();
    let events = server.events(&format!("{WIDGETS}?watch=1&timeoutSeconds=1&resourceVersion={since}")).await;
    assert_eq!((events.len(), &events[0]["type"]), (1, &json!("MODIFIED")));
}

/// The loops, which ran before the kind came, collect its garbage and empty its namespace.
async fn is_collected(platform: &Platform) {
    let server = &platform.server;
    let owner = server.create(WIDGETS, widget("owner", json!([]))).await;
    server.create(WIDGETS, widget("dependent", owned_by(&owner))).await;
    let mut map = map("dependent", "v");
    map["metadata"]["ownerReferences"] = owned_by(&owner);
    server.create(MAPS, map).await;
    assert_eq!(server.delete(&format!("{WIDGETS}/owner")).await.code, StatusCode::OK);
    platform.until_gone(&format!("{WIDGETS}/dependent")).await;
    platform.until_gone(&format!("{MAPS}/dependent")).await;
    server.create("/api/v1/namespaces", json!({"metadata": {"name": "doomed"}})).await;
    server.create("/apis/example.com/v1/namespaces/doomed/widgets", widget("w", json!([]))).await;
    server.delete("/api/v1/namespaces/doomed").await;
    platform.until_gone("/api/v1/namespaces/doomed").await;
    assert_eq!(platform.stored(), 1, "that of the other namespace");
}

/// The definition is deleted while clients write.
async fn goes(platform: &Arc<Platform>) {
    let server = &platform.server;
    let watched = server.open(Method::GET, &format!("{WIDGETS}?watch=1"), &[], Body::empty()).await;
    let is_gone = Arc::new(AtomicBool::new(false));
    let write = |number| tokio::spawn(write_until_gone(platform.clone(), number, is_gone.clone()));
    let writing = join_all((0..CLIENTS).map(write));
    let going = async {
        while platform.stored() < 4 * CLIENTS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let deleted = server.delete(CRD).await;
        assert_eq!(condition(&deleted, "Terminating")["reason"], "InstanceDeletionPending");
        platform.until_gone(CRD).await;
        is_gone.store(true, Ordering::SeqCst);
    };
    let (codes, ()) = futures::future::join(writing, going).await;
    let mut counts = std::collections::BTreeMap::<u16, usize>::new();
    codes.into_iter().flat_map(Result::unwrap).for_each(|code| *counts.entry(code).or_default() += 1);
    assert!(counts.keys().all(|code| [200, 201, 403, 404, 409].contains(code)), "{counts:?}");
    assert!(counts[&201] > 2 * CLIENTS && counts[&404] >= 3 * CLIENTS, "{counts:?}");
    assert_eq!(platform.stored(), 0, "no object is left");
    assert!(server.store.state().collection(RECORDS).is_empty());
    let ended = tokio::time::timeout(WAIT_MAX, watched.into_body().collect()).await;
    assert!(ended.is_ok(), "its watches end");
    for path in [WIDGETS, "/apis/example.com", "/apis/example.com/v1", "/openapi/v3/apis/example.com/v1"] {
        assert_eq!(server.get(path).await.code, StatusCode::NOT_FOUND, "{path}");
    }
    assert!(!server.get("/apis").await.text.contains("example.com"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kind_comes_is_served_by_all_and_goes_while_clients_write() {
    let platform = Arc::new(Platform::new(|_| {}).await);
    let server = &platform.server;
    assert_eq!(server.get(WIDGETS).await.code, StatusCode::NOT_FOUND);
    let index = server.get("/openapi/v3").await.json()["paths"].clone();
    platform.define().await;
    is_described(server, &index).await;
    is_written(server).await;
    is_collected(&platform).await;
    goes(&platform).await;
    // A kind of the same name begins empty.
    platform.define().await;
    assert!(server.get(WIDGETS).await.names().is_empty());
    is_written(server).await;
    server.stopping.cancel();
}

/// Creates the definition called `things{number}.example.com`.
async fn define_thing(platform: &Platform, number: usize) {
    let (plural, kind) = (format!("things{number}"), format!("Thing{number}"));
    let mut made = definition();
    made["metadata"]["name"] = json!(format!("{plural}.example.com"));
    made["spec"]["names"] = json!({"plural": plural, "singular": format!("thing{number}"), "kind": kind});
    platform.server.create(CRDS, made).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kind_is_served_and_described_as_soon_as_its_definition_is_answered() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    // The loops run from now on.
    platform.define().await;
    let before = server.get("/apis/example.com/v1").await.json()["resources"].as_array().unwrap().len();
    for number in 0..50 {
        define_thing(&platform, number).await;
        let object = json!({"apiVersion": "example.com/v1", "kind": format!("Thing{number}"), "metadata": {"name": "a"}});
        server.create(&format!("/apis/example.com/v1/namespaces/ns/things{number}"), object).await;
        let described = server.get("/apis/example.com/v1").await.json();
        assert_eq!(described["resources"].as_array().unwrap().len(), before + number + 1);
    }
    // One whose names are refused is answered as well, and is not waited for.
    let mut rival = definition();
    rival["metadata"]["name"] = json!("rivals.example.com");
    rival["spec"]["names"] = json!({"plural": "rivals", "singular": "rival", "kind": "Thing0"});
    server.create(CRDS, rival).await;
    let refused = server.get(&format!("{CRDS}/rivals.example.com")).await;
    assert_eq!(condition(&refused, "NamesAccepted")["reason"], "ListKindConflict");
    server.stopping.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_path_whose_definition_is_about_to_come_into_force_is_waited_for() {
    let server = Server::new().await;
    let pipeline = Arc::new(pipeline(server.store.clone(), server.clock.clone(), Features::default()));
    let router = Api::new(pipeline.clone(), server.stopping.clone()).router();
    let platform = Platform { server: Server { router, ..server }, pipeline };
    // No loop runs: nothing waits.
    define_thing(&platform, 0).await;
    let path = "/apis/example.com/v1/namespaces/ns/things0";
    assert_eq!(platform.server.get(path).await.code, StatusCode::NOT_FOUND);
    platform.start_loops();
    platform.until(path, |answered| answered.code == StatusCode::OK).await;
    platform.server.stopping.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_definition_is_replaced_only_by_those_who_say_which_version() {
    let platform = Platform::new(|_| {}).await;
    platform.define().await;
    let server = &platform.server;
    let mut stored = server.get(CRD).await.json();
    for path in [CRD.to_owned(), format!("{CRD}/status")] {
        let refused = server.send(Method::PUT, &path, &[], Body::from(definition().to_string())).await;
        let told = r#"customresourcedefinitions.apiextensions.orch.io "widgets.example.com" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
        assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (422, &json!(told)), "{path}");
    }
    stored["metadata"]["labels"] = json!({"a": "b"});
    let replaced = server.send(Method::PUT, CRD, &[], Body::from(stored.to_string())).await;
    assert_eq!(replaced.code, StatusCode::OK, "{}", replaced.text);
    server.stopping.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_large_document_of_all_groups_is_sent_compressed_as_it_is_kept() {
    const AGGREGATED: &str = "application/json;g=apidiscovery.orch.io;v=v2;as=APIGroupDiscoveryList";
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    platform.define().await;
    let mut large = definition();
    let categories: Vec<String> = (0..4000).map(|at| format!("category-{at}-{}", "x".repeat(40))).collect();
    large["spec"]["names"]["categories"] = json!(categories);
    assert_eq!(server.merge(CRD, json!({"spec": large["spec"]})).await.code, StatusCode::OK);
    let get = |encoding: &'static str| async move {
        let headers = [("accept", AGGREGATED), ("accept-encoding", encoding)];
        let response = server.open(Method::GET, "/apis", &headers, Body::empty()).await;
        let (head, body) = response.into_parts();
        (head.headers, body.collect().await.unwrap().to_bytes())
    };
    let (plain, text) = get("identity").await;
    let (headers, compressed) = get("gzip").await;
    assert!(text.len() > 200_000 && compressed.len() * 4 < text.len(), "{}", compressed.len());
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(headers["content-length"], compressed.len().to_string().as_str());
    assert_eq!(
        (&headers["etag"], &headers["vary"]),
        (&plain["etag"], &"Accept, Accept-Encoding".parse().unwrap())
    );
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed), &mut unpacked).unwrap();
    assert_eq!(unpacked, text);
    let document: Value = serde_json::from_slice(&text).unwrap();
    let named = |name: &str| {
        document["items"].as_array().unwrap().iter().any(|item| item["metadata"]["name"] == name)
    };
    assert!(named("example.com") && named("apps"));
    server.stopping.cancel();
}

/// The answer to a create that waits in admission while `change` is carried out.
async fn overtaken(platform: &Platform, slow: &Slow, change: impl Future<Output = ()>) -> Answered {
    let body = Body::from(widget("late", json!([])).to_string());
    let creating = platform.server.send(Method::POST, WIDGETS, &[], body);
    let changing = async {
        slow.until_waiting(1).await;
        change.await;
        slow.answer(1);
    };
    futures::future::join(creating, changing).await.0
}

async fn with_slow() -> (Platform, Slow) {
    let slow = Slow::of(STORAGE);
    let platform = Platform::new(|pipeline| {
        pipeline.admission = builtin_with(Box::new(slow.clone()));
    })
    .await;
    (platform, slow)
}

#[tokio::test]
async fn a_slow_write_stores_nothing_of_a_kind_that_was_deleted_or_changed_meanwhile() {
    let (platform, slow) = with_slow().await;
    platform.define().await;
    let answered = overtaken(&platform, &slow, async {
        assert_eq!(platform.server.delete(CRD).await.code, StatusCode::OK);
        platform.until_gone(CRD).await;
    })
    .await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::NOT_FOUND, 0), "{}", answered.text);

    platform.define().await;
    let answered = overtaken(&platform, &slow, async {
        let changed = platform.server.merge(CRD, json!({"spec": {"versions": versions(true)}})).await;
        assert_eq!(changed.code, StatusCode::OK, "{}", changed.text);
    })
    .await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CONFLICT, 0), "{}", answered.text);
    assert!(answered.text.contains("definition"), "{}", answered.text);

    // The member that acknowledged the change serves the new form at once.
    slow.answer(1);
    let mut colored = widget("c", json!([]));
    colored["spec"]["color"] = json!("red");
    assert_eq!(platform.server.create(WIDGETS, colored).await["spec"]["color"], "red");
    slow.answer(1);
    assert_eq!(platform.server.delete(&format!("{WIDGETS}/c")).await.code, StatusCode::OK);
    // A kind that is defined again under its name is another one.
    let answered = overtaken(&platform, &slow, async {
        assert_eq!(platform.server.delete(CRD).await.code, StatusCode::OK);
        platform.until_gone(CRD).await;
        platform.define().await;
    })
    .await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CONFLICT, 0), "{}", answered.text);
    platform.server.stopping.cancel();
}

#[tokio::test]
async fn a_status_of_a_definition_overtakes_no_write() {
    let (platform, slow) = with_slow().await;
    platform.define().await;
    let record =
        || platform.server.store.state().collection(RECORDS).get("widgets.example.com").unwrap().revision;
    let before = record();
    let answered = overtaken(&platform, &slow, async {
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(platform.server.merge(CRD, labelled).await.code, StatusCode::OK);
        let status = json!({"status": {"storedVersions": ["v1"], "conditions": null}});
        assert_eq!(platform.server.merge(&format!("{CRD}/status"), status).await.code, StatusCode::OK);
    })
    .await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CREATED, 1), "{}", answered.text);
    assert_eq!(record(), before);
    platform.server.stopping.cancel();
}

#[tokio::test]
async fn objects_that_are_held_hold_their_definition_and_none_is_created_any_more() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    platform.define().await;
    let mut held = widget("held", json!([]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(WIDGETS, held).await;
    server.create(WIDGETS, widget("loose", json!([]))).await;
    let uid = server.get(CRD).await.json()["metadata"]["uid"].clone();
    let wrong = Body::from(json!({"preconditions": {"uid": "wrong"}}).to_string());
    let refused = server.send(Method::DELETE, CRD, &[("content-type", "application/json")], wrong).await;
    assert_eq!(refused.code, StatusCode::CONFLICT);
    let told = format!(
        "Precondition failed: UID in precondition: wrong, UID in object meta: {}",
        uid.as_str().unwrap()
    );
    assert!(refused.text.contains(&told), "{}", refused.text);
    let deleted = server.delete(CRD).await;
    assert_eq!(deleted.code, StatusCode::OK);
    let metadata = &deleted.json()["metadata"];
    assert_eq!(metadata["finalizers"], json!(["customresourcecleanup.apiextensions.orch.io"]));
    let is_in_progress =
        |answered: &Answered| condition(answered, "Terminating")["reason"] == "InstanceDeletionInProgress";
    platform.until(CRD, is_in_progress).await;
    platform.until_gone(&format!("{WIDGETS}/loose")).await;
    let late = Body::from(widget("late", json!([])).to_string());
    let refused = server.send(Method::POST, WIDGETS, &[], late).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused.json()["message"],
        "widgets.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let listed = server.get("/apis/example.com/v1").await.json();
    assert_eq!(
        listed["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    let again = server.send(Method::POST, CRDS, &[], Body::from(definition().to_string())).await;
    assert_eq!(again.code, StatusCode::CONFLICT);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.merge(&format!("{WIDGETS}/held"), free).await.code, StatusCode::OK);
    platform.until_gone(CRD).await;
    assert_eq!(server.get(WIDGETS).await.code, StatusCode::NOT_FOUND);
    server.stopping.cancel();
}

#[tokio::test]
async fn a_definition_without_its_finalizer_takes_its_objects_along() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    platform.define().await;
    let mut held = widget("held", json!([]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(WIDGETS, held).await;
    server.delete(CRD).await;
    server.merge(CRD, json!({"metadata": {"finalizers": null}})).await;
    platform.until_gone(CRD).await;
    // Created again at once, before anybody has cleaned up: what is left is removed first.
    server.create(CRDS, definition()).await;
    assert_eq!(platform.stored(), 0);
    server.stopping.cancel();
}

#[tokio::test]
async fn of_two_definitions_that_want_a_name_one_has_it_until_it_goes() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    let named = |plural: &str| {
        let mut wanted = definition();
        wanted["metadata"]["name"] = json!(format!("{plural}.example.com"));
        wanted["spec"]["names"]["plural"] = json!(plural);
        wanted["spec"]["names"]["singular"] = json!(format!("one-of-{plural}"));
        wanted
    };
    server.create(CRDS, named("apples")).await;
    server.create(CRDS, named("pears")).await;
    let path = |plural: &str| format!("{CRDS}/{plural}.example.com");
    let is_decided = |answered: &Answered| !condition(answered, "NamesAccepted").is_null();
    let mut told = Vec::new();
    for plural in ["apples", "pears"] {
        let answered = platform.until(&path(plural), is_decided).await;
        told.push((plural, condition(&answered, "NamesAccepted")["reason"].clone()));
    }
    told.sort_by_key(|(_, reason)| reason != "NoConflicts");
    assert_eq!((&told[0].1, &told[1].1), (&json!("NoConflicts"), &json!("ListKindConflict")), "{told:?}");
    let (first, second) = (told[0].0, told[1].0);
    let pears = format!("/apis/example.com/v1/namespaces/ns/{second}");
    assert_eq!(server.get(&pears).await.code, StatusCode::NOT_FOUND);
    server.delete(&path(first)).await;
    platform.until(&path(second), |answered| condition(answered, "Established")["status"] == "True").await;
    assert_eq!(server.get(&pears).await.code, StatusCode::OK);
    server.stopping.cancel();
}

#[tokio::test]
async fn a_group_named_as_the_stem_of_a_built_in_one_keeps_its_objects_apart() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    let mut roles = definition();
    roles["metadata"]["name"] = json!("roles.rbac.authorization");
    roles["spec"]["group"] = json!("rbac.authorization");
    roles["spec"]["names"]["plural"] = json!("roles");
    server.create(CRDS, roles).await;
    let path = format!("{CRDS}/roles.rbac.authorization");
    platform.until(&path, |answered| condition(answered, "Established")["status"] == "True").await;
    let own = "/apis/rbac.authorization/v1/namespaces/ns/roles";
    let mut object = widget("mine", json!([]));
    object["apiVersion"] = json!("rbac.authorization/v1");
    server.create(own, object).await;
    assert_eq!(server.get(own).await.names(), ["mine"]);
    let built_in = server.get("/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles").await;
    assert!(built_in.names().is_empty());
    server.stopping.cancel();
}

#[tokio::test]
async fn the_history_of_a_kind_that_is_gone_is_not_that_of_its_successor() {
    let platform = Platform::new(|_| {}).await;
    let server = &platform.server;
    platform.define().await;
    for name in ["a", "b"] {
        server.create(WIDGETS, widget(name, json!([]))).await;
    }
    let page = server.get(&format!("{WIDGETS}?limit=1")).await.json();
    let text = |field: &str| page["metadata"][field].as_str().unwrap().to_owned();
    let (revision, token) = (text("resourceVersion"), text("continue"));
    let paths = [
        format!("{WIDGETS}?resourceVersion={revision}&resourceVersionMatch=Exact"),
        format!("{WIDGETS}?resourceVersion={revision}&limit=1"),
        format!("{WIDGETS}?limit=1&continue={token}"),
    ];
    for path in &paths {
        assert_eq!(server.get(path).await.code, StatusCode::OK, "{path}");
    }
    assert_eq!(server.delete(CRD).await.code, StatusCode::OK);
    platform.until_gone(CRD).await;
    platform.define().await;
    let made = server.create(WIDGETS, widget("c", json!([]))).await;
    for path in &paths {
        let answered = server.get(path).await;
        assert_eq!(
            (answered.code, &answered.json()["reason"]),
            (StatusCode::GONE, &json!("Expired")),
            "{path}"
        );
    }
    let fresh = server.get(&paths[2]).await.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&format!("{WIDGETS}?continue={fresh}")).await.names(), ["c"]);
    let watch = |since: &str| format!("{WIDGETS}?watch=1&timeoutSeconds=1&resourceVersion={since}");
    let events = server.events(&watch(&revision)).await;
    assert_eq!((events.len(), &events[0]["type"]), (1, &json!("ERROR")), "{events:?}");
    assert_eq!(
        (&events[0]["object"]["code"], &events[0]["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    // From its definition on the history is its own.
    let record = server.store.state().collection(RECORDS).get("widgets.example.com").unwrap().created;
    let events = server.events(&watch(&record.to_string())).await;
    assert_eq!(events[0]["object"]["metadata"]["uid"], made["metadata"]["uid"], "{events:?}");
    let exact = format!("{WIDGETS}?resourceVersion={record}&resourceVersionMatch=Exact");
    assert!(server.get(&exact).await.names().is_empty());
    server.stopping.cancel();
}
