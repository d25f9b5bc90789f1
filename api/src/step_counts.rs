//! Tests that patches and ownership count their steps, and stop when the request is cancelled.
//!
//! One case for each operation. Results of a stopped stage are not checked: callers drop them.

use orch_schema::TypeId;
use orch_schema::budget::stopping::check_stops;
use orch_schema::json;
use orch_schema::testing::orch;
use orch_schema::value::{Map, Value};

use crate::fields::{FieldSet, compare, field_set};
use crate::patch::{JsonPatch, merge_patch, strategic_merge_patch};

/// Number of values in the test documents.
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
