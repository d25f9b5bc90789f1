//! Requests refused before the pipeline, and the headers of responses.

use axum::body::Body;
use http::Method;

use super::{MAPS, Server, json, map};
use crate::controllers::testing::bootstrap;

/// A server of a cluster that has its first objects: without them no node is ready.
async fn with_first_objects() -> Server {
    let server = Server::new().await;
    assert_eq!(server.get("/readyz/poststarthook/rbac/bootstrap-roles").await.code, 500);
    bootstrap(server.store.clone()).await;
    server
}

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
        (Method::GET, "/api/v1/namespaces/ns/configmaps/", 200),
        (Method::GET, "/api/v1/namespaces/ns//configmaps", 404),
        (Method::GET, "/api/v1/namespaces//configmaps", 404),
        (Method::DELETE, "/api/v1/namespaces/ns/configmaps//", 404),
        (Method::GET, "//api/v1/namespaces", 404),
        (Method::GET, "/api/v1//", 404),
        (Method::GET, "/apis//", 404),
        (Method::PUT, "/api/v1/namespaces", 405),
        (Method::DELETE, "/api/v1/namespaces", 405),
        (Method::POST, "/api/v1/namespaces/ns/configmaps/a", 405),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/%25", 400),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/..", 400),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/%2e%2E", 400),
        (Method::GET, "/api/v1/namespaces/ns%2fx/configmaps", 404),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/a%2Fb", 404),
        (Method::GET, "/api/v1/namespaces/ns/configmaps/%00", 404),
        (Method::POST, "/api/v1/watch/namespaces", 405),
        (Method::POST, "/version", 405),
        (Method::HEAD, MAPS, 405),
        (Method::OPTIONS, MAPS, 405),
        (Method::POST, "/apis", 405),
        (Method::GET, "/apis/authorization.orch.io/v1/subjectaccessreviews", 405),
        (Method::GET, "/apis/authorization.orch.io/v1/subjectaccessreviews/x", 404),
        (Method::POST, "/apis/authorization.orch.io/v1/subjectaccessreviews/x", 404),
        (Method::POST, "/apis/authorization.orch.io/v1/localsubjectaccessreviews", 404),
        (Method::GET, "/readyz/nope", 404),
    ];
    for (method, path, code) in cases {
        let answered = server.send(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(answered.code, code, "{method} {path}: {}", answered.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_none_is_refused_on_every_path() {
    let server = with_first_objects().await;
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps/v1",
        "/version",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/nope",
        "/api/v1/nopes",
        "/api/v1/namespaces/ns/configmaps/nope",
    ] {
        let refused = server.get(&format!("{path}?timeout=invalid")).await;
        let told = json!("invalid timeout specified in the request URL - time: invalid duration \"invalid\"");
        assert_eq!(
            (refused.code.as_u16(), &refused.json()["message"]),
            (400, &told),
            "{path}: {}",
            refused.text
        );
        for good in ["timeout=5s", "timeout=", "timeout=0"] {
            assert_ne!(server.get(&format!("{path}?{good}")).await.code, 400, "{path}?{good}");
        }
    }
    let watch = server.get(&format!("{MAPS}?watch=1&timeoutSeconds=1&timeout=invalid")).await;
    assert_eq!(watch.code, 200, "a watch has no deadline");
    let proxied = server.get("/api/v1/nodes/n/proxy/x?timeout=invalid").await;
    assert_ne!(proxied.code, 400, "the query of a proxied request is the other server's: {}", proxied.text);
}

/// Open paths are no exception: without credentials such a path gets no 404.
#[tokio::test(start_paused = true)]
async fn no_path_is_served_under_another_spelling_with_empty_segments() {
    let mut server = with_first_objects().await;
    let paths = [
        "//",
        "//readyz",
        "/readyz//",
        "/readyz//store",
        "//livez",
        "/livez//ping",
        "//healthz",
        "/healthz//",
        "//version",
        "/version//",
        "//apis",
        "/apis//",
        "/apis//apps",
        "/apis/apps//",
        "/apis/apps//v1",
        "/api//v1",
        "//api/v1",
        "//openapi/v2",
        "/openapi//v2",
        "/openapi/v2//",
        "/openapi/v3//",
        "/openapi/v3//apis/apps/v1",
        "/openapi/v3/apis/apps/v1//",
    ];
    for path in paths {
        for method in [Method::GET, Method::POST] {
            let answered = server.send(method.clone(), path, &[], Body::empty()).await;
            assert_eq!(answered.code, 404, "{method} {path}: {}", answered.text);
        }
    }
    for path in [
        "/readyz/",
        "/readyz/store/",
        "/version/",
        "/apis/apps/",
        "/openapi/v3/",
        "/openapi/v3/apis/apps/v1/",
    ] {
        assert_eq!(server.get(path).await.code, 200, "{path}");
    }
    assert_eq!(server.get("/readyz/store/x").await.code, 404);
    let address = "127.0.0.1:1".parse().unwrap();
    server.peer = std::sync::Arc::new(crate::authn::Peer {
        address,
        certificate: None,
        local_admin: false,
        is_front_proxy: false,
    });
    for path in paths {
        assert_eq!(server.get(path).await.code, 401, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn paths_below_no_api_are_no_pages_and_others_no_resources() {
    let server = Server::new().await;
    for path in ["/nope", "/nope/", "/apis/nope.example.com", "/apis/nope.example.com/v1/things", "/apisx"] {
        let answered = server.get(path).await;
        assert_eq!((answered.code.as_u16(), answered.text.as_str()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answered.headers["content-type"], "text/plain; charset=utf-8");
        let body = Body::from("{}");
        assert_eq!(server.send(Method::POST, path, &[], body).await.text, answered.text, "{path}");
    }
    for path in ["/api/v9", "/api/v1/nopes", "/apis/apps/v9", "/apis/apps/v9/things", "/apis/apps/v1/nopes/a"]
    {
        let answered = server.get(path).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["reason"]), (404, &json!("NotFound")), "{path}");
    }
    let root = server.get("/").await;
    assert_eq!((root.code.as_u16(), &root.json()["paths"][0]), (200, &json!("/api")));
}

#[tokio::test(start_paused = true)]
async fn a_refused_value_is_not_repeated_at_any_length() {
    let server = Server::new().await;
    let long = "9".repeat(5000);
    for query in ["limit", "resourceVersion", "timeoutSeconds", "timeout"] {
        let answered = server.get(&format!("{MAPS}?{query}={long}")).await;
        assert_eq!(answered.code, 400, "{query}");
        assert!(answered.text.contains("99999") && answered.text.len() < 500, "{query}: {}", answered.text);
    }
}

/// A hundred errors repeat the name, each of whose bytes is escaped twice.
#[tokio::test(start_paused = true)]
async fn a_manager_of_control_characters_is_answered_in_little() {
    let server = Server::new().await;
    let query = format!("?fieldManager={}", "%01".repeat(20_000));
    for accept in ["application/json", "application/json;pretty=1", "application/yaml"] {
        let headers = [("accept", accept)];
        let answered = server.send(Method::POST, &format!("{MAPS}{query}"), &headers, Body::from("{}")).await;
        assert_eq!(answered.code, 422, "{}", answered.text);
        // YAML breaks lines at any space.
        let text = answered.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("and more: 100 errors are shown"), "{text}");
        assert!(answered.text.len() < 160_000, "{accept}: {}", answered.text.len());
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_in_queries_are_told_as_the_reference_tells_them() {
    let server = Server::new().await;
    let syntax = |text: &str| format!("strconv.ParseInt: parsing {text}: invalid syntax");
    let range = "strconv.ParseInt: parsing \"99999999999999999999\": value out of range";
    for (query, message) in [
        ("limit=abc", syntax("\"abc\"")),
        ("limit=", syntax("\"\"")),
        ("limit=1.5", syntax("\"1.5\"")),
        ("limit=99999999999999999999", range.to_owned()),
        ("timeoutSeconds=x", syntax("\"x\"")),
        ("watch=1&timeoutSeconds=%00", syntax("\"\\x00\"")),
        ("limit=x&limit=1", syntax("\"x\"")),
        ("watch=1&limit=abc", syntax("\"abc\"")),
        ("watch=1&resourceVersionMatch=Nope&timeoutSeconds=y", syntax("\"y\"")),
    ] {
        let answered = server.get(&format!("{MAPS}?{query}")).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["message"]), (400, &json!(message)), "{query}");
    }
    assert_eq!(server.get(&format!("{MAPS}?limit=1&limit=x&nothing=1&a;b&=&&%zz=%ff")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn media_types_of_bodies_know_no_case() {
    let server = Server::new().await;
    for (content_type, code) in [
        ("application/json", 201),
        ("Application/JSON; charset=UTF-8", 201),
        ("", 201),
        ("application/json;", 201),
        ("application/json; charset", 415),
        ("application/jsonx", 415),
        ("application/x-www-form-urlencoded", 415),
    ] {
        let body = Body::from(map("a", "1").to_string());
        let headers = [("content-type", content_type)];
        let answered = server.send(Method::POST, &format!("{MAPS}?dryRun=All"), &headers, body).await;
        assert_eq!(answered.code, code, "{content_type}: {}", answered.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_is_told_what_to_send_instead() {
    let server = Server::new().await;
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("user-agent", "curl/8.5.0")];
    let made = server.send(Method::POST, MAPS, &headers, Body::from(map("a", "1").to_string())).await;
    let patched = server.send(Method::PATCH, &format!("{MAPS}/a"), &headers, Body::from("{}")).await;
    for (answered, wanted) in [(made, "application/json"), (patched, "application/merge-patch+json")] {
        let status = answered.json();
        let message = status["message"].as_str().unwrap();
        assert_eq!((answered.code.as_u16(), &status["reason"]), (415, &json!("UnsupportedMediaType")));
        assert!(message.contains("it was sent as application/x-www-form-urlencoded"), "{message}");
        assert!(message.contains(&format!("-H 'Content-Type: {wanted}'")), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_on_what_is_created_is_refused_unless_it_is_none() {
    let server = Server::new().await;
    for (version, code) in [("7", 400), ("0", 201), ("00", 201), ("x", 201), ("", 201)] {
        let object = json!({"metadata": {"name": format!("v{version}"), "resourceVersion": version}});
        let answered = server.send(Method::POST, MAPS, &[], Body::from(object.to_string())).await;
        assert_eq!(answered.code, code, "{version:?}: {}", answered.text);
        if code == 201 {
            assert_ne!(answered.json()["metadata"]["resourceVersion"], version, "it has its own");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_reference_does_not_select_by_are_refused() {
    let server = Server::new().await;
    let known = "is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    let events = "/apis/events.orch.io/v1/events";
    for (path, selector, message) in [
        ("/api/v1/namespaces", "name", "field label not supported: name".to_owned()),
        (
            "/api/v1/namespaces",
            "metadata.namespace",
            "field label not supported: metadata.namespace".to_owned(),
        ),
        ("/apis/apps/v1/replicasets", "status.replicas", format!("\"status.replicas\" {known}")),
        ("/api/v1/persistentvolumeclaims", "name", format!("\"name\" {known}")),
        (events, "involvedObject.kind", "field label not supported: involvedObject.kind".to_owned()),
        (events, "source", "field label not supported: source".to_owned()),
    ] {
        let answered = server.get(&format!("{path}?fieldSelector={selector}%3Dx")).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["message"]), (400, &json!(message)), "{path}");
    }
    for (path, selector) in [
        ("/api/v1/namespaces", "status.phase"),
        ("/apis/apps/v1/replicasets", "metadata.namespace"),
        (events, "regarding.kind"),
        (events, "metadata.namespace"),
        ("/api/v1/events", "involvedObject.kind"),
        ("/api/v1/pods", "spec.host"),
        ("/api/v1/namespaces", "metadata.name"),
        ("/api/v1/persistentvolumeclaims", "metadata.name"),
    ] {
        assert_eq!(server.get(&format!("{path}?fieldSelector={selector}%3Dx")).await.code, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_are_path_segments_have_bounds() {
    let server = Server::new().await;
    let roles = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles";
    for (name, code) in [("r".repeat(253), 201), ("r".repeat(254), 422), ("a\nb".to_owned(), 422)] {
        let role = json!({"metadata": {"name": name}}).to_string();
        let answered = server.send(Method::POST, roles, &[], Body::from(role)).await;
        assert_eq!(answered.code, code, "{name:?}: {}", answered.text);
    }
    let answered = server.get(&format!("{roles}/{}", "r".repeat(254))).await;
    assert_eq!(answered.code, 404, "{}", answered.text);
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
    assert_eq!(answered.code, 500, "no object is that large: {}", answered.text);
    let status = answered.json();
    assert_eq!(status["message"], "etcdserver: request is too large", "as the reference's store says");
    assert!(status.get("reason").is_none());
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
    let mut server = with_first_objects().await;
    let address = "127.0.0.1:1".parse().unwrap();
    server.peer = std::sync::Arc::new(crate::authn::Peer {
        address,
        certificate: None,
        local_admin: false,
        is_front_proxy: false,
    });
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

#[tokio::test(start_paused = true)]
async fn the_listener_learns_of_the_user_and_of_watches() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use crate::authn::{Peer, USER_ADMIN, User, UserReporter};
    use crate::http::WatchResponse;

    let server = Server::new().await;
    for (local_admin, path, users, lasts) in [
        (true, format!("{MAPS}?watch=1&timeoutSeconds=1"), 1, true),
        (true, MAPS.to_owned(), 1, false),
        // The object is absent, but the user is authenticated.
        (true, format!("{MAPS}/absent"), 1, false),
        (false, MAPS.to_owned(), 0, false),
        (true, "/livez".to_owned(), 1, false),
        (false, "/livez".to_owned(), 0, false),
    ] {
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = accepted.clone();
        let admission = UserReporter::new(move |user: &User| {
            assert_eq!(user.name, USER_ADMIN);
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let address = "127.0.0.1:1".parse().unwrap();
        let peer = Arc::new(Peer { address, certificate: None, local_admin, is_front_proxy: false });
        let request = http::Request::builder().uri(&path).extension(peer).extension(admission);
        let response = server.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(accepted.load(Ordering::Relaxed), users, "{path}");
        let lasting = response.extensions().get::<WatchResponse>().cloned();
        assert_eq!(lasting.is_some(), lasts, "{path}");
        if let Some(WatchResponse { initial_events }) = lasting {
            assert!(initial_events.are_due(), "{path}: nothing was sent yet");
            let frames = response.into_body().collect().await.unwrap().to_bytes();
            assert!(frames.is_empty() && !initial_events.are_due(), "{path}: there are none");
        }
    }
}

/// Texts that the reference's own tests of its command line look for.
#[tokio::test(start_paused = true)]
async fn bodies_that_cannot_be_read_are_refused_in_the_reference_words() {
    let server = Server::new().await;
    let post = async |path: &str, content_type: &str, body: &'static str| {
        let headers = [("content-type", content_type)];
        let answered = server.send(Method::POST, path, &headers, Body::from(body)).await;
        (answered.code.as_u16(), answered.json()["message"].as_str().unwrap().to_owned())
    };
    let unknown = |kind: &str| format!("the object provided is unrecognized (must be of type {kind}): ");
    let pod_as_json = post("/api/v1/namespaces", "application/json", "apiVersion: v1\nkind: Pod\n").await;
    assert!(pod_as_json.0 == 400 && pod_as_json.1.starts_with(&unknown("Namespace")), "{pod_as_json:?}");
    assert!(
        pod_as_json.1.ends_with(" (61706956657273696f6e3a2076310a6b696e643a20506f640a)"),
        "{pod_as_json:?}"
    );
    let empty = post(MAPS, "application/json", "").await;
    assert!(empty.0 == 400 && empty.1.starts_with(&unknown("ConfigMap")), "{empty:?}");
    assert!(empty.1.ends_with(" (<empty>)"), "{empty:?}");
    let yaml = post(MAPS, "application/yaml", "a: [").await;
    assert!(yaml.0 == 400 && yaml.1.starts_with(&unknown("ConfigMap")), "{yaml:?}");
    let secrets = "/api/v1/namespaces/ns/secrets";
    let secret = post(secrets, "application/json", r#"{"data":{"p":"c2VjcmV0"}"#).await;
    assert!(secret.1.starts_with(&unknown("Secret")) && !secret.1.contains("c2Vj"), "{secret:?}");
    let typed = post(MAPS, "application/json", r#"{"data":{"a":1}}"#).await;
    assert!(
        typed.1.starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
        "{typed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_patch_of_another_shape_is_refused_in_the_reference_words() {
    let server = Server::new().await;
    let pods = "/api/v1/namespaces/ns/pods";
    let container = json!({"name": "c", "image": "i"});
    server.create(pods, json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})).await;
    for (patch, told) in [
        (json!({"metadata": {"labels": "invalid"}}), "metadata.labels: cannot restore map from string"),
        (
            json!({"metadata": {"finalizers": "invalid"}}),
            "metadata.finalizers: cannot restore slice from string",
        ),
        (
            json!({"spec": {"securityContext": "x"}}),
            "spec.securityContext: cannot restore struct from: string",
        ),
    ] {
        let headers = [("content-type", "application/strategic-merge-patch+json")];
        let path = format!("{pods}/p");
        let answered = server.send(Method::PATCH, &path, &headers, Body::from(patch.to_string())).await;
        let message = answered.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(answered.code, 422, "{message}");
        assert!(message.ends_with(told), "{message}");
    }
}
