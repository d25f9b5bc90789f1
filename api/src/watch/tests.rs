//! Watches over one state machine in memory, looked at by hand: what they render, share, read and pass.

mod converting;
mod sharing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Fields, Index, Key, Labels, ObjectPath, Operation, Put, Revision, Store, Transaction};
use orch_rules::Action;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use super::cursor::MATCHED_BYTES_MAX;
use super::*;
use crate::ambient::{Ambient, Timestamp};
use crate::authn::User;
use crate::exchange::Exchange;
use crate::negotiate::{Encoding, JSON, MetaVersion, Representation, ResponseView};
use crate::paging::TokenKey;
use crate::pipeline::{Features, Request};
use crate::registry::{Registry, Resource};
use crate::render::{IncludeObject, Renderer, SharedEvents};
use crate::request::{Query, Target, Verb};
use crate::testing::gate;

const TABLE: Representation = Representation { view: ResponseView::Table, ..JSON };
const METADATA: Representation = Representation { view: ResponseView::Metadata, ..JSON };
const PROTOBUF: Representation = Representation { encoding: Encoding::Protobuf, ..JSON };

/// Bytes that a look on a thread which serves connections may read.
const READ_MAX: usize = 64 << 10;

/// A clock that tests set.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Ambient for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> u128 {
        7
    }
}

/// A node with config maps and events in the namespace `ns`, written past the rules of their kinds.
struct Node {
    pipeline: Arc<Pipeline<MemoryStore>>,
    clock: Arc<Clock>,
}

impl Node {
    /// An empty node, five seconds after its objects are created.
    fn new() -> Node {
        let clock = Arc::new(Clock(AtomicU64::new(1_767_323_050_000_000)));
        let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]));
        let (store, features) = (MemoryStore::default(), Features::default());
        let mut pipeline = Pipeline::new(store, registry, key, clock.clone(), features, gate());
        // A look here is one of a watch that has waited.
        pipeline.watch_batch_delay = Duration::ZERO;
        Node { pipeline: Arc::new(pipeline), clock }
    }

    fn store(&self) -> &MemoryStore {
        &self.pipeline.store
    }

    fn resource(&self, group: &str, plural: &str) -> Arc<Resource> {
        self.pipeline.registry().find(group, "v1", plural).unwrap().clone()
    }

    /// Puts `object` under `path`, or removes what is there.
    fn write(&self, storage: &str, path: &str, object: Option<&Value>) {
        let (namespace, name) = ObjectPath::of(path).parts();
        let key = Key::new(&storage.into(), namespace, name).unwrap();
        let operation = match object {
            None => Operation::Delete(key),
            Some(object) => {
                let mut object = object.clone();
                let metadata = &mut object["metadata"];
                metadata["name"] = json!(name);
                metadata["namespace"] = json!(namespace);
                metadata["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
                let app = metadata["labels"]["app"].as_str().map(str::to_owned);
                // First, so that its place is easily found; the order of members has no effect on what is rendered.
                let json = r#"{"metadata":{"resourceVersion":"","#;
                let revision_at = u32::try_from(json.len() - 2).unwrap();
                let metadata = metadata.to_string();
                object.as_object_mut().unwrap().swap_remove("metadata");
                let json = format!("{json}{},{}", &metadata[1..], &object.to_string()[1..]);
                let labels = Labels::new(app.iter().map(|app| ("app", app.as_str())));
                let fields = Fields::new([("type", object["type"].as_str().unwrap_or_default())]);
                let index = Index { labels, fields, ..Index::default() };
                Operation::Put(Put { key, json: Bytes::from(json), revision_at, index })
            }
        };
        let transaction = Transaction { operations: vec![operation], ..Transaction::default() };
        self.store().propose(transaction).now_or_never().unwrap().unwrap();
    }

    /// A watch of config maps that resumes at `revision`, with `query`.
    fn watch(&self, representation: Representation, revision: u64, query: &str) -> Watch<MemoryStore> {
        let resource = self.resource("", "configmaps");
        let renderer = self.renderer(&resource, representation, IncludeObject::Metadata);
        self.watch_of(&resource, renderer, &format!("resourceVersion={revision}&{query}"))
    }

    fn renderer(&self, resource: &Arc<Resource>, of: Representation, include: IncludeObject) -> Renderer {
        Renderer::new(&self.pipeline.registry(), resource, of, include)
    }

    fn watch_of(&self, resource: &Arc<Resource>, renderer: Renderer, query: &str) -> Watch<MemoryStore> {
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: "ns".to_owned(),
            resource: resource.plural.clone(),
            ..Target::default()
        };
        let request = Request {
            verb: Verb::Watch,
            registry: &self.pipeline.registry(),
            target: &target,
            resource,
            action: Action::Object,
            query: &Query::parse(query),
            exchange: &Exchange::internal(),
            user: &User::local_admin(),
            user_agent: "test",
            content_type: "",
            body: &Bytes::new(),
            budget: &Budget::default(),
        };
        let started = Watch::start(self.pipeline.clone(), request, renderer, Ending::default());
        started.now_or_never().expect("it waits for nothing").unwrap()
    }

    fn events(&self) -> &SharedEvents {
        &self.pipeline.shared_events
    }
}

