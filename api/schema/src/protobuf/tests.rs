//! Messages byte by byte, recorded objects through Protobuf and back, and malformed messages.

use bytes::Bytes;

use super::*;
use crate::json;
use crate::json::{EnvelopeError, Limits, decode_json, encode_json};
use crate::testing::orch;
use crate::tests::vectors::recorded;
use crate::value::Value;

fn encoded(kind: &str, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_protobuf(orch(), orch().find_type(kind).unwrap(), value, &mut out);
    out
}

fn decoded(kind: &str, message: &[u8]) -> Result<Value, crate::DecodeError> {
    decode_protobuf(orch(), orch().find_type(kind).unwrap(), message, Limits::default())
}

#[test]
fn every_recorded_object_survives_protobuf() {
    let objects = recorded(orch());
    assert!(objects.len() > 300);
    for recorded in objects {
        let mut wanted = Vec::new();
        crate::json::write_value(&recorded.object, &mut wanted);
        let value = decode_json(orch(), recorded.type_id, &wanted, Limits::default()).unwrap().value;
        let mut message = Vec::new();
        encode_protobuf(orch(), recorded.type_id, &value, &mut message);
        let again = decode_protobuf(orch(), recorded.type_id, &message, Limits::default()).unwrap();
        let mut out = Vec::new();
        encode_json(orch(), recorded.type_id, &again, &mut out);
        // The type of a claim template has no field in Protobuf.
        let wanted = String::from_utf8(wanted).unwrap();
        let wanted = wanted
            .replace(r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata""#, r#"{"metadata""#);
        assert_eq!(String::from_utf8(out).unwrap(), wanted, "{}", recorded.scenario);
    }
}

#[test]
fn messages_are_those_of_the_wire_format() {
    for (kind, value, wanted) in [
        (
            "core.v1.ConfigMap",
            json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": false}),
            &b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x20\x00"[..],
        ),
        ("core.v1.ConfigMap", json!({"metadata": {}}), b""),
        (
            "core.v1.Secret",
            json!({"metadata": {}, "data": {"k": "AAE="}}),
            b"\x12\x07\x0a\x01k\x12\x02\x00\x01",
        ),
        ("core.v1.Probe", json!({"exec": {}, "periodSeconds": 5}), b"\x0a\x02\x0a\x00\x20\x05"),
        ("core.v1.HTTPGetAction", json!({"port": "http"}), b"\x12\x08\x08\x01\x1a\x04http"),
        (
            "core.v1.HTTPGetAction",
            json!({"port": -1}),
            b"\x12\x0d\x08\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ),
        (
            "core.v1.ResourceRequirements",
            json!({"limits": {"cpu": "1"}}),
            b"\x0a\x0a\x0a\x03cpu\x12\x03\x0a\x011",
        ),
        (
            "coordination.v1.LeaseSpec",
            json!({"renewTime": "1970-01-01T00:00:01.000002Z"}),
            b"\x22\x05\x08\x01\x10\xd0\x0f",
        ),
        ("meta.v1.ManagedFieldsEntry", json!({"fieldsV1": {"f:a": {}}}), b"\x3a\x0c\x0a\x0a{\"f:a\":{}}"),
        (
            "authorization.v1.SubjectAccessReviewSpec",
            json!({"extra": {"k": ["v"]}}),
            b"\x2a\x08\x0a\x01k\x12\x03\x0a\x01v",
        ),
    ] {
        assert_eq!(encoded(kind, &value).as_slice(), wanted, "{kind} {value}");
        let mut left = Vec::new();
        encode_json(orch(), orch().find_type(kind).unwrap(), &decoded(kind, wanted).unwrap(), &mut left);
        let mut right = Vec::new();
        encode_json(orch(), orch().find_type(kind).unwrap(), &value, &mut right);
        assert_eq!(String::from_utf8(left), String::from_utf8(right));
    }
}

#[test]
fn packed_unknown_and_repeated_fields_are_read() {
    // supplementalGroups is field 4 of the pod's security context.
    let value = decoded("core.v1.PodSecurityContext", b"\x22\x02\x01\x02\x20\x03").unwrap();
    assert_eq!(value, json!({"supplementalGroups": [1, 2, 3]}));
    let value =
        decoded("core.v1.ConfigMap", b"\xf8\x3f\x01\xf9\x3f12345678\xfd\x3f1234\xfa\x3f\x01x").unwrap();
    assert_eq!(value, json!({"metadata": {}}));
}

#[test]
fn broken_messages_are_errors() {
    for message in [
        &b"\x0a"[..],
        b"\x0a\x05a",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x08\x01",
        b"\x0b",
        b"\x0f",
        b"\x00",
        b"\x12\x01\xff",
        b"\x0a\x03\x42\x03\x08",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ] {
        assert!(decoded("core.v1.ConfigMap", message).is_err(), "{message:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    let mut message = Vec::new();
    for _ in 0..2000 {
        let mut outer = Vec::new();
        write_message_field(28, &message, &mut outer);
        message = outer;
    }
    let error = decoded("apiextensions.v1.JSONSchemaProps", &message).unwrap_err();
    assert_eq!(error, crate::DecodeError::TooDeep { depth_max: 100 });
}

#[test]
fn envelopes_open_as_they_were_closed() {
    let mut out = Vec::new();
    write_envelope("v1", "ConfigMap", b"message", &mut out);
    assert!(out.starts_with(b"k8s\0"));
    let envelope = read_envelope(Bytes::from(out)).unwrap();
    assert_eq!((envelope.head.api_version.as_str(), envelope.head.kind.as_str()), ("v1", "ConfigMap"));
    assert_eq!(&envelope.raw[..], b"message");
    assert_eq!(read_envelope(Bytes::from_static(b"\0\0\0\0")), Err(EnvelopeError::Prefix));
    assert!(matches!(read_envelope(Bytes::from_static(b"k8s\0\x0a")), Err(EnvelopeError::Message(_))));
}

#[test]
fn objects_come_out_of_their_envelope() {
    let type_id = orch().find_type("core.v1.ConfigMap").unwrap();
    let mut body = Vec::new();
    write_envelope("v1", "ConfigMap", b"\x0a\x03\x0a\x01a", &mut body);
    let decoded = decode_protobuf_object(orch(), type_id, &body, Limits::default()).unwrap();
    assert_eq!(decoded.value, json!({"metadata": {"name": "a"}}));
    assert_eq!(decoded.head.kind, "ConfigMap");
    for (body, wanted) in [
        (
            &[0, 0, 0, 0][..],
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (00000000)",
        ),
        (
            b"",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (<empty>)",
        ),
        (
            b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({\"apiVersion\":\"v1\",\"kind\":\"Con ...)",
        ),
    ] {
        let error = decode_protobuf_object(orch(), type_id, body, Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn a_message_that_is_encoded_in_its_envelope_is_refused() {
    use orch_proto::envelope::Unknown;
    use prost::Message as _;

    let type_id = orch().find_type("core.v1.ConfigMap").unwrap();
    for (encoding, is_taken) in [("", true), ("identity", true), ("gzip", false)] {
        let unknown = Unknown { content_encoding: encoding.to_owned(), ..Unknown::default() };
        let body = [&PREFIX[..], &unknown.encode_to_vec()].concat();
        let decoded = decode_protobuf_object(orch(), type_id, &body, Limits::default());
        assert_eq!(decoded.is_ok(), is_taken, "{encoding}: {decoded:?}");
    }
}
