//! Lists and watches against any interleaving of writes: pages show one snapshot, and the events of a watch lead from
//! the state at its start to the newest state.

use std::collections::BTreeMap;

use orch_schema::value::Value;
use proptest::prelude::*;

use super::{MAPS, Server, block_on, json, map};

/// A write to one of a few objects.
#[derive(Clone, Debug)]
enum Write {
    Put(u8, u8),
    Label(u8, bool),
    Delete(u8),
}

/// Number of objects: few, so that writes collide.
const NAMES: u8 = 7;

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (0..NAMES, any::<u8>()).prop_map(|(name, value)| Write::Put(name, value)),
        2 => (0..NAMES, any::<bool>()).prop_map(|(name, on)| Write::Label(name, on)),
        1 => (0..NAMES).prop_map(Write::Delete),
    ]
}

fn writes(max: usize) -> impl Strategy<Value = Vec<Write>> {
    proptest::collection::vec(write(), 0..max)
}

async fn carry_out(server: &Server, write: &Write) {
    match write {
        Write::Put(name, value) => {
            let name = format!("m{name}");
            let patch = json!({"data": {"k": value.to_string()}});
            if server.merge(&format!("{MAPS}/{name}"), patch).await.code == 404 {
                server.create(MAPS, map(&name, &value.to_string())).await;
            }
        }
        Write::Label(name, on) => {
            let label = if *on { json!("1") } else { Value::Null };
            server.merge(&format!("{MAPS}/m{name}"), json!({"metadata": {"labels": {"on": label}}})).await;
        }
        Write::Delete(name) => {
            server.delete(&format!("{MAPS}/m{name}")).await;
        }
    }
}

/// Objects by name.
type Contents = BTreeMap<String, Value>;

fn insert(contents: &mut Contents, object: Value) {
    contents.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), object);
}

/// Contents and revision of a list.
async fn list(server: &Server, query: &str) -> (Contents, String) {
    let list = server.get(&format!("{MAPS}{query}")).await.json();
    let mut contents = Contents::new();
    for item in list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}")) {
        insert(&mut contents, item.clone());
    }
    (contents, list["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
}

/// Applies the events of a watch to `contents`. Objects in events have `kind` and `apiVersion`, items of lists do not.
fn replay(mut contents: Contents, events: Vec<Value>) -> Contents {
    for mut event in events {
        let mut object = event["object"].take();
        let fields = object.as_object_mut().unwrap();
        fields.swap_remove("kind");
        fields.swap_remove("apiVersion");
        let name = fields["metadata"]["name"].as_str().unwrap().to_owned();
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(contents.insert(name, object).is_none(), "added twice: {event}"),
            "MODIFIED" => {
                assert!(contents.insert(name, object).is_some(), "modified before it was added: {event}")
            }
            "DELETED" => assert!(contents.remove(&name).is_some(), "deleted before it was added: {event}"),
            other => panic!("unexpected {other}: {object}"),
        }
    }
    contents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pages_show_one_snapshot_whatever_is_written_between_them(
        before in writes(20), between in proptest::collection::vec(writes(4), 0..8), limit in 1..4_u8,
        selected in any::<bool>(),
    ) {
        let selector = if selected { "labelSelector=on%3D1" } else { "" };
        block_on(async {
            let server = Server::new().await;
            for write in &before {
                carry_out(&server, write).await;
            }
            let (whole, revision) = list(&server, &format!("?{selector}")).await;
            let (mut paged, mut token, mut between) = (Contents::new(), String::new(), between.into_iter());
            loop {
                let page = server.get(&format!("{MAPS}?limit={limit}&continue={token}&{selector}")).await.json();
                assert_eq!(page["metadata"]["resourceVersion"], revision.as_str(), "{page}");
                let left = page["metadata"]["remainingItemCount"].as_u64();
                for item in page["items"].as_array().unwrap() {
                    insert(&mut paged, item.clone());
                }
                token = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
                let rest = u64::try_from(whole.len() - paged.len()).unwrap();
                assert_eq!(left, (!selected && !token.is_empty()).then_some(rest));
                if token.is_empty() {
                    break;
                }
                for write in between.next().unwrap_or_default() {
                    carry_out(&server, &write).await;
                }
            }
            assert_eq!(paged, whole);
            // A list at exactly this revision is the same after all later writes.
            let query = format!("?resourceVersion={revision}&resourceVersionMatch=Exact&{selector}");
            assert_eq!(list(&server, &query).await, (whole, revision));
        });
    }

    #[test]
    fn a_watch_leads_from_the_state_at_its_start_to_now(
        before in writes(20), after in writes(20), selected in any::<bool>(),
    ) {
        let selector = if selected { "labelSelector=on%3D1" } else { "" };
        block_on(async {
            let server = Server::new().await;
            for write in &before {
                carry_out(&server, write).await;
            }
            let (start, revision) = list(&server, &format!("?{selector}")).await;
            for write in &after {
                carry_out(&server, write).await;
            }
            let (now, _) = list(&server, &format!("?{selector}")).await;
            let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&{selector}&resourceVersion={revision}");
            assert_eq!(replay(start, server.events(&watch).await), now);
            let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&{selector}");
            assert_eq!(replay(Contents::new(), server.events(&watch).await), now);
        });
    }
}
