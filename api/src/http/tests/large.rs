//! Large documents, which are processed in the pool: the responses are the same.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::{join, join_all};
use orch_schema::value::Map;

use super::*;
use crate::http::large::{GATHERED_OBJECTS_MIN, MANY_OBJECTS_MIN};
use crate::http::pool::Pool;
use crate::testing::{ProposalOutcome, ScriptedStore};

fn large(name: &str) -> Value {
    let data: Map = (0..10_000).map(|at| (format!("k{at}"), json!("value"))).collect();
    json!({"metadata": {"name": name}, "data": data, "unknown": 1})
}

#[test]
fn a_large_document_is_answered_like_a_small_one() {
    block_on(async {
        let server = Server::new().await;
        let answered = server.send(Method::POST, MAPS, &[], Body::from(large("a").to_string())).await;
        assert_eq!(answered.code, StatusCode::CREATED);
        assert_eq!(answered.headers["warning"], "299 - \"unknown field \\\"unknown\\\"\"");
        assert_eq!(answered.json()["data"]["k7"], "value");
        let path = format!("{MAPS}/a");
        let patched = server.merge(&path, json!({"data": {"k7": "other"}})).await.json();
        assert_eq!(patched["data"]["k7"], "other", "a small patch of a large object");
        let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
        let answered = server.send(Method::GET, &path, &table, Body::empty()).await;
        assert_eq!(answered.json()["rows"][0]["cells"][1], 10_000);
        assert_eq!(server.delete(&path).await.code, StatusCode::OK);
    });
}

#[test]
fn a_refusal_of_a_large_document_has_its_warnings() {
    block_on(async {
        let server = Server::new().await;
        let body = Body::from(large("Bad_Name").to_string());
        let answered = server.send(Method::POST, MAPS, &[], body).await;
        assert_eq!(answered.code, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(answered.headers["warning"], "299 - \"unknown field \\\"unknown\\\"\"");
    });
}

/// Status code and message of a large create.
async fn created(router: &Router, server: &Server, name: &str, path: &str) -> (u16, String) {
    let request = Request::builder().method(Method::POST).uri(path).extension(server.peer.clone());
    let request = request.body(Body::from(large(name).to_string())).unwrap();
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let document: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    (parts.status.as_u16(), document["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_large_write_that_had_no_turn_has_certainly_changed_nothing() {
    block_on(async {
        let server = Server::new().await;
        let store = ScriptedStore {
            below: server.store.clone(),
            leads: Arc::new(AtomicBool::new(true)),
            fate: ProposalOutcome::Silence,
            lag: Arc::default(),
        };
        let router = server.api_over(store).router();
        // As many requests as the pool takes of one user wait for the outcome of their proposals.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let held = (crate::http::pool::HELD_PER_THREAD * threads).div_ceil(2);
        let first = join_all((0..held).map(|_| created(&router, &server, "a", MAPS)));
        let late = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let path = format!("{MAPS}?timeout=5s");
            created(&router, &server, "late", &path).await
        };
        let (first, late) = join(first, late).await;
        let message = "Timeout: request did not complete within the allotted timeout: nothing was changed";
        assert_eq!(late, (504, message.to_owned()));
        for (code, message) in first {
            assert_eq!(code, 504);
            assert!(message.contains("may or may not have been carried out"), "{message}");
        }
    });
}

const ROLES: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles";

/// Config maps enough to make lists and watches of them large, with the label `on` at seven places, and one secret.
async fn filled() -> Server {
    let server = Server::new().await;
    for at in 0..=GATHERED_OBJECTS_MIN {
        let on = [0, 1, 4095, 4096, 4097, 8191, GATHERED_OBJECTS_MIN].contains(&at);
        let object = json!({"metadata": {"name": format!("m{at:05}"), "labels": {"on": on.to_string()}}});
        server.create(MAPS, object).await;
    }
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "s"}})).await;
    server
}

