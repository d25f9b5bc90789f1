//! Documents that are worked on beside the threads of the runtime: the answers are the same.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::{join, join_all};

use super::*;
use crate::testing::{Directed, Fate};

fn large(name: &str) -> Value {
    let data: serde_json::Map<String, Value> =
        (0..10_000).map(|at| (format!("k{at}"), json!("value"))).collect();
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

/// Code and message of a large create.
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
        let pipeline = Arc::new(Pipeline {
            store: Directed {
                below: server.store.clone(),
                leads: Arc::new(AtomicBool::new(true)),
                fate: Fate::Silence,
            },
            registry: Registry::builtin(&ORCH),
            token_key: TokenKey::new([7; 32]),
            ambient: server.clock.clone(),
            features: Features::default(),
            turns: Turns::default(),
        });
        let authenticator =
            Arc::new(Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused));
        let router = Api::new(pipeline, authenticator, server.stopping.clone()).router();
        // As many as the pool takes wait for an answer to their proposals.
        let held = crate::http::pool::HELD_PER_THREAD
            * std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
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
