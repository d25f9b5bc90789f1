//! Requests for declared kinds that are answered before the pipeline: paths, methods, media types, and warnings of old versions. Also
//! how the scale of such a kind is shown, and the events of a definition that ends.

use orch_schema::write_envelope;

use super::run_time_kinds::{CRDS, Platform, definition};
use super::*;

const EVERYWHERE: &str = "/apis/example.com/v1/widgets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";
const PROTOBUF: &str = "application/vnd.orch.protobuf";
const ALL_TYPES: &str = "application/json, application/yaml, application/vnd.orch.protobuf";

/// A platform with widgets that have a scale, in the versions `v1` and `v1beta1`, which is deprecated.
async fn platform() -> Platform {
    let platform = Platform::new(|_| {}).await;
    let version = |name: &str, is_stored: bool, replicas: &str| {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "amount": {"type": "integer"}}});
        let status = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": is_stored, "deprecated": !is_stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": replicas, "statusReplicasPath": ".status.size"}}})
    };
    let mut widgets = definition();
    widgets["spec"]["versions"] =
        json!([version("v1", true, ".spec.size"), version("v1beta1", false, ".spec.size")]);
    platform.server.create(CRDS, widgets).await;
    platform.until(EVERYWHERE, |answered| answered.code == StatusCode::OK).await;
    platform
}

fn widget(name: &str, size: i64) -> Value {
    json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": name}, "spec": {"size": size}})
}

#[tokio::test]
async fn only_lists_and_watches_are_of_all_namespaces() {
    let platform = platform().await;
    let server = &platform.server;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let answered = server.send(method.clone(), EVERYWHERE, &[], Body::from("{}")).await;
        assert_eq!((answered.code.as_u16(), &*answered.text), (404, "404 page not found\n"), "{method}");
    }
    assert_eq!(server.get(EVERYWHERE).await.code, 200);
    assert_eq!(server.get(&format!("{EVERYWHERE}?watch=1&timeoutSeconds=1")).await.code, 200);
    for method in [Method::PUT, Method::PATCH] {
        let headers = [("content-type", "application/merge-patch+json")];
        let answered = server.send(method.clone(), WIDGETS, &headers, Body::from("{}")).await;
        assert_eq!(
            (answered.code.as_u16(), &answered.json()["message"]),
            (400, &json!("name must be provided"))
        );
    }
    assert_eq!(server.send(Method::POST, &format!("{WIDGETS}/a"), &[], Body::from("{}")).await.code, 405);
    server.stopping.cancel();
}

#[tokio::test]
async fn every_request_to_a_deprecated_version_is_warned() {
    let platform = platform().await;
    let server = &platform.server;
    server.create(WIDGETS, widget("a", 1)).await;
    let warning = "299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\"";
    for (method, part, code) in [
        (Method::GET, "", 200),
        (Method::GET, "/status", 200),
        (Method::GET, "/scale", 200),
        (Method::DELETE, "/scale", 405),
        (Method::POST, "/status", 405),
        (Method::GET, "/nope", 404),
    ] {
        for (version, wanted) in [("v1", None), ("v1beta1", Some(warning))] {
            let path = format!("/apis/example.com/{version}/namespaces/ns/widgets/a{part}");
            let answered = server.send(method.clone(), &path, &[], Body::empty()).await;
            let told = answered.headers.get("warning").map(|warning| warning.to_str().unwrap());
            assert_eq!((answered.code.as_u16(), told), (code, wanted), "{method} {path}");
            assert_eq!(answered.headers.get_all("warning").iter().count(), usize::from(wanted.is_some()));
        }
    }
    let everywhere = EVERYWHERE.replace("v1", "v1beta1");
    let nowhere = server.send(Method::POST, &everywhere, &[], Body::from("{}")).await;
    assert_eq!(
        (nowhere.code.as_u16(), nowhere.headers.get("warning")),
        (404, None),
        "it is no path of the kind"
    );
    server.stopping.cancel();
}

