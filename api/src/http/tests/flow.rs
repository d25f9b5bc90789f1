//! Flow control and metrics over HTTP: the 429, the headers, and what the pages hold.

use std::sync::Arc;

use axum::body::Body;
use futures::poll;
use http::Method;
use orch_rules::kinds::flow_control::{mandatory_flow_schema, mandatory_priority_level};

use super::{Api, MAPS, MemoryStore, Server, json, map};
use crate::flow::Options;
use crate::metrics::Exposition;

const GROUP: &str = "/apis/flowcontrol.apiserver.orch.io/v1";
pub(super) const ANN: [(&str, &str); 1] = [("impersonate-user", "ann")];

/// A server with one seat, where every user may read and write config maps and read pages.
async fn with_one_seat(is_fair: bool) -> Server {
    with_one_seat_over(is_fair, |server| server.api_over(server.store.clone())).await
}

/// The same, made of the API that `api` makes.
pub(super) async fn with_one_seat_over(
    is_fair: bool,
    api: impl FnOnce(&Server) -> Api<MemoryStore>,
) -> Server {
    let server = Server::new().await;
    let rbac = "/apis/rbac.authorization.orch.io/v1";
    let rules = json!([
        {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]},
        {"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["gadgets"]},
        {"verbs": ["*"], "nonResourceURLs": ["/metrics", "/debug/*"]},
    ]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    server.create(&format!("{rbac}/clusterroles"), role).await;
    let group = "rbac.authorization.orch.io";
    let binding = json!({
        "metadata": {"name": "b"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "ann"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": group, "name": "r"},
    });
    server.create(&format!("{rbac}/clusterrolebindings"), binding).await;
    let options = Options { is_fair, reads_max: 1, writes_max: 1 };
    let api = api(&server).controlled(options);
    Server { router: api.exposing(Arc::new(Page)).router(), ..server }
}

struct Page;

impl Exposition for Page {
    fn render(&self) -> String {
        "apiserver_request_total 1\n".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_seat_is_told_to_come_again_and_administrators_are_not_held_back() {
    for (is_fair, holders) in [(true, 2), (false, 1)] {
        let server = with_one_seat(is_fair).await;
        let endless =
            || Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        let mut held: Vec<_> =
            (0..holders).map(|_| Box::pin(server.open(Method::POST, MAPS, &ANN, endless()))).collect();
        for holder in &mut held {
            assert!(poll!(holder).is_pending(), "its body does not end");
        }
        let refused = server.send(Method::POST, MAPS, &ANN, Body::from("{}")).await;
        assert_eq!(
            (refused.code.as_u16(), &*refused.text),
            (429, "Too many requests, please try again later.\n")
        );
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
        let unknown = "/apis/example.com/v1/gadgets";
        let refused = server.send(Method::POST, unknown, &ANN, Body::from("{}")).await;
        assert_eq!(refused.code, 429, "the look for a kind takes a seat");
        server.create(MAPS, map("a", "1")).await;
        drop(held);
        let answered = server.send(Method::POST, unknown, &ANN, Body::from("{}")).await;
        assert_eq!(answered.code, 404, "{}", answered.text);
        let served = server.send(Method::POST, MAPS, &ANN, Body::from(map("b", "1").to_string())).await;
        assert_eq!(served.code, 201, "the seats came back: {}", served.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_slowly_keeps_no_seat_from_others() {
    for is_fair in [true, false] {
        let server = with_one_seat(is_fair).await;
        let began = tokio::time::Instant::now();
        let endless = Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        let ended = server.send(Method::POST, MAPS, &ANN, endless).await;
        assert_eq!((ended.code.as_u16(), began.elapsed().as_secs()), (504, 5), "{}", ended.text);
        assert!(ended.text.contains("nothing was changed"), "{}", ended.text);
        let served = server.send(Method::POST, MAPS, &ANN, Body::from(map("b", "1").to_string())).await;
        assert_eq!(served.code, 201, "its seat came back: {}", served.text);
    }
}

#[tokio::test(start_paused = true)]
async fn small_bodies_that_do_not_come_hold_no_seat() {
    for is_fair in [true, false] {
        let server = with_one_seat(is_fair).await;
        let announced = [ANN[0], ("content-length", "10")];
        let endless =
            || Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        let mut stalled: Vec<_> =
            (0..20).map(|_| Box::pin(server.open(Method::POST, MAPS, &announced, endless()))).collect();
        for request in &mut stalled {
            assert!(poll!(request).is_pending(), "its body does not come");
        }
        let served = server.send(Method::POST, MAPS, &ANN, Body::from(map("b", "1").to_string())).await;
        assert_eq!(served.code, 201, "{}", served.text);
    }
}

#[tokio::test(start_paused = true)]
async fn responses_name_the_schema_and_the_level_by_their_uids() {
    let server = with_one_seat(true).await;
    let answered = server.send(Method::GET, MAPS, &ANN, Body::empty()).await;
    assert!(!answered.headers.contains_key("x-orch-pf-flowschema-uid"), "neither is stored");
    let object = |spec| json!({"metadata": {"name": "catch-all"}, "spec": spec});
    let schema = object(mandatory_flow_schema("catch-all").unwrap());
    let schema = server.create(&format!("{GROUP}/flowschemas"), schema).await;
    let level = object(mandatory_priority_level("catch-all").unwrap());
    let level = server.create(&format!("{GROUP}/prioritylevelconfigurations"), level).await;
    let answered = server.send(Method::GET, MAPS, &ANN, Body::empty()).await;
    for (header, object) in [("x-orch-pf-flowschema-uid", schema), ("x-orch-pf-prioritylevel-uid", level)] {
        let uid = object["metadata"]["uid"].as_str().unwrap();
        assert_eq!(answered.headers[header].to_str().unwrap(), uid);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_take_the_right_to_their_path() {
    let server = with_one_seat(true).await;
    let nobody = [("impersonate-user", "nobody")];
    for (path, beginning) in [
        ("/metrics", "apiserver_request_total 1\n"),
        ("/debug/api_priority_and_fairness/dump_priority_levels", "PriorityLevelName,"),
        ("/debug/api_priority_and_fairness/dump_queues", "PriorityLevelName,"),
        ("/debug/api_priority_and_fairness/dump_requests", "PriorityLevelName,"),
    ] {
        let answered = server.send(Method::GET, path, &ANN, Body::empty()).await;
        assert_eq!(answered.code, 200, "{path}: {}", answered.text);
        assert!(answered.text.starts_with(beginning), "{path}: {}", answered.text);
        assert_eq!(server.send(Method::GET, path, &nobody, Body::empty()).await.code, 403, "{path}");
        assert_eq!(server.send(Method::POST, path, &ANN, Body::empty()).await.code, 405, "{path}");
        // A right to `/debug/*` and an authorizer's rule for `/metrics` mean the same bytes that are served.
        assert_eq!(server.get(&format!("{path}/")).await.code, 404, "{path}/");
    }
    let without = with_one_seat(false).await;
    let answered = without.get("/debug/api_priority_and_fairness/dump_queues").await;
    assert_eq!(answered.code, 404, "there are no levels");
}
