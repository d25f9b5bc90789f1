//! Lists through an index compared with scans, over random histories; and what an index saves and holds.

use std::sync::Arc;

use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Fields, Index as Indexed, Key, Labels, Object, Operation, Put, Transaction};
use orch_rules::selector::{FieldSelector, LabelSelector, SelectableFields};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::terms::has_many_labels;
use super::*;
use crate::registry::Registry;

fn pods() -> Arc<Resource> {
    Registry::builtin(&ORCH).find("", "v1", "pods").unwrap().clone()
}

/// A store of pods, and the collection after each of its writes.
struct Pods {
    resource: Arc<Resource>,
    store: MemoryStore,
    indexes: Indexes,
    seen: Vec<(Revision, Arc<Collection>)>,
    now_ms: u64,
}

/// A pod that is put: fields by name or, as stored by older programs, by place, and labels.
#[derive(Clone, Debug, Default)]
struct Pod {
    node: String,
    phase: &'static str,
    is_unnamed: bool,
    /// Bytes beside the rest: how many labels are filed is told by the size.
    filling: usize,
    labels: Vec<(String, String)>,
}

impl Pods {
    fn new(builder: Builder) -> Pods {
        let (resource, store) = (pods(), MemoryStore::default());
        let first = (store.state().applied(), store.state().collection(&resource.storage));
        Pods { resource, store, indexes: Indexes::of_all(builder), seen: vec![first], now_ms: 0 }
    }

