//! JSON, YAML and tables.

use super::*;
use crate::error::Subject;
use crate::status::Status;

/// The stored bytes of [`config_map`].
fn canonical(name: &str, revision: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{revision}","creationTimestamp":"2026-01-02T03:04:05Z"}},"data":{{"k":"\u003cv\u003e"}}}}"#
    )
}

fn with_head(canonical: &str) -> String {
    canonical.replacen('{', r#"{"kind":"ConfigMap","apiVersion":"v1","#, 1)
}

const PARTIAL_HEAD: &str = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.orch.io/v1","#;

fn partial(name: &str) -> String {
    let canonical = canonical(name, 7);
    let (metadata, _) = canonical.split_once(",\"data\"").unwrap();
    format!("{}}}", metadata.replacen('{', PARTIAL_HEAD, 1))
}

fn answer(representation: Representation) -> String {
    let renderer = renderer("configmaps", representation);
    text(renderer.object(&stored(&renderer, &config_map("a")), NOW).unwrap())
}

#[test]
fn an_object_is_its_stored_bytes_behind_the_head() {
    let renderer = renderer("configmaps", JSON);
    let object = stored(&renderer, &config_map("a"));
    assert_eq!(text(renderer.object(&object, NOW).unwrap()), with_head(&canonical("a", 7)) + "\n");
    let written = Written {
        json: object.json.clone(),
        stored: Some(object),
        written_as: None,
        outcome: crate::pipeline::WriteOutcome::Created,
    };
    assert_eq!(text(renderer.written(&written, NOW).unwrap()), with_head(&canonical("a", 7)) + "\n");
    assert_eq!(renderer.content_type(), "application/json");
}

#[test]
fn several_lines_and_yaml_are_the_same_object() {
    assert_eq!(
        answer(PRETTY),
        "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"a\",\n    \
         \"namespace\": \"ns\",\n    \"resourceVersion\": \"7\",\n    \
         \"creationTimestamp\": \"2026-01-02T03:04:05Z\"\n  },\n  \"data\": {\n    \
         \"k\": \"\\u003cv\\u003e\"\n  }\n}"
    );
    assert_eq!(
        answer(YAML),
        "apiVersion: v1\ndata:\n  k: <v>\nkind: ConfigMap\nmetadata:\n  \
         creationTimestamp: \"2026-01-02T03:04:05Z\"\n  name: a\n  namespace: ns\n  resourceVersion: \"7\"\n"
    );
}

#[test]
fn only_the_metadata_is_cut_out() {
    assert_eq!(answer(METADATA), partial("a") + "\n");
    assert_eq!(
        answer(Representation { view: ResponseView::Metadata, ..YAML }),
        "apiVersion: meta.orch.io/v1\nkind: PartialObjectMetadata\nmetadata:\n  \
         creationTimestamp: \"2026-01-02T03:04:05Z\"\n  name: a\n  namespace: ns\n  resourceVersion: \"7\"\n"
    );
}

#[test]
fn lists_name_the_revision_and_what_is_left() {
    let renderer = renderer("configmaps", JSON);
    let objects = ["a", "b"].map(|name| stored(&renderer, &config_map(name)));
    let list =
        ListAnswer { continue_token: Some("next".to_owned()), remaining: Some(3), ..page(objects.to_vec()) };
    let expected = format!(
        "{}{},{}]}}\n",
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"next","remainingItemCount":3},"items":["#,
        canonical("a", 7),
        canonical("b", 7)
    );
    assert_eq!(text(renderer.list(list, NOW).unwrap()), expected);
}

#[test]
fn empty_lists_have_no_items() {
    let list = |representation| text(renderer("roles", representation).list(page(Vec::new()), NOW).unwrap());
    let version = "rbac.authorization.orch.io/v1";
    assert_eq!(
        list(JSON),
        format!(
            r#"{{"kind":"RoleList","apiVersion":"{version}","metadata":{{"resourceVersion":"9"}},"items":[]}}"#
        ) + "\n"
    );
    assert_eq!(
        list(PRETTY),
        format!(
            "{{\n  \"kind\": \"RoleList\",\n  \"apiVersion\": \"{version}\",\n  \"metadata\": {{\n    \
             \"resourceVersion\": \"9\"\n  }},\n  \"items\": []\n}}"
        )
    );
    assert_eq!(
        list(YAML),
        format!("apiVersion: {version}\nitems: []\nkind: RoleList\nmetadata:\n  resourceVersion: \"9\"\n")
    );
}

#[test]
fn items_of_metadata_lists_have_their_kind() {
    let renderer = renderer("configmaps", Representation { view: ResponseView::MetadataList, ..JSON });
    let list = page(vec![stored(&renderer, &config_map("a")), stored(&renderer, &config_map("b"))]);
    let open = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.orch.io/v1","metadata":{"resourceVersion":"9"},"items":["#;
    assert_eq!(
        text(renderer.list(list, NOW).unwrap()),
        format!("{open}{},{}]}}\n", partial("a"), partial("b"))
    );
}

fn stream(renderer: &Renderer, write: impl Fn(&Renderer, &mut Vec<u8>) -> Result<(), ApiError>) -> String {
    let mut out = Vec::new();
    write(renderer, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn events_are_lines_of_json() {
    let renderer = renderer("configmaps", JSON);
    let object = stored(&renderer, &config_map("a"));
    for (kind, revision, name, shown) in [
        (EventType::Added, None, "ADDED", 7),
        (EventType::Modified, None, "MODIFIED", 7),
        (EventType::Deleted, Some(Revision(1234)), "DELETED", 1234),
    ] {
        let found =
            stream(&renderer, |renderer, out| renderer.event(kind, &object, revision, true, NOW, out));
        let document = with_head(&canonical("a", shown));
        assert_eq!(found, format!("{{\"type\":\"{name}\",\"object\":{document}}}\n"));
    }
    assert_eq!(renderer.watch_content_type(), "application/json");
}

#[test]
fn events_of_large_objects_share_the_stored_bytes() {
    let renderer = renderer("configmaps", JSON);
    let mut large = config_map("a");
    large["data"]["payload"] = json!("x".repeat(20_000));
    let object = stored(&renderer, &large);
    for revision in [None, Some(Revision(1234))] {
        let whole = stream(&renderer, |renderer, out| {
            renderer.event(EventType::Deleted, &object, revision, false, NOW, out)
        });
        let shared = renderer.shared_event(EventType::Deleted, &object, revision).unwrap().unwrap();
        let of_store = object.json.as_ptr_range();
        assert!(shared.object.iter().any(|part| part.len() > 20_000 && of_store.contains(&part.as_ptr())));
        let parts = [&shared.open[..], &shared.object.concat(), shared.end].concat();
        assert_eq!(String::from_utf8(parts).unwrap(), whole);
    }
    let small = stored(&renderer, &config_map("a"));
    assert!(renderer.shared_event(EventType::Added, &small, None).unwrap().is_none());
}

#[test]
fn events_show_the_view_that_was_asked_for() {
    let renderer = renderer("configmaps", METADATA);
    let object = stored(&renderer, &config_map("a"));
    let deleted = stream(&renderer, |renderer, out| {
        renderer.event(EventType::Deleted, &object, Some(Revision(8)), false, NOW, out)
    });
    let partial = partial("a").replace("\"7\"", "\"8\"");
    assert_eq!(deleted, format!("{{\"type\":\"DELETED\",\"object\":{partial}}}\n"));
}

#[test]
fn bookmarks_are_empty_objects_of_the_kind() {
    let bookmark = |renderer: &Renderer, end| {
        stream(renderer, |renderer, out| renderer.bookmark(Revision(12), end, false, out))
    };
    assert_eq!(
        bookmark(&renderer("configmaps", JSON), false),
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\
         \"metadata\":{\"resourceVersion\":\"12\"}}}\n"
    );
    assert_eq!(
        bookmark(&renderer("configmaps", JSON), true),
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\
         \"metadata\":{\"resourceVersion\":\"12\",\"annotations\":{\"orch.io/initial-events-end\":\"true\"}}}}\n"
    );
    assert_eq!(
        bookmark(&renderer("pods", JSON), false),
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\
         \"metadata\":{\"resourceVersion\":\"12\"},\"spec\":{\"containers\":null},\"status\":{}}}\n"
    );
    assert_eq!(
        bookmark(&renderer("configmaps", METADATA), false),
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{PARTIAL_HEAD}\"metadata\":{{\"resourceVersion\":\"12\"}}}}}}\n"
        )
    );
    assert!(bookmark(&events(JSON), false).contains("\"apiVersion\":\"events.orch.io/v1\""));
    assert!(
        bookmark(&renderer("configmaps", TABLE), false).contains("\"columnDefinitions\":null,\"rows\":[{")
    );
}

fn failure() -> Status {
    let subject = Subject { kind: "configmaps".to_owned(), name: "a".to_owned(), ..Subject::default() };
    Status::of(&ApiError::NotFound(subject), &ORCH)
}

const FAILURE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"configmaps"},"code":404}"#;

