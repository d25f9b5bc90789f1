//! Tests of `apply`, and of older revisions rebuilt from the history.

mod broken;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::digest::{DigestError, digest};
use crate::object::Index;

fn key(resource: &str, name: &str) -> Key {
    Key::new(&Arc::from(resource), "ns", name).unwrap()
}

fn write(resource: &str, name: &str, body: &str) -> Operation {
    let json = Bytes::from(format!("{{\"v\":\"\",\"b\":\"{body}\"}}"));
    Operation::Put(Put { key: key(resource, name), json, revision_at: 6, index: Index::default() })
}

fn transaction(operations: Vec<Operation>) -> Transaction {
    Transaction { operations, ..Transaction::default() }
}

fn when(condition: Condition) -> Transaction {
    Transaction { conditions: vec![condition], ..transaction(vec![write("pods", "new", "x")]) }
}

/// The state after the transactions: the first at revision 2, each proposed at the millisecond of its revision.
fn state_after(transactions: Vec<Transaction>) -> State {
    let mut state = State::default();
    for (at, transaction) in (2..).zip(transactions) {
        state.apply(Revision(at), &Transaction { proposed_ms: at, ..transaction });
    }
    state
}

fn json(state: &State, resource: &str, name: &str) -> Option<String> {
    let collection = state.collection(resource);
    collection.get(&format!("ns/{name}")).map(|object| String::from_utf8(object.json.to_vec()).unwrap())
}

const EVERYTHING: HistoryBounds = HistoryBounds::NONE;

