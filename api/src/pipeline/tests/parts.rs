//! Patches of only the members that they reach: the same objects as patches of whole objects.

use std::cell::Cell;

use orch_raft::Store;
use orch_rules::validate::WriteKind;
use orch_schema::value::Map;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::patch_body::{Parsed, parse_patch};
use super::*;
use crate::exchange::Exchange;

/// Members that the objects below have or lack.
const NAMES: [&str; 24] = [
    "metadata",
    "labels",
    "annotations",
    "finalizers",
    "managedFields",
    "name",
    "kind",
    "apiVersion",
    "uid",
    "spec",
    "data",
    "binaryData",
    "immutable",
    "containers",
    "securityContext",
    "runAsUser",
    "nodeSelector",
    "affinity",
    "a",
    "b",
    "$patch",
    "$retainKeys",
    "$deleteFromPrimitiveList/finalizers",
    "unknown",
];

fn objects() -> Vec<(&'static str, Value)> {
    let metadata = json!({"name": "o", "labels": {"a": "1", "b": "2"}, "annotations": {"a": "x"}, "finalizers": ["x/y"]});
    let container =
        json!({"name": "c", "image": "i", "securityContext": {"runAsUser": 1}, "env": [{"name": "a"}]});
    let spec = json!({
        "containers": [container], "nodeSelector": {"a": "1"}, "securityContext": {"runAsUser": 7, "fsGroup": 8},
        "affinity": {"nodeAffinity": {}}, "volumes": [{"name": "a", "emptyDir": {}}],
    });
    vec![
        (MAPS, json!({"metadata": metadata, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}})),
        (PODS, json!({"metadata": metadata, "spec": spec})),
        (DEPLOYMENTS, deployment("o")),
    ]
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn leaf() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!({}),
        json!([]),
        json!(""),
        json!("x"),
        json!("o"),
        json!("v1"),
        json!(7),
        json!(0),
        json!(true),
        json!(["x/y", "a/b"]),
        json!([{"name": "c", "image": "j"}]),
        json!({"a": "9"}),
        json!({"b": null}),
        json!({"runAsUser": 9}),
    ])
}

fn document() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        proptest::collection::hash_map(name(), inner, 1..4).prop_map(|map| map.into_iter().collect())
    })
}

/// Merge patches at paths that the objects have.
fn patch() -> impl Strategy<Value = Value> {
    let at = |path: &'static [&'static str]| {
        prop_oneof![3 => leaf(), 1 => document()]
            .prop_map(move |value| path.iter().rev().fold(value, |value, name| json!({*name: value})))
    };
    prop_oneof![
        at(&[]),
        at(&["metadata"]),
        at(&["metadata", "labels"]),
        at(&["metadata", "annotations"]),
        at(&["data"]),
        at(&["data", "a"]),
        at(&["spec"]),
        at(&["spec", "securityContext"]),
        at(&["spec", "nodeSelector"]),
        at(&["spec", "template", "spec"]),
    ]
}

fn pointer() -> impl Strategy<Value = String> {
    let known = select(vec![
        "",
        "/metadata/labels",
        "/metadata/labels/a",
        "/metadata/annotations/a",
        "/metadata/finalizers/0",
        "/data",
        "/data/a",
        "/data/b",
        "/data/c",
        "/binaryData",
        "/spec/nodeSelector",
        "/spec/nodeSelector/a",
        "/spec/securityContext/runAsUser",
        "/spec/containers/0/image",
        "/spec/containers/-",
        "/spec/replicas",
        "/spec/template/metadata/labels/b",
        "/immutable",
        "/metadata/managedFields",
        "/metadata/managedFields/0/time",
    ]);
    let made = proptest::collection::vec(name(), 1..4).prop_map(|steps| format!("/{}", steps.join("/")));
    prop_oneof![5 => known.prop_map(str::to_owned), 1 => made]
}

fn operations() -> impl Strategy<Value = Value> {
    let op = select(&["add", "add", "remove", "replace", "replace", "move", "copy", "test"][..]);
    let operation = (op, pointer(), pointer(), leaf())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    proptest::collection::vec(operation, 1..3).prop_map(Value::Array)
}

