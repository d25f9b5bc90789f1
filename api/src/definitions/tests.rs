//! Tests of what is served of definitions, over states that are written as the test wants them.

use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Index, Key, Operation, Put, Transaction};
use orch_schema::json;

use super::*;
use crate::follow::Derived;

/// A definition in force, of the kind `kind` with one field `field`.
fn definition(plural: &str, kind: &str, field: &str) -> Value {
    let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")});
    let properties = json!({field: {"type": "string"}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    json!({
        "metadata": {"name": format!("{plural}.example.com"), "resourceVersion": ""},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        "status": {"acceptedNames": names, "conditions": [condition("NamesAccepted"), condition("Established")]},
    })
}

/// Writes the definition with its record, as a create does.
async fn write(store: &MemoryStore, definition: &Value) {
    let name = definition["metadata"]["name"].as_str().unwrap();
    let text = definition.to_string();
    let revision_at = text.find(r#""resourceVersion":""#).unwrap() + r#""resourceVersion":""#.len();
    let put = Put {
        key: Key::new(&DEFINITIONS.into(), "", name).unwrap(),
        json: text.into(),
        revision_at: u32::try_from(revision_at).unwrap(),
        index: Index::default(),
    };
    let record = record::first(record::record_key(name).unwrap());
    let operations = vec![Operation::Put(put), Operation::Put(record)];
    store.propose(Transaction { operations, ..Transaction::default() }).await.unwrap();
}

async fn remove(store: &MemoryStore, name: &str) {
    let definition = Key::new(&DEFINITIONS.into(), "", name).unwrap();
    let operations =
        vec![Operation::Delete(definition), Operation::Delete(record::record_key(name).unwrap())];
    store.propose(Transaction { operations, ..Transaction::default() }).await.unwrap();
}

fn followed() -> (MemoryStore, Handle, Definitions) {
    let registry = Registry::builtin(&ORCH);
    let definitions = Definitions::new(&registry, Builder::Caller);
    (MemoryStore::default(), Handle::new(registry), definitions)
}

fn serves(served: &Handle, plural: &str) -> bool {
    served.load().find("example.com", "v1", plural).is_some()
}

#[tokio::test]
async fn a_kind_whose_place_is_taken_is_served_once_that_is_free() {
    let (store, served, definitions) = followed();
    write(&store, &definition("apples", "Fruit", "a")).await;
    definitions.catch_up(&store, &served).await;
    // Its status says that its names are accepted, whatever they are.
    write(&store, &definition("pears", "Fruit", "a")).await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "apples") && !serves(&served, "pears"));
    write(&store, &definition("nuts", "Nut", "a")).await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "nuts") && !serves(&served, "pears"));
    remove(&store, "apples.example.com").await;
    definitions.catch_up(&store, &served).await;
    assert!(!serves(&served, "apples") && serves(&served, "pears"));
}

#[tokio::test]
async fn of_two_definitions_of_one_kind_the_same_is_served_whatever_came_first() {
    // The first asked for another kind: somebody has written its status by hand.
    let mut stolen = definition("apples", "Fruit", "a");
    stolen["spec"]["names"]["kind"] = json!("Apple");
    let (store, served, definitions) = followed();
    write(&store, &stolen).await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "apples"));
    let right = definition("pears", "Fruit", "a");
    write(&store, &right).await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "pears") && !serves(&served, "apples"), "that which asked for the kind");
    write(&store, &definition("nuts", "Fruit", "a")).await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "pears") && !serves(&served, "nuts"), "the oldest of those");
    // A node that starts reads them in the order of their names.
    let registry = Registry::builtin(&ORCH);
    let (started, anew) = (Handle::new(registry.clone()), Definitions::new(&registry, Builder::Caller));
    anew.catch_up(&store, &started).await;
    for plural in ["apples", "pears", "nuts"] {
        assert_eq!(serves(&started, plural), serves(&served, plural), "{plural}");
    }
    remove(&store, "pears.example.com").await;
    definitions.catch_up(&store, &served).await;
    assert!(serves(&served, "nuts") && !serves(&served, "apples"));
}