#[test]
fn a_put_creates_then_replaces_with_its_revision_in_place() {
    let state = state_after(vec![
        transaction(vec![write("pods", "a", "1")]),
        transaction(vec![write("pods", "a", "2")]),
    ]);
    assert_eq!(json(&state, "pods", "a").unwrap(), r#"{"v":"3","b":"2"}"#);
    let object = state.object(&key("pods", "a")).unwrap();
    assert_eq!((object.revision, object.created, object.written_ms), (Revision(3), Revision(2), 3));
    assert_eq!(object.json_around_revision(), (&b"{\"v\":\""[..], &b"\",\"b\":\"2\"}"[..]));
    let collection = state.collection("pods");
    assert_eq!((collection.len(), collection.object_bytes(), collection.changed()), (1, 17, Revision(3)));
}

#[test]
fn outcomes_carry_the_object_before_and_after_the_first_operation() {
    let mut state = state_after(vec![transaction(vec![write("pods", "a", "1")])]);
    let outcome =
        state.apply(Revision(9), &transaction(vec![write("pods", "a", "2"), write("nodes", "n", "x")]));
    let Outcome::Applied { revision, object: Some(object), previous: Some(previous) } = outcome else {
        panic!()
    };
    assert_eq!((revision, object.revision, previous.revision), (Revision(9), Revision(9), Revision(2)));
    assert!(json(&state, "nodes", "n").is_some());
    let outcome = state.apply(Revision(10), &transaction(vec![Operation::Delete(key("pods", "a"))]));
    assert!(matches!(outcome, Outcome::Applied { object: None, previous: Some(_), .. }));
    assert_eq!(state.collection("pods").object_bytes(), 0);
}

#[test]
fn deleting_what_is_not_there_changes_nothing() {
    let state = state_after(vec![
        transaction(vec![write("pods", "a", "1")]),
        transaction(vec![Operation::Delete(key("pods", "b")), Operation::Delete(key("none", "b"))]),
    ]);
    assert_eq!(state.applied(), Revision(3));
    assert_eq!(state.collection("pods").changed(), Revision(2));
    assert_eq!(state.collection("pods").changes_after(Revision(2)).unwrap().count(), 0);
}

#[test]
fn the_first_condition_that_fails_refuses_all_and_names_what_is_there() {
    let start = || state_after(vec![transaction(vec![write("pods", "a", "1")])]);
    let at = |revision| Condition::AtRevision(key("pods", "a"), Revision(revision));
    let cases = [
        (Condition::Absent(key("pods", "a")), Some(true)),
        (Condition::Absent(key("pods", "b")), None),
        (Condition::Exists(key("pods", "b")), Some(false)),
        (Condition::Exists(key("pods", "a")), None),
        (at(2), None),
        (at(1), Some(true)),
        (Condition::AtRevision(key("pods", "b"), Revision(2)), Some(false)),
    ];
    for (condition, refused) in cases {
        let mut state = start();
        let outcome = state.apply(Revision(3), &when(condition.clone()));
        let found = match outcome {
            Outcome::Refused { condition: 0, current, revision: Revision(3) } => Some(current.is_some()),
            Outcome::Applied { .. } => None,
            Outcome::Refused { .. } | Outcome::Full { .. } => panic!("{condition:?}"),
        };
        assert_eq!(found, refused, "{condition:?}");
        assert_eq!(json(&state, "pods", "new").is_none(), refused.is_some(), "{condition:?}: all or nothing");
        assert_eq!(state.applied(), Revision(3), "a refusal is an entry like any other");
    }
    let both = Transaction { conditions: vec![at(2), at(1)], ..Transaction::default() };
    assert!(matches!(start().apply(Revision(3), &both), Outcome::Refused { condition: 1, .. }));
}

#[test]
fn a_namespace_must_exist_and_not_be_going() {
    let namespace = |terminating| {
        let key = Key::new(&Arc::from(NAMESPACES), "", "ns").unwrap();
        let index = Index { terminating, ..Index::default() };
        let put = Put { key, json: Bytes::from_static(b"{\"v\":\"\"}"), revision_at: 6, index };
        transaction(vec![Operation::Put(put)])
    };
    let active = || when(Condition::NamespaceActive(Arc::from("ns")));
    let refused = |transactions| {
        let outcome = state_after(transactions).apply(Revision(9), &active());
        match outcome {
            Outcome::Refused { current, .. } => Some(current.is_some()),
            Outcome::Full { .. } => panic!("without a quota"),
            Outcome::Applied { .. } => None,
        }
    };
    assert_eq!(refused(vec![]), Some(false));
    assert_eq!(refused(vec![namespace(false)]), None);
    assert_eq!(refused(vec![namespace(false), namespace(true)]), Some(true));
}

#[test]
fn a_reader_keeps_its_state_while_others_write() {
    let mut state = state_after(vec![transaction(vec![write("pods", "a", "1")])]);
    let reader = state.clone();
    state
        .apply(Revision(3), &transaction(vec![Operation::Delete(key("pods", "a")), write("pods", "b", "2")]));
    assert_eq!((reader.collection("pods").len(), reader.applied()), (1, Revision(2)));
    assert!(json(&reader, "pods", "b").is_none());
}

#[test]
fn ranges_start_where_asked_in_path_order() {
    let names = ["b", "a", "d", "c"];
    let state = state_after(names.iter().map(|name| transaction(vec![write("pods", name, "x")])).collect());
    let collection = state.collection("pods");
    let from = |from: &str| collection.range_from(from).map(|(path, _)| path.to_string()).collect::<Vec<_>>();
    assert_eq!(from(""), ["ns/a", "ns/b", "ns/c", "ns/d"]);
    assert_eq!(from("ns/b\0"), ["ns/c", "ns/d"]);
    assert_eq!(from("ns/bb"), ["ns/c", "ns/d"]);
    assert!(from("nt").is_empty());
}

#[test]
fn a_namespace_is_walked_from_any_path_to_its_end() {
    let mut paths: Vec<String> = Vec::new();
    for namespace in ["a", "a-b", "a.b", "a0", "ab", "b"] {
        paths.extend((0..90).map(|number| format!("{namespace}/o-{number:02}")));
    }
    let put = |path: &String| {
        let (namespace, name) = path.split_once('/').unwrap();
        let key = Key::new(&Arc::from("pods"), namespace, name).unwrap();
        let put =
            Put { key, json: Bytes::from_static(b"{\"v\":\"\"}"), revision_at: 6, index: Index::default() };
        transaction(vec![Operation::Put(put)])
    };
    let state = state_after(paths.iter().map(put).collect());
    let collection = state.collection("pods");
    paths.sort();
    let ends = ["", "a", "a/", "a/o-00", "a/o-44", "a/o-89", "a/z", "a-b/o-10", "a0/o-10", "b/o-89", "c"];
    for namespace in ["", "a", "a-b", "a.b", "a0", "ab", "b", "c"] {
        for after in ends {
            let is_in = |path: &&String| {
                namespace.is_empty() || path.split_once('/').is_some_and(|(first, _)| first == namespace)
            };
            let expected: Vec<&str> =
                paths.iter().filter(is_in).map(String::as_str).filter(|path| *path > after).collect();
            let found: Vec<&str> = collection.within(namespace, after).map(|(path, _)| &**path).collect();
            assert_eq!(found, expected, "{namespace:?} {after:?}");
        }
    }
}

#[test]
fn trimming_drops_whole_revisions_of_all_resources_oldest_first() {
    let mut state = state_after(vec![
        transaction(vec![write("pods", "a", "1"), write("nodes", "a", "1")]),
        transaction(vec![write("pods", "a", "2")]),
        transaction(vec![write("nodes", "a", "2")]),
    ]);
    let evicted = state.trim_history(&HistoryBounds { through: Revision(2), ..EVERYTHING });
    let names: Vec<_> = evicted.iter().map(|e| (&*e.resource, e.change.revision)).collect();
    assert_eq!(names, [("pods", Revision(2)), ("nodes", Revision(2))]);
    assert_eq!(state.floor(), Revision(2));
    for resource in ["pods", "nodes"] {
        let collection = state.collection(resource);
        assert_eq!(collection.floor(), Revision(2), "{resource}");
        assert_eq!(collection.at(Revision(1)).err().map(|gone| gone.oldest), Some(Revision(2)));
        assert!(collection.changes_after(Revision(1)).is_err(), "{resource}: what changed is passed over");
    }
    let untouched = state.collection("untouched");
    assert_eq!(
        untouched.changes_after(Revision(1)).unwrap().count(),
        0,
        "a resource at rest keeps its window"
    );
    assert_eq!(state.collection("pods").at(Revision(2)).unwrap().get("ns/a").unwrap().revision, Revision(2));
}

#[test]
fn a_revision_is_never_half_dropped() {
    let both = || transaction(vec![write("pods", "a", "1"), write("nodes", "a", "1")]);
    let mut state = state_after(vec![both(), both()]);
    let bytes = state.history_bytes();
    let evicted = state.trim_history(&HistoryBounds { bytes_max: bytes - 1, ..EVERYTHING });
    assert_eq!(evicted.len(), 2);
    assert_eq!(state.floor(), Revision(2));
    assert!(!state.exceeds(&HistoryBounds { bytes_max: bytes - 1, ..EVERYTHING }));
}

#[test]
fn the_number_of_entries_bounds_the_window_even_without_changes() {
    let mut state = state_after(vec![transaction(vec![write("pods", "a", "1")])]);
    state.advance(Revision(100));
    let bounds = HistoryBounds { entries_max: 10, ..EVERYTHING };
    assert!(state.exceeds(&bounds));
    assert_eq!(state.trim_history(&bounds).len(), 1);
    assert_eq!((state.floor(), state.history_bytes()), (Revision(90), 0));
    assert!(!state.exceeds(&bounds));
    assert!(state.trim_history(&bounds).is_empty());
}

#[test]
fn a_restored_state_has_its_history_from_there_on() {
    let original = state_after(vec![
        transaction(vec![write("pods", "a", "1"), write("nodes", "n", "1")]),
        transaction(vec![write("pods", "b", "1")]),
    ]);
    let mut restored = State::default();
    for (resource, collection) in original.collections() {
        for (path, object) in collection.range_from("") {
            restored.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
        }
    }
    restored.finish_restore(original.applied(), None);
    assert_eq!(digest(&restored, Revision(3)).unwrap(), digest(&original, Revision(3)).unwrap());
    assert!(restored.collection("pods").at(Revision(2)).is_err());
    assert!(restored.collection("never").changes_after(Revision(2)).is_err(), "nobody knows what changed");
    assert_eq!(restored.collection("pods").changed(), Revision(3));
    assert_eq!(restored.collection("never").floor(), Revision(3));
    assert_eq!(restored.collection("pods").floor(), Revision(3));
    restored.apply(Revision(4), &transaction(vec![Operation::Delete(key("pods", "a"))]));
    assert_eq!(restored.collection("pods").at(Revision(3)).unwrap().len(), 2);
}

#[test]
fn a_digest_needs_a_revision_within_the_window() {
    let mut state = state_after(vec![
        transaction(vec![write("pods", "a", "1")]),
        transaction(vec![write("pods", "a", "2")]),
    ]);
    assert_ne!(digest(&state, Revision(2)).unwrap(), digest(&state, Revision(3)).unwrap());
    assert!(matches!(digest(&state, Revision(4)), Err(DigestError::NotApplied { .. })));
    state.trim_history(&HistoryBounds { entries_max: 0, ..EVERYTHING });
    assert!(matches!(digest(&state, Revision(2)), Err(DigestError::Compacted(_))));
}

/// The state that a restarted member loads: the objects at the floor, and the newest change of each resource as in the
/// mark.
fn restored_at_floor(state: &State) -> State {
    let mut restored = State::default();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.at(state.floor()).unwrap().range_from("") {
            restored.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
        }
    }
    restored.finish_restore(state.floor(), Some(&state.changed_at_floor(state.floor())));
    restored
}