#[tokio::test]
async fn methods_that_a_sub_resource_lacks_are_told_of_the_kind() {
    let platform = platform().await;
    for part in ["status", "scale"] {
        for (method, verb) in [(Method::POST, "create"), (Method::DELETE, "delete")] {
            let path = format!("{WIDGETS}/a/{part}");
            let refused = platform.server.send(method, &path, &[], Body::empty()).await;
            let told = format!("{verb} is not supported on resources of kind \"widgets.example.com\"");
            let details = json!({"group": "example.com", "kind": "widgets"});
            assert_eq!(refused.code, 405);
            assert_eq!((&refused.json()["message"], &refused.json()["details"]), (&json!(told), &details));
        }
    }
    platform.server.stopping.cancel();
}

#[tokio::test]
async fn media_types_that_a_declared_kind_lacks() {
    let platform = platform().await;
    let server = &platform.server;
    server.create(WIDGETS, widget("a", 1)).await;
    let object = format!("{WIDGETS}/a");
    let told = format!("only the following media types are accepted: {ALL_TYPES}");
    for (path, accept) in [
        (&object, "text/html"),
        (&object, "application/json;as=Nope;g=meta.orch.io;v=v1"),
        (&format!("{object}/scale"), "text/html"),
    ] {
        let refused = server.send(Method::GET, path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(
            (refused.code.as_u16(), &refused.json()["message"]),
            (406, &json!(told)),
            "{path} {accept}"
        );
    }
    for path in [object.clone(), format!("{object}/scale")] {
        let response = server.open(Method::GET, &path, &[("accept", PROTOBUF)], Body::empty()).await;
        assert_eq!(response.status(), 406, "{path}");
    }
    let told = |types: &str| {
        json!(format!(
            "the body of the request was in an unknown format - accepted media types include: {types}"
        ))
    };
    let texts = "application/json, application/yaml";
    for (content_type, types) in [("text/plain", ALL_TYPES), (PROTOBUF, texts)] {
        let headers = [("content-type", content_type)];
        let refused = server.send(Method::POST, WIDGETS, &headers, Body::from("x")).await;
        assert_eq!(
            (refused.code.as_u16(), &refused.json()["message"]),
            (415, &told(types)),
            "{content_type}"
        );
    }
    // Options of a deletion are of a built-in type. Field 5 is `dryRun`.
    let options = |message: &[u8]| {
        let mut body = Vec::new();
        write_envelope("meta.orch.io/v1", "DeleteOptions", message, &mut body);
        Body::from(body)
    };
    let headers = [("content-type", PROTOBUF)];
    let tried = server.send(Method::DELETE, &object, &headers, options(b"\x2a\x03All")).await;
    assert_eq!((tried.code.as_u16(), server.get(&object).await.code.as_u16()), (200, 200), "{}", tried.text);
    assert_eq!(server.send(Method::DELETE, WIDGETS, &headers, options(b"")).await.code, 200);
    assert_eq!(server.get(&object).await.code, 404);
    server.stopping.cancel();
}

#[tokio::test]
async fn the_table_of_a_scale_is_made_as_that_of_its_kind() {
    let platform = platform().await;
    let server = &platform.server;
    let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    for (name, size, shown) in [("none", 0, json!(null)), ("some", 3, json!(3))] {
        server.create(WIDGETS, widget(name, size)).await;
        let path = format!("{WIDGETS}/{name}/scale");
        let table = server.send(Method::GET, &path, &table, Body::empty()).await.json();
        let columns = table["columnDefinitions"].as_array().unwrap().clone();
        let column =
            |column: &Value| ["name", "type", "format"].map(|of| column[of].as_str().unwrap().to_owned());
        let columns: Vec<[String; 3]> = columns.iter().map(column).collect();
        let expected = [
            ["Name", "string", "name"],
            ["Desired", "integer", ""],
            ["Available", "integer", ""],
            ["Age", "date", ""],
        ];
        assert_eq!(columns, expected);
        let cells = &table["rows"][0]["cells"];
        assert_eq!((&cells[0], &cells[1], &cells[2]), (&json!(name), &shown, &json!(0)), "{cells}");
    }
    server.stopping.cancel();
}

#[tokio::test]
async fn a_scale_takes_the_number_from_owners_in_other_versions() {
    let platform = platform().await;
    let server = &platform.server;
    server
        .create(WIDGETS, json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}}))
        .await;
    let applied = json!({"kind": "Widget", "apiVersion": "example.com/v1beta1", "metadata": {"name": "a"},
        "spec": {"size": 2, "amount": 1}});
    let path = "/apis/example.com/v1beta1/namespaces/ns/widgets/a?fieldManager=m";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answered = server.send(Method::PATCH, path, &headers, Body::from(applied.to_string())).await;
    assert_eq!(answered.code, 200, "{}", answered.text);
    let scaled = server.merge(&format!("{WIDGETS}/a/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 3, "{}", scaled.text);
    let object = server.get(&format!("{WIDGETS}/a")).await.json();
    let entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
    let of =
        |manager: &str| entries.iter().find(|entry| entry["manager"] == manager).unwrap()["fieldsV1"].clone();
    assert_eq!(of("m")["f:spec"], json!({"f:amount": {}}), "{object}");
    server.stopping.cancel();
}

#[tokio::test]
async fn the_end_of_a_definition_is_told_step_by_step_without_objects_too() {
    let platform = platform().await;
    let server = &platform.server;
    let path = format!("{CRDS}/widgets.example.com");
    let established =
        |answered: &Answered| answered.text.contains("\"type\":\"Established\",\"status\":\"True\"");
    platform.until(&path, established).await;
    let before = server.get(&path).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.delete(&path).await;
    platform.until_gone(&path).await;
    let events = server.events(&format!("{CRDS}?watch=1&timeoutSeconds=1&resourceVersion={before}")).await;
    let told = |event: &Value| {
        let conditions = event["object"]["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.iter().find(|found| found["type"] == "Terminating").unwrap();
        format!("{} {}", event["type"].as_str().unwrap(), found["reason"].as_str().unwrap())
    };
    let (gone, changes) = events.split_last().unwrap();
    // It goes with its last condition, so that the event shows the one before.
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(
        changes.iter().map(told).collect::<Vec<_>>(),
        ["MODIFIED InstanceDeletionPending", "MODIFIED InstanceDeletionInProgress"]
    );
    server.stopping.cancel();
}

#[tokio::test]
async fn a_create_under_a_definition_that_ends_is_refused_before_anything_else() {
    const TOLD: &str = "is forbidden: create not allowed while custom resource definition is terminating";
    let platform = platform().await;
    let server = &platform.server;
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(WIDGETS, held).await;
    server.delete(&format!("{CRDS}/widgets.example.com")).await;
    let mut bad = widget("late", 1);
    bad["spec"]["size"] = json!("none");
    let mut drawn = widget("", 1);
    drawn["metadata"] = json!({"generateName": "w-"});
    for (path, object, name, subject) in [
        (WIDGETS, bad.clone(), json!("late"), "widgets.example.com \"late\""),
        (&*WIDGETS.replace("/ns/", "/nope/"), bad, json!("late"), "widgets.example.com \"late\""),
        (WIDGETS, drawn, json!(null), "widgets.example.com"),
    ] {
        let refused = server.send(Method::POST, path, &[], Body::from(object.to_string())).await;
        assert_eq!(refused.code, 403, "{}", refused.text);
        let status = refused.json();
        assert_eq!(
            (&status["message"], &status["details"]["name"]),
            (&json!(format!("{subject} {TOLD}")), &name)
        );
    }
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.merge(&format!("{WIDGETS}/held"), free).await.code, 200);
    platform.until_gone(EVERYWHERE).await;
    server.stopping.cancel();
}
