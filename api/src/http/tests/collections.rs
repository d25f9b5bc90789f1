//! Deletion of collections: the deleted objects, the response, and the reasons for a refusal.

use axum::body::Body;
use http::Method;

use super::{MAPS, Server, json, map};

async fn filled(names: &[&str]) -> Server {
    let server = Server::new().await;
    for name in names {
        server.create(MAPS, map(name, "1")).await;
    }
    server
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_the_list_in_its_order_however_many_go_at_once() {
    let names: Vec<String> = (0..100).map(|number| format!("m{number:03}")).collect();
    let server = filled(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let answered = server.delete(MAPS).await;
    assert_eq!((answered.code.as_u16(), &answered.json()["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(answered.names(), names);
    assert!(server.get(MAPS).await.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn selectors_and_limits_leave_the_rest() {
    let server = filled(&["a", "b", "c", "d"]).await;
    server.merge(&format!("{MAPS}/c"), json!({"metadata": {"labels": {"on": "1"}}})).await;
    assert_eq!(server.delete(&format!("{MAPS}?labelSelector=on%3D1")).await.names(), ["c"]);
    let part = server.delete(&format!("{MAPS}?limit=1")).await;
    assert_eq!(part.names(), ["a"]);
    let token = part.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(server.delete(&format!("{MAPS}?limit=1&continue={token}")).await.names(), ["b"]);
    assert_eq!(server.get(MAPS).await.names(), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_and_dry_runs_delete_nothing() {
    let server = filled(&["a"]).await;
    server.create(MAPS, json!({"metadata": {"name": "held", "finalizers": ["example.com/x"]}})).await;
    let before = server.get(&format!("{MAPS}/held")).await.text;
    assert_eq!(server.delete(&format!("{MAPS}?dryRun=All")).await.names(), ["a", "held"]);
    assert_eq!(server.get(&format!("{MAPS}/held")).await.text, before);
    assert_eq!(server.delete(MAPS).await.names(), ["a", "held"]);
    assert_eq!(server.get(MAPS).await.names(), ["held"]);
    assert!(server.get(&format!("{MAPS}/held")).await.json()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_precondition_that_fails_is_the_answer() {
    let server = filled(&["a", "b"]).await;
    let options = json!({"preconditions": {"uid": "nope"}}).to_string();
    let answered = server.send(Method::DELETE, MAPS, &[], Body::from(options)).await;
    assert_eq!((answered.code.as_u16(), &answered.json()["reason"]), (409, &json!("Conflict")));
    assert_eq!(server.get(MAPS).await.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn preconditions_in_the_query_hold_where_there_is_no_body() {
    let server = filled(&["a", "b"]).await;
    for path in [
        format!("{MAPS}/a?uid=nope"),
        format!("{MAPS}/a?resourceVersion=1"),
        format!("{MAPS}?uid=nope"),
        format!("{MAPS}?resourceVersion=1"),
    ] {
        let answered = server.delete(&path).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["reason"]), (409, &json!("Conflict")), "{path}");
        assert_eq!(server.get(MAPS).await.names(), ["a", "b"], "{path}");
    }
    let version = server.get(&format!("{MAPS}/a")).await.json()["metadata"]["resourceVersion"].clone();
    let path = format!("{MAPS}/a?resourceVersion={}", version.as_str().unwrap());
    assert_eq!(server.delete(&path).await.code, 200);
    assert_eq!(server.get(MAPS).await.names(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_in_all_namespaces_at_once() {
    let server = filled(&["a"]).await;
    server.create("/api/v1/namespaces/ns/secrets", map("s", "eA==")).await;
    for path in [
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/apis/rbac.authorization.orch.io/v1/roles",
        "/apis/events.orch.io/v1/events",
    ] {
        let answered = server.delete(path).await;
        let reason = &answered.json()["reason"];
        assert_eq!((answered.code.as_u16(), reason), (405, &json!("MethodNotAllowed")), "{path}");
    }
    assert_eq!(server.get(MAPS).await.names(), ["a"]);
    assert_eq!(server.get("/api/v1/secrets").await.names(), ["s"]);
}

#[tokio::test(start_paused = true)]
async fn the_collection_of_all_namespaces_is_only_read() {
    let server = filled(&["a"]).await;
    let inside = json!({"metadata": {"name": "b", "namespace": "ns"}}).to_string();
    let outside = json!({"metadata": {"name": "b"}}).to_string();
    for path in
        ["/api/v1/configmaps", "/api/v1/pods", "/apis/rbac.authorization.orch.io/v1/roles", "/api/v1/events"]
    {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            for (query, body) in [("", ""), ("?dryRun=All", &*inside), ("?dryRun=All", &*outside)] {
                let headers = [("content-type", "application/json")];
                let path = format!("{path}{query}");
                let answered =
                    server.send(method.clone(), &path, &headers, Body::from(body.to_owned())).await;
                let reason = &answered.json()["reason"];
                assert_eq!(
                    (answered.code.as_u16(), reason),
                    (405, &json!("MethodNotAllowed")),
                    "{method} {path}"
                );
            }
        }
    }
    assert_eq!(server.get("/api/v1/configmaps").await.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_acts_as_another_has_only_the_rights_of_the_other() {
    let server = filled(&["a"]).await;
    let one = format!("{MAPS}/a");
    for (header, code, reason) in [
        ("impersonate-user", 403, "Forbidden"),
        ("impersonate-group", 400, "BadRequest"),
        ("impersonate-uid", 400, "BadRequest"),
        ("impersonate-extra-scopes", 400, "BadRequest"),
        ("impersonate-nobody", 400, "BadRequest"),
    ] {
        let answered = server.send(Method::DELETE, &one, &[(header, "nobody")], Body::empty()).await;
        let found = (answered.code.as_u16(), &answered.json()["reason"]);
        assert_eq!(found, (code, &json!(reason)), "{header}");
    }
    assert_eq!(server.get(MAPS).await.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn children_that_stay_are_warned_of_once() {
    let server = Server::new().await;
    let jobs = "/apis/batch/v1/namespaces/ns/jobs";
    let answered = server.delete(jobs).await;
    assert_eq!(answered.headers.get_all("warning").iter().count(), 1);
    let told = server.delete(&format!("{jobs}?propagationPolicy=Background")).await;
    assert!(!told.headers.contains_key("warning"));
}