#[tokio::test]
async fn of_a_state_that_was_found_wrong_no_table_and_no_watch_is_kept() {
    let (wrong, served, definitions) = followed();
    for (plural, kind) in [("apples", "Apple"), ("pears", "Pear")] {
        write(&wrong, &definition(plural, kind, "wrong")).await;
    }
    definitions.catch_up(&wrong, &served).await;
    let schema_of = |plural: &str| {
        let registry = served.load();
        let resource = registry.find("example.com", "v1", plural).unwrap();
        resource.schema.schema().clone()
    };
    let (apples, pears) = (schema_of("apples"), schema_of("pears"));
    let ended = served.load().find("example.com", "v1", "apples").unwrap().end.clone().unwrap().wait();
    // The right state has the same revisions, and another definition of apples.
    let right = MemoryStore::default();
    write(&right, &definition("apples", "Apple", "right")).await;
    write(&right, &definition("pears", "Pear", "wrong")).await;
    right.revoke();
    assert!(definitions.is_trusted(&wrong) && !definitions.is_trusted(&right));
    definitions.catch_up(&right, &served).await;
    assert!(definitions.is_trusted(&right));
    assert!(Arc::ptr_eq(&pears, &schema_of("pears")), "the same in both");
    assert!(!Arc::ptr_eq(&apples, &schema_of("apples")));
    ended.await;
}

#[tokio::test]
async fn a_change_is_told_again_until_it_was_made() {
    let store = MemoryStore::default();
    write(&store, &definition("apples", "Fruit", "a")).await;
    let registry = Registry::builtin(&ORCH);
    let mut declared = Declared::new(registry.schema.clone(), &ORCH, Builder::Caller);
    declared.rebuild(&store.state());
    // Whoever was to make the first change has panicked.
    assert_eq!(declared.settle().kinds.len(), 1);
    let change = declared.settle();
    assert_eq!(change.kinds.len(), 1);
    declared.note_served(change, Vec::new());
    assert!(declared.settle().is_nothing());
}

/// The same definition before the loop has looked at it, with the label `label`.
fn without_status(definition: &Value, label: &str) -> Value {
    let mut unsettled = definition.clone();
    unsettled["status"] = json!({});
    unsettled["metadata"]["labels"] = json!({"label": label});
    unsettled
}

/// Definitions where a loop is to bring them into force.
fn awaited() -> (MemoryStore, Definitions) {
    let (store, _, definitions) = followed();
    definitions.0.is_followed.store(true, Ordering::Relaxed);
    (store, definitions)
}

const APPLES: &str = "apples.example.com";

fn stored(store: &MemoryStore) -> SharedObject {
    store.state().collection(DEFINITIONS).get(APPLES).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_waited_for_until_its_names_are_decided_on() {
    let (store, definitions) = awaited();
    let apples = definition("apples", "Apple", "a");
    write(&store, &without_status(&apples, "first")).await;
    let object = stored(&store);
    let began = tokio::time::Instant::now();
    let mut written = Box::pin(definitions.settle_written(&store, &object, None));
    let mut named = Box::pin(definitions.settle_named(&store, APPLES, None));
    assert!(futures::poll!(&mut written).is_pending() && futures::poll!(&mut named).is_pending());
    // Neither another definition nor another version that is not settled ends the wait.
    write(&store, &definition("pears", "Pear", "a")).await;
    write(&store, &without_status(&apples, "second")).await;
    assert!(futures::poll!(&mut written).is_pending() && futures::poll!(&mut named).is_pending());
    write(&store, &apples).await;
    assert!(written.await, "it waited");
    named.await;
    assert!(!definitions.settle_written(&store, &stored(&store), None).await, "nothing is to wait for");
    definitions.settle_named(&store, APPLES, None).await;
    definitions.settle_named(&store, "none.example.com", None).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_version_of_a_definition_is_waited_for_once() {
    let (store, definitions) = awaited();
    let apples = definition("apples", "Apple", "a");
    let waited = async |left: Option<u64>| {
        let began = tokio::time::Instant::now();
        definitions.settle_named(&store, APPLES, left.map(Duration::from_millis)).await;
        began.elapsed().as_millis()
    };
    write(&store, &without_status(&apples, "first")).await;
    assert_eq!(waited(Some(1000)).await, 500, "half of the request's time");
    assert_eq!(waited(None).await, 1500, "the rest of the first wait");
    assert_eq!(waited(None).await, 0);
    assert!(definitions.settle_written(&store, &stored(&store), None).await, "not settled");
    write(&store, &without_status(&apples, "second")).await;
    assert_eq!(waited(None).await, 2000, "another version");
    assert_eq!(waited(None).await, 0);
    write(&store, &apples).await;
    write(&store, &without_status(&apples, "third")).await;
    assert_eq!(waited(None).await, 2000);
}