#[test]
fn a_watch_that_looks_at_many_objects_tells_of_those_that_are_selected() {
    block_on(async {
        let server = filled().await;
        let names = |events: &[Value]| -> Vec<String> {
            events
                .iter()
                .map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let all = ["m00000", "m00001", "m04095", "m04096", "m04097", "m08191", "m08192"];
        for query in ["labelSelector=on%3Dtrue", "labelSelector=on%3Dtrue&resourceVersion=3"] {
            let path = format!("{MAPS}?watch=1&timeoutSeconds=1&{query}");
            let events = server.events(&path).await;
            let expected = if query.ends_with('3') { &all[1..] } else { &all[..] };
            assert_eq!(names(&events), expected, "{query}: {}", events.len());
        }
    });
}

#[test]
fn requests_over_many_objects_leave_the_threads_that_serve() {
    block_on(async {
        let server = filled().await;
        let rule = json!({"apiGroups": [""], "verbs": ["get"], "resources": ["x".repeat(70_000)]});
        server.create(ROLES, json!({"metadata": {"name": "large"}, "rules": [rule]})).await;
        let api = server.api_over(server.store.clone());
        // A pool without threads: requests that need it never finish.
        let server = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let long = format!("labelSelector={}", "x!%3Dy,".repeat(1000).trim_end_matches(','));
        let secrets = "/api/v1/namespaces/ns/secrets";
        let reads = [
            (MAPS.to_owned(), true),
            (format!("{MAPS}?limit=1"), true),
            (format!("{MAPS}?labelSelector=on%3Dtrue"), true),
            (format!("{MAPS}?watch=1&labelSelector=on%3Dtrue"), true),
            (format!("{MAPS}?watch=1&labelSelector=on%3Dtrue&resourceVersion=3"), true),
            (format!("{secrets}?{long}"), true),
            (format!("{secrets}?watch=1&{long}"), true),
            (format!("{MAPS}?watch=1"), false),
            (format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Dm00001"), false),
            (format!("{MAPS}/m00001"), false),
            (secrets.to_owned(), false),
            (format!("{secrets}?watch=1&labelSelector=x!%3Dy"), false),
        ];
        let deletions = [
            (MAPS.to_owned(), true),
            (format!("{secrets}?{long}"), true),
            (ROLES.to_owned(), true),
            (secrets.to_owned(), false),
        ];
        let reads = reads.into_iter().map(|(path, waits)| (Method::GET, path, waits));
        let deletions = deletions.into_iter().map(|(path, waits)| (Method::DELETE, path, waits));
        for (method, path, waits) in reads.chain(deletions) {
            let first = async {
                let mut body = server.open(method.clone(), &path, &[], Body::empty()).await.into_body();
                body.frame().await.unwrap().unwrap()
            };
            let answered = tokio::time::timeout(Duration::from_secs(5), first).await;
            assert_eq!(answered.is_err(), waits, "{method} {path}");
        }
    });
}

#[test]
fn a_list_of_many_converted_objects_is_made_in_the_pool() {
    block_on(async {
        let server = Server::new().await;
        let events = "/api/v1/namespaces/ns/events";
        for at in 0..MANY_OBJECTS_MIN {
            let about = json!({"kind": "Pod", "namespace": "ns", "name": "p"});
            let event =
                json!({"metadata": {"name": format!("e{at}")}, "involvedObject": about, "reason": "Tested"});
            server.create(events, event).await;
        }
        let api = server.api_over(server.store.clone());
        // Nothing that needs the pool gets on.
        let server = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let converted = |namespace: &str, query: &str| {
            format!("/apis/events.orch.io/v1/namespaces/{namespace}/events{query}")
        };
        for (path, waits) in [
            (events.to_owned(), false),
            (converted("ns", ""), true),
            (converted("ns", "?limit=10"), false),
            (converted("ns", "?limit=0"), true),
            (converted("ns", "?limit=10&labelSelector=a"), true),
            (converted("other", ""), false),
        ] {
            let listed = server.send(Method::GET, &path, &[], Body::empty());
            let listed = tokio::time::timeout(Duration::from_secs(5), listed).await;
            assert_eq!(listed.is_err(), waits, "{path}");
        }
    });
}

#[test]
fn answers_of_few_large_objects_leave_the_threads_that_serve() {
    block_on(async {
        let server = Server::new().await;
        server.create(MAPS, large("a")).await;
        let api = server.api_over(server.store.clone());
        let server = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let table = "application/json;as=Table;g=meta.orch.io;v=v1";
        for (path, accept, waits) in [
            (MAPS.to_owned(), "application/yaml", true),
            (MAPS.to_owned(), table, true),
            (MAPS.to_owned(), "application/vnd.orch.protobuf", true),
            (format!("{MAPS}?pretty=true"), "application/json", true),
            (MAPS.to_owned(), "application/json", false),
            (format!("{MAPS}?watch=1"), table, true),
            (format!("{MAPS}?watch=1"), "application/vnd.orch.protobuf", true),
            (format!("{MAPS}?watch=1"), "application/json", false),
            ("/api/v1/namespaces/ns/secrets".to_owned(), "application/yaml", false),
        ] {
            let first = async {
                let headers = [("accept", accept)];
                let mut body = server.open(Method::GET, &path, &headers, Body::empty()).await.into_body();
                body.frame().await.unwrap().unwrap()
            };
            let answered = tokio::time::timeout(Duration::from_secs(5), first).await;
            assert_eq!(answered.is_err(), waits, "{path} as {accept}");
        }
    });
}

#[test]
fn a_quiet_watch_of_large_objects_takes_no_thread_of_the_pool() {
    block_on(async {
        let server = Server::new().await;
        let newest = server.create(MAPS, large("a")).await["metadata"]["resourceVersion"].clone();
        let path = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=");
        let (quiet, due) = (format!("{path}{}", newest.as_str().unwrap()), format!("{path}2"));
        let api = server.api_over(server.store.clone());
        let without_threads = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        for accept in ["application/json;as=Table;g=meta.orch.io;v=v1", "application/vnd.orch.protobuf"] {
            let watched = async |path: &str| {
                let accept = [("accept", accept)];
                let ended = without_threads.send(Method::GET, path, &accept, Body::empty());
                tokio::time::timeout(Duration::from_secs(5), ended).await.map(|ended| ended.text)
            };
            assert_eq!(watched(&quiet).await.as_deref(), Ok(""), "{accept}");
            assert!(
                watched(&due).await.is_err(),
                "a change is rendered beside the threads that serve: {accept}"
            );
        }
        let router = without_threads.api_over(without_threads.store.clone()).router();
        let server = Server { router, ..without_threads };
        let accept = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
        let watch = server.send(Method::GET, &quiet, &accept, Body::empty());
        let change = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            server.merge(&format!("{MAPS}/a"), json!({"data": {"k7": "other"}})).await
        };
        let (watched, _) = join(watch, change).await;
        assert_eq!(watched.text.lines().count(), 1, "{}", watched.text);
    });
}

#[test]
fn a_resume_that_renders_much_is_answered_at_once_and_renders_in_the_pool() {
    block_on(async {
        let server = Server::new().await;
        server.create(MAPS, large("a")).await;
        let api = server.api_over(server.store.clone());
        let threadless = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
        let open = async |server: &Server, start: &str, headers: &[(&str, &str)]| {
            let path = format!("{MAPS}?watch=1&timeoutSeconds=1{start}");
            let opened = server.open(Method::GET, &path, headers, Body::empty());
            tokio::time::timeout(Duration::from_secs(5), opened).await.ok()
        };
        let watch =
            open(&threadless, "&resourceVersion=2", &table).await.expect("its head waits for no thread");
        let mut body = watch.into_body();
        let first = tokio::time::timeout(Duration::from_secs(5), body.frame());
        assert!(first.await.is_err(), "its event waits for the pool");
        let router = threadless.api_over(threadless.store.clone()).router();
        let server = Server { router, ..threadless };
        let long =
            format!("&resourceVersion=2&labelSelector={}", "x!%3Dy,".repeat(1000).trim_end_matches(','));
        for start in ["&resourceVersion=2", &long] {
            let watch = open(&server, start, &table).await.expect("the pool has threads");
            let text = watch.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1, "{text:?}");
        }
    });
}