/// The result of both paths; `None`: the patch needs the full path.
fn both_ways(server: &Server, path: &str, content_type: &str, patch: &Value) -> Option<(Value, Vec<String>)> {
    let TargetPath::Resource(target) = parse_path(path) else { panic!("{path} names no resource") };
    let pipeline = &server.pipeline;
    let registry = pipeline.registry();
    let Endpoint { resource, action } = registry.endpoint(&target).unwrap();
    let request = Request {
        verb: Verb::Patch,
        registry: &registry,
        target: &target,
        resource,
        action,
        query: &Query::parse(""),
        exchange: &Exchange::internal(),
        user: &User::local_admin(),
        user_agent: "agent/1",
        content_type,
        body: &Bytes::from(patch.to_string()),
        budget: &Budget::default(),
    };
    let state = pipeline.store.state();
    let stored = super::super::stored::tree_of(state.object(&request.key().unwrap()).unwrap()).unwrap();
    let options = pipeline.write_options(request, WriteKind::Plain).unwrap();
    let parsed = || -> Option<Parsed> { parse_patch(request, content_type).ok() };
    let scope = pipeline.scope(request, &parsed()?.patch)?;
    let part = pipeline.patched_part(request, parsed()?, &stored, &scope, options.field_validation)?;
    let whole = pipeline.patched_whole(request, &options, parsed()?, stored.clone());
    let whole = whole.unwrap_or_else(|error| panic!("{content_type} {patch}: {error}"));
    assert_eq!(part.value, whole.value, "{content_type} {patch} of {stored}");
    assert_eq!(part.warnings, whole.warnings, "{content_type} {patch}");
    Some((stored, whole.warnings))
}

#[tokio::test(start_paused = true)]
async fn patches_by_parts_make_what_patches_of_whole_objects_make() {
    let server = Server::new().await;
    for (collection, mut object) in objects() {
        object["metadata"]["name"] = json!("o");
        server.create(collection, object).await;
    }
    let parts = Cell::new(0);
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let collections = select(vec![MAPS, PODS, DEPLOYMENTS]);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let done = runner.run(&(collections, patch(), operations()), |(collection, patch, operations)| {
        let path = format!("{collection}/o");
        for (content_type, patch) in [(MERGE, &patch), (STRATEGIC, &patch), (JSON_PATCH, &operations)] {
            parts.set(parts.get() + usize::from(both_ways(&server, &path, content_type, patch).is_some()));
        }
        Ok(())
    });
    done.unwrap();
    assert!(parts.get() > 500, "{} patches went by parts", parts.get());
}

#[tokio::test(start_paused = true)]
async fn a_small_patch_of_a_large_object_decodes_what_it_reaches() {
    let server = Server::new().await;
    let data: Map = (0..5000).map(|at| (format!("k{at}"), json!("v"))).collect();
    server.create(MAPS, json!({"metadata": {"name": "o", "labels": {"a": "b"}}, "data": data})).await;
    let path = format!("{MAPS}/o");
    let label = json!([{"op": "replace", "path": "/metadata/labels/a", "value": "c"}]);
    for (content_type, patch) in [
        (MERGE, json!({"metadata": {"labels": {"a": "c"}}})),
        (MERGE, json!({"data": {"k7": null, "k8": "w"}})),
        (STRATEGIC, json!({"metadata": {"labels": {"a": "c"}}})),
        (JSON_PATCH, label),
    ] {
        assert!(both_ways(&server, &path, content_type, &patch).is_some(), "{content_type} {patch}");
    }
    for (content_type, patch) in [
        (MERGE, json!({"metadata": {"labels": {"a": null}}})),
        (MERGE, json!({"unknown": 1})),
        (MERGE, json!({"data": {"k7": 7}})),
        (STRATEGIC, json!({"$patch": "replace"})),
        (JSON_PATCH, json!([{"op": "test", "path": "/data/k7", "value": "w"}])),
    ] {
        assert!(both_ways(&server, &path, content_type, &patch).is_none(), "{content_type} {patch}");
    }
}
