//! Writes with an unknown outcome: which responses invite a client to repeat the request, and which must not.

use std::sync::atomic::AtomicBool;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use orch_schema::value::Value;
use tower::ServiceExt;

use super::*;
use crate::testing::{ProposalOutcome, ScriptedStore};

/// Status code, `Retry-After` and document of the response to a write whose proposal has this fate.
async fn answered(
    server: &Server,
    fate: ProposalOutcome,
    method: Method,
    path: &str,
    body: &str,
) -> (StatusCode, Option<String>, Value) {
    let store = ScriptedStore {
        below: server.store.clone(),
        leads: Arc::new(AtomicBool::new(true)),
        fate,
        lag: Arc::default(),
    };
    let router = server.api_over(store).router();
    let request = Request::builder().method(&method).uri(path);
    let request = if method == Method::PATCH {
        request.header("content-type", "application/merge-patch+json")
    } else {
        request
    };
    let request = request.extension(server.peer.clone()).body(Body::from(body.to_owned())).unwrap();
    let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
    let document = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let retry = parts.headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (parts.status, retry, document)
}

#[test]
fn a_write_is_offered_for_repetition_only_when_it_was_certainly_not_done() {
    block_on(async {
        let server = Server::new().await;
        server.create(MAPS, map("a", "1")).await;
        let one = format!("{MAPS}/a");
        let changed = map("a", "2").to_string();
        let created = map("b", "1").to_string();
        let writes = [
            (Method::POST, MAPS, created.as_str()),
            (Method::PUT, one.as_str(), changed.as_str()),
            (Method::PATCH, one.as_str(), r#"{"data": {"k": "2"}}"#),
            (Method::DELETE, one.as_str(), ""),
            (Method::DELETE, MAPS, ""),
        ];
        for (method, path, body) in writes {
            let context = format!("{method} {path}");
            let (code, retry, document) =
                answered(&server, ProposalOutcome::NotProposed, method.clone(), path, body).await;
            assert_eq!((code.as_u16(), retry.as_deref()), (503, Some("1")), "{context}: {document}");
            for fate in [ProposalOutcome::Unknown, ProposalOutcome::Silence] {
                let (code, retry, document) = answered(&server, fate, method.clone(), path, body).await;
                assert_eq!((code.as_u16(), retry), (504, None), "{context}, {fate:?}: {document}");
                assert_eq!(document["reason"], "Timeout", "{context}");
                assert_eq!(document["details"], json!({}), "{context}");
                let message = document["message"].as_str().unwrap();
                assert!(message.contains("may or may not have been carried out"), "{context}: {message}");
            }
        }
        server.create(MAPS, map("c", "1")).await;
        let (code, retry, document) =
            answered(&server, ProposalOutcome::NotProposed, Method::DELETE, MAPS, "").await;
        assert_eq!((code.as_u16(), retry), (504, None), "one of several may be done: {document}");
    });
}