#[test]
fn answers_that_are_not_taken_have_a_bound_for_each_user() {
    block_on(async {
        let server = filled().await;
        let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
        let mut held = Vec::new();
        let refused = loop {
            let response = server.open(Method::GET, MAPS, &table, Body::empty()).await;
            if response.status() != StatusCode::OK {
                break response;
            }
            let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
            held.push((response, length));
            assert!(held.len() < 1000);
        };
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()["retry-after"]),
            (429, &"1".parse().unwrap())
        );
        let bytes: usize = held.iter().map(|(_, length)| length).sum();
        assert!((48 << 20..=64 << 20).contains(&bytes), "{bytes}");
        assert_eq!(
            server.get("/api/v1/namespaces/ns/secrets").await.code,
            StatusCode::OK,
            "small ones go on"
        );
        let (first, length) = held.pop().unwrap();
        // Room is released by reading a response to its end, or by dropping it.
        assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), length);
        drop(held);
        let body = Body::from(large("late").to_string());
        assert_eq!(server.send(Method::POST, MAPS, &[], body).await.code, StatusCode::CREATED);
    });
}

#[test]
fn a_list_gives_its_room_back_as_it_is_taken() {
    block_on(async {
        let server = filled().await;
        let accept = "application/json;as=Table;g=meta.orch.io;v=v1";
        for accept in [accept, "application/yaml"] {
            let accept = [("accept", accept)];
            let open = || server.open(Method::GET, MAPS, &accept, Body::empty());
            let mut held = Vec::new();
            loop {
                let response = open().await;
                if response.status() != StatusCode::OK {
                    break;
                }
                let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
                held.push((response.into_body(), length));
                assert!(held.len() < 1000);
            }
            // Each client reads half of its list; the frames it read are dropped.
            for (body, length) in &mut held {
                let mut taken = 0;
                while taken < *length / 2 {
                    taken += body.frame().await.unwrap().unwrap().data_ref().unwrap().len();
                }
            }
            let count = held.len();
            for more in 0..count * 2 / 5 {
                let response = open().await;
                assert_eq!(response.status(), StatusCode::OK, "{accept:?}: {more} beside {count}");
                held.push((response.into_body(), 0));
            }
        }
    });
}

