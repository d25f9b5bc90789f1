//! Strategic merge patch.

use super::*;

fn patched(kind: &str, target: Value, patch: Value) -> Result<Value, PatchError> {
    let mut target = target;
    strategic_merge_patch(schema(), root(kind), &mut target, patch)?;
    Ok(target)
}

fn check(kind: &str, target: Value, patch: Value, expected: Value) {
    assert_eq!(patched(kind, target, patch.clone()), Ok(expected), "{patch}");
}

fn refused(kind: &str, target: Value, patch: Value, message: &str) {
    let error = patched(kind, target, patch.clone()).unwrap_err();
    assert_eq!(error.to_string(), message, "{patch}");
}

/// A pod with containers as `name=image` words.
fn pod(containers: &str) -> Value {
    let containers: Vec<Value> = containers
        .split_whitespace()
        .map(|word| {
            let (name, image) = word.split_once('=').unwrap();
            json!({"name": name, "image": image})
        })
        .collect();
    json!({"spec": {"containers": containers}})
}

fn finalizers(text: &str) -> Value {
    json!({"metadata": {"finalizers": text.split_whitespace().collect::<Vec<_>>()}})
}

#[test]
fn maps_merge_and_null_removes() {
    let target = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "data": {"x": "1"}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "data": null});
    check("ConfigMap", target, patch, json!({"metadata": {"labels": {"b": "2", "c": "3"}}}));
    check("ConfigMap", json!({}), json!({"data": {"a": null, "b": "1"}}), json!({"data": {"b": "1"}}));
}

#[test]
fn directive_replaces_or_empties_a_map() {
    let target = json!({"data": {"x": "1"}});
    check(
        "ConfigMap",
        target.clone(),
        json!({"data": {"$patch": "replace", "y": "2"}}),
        json!({"data": {"y": "2"}}),
    );
    check("ConfigMap", target.clone(), json!({"data": {"$patch": "delete"}}), json!({"data": {}}));
    check("ConfigMap", json!({}), json!({"data": {"$patch": "delete"}}), json!({}));
    refused(
        "ConfigMap",
        target.clone(),
        json!({"data": {"$patch": "merge", "b": "1"}}),
        "unknown patch type: merge in map: map[$patch:merge b:1]",
    );
    refused(
        "ConfigMap",
        target,
        json!({"data": {"$patch": 7}}),
        "unknown patch type: 7 in map: map[$patch:7]",
    );
}

#[test]
fn lists_without_strategy_are_replaced() {
    let rules = |verb: &str| json!({"rules": [{"verbs": [verb]}]});
    check("Role", rules("get"), rules("list"), rules("list"));
}

#[test]
fn keyed_lists_merge_item_by_item_and_new_items_come_first() {
    check("Pod", pod("a=1 b=1"), pod("b=2"), pod("a=1 b=2"));
    check("Pod", pod("a=1 b=1"), pod("c=1"), pod("c=1 a=1 b=1"));
    check("Pod", pod("a=1 b=1"), pod("b=2 c=1"), pod("a=1 b=2 c=1"));
    check("Pod", json!({"spec": {}}), pod("a=1"), pod("a=1"));
}

#[test]
fn directive_deletes_an_item_or_replaces_the_list() {
    let delete = json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
    check("Pod", pod("a=1 b=1"), delete.clone(), pod("b=1"));
    check("Pod", json!({"spec": {}}), delete, json!({"spec": {"containers": []}}));
    let replace = json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}});
    check("Pod", pod("a=1 b=1"), replace, json!({"spec": {"containers": [{"name": "c"}]}}));
}

#[test]
fn items_without_their_key_are_named() {
    let patch = json!({"spec": {"containers": [{"image": "x", "env": [{"name": "A"}]}]}});
    let message = "map: map[env:[map[name:A]] image:x] does not contain declared merge key: name";
    refused("Pod", pod("a=1"), patch, message);
    let patch = json!({"spec": {"containers": [{"$patch": "delete"}]}});
    refused("Pod", pod("a=1"), patch, "map: map[$patch:delete] does not contain declared merge key: name");
    let patch = json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}});
    refused("Pod", pod("a=1"), patch, "merging lists cannot yet be specified in the patch");
}

#[test]
fn sets_merge_without_duplicates() {
    check("ConfigMap", finalizers("a b"), finalizers("b c"), finalizers("a b c"));
    check("ConfigMap", finalizers("a b"), finalizers("b a"), finalizers("b a"));
}

#[test]
fn items_of_a_set_are_deleted_by_a_parallel_list() {
    let delete = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}});
    check("ConfigMap", finalizers("a b"), delete.clone(), finalizers("b"));
    check("ConfigMap", json!({"metadata": {}}), delete, json!({"metadata": {}}));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList": ["a"]}});
    refused("ConfigMap", finalizers("a"), patch, "invalid patch format of primitive list");
}

