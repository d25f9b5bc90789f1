//! Decoding and encoding along the tables: kept, dropped, refused and reported fields.

use super::*;
use crate::json;
use crate::testing::orch;
use crate::tests::vectors::recorded;

/// Reads an object of `kind`. Returns its canonical text and the strict errors.
fn read(kind: &str, json: &str) -> Result<(String, Vec<String>), DecodeError> {
    let schema = orch();
    let type_id = schema.find_type(kind).unwrap();
    let decoded = decode_json(schema, type_id, json.as_bytes(), Limits::default())?;
    let mut out = Vec::new();
    encode_json(schema, type_id, &decoded.value, &mut out);
    let mut direct = Vec::new();
    let again = decode_json(schema, type_id, &out, Limits::default()).unwrap();
    encode_json(schema, type_id, &again.value, &mut direct);
    assert_eq!(out, direct, "the canonical form is stable");
    assert_eq!(decoded.value, again.value, "the canonical value is what the text says");
    Ok((String::from_utf8(out).unwrap(), decoded.strict.iter().map(ToString::to_string).collect()))
}

#[track_caller]
fn check(kind: &str, json: &str, wanted: &str) {
    assert_eq!(read(kind, json).unwrap().0, wanted);
}

#[test]
fn every_recorded_answer_is_canonical() {
    let schema = orch();
    let objects = recorded(schema);
    assert!(objects.len() > 300, "{}", objects.len());
    let mut wrong = Vec::new();
    for recorded in objects {
        let mut wanted = Vec::new();
        write_value(&recorded.object, &mut wanted);
        let decoded = decode_json(schema, recorded.type_id, &wanted, Limits::default());
        let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", recorded.scenario));
        let mut out = Vec::new();
        encode_json(schema, recorded.type_id, &decoded.value, &mut out);
        if wanted != out || !decoded.strict.is_empty() {
            let [wanted, out] = [wanted, out].map(|bytes| String::from_utf8(bytes).unwrap());
            wrong.push(format!("{}\n{wanted}\n{out}\n{:?}", recorded.scenario, decoded.strict));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn fields_come_out_in_order_and_maps_sorted() {
    check(
        "core.v1.ConfigMap",
        r#"{"data":{"b":"2","a":"1"},"immutable":false,"kind":"ConfigMap","metadata":{"labels":{},"name":"x"}}"#,
        r#"{"metadata":{"name":"x"},"immutable":false,"data":{"a":"1","b":"2"}}"#,
    );
}

#[test]
fn empty_values_are_left_out_and_required_ones_are_written() {
    for (kind, json, wanted) in [
        ("rbac.v1.Role", "{}", r#"{"metadata":{},"rules":null}"#),
        ("rbac.v1.Role", r#"{"rules":[]}"#, r#"{"metadata":{},"rules":null}"#),
        ("rbac.v1.Role", r#"{"rules":[null]}"#, r#"{"metadata":{},"rules":[{"verbs":null}]}"#),
        ("core.v1.ConfigMap", "null", r#"{"metadata":{}}"#),
        ("core.v1.ConfigMap", r#"{"data":{"a":null}}"#, r#"{"metadata":{},"data":{"a":""}}"#),
        (
            "core.v1.ConfigMap",
            r#"{"metadata":{"generation":0,"name":"","finalizers":[]}}"#,
            r#"{"metadata":{}}"#,
        ),
        (
            "core.v1.ConfigMap",
            r#"{"metadata":{"creationTimestamp":null,"deletionTimestamp":"0001-01-01T00:00:00Z"}}"#,
            r#"{"metadata":{}}"#,
        ),
        ("core.v1.Pod", "{}", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        (
            "core.v1.Pod",
            r#"{"spec":{"containers":[{"name":"c"}],"hostNetwork":false,"enableServiceLinks":false,"securityContext":{}}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"c","resources":{}}],"securityContext":{},"enableServiceLinks":false},"status":{}}"#,
        ),
        (
            "core.v1.Pod",
            r#"{"status":{"conditions":[{"type":"Ready"}]}}"#,
            r#"{"metadata":{},"spec":{"containers":null},"status":{"conditions":[{"type":"Ready","status":"","lastProbeTime":null,"lastTransitionTime":null}]}}"#,
        ),
        (
            "core.v1.Probe",
            r#"{"periodSeconds":1,"httpGet":{"port":"http"}}"#,
            r#"{"httpGet":{"port":"http"},"periodSeconds":1}"#,
        ),
        ("core.v1.HTTPGetAction", "{}", r#"{"port":0}"#),
        ("core.v1.GRPCAction", "{}", r#"{"port":0,"service":null}"#),
        ("apps.v1.ControllerRevision", "{}", r#"{"metadata":{},"data":null,"revision":0}"#),
    ] {
        check(kind, json, wanted);
    }
}

#[test]
fn leaves_are_brought_to_their_canonical_form() {
    check(
        "core.v1.ResourceRequirements",
        r#"{"limits":{"memory":1073741824,"cpu":0.5,"x":" 1024Mi "}}"#,
        r#"{"limits":{"cpu":"500m","memory":"1073741824","x":"1Gi"}}"#,
    );
    check(
        "core.v1.Secret",
        r#"{"data":{"a":"Zm9v\nYmFy","b":"QR=="}}"#,
        r#"{"metadata":{},"data":{"a":"Zm9vYmFy","b":"QQ=="}}"#,
    );
    check(
        "coordination.v1.Lease",
        r#"{"spec":{"renewTime":"2026-01-02T05:04:05.000001+02:00"}}"#,
        r#"{"metadata":{},"spec":{"renewTime":"2026-01-02T03:04:05.000001Z"}}"#,
    );
    check(
        "core.v1.ConfigMap",
        r#"{"data":{"a":"<\u00e9\ud83d\ude00\ud800>"}}"#,
        "{\"metadata\":{},\"data\":{\"a\":\"\\u003cé😀\u{fffd}\\u003e\"}}",
    );
    check(
        "apiextensions.v1.JSONSchemaProps",
        r#"{"maximum":1.0,"minimum":1e-7}"#,
        r#"{"maximum":1,"minimum":1e-7}"#,
    );
}

#[test]
fn schemas_of_custom_resources_keep_their_two_forms() {
    check(
        "apiextensions.v1.JSONSchemaProps",
        r#"{"items":{"type":"string","nope":1},"additionalProperties":false,"x-orch-list-type":"set","default":{"b":1,"a":[1.5,1e3]},"$ref":"r"}"#,
        r#"{"$ref":"r","default":{"b":1,"a":[1.5,1000]},"items":{"type":"string"},"additionalProperties":false,"x-orch-list-type":"set"}"#,
    );
    check(
        "apiextensions.v1.JSONSchemaProps",
        r#"{"items":[{"type":"string"}],"dependencies":{"b":["c"],"a":{"type":"string"}}}"#,
        r#"{"items":[{"type":"string"}],"dependencies":{"a":{"type":"string"},"b":["c"]}}"#,
    );
}

#[test]
fn unknown_and_duplicate_fields_are_named_in_order() {
    for (kind, json, wanted) in [
        (
            "core.v1.ConfigMap",
            r#"{"metadata":{"name":"fv","nope":1},"dta":{"a":"b"}}"#,
            &[r#"unknown field "metadata.nope""#, r#"unknown field "dta""#][..],
        ),
        (
            "core.v1.ConfigMap",
            r#"{"metadata":{"name":"fv","name":"fv2","labels":{"a":"1","a":"2"}},"data":{"k":"1","k":"2"},"kind":"a","kind":"b"}"#,
            &[
                r#"duplicate field "metadata.name""#,
                r#"duplicate field "metadata.labels.a""#,
                r#"duplicate field "data.k""#,
                r#"duplicate field "kind""#,
            ],
        ),
        (
            "core.v1.Pod",
            r#"{"spec":{"containers":[{},{"prots":[],"ports":[{"prtocol":"TCP"}]}],"Containers":[]}}"#,
            &[
                r#"unknown field "spec.containers[1].prots""#,
                r#"unknown field "spec.containers[1].ports[0].prtocol""#,
                r#"unknown field "spec.Containers""#,
            ],
        ),
        ("rbac.v1.Role", r#"{"a":1,"a":1}"#, &[r#"unknown field "a""#]),
    ] {
        assert_eq!(read(kind, json).unwrap().1, wanted, "{json}");
    }
}

#[test]
fn the_last_of_duplicate_fields_counts_and_objects_merge() {
    check(
        "core.v1.ConfigMap",
        r#"{"metadata":{"name":"a"},"data":{"x":"1"},"metadata":{"namespace":"n"},"data":{"y":"2"},"immutable":true,"immutable":null}"#,
        r#"{"metadata":{"name":"a","namespace":"n"},"data":{"x":"1","y":"2"}}"#,
    );
    check("core.v1.ConfigMap", r#"{"metadata":{"name":"a","name":null}}"#, r#"{"metadata":{"name":"a"}}"#);
    check("core.v1.ConfigMap", r#"{"metadata":{"name":"a","name":""}}"#, r#"{"metadata":{}}"#);
}

#[test]
fn the_head_is_kept_apart() {
    let schema = orch();
    let json = br#"{"apiVersion":"v1","kind":"ConfigMap"}"#;
    let decoded =
        decode_json(schema, schema.find_type("core.v1.ConfigMap").unwrap(), json, Limits::default()).unwrap();
    assert_eq!(decoded.head, Head { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() });
    assert_eq!(decoded.value, json!({"metadata": {}}));
}

#[test]
fn a_nested_object_keeps_its_head() {
    check(
        "apps.v1.StatefulSetSpec",
        r#"{"volumeClaimTemplates":[{"apiVersion":"v1","metadata":{},"kind":"PersistentVolumeClaim"}],"serviceName":"s"}"#,
        r#"{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{},"spec":{"resources":{}},"status":{}}],"serviceName":"s","updateStrategy":{}}"#,
    );
}

#[test]
fn wrong_types_are_errors_with_a_place() {
    for (kind, json, wanted) in [
        ("rbac.v1.Role", r#"{"rules":"x"}"#, "rules: cannot decode a string: expected a list"),
        (
            "rbac.v1.Role",
            r#"{"rules":[{"verbs":"get"}]}"#,
            "rules[0].verbs: cannot decode a string: expected a list",
        ),
        (
            "rbac.v1.Role",
            r#"{"metadata":{"name":5}}"#,
            "metadata.name: cannot decode a number: expected a string",
        ),
        ("rbac.v1.Role", "[]", "the object: cannot decode a list: expected an object"),
        ("core.v1.ConfigMap", r#"{"data":{"a":1}}"#, "data.a: cannot decode a number: expected a string"),
        (
            "core.v1.ConfigMap",
            r#"{"immutable":"yes"}"#,
            "immutable: cannot decode a string: expected a boolean",
        ),
        ("core.v1.ConfigMap", r#"{"kind":5}"#, "kind: cannot decode a number: expected a string"),
        (
            "core.v1.PodSpec",
            r#"{"terminationGracePeriodSeconds":1.5}"#,
            "terminationGracePeriodSeconds: cannot decode the number 1.5: expected a 64-bit integer",
        ),
        (
            "core.v1.PodSpec",
            r#"{"priority":2147483648}"#,
            "priority: cannot decode the number 2147483648: expected a 32-bit integer",
        ),
        ("core.v1.Secret", r#"{"data":{"a":"%"}}"#, "data.a: illegal base64 data"),
    ] {
        assert_eq!(read(kind, json).unwrap_err().to_string(), wanted, "{json}");
    }
    for (kind, json) in [
        ("core.v1.ResourceRequirements", r#"{"limits":{"cpu":"1 Gi"}}"#),
        ("coordination.v1.LeaseSpec", r#"{"renewTime":"2026-01-02T03:04:05Z"}"#),
        ("meta.v1.ObjectMeta", r#"{"creationTimestamp":"yesterday"}"#),
        ("core.v1.HTTPGetAction", r#"{"port":1.5}"#),
        ("apiextensions.v1.JSONSchemaProps", r#"{"maximum":1e999}"#),
    ] {
        assert!(
            matches!(
                read(kind, json),
                Err(DecodeError::Form { .. } | DecodeError::Type { .. } | DecodeError::Quantity(_))
            ),
            "{json}"
        );
    }
}

#[test]
fn text_that_is_not_json_is_refused() {
    for json in [
        "",
        " ",
        "{not json",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":-}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":tru}",
        "{\"a\":nul}",
        "{} x",
        "{}{}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12é\"}",
        "{'a':1}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":NaN}",
        "nil",
        "{\"a\":\"",
        "{\"é",
        "é",
    ] {
        assert!(matches!(read("core.v1.ConfigMap", json), Err(DecodeError::Syntax { .. })), "{json}");
    }
}

#[test]
fn nesting_is_bounded_wherever_it_happens() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    for (kind, json) in [
        ("core.v1.ConfigMap", format!(r#"{{"unknown":{}}}"#, deep("[", "]"))),
        (
            "core.v1.ConfigMap",
            format!(r#"{{"unknown":{}1{}}}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000)),
        ),
        ("apps.v1.ControllerRevision", format!(r#"{{"data":{}}}"#, deep("[", "]"))),
        (
            "apiextensions.v1.JSONSchemaProps",
            format!("{}{}", r#"{"not":"#.repeat(100_000), "}".repeat(100_000)),
        ),
        (
            "apiextensions.v1.JSONSchemaProps",
            format!("{}{}", r#"{"items":"#.repeat(100_000), "}".repeat(100_000)),
        ),
    ] {
        assert_eq!(read(kind, &json), Err(DecodeError::TooDeep { depth_max: 100 }));
    }
}

#[test]
fn bytes_that_are_not_utf_8_become_replacement_characters() {
    let schema = orch();
    let type_id = schema.find_type("core.v1.ConfigMap").unwrap();
    let json = b"{\"data\":{\"a\":\"x\xffy\"}}";
    let decoded = decode_json(schema, type_id, json, Limits::default()).unwrap();
    assert_eq!(decoded.value["data"]["a"], "x\u{fffd}y");
}

#[test]
fn encoding_brings_changed_objects_to_the_canonical_form() {
    let schema = orch();
    let type_id = schema.find_type("core.v1.Pod").unwrap();
    let value = json!({
        "kind": "Pod", "apiVersion": "v1", "nope": 1,
        "status": null,
        "spec": {"hostNetwork": false, "containers": [{"resources": null, "name": "c", "image": ""}], "volumes": []},
        "metadata": {"labels": {"b": "2", "a": "1"}, "annotations": {}},
    });
    let mut out = Vec::new();
    encode_json(schema, type_id, &value, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c","resources":{}}]},"status":{}}"#
    );
}