#[test]
fn a_watch_of_a_resource_at_rest_goes_on_after_a_restart_and_a_missed_removal_is_told() {
    let mut state = state_after(vec![
        transaction(vec![write("pods", "a", "1"), write("nodes", "n", "1")]),
        transaction(vec![write("pods", "b", "1")]),
        transaction(vec![Operation::Delete(key("pods", "b"))]),
        transaction(vec![write("roles", "r", "1")]),
        transaction(vec![Operation::Delete(key("roles", "r"))]),
    ]);
    state.trim_history(&HistoryBounds { entries_max: 0, ..EVERYTHING });
    let restored = restored_at_floor(&state);
    let since = |resource: &str, revision| {
        let collection = restored.collection(resource);
        let counted = collection.changes_after(Revision(revision)).map(Iterator::count).ok();
        assert_eq!(collection.changes_since(Revision(revision)).ok(), counted, "{resource} after {revision}");
        counted
    };
    assert_eq!(since("nodes", 2), Some(0), "nothing has changed since");
    assert_eq!(since("never", 0), Some(0));
    assert_eq!(since("pods", 3), None, "the removal at 4 would be missed");
    assert_eq!(since("pods", 4), Some(0));
    assert_eq!(since("roles", 5), None, "of a resource without objects, too");
    assert_eq!(restored.collection("pods").changed(), Revision(4));
    assert_eq!(restored.collection("nodes").at(Revision(2)).unwrap().len(), 1);
}

