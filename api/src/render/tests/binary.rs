//! Protobuf responses: single objects, lists, events, and the cache of messages.

use orch_proto::envelope::Unknown;
use orch_schema::protobuf::{write_envelope, write_message_field};
use orch_schema::{Limits, decode_protobuf, encode_protobuf};
use prost::Message as _;

use super::*;
use crate::status::Status;

fn message(type_name: &str, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_protobuf(&REGISTRY.schema, REGISTRY.schema.find_type(type_name).unwrap(), value, &mut out);
    out
}

fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_envelope(api_version, kind, message, &mut out);
    out
}

/// A stored config map, decoded.
fn value(object: &SharedObject) -> Value {
    serde_json::from_slice(&object.json).unwrap()
}

#[test]
fn an_object_is_its_message_in_an_envelope() {
    let renderer = renderer("configmaps", PROTOBUF);
    let object = stored(&renderer, &config_map("a"));
    let body = body(renderer.object(&object, NOW).unwrap());
    assert_eq!(body, enveloped("v1", "ConfigMap", &message("core.v1.ConfigMap", &value(&object))));
    let unknown = Unknown::decode(&body[4..]).unwrap();
    let decoded =
        decode_protobuf(&REGISTRY.schema, renderer.resource.type_id, &unknown.raw, Limits::default());
    assert_eq!(decoded.unwrap(), value(&object));
    assert_eq!(renderer.content_type(), "application/vnd.orch.protobuf");
    assert_eq!(renderer.watch_content_type(), "application/vnd.orch.protobuf;stream=watch");
}

#[test]
fn a_message_is_made_once_and_copied_from_then_on() {
    let renderer = renderer("configmaps", PROTOBUF);
    let object = stored(&renderer, &config_map("a"));
    object.protobuf.set(bytes::Bytes::from_static(b"kept")).unwrap();
    let expected = enveloped("v1", "ConfigMap", b"kept");
    assert_eq!(body(renderer.object(&object, NOW).unwrap()), expected);
    let written = |stored| Written {
        json: object.json.clone(),
        stored,
        written_as: None,
        outcome: crate::pipeline::WriteOutcome::Done,
    };
    assert_eq!(body(renderer.written(&written(Some(object.clone())), NOW).unwrap()), expected);
    let fresh = enveloped("v1", "ConfigMap", &message("core.v1.ConfigMap", &value(&object)));
    assert_eq!(body(renderer.written(&written(None), NOW).unwrap()), fresh);
}

#[test]
fn events_of_large_objects_share_their_messages() {
    let renderer = renderer("configmaps", PROTOBUF);
    let mut large = config_map("a");
    large["data"]["payload"] = json!("x".repeat(20_000));
    let object = stored(&renderer, &large);
    let mut whole = Vec::new();
    renderer.event(EventType::Modified, &object, None, false, NOW, &mut whole).unwrap();
    let shared = renderer.shared_event(EventType::Modified, &object, None).unwrap().unwrap();
    assert_eq!(shared.object[0].as_ptr(), object.protobuf.get().unwrap().as_ptr());
    assert_eq!([&shared.open[..], &shared.object.concat(), shared.end].concat(), whole);
    let removed = renderer.shared_event(EventType::Deleted, &object, Some(Revision(8))).unwrap();
    assert!(removed.is_none(), "no message has its revision");
}

#[test]
fn a_list_is_its_metadata_and_the_messages_of_its_objects() {
    let renderer = renderer("configmaps", PROTOBUF);
    let objects = ["a", "b"].map(|name| stored(&renderer, &config_map(name)));
    let list =
        ListAnswer { continue_token: Some("next".to_owned()), remaining: Some(3), ..page(objects.to_vec()) };
    let meta = json!({ "resourceVersion": "9", "continue": "next", "remainingItemCount": 3 });
    let mut raw = Vec::new();
    write_message_field(1, &message("meta.v1.ListMeta", &meta), &mut raw);
    for object in &objects {
        write_message_field(2, &message("core.v1.ConfigMap", &value(object)), &mut raw);
    }
    assert_eq!(body(renderer.list(list, NOW).unwrap()), enveloped("v1", "ConfigMapList", &raw));
}

#[test]
fn metadata_is_the_first_field_of_every_message() {
    let of_one = renderer("configmaps", Representation { view: ResponseView::Metadata, ..PROTOBUF });
    let of_list = renderer("configmaps", Representation { view: ResponseView::MetadataList, ..PROTOBUF });
    let object = stored(&of_one, &config_map("a"));
    let partial =
        message("meta.v1.PartialObjectMetadata", &json!({ "metadata": value(&object)["metadata"] }));
    assert_eq!(
        body(of_one.object(&object, NOW).unwrap()),
        enveloped("meta.orch.io/v1", "PartialObjectMetadata", &partial)
    );
    let mut raw = Vec::new();
    write_message_field(1, &message("meta.v1.ListMeta", &json!({ "resourceVersion": "9" })), &mut raw);
    write_message_field(2, &partial, &mut raw);
    assert_eq!(
        body(of_list.list(page(vec![object]), NOW).unwrap()),
        enveloped("meta.orch.io/v1", "PartialObjectMetadataList", &raw)
    );
}

/// One frame of a stream.
fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    write_message_field(1, object, &mut raw);
    let mut event = Vec::new();
    write_message_field(1, kind.as_bytes(), &mut event);
    write_message_field(2, &raw, &mut event);
    let len = u32::try_from(event.len()).unwrap().to_be_bytes();
    [&len[..], &event].concat()
}

#[test]
fn events_are_frames_with_a_length() {
    let renderer = renderer("configmaps", PROTOBUF);
    let object = stored(&renderer, &config_map("a"));
    let mut out = Vec::new();
    renderer.event(EventType::Added, &object, None, true, NOW, &mut out).unwrap();
    let mut whole = value(&object);
    let expected = enveloped("v1", "ConfigMap", &message("core.v1.ConfigMap", &whole));
    assert_eq!(out, frame("ADDED", &expected));

    out.clear();
    renderer.event(EventType::Deleted, &object, Some(Revision(8)), false, NOW, &mut out).unwrap();
    whole["metadata"]["resourceVersion"] = json!("8");
    let expected = enveloped("v1", "ConfigMap", &message("core.v1.ConfigMap", &whole));
    assert_eq!(out, frame("DELETED", &expected));

    out.clear();
    renderer.bookmark(Revision(12), false, false, &mut out).unwrap();
    let empty = json!({ "metadata": { "resourceVersion": "12" } });
    let expected = enveloped("v1", "ConfigMap", &message("core.v1.ConfigMap", &empty));
    assert_eq!(out, frame("BOOKMARK", &expected));
}

#[test]
fn failures_are_messages_too() {
    let failure = Status::of(&ApiError::Unauthorized, &ORCH);
    let expected = enveloped("v1", "Status", &message("meta.v1.Status", &failure.to_value()));
    assert_eq!(status(&failure, PROTOBUF, &REGISTRY.schema), expected);
    let mut out = Vec::new();
    renderer("configmaps", PROTOBUF).error_event(&failure, &mut out).unwrap();
    assert_eq!(out, frame("ERROR", &expected));
}

#[test]
fn another_version_is_encoded_anew() {
    let renderer = events(PROTOBUF);
    let object = stored(&renderer, &core_event());
    let converted = renderer.resource.to_version(value(&object));
    let expected = enveloped("events.orch.io/v1", "Event", &message("events.v1.Event", &converted));
    assert_eq!(body(renderer.object(&object, NOW).unwrap()), expected);
    assert!(object.protobuf.get().is_none(), "the cache is for the stored form");
}