#[test]
fn a_deletion_of_many_objects_has_room_for_its_answer_or_deletes_nothing() {
    block_on(async {
        let server = Server::new().await;
        for at in 0..70 {
            server.create(MAPS, map(&format!("m{at}"), &"x".repeat(1_000_000))).await;
        }
        let secrets = "/api/v1/namespaces/ns/secrets";
        server.create(secrets, json!({"metadata": {"name": "s"}})).await;
        // The client reads nothing of its response.
        let dry = format!("{MAPS}?dryRun=All&limit=60");
        let first = server.open(Method::DELETE, &dry, &[], Body::empty()).await;
        assert_eq!(first.status(), StatusCode::OK);
        let refused = server.delete(MAPS).await;
        assert_eq!((refused.code.as_u16(), &refused.headers["retry-after"]), (429, &"1".parse().unwrap()));
        assert_eq!(server.get(MAPS).await.names().len(), 70, "nothing is deleted without an answer");
        assert_eq!(server.delete(secrets).await.names(), ["s"], "small ones go on");
        drop(first);
        assert_eq!(server.delete(MAPS).await.names().len(), 70);
        assert!(server.get(MAPS).await.names().is_empty());
        let body = Body::from(large("late").to_string());
        assert_eq!(
            server.send(Method::POST, MAPS, &[], body).await.code,
            StatusCode::CREATED,
            "all is given back"
        );
    });
}

#[test]
fn expressions_are_compiled_beside_the_threads_that_serve() {
    block_on(async {
        let server = Server::new().await;
        let devices = "/apis/resource.orch.io/v1";
        let claims = format!("{devices}/namespaces/ns/resourceclaims");
        let class = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
        let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
        let spec = json!({"devices": {"requests": [request]}});
        let claim = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
        let template = json!({"metadata": {"name": "t"}, "spec": {"spec": spec}});
        server.create(&claims, claim("a")).await;
        let api = server.api_over(server.store.clone());
        let server = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let merge = [("content-type", "application/merge-patch+json")];
        for (method, path, body, waits) in [
            (Method::POST, format!("{devices}/deviceclasses"), class("c"), true),
            (Method::POST, claims.clone(), claim("b"), true),
            (Method::POST, format!("{devices}/namespaces/ns/resourceclaimtemplates"), template, true),
            (Method::PATCH, format!("{claims}/a"), json!({"metadata": {"labels": {"a": "b"}}}), true),
            (Method::PATCH, format!("{claims}/a/status"), json!({"status": {}}), false),
            (Method::GET, format!("{claims}/a"), json!(null), false),
            (Method::POST, MAPS.to_owned(), json!({"metadata": {"name": "small"}}), false),
        ] {
            let headers: &[_] = if method == Method::PATCH { &merge } else { &[] };
            let answered = server.send(method.clone(), &path, headers, Body::from(body.to_string()));
            let answered = tokio::time::timeout(Duration::from_secs(5), answered).await;
            assert_eq!(answered.is_err(), waits, "{method} {path}");
        }
    });
}
