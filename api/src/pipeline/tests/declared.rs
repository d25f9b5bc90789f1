//! Kinds whose rules are data, through the whole pipeline: deployments and config maps under other names.

use orch_rules::kinds::defined::table_columns;
use orch_schema::{Column, ResourceType, Selectable};

use super::*;
use crate::conversion::testing::Renaming;
use crate::negotiate::{Representation, ResponseView};
use crate::registry::{DeclaredKind, DeclaredVersion, End, Stage};
use crate::render::{IncludeObject, Renderer};

const FLEETS: &str = "/apis/stable.example.com/v1/namespaces/ns/fleets";

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        path: path.to_owned(),
    }
}

/// Fleets: the definition of deployments as data.
fn fleets(registry: &Registry) -> DeclaredKind {
    let deployments = registry.find("apps", "v1", "deployments").unwrap();
    let columns = [
        column("Wanted", "integer", ".spec.replicas"),
        column("Paused", "boolean", ".spec.paused"),
        column("Ready", "string", ".status.conditions[?(@.type==\"Available\")].status"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    let mut definition = ResourceType {
        group: "stable.example.com".to_owned(),
        plural: "fleets".to_owned(),
        singular: "fleet".to_owned(),
        kind: "Fleet".to_owned(),
        list_kind: "FleetList".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        columns: table_columns(&columns),
        ..(*deployments.definition).clone()
    };
    for part in definition.subresources.iter_mut().filter(|part| part.name == "status") {
        (part.group, part.kind) = (definition.group.clone(), definition.kind.clone());
    }
    // The selector of deployments is no text.
    for paths in definition.subresources.iter_mut().filter_map(|part| part.scale.as_mut()) {
        paths.selector.clear();
    }
    let selectable = |name: &str| Selectable {
        name: name.to_owned(),
        withheld: false,
        unindexed: false,
        synonym: None,
        coarse: false,
    };
    definition.rules.selectable = vec![selectable("spec.paused"), selectable("spec.replicas")];
    let since = orch_raft::Revision(5);
    let stored = Arc::new(orch_raft::WrittenAs { version: "v1".into(), definition: since });
    let deprecation = Some("stable.example.com/v1 Fleet is deprecated".to_owned());
    DeclaredKind {
        stored,
        stored_type: definition.type_id,
        stored_schema: registry.schema.clone().into(),
        converter: Arc::new(Renaming::ready()),
        record: None,
        stage: Stage::Established,
        versions: vec![DeclaredVersion {
            definition,
            schema: registry.schema.clone().into(),
            since,
            deprecation,
            end: End::default(),
            published: None,
            constraints: None,
        }],
    }
}

async fn server() -> Server {
    let server = Server::new().await;
    server.pipeline.served.update(|builtin| builtin.with(fleets(builtin).kinds())).unwrap();
    server
}

fn fleet(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "Fleet", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn status_and_generation_follow_the_definition() {
    let server = server().await;
    let mut sent = fleet("a", json!({"replicas": 2}));
    sent["status"] = json!({"replicas": 9});
    let created = server.post(FLEETS, sent).await.object();
    // The type writes an empty status.
    assert_eq!((&created["status"], &created["metadata"]["generation"]), (&json!({}), &json!(1)));
    assert_eq!(created["spec"]["replicas"], 2);
    assert_eq!(created["spec"].get("revisionHistoryLimit"), None, "no default of deployments");
    let path = format!("{FLEETS}/a");
    let status = json!({"status": {"replicas": 2}, "spec": {"replicas": 7}});
    let observed = server.merge(&format!("{path}/status"), status).await.object();
    assert_eq!((&observed["status"]["replicas"], &observed["spec"]["replicas"]), (&json!(2), &json!(2)));
    let changed =
        server.merge(&path, json!({"spec": {"paused": true}, "status": {"replicas": 4}})).await.object();
    assert_eq!((&changed["status"]["replicas"], &changed["metadata"]["generation"]), (&json!(2), &json!(2)));
    let labelled = server.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.object();
    assert_eq!(labelled["metadata"]["generation"], 2);
    let refused = server.merge(&path, json!({"spec": {"replicas": -1}})).await;
    assert_eq!(
        refused.causes(),
        ["FieldValueInvalid .spec.replicas: Invalid value: -1: should be a non-negative integer"]
    );
    let warned = server.merge(&path, json!({"metadata": {"finalizers": ["bare"]}})).await;
    assert_eq!(warned.warnings.len(), 1, "{:?}", warned.warnings);
    assert!(warned.warnings[0].contains("prefer a domain-qualified finalizer name"), "{:?}", warned.warnings);
}

#[tokio::test]
async fn scale_reads_and_writes_the_paths_of_the_definition() {
    let server = server().await;
    server.create(FLEETS, fleet("a", json!({"replicas": 2}))).await;
    let path = format!("{FLEETS}/a/scale");
    let scale = server.get(&path).await.object();
    assert_eq!((&scale["spec"], &scale["metadata"]["name"]), (&json!({"replicas": 2}), &json!("a")));
    let scaled = server.merge(&path, json!({"spec": {"replicas": 5}})).await.object();
    assert_eq!(scaled["spec"]["replicas"], 5);
    let whole = server.get(&format!("{FLEETS}/a")).await.object();
    assert_eq!((&whole["spec"]["replicas"], &whole["metadata"]["generation"]), (&json!(5), &json!(2)));
    server.create(FLEETS, fleet("b", json!({}))).await;
    let absent = server.get(&format!("{FLEETS}/b/scale")).await;
    assert_eq!(absent.refusal(), (400, "the spec replicas field \".spec.replicas\" does not exist"));
    let empty = server.merge(&format!("{FLEETS}/b/scale"), json!({"metadata": {}})).await;
    assert_eq!(empty.refusal(), (400, "the spec replicas field \".spec.replicas\" cannot be empty"));
    let set = server.merge(&format!("{FLEETS}/b/scale"), json!({"spec": {"replicas": 1}})).await.object();
    assert_eq!(set["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_patch_finds_a_number_in_the_scale_of_an_object_that_says_none() {
    let server = server().await;
    for (name, format, patch, replicas) in [
        ("a", JSON_PATCH, json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]), 3),
        ("b", MERGE, json!({"spec": {"replicas": null}}), 0),
        ("c", MERGE, json!({"spec": {"replicas": 1}}), 1),
    ] {
        server.create(FLEETS, fleet(name, json!({}))).await;
        let scaled = server.patch(&format!("{FLEETS}/{name}/scale"), format, patch).await.object();
        assert_eq!(scaled["spec"]["replicas"].as_i64().unwrap_or(0), replicas, "{name}");
        let whole = server.get(&format!("{FLEETS}/{name}")).await.object();
        assert_eq!(whole["spec"]["replicas"], replicas, "{name}");
    }
}

#[tokio::test]
async fn the_scale_has_the_patches_of_its_kind() {
    const TOLD: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let server = server().await;
    server.create(FLEETS, fleet("a", json!({"replicas": 2}))).await;
    for path in [format!("{FLEETS}/a"), format!("{FLEETS}/a/scale")] {
        for format in [STRATEGIC, "text/plain"] {
            let refused = server.patch(&path, format, json!({"spec": {"replicas": 5}})).await;
            assert_eq!(refused.refusal(), (415, TOLD), "{path} {format}");
            assert_eq!(
                (&refused.json["reason"], refused.json.get("details")),
                (&json!("UnsupportedMediaType"), None)
            );
        }
    }
}

#[tokio::test]
async fn an_update_counts_faults_of_metadata_as_often_as_the_reference() {
    let server = server().await;
    let mut held = fleet("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(FLEETS, held).await;
    server.delete(&format!("{FLEETS}/a"), json!(null)).await;
    for (path, patch, field, times) in [
        (
            "a",
            json!({"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}),
            "metadata.finalizers",
            2,
        ),
        ("a", json!({"metadata": {"labels": {"l": "a b"}}}), "metadata.labels", 3),
    ] {
        let refused = server.merge(&format!("{FLEETS}/{path}"), patch).await;
        let causes = refused.causes();
        assert_eq!((refused.code, causes.len()), (422, times), "{causes:?}");
        assert!(
            causes.iter().all(|cause| cause.split(' ').nth(1).unwrap() == format!("{field}:")),
            "{causes:?}"
        );
    }
}

#[tokio::test]
async fn a_status_is_of_its_object_whatever_kind_its_document_states() {
    let server = server().await;
    server.create(FLEETS, fleet("a", json!({}))).await;
    let path = format!("{FLEETS}/a/status");
    let mut sent = server.get(&path).await.object();
    (sent["apiVersion"], sent["kind"]) = (json!("stable.example.com/v1"), json!("Gadget"));
    sent["status"] = json!({"replicas": 4});
    assert_eq!(server.put(&path, sent).await.object()["status"]["replicas"], 4);
    let merged = server.merge(&path, json!({"kind": "Gadget", "status": {"replicas": 5}})).await.object();
    assert_eq!(merged["status"]["replicas"], 5);
}

#[tokio::test]
async fn fields_are_selected_by_their_path() {
    let server = server().await;
    server.create(FLEETS, fleet("a", json!({"replicas": 2, "paused": true}))).await;
    server.create(FLEETS, fleet("b", json!({"replicas": 3}))).await;
    let names = |reply: Reply| {
        let items = reply.json["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (selector, wanted) in [
        ("spec.paused=true", "a"),
        ("spec.replicas=3", "b"),
        ("spec.paused!=true", "b"),
        ("spec.paused=", "b"),
    ] {
        let found = server.get(&format!("{FLEETS}?fieldSelector={selector}")).await;
        assert_eq!(names(found), [wanted], "{selector}");
    }
    let unknown = server.get(&format!("{FLEETS}?fieldSelector=spec.other%3D1")).await;
    assert_eq!(unknown.code, 400, "{}", unknown.json);
}

#[tokio::test]
async fn a_table_shows_the_columns_of_the_definition() {
    let server = server().await;
    server.create(FLEETS, fleet("a", json!({"replicas": 2, "paused": true}))).await;
    let conditions =
        json!([{"type": "Progressing", "status": "True"}, {"type": "Available", "status": "False"}]);
    server.merge(&format!("{FLEETS}/a/status"), json!({"status": {"conditions": conditions}})).await.object();
    server.advance(65);
    let registry = &server.pipeline.registry();
    let resource = registry.find("stable.example.com", "v1", "fleets").unwrap();
    let representation = Representation { view: ResponseView::Table, ..crate::negotiate::JSON };
    let renderer = Renderer::new(registry, resource, representation, IncludeObject::None);
    let key = orch_raft::Key::new(&resource.storage, "ns", "a").unwrap();
    let object = orch_raft::Store::state(&server.pipeline.store).object(&key).unwrap().clone();
    let payload = renderer.object(&object, server.ambient.now()).unwrap();
    let bytes: Vec<u8> = payload.into_frames().flat_map(|frame| frame.to_vec()).collect();
    let table: Value = serde_json::from_slice(&bytes).unwrap();
    let headings: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["name"].as_str().unwrap())
        .collect();
    assert_eq!(headings, ["Name", "Wanted", "Paused", "Ready", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 2, true, "False", "65s"]));
}
