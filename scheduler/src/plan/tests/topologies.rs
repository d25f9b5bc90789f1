//! Topologies that a class of volumes allows, in plans.

use serde_json::{Value, json};

use super::answers::{Bench, decode, pod};
use crate::plan::{Change, Object};

/// A cluster with a node `a` in rack 1, and a claim whose class allows these topologies.
fn bench(allowed: &Value) -> Bench {
    let mut bench = Bench::new();
    bench.node("a", "1", json!({ "rack": "1" }));
    let class = json!({
        "metadata": { "name": "c" }, "provisioner": "p.io", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": allowed,
    });
    bench.cluster.apply(Change::Upsert(Object::StorageClass(&decode("StorageClass", &class))));
    bench.claim(
        json!({ "name": "v", "namespace": "ns" }),
        json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "c" }),
        "Pending",
    );
    bench
}

fn claiming() -> Value {
    pod(
        "p",
        json!({}),
        json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "v" } }] }),
    )
}

#[test]
fn a_topology_without_requirements_allows_no_node() {
    let rack = |value: &str| json!({ "matchLabelExpressions": [{ "key": "rack", "values": [value] }] });
    assert_eq!(bench(&json!([])).bound(&claiming()), "a");
    assert_eq!(bench(&json!([{}, rack("1")])).bound(&claiming()), "a");
    for none in [json!([{}]), json!([{}, rack("2")])] {
        let refusal = bench(&none).refused(&claiming());
        let message = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
        assert!(refusal.message.starts_with(message), "{}", refusal.message);
    }
}
