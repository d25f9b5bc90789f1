//! Representations, and the refusals with 406.

use axum::body::Body;
use http::Method;
use orch_schema::value::Value;

use super::{Answered, MAPS, Server, json, map};

#[tokio::test(start_paused = true)]
async fn representations_that_do_not_fit_the_answer_are_not_acceptable() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.orch.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.orch.io;v=v1";
    let object = format!("{MAPS}/a");
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let plural =
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    let single =
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
    // The refusal itself is in YAML.
    let stream = "reason: NotAcceptable";
    let cases = [
        (MAPS, one, 406, plural),
        (object.as_str(), list, 406, single),
        (watch.as_str(), "application/yaml", 406, stream),
        (MAPS, list, 200, "PartialObjectMetadataList"),
        (object.as_str(), one, 200, "PartialObjectMetadata"),
        (watch.as_str(), one, 200, "PartialObjectMetadata"),
        (watch.as_str(), list, 200, "\"code\":406"),
    ];
    for (path, accept, code, part) in cases {
        let answered = server.send(Method::GET, path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(answered.code, code, "{path} {accept}: {}", answered.text);
        assert!(answered.text.contains(part), "{path} {accept}: {}", answered.text);
    }
}

#[tokio::test(start_paused = true)]
async fn documents_that_are_kept_nowhere_have_no_table() {
    let server = Server::new().await;
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.create(pods, pod).await;
    let table = "application/json;as=Table;g=meta.orch.io;v=v1";
    let review = json!({"spec": {"user": "ann", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let eviction = json!({"metadata": {"name": "p"}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    for (path, document, kind) in [
        ("/apis/authorization.orch.io/v1/subjectaccessreviews".to_owned(), &review, "SubjectAccessReview"),
        (
            "/apis/authentication.orch.io/v1/tokenreviews".to_owned(),
            &json!({"spec": {"token": "t"}}),
            "TokenReview",
        ),
        ("/apis/authentication.orch.io/v1/selfsubjectreviews".to_owned(), &json!({}), "SelfSubjectReview"),
        (format!("{pods}/p/eviction?dryRun=All"), &eviction, "Status"),
        (format!("{pods}/p/binding?dryRun=All"), &binding, "Status"),
        ("/api/v1/namespaces/ns/bindings?dryRun=All".to_owned(), &binding, "Status"),
    ] {
        let send = |accept: String| {
            let (server, path) = (&server, path.clone());
            let body = Body::from(document.to_string());
            async move { server.send(Method::POST, &path, &[("accept", &accept)], body).await }
        };
        let refused = send(table.to_owned()).await;
        assert_eq!(
            (refused.code.as_u16(), &refused.json()["reason"]),
            (406, &json!("NotAcceptable")),
            "{path}"
        );
        let answered = send(format!("{table}, application/json")).await;
        assert_eq!(
            (answered.code.as_u16(), &answered.json()["kind"]),
            (201, &json!(kind)),
            "{path}: {}",
            answered.text
        );
    }
    let scale = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    server.create("/apis/apps/v1/namespaces/ns/deployments", scale).await;
    let path = "/apis/apps/v1/namespaces/ns/deployments/d/scale";
    let shown = server.send(Method::GET, path, &[("accept", table)], Body::empty()).await;
    assert_eq!(shown.json()["kind"], "Table", "a scale can be read");
}

#[tokio::test(start_paused = true)]
async fn only_tables_look_at_what_to_include() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let path = format!("{MAPS}/a?includeObject=Nonsense");
    assert_eq!(server.get(&path).await.code, 200);
    let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    let refused = server.send(Method::GET, &path, &table, Body::empty()).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn the_best_of_several_media_types_is_answered_with_its_name() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let table = "application/json;as=Table;g=meta.orch.io;v=v1";
    let (json, yaml, protobuf) = ("application/json", "application/yaml", "application/vnd.orch.protobuf");
    for (accept, content_type, part) in [
        ("text/html, application/json;q=0.2, application/yaml;q=0.9", yaml, "kind: ConfigMap"),
        ("application/json;as=Nope;g=meta.orch.io;v=v1, application/json", json, "\"kind\":\"ConfigMap"),
        (&format!("{table}, application/json"), json, "\"kind\":\"Table\""),
        (&format!("{protobuf};as=Table;g=meta.orch.io;v=v1, {table};q=0.1"), json, "\"kind\":\"Table\""),
        (&format!("{protobuf}, application/json"), protobuf, "k8s\0"),
        ("*/*;q=0.1, application/yaml;q=0.2", yaml, "kind: ConfigMap"),
    ] {
        for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
            let response = server.open(Method::GET, &path, &[("accept", accept)], Body::empty()).await;
            assert_eq!(response.headers()["content-type"], content_type, "{path} {accept}");
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains(part), "{path} {accept}: {body:?}");
        }
    }
    for accept in ["text/html", "application/*", "application/xml;q=0.9, text/*"] {
        for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
            let refused = server.send(Method::GET, &path, &[("accept", accept)], Body::empty()).await;
            assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (406, &json!("NotAcceptable")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_metadata_and_tables_have_pages_too() {
    let server = Server::new().await;
    for name in ["a", "b", "c"] {
        server.create(MAPS, map(name, "1")).await;
    }
    let get = |path: String, accept: String| {
        let server = &server;
        async move { server.send(Method::GET, &path, &[("accept", &accept)], Body::empty()).await.json() }
    };
    for version in ["v1", "v1beta1"] {
        let accept = |kind: &str| format!("application/json;as={kind};g=meta.orch.io;v={version}");
        for (kind, items) in [("PartialObjectMetadataList", "items"), ("Table", "rows")] {
            let first = get(format!("{MAPS}?limit=1"), accept(kind)).await;
            let head = (first["kind"].as_str().unwrap(), first["apiVersion"].as_str().unwrap());
            assert_eq!(head, (kind, format!("meta.orch.io/{version}").as_str()));
            assert_eq!(first["metadata"]["remainingItemCount"], 2, "{kind}");
            let token = first["metadata"]["continue"].as_str().unwrap();
            let rest = get(format!("{MAPS}?continue={token}"), accept(kind)).await;
            let of_item = |item: &Value| {
                let object = if kind == "Table" { &item["object"] } else { item };
                assert_eq!(object["apiVersion"], format!("meta.orch.io/{version}"));
                assert_eq!(
                    (&object["kind"], &object["data"]),
                    (&json!("PartialObjectMetadata"), &json!(null))
                );
                object["metadata"]["name"].as_str().unwrap().to_owned()
            };
            let names: Vec<String> = rest[items].as_array().unwrap().iter().map(of_item).collect();
            assert_eq!(names, ["b", "c"], "{kind}");
            assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_hold_what_the_client_asks_for() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    for (query, kind) in [
        ("", json!("PartialObjectMetadata")),
        ("?includeObject=Metadata", json!("PartialObjectMetadata")),
        ("?includeObject=Object", json!("ConfigMap")),
        ("?includeObject=None", json!(null)),
    ] {
        for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
            let answered = server.send(Method::GET, &format!("{path}{query}"), &table, Body::empty()).await;
            let document = answered.json();
            assert_eq!(document["rows"][0]["cells"][0], "a", "{path}{query}");
            assert_eq!(document["rows"][0]["object"]["kind"], kind, "{path}{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_lines_are_for_those_who_ask_and_for_people() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    for (query, agent, accept, is_pretty) in [
        ("", "client", "application/json", false),
        ("?pretty=true", "client", "application/json", true),
        ("?pretty=1", "client", "application/json", true),
        ("?pretty=false", "curl/8.0", "application/json", false),
        ("", "curl/8.0", "*/*", true),
        ("", "Mozilla/5.0 (X11)", "text/html, */*;q=0.8", true),
        ("", "client", "application/json;pretty=1", true),
        ("?pretty=true", "client", "application/json;as=Table;g=meta.orch.io;v=v1", true),
    ] {
        for path in [MAPS.to_owned(), format!("{MAPS}/a"), format!("{MAPS}/nope")] {
            let headers = [("user-agent", agent), ("accept", accept)];
            let answered = server.send(Method::GET, &format!("{path}{query}"), &headers, Body::empty()).await;
            assert_eq!(
                answered.text.starts_with("{\n  \"kind\""),
                is_pretty,
                "{path}{query}: {}",
                answered.text
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn flow_schemas_stand_in_a_table_in_the_order_in_which_they_are_tried() {
    let server = Server::new().await;
    let schemas = "/apis/flowcontrol.apiserver.orch.io/v1/flowschemas";
    for (name, precedence) in [("a", 9000), ("b", 500), ("c", 500), ("d", 20)] {
        let spec = json!({"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": precedence});
        server.create(schemas, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    let names = |answered: &Answered| -> Vec<String> {
        let rows = answered.json()["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["cells"][0].as_str().unwrap().to_owned()).collect()
    };
    let answered = server.send(Method::GET, schemas, &table, Body::empty()).await;
    assert_eq!(names(&answered), ["d", "b", "c", "a"]);
    let objects: Vec<_> = answered.json()["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["object"]["metadata"]["name"].clone())
        .collect();
    assert_eq!(objects, ["d", "b", "c", "a"], "each row with its object");
    let page = server.send(Method::GET, &format!("{schemas}?limit=2"), &table, Body::empty()).await;
    assert_eq!(names(&page), ["b", "a"], "within a page, which is of names");
    let list = server.get(schemas).await.json();
    let items: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
    assert_eq!(items, ["a", "b", "c", "d"], "a list stays by name");
}

#[tokio::test(start_paused = true)]
async fn options_of_a_delete_may_be_protobuf_whatever_is_deleted() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";
    let server = Server::new().await;
    super::undeclared::define(&server).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    server.create(WIDGETS, widget).await;
    // The envelope: version and kind in field 1, and in field 2 the options, of which field 5 is the dry run.
    let options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x05\x2a\x03All";
    let headers = [("content-type", "application/vnd.orch.protobuf")];
    let path = format!("{WIDGETS}/w");
    let deleted = server.send(Method::DELETE, &path, &headers, Body::from(&options[..])).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    assert_eq!(server.get(&path).await.code, 200, "it was a dry run");
    let refused = server.send(Method::POST, WIDGETS, &headers, Body::from(&options[..])).await;
    assert_eq!(refused.code, 415, "{}", refused.text);
}
