//! Golden files: an object stored today must decode, and encode to the same bytes, for ever.
//!
//! Some objects are written by hand: `UPDATE_GOLDEN=1` rewrites their files, and a difference breaks the stored form,
//! which needs a reason. `full` generates an object of every kind with every field of its types; its files are never
//! rewritten. For a new kind or field, `UPDATE_GOLDEN=1` adds files beside the existing ones.

#![expect(clippy::unwrap_used, reason = "a test")]

mod full;

use std::collections::BTreeMap;
use std::path::PathBuf;

use orch_api::registry::Registry;
use orch_proto::brand::ORCH;
use orch_schema::value::Value;
use orch_schema::{Limits, Schema, TypeId, decode_json, decode_protobuf, encode_json, encode_protobuf};

/// Objects as clients send them, by type.
const GIVEN: [(&str, &str); 4] = [
    (
        "core.v1.ConfigMap",
        r#"{"data":{"b":"<&>\u2028é","a":""},"immutable":false,"binaryData":{"k":"AAEC/w=="},
            "metadata":{"name":"c","namespace":"n","uid":"3f1c7b52-0a43-4e5f-9df4-0d4f3a0f1c11","resourceVersion":"17",
            "creationTimestamp":"2026-01-02T03:04:05Z","labels":{"z":"1","a":"2"},"finalizers":["example.com/f"],
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}],
            "managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z",
            "fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:b":{},"f:a":{}}}}]}}"#,
    ),
    (
        "rbac.v1.Role",
        r#"{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods","pods/log"],"verbs":["get"],"resourceNames":[]},{}]}"#,
    ),
    (
        "core.v1.Event",
        r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"n","name":"p","fieldPath":"spec.containers{c}"},
            "reason":"R","message":"m","type":"Normal","count":3,"firstTimestamp":"2026-01-02T05:04:05+02:00",
            "eventTime":"2026-01-02T03:04:05.000006Z","series":{"count":2,"lastObservedTime":"2026-01-02T03:04:06.500000Z"},
            "source":{"component":"kubelet"},"reportingComponent":"c"}"#,
    ),
    (
        "core.v1.Pod",
        r#"{"metadata":{"name":"p","generation":1},"spec":{"volumes":[{"name":"v","emptyDir":{}},{"name":"s","projected":{
            "sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":3600}}],"defaultMode":420}}],
            "containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"protocol":"TCP"}],
            "env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"c","key":"k","optional":true}}},{"name":"B","value":""}],
            "resources":{"requests":{"cpu":0.5,"memory":"1024Mi"}},
            "livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":10},"readinessProbe":{"tcpSocket":{"port":80}},
            "securityContext":{"runAsUser":0,"capabilities":{"drop":["ALL"]}}}],
            "ephemeralContainers":[{"name":"d","image":"i","targetContainerName":"c"}],"enableServiceLinks":false,
            "hostNetwork":false,"terminationGracePeriodSeconds":0,"tolerations":[{"operator":"Exists","tolerationSeconds":300}],
            "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"k","operator":"In","values":["a","b"]}]}]}}}},
            "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}],
            "podIPs":[{"ip":"10.0.0.1"}],"containerStatuses":[{"name":"c","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},
            "ready":true,"started":true}]}}"#,
    ),
];

/// Compares `found` with the file `name`, or rewrites the file.
fn check(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(wanted, found, "{name}");
}

fn hex(bytes: &[u8]) -> String {
    let lines =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n");
    lines.collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The contents of both files of `value`: JSON and hexadecimal Protobuf.
fn encoded(schema: &Schema, type_id: TypeId, value: &Value) -> [String; 2] {
    let (mut json, mut message) = (Vec::new(), Vec::new());
    encode_json(schema, type_id, value, &mut json);
    encode_protobuf(schema, type_id, value, &mut message);
    [String::from_utf8(json).unwrap() + "\n", hex(&message)]
}

/// The folder of the objects with every field.
fn every_kind() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/every_kind")
}

/// The files of a type, oldest first.
fn generations(name: &str) -> Vec<[String; 2]> {
    let read = |at: usize, extension: &str| {
        std::fs::read_to_string(every_kind().join(format!("{name}.{at}.{extension}"))).ok()
    };
    (1..).map_while(|at| Some([read(at, "json")?, read(at, "hex")?])).collect()
}

#[test]
fn stored_objects_are_encoded_as_ever() {
    let schema = Schema::builtin(&ORCH);
    for (name, given) in GIVEN {
        let type_id = schema.find_type(name).unwrap();
        let value = decode_json(&schema, type_id, given.as_bytes(), Limits::default()).unwrap().value;
        let [json, message] = encoded(&schema, type_id, &value);
        check(&format!("{name}.json"), &json);
        check(&format!("{name}.hex"), &message);
    }
}

#[test]
fn stored_objects_decode_as_ever() {
    let schema = Schema::builtin(&ORCH);
    for (name, _) in GIVEN {
        let type_id = schema.find_type(name).unwrap();
        let read = |extension: &str| {
            let path =
                PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.{extension}"));
            std::fs::read_to_string(path).unwrap()
        };
        let from_json = decode_json(&schema, type_id, read("json").as_bytes(), Limits::default()).unwrap();
        assert_eq!(from_json.strict, []);
        let from_message =
            decode_protobuf(&schema, type_id, &unhex(&read("hex")), Limits::default()).unwrap();
        assert_eq!(from_json.value, from_message);
    }
}

#[test]
fn every_field_of_every_kind_is_kept() {
    let registry = Registry::builtin(&ORCH);
    let schema = &registry.schema;
    for resource in registry.resources() {
        let (type_id, name) = (resource.type_id, &schema.get(resource.type_id).name);
        let given = full::object(schema, type_id);
        let value = decode_json(schema, type_id, given.to_string().as_bytes(), Limits::default()).unwrap();
        assert_eq!(value.strict, []);
        let today = encoded(schema, type_id, &value.value);
        let mut kept = generations(name);
        if kept.last() != Some(&today) && std::env::var_os("UPDATE_GOLDEN").is_some() {
            for (extension, text) in ["json", "hex"].into_iter().zip(&today) {
                let file = format!("{name}.{}.{extension}", kept.len() + 1);
                std::fs::write(every_kind().join(file), text).unwrap();
            }
            kept = generations(name);
        }
        assert!(kept.last() == Some(&today), "{name}: no file holds every field; see the head of this test");
    }
}

#[test]
fn whatever_was_ever_stored_reads_and_is_written_the_same() {
    let schema = Schema::builtin(&ORCH);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for file in std::fs::read_dir(every_kind()).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let name = file.trim_end_matches(".json").trim_end_matches(".hex");
        *seen.entry(name.rsplit_once('.').unwrap().0.to_owned()).or_default() += 1;
    }
    assert!(seen.len() > 20, "{seen:?}");
    for (name, files) in seen {
        let type_id = schema.find_type(&name).unwrap_or_else(|| panic!("{name} is no longer a type"));
        let generations = generations(&name);
        assert_eq!(files, 2 * generations.len(), "{name}: generations are counted from 1, in pairs");
        for [json, message] in generations {
            let from_json = decode_json(&schema, type_id, json.as_bytes(), Limits::default()).unwrap();
            assert_eq!(from_json.strict, [], "{name}");
            let from_message =
                decode_protobuf(&schema, type_id, &unhex(&message), Limits::default()).unwrap();
            assert_eq!(from_json.value, from_message, "{name}");
            assert_eq!(encoded(&schema, type_id, &from_message), [json, message], "{name}");
        }
    }
}
