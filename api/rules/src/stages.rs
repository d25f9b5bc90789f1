//! Tests that rules count their steps and stop with their request.
//!
//! Owns one case for each stage. The partial result of a stopped stage is not checked: no caller uses it.

use orch_schema::budget::stopping::check_stops;
use orch_schema::json;
use orch_schema::testing::orch;
use orch_schema::value::{Map, Value};
use orch_schema::{TypeId, apply_defaults};

use crate::kinds::strategy_for;
use crate::kinds::testing::CONTEXT;

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
        crate::validate::validate_object_meta(&metadata, false, orch_schema::NameRule::PathSegment, &path)
    });
}
