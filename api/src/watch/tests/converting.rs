//! Watches of a kind whose objects pass the conversion stage.

use orch_raft::WrittenAs;

use super::*;
use crate::conversion::testing::{Renaming, widgets};

/// A node of widgets that are stored as `v1`, and a watch of them as `v1beta1`.
fn node(converter: &Renaming) -> (Node, Arc<Resource>) {
    let node = Node::new();
    let widgets = |builtin: &Registry| widgets(builtin, converter, "v1", 7).kinds();
    let registry = node.pipeline.served.update(|builtin| builtin.with(widgets(builtin))).unwrap();
    let resource = registry.find("stable.example.com", "v1beta1", "widgets").unwrap().clone();
    (node, resource)
}

fn write(node: &Node, name: &str, color: Option<&str>) {
    let key = Key::new(&"widgets.stable.example.com.".into(), "ns", name).unwrap();
    let operation = match color {
        None => Operation::Delete(key),
        Some(color) => {
            let open = r#"{"metadata":{"resourceVersion":""#;
            let json =
                format!(r#"{open}","name":"{name}","namespace":"ns"}},"data":{{"color":"{color}"}}}}"#);
            let written_as = Some(Arc::new(WrittenAs { version: "v1".into(), definition: Revision(7) }));
            let index = Index { written_as, ..Index::default() };
            let revision_at = u32::try_from(open.len()).unwrap();
            Operation::Put(Put { key, json: Bytes::from(json), revision_at, index })
        }
    };
    let transaction = Transaction { operations: vec![operation], ..Transaction::default() };
    node.store().propose(transaction).now_or_never().unwrap().unwrap();
}

fn watch(node: &Node, resource: &Arc<Resource>, query: &str) -> Watch<MemoryStore> {
    let renderer = node.renderer(resource, JSON, IncludeObject::Metadata);
    node.watch_of(resource, renderer, query)
}

/// Type and color of each event.
fn events(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let event = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(event["object"]["apiVersion"].as_str(), Some("stable.example.com/v1beta1"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&event["type"]), text(&event["object"]["data"]["colour"]))
    };
    lines.map(event).collect()
}

#[tokio::test(start_paused = true)]
async fn a_converter_that_is_ready_delays_no_event() {
    let converter = Renaming::ready();
    let (node, resource) = node(&converter);
    write(&node, "a", Some("red"));
    write(&node, "b", Some("blue"));
    let mut initial = watch(&node, &resource, "");
    assert_eq!(events(&all(&mut initial)), ["ADDED red", "ADDED blue"]);
    let mut resumed = watch(&node, &resource, "resourceVersion=1");
    write(&node, "a", None);
    assert_eq!(events(&all(&mut resumed)), ["ADDED red", "ADDED blue", "DELETED red"]);
    assert_eq!(events(&all(&mut initial)), ["DELETED red"]);
    assert!(converter.asked().iter().all(|batch| *batch == 1), "nothing ahead of what is due");
    let asked = converter.asked().len();
    let mut second = watch(&node, &resource, "resourceVersion=1");
    assert_eq!(events(&all(&mut second)).len(), 3);
    assert_eq!(converter.asked().len(), asked, "the events of another watch");
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_another_server_with_all_that_is_due() {
    let converter = Renaming::waiting();
    let (node, resource) = node(&converter);
    for at in 0..5 {
        write(&node, &format!("w{at}"), Some("red"));
    }
    let mut watch = watch(&node, &resource, "");
    assert!(matches!(watch.look(READ_MAX), LookResult::Nothing), "no event before its object is converted");
    assert!(Box::pin(watch.rest()).now_or_never().is_none(), "it waits");
    converter.answer(1);
    watch.rest().await;
    assert_eq!(events(&looked(&mut watch, READ_MAX).unwrap()), ["ADDED red"; 5]);
    assert_eq!(converter.asked(), [5], "one question");
    write(&node, "w0", Some("blue"));
    write(&node, "w1", None);
    converter.answer(1);
    let frame = watch.next(READ_MAX).await.unwrap();
    assert_eq!(events(&frame), ["MODIFIED blue", "DELETED red"]);
    assert_eq!(converter.asked(), [5, 2]);
    assert!(matches!(watch.look(READ_MAX), LookResult::Nothing));
    assert!(!watch.conversions.is_waiting());
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_watch_with_its_message() {
    for converter in [Renaming::ready(), Renaming::waiting()] {
        let (node, resource) = node(&converter);
        write(&node, "a", Some("red"));
        let mut watch = watch(&node, &resource, "");
        converter.answer(1);
        assert_eq!(events(&watch.next(READ_MAX).await.unwrap()), ["ADDED red"]);
        converter.fail(Some("no route"));
        write(&node, "b", Some("red"));
        converter.answer(1);
        let frame = watch.next(READ_MAX).await.unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((event["type"].as_str(), event["object"]["code"].as_i64()), (Some("ERROR"), Some(500)));
        assert_eq!(event["object"]["message"].as_str(), Some("no route"));
        assert!(watch.next(READ_MAX).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_meet_the_same_change_ask_about_it_once() {
    let converter = Renaming::keeping_and_waiting();
    let (node, resource) = node(&converter);
    write(&node, "a", Some("red"));
    let mut watches = [0, 1].map(|_| watch(&node, &resource, ""));
    // One permit: a second question would wait for ever.
    converter.answer(1);
    let frames = async |watches: &mut [Watch<MemoryStore>; 2]| {
        let [one, other] = watches;
        let (one, other) = futures::future::join(one.next(READ_MAX), other.next(READ_MAX)).await;
        [one, other].map(|frame| events(&frame.unwrap()))
    };
    assert_eq!(frames(&mut watches).await, [["ADDED red"]; 2]);
    write(&node, "a", Some("blue"));
    converter.answer(1);
    assert_eq!(frames(&mut watches).await, [["MODIFIED blue"]; 2]);
    assert_eq!(converter.asked(), [1, 1]);
    let mut third = watch(&node, &resource, "");
    assert_eq!(events(&looked(&mut third, READ_MAX).unwrap()), ["ADDED blue"], "it need not wait");
    assert_eq!(converter.asked(), [1, 1]);
}