#[test]
fn a_status_stays_a_status_in_every_view() {
    for representation in [JSON, TABLE, METADATA] {
        let renderer = renderer("configmaps", representation);
        let event = stream(&renderer, |renderer, out| renderer.error_event(&failure(), out));
        assert_eq!(event, format!("{{\"type\":\"ERROR\",\"object\":{FAILURE}}}\n"));
        assert_eq!(status(&failure(), representation, &REGISTRY.schema), format!("{FAILURE}\n"));
    }
    assert_eq!(
        status(&failure(), YAML, &REGISTRY.schema),
        "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: a\nkind: Status\n\
         message: configmaps \"a\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n"
    );
    let pretty = status(&failure(), PRETTY, &REGISTRY.schema);
    assert!(pretty.starts_with(b"{\n  \"kind\": \"Status\",\n") && pretty.ends_with(b"  \"code\": 404\n}"));
}

fn table(renderer: &Renderer, objects: Vec<SharedObject>) -> Value {
    serde_json::from_slice(&body(renderer.list(page(objects), NOW).unwrap())).unwrap()
}

#[test]
fn tables_have_a_row_for_each_object() {
    let renderer = renderer("configmaps", TABLE);
    let object = stored(&renderer, &config_map("a"));
    let found = table(&renderer, vec![object.clone(), object.clone()]);
    assert_eq!(found["kind"], "Table");
    assert_eq!(found["apiVersion"], "meta.orch.io/v1");
    assert_eq!(found["metadata"], json!({ "resourceVersion": "9" }));
    let names = found["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["Name", "Data", "Age"]);
    let metadata: Value = serde_json::from_str(&partial("a")).unwrap();
    assert_eq!(
        found["rows"],
        json!([
            { "cells": ["a", 1, "60s"], "object": metadata },
            { "cells": ["a", 1, "60s"], "object": metadata },
        ])
    );
    let one: Value = serde_json::from_slice(&body(renderer.object(&object, NOW).unwrap())).unwrap();
    assert_eq!(one["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!(one["rows"].as_array().map(Vec::len), Some(1));
}

#[test]
fn rows_of_pods_that_have_ended_say_so() {
    let renderer = renderer("pods", TABLE);
    let conditions = |phase: &str| {
        let pod = json!({ "metadata": { "name": "p" }, "status": { "phase": phase } });
        table(&renderer, vec![stored(&renderer, &pod)])["rows"][0].get("conditions").cloned()
    };
    assert_eq!(conditions("Running"), None);
    let completed = |reason: &str, message: &str| {
        Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
    };
    assert_eq!(conditions("Succeeded"), completed("Succeeded", "The pod has completed successfully."));
    assert_eq!(conditions("Failed"), completed("Failed", "The pod failed."));
}

#[test]
fn tables_without_rows_are_those_of_the_reference() {
    assert_eq!(table(&renderer("configmaps", TABLE), Vec::new())["rows"], json!([]));
    assert_eq!(table(&renderer("roles", TABLE), Vec::new())["rows"], json!(null));
}

#[test]
fn only_the_first_event_of_a_table_names_the_columns() {
    let renderer = renderer("roles", TABLE);
    let object = stored(
        &renderer,
        &json!({
            "metadata": { "name": "r", "creationTimestamp": "2026-01-02T03:04:05Z" },
        }),
    );
    let event = |first| {
        let line = stream(&renderer, |renderer, out| {
            renderer.event(EventType::Added, &object, None, first, NOW, out)
        });
        serde_json::from_str::<Value>(&line).unwrap()["object"].clone()
    };
    let columns = &event(true)["columnDefinitions"];
    assert_eq!((&columns[0]["name"], &columns[1]["name"]), (&json!("Name"), &json!("Created At")));
    assert_eq!(columns[1]["type"], "date");
    assert_eq!(event(false)["columnDefinitions"], json!(null));
    assert_eq!(event(false)["rows"][0]["cells"], json!(["r", "2026-01-02T03:04:05Z"]));
}

#[test]
fn rows_say_of_the_object_what_was_asked_for() {
    for (text, expected) in [
        ("", Ok(IncludeObject::Metadata)),
        ("None", Ok(IncludeObject::None)),
        ("Object", Ok(IncludeObject::Object)),
        (
            "x",
            Err(ApiError::BadRequest(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be \
                 'Metadata', 'Object', 'None', or empty"
                    .to_owned(),
            )),
        ),
    ] {
        assert_eq!(IncludeObject::parse(text), expected);
    }
    let row = |include| {
        let renderer = Renderer::new(&REGISTRY, &resource("", "configmaps"), TABLE, include);
        let object = stored(&renderer, &config_map("a"));
        table(&renderer, vec![object])["rows"][0]["object"].clone()
    };
    assert_eq!(row(IncludeObject::None), json!(null));
    assert_eq!(
        row(IncludeObject::Object).to_string(),
        serde_json::from_str::<Value>(&with_head(&canonical("a", 7))).unwrap().to_string()
    );
}

#[test]
fn events_are_shown_in_the_version_that_was_asked_for() {
    let renderer = events(JSON);
    let object = stored(&renderer, &core_event());
    let expected = "{\"metadata\":{\"name\":\"e\",\"namespace\":\"ns\",\"resourceVersion\":\"7\"},\
        \"eventTime\":null,\"reason\":\"Test\",\"regarding\":{\"kind\":\"Pod\",\"name\":\"p\"},\
        \"note\":\"hello\",\"type\":\"Normal\",\"deprecatedSource\":{\"component\":\"c\"},\
        \"deprecatedFirstTimestamp\":\"2026-01-02T03:04:05Z\",\
        \"deprecatedLastTimestamp\":\"2026-01-02T03:04:05Z\",\"deprecatedCount\":2}";
    let head = "{\"kind\":\"Event\",\"apiVersion\":\"events.orch.io/v1\",";
    let whole = expected.replacen('{', head, 1);
    assert_eq!(text(renderer.object(&object, NOW).unwrap()), format!("{whole}\n"));
    let deleted = stream(&renderer, |renderer, out| {
        renderer.event(EventType::Deleted, &object, Some(Revision(8)), false, NOW, out)
    });
    let other = whole.replace("\"7\"", "\"8\"");
    assert_eq!(deleted, format!("{{\"type\":\"DELETED\",\"object\":{other}}}\n"));
    let list = text(renderer.list(page(vec![object.clone(), object.clone()]), NOW).unwrap());
    assert!(list.starts_with("{\"kind\":\"EventList\",\"apiVersion\":\"events.orch.io/v1\","), "{list}");
    assert!(list.ends_with(&format!("\"items\":[{expected},{expected}]}}\n")), "{list}");
    let row = &table(&events(TABLE), vec![object])["rows"][0];
    assert_eq!(row["cells"][6], "hello");
    assert_eq!(row["object"].to_string(), serde_json::from_str::<Value>(&whole).unwrap().to_string());
}

#[test]
fn bytes_that_are_no_object_are_an_internal_error() {
    let broken = |json: &'static [u8], representation| {
        let renderer = renderer("configmaps", representation);
        let whole = stored(&renderer, &config_map("a"));
        let object = Arc::new(Object {
            json: json.into(),
            protobuf: OnceLock::new(),
            index: Index::default(),
            ..*whole
        });
        renderer.object(&object, NOW).map(|payload| payload.len())
    };
    for (json, representation) in [
        (&b"{\"metadata\":"[..], TABLE),
        (b"{\"metadata\":", METADATA),
        (b"{\"data\":{}}", METADATA),
        (b"nonsense", PROTOBUF),
        (b"{\"data\":{\"a\":\"b\"}}", Representation { view: ResponseView::Metadata, ..PROTOBUF }),
    ] {
        assert!(matches!(broken(json, representation), Err(ApiError::Internal(_))), "{json:?}");
    }
}

#[test]
fn answers_end_with_their_request() {
    for (what, representation) in [("YAML", YAML), ("a table", TABLE), ("Protobuf", PROTOBUF)] {
        let renderer = renderer("configmaps", representation);
        let value = config_map("a");
        // A fresh list for each run: a message stays cached with its object, so that only the first list encodes any.
        let objects = || (0..2_000).map(|_| stored(&renderer, &value)).collect::<Vec<_>>();
        let mut lists = [objects(), objects()].into_iter();
        orch_schema::budget::stopping::check_stops(what, 2_000, || {
            renderer.list(page(lists.next().unwrap()), NOW).is_ok()
        });
    }
}

#[test]
fn a_message_that_was_not_finished_is_not_kept() {
    let renderer = renderer("configmaps", PROTOBUF);
    let object = stored(&renderer, &config_map("a"));
    let gone = Arc::new(orch_schema::budget::Budget::default());
    gone.cancel();
    assert!(gone.enter(|| renderer.object(&object, NOW)).is_err());
    assert!(object.protobuf.get().is_none());
    assert!(renderer.object(&object, NOW).is_ok());
}

#[test]
fn large_objects_are_handed_out_without_a_copy() {
    let renderer = renderer("configmaps", JSON);
    let mut value = config_map("a");
    value["data"] = json!({"k": "x".repeat(200_000)});
    let object = stored(&renderer, &value);
    let (from, to) = (object.json.as_ptr() as usize, object.json.as_ptr() as usize + object.json.len());
    let copied = |payload: Payload| {
        let (mut all, mut copied, len) = (Vec::new(), 0, payload.len());
        for frame in payload.into_frames() {
            let at = frame.as_ptr() as usize;
            copied += if (from..to).contains(&at) { 0 } else { frame.len() };
            all.extend_from_slice(&frame);
        }
        assert_eq!(all.len(), len);
        (String::from_utf8(all).unwrap(), copied)
    };
    let (whole, of_whole) = copied(renderer.object(&object, NOW).unwrap());
    assert_eq!(whole, with_head(std::str::from_utf8(&object.json).unwrap()) + "\n");
    let small = stored(&renderer, &config_map("b"));
    let list = page(vec![small.clone(), object.clone(), small.clone(), object.clone()]);
    let (listed, of_list) = copied(renderer.list(list, NOW).unwrap());
    let items: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(items["items"][3]["data"], value["data"]);
    assert_eq!(items["items"][2]["metadata"]["name"], json!("b"));
    assert!(of_whole < 100 && of_list < 4000, "{of_whole} and {of_list} bytes are copies");
}
