//! A kind that comes and goes while the node runs: its table is built by hand, as definitions will be compiled.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::join_all;
use orch_rules::kinds::Plain;
use orch_schema::{
    Column, Field, ListTopology, ObjectType, ResourceType, Rules, Scalar, Schema, TypeId, ValueType,
};

use super::*;
use crate::admission::slow::Slow;
use crate::admission::testing::builtin_with;
use crate::controllers;
use crate::registry::{Kind, Record};

const STORAGE: &str = "widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";

/// Clients that write while the kind is taken away.
const CLIENTS: usize = 64;

/// Longest wait for a loop.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The types of a widget over the built-in ones, and its definition. `more` adds a field.
fn schema(base: &Arc<Schema>, more: bool) -> (Arc<Schema>, ResourceType) {
    let of_base = |name: &str| ValueType::Object(base.find_type(name).unwrap());
    let own = |at: usize| TypeId(u32::try_from(base.len() + at).unwrap());
    let written = |name: &str, number, value| {
        let mut field = Field::new(name, number, value);
        field.emit_empty = true;
        field
    };
    let mut fields = vec![Field::new("size", 1, ValueType::Scalar(Scalar::Int64))];
    if more {
        fields.push(Field::new("color", 2, ValueType::Scalar(Scalar::String(None))));
    }
    let spec = ObjectType::new("example.v1.WidgetSpec", fields);
    let meta = written("metadata", 1, of_base("meta.v1.ObjectMeta"));
    let mut widget =
        ObjectType::new("example.v1.Widget", vec![meta, Field::new("spec", 2, ValueType::Object(own(0)))]);
    widget.head = true;
    let items = ValueType::List { item: Box::new(ValueType::Object(own(1))), topology: ListTopology::Atomic };
    let list_meta = written("metadata", 1, of_base("meta.v1.ListMeta"));
    let mut list = ObjectType::new("example.v1.WidgetList", vec![list_meta, written("items", 2, items)]);
    list.head = true;
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let definition = ResourceType {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        plural: "widgets".to_owned(),
        singular: "widget".to_owned(),
        kind: "Widget".to_owned(),
        list_kind: "WidgetList".to_owned(),
        namespaced: true,
        verbs: verbs.map(str::to_owned).to_vec(),
        short_names: vec!["wd".to_owned()],
        categories: Vec::new(),
        subresources: Vec::new(),
        columns: Vec::<Column>::new(),
        type_id: own(1),
        rules: Rules::default(),
    };
    let types = vec![spec, widget, list];
    let schema = Schema::over(base.clone(), types).with_resources(vec![definition.clone()]);
    (Arc::new(schema), definition)
}

fn kinds(base: &Arc<Schema>, record: Option<Record>, more: bool) -> Vec<Kind> {
    let (schema, definition) = schema(base, more);
    let (schema, storage, strategy) = (schema.into(), STORAGE.into(), Arc::new(Plain));
    vec![Kind {
        definition,
        schema,
        storage,
        strategy,
        conversion: None,
        review: None,
        record,
        published: None,
    }]
}

/// A server that shares its pipeline with the test.
struct Platform {
    server: Server,
    pipeline: Arc<Pipeline<MemoryStore>>,
}

impl Platform {
    async fn new(change: impl FnOnce(&mut Pipeline<MemoryStore>)) -> Platform {
        let server = Server::new().await;
        let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
        change(&mut pipeline);
        let pipeline = Arc::new(pipeline);
        let router = Api::new(pipeline.clone(), server.stopping.clone()).router();
        Platform { server: Server { router, ..server }, pipeline }
    }

    async fn define(&self) {
        let base = self.pipeline.registry().schema.clone();
        self.pipeline.define(&STORAGE.into(), |record| kinds(&base, Some(record), false)).await.unwrap();
    }

    /// Runs the loops of a leader.
    fn start_loops(&self) {
        let (pipeline, stopping) = (self.pipeline.clone(), self.server.stopping.clone());
        tokio::spawn(async move {
            controllers::run(pipeline, controllers::Options::default(), stopping.cancelled_owned()).await;
        });
    }