#[test]
fn order_directive_orders_the_merged_list() {
    let ordered = |patch: Value, order: &str| {
        let order: Vec<Value> = order.split_whitespace().map(|name| json!({"name": name})).collect();
        let mut patch = patch;
        patch["spec"]["$setElementOrder/containers"] = Value::Array(order);
        patch
    };
    check("Pod", pod("a=1 b=1"), ordered(pod("c=1"), "a b c"), pod("a=1 b=1 c=1"));
    check("Pod", pod("a=1 b=1 s=1"), ordered(json!({"spec": {}}), "b a"), pod("b=1 a=1 s=1"));
    check("Pod", pod("s=1 a=1 b=1"), ordered(json!({"spec": {}}), "b a"), pod("s=1 b=1 a=1"));
    check("Pod", json!({"spec": {}}), ordered(pod("a=1 b=1"), "a b"), pod("a=1 b=1"));
    check("Pod", json!({"spec": {}}), ordered(json!({"spec": {}}), "a b"), json!({"spec": {}}));
    let message = "The order in patch list:\n[map[image:1 name:b] map[image:1 name:a]]\n \
                   doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n";
    refused("Pod", pod("a=1"), ordered(pod("b=1 a=1"), "a b"), message);
    let mut bad = pod("a=1");
    bad["spec"]["$setElementOrder/containers"] = json!("x");
    refused("Pod", pod("a=1"), bad, "expected a []interface {}, but received a string");
    let bad = json!({"spec": {"$setElementOrder": []}});
    refused("Pod", pod("a=1"), bad, "invalid patch format of setElementOrder list");
}

#[test]
fn order_directive_works_for_sets() {
    let patch = json!({"metadata": {"finalizers": ["c"], "$setElementOrder/finalizers": ["c", "a"]}});
    check("ConfigMap", finalizers("a b"), patch, finalizers("c a b"));
}

#[test]
fn retained_keys_drop_the_others() {
    let target = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    check("Deployment", target.clone(), patch, json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    refused("Deployment", target.clone(), patch, "invalid patch format of retainKeys");
    let patch = json!({"spec": {"strategy": {"$retainKeys": "type"}}});
    refused("Deployment", target, patch, "invalid patch format of retainKeys");
}

#[test]
fn odd_lists_are_refused() {
    let patch = json!({"metadata": {"finalizers": [1]}});
    let message = "list element types are not identical: [[a] [1]]";
    refused("ConfigMap", finalizers("a"), patch, message);
    let error =
        patched("ConfigMap", finalizers(""), json!({"metadata": {"finalizers": [["a"]]}})).unwrap_err();
    assert_eq!(error, PatchError::CannotApply("lists of lists are not supported".to_owned()));
    let patch = json!({"metadata": {"finalizers": [null, "a"]}});
    assert!(patched("ConfigMap", finalizers("a"), patch).is_err());
}

#[test]
fn inlined_fields_are_found() {
    let volume = |source: Value| json!({"spec": {"volumes": [source]}});
    check(
        "Pod",
        volume(json!({"name": "v", "emptyDir": {"medium": "a"}})),
        volume(json!({"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}})),
        volume(json!({"name": "v", "hostPath": {"path": "/"}})),
    );
}

#[test]
fn untyped_content_merges_like_a_merge_patch() {
    let target = json!({"data": {"a": {"b": 1}, "l": [1]}});
    let patch = json!({"data": {"a": {"c": 2, "b": null}, "l": [2]}});
    check("ControllerRevision", target, patch, json!({"data": {"a": {"c": 2}, "l": [2]}}));
}

#[test]
fn recorded_patch_of_a_deployment_gives_the_recorded_object() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tests/vectors/patch.json");
    let scenarios: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let scenario =
        scenarios.as_array().unwrap().iter().find(|s| s["name"] == "strategic-deployment").unwrap();
    let steps = scenario["steps"].as_array().unwrap();
    let mut live = steps[1]["expect"]["body"].clone();
    let mut seen = 0;
    for step in &steps[2..5] {
        let result = patched("Deployment", live.clone(), step["body"].clone());
        if step["expect"]["status"] == "4xx" {
            assert!(result.is_err());
            continue;
        }
        let spec = result.unwrap()["spec"].clone();
        let expected = &step["expect"]["body"];
        // The store's encoding leaves out empty lists.
        let text = spec.to_string().replace(r#","env":[]"#, "").replace(r#""env":[],"#, "");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected["spec"]);
        live = expected.clone();
        seen += 1;
    }
    assert_eq!(seen, 2);
}