/// A config map whose value has `bytes` bytes.
fn map(bytes: usize) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "data": {"k": "v".repeat(bytes)}})
}

/// The same with another label.
fn labelled_y(bytes: usize) -> Value {
    let mut map = map(bytes);
    map["metadata"]["labels"]["app"] = json!("y");
    map
}

/// The result of a look: `None` for a costly one.
fn looked(watch: &mut Watch<MemoryStore>, read_max: usize) -> Option<Bytes> {
    match watch.look(read_max) {
        LookResult::Frame(frame) => Some(frame),
        LookResult::Nothing => Some(Bytes::new()),
        LookResult::Costly => None,
        LookResult::Ended => panic!("the watch has ended"),
    }
}

/// All that is due.
fn all(watch: &mut Watch<MemoryStore>) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match looked(watch, usize::MAX).expect("nothing is costly without a bound") {
            frame if frame.is_empty() && !watch.is_behind => return all,
            frame => all.extend_from_slice(&frame),
        }
    }
}

/// A node holds a hundred thousand of them.
#[test]
fn an_idle_watch_holds_little() {
    let held = size_of::<Watch<MemoryStore>>();
    assert!(held <= 768, "{held} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_large_object_among_small_ones_is_costly_and_they_are_not() {
    let node = Node::new();
    for at in 0..41 {
        let bytes = if at == 20 { 100 << 10 } else { 1 << 10 };
        node.write("configmaps", &format!("ns/m{at:02}"), Some(&map(bytes)));
    }
    let rows = |frame: &[u8]| frame.iter().filter(|byte| **byte == b'\n').count();
    let mut watch = node.watch(TABLE, 1, "");
    assert_eq!(looked(&mut watch, READ_MAX).map(|frame| rows(&frame)), Some(20));
    assert_eq!(looked(&mut watch, READ_MAX), None, "the large one");
    assert_eq!(looked(&mut watch, READ_MAX), None, "it stays due");
    assert_eq!(looked(&mut watch, usize::MAX).map(|frame| rows(&frame)), Some(21));
    assert_eq!(looked(&mut watch, READ_MAX).as_deref(), Some(&b""[..]));
    node.write("configmaps", "ns/m00", Some(&map(50 << 10)));
    assert_eq!(looked(&mut watch, READ_MAX).map(|frame| rows(&frame)), Some(1), "it has caught up before");
    let mut second = node.watch(TABLE, 1, "");
    assert_eq!(looked(&mut second, READ_MAX).map(|frame| rows(&frame)), Some(42), "others have rendered all");
    let mut plain = node.watch(JSON, 1, "");
    while !looked(&mut plain, 0).expect("stored bytes are not read").is_empty() {}
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_costly_by_the_objects_that_are_selected() {
    let node = Node::new();
    for at in 0..200 {
        let mut object = map(1 << 10);
        object["metadata"]["labels"]["app"] = json!(if at % 20 == 0 { "x" } else { "y" });
        node.write("configmaps", &format!("ns/m{at:03}"), Some(&object));
    }
    let resource = node.resource("", "configmaps");
    let watch = |query: &str| {
        let renderer = node.renderer(&resource, TABLE, IncludeObject::Metadata);
        node.watch_of(&resource, renderer, query)
    };
    let mut selected = watch("labelSelector=app%3Dx");
    assert!(looked(&mut selected, READ_MAX).is_some_and(|frame| !frame.is_empty()));
    assert!(!selected.initial_events.are_due(), "ten small objects");
    let mut of_all = watch("");
    assert!(looked(&mut of_all, READ_MAX).is_some(), "until it has read as much as it may");
    assert!(looked(&mut of_all, READ_MAX).is_none());
    while of_all.initial_events.are_due() {
        assert!(looked(&mut of_all, usize::MAX).is_some());
    }
    assert_eq!(node.events().rendered(), 0, "they are no other watch's");
}

#[tokio::test(start_paused = true)]
async fn a_resume_passes_a_bounded_number_of_changes_before_it_is_answered() {
    let node = Node::new();
    for at in 0..10_000 {
        node.write("configmaps", &format!("ns/m{}", at % 10), Some(&map(1)));
    }
    let mut watch = node.watch(JSON, 1, "labelSelector=app%3Dy");
    assert!(watch.has_much_to_look_at(10_000) && !watch.has_much_to_look_at(10_001), "the exact number");
    watch.catch_up();
    assert_eq!(watch.position, Revision(1 + 8192));
    assert!(watch.has_much_to_look_at(1808) && !watch.has_much_to_look_at(1809));
    assert!(all(&mut watch).is_empty());
    assert_eq!(watch.position, Revision(10_001));
    let values: Vec<String> = (0..200).map(|at| format!("value{at}")).collect();
    let long = format!("labelSelector=app%3Dy,n+notin+({})", values.join(","));
    let mut selected = node.watch(JSON, 1, &long);
    selected.catch_up();
    let passed = usize::try_from(selected.position.0).unwrap() - 1;
    assert_eq!(passed, MATCHED_BYTES_MAX / selected.selector_bytes(), "fewer with a long selector");
}

#[tokio::test(start_paused = true)]
async fn a_resume_renders_nothing_before_it_is_answered() {
    let node = Node::new();
    for at in 0..5_000 {
        node.write("configmaps", &format!("ns/m{}", at % 10), Some(&map(1)));
    }
    node.write("configmaps", "ns/y", Some(&labelled_y(1)));
    node.write("configmaps", "ns/z", Some(&map(1)));
    let mut watch = node.watch(JSON, 1, "labelSelector=app%3Dy");
    watch.catch_up();
    assert_eq!((watch.output.is_empty(), watch.position), (true, Revision(5_001)), "up to what concerns it");
    watch.catch_up();
    assert_eq!(watch.position, Revision(5_001));
    let first = looked(&mut watch, READ_MAX).unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""), "{first:?}");
    watch.catch_up();
    assert_eq!(watch.position, Revision(5_003), "the end");
    let resource = node.resource("", "configmaps");
    let mut initial = node.watch_of(&resource, node.renderer(&resource, TABLE, IncludeObject::None), "");
    initial.catch_up();
    assert!(initial.output.is_empty() && initial.initial_events.are_due());
}

#[tokio::test(start_paused = true)]
async fn an_old_start_is_told_in_the_first_frame() {
    let node = Node::new();
    for _ in 0..2 {
        node.write("configmaps", "ns/a", Some(&map(1)));
    }
    node.store().forget_history();
    let mut watch = node.watch(JSON, 1, "");
    watch.catch_up();
    let LookResult::Frame(frame) = watch.look(READ_MAX) else { panic!("no frame") };
    assert!(frame.starts_with(b"{\"type\":\"ERROR\""), "{frame:?}");
    assert!(matches!(watch.look(READ_MAX), LookResult::Ended));
}
