//! Documents that are worked on beside the threads of the runtime: the answers are the same.

use super::*;

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
