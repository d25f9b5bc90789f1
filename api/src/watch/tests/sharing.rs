//! Events that several watches share: each gets the bytes that it would render alone, and one of them renders.

use orch_raft::object::SharedObject;
use proptest::prelude::*;

use super::*;
use crate::render::{Event, EventKey, EventType, SHARED_BYTES_MAX};

const SELECTORS: [&str; 7] = [
    "",
    "labelSelector=app%3Dx",
    "labelSelector=app%21%3Dx",
    "labelSelector=%21app",
    "labelSelector=app+in+%28x%2Cy%29",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=type%3DNormal",
];

const INCLUDES: [IncludeObject; 3] = [IncludeObject::None, IncludeObject::Metadata, IncludeObject::Object];

fn representations() -> Vec<Representation> {
    let older = MetaVersion::V1Beta1;
    let mut all = vec![JSON, PROTOBUF, Representation { pretty: true, ..JSON }];
    for view in [ResponseView::Table, ResponseView::Metadata] {
        all.push(Representation { view, ..JSON });
        all.push(Representation { view, meta_version: older, ..JSON });
    }
    all.push(Representation { view: ResponseView::Metadata, ..PROTOBUF });
    all
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// The object `name` gets these values; without, it is removed.
    Write { name: &'static str, object: Option<(&'static str, &'static str, usize)> },
    /// Half a second passes.
    Pass,
    /// The watch with this index looks, and reads at most this many bytes outside of the pool.
    Look { watch: usize, read_max: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    // The largest values are larger than what is copied into a frame.
    let bytes = prop_oneof![6 => 0..200_usize, 1 => 17_000..20_000_usize, 1 => 70_000..80_000_usize];
    let object =
        (prop::sample::select(vec!["", "x", "y"]), prop::sample::select(vec!["Normal", "Warning"]), bytes);
    prop_oneof![
        4 => (name, prop::option::weighted(0.75, object)).prop_map(|(name, object)| Step::Write { name, object }),
        1 => Just(Step::Pass),
        4 => (0..6_usize, prop_oneof![Just(0), Just(READ_MAX), Just(usize::MAX)])
            .prop_map(|(watch, read_max)| Step::Look { watch, read_max }),
    ]
}

/// Selector, representation, part of the object in a table, and whether events are converted.
fn watched() -> impl Strategy<Value = (usize, usize, usize, bool)> {
    (0..SELECTORS.len(), 0..representations().len(), 0..INCLUDES.len(), any::<bool>())
}

fn event_object((app, kind, bytes): (&str, &str, usize)) -> Value {
    let mut object = json!({
        "metadata": {},
        "involvedObject": { "kind": "Pod", "name": "p" },
        "reason": "Test",
        "message": "m".repeat(bytes),
        "source": { "component": "c" },
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "type": kind,
    });
    if !app.is_empty() {
        object["metadata"]["labels"] = json!({ "app": app });
    }
    object
}

/// A watch, and the bytes of a client that is served alone.
struct Client {
    watch: Watch<MemoryStore>,
    renderer: Renderer,
    position: Revision,
    got: Vec<u8>,
    expected: Vec<u8>,
    is_first: bool,
}

impl Client {
    fn new(
        node: &Node,
        (selector, representation, include, is_converted): (usize, usize, usize, bool),
    ) -> Client {
        let group = if is_converted { "events.orch.io" } else { "" };
        let resource = node.resource(group, "events");
        let renderer = node.renderer(&resource, representations()[representation], INCLUDES[include]);
        let query = format!("resourceVersion=1&{}", SELECTORS[selector]);
        let watch = node.watch_of(&resource, renderer.clone(), &query);
        let position = Revision(1);
        Client { watch, renderer, position, got: Vec::new(), expected: Vec::new(), is_first: true }
    }

    /// Takes all that is due, as the server does, and renders it alone.
    fn look(&mut self, node: &Node, read_max: usize) {
        loop {
            let frame = looked(&mut self.watch, read_max);
            let frame = frame.unwrap_or_else(|| looked(&mut self.watch, usize::MAX).unwrap());
            if frame.is_empty() {
                break;
            }
            self.got.extend_from_slice(&frame);
        }
        let (state, now) = (node.store().state(), node.pipeline.ambient.now());
        let collection = state.collection("events");
        for change in collection.changes_after(self.position).unwrap() {
            let Some(Event { kind, object, revision }) = self.watch.scope.event(change) else { continue };
            let first = std::mem::take(&mut self.is_first);
            self.renderer.event(kind, object, revision, first, now, &mut self.expected).unwrap();
        }
        self.position = state.applied();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn shared_events_are_those_that_each_watch_renders_alone(
        watched in prop::collection::vec(watched(), 6),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let _entered = runtime.enter();
        let node = Node::new();
        let mut clients: Vec<Client> = watched.iter().map(|watched| Client::new(&node, *watched)).collect();
        for step in &steps {
            match *step {
                Step::Write { name, object } => {
                    node.write("events", &format!("ns/{name}"), object.map(event_object).as_ref());
                }
                Step::Pass => drop(node.clock.0.fetch_add(500_000, Ordering::Relaxed)),
                Step::Look { watch, read_max } => clients[watch].look(&node, read_max),
            }
        }
        for client in &mut clients {
            client.look(&node, READ_MAX);
            let is_same = client.got == client.expected;
            prop_assert!(is_same, "{:?}:\n{}\nalone:\n{}", client.renderer.form(), shown(&client.got), shown(&client.expected));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(4_000).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_is_rendered_once_for_all_watches_of_a_form() {
    let node = Node::new();
    let counts = || (node.events().rendered(), node.events().taken());
    let mut tables: Vec<_> = (0..50).map(|_| node.watch(TABLE, 1, "")).collect();
    let mut others = [node.watch(METADATA, 1, ""), node.watch(JSON, 1, ""), node.watch(PROTOBUF, 1, "")];
    let look = |watches: &mut [Watch<MemoryStore>]| watches.iter_mut().map(all).collect::<Vec<_>>();
    node.write("configmaps", "ns/a", Some(&map(10)));
    let first = look(&mut tables);
    assert_eq!(counts(), (1, 49));
    assert!(first.iter().all(|frame| *frame == first[0]) && shown(&first[0]).contains("\"name\":\"Age\""));
    node.write("configmaps", "ns/a", Some(&map(20)));
    let second = look(&mut tables);
    assert_eq!(counts(), (2, 98));
    assert!(
        second.iter().all(|frame| *frame == second[0])
            && shown(&second[0]).contains("\"columnDefinitions\":null")
    );
    look(&mut others);
    assert_eq!(counts(), (4, 98), "two of metadata; the others hand out what the objects hold");
    let mut late = [node.watch(TABLE, 1, "")];
    look(&mut late);
    assert_eq!(counts(), (4, 100), "a late watch takes both");
    node.write("configmaps", "ns/a", None);
    let mut messages: Vec<_> = (0..3).map(|_| node.watch(PROTOBUF, 3, "")).collect();
    look(&mut messages);
    assert_eq!(counts(), (5, 102), "a removal has a revision that no message holds");
    look(&mut tables);
    assert_eq!(counts(), (6, 151));
    node.clock.0.fetch_add(1_000_000, Ordering::Relaxed);
    let mut late = [node.watch(TABLE, 1, ""), node.watch(METADATA, 3, "")];
    look(&mut late);
    assert_eq!(counts(), (10, 151), "ages of another second are another table");
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_makes_another_event_of_a_change_renders_it() {
    let node = Node::new();
    node.write("configmaps", "ns/a", Some(&map(1)));
    let mut object = map(2);
    object["metadata"]["labels"]["app"] = json!("y");
    node.write("configmaps", "ns/a", Some(&object));
    for (query, kind) in
        [("", "MODIFIED"), ("labelSelector=app%3Dx", "DELETED"), ("labelSelector=app%3Dy", "ADDED")]
    {
        let events = all(&mut node.watch(METADATA, 2, query));
        assert!(shown(&events).starts_with(&format!("{{\"type\":\"{kind}\"")), "{query}: {}", shown(&events));
        assert!(shown(&events).contains("\"resourceVersion\":\"3\""), "{query}: {}", shown(&events));
    }
    assert_eq!((node.events().rendered(), node.events().taken()), (3, 0));
}

/// The only config map of a node that was written `count` times, in each of its versions.
fn versions(node: &Node, count: usize) -> Vec<SharedObject> {
    let version = |_| {
        node.write("configmaps", "ns/a", Some(&map(1)));
        node.store().state().collection("configmaps").get("ns/a").unwrap().clone()
    };
    (0..count).map(version).collect()
}

fn key(renderer: &Renderer, object: &SharedObject) -> EventKey {
    let event = Event { kind: EventType::Added, object, revision: None };
    EventKey::of(&event, renderer.form(), false, Timestamp::default())
}

#[test]
fn events_that_are_kept_stay_within_their_bound_and_the_oldest_leave() {
    let node = Node::new();
    let (resource, events) = (node.resource("", "configmaps"), SharedEvents::default());
    let renderer = node.renderer(&resource, METADATA, IncludeObject::None);
    let objects = versions(&node, 600);
    for object in &objects {
        events.keep(key(&renderer, object), vec![0; 10_000], object, &resource);
        assert!(events.kept_bytes() <= SHARED_BYTES_MAX, "{}", events.kept_bytes());
    }
    assert!(events.kept_bytes() > SHARED_BYTES_MAX - 12_000, "{}", events.kept_bytes());
    let is_kept = |object: &SharedObject| events.find(&key(&renderer, object)).is_some();
    assert!(
        !is_kept(&objects[0]) && !is_kept(&objects[100]) && is_kept(&objects[300]) && is_kept(&objects[599])
    );
    let largest = events.keep(key(&renderer, &objects[0]), vec![0; SHARED_BYTES_MAX], &objects[0], &resource);
    assert_eq!(largest.len(), SHARED_BYTES_MAX, "it is sent");
    assert!(!is_kept(&objects[0]) && is_kept(&objects[599]), "and pushes no other out");
}

#[test]
fn an_event_leaves_when_neither_the_state_nor_the_history_has_its_object() {
    let node = Node::new();
    let (resource, events) = (node.resource("", "configmaps"), SharedEvents::default());
    let renderer = node.renderer(&resource, METADATA, IncludeObject::None);
    let mut objects = versions(&node, 3);
    let newest = objects.pop().unwrap();
    for object in &objects {
        events.keep(key(&renderer, object), vec![0; 100], object, &resource);
    }
    let both = events.kept_bytes();
    drop(objects);
    node.store().forget_history();
    events.keep(key(&renderer, &newest), vec![0; 100], &newest, &resource);
    assert_eq!(events.kept_bytes(), both / 2, "one instead of two");
    let again = events.keep(key(&renderer, &newest), vec![1; 100], &newest, &resource);
    assert_eq!(again[0], 0, "the first of two renderings is kept");
    assert_eq!(events.kept_bytes(), both / 2);
}
