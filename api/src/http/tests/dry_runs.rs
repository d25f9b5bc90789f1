//! Dry runs of every verb and sub-resource: the response of a real request, and nothing stored.

use axum::body::Body;
use http::Method;
use orch_schema::value::Value;

use super::{MAPS, Server, json, map};

const PODS: &str = "/api/v1/namespaces/ns/pods";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A server with the config map `a`, another that a finalizer holds, a pod, a deployment, and a terminating namespace.
async fn filled() -> Server {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    server.create(MAPS, json!({"metadata": {"name": "held", "finalizers": ["example.com/x"]}})).await;
    let container = json!([{"name": "c", "image": "i"}]);
    server.create(PODS, json!({"metadata": {"name": "p"}, "spec": {"containers": container}})).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": container}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment = json!({"metadata": {"name": "d"}, "spec": spec});
    server.create("/apis/apps/v1/namespaces/ns/deployments", deployment).await;
    server.create("/api/v1/namespaces", json!({"metadata": {"name": "ending"}})).await;
    assert!(server.delete("/api/v1/namespaces/ending").await.code.is_success());
    server
}

/// All stored objects as clients see them.
async fn contents(server: &Server) -> Vec<String> {
    let mut contents = Vec::new();
    for path in ["/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/namespaces"] {
        contents.push(server.get(path).await.text);
    }
    contents
}