    async fn write(&mut self, path: &str, pod: Option<&Pod>) {
        let (namespace, name) = path.split_once('/').unwrap();
        let key = Key::new(&self.resource.storage, namespace, name).unwrap();
        let operation = match pod {
            None => Operation::Delete(key),
            Some(pod) => {
                let values = [("spec.nodeName", pod.node.as_str()), ("status.phase", pod.phase)];
                let fields = self.resource.rules.selectable.iter().map(|field| {
                    let value =
                        values.iter().find(|(name, _)| *name == field.name).map_or("", |(_, value)| *value);
                    (if pod.is_unnamed { "" } else { field.name.as_str() }, value)
                });
                let json = format!(r#"{{"v":"","filling":"{}"}}"#, "x".repeat(pod.filling));
                let labels: std::collections::BTreeMap<_, _> = pod.labels.iter().cloned().collect();
                let (fields, labels) = (Fields::new(fields), Labels::new(&labels));
                let index = Indexed { labels, fields, ..Indexed::default() };
                Operation::Put(Put { key, json: json.into(), revision_at: 6, index })
            }
        };
        let transaction =
            Transaction { proposed_ms: self.now_ms, operations: vec![operation], ..Transaction::default() };
        self.store.propose(transaction).await.unwrap();
        let state = self.store.state();
        self.seen.push((state.applied(), state.collection(&self.resource.storage)));
    }

    fn selector(&self, labels: &str, fields: &str) -> Selector {
        let declared = &self.resource.rules.selectable;
        let fields =
            FieldSelector::parse(fields, SelectableFields { declared, namespaced: true, is_defined: false })
                .unwrap();
        Selector { labels: LabelSelector::parse(labels).unwrap(), fields }
    }

    /// Whether an object under `path` ever had one of the `equalities`, or too many labels to be filed by.
    fn ever_had(&self, path: &str, equalities: &[Selector]) -> bool {
        let had = |object: &Object| equalities.iter().any(|equality| equality.matches(path, object));
        let mut versions = self.seen.iter().filter_map(|(_, collection)| collection.get(path));
        versions.any(|object| has_many_labels(object) || had(object))
    }

    /// The lookup for a list of the collection `back` writes ago.
    async fn lookup(
        &self,
        back: usize,
        namespace: &str,
        selector: &Selector,
    ) -> (Arc<Collection>, Option<Lookup>) {
        let (revision, collection) = self.seen[self.seen.len().saturating_sub(back + 1)].clone();
        let read = (&*collection, revision);
        let lookup = self.indexes.lookup(&self.store, &self.resource, read, namespace, selector).await;
        (collection, lookup)
    }
}

/// A selector: of labels, and of fields.
type Texts = (&'static str, &'static str);

/// Labels, fields, and the equalities of which an index is asked one. A list without any is a scan.
const SELECTORS: [(&str, &str, &[Texts]); 10] = [
    ("", "spec.nodeName=n1", &[("", "spec.nodeName=n1")]),
    ("app=a", "", &[("app=a", "")]),
    ("app in (a),tier=x", "", &[("app=a", ""), ("tier=x", "")]),
    (
        "app=a,tier!=x",
        "spec.nodeName=n1,status.phase=Running",
        &[("app=a", ""), ("", "spec.nodeName=n1"), ("", "status.phase=Running")],
    ),
    ("app in (a,b)", "spec.nodeName!=n1", &[]),
    ("app=a", "spec.nodeName=", &[("app=a", "")]),
    ("app=a,app=b", "", &[]),
    ("", "spec.nodeName=n1,spec.nodeName=n2", &[("", "spec.nodeName=n1"), ("", "spec.nodeName=n2")]),
    ("app=", "status.phase=Running", &[("app=", ""), ("", "status.phase=Running")]),
    ("", "spec.restartPolicy=Always", &[]),
];

const NAMESPACES: [&str; 4] = ["a", "a-b", "ab", "b"];

#[derive(Clone, Debug)]
enum Step {
    Put(String, Pod),
    Delete(String),
    /// Milliseconds pass.
    Pass(u64),
    ForgetHistory,
    Revoke,
    List {
        selector: usize,
        namespace: &'static str,
        back: usize,
        after: String,
        /// Objects of a page.
        limit: usize,
    },
}

fn path() -> impl Strategy<Value = String> {
    (prop::sample::select(NAMESPACES.to_vec()), 0..12_u8)
        .prop_map(|(namespace, name)| format!("{namespace}/p{name:02}"))
}

fn pod() -> impl Strategy<Value = Pod> {
    let few = prop::collection::vec(
        (prop::sample::select(vec!["app", "tier"]), prop::sample::select(vec!["", "a", "b", "x"])),
        0..3,
    );
    let node = prop::sample::select(vec!["", "n1", "n2"]);
    let phase = prop::sample::select(vec!["", "Running", "Failed"]);
    let filling = prop::sample::select(vec![0, 400]);
    (node, phase, any::<bool>(), few, prop::bool::weighted(0.1), filling).prop_map(
        |(node, phase, is_unnamed, few, is_crowded, filling)| {
            let crowd = (0..if is_crowded { 9 } else { 0 }).map(|at| (format!("l{at}"), String::new()));
            let few = few.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            Pod { node: node.to_owned(), phase, is_unnamed, filling, labels: few.chain(crowd).collect() }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let list = (
        0..SELECTORS.len(),
        prop::sample::select(vec!["", "", "a", "a-b", "ab", "b", "c"]),
        prop_oneof![Just(0_usize), 0..8_usize, 0..80_usize],
        prop_oneof![Just(String::new()), path()],
        prop_oneof![1..4_usize, Just(usize::MAX)],
    );
    let list = list.prop_map(|(selector, namespace, back, after, limit)| Step::List {
        selector,
        namespace,
        back,
        after,
        limit,
    });
    prop_oneof![
        12 => (path(), pod()).prop_map(|(path, pod)| Step::Put(path, pod)),
        3 => path().prop_map(Step::Delete),
        2 => (0..400_000_u64).prop_map(Step::Pass),
        1 => Just(Step::ForgetHistory),
        1 => Just(Step::Revoke),
        8 => list,
    ]
}

impl Pods {
    /// Lists in pages, each with a lookup of its own, and compares with a scan.
    async fn check_list(&self, of: usize, namespace: &str, (back, mut after): (usize, String), limit: usize) {
        let (labels, fields, equalities) = SELECTORS[of];
        let told = format!("{labels} {fields} in {namespace:?}, {back} writes ago, behind {after:?}");
        let equalities = equalities.iter().map(|(labels, fields)| self.selector(labels, fields));
        let (selector, equalities) = (self.selector(labels, fields), equalities.collect::<Vec<_>>());
        let (_, collection) = &self.seen[self.seen.len().saturating_sub(back + 1)];
        let within = collection.within(namespace, &after);
        let scanned = within.filter(|(path, object)| selector.matches(path, object));
        let scanned: Vec<String> = scanned.map(|(path, _)| path.to_string()).collect();
        let mut listed = Vec::new();
        loop {
            let lookup = self.lookup(back, namespace, &selector).await.1;
            assert!(lookup.is_none() || !equalities.is_empty(), "{told}: through an index");
            assert!(lookup.is_some() || equalities.is_empty() || back > 0, "{told}: a scan");
            let visited =
                Matching::new(collection, lookup.as_ref(), namespace, &after).inspect(|(path, _)| {
                    // So few objects are never scanned behind a lookup: only what is filed there is looked at.
                    assert!(lookup.is_none() || self.ever_had(path, &equalities), "{told} looks at {path}");
                });
            let selected = visited.filter(|(path, object)| selector.matches(path, object));
            let page: Vec<String> = selected.map(|(path, _)| path.to_string()).take(limit).collect();
            let Some(last) = page.last() else { break };
            after = last.clone();
            listed.extend(page);
        }
        assert_eq!(listed, scanned, "{told}");
    }
}

async fn run(builder: Builder, steps: Vec<Step>) {
    let mut pods = Pods::new(builder);
    for step in steps {
        match step {
            Step::Put(path, pod) => pods.write(&path, Some(&pod)).await,
            Step::Delete(path) => pods.write(&path, None).await,
            Step::Pass(ms) => pods.now_ms += ms,
            Step::ForgetHistory => pods.store.forget_history(),
            Step::Revoke => pods.store.revoke(),
            Step::List { selector, namespace, back, after, limit } => {
                pods.check_list(selector, namespace, (back, after), limit).await;
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..150)
}

fn play(builder: Builder, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run(builder, steps));
}

proptest! {
    #[test]
    fn a_list_through_an_index_is_that_of_a_scan(steps in steps()) {
        play(Builder::BlockingThread, steps);
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in INDEX_BUGS {
        let mut runner =
            TestRunner::new(Config { max_shrink_iters: 0, failure_persistence: None, ..Config::default() });
        let played = |steps| {
            play(Builder::Caller, steps);
            Ok(())
        };
        let found = with_index_bug(bug, || runner.run(&steps(), played));
        assert!(found.is_err(), "{bug:?} is not found");
    }
}

/// Six thousand pods on a hundred nodes, with a crowd of labels on one in thousand.
async fn filled() -> Pods {
    let mut pods = Pods::new(Builder::BlockingThread);
    for at in 0..6_000 {
        let crowd = (0..if at % 1_000 == 7 { 9 } else { 0 }).map(|at| (format!("l{at}"), "".into()));
        let own = [("app".into(), format!("a{}", at / 20)), ("all".into(), "".into())];
        let labels = own.into_iter().chain(crowd).collect();
        let pod =
            Pod { node: format!("n{}", at % 100), phase: "Running", labels, filling: 400, ..Pod::default() };
        pods.write(&format!("{}/p{at:04}", NAMESPACES[at % 4]), Some(&pod)).await;
    }
    pods
}

#[tokio::test]
async fn a_list_by_an_equality_looks_at_what_is_filed_there() {
    let pods = filled().await;
    for (labels, fields, namespace, looked_at) in [
        ("", "spec.nodeName=n7", "", 60),
        ("", "spec.nodeName=n7", "b", 60),
        ("", "spec.nodeName=n7", "a", 0),
        ("", "spec.nodeName=n7,status.phase=Running", "", 60),
        ("", "status.phase=Running,spec.nodeName=n7", "", 60),
        // And the six that have many labels.
        ("app=a7", "", "", 26),
        ("all=,app=a7", "", "", 26),
        ("app=a7,tier!=x", "spec.nodeName=none", "", 0),
        ("", "spec.nodeName=none", "", 0),
        // What all have is scanned, after a part of it was looked up.
        ("all=", "", "", 6_000),
    ] {
        let selector = pods.selector(labels, fields);
        let (collection, lookup) = pods.lookup(0, namespace, &selector).await;
        let found = Matching::new(&collection, Some(&lookup.unwrap()), namespace, "").count();
        assert_eq!(found, looked_at, "{labels} {fields} in {namespace:?}");
    }
}

#[tokio::test]
async fn a_page_of_an_older_revision_finds_what_has_lost_the_term_since() {
    let mut pods = filled().await;
    let selector = pods.selector("", "spec.nodeName=n7");
    let (collection, lookup) = pods.lookup(0, "", &selector).await;
    let before = lookup.unwrap();
    let paths: Vec<Arc<str>> =
        Matching::new(&collection, Some(&before), "", "").map(|(path, _)| path.clone()).collect();
    for path in &paths {
        pods.write(path, Some(&Pod { node: "n8".into(), ..Pod::default() })).await;
    }
    let (newest, now) = pods.lookup(0, "", &selector).await;
    let selected =
        |(path, object): &(&Arc<str>, &orch_raft::object::SharedObject)| selector.matches(path, object);
    assert_eq!(Matching::new(&newest, now.as_ref(), "", "").filter(selected).count(), 0);
    // With the lookup of the first page, and with one of its own.
    let again = pods.lookup(paths.len(), "", &selector).await.1.unwrap();
    for lookup in [&before, &again] {
        let rest = Matching::new(&collection, Some(lookup), "", &paths[30]).map(|(path, _)| path.clone());
        assert_eq!(rest.collect::<Vec<_>>(), paths[31..]);
    }
}

#[tokio::test]
async fn a_list_scans_a_part_while_its_index_is_brought_up_and_goes_back_to_it() {
    let pods = filled().await;
    let selector = pods.selector("", "spec.nodeName=n7");
    let (collection, lookup) = pods.lookup(0, "", &selector).await;
    let lookup = lookup.unwrap();
    let way = || Matching::new(&collection, Some(&lookup), "", "");
    let selected =
        |(path, object): &(&Arc<str>, &orch_raft::object::SharedObject)| selector.matches(path, object);
    let paths: Vec<&Arc<str>> = way().filter(selected).map(|(path, _)| path).collect();
    let terms = &pods.indexes.index(&pods.resource).terms;
    let mut later = way();
    let mut found: Vec<_> = terms.while_locked(|| later.by_ref().take(500).collect());
    found.extend(later);
    assert!((1_024..=1_084).contains(&found.len()), "{} objects", found.len());
    let again: Vec<&Arc<str>> = found.into_iter().filter(selected).map(|(path, _)| path).collect();
    assert_eq!(again, paths);
    assert_eq!(terms.while_locked(|| way().count()), 6_000, "all, where the lock is not given back");
}

#[tokio::test]
async fn an_index_that_no_list_asks_for_is_given_back() {
    let pods = filled().await;
    let selector = pods.selector("", "spec.nodeName=n7");
    assert!(pods.lookup(0, "", &selector).await.1.is_some());
    let index = pods.indexes.index(&pods.resource);
    let is_held = || index.terms.peek(|_| ()).is_some();
    pods.indexes.look_for_unused();
    assert!(is_held(), "a list has asked since the last look");
    pods.indexes.look_for_unused();
    assert!(!is_held());
    assert_eq!(pods.indexes.by_storage.read().len(), 0, "the kind may be gone");
    // What was given out goes on as a scan, and the next list has it made again.
    assert!(pods.lookup(0, "", &selector).await.1.is_some());
    assert!(pods.indexes.index(&pods.resource).terms.peek(|_| ()).is_some());
}

#[tokio::test]
async fn an_index_is_made_for_many_lists_of_many_objects() {
    let mut pods = filled().await;
    let selector = pods.selector("", "spec.nodeName=n7");
    pods.indexes = Indexes::default();
    let mut scans = 0;
    while pods.lookup(0, "", &selector).await.1.is_none() {
        scans += 1;
    }
    assert_eq!(scans, SCANS_BEFORE);
    let few = Pods::new(Builder::BlockingThread);
    let few = Pods { indexes: Indexes { scans_before: 0, ..Indexes::default() }, ..few };
    assert!(few.lookup(0, "", &selector).await.1.is_none());
}

#[test]
fn versions_of_a_kind_file_their_objects_by_the_same_fields() {
    let registry = Registry::builtin(&ORCH);
    let mut by_storage = HashMap::new();
    for resource in registry.resources() {
        let fields: Vec<(&str, usize)> = indexed(resource).collect();
        let known = by_storage.entry(resource.storage.clone()).or_insert_with(|| fields.clone());
        assert_eq!(*known, fields, "{} {}", resource.storage, resource.version);
    }
}