#[test]
fn evicted_changes_stay_until_they_are_forgotten_and_leave_in_batches() {
    let mut state = state_after((0..10).map(|_| transaction(vec![write("pods", "a", "1")])).collect());
    let all = HistoryBounds { through: Revision(9), ..EVERYTHING };
    let EvictionBatch { floor, changes } = state.oldest(&all, 1).unwrap();
    assert_eq!((floor, changes.len()), (Revision(2), 1), "a batch ends behind what makes it large enough");
    assert_eq!(state.collection("pods").changes_after(Revision(1)).unwrap().count(), 10);
    assert_eq!(state.collection("pods").changes_since(Revision(4)), Ok(7));
    state.drop_history_through(floor);
    assert!(state.collection("pods").changes_after(Revision(1)).is_err());
    let EvictionBatch { floor, changes } = state.oldest(&all, usize::MAX).unwrap();
    assert_eq!((floor, changes.len()), (Revision(9), 7));
    state.drop_history_through(floor);
    assert!(state.oldest(&all, usize::MAX).is_none());
    let ahead = HistoryBounds { through: Revision(99), ..EVERYTHING };
    assert_eq!(state.oldest(&ahead, usize::MAX).unwrap().floor, Revision(11), "never above what is applied");
}

#[test]
fn a_batch_of_large_creates_is_as_small_as_one_of_updates() {
    let large = "x".repeat(100_000);
    let create = |at: usize| transaction(vec![write("pods", &format!("p{at}"), &large)]);
    let state = state_after((0..50).map(create).collect());
    let all = HistoryBounds { through: state.applied(), ..EVERYTHING };
    let EvictionBatch { changes, .. } = state.oldest(&all, 1 << 20).unwrap();
    assert_eq!(changes.len(), 11, "nothing was replaced, a megabyte is written");
    let EvictionBatch { changes, .. } =
        state.oldest(&HistoryBounds { bytes_max: 20_000, ..EVERYTHING }, 1 << 20).unwrap();
    assert_eq!(changes.len(), 11, "by what they keep alive, eleven of fifty must go");
}

#[test]
fn an_older_collection_is_known_by_what_it_keeps_alive() {
    let state =
        state_after((0..1500).map(|at| transaction(vec![write("pods", "a", &at.to_string())])).collect());
    let pods = state.collection("pods");
    let kept = |at: u64| pods.bytes_kept_by(&pods.at(Revision(at)).unwrap());
    assert_eq!(kept(1501), 0);
    let one = 512 + r#"{"v":"1500","b":"1498"}"#.len();
    assert_eq!(kept(1500), one);
    assert_eq!(kept(1400), one, "one object, however often it was replaced since");
}

