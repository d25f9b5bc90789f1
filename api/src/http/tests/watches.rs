//! Watches: their start, their events, their end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use orch_raft::{Revision, Store};
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::{Api, Features, MAPS, Server, json, map, pipeline};
use crate::http::pool::Pool;
use crate::testing::{Lag, ProposalOutcome, ScriptedStore};

fn kinds(events: &[Value]) -> Vec<String> {
    let told = |event: &Value| {
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

/// A server whose watches gather changes for so many milliseconds, and a watch of its config maps that has sent `a`.
async fn gathering(delay_ms: u64) -> (Server, Body) {
    gathering_with(delay_ms, "").await
}

/// The same, with `options` added to the watch.
async fn gathering_with(delay_ms: u64, options: &str) -> (Server, Body) {
    let server = Server::new().await;
    let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
    pipeline.watch_batch_delay = Duration::from_millis(delay_ms);
    let router = Api::new(Arc::new(pipeline), server.stopping.clone()).router();
    let server = Server { router, ..server };
    let watch = format!("{MAPS}?watch=1&resourceVersion=2{options}");
    let mut body = server.open(Method::GET, &watch, &[], Body::empty()).await.into_body();
    let first = later(&server, &[(20, "a")]);
    let (sent, ()) = futures::join!(timed(&mut body), first);
    assert_eq!(sent, (vec!["ADDED a".to_owned()], 20), "a quiet watch sends at once");
    (server, body)
}

/// Creates maps, each so many milliseconds after the one before.
async fn later(server: &Server, maps: &[(u64, &str)]) {
    for (pause_ms, name) in maps {
        tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
        server.create(MAPS, map(name, "1")).await;
    }
}

/// The events of the next frame of a watch that waits for it, and the milliseconds of its wait. None at its end.
async fn timed(body: &mut Body) -> (Vec<String>, u128) {
    let asked = tokio::time::Instant::now();
    let Some(frame) = body.frame().await else { return (Vec::new(), asked.elapsed().as_millis()) };
    let frame = frame.unwrap().into_data().unwrap();
    let lines = std::str::from_utf8(&frame).unwrap().lines();
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    (kinds(&events), asked.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn changes_that_follow_one_another_closely_are_sent_together() {
    let (server, mut body) = gathering(5).await;
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(1, "b"), (1, "c")]));
    assert_eq!(sent.0, ["ADDED b", "ADDED c"]);
    assert!((5..=6).contains(&sent.1), "{} ms after the frame before", sent.1);
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(1_000, "d")]));
    assert_eq!(sent, (vec!["ADDED d".to_owned()], 1_000), "after a pause at once");
    let (server, mut body) = gathering(0).await;
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(1, "b"), (1, "c")]));
    assert_eq!(sent, (vec!["ADDED b".to_owned()], 1), "without a delay at once");
}

