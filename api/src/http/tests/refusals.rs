//! What is refused before the pipeline sees it, and that answers carry what HTTP asks for.

use axum::body::Body;
use http::Method;

use super::{MAPS, Server, json, map};

#[tokio::test(start_paused = true)]
async fn paths_and_methods_that_are_not_served() {
    let server = Server::new().await;
    let cases = [
        (Method::GET, "/nope", 404),
        (Method::GET, "/api/v1/nopes", 404),
        (Method::GET, "/api/v1/configmaps/a", 404),
        (Method::GET, "/api/v1/namespaces/ns/nodes", 404),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/a/nope", 404),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/%ff", 400),
        (Method::PUT, "/api/v1/namespaces", 405),
        (Method::DELETE, "/api/v1/namespaces", 405),
        (Method::POST, "/api/v1/namespaces/ns/configmaps/a", 405),
        (Method::OPTIONS, MAPS, 405),
        (Method::POST, "/apis", 405),
        (Method::GET, "/readyz/nope", 404),
    ];
    for (method, path, code) in cases {
        let answered = server.send(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(answered.code, code, "{method} {path}: {}", answered.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_refused_whether_or_not_it_says_so() {
    let server = Server::new().await;
    let huge = map("a", &"x".repeat(3 << 20)).to_string();
    let answered = server.send(Method::POST, MAPS, &[], Body::from(huge.clone())).await;
    assert_eq!((answered.code.as_u16(), &answered.json()["reason"]), (413, &json!("RequestEntityTooLarge")));
    let pieces = futures::stream::iter(
        huge.into_bytes()
            .chunks(1 << 16)
            .map(|piece| Ok::<_, std::convert::Infallible>(bytes::Bytes::copy_from_slice(piece)))
            .collect::<Vec<_>>(),
    );
    let answered = server.send(Method::POST, MAPS, &[], Body::from_stream(pieces)).await;
    assert_eq!(answered.code, 413);
    let rules = json!([{"apiGroups": [""], "verbs": ["get"], "resources": ["x".repeat(2 << 20)]}]);
    let large = json!({"metadata": {"name": "large"}, "rules": rules}).to_string();
    let roles = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles";
    let answered = server.send(Method::POST, roles, &[], Body::from(large)).await;
    assert_eq!(answered.code, 413, "no object is that large: {}", answered.text);
}

#[tokio::test(start_paused = true)]
async fn large_answers_are_compressed_for_those_who_take_it() {
    let server = Server::new().await;
    server.create(MAPS, map("a", &"x".repeat(300_000))).await;
    let path = format!("{MAPS}/a");
    let takes = [("accept-encoding", "gzip")];
    let response = server.open(Method::GET, &path, &takes, Body::empty()).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let plain = server.get(&path).await;
    assert!(plain.headers.get("content-encoding").is_none());
    assert_eq!(plain.headers["content-length"], plain.text.len().to_string().as_str());
    server.create(MAPS, map("small", "x")).await;
    let response = server.open(Method::GET, &format!("{MAPS}/small"), &takes, Body::empty()).await;
    assert!(response.headers().get("content-encoding").is_none());
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_warned_of_in_headers() {
    let server = Server::new().await;
    let body = json!({"metadata": {"name": "a"}, "nope": 1, "data": {}}).to_string();
    let answered = server.send(Method::POST, MAPS, &[], Body::from(body)).await;
    assert_eq!(answered.code, 201);
    assert_eq!(answered.headers["warning"], r#"299 - "unknown field \"nope\"""#);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_in_without_credentials() {
    let mut server = Server::new().await;
    let address = "127.0.0.1:1".parse().unwrap();
    server.peer = std::sync::Arc::new(crate::authn::Peer { address, certificate: None, local_admin: false });
    for path in ["/api/v1/nodes", "/apis", "/nope"] {
        let answered = server.get(path).await;
        assert_eq!(
            (answered.code.as_u16(), &answered.json()["reason"]),
            (401, &json!("Unauthorized")),
            "{path}"
        );
    }
    for path in ["/livez", "/readyz", "/healthz", "/version"] {
        assert_eq!(server.get(path).await.code, 200, "{path}");
    }
}