#[tokio::test(start_paused = true)]
async fn every_verb_runs_dry() {
    let server = filled().await;
    let ending = server.get("/api/v1/namespaces/ending").await.json();
    let mut finalized = ending.clone();
    finalized["spec"]["finalizers"] = json!([]);
    let mut failed = server.get(&format!("{PODS}/p")).await.json();
    failed["status"]["phase"] = json!("Failed");
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"k": "2"}});
    let condition = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let (a, p) = (format!("{MAPS}/a"), format!("{PODS}/p"));
    let deployment = "/apis/apps/v1/namespaces/ns/deployments/d";
    let before = contents(&server).await;
    let cases = [
        (Method::POST, MAPS.to_owned(), JSON, map("new", "1"), 201),
        (Method::POST, MAPS.to_owned(), JSON, json!({"metadata": {"generateName": "g-"}}), 201),
        (Method::POST, MAPS.to_owned(), JSON, map("a", "1"), 409),
        (Method::POST, MAPS.to_owned(), JSON, map("No!", "1"), 422),
        (Method::PUT, a.clone(), JSON, map("a", "2"), 200),
        (Method::PATCH, a.clone(), MERGE, json!({"data": {"k": "2"}}), 200),
        (Method::PATCH, a.clone(), STRATEGIC, json!({"data": {"k": "2"}}), 200),
        (Method::PATCH, a.clone(), JSON_PATCH, json!([{"op": "remove", "path": "/data"}]), 200),
        (Method::PATCH, format!("{MAPS}/new?fieldManager=m&"), APPLY, applied, 201),
        (Method::PATCH, format!("{MAPS}/held"), MERGE, json!({"metadata": {"finalizers": null}}), 200),
        (Method::DELETE, a.clone(), JSON, json!(null), 200),
        (Method::DELETE, format!("{MAPS}/held"), JSON, json!(null), 200),
        (Method::DELETE, p.clone(), JSON, json!(null), 200),
        (Method::DELETE, format!("{p}?gracePeriodSeconds=0&"), JSON, json!(null), 200),
        (Method::DELETE, format!("{deployment}?propagationPolicy=Foreground&"), JSON, json!(null), 200),
        (Method::DELETE, "/api/v1/namespaces/ns".to_owned(), JSON, json!(null), 200),
        (Method::DELETE, MAPS.to_owned(), JSON, json!(null), 200),
        (Method::DELETE, PODS.to_owned(), JSON, json!(null), 200),
        (Method::PUT, format!("{p}/status"), JSON, failed, 200),
        (Method::PATCH, format!("{p}/status"), STRATEGIC, condition, 200),
        (Method::PATCH, format!("{deployment}/status"), MERGE, json!({"status": {"replicas": 3}}), 200),
        (Method::PUT, "/api/v1/namespaces/ending/finalize".to_owned(), JSON, finalized, 200),
        (Method::PATCH, "/api/v1/namespaces/ns/status".to_owned(), MERGE, json!({"status": {}}), 200),
    ];
    for (method, path, content_type, body, code) in cases {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        for dry_run in ["dryRun=All", "dryRun"] {
            let joint = if path.contains('?') { "" } else { "?" };
            let path = format!("{path}{joint}{dry_run}");
            let headers = [("content-type", content_type)];
            let answered = server.send(method.clone(), &path, &headers, Body::from(body.clone())).await;
            assert_eq!(answered.code, code, "{method} {path}: {}", answered.text);
            assert!(contents(&server).await == before, "{method} {path} changed something");
        }
        let joint = if path.contains('?') { "" } else { "?" };
        let path = format!("{path}{joint}dryRun=Some");
        let headers = [("content-type", content_type)];
        let refused = server.send(method.clone(), &path, &headers, Body::from(body)).await;
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        let rule = "is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
        assert_eq!(
            (refused.code.as_u16(), message.ends_with(rule)),
            (422, true),
            "{method} {path}: {message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_dry_where_query_or_body_says_so() {
    let server = filled().await;
    let before = contents(&server).await;
    let send = |path: String, options: Value| {
        let server = &server;
        async move { server.send(Method::DELETE, &path, &[], Body::from(options.to_string())).await }
    };
    for path in [format!("{MAPS}/a"), MAPS.to_owned(), format!("{PODS}/p")] {
        assert_eq!(send(path.clone(), json!({"dryRun": ["All"]})).await.code, 200, "{path}");
        assert!(contents(&server).await == before, "{path}");
        let refused = send(path.clone(), json!({"dryRun": ["Some"]})).await;
        assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (422, &json!("Invalid")), "{path}");
    }
    for path in [format!("{MAPS}/a"), MAPS.to_owned(), format!("{PODS}/p"), PODS.to_owned()] {
        for (query, options) in [
            ("dryRun=All", json!({})),
            ("dryRun", json!({})),
            ("dryRun=All", json!({"gracePeriodSeconds": 0})),
            ("dryRun=All", json!({"dryRun": []})),
            ("dryRun", json!({"dryRun": ["All"]})),
            ("dryRun=All&dryRun=All", json!({"dryRun": ["All"]})),
        ] {
            assert_eq!(
                send(format!("{path}?{query}"), options.clone()).await.code,
                200,
                "{path}?{query} {options}"
            );
            assert!(contents(&server).await == before, "{path}?{query} {options} changed something");
        }
        for (query, options) in
            [("dryRun=Some", json!({"dryRun": ["All"]})), ("dryRun", json!({"dryRun": ["Some"]}))]
        {
            assert_eq!(
                send(format!("{path}?{query}"), options.clone()).await.code,
                422,
                "{path}?{query} {options}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_answered_like_the_real_thing() {
    let server = filled().await;
    let dry = Body::from(json!({"metadata": {"generateName": "g-"}, "data": {"k": "v"}}).to_string());
    let object = server.send(Method::POST, &format!("{MAPS}?dryRun=All"), &[], dry).await.json();
    assert!(object["metadata"]["name"].as_str().unwrap().starts_with("g-"), "{object}");
    for field in ["uid", "creationTimestamp", "namespace"] {
        assert!(object["metadata"][field].is_string(), "{field}: {object}");
    }
    let path = format!("{MAPS}/a?dryRun=All");
    let merged = server.merge(&path, json!({"data": {"k": "2"}})).await.json();
    assert_eq!((&merged["data"]["k"], &merged["metadata"]["name"]), (&json!("2"), &json!("a")));
    let gone = server.delete(&path).await.json();
    assert_eq!((&gone["status"], &gone["details"]["name"]), (&json!("Success"), &json!("a")));
    let unknown = Body::from(json!({"metadata": {"name": "n"}, "nope": 1}).to_string());
    let strict = format!("{MAPS}?dryRun=All&fieldValidation=Strict");
    assert_eq!(server.send(Method::POST, &strict, &[], unknown).await.code, 400);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {}});
    assert_eq!(server.merge(&path, stale).await.code, 409);
    let marked = server.delete(&format!("{MAPS}/held?dryRun=All")).await.json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
}
