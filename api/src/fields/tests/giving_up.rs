//! Applying less than before.

use orch_proto::brand::ORCH;

use super::*;

fn apply_by(manager: &'static str, root: TypeId, live: Option<Value>, config: &Value) -> Value {
    let options = ApplyOptions { force: false, brand: &ORCH };
    apply(schema(), root, live, config, &writer(manager), options).unwrap()
}

#[test]
fn the_last_member_of_metadata_can_be_given_up_in_every_kind() {
    let members = [
        ("labels", json!({"team": "a"})),
        ("annotations", json!({"note": "a"})),
        ("finalizers", json!(["example.com/hold"])),
        ("ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}])),
    ];
    for resource in schema().resources() {
        if schema().get(resource.type_id).field("metadata").is_none() {
            continue;
        }
        for (name, value) in &members {
            let mut config = json!({"metadata": {"name": "o"}});
            let without = config.clone();
            config["metadata"][*name] = value.clone();
            let mut live = apply_by("me", resource.type_id, None, &config);
            live["metadata"]["uid"] = "u".into();
            let after = apply_by("me", resource.type_id, Some(live), &without);
            assert_eq!(after, json!({"metadata": {"name": "o", "uid": "u"}}), "{} {name}", resource.kind);
        }
    }
}

#[test]
fn an_object_stays_when_only_its_members_are_given_up() {
    let root = root("Pod");
    let pod = |dir: Value| json!({"metadata": {"name": "o"}, "spec": {"volumes": [{"name": "v", "emptyDir": dir}]}});
    let live = apply_by("me", root, None, &pod(json!({"sizeLimit": "1Gi"})));
    assert_eq!(apply_by("me", root, Some(live), &pod(json!({})))["spec"], pod(json!({}))["spec"]);
}

#[test]
fn an_item_that_another_manager_owns_keeps_its_keys() {
    let root = root("Pod");
    let config = json!({"metadata": {"name": "o"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut live = apply_by("me", root, None, &config);
    // The item itself belongs to another manager, its members do not.
    let sets = [json!({"f:image": {}, "f:name": {}}), json!({".": {}})];
    let mut entries = vec![live["metadata"]["managedFields"][0].clone(); 2];
    for (entry, set) in entries.iter_mut().zip(sets) {
        entry["fieldsV1"] = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": set}}});
    }
    entries[1]["manager"] = "them".into();
    live["metadata"]["managedFields"] = Value::Array(entries);
    let after =
        apply_by("me", root, Some(live), &json!({"metadata": {"name": "o"}, "spec": {"hostname": "h"}}));
    assert_eq!(after["spec"], json!({"containers": [{"name": "c"}], "hostname": "h"}));
}
