//! Tests that every codec counts its steps and stops with its request.
//!
//! Owns one case for each codec. The partial result of a stopped stage is not checked: no caller uses it.

use crate::budget::stopping::check_stops;
use crate::json;
use crate::testing::orch;
use crate::value::{Map, Value};
use crate::{
    Limits, TypeId, apply_defaults, decode_json, encode_json, encode_protobuf, write_value, write_yaml,
    yaml_value,
};

/// Values in the documents of these tests.
const VALUES: u64 = 30_000;

fn id(name: &str) -> TypeId {
    orch().find_type(name).unwrap()
}

fn map(value: &str) -> Value {
    let data: Map = (0..VALUES).map(|at| (format!("k{at}"), json!(value))).collect();
    json!({"metadata": {"name": "m", "namespace": "ns"}, "data": data})
}

fn pod(image: &str) -> Value {
    let containers = (0..VALUES).map(|at| json!({"name": format!("c{at}"), "image": image}));
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers.collect::<Vec<_>>()}})
}

#[test]
fn decoding_ends() {
    let (map, pod) = (map("v"), pod("i"));
    let (map_json, pod_json) = (map.to_string(), pod.to_string());
    let decode =
        |name: &str, json: &str| decode_json(orch(), id(name), json.as_bytes(), Limits::patched()).is_ok();
    check_stops("JSON, a map", VALUES, || decode("core.v1.ConfigMap", &map_json));
    check_stops("JSON, a list", VALUES, || decode("core.v1.Pod", &pod_json));
    check_stops("JSON that is dropped", VALUES, || decode("core.v1.Pod", &map_json.replace("data", "nope")));
    let lines: String = (0..VALUES).map(|at| format!("k{at}: v\n")).collect();
    check_stops("YAML", VALUES, || yaml_value(orch(), lines.as_bytes()));
    check_stops("YAML that is JSON", VALUES, || yaml_value(orch(), map_json.as_bytes()));
    let mut message = Vec::new();
    encode_protobuf(orch(), id("core.v1.Pod"), &pod, &mut message);
    check_stops("Protobuf", VALUES, || {
        crate::decode_protobuf(orch(), id("core.v1.Pod"), &message, Limits::patched())
    });
}

#[test]
fn defaults_end() {
    let mut pod = pod("i");
    check_stops("defaults", VALUES, || apply_defaults(orch(), id("core.v1.Pod"), &mut pod));
}

#[test]
fn encoding_ends() {
    let (map, pod) = (map("v"), pod("i"));
    for (name, value) in [("core.v1.ConfigMap", &map), ("core.v1.Pod", &pod)] {
        check_stops("to JSON", VALUES, || encode_json(orch(), id(name), value, &mut Vec::new()));
        check_stops("to Protobuf", VALUES, || encode_protobuf(orch(), id(name), value, &mut Vec::new()));
        check_stops("to YAML", VALUES, || write_yaml(value, &mut Vec::new()));
        check_stops("a value to JSON", VALUES, || write_value(value, &mut Vec::new()));
    }
}
