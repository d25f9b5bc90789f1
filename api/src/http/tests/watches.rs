//! How watches start, what they tell, and how they end.

use http_body_util::BodyExt;

use super::{MAPS, Server, json, map};

fn kinds(events: &[serde_json::Value]) -> Vec<String> {
    let told = |event: &serde_json::Value| {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().or(object["reason"].as_str()).unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    };
    events.iter().map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_that_leaves_or_enters_the_selection_is_a_removal_or_an_addition() {
    let server = Server::new().await;
    let start = server.create(MAPS, map("a", "1")).await["metadata"]["resourceVersion"].clone();
    let path = format!("{MAPS}/a");
    server.merge(&path, json!({"metadata": {"labels": {"on": "1"}}})).await;
    server.merge(&path, json!({"data": {"k": "2"}})).await;
    let left = server.merge(&path, json!({"metadata": {"labels": {"on": null}}})).await.json();
    server.merge(&path, json!({"data": {"k": "3"}})).await;
    let start = start.as_str().unwrap();
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={start}&labelSelector=on%3D1");
    let events = server.events(&watch).await;
    assert_eq!(kinds(&events), ["ADDED a", "MODIFIED a", "DELETED a"]);
    let last = &events[2]["object"];
    assert_eq!(last["data"]["k"], "2", "the last selected state");
    assert_eq!(last["metadata"]["labels"]["on"], "1");
    assert_eq!(last["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"], "when it left");
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_that_says_so() {
    let server = Server::new().await;
    for name in ["a", "b"] {
        server.create(MAPS, map(name, "1")).await;
    }
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events = server.events(&format!("{MAPS}?watch=1&timeoutSeconds=1&{initial}")).await;
    assert_eq!(kinds(&events[..3]), ["ADDED a", "ADDED b", "BOOKMARK -"]);
    assert_eq!(events[2]["object"]["metadata"]["annotations"]["orch.io/initial-events-end"], "true");
    assert_eq!(kinds(&events[3..]), ["BOOKMARK -"], "the end is told where bookmarks are taken");
}

#[tokio::test(start_paused = true)]
async fn a_start_from_nowhere_or_zero_is_one_with_initial_events() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let ended = |event: &serde_json::Value| !event["object"]["metadata"]["annotations"].is_null();
    for start in ["", "&resourceVersion=", "&resourceVersion=0"] {
        let watch = format!("{MAPS}?watch=1&timeoutSeconds=1{start}");
        let events = server.events(&format!("{watch}&allowWatchBookmarks=true")).await;
        assert_eq!(kinds(&events), ["ADDED a", "BOOKMARK -", "BOOKMARK -"], "{start}");
        assert_eq!(events.iter().map(ended).collect::<Vec<_>>(), [false, true, false], "{start}");
        assert_eq!(kinds(&server.events(&watch).await), ["ADDED a"], "no bookmark without asking: {start}");
    }
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1");
    assert!(!server.events(&watch).await.iter().any(ended), "a start at a version has no initial events");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_to_those_who_asked() {
    let server = Server::new().await;
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=150&resourceVersion=2");
    assert!(server.events(&watch).await.is_empty());
    let events = server.events(&format!("{watch}&allowWatchBookmarks=true")).await;
    assert_eq!(kinds(&events), ["BOOKMARK -"; 3], "two in time and one at the end");
    assert_eq!(events[0]["object"]["kind"], "ConfigMap");
    assert_eq!(events[0]["object"]["metadata"]["resourceVersion"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_start_before_the_history_is_an_error_event_and_the_end() {
    let server = Server::new().await;
    for value in ["1", "2"] {
        let path = format!("{MAPS}/a");
        if server.merge(&path, json!({"data": {"k": value}})).await.code == 404 {
            server.create(MAPS, map("a", value)).await;
        }
    }
    server.store.trim_history(u64::MAX, 0);
    let events = server.events(&format!("{MAPS}?watch=1&resourceVersion=2")).await;
    assert_eq!(kinds(&events), ["ERROR Expired"]);
    assert_eq!(events[0]["object"]["code"], 410);
    let quiet = "/api/v1/namespaces/ns/secrets?watch=1&timeoutSeconds=1&resourceVersion=2";
    assert!(server.events(quiet).await.is_empty(), "nothing of this resource was forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_tells_of_no_other() {
    let server = Server::new().await;
    for name in ["a", "ab", "b"] {
        server.create(MAPS, map(name, "1")).await;
    }
    for path in [
        format!("{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da"),
        format!("{MAPS}/a?watch=1&timeoutSeconds=1"),
        "/api/v1/watch/namespaces/ns/configmaps/a?timeoutSeconds=1".to_owned(),
    ] {
        assert_eq!(kinds(&server.events(&path).await), ["ADDED a"], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_changes_and_ends_when_the_node_does() {
    let server = Server::new().await;
    let watch = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=2");
    let response = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await;
    let mut body = response.into_body();
    for name in ["a", "b"] {
        server.create(MAPS, map(name, "1")).await;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: serde_json::Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(kinds(&[event]), [format!("ADDED {name}")]);
    }
    server.stopping.cancel();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(kinds(&[serde_json::from_slice(&frame).unwrap()]), ["BOOKMARK -"]);
    assert!(body.frame().await.is_none());
    assert_eq!(server.get("/readyz").await.code, 500);
    assert_eq!(server.get("/livez").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_burst_larger_than_a_frame_arrives_whole_and_once() {
    let server = Server::new().await;
    let filler = "x".repeat(3000);
    for number in 0..100 {
        server.create(MAPS, map(&format!("m{number:03}"), &filler)).await;
    }
    let all: Vec<String> = (0..100).map(|number| format!("ADDED m{number:03}")).collect();
    for start in ["", "&resourceVersion=2"] {
        let events = server.events(&format!("{MAPS}?watch=1&timeoutSeconds=1{start}")).await;
        assert_eq!(kinds(&events), all, "{start}");
    }
}