    /// Waits until `path` is not found.
    async fn until_gone(&self, path: &str) {
        let gone = async {
            while self.server.get(path).await.code != StatusCode::NOT_FOUND {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(WAIT_MAX, gone).await.is_ok(), "{path} stays");
    }

    fn stored(&self) -> usize {
        self.server.store.state().collection(STORAGE).len()
    }
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
    assert!(described.contains("WidgetSpec") && described.contains("ObjectMeta"), "{described}");
    let after = server.get("/openapi/v3").await.json()["paths"].clone();
    assert!(index["apis/apps/v1"].is_object() && index["apis/example.com/v1"].is_null());
    assert_eq!(after["apis/apps/v1"], index["apis/apps/v1"]);
    assert!(after["apis/example.com/v1"].is_object());
    assert!(server.get("/openapi/v2").await.text.contains("example.v1.Widget"));
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

/// The kind is taken away while clients write.
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
        platform.pipeline.undefine(STORAGE).await.unwrap();
        is_gone.store(true, Ordering::SeqCst);
    };
    let (codes, ()) = futures::future::join(writing, going).await;
    let mut counts = std::collections::BTreeMap::<u16, usize>::new();
    codes.into_iter().flat_map(Result::unwrap).for_each(|code| *counts.entry(code).or_default() += 1);
    assert!(counts.keys().all(|code| [200, 201, 404, 409].contains(code)), "{counts:?}");
    assert!(counts[&201] > 2 * CLIENTS && counts[&404] >= 3 * CLIENTS, "{counts:?}");
    assert_eq!(platform.stored(), 0, "no object is left");
    assert!(server.store.state().collection(crate::pipeline::DEFINITIONS).is_empty());
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
    platform.start_loops();
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

/// The answer to a create that waits in admission while `change` is carried out.
async fn overtaken<F: Future<Output = ()>>(
    platform: &Platform,
    slow: &Slow,
    change: impl FnOnce(Arc<Pipeline<MemoryStore>>) -> F,
) -> Answered {
    let body = Body::from(widget("late", json!([])).to_string());
    let creating = platform.server.send(Method::POST, WIDGETS, &[], body);
    let changing = async {
        slow.until_waiting(1).await;
        change(platform.pipeline.clone()).await;
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

#[tokio::test(start_paused = true)]
async fn a_slow_write_stores_nothing_of_a_kind_that_was_taken_away_or_changed_meanwhile() {
    let (platform, slow) = with_slow().await;
    platform.define().await;
    let undefine = |pipeline: Arc<Pipeline<MemoryStore>>| async move {
        pipeline.undefine(STORAGE).await.unwrap();
    };
    let answered = overtaken(&platform, &slow, undefine).await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::NOT_FOUND, 0), "{}", answered.text);

    platform.define().await;
    let redefine = |pipeline: Arc<Pipeline<MemoryStore>>| async move {
        let base = pipeline.registry().schema.clone();
        pipeline.redefine(STORAGE, |record| kinds(&base, Some(record), true)).await.unwrap();
    };
    let answered = overtaken(&platform, &slow, redefine).await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CONFLICT, 0), "{}", answered.text);
    assert!(answered.text.contains("definition"), "{}", answered.text);

    // In its new form the kind is written again.
    slow.answer(1);
    let mut colored = widget("c", json!([]));
    colored["spec"]["color"] = json!("red");
    assert_eq!(platform.server.create(WIDGETS, colored).await["spec"]["color"], "red");
    // Taken away and defined again: a kind of the same name is another one.
    let again = |pipeline: Arc<Pipeline<MemoryStore>>| async move {
        pipeline.undefine(STORAGE).await.unwrap();
        let base = pipeline.registry().schema.clone();
        pipeline.define(&STORAGE.into(), |record| kinds(&base, Some(record), false)).await.unwrap();
    };
    let answered = overtaken(&platform, &slow, again).await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CONFLICT, 0), "{}", answered.text);
}

#[tokio::test(start_paused = true)]
async fn without_the_condition_a_slow_write_leaves_an_object_of_a_kind_that_is_gone() {
    // The planted bug: a resource that does not name its record.
    let (platform, slow) = with_slow().await;
    let pipeline = platform.pipeline.clone();
    let base = pipeline.registry().schema.clone();
    pipeline.define(&STORAGE.into(), |record| kinds(&base, Some(record), false)).await.unwrap();
    let served = |change: Vec<Kind>| {
        pipeline.served.update(|now| now.without(STORAGE).with(change)).unwrap();
    };
    let known = pipeline.registry().stored(STORAGE).unwrap().record.clone();
    served(kinds(&base, None, false));
    let undefine = |pipeline: Arc<Pipeline<MemoryStore>>| async move {
        let base = pipeline.registry().schema.clone();
        pipeline.served.update(|now| now.without(STORAGE).with(kinds(&base, known, false))).unwrap();
        pipeline.undefine(STORAGE).await.unwrap();
    };
    let answered = overtaken(&platform, &slow, undefine).await;
    assert_eq!((answered.code, platform.stored()), (StatusCode::CREATED, 1), "{}", answered.text);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_defined_once_and_takes_no_place_of_another() {
    let platform = Platform::new(|_| {}).await;
    platform.define().await;
    let base = platform.pipeline.registry().schema.clone();
    let define = |storage: &'static str, change: fn(&mut Kind)| {
        let (pipeline, base) = (platform.pipeline.clone(), base.clone());
        async move {
            let make = |record| {
                let mut made = kinds(&base, Some(record), false);
                made.iter_mut().for_each(change);
                made
            };
            pipeline.define(&storage.into(), make).await
        }
    };
    assert!(define(STORAGE, |_| {}).await.is_err(), "it is defined");
    let refused = define("others.example.com", |kind| kind.storage = "others.example.com".into()).await;
    assert!(refused.is_err(), "its path and kind are taken");
    let records = platform.server.store.state().collection(crate::pipeline::DEFINITIONS).len();
    assert_eq!(records, 1, "what is not served has no record");
    assert!(platform.pipeline.undefine("pods").await.is_err(), "built-in kinds stay");
    assert!(platform.pipeline.redefine("nopes.example.com", |_| Vec::new()).await.is_err());
    platform.pipeline.undefine(STORAGE).await.unwrap();
    assert!(platform.pipeline.undefine(STORAGE).await.is_err());
}