#[tokio::test(start_paused = true)]
async fn a_change_right_after_a_frame_is_sent_with_those_that_follow_it() {
    let (server, mut body) = gathering(5).await;
    // Before the connection asks for the next frame.
    server.create(MAPS, map("b", "1")).await;
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(1, "c")]));
    assert_eq!(sent, (vec!["ADDED b".to_owned(), "ADDED c".to_owned()], 5));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_that_is_due_while_changes_are_gathered_follows_them() {
    let (server, mut body) = gathering_with(1_000, "&allowWatchBookmarks=true").await;
    // The last frame before the bookmark is due, a minute after the start, is sent half a second before it.
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(59_480, "b")]));
    assert_eq!(sent.0, ["ADDED b"]);
    let (sent, ()) = futures::join!(timed(&mut body), later(&server, &[(700, "c")]));
    assert_eq!(sent.0.first().map(String::as_str), Some("ADDED c"), "{sent:?}");
    assert!(sent.1 <= 1_001, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_gathers_ends_when_the_node_stops() {
    let (server, mut body) = gathering(1_000).await;
    let stopped = async {
        later(&server, &[(1, "b")]).await;
        tokio::time::sleep(Duration::from_millis(9)).await;
        server.stopping.cancel();
    };
    let (ended, ()) = futures::join!(timed(&mut body), stopped);
    assert_eq!(ended, (vec![], 10));
}

#[tokio::test(start_paused = true)]
async fn fields_are_selected_by_as_labels_are() {
    let server = Server::new().await;
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let start = server.create(pods, pod).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let status = format!("{pods}/p/status");
    for phase in ["Running", "Running", "Failed", "Failed"] {
        let patch = json!({"status": {"phase": phase, "message": phase.repeat(2), "reason": null}});
        assert_eq!(server.merge(&status, patch).await.code, 200);
        server.merge(&format!("{pods}/p"), json!({"metadata": {"annotations": {"x": phase}}})).await;
    }
    for (selector, expected) in [
        ("status.phase%3DRunning", vec!["ADDED p", "MODIFIED p", "DELETED p"]),
        ("status.phase%3DPending", vec!["DELETED p"]),
        ("status.phase%21%3DFailed", vec!["MODIFIED p", "MODIFIED p", "DELETED p"]),
        ("status.phase%3DSucceeded", vec![]),
    ] {
        let watch =
            format!("{pods}?watch=1&timeoutSeconds=1&resourceVersion={start}&fieldSelector={selector}");
        assert_eq!(kinds(&server.events(&watch).await), expected, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_shows_the_last_state_under_the_version_of_the_removal() {
    let server = Server::new().await;
    let made = server.create(MAPS, map("a", "1")).await;
    let version =
        |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    server.delete(&format!("{MAPS}/a")).await;
    let list = server.get(MAPS).await.json();
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={}", version(&made));
    let events = server.events(&watch).await;
    assert_eq!(kinds(&events), ["DELETED a"]);
    let last = &events[0]["object"];
    assert_eq!((&last["data"], &last["metadata"]["uid"]), (&made["data"], &made["metadata"]["uid"]));
    assert_eq!(version(last), version(&list), "the removal is the newest change");
    let behind = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={}", version(last));
    assert!(server.events(&behind).await.is_empty(), "a watch goes on behind it");
}

#[tokio::test(start_paused = true)]
async fn a_start_at_a_version_to_come_tells_what_comes_after_it() {
    let server = Server::new().await;
    let made = server.create(MAPS, map("a", "1")).await;
    let version: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let watch = format!("{MAPS}?watch=1&resourceVersion={}", version + 1);
    let response = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await;
    assert_eq!(response.status(), 200);
    for name in ["b", "c"] {
        server.create(MAPS, map(name, "1")).await;
    }
    let frame = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(kinds(&[serde_json::from_slice(&frame).unwrap()]), ["ADDED c"], "b has the version itself");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_has_something_to_say_ends_in_time() {
    let server = Server::new().await;
    let version = server.create(MAPS, map("a", "1")).await["metadata"]["resourceVersion"].clone();
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=3&resourceVersion={}", version.as_str().unwrap());
    let mut body = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await.into_body();
    for second in 0..10 {
        server.create(MAPS, map(&format!("b{second}"), "1")).await;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        if body.frame().await.is_none() {
            // The timeout starts with the answer.
            assert_eq!(second, 2, "three seconds after it");
            return;
        }
    }
    panic!("it goes on");
}

#[tokio::test(start_paused = true)]
async fn options_of_watches_are_held_to_their_rules() {
    let server = Server::new().await;
    let told = |detail: &str| format!("ListOptions.meta.orch.io \"\" is invalid: {detail}");
    let initial = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let alone = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let unknown = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    let paged =
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
    for (query, message) in [
        ("sendInitialEvents=true", told(initial)),
        ("sendInitialEvents=false", told(initial)),
        ("sendInitialEvents=true&resourceVersion=1", told(initial)),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", told(&format!("[{initial}, {unknown}]"))),
        ("resourceVersionMatch=NotOlderThan", told(alone)),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", told(alone)),
        ("resourceVersionMatch=Exact&resourceVersion=1", told(&format!("[{alone}, {unknown}]"))),
        ("continue=x", told(paged)),
    ] {
        let answered = server.get(&format!("{MAPS}?watch=1&{query}")).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["message"]), (422, &json!(message)), "{query}");
    }
    let list = server.get(&format!("{MAPS}?sendInitialEvents=true")).await;
    let message = told("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list");
    assert_eq!((list.code.as_u16(), &list.json()["message"]), (422, &json!(message)));
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_optional_for_those_who_say_so() {
    let server = Server::new().await;
    let made = server.create(MAPS, map("a", "1")).await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let watch =
        format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let events = server.events(&format!("{watch}&sendInitialEvents=false")).await;
    assert_eq!(kinds(&events), ["BOOKMARK -"], "the start is the newest version");
    assert_eq!(events[0]["object"]["metadata"], json!({"resourceVersion": version}));
    for start in ["", "&resourceVersion=0", "&resourceVersion=1"] {
        let events = server.events(&format!("{watch}&sendInitialEvents=true{start}")).await;
        assert_eq!(kinds(&events), ["ADDED a", "BOOKMARK -", "BOOKMARK -"], "{start}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_too_slowly_is_told_and_ended() {
    let server = Server::new().await;
    let watch = format!("{MAPS}?watch=1&resourceVersion=2");
    let response = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await;
    let mut body = response.into_body();
    server.create(MAPS, map("a", "1")).await;
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(kinds(&[serde_json::from_slice(&frame).unwrap()]), ["ADDED a"]);
    for name in ["b", "c"] {
        server.create(MAPS, map(name, "1")).await;
    }
    server.store.forget_history();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    let message = event["object"]["message"].as_str().unwrap();
    assert!(message.starts_with("too old resource version: "), "{message}");
    assert!(body.frame().await.is_none());
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
    let ended = |event: &Value| !event["object"]["metadata"]["annotations"].is_null();
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
async fn a_bookmark_is_not_put_off_by_changes_that_keep_coming() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "0")).await;
    let watch = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=2");
    let response = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await;
    let mut body = response.into_body();
    let mut since_bookmark = 0;
    let mut bookmarks = 0;
    // Every poll of the body finds an event to send.
    for second in 1..=150 {
        let changed = server.merge(&format!("{MAPS}/a"), json!({"data": {"k": second.to_string()}})).await;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        since_bookmark += 1;
        if last["type"] == "BOOKMARK" {
            let newest = &changed.json()["metadata"]["resourceVersion"];
            assert_eq!(&last["object"]["metadata"]["resourceVersion"], newest);
            (since_bookmark, bookmarks) = (0, bookmarks + 1);
        }
        assert!(since_bookmark <= 61, "no bookmark for {since_bookmark} s");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(bookmarks, 2);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_carries_the_newest_position_of_the_node() {
    let server = Server::new().await;
    let watch = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=2");
    let response = server.open(http::Method::GET, &watch, &[], axum::body::Body::empty()).await;
    let mut body = response.into_body();
    let written = async {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        server.create("/api/v1/namespaces/ns/secrets", map("other", "eA==")).await
    };
    let (frame, written) = futures::join!(body.frame(), written);
    let frame = frame.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"]);
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
    server.store.forget_history();
    let events = server.events(&format!("{MAPS}?watch=1&resourceVersion=2")).await;
    assert_eq!(kinds(&events), ["ERROR Expired"]);
    assert_eq!(events[0]["object"]["code"], 410);
    let quiet = "/api/v1/namespaces/ns/secrets?watch=1&timeoutSeconds=1&resourceVersion=2";
    assert!(server.events(quiet).await.is_empty(), "nothing of this resource was forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_of_a_state_that_was_found_wrong_ends_with_a_410() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion=2");
    let watch = server.events(&path);
    let revoked = async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        server.store.revoke();
    };
    let (events, ()) = futures::join!(watch, revoked);
    assert_eq!(kinds(&events), ["ADDED a", "ERROR Expired"], "no bookmark that a client could go on from");
    let after = format!("{MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(kinds(&server.events(&after).await), ["ADDED a"], "a later watch is not touched");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_tells_of_no_other() {
    let server = Server::new().await;
    for name in ["a", "ab", "b"] {
        server.create(MAPS, map(name, "1")).await;
    }
    for path in [
        format!("{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da"),
        "/api/v1/watch/namespaces/ns/configmaps/a?timeoutSeconds=1".to_owned(),
    ] {
        assert_eq!(kinds(&server.events(&path).await), ["ADDED a"], "{path}");
    }
    let read = server.get(&format!("{MAPS}/a?watch=1&timeoutSeconds=1")).await;
    assert_eq!(read.json()["metadata"]["name"], "a", "the path of an object is read, as in the reference");
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
        let event: Value = serde_json::from_slice(&frame).unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_watch_that_resumes_at_a_version_of_several_changes_sees_all_of_them_again() {
    let server = Server::new().await;
    let quotas = "/api/v1/namespaces/ns/resourcequotas";
    for name in ["a", "b"] {
        let hard = json!({"pods": "5"});
        server.create(quotas, json!({"metadata": {"name": name}, "spec": {"hard": hard}})).await;
        let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
        assert_eq!(server.merge(&format!("{quotas}/{name}/status"), status).await.code, 200);
    }
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = server.create("/api/v1/namespaces/ns/pods", pod).await;
    let version: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    for (start, expected) in
        [(version - 1, &["MODIFIED a", "MODIFIED b"][..]), (version, &["MODIFIED a", "MODIFIED b"])]
    {
        let watch = format!("{quotas}?watch=1&timeoutSeconds=1&resourceVersion={start}");
        assert_eq!(kinds(&server.events(&watch).await), expected, "from {start}");
    }
    server.merge(&format!("{quotas}/a"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    let watch = format!("{quotas}?watch=1&timeoutSeconds=1&resourceVersion={}", version + 1);
    assert!(server.events(&watch).await.is_empty(), "a version of one change is passed");
}

#[tokio::test(start_paused = true)]
async fn whether_a_version_had_several_changes_is_read_from_the_disk_beside_the_threads_that_serve() {
    let server = Server::new().await;
    let quotas = "/api/v1/namespaces/ns/resourcequotas";
    for name in ["a", "b"] {
        let hard = json!({"pods": "5"});
        server.create(quotas, json!({"metadata": {"name": name}, "spec": {"hard": hard}})).await;
        let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
        assert_eq!(server.merge(&format!("{quotas}/{name}/status"), status).await.code, 200);
    }
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = server.create("/api/v1/namespaces/ns/pods", pod).await;
    let version: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let changes = server.store.state().collection("resourcequotas");
    let past = changes.changes_after(Revision(version - 2)).unwrap().cloned().collect();
    server.store.forget_history();
    let lag = Lag { past: Mutex::new(Some(past)), ..Lag::default() };
    let store = ScriptedStore {
        below: server.store.clone(),
        leads: Arc::new(true.into()),
        fate: ProposalOutcome::Applied,
        lag: Arc::new(lag),
    };
    for (start, expected) in
        [(version - 1, &["MODIFIED a", "MODIFIED b"][..]), (version, &["MODIFIED a", "MODIFIED b"])]
    {
        let watch = format!("{quotas}?watch=1&timeoutSeconds=1&resourceVersion={start}");
        let served = |pool| {
            let api = Api { pool, ..server.api_over(store.clone()) };
            let (store, clock) = (server.store.clone(), server.clock.clone());
            let (stopping, peer) = (server.stopping.clone(), server.peer.clone());
            Server { router: api.router(), store, clock, stopping, peer }
        };
        assert_eq!(kinds(&served(Pool::of(1)).events(&watch).await), expected, "from {start}");
        let without_threads = served(Pool::of(0));
        let waits = tokio::time::timeout(Duration::from_secs(5), without_threads.events(&watch)).await;
        assert!(waits.is_err(), "from {start}");
    }
}

/// The parts of its request that a watch keeps are bounded by a user's room, too: a request id may be as long as a head.
#[tokio::test]
async fn long_request_ids_of_watches_are_charged_to_their_user() {
    let server = Server::new().await;
    let path = format!("{MAPS}?watch=1&resourceVersion=1");
    let id = "i".repeat(900 << 10);
    let mut held = Vec::new();
    let refused = loop {
        let answered = server.open(Method::GET, &path, &[("audit-id", id.as_str())], Body::empty()).await;
        if answered.status() != 200 {
            break answered;
        }
        held.push(answered);
        assert!(held.len() <= 100, "one user's ids hold more than a hundred megabytes");
    };
    assert_eq!(refused.status(), 429);
    assert!(held.len() > 4, "{}", held.len());
    held.pop();
    let usual = server.open(Method::GET, &path, &[("audit-id", "one")], Body::empty()).await;
    assert_eq!(usual.status(), 200, "the room of a watch that ended is free");
}

#[tokio::test(start_paused = true)]
async fn long_selectors_of_watches_are_charged_to_their_user_until_the_watches_end() {
    let server = Server::new().await;
    let terms: Vec<String> = (0..6_000).map(|at| format!("k{at}")).collect();
    let watch = |selector: &str| format!("{MAPS}?watch=1&resourceVersion=1&labelSelector={selector}");
    let (long, short) = (watch(&terms.join("%2C")), watch("k0%2Ck1"));
    let open = |path: &str| {
        let path = path.to_owned();
        let server = &server;
        async move { server.open(Method::GET, &path, &[], Body::empty()).await }
    };
    let mut held = Vec::new();
    let refused = loop {
        let answered = open(&long).await;
        if answered.status() != 200 {
            break answered;
        }
        held.push(answered);
        assert!(held.len() <= 100, "one user's selectors hold more than a hundred megabytes");
    };
    assert_eq!(refused.status(), 429);
    assert!(held.len() > 4, "{}", held.len());
    assert_eq!(open(&short).await.status(), 200, "a usual watch still has room");
    assert_eq!(
        server.create(MAPS, map("a", "1")).await["metadata"]["name"],
        "a",
        "bodies have their own room"
    );
    held.pop();
    assert_eq!(open(&long).await.status(), 200, "the room of a watch that ended is free");
}