#[test]
fn older_revisions_are_rebuilt_from_the_next_root() {
    let names = ["a", "b", "c"];
    let write = |at: usize| transaction(vec![write("pods", names[at % 3], &at.to_string())]);
    let state = state_after((0..1500).map(write).collect());
    let pods = state.collection("pods");
    for at in [0, 1, 2, 509, 510, 511, 512, 1022, 1023, 1024, 1400, 1499] {
        let then = pods.at(Revision(at as u64 + 2)).unwrap();
        assert_eq!(then.len(), (at + 1).min(3), "after {at}");
        let newest = then.get(&format!("ns/{}", names[at % 3])).unwrap();
        assert_eq!(newest.revision, Revision(at as u64 + 2));
        assert_eq!(then.changed(), Revision(at as u64 + 2));
    }
}

#[test]
fn a_root_holds_the_whole_of_its_revision() {
    let pair = |at: usize| {
        transaction(vec![write("pods", "a", &at.to_string()), write("pods", &format!("b{at}"), "1")])
    };
    // An odd number of changes first, so that the 512th is the first of its revision.
    let first = transaction(vec![write("pods", "first", "1")]);
    let state = state_after([first].into_iter().chain((0..600).map(pair)).collect());
    let pods = state.collection("pods");
    for at in 2..602 {
        assert_eq!(pods.at(Revision(at)).unwrap().len() as u64, if at == 2 { 1 } else { at }, "at {at}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Transaction),
    Blank,
    Trim(HistoryBounds),
}

fn operations() -> impl Strategy<Value = Operation> {
    let resource = prop_oneof![Just("pods"), Just("nodes"), Just("events")];
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    (resource, name, "[a-z]{0,8}", any::<bool>()).prop_map(|(resource, name, body, delete)| match delete {
        true => Operation::Delete(key(resource, name)),
        false => write(resource, name, &body),
    })
}

/// Transactions that change at most one key of a resource.
fn transactions() -> impl Strategy<Value = Transaction> {
    (prop::collection::vec(operations(), 0..3), any::<bool>()).prop_map(|(operations, conditional)| {
        let resource_of = |operation: &Operation| match operation {
            Operation::Put(put) => put.key.resource().clone(),
            Operation::Delete(key) => key.resource().clone(),
        };
        let one_each: BTreeMap<_, _> = operations.into_iter().map(|o| (resource_of(&o), o)).collect();
        let conditions = if conditional { vec![Condition::Exists(key("pods", "a"))] } else { vec![] };
        Transaction { conditions, ..transaction(one_each.into_values().collect()) }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bounds = (0u64..40, 0usize..4000, 0u64..30).prop_map(|(through, bytes_max, entries_max)| {
        HistoryBounds { through: Revision(through), bytes_max, entries_max }
    });
    let step = prop_oneof![
        12 => transactions().prop_map(Step::Write),
        1 => Just(Step::Blank),
        1 => bounds.prop_map(Step::Trim),
    ];
    prop::collection::vec(step, 1..60)
}

/// All objects of a state, by resource and path.
type Contents = BTreeMap<(String, String), Bytes>;

fn contents<'a>(collections: impl Iterator<Item = (&'a Arc<str>, Collection)>) -> Contents {
    let mut contents = Contents::new();
    for (resource, collection) in collections {
        for (path, object) in collection.range_from("") {
            contents.insert((resource.to_string(), path.to_string()), object.json.clone());
        }
    }
    contents
}

fn contents_now(state: &State) -> Contents {
    contents(state.collections().map(|(resource, collection)| (resource, (**collection).clone())))
}

fn contents_at(state: &State, revision: Revision) -> Contents {
    contents(state.collections().map(|(resource, collection)| (resource, collection.at(revision).unwrap())))
}

/// Runs steps. Returns the state, its contents after each revision, and the contents at its floor, built from evicted
/// changes.
fn run(steps: Vec<Step>) -> (State, BTreeMap<u64, Contents>, Contents) {
    let (mut state, mut recorded, mut stored) = (State::default(), BTreeMap::new(), Contents::new());
    recorded.insert(0, Contents::new());
    for step in steps {
        let revision = Revision(state.applied().0 + 1);
        match step {
            Step::Write(transaction) => {
                state.apply(revision, &Transaction { proposed_ms: revision.0, ..transaction });
            }
            Step::Blank => state.advance(revision),
            Step::Trim(bounds) => {
                for Evicted { resource, change } in state.trim_history(&bounds) {
                    let key = (resource.to_string(), change.path.to_string());
                    match change.new {
                        Some(object) => stored.insert(key, object.json.clone()),
                        None => stored.remove(&key),
                    };
                }
                assert!(!state.exceeds(&bounds));
                continue;
            }
        }
        recorded.insert(revision.0, contents_now(&state));
    }
    (state, recorded, stored)
}

proptest! {
    #[test]
    fn every_revision_in_the_window_is_rebuilt_as_it_was(steps in steps()) {
        let (state, recorded, _) = run(steps);
        for (revision, contents) in recorded.range(state.floor().0..) {
            prop_assert_eq!(&contents_at(&state, Revision(*revision)), contents, "revision {}", revision);
            let then = || state.collections().map(|(_, c)| c.at(Revision(*revision)).unwrap());
            let bytes: usize = then().map(|collection| collection.object_bytes()).sum();
            prop_assert_eq!(bytes, contents.values().map(Bytes::len).sum::<usize>());
            for namespace in ["", "ns"] {
                let counted: usize = then().map(|collection| collection.count(namespace)).sum();
                prop_assert_eq!(counted, contents.len());
            }
        }
    }

    #[test]
    fn changes_since_a_revision_lead_from_it_to_now(steps in steps()) {
        let (state, recorded, _) = run(steps);
        for (revision, then) in recorded.range(state.floor().0..) {
            let mut replayed = then.clone();
            for (resource, collection) in state.collections() {
                let mut last = Revision(*revision);
                for change in collection.changes_after(Revision(*revision)).unwrap() {
                    prop_assert!(change.revision > last, "a resource changes once a revision");
                    last = change.revision;
                    let key = (resource.to_string(), change.path.to_string());
                    let old = change.old.as_ref().map(|object| object.json.clone());
                    prop_assert_eq!(replayed.get(&key).cloned(), old);
                    match &change.new {
                        Some(object) => replayed.insert(key, object.json.clone()),
                        None => replayed.remove(&key),
                    };
                }
            }
            prop_assert_eq!(replayed, contents_now(&state), "since {}", revision);
        }
    }

    #[test]
    fn evicted_changes_are_the_state_at_the_floor(steps in steps()) {
        let (state, recorded, stored) = run(steps);
        prop_assert_eq!(&stored, &recorded[&state.floor().0]);
        for (_, collection) in state.collections() {
            prop_assert!(collection.floor() <= state.floor());
            let bytes: usize = collection.range_from("").map(|(_, object)| object.json.len()).sum();
            prop_assert_eq!(collection.object_bytes(), bytes);
        }
        let costs: usize = state
            .collections()
            .flat_map(|(_, collection)| {
                collection.changes_after(state.floor()).unwrap().map(Change::cost).collect::<Vec<_>>()
            })
            .sum();
        prop_assert_eq!(state.history_bytes(), costs);
    }

    #[test]
    fn the_same_entries_give_the_same_digest_whatever_was_trimmed(steps in steps()) {
        let untrimmed = steps.iter().filter(|step| !matches!(step, Step::Trim(_))).cloned().collect();
        let ((state, ..), (whole, ..)) = (run(steps), run(untrimmed));
        for revision in state.floor().0..=state.applied().0 {
            let revision = Revision(revision);
            prop_assert_eq!(digest(&state, revision).unwrap(), digest(&whole, revision).unwrap());
        }
        prop_assert_eq!(state.fingerprint(), whole.fingerprint());
    }

    #[test]
    fn the_fingerprint_is_that_of_the_objects_and_of_a_restored_state(steps in steps()) {
        let (state, ..) = run(steps);
        let recounted =
            Fingerprint::of(state.collections().map(|(resource, collection)| (&**resource, &**collection)));
        prop_assert_eq!(state.fingerprint(), recounted);
        let mut restored = State::default();
        for (resource, collection) in state.collections() {
            for (path, object) in collection.range_from("") {
                restored.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
            }
        }
        restored.finish_restore(state.applied(), None);
        prop_assert_eq!(restored.fingerprint(), state.fingerprint());
        let objects: usize = state.collections().map(|(_, collection)| collection.len()).sum();
        prop_assert_eq!(state.fingerprint().objects(), objects as u64);
    }
}
