//! That every stage of a request counts its steps, and ends when the request does.
//!
//! Owns one case for each stage below the pipeline. What a stage leaves when it is stopped is not looked at: nobody does.

use crate::budget::stopping::check_stops;
use crate::fields::{FieldSet, compare, field_set};
use crate::json;
use crate::kinds::strategy_for;
use crate::kinds::testing::CONTEXT;
use crate::patch::{JsonPatch, merge_patch, strategic_merge_patch};
use crate::schema::tests::orch;
use crate::schema::value::{Map, Value};
use crate::schema::{
    Limits, TypeId, apply_defaults, decode_json, decode_value, encode_json, encode_protobuf, write_value,
    write_yaml, yaml_value,
};

/// Values in the documents of these tests.
const VALUES: u64 = 30_000;

fn id(name: &str) -> TypeId {
    orch().named(name).unwrap()
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
    check_stops("a value", VALUES, || decode_value(orch(), id("core.v1.Pod"), &pod, Limits::patched()));
    let lines: String = (0..VALUES).map(|at| format!("k{at}: v\n")).collect();
    check_stops("YAML", VALUES, || yaml_value(orch(), lines.as_bytes()));
    check_stops("YAML that is JSON", VALUES, || yaml_value(orch(), map_json.as_bytes()));
    let mut message = Vec::new();
    encode_protobuf(orch(), id("core.v1.Pod"), &pod, &mut message);
    check_stops("Protobuf", VALUES, || {
        crate::schema::decode_protobuf(orch(), id("core.v1.Pod"), &message, Limits::patched())
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

#[test]
fn patches_end() {
    let (map, pod) = (map("v"), pod("i"));
    let merged = || merge_patch(&mut json!({}), map.clone());
    check_stops("merge patch", VALUES, merged);
    let strategic = |name: &str, target: &Value, patch: &Value| {
        strategic_merge_patch(orch(), id(name), &mut target.clone(), patch.clone()).is_ok()
    };
    check_stops("strategic patch of a map", VALUES, || strategic("core.v1.ConfigMap", &map, &map));
    check_stops("strategic patch of a list", VALUES, || strategic("core.v1.Pod", &pod, &pod));
    check_stops("strategic patch of nothing", VALUES, || strategic("core.v1.Pod", &json!({}), &pod));
    let tests: Vec<Value> =
        (0..9_000).map(|_| json!({"op": "test", "path": "/metadata/name", "value": "m"})).collect();
    check_stops("JSON patch, operations", 9_000, || {
        JsonPatch::parse(tests.clone().into()).unwrap().apply(&mut map.clone())
    });
    let deeper = json!([{"op": "move", "from": "/data", "path": "/metadata/annotations"}]);
    check_stops("JSON patch, a large value", VALUES, || {
        JsonPatch::parse(deeper.clone()).unwrap().apply(&mut map.clone())
    });
}

#[test]
fn ownership_ends() {
    for (name, old, new) in [("core.v1.ConfigMap", map("v"), map("w")), ("core.v1.Pod", pod("i"), pod("j"))] {
        check_stops("field set", VALUES, || field_set(orch(), id(name), &new));
        check_stops("comparison", VALUES, || compare(orch(), id(name), &old, &new));
        let set = field_set(orch(), id(name), &new).unwrap();
        let wire = set.to_fields_v1();
        check_stops("set to wire", VALUES, || set.to_fields_v1());
        check_stops("set from wire", VALUES, || FieldSet::from_fields_v1(&wire));
        check_stops("intersection", VALUES, || set.intersection(&set));
        check_stops("difference", VALUES, || set.clone().subtract(&set));
        check_stops("union", VALUES, || {
            let mut all = set.clone();
            all.unite(set.clone());
        });
    }
}

#[test]
fn validation_ends() {
    for (resource, object) in [("configmaps", map("v")), ("pods", pod("i"))] {
        let (strategy, mut object) = (strategy_for(resource).unwrap(), object);
        let name = if resource == "pods" { "core.v1.Pod" } else { "core.v1.ConfigMap" };
        apply_defaults(orch(), id(name), &mut object);
        strategy.default(&CONTEXT, &mut object);
        check_stops(resource, VALUES, || strategy.validate_create(&CONTEXT, &object));
    }
    let labels: Map = (0..VALUES).map(|at| (format!("k{at}"), json!("v"))).collect();
    let path = crate::validate::Path::new("metadata");
    let metadata = json!({"name": "m", "annotations": labels});
    check_stops("metadata", VALUES, || {
        crate::validate::validate_object_meta(&metadata, false, crate::kinds::NameRule::PathSegment, &path)
    });
}
