//! Managed fields after a create, an update or a patch.

use super::*;

/// Tracks `new` over `live` as `manager`; returns each entry as `manager/operation/subresource time fields`.
fn after(live: Option<&Value>, new: &mut Value, manager: &str, now: &str) -> Vec<String> {
    let root = root("ConfigMap");
    let writer = Writer { manager, now, ..writer("") };
    track_update(schema(), root, live, new, &writer).unwrap();
    listed(new)
}

fn listed(object: &Value) -> Vec<String> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|e| {
            format!("{}/{} {} {}", text(e, "manager"), text(e, "operation"), text(e, "time"), e["fieldsV1"])
        })
        .collect()
}

fn map(data: Value) -> Value {
    json!({"metadata": {"name": "m", "uid": "u"}, "data": data})
}

/// An object stored by `manager` at time `1`.
fn stored(data: Value, manager: &str) -> Value {
    let mut object = map(data);
    after(None, &mut object, manager, "1");
    object
}

#[test]
fn creator_owns_all_it_sent() {
    assert_eq!(listed(&stored(json!({"a": "1"}), "x")), [r#"x/Update 1 {"f:data":{".":{},"f:a":{}}}"#]);
}

#[test]
fn identity_is_never_owned() {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "m", "namespace": "n", "uid": "u", "resourceVersion": "1", "creationTimestamp": "t",
        "generation": 1, "generateName": "g", "finalizers": ["f"], "labels": {"l": "1"}
    }});
    let expected = r#"x/Update 1 {"f:metadata":{"f:finalizers":{".":{},"v:\"f\"":{}},"f:generateName":{},"f:labels":{".":{},"f:l":{}}}}"#;
    assert_eq!(after(None, &mut object, "x", "1"), [expected]);
}

#[test]
fn changed_field_moves_to_who_changed_it() {
    let live = stored(json!({"a": "1", "b": "1"}), "x");
    let mut new = map(json!({"a": "2", "b": "1"}));
    assert_eq!(
        after(Some(&live), &mut new, "y", "2"),
        [r#"x/Update 1 {"f:data":{".":{},"f:b":{}}}"#, r#"y/Update 2 {"f:data":{"f:a":{}}}"#]
    );
}

#[test]
fn removed_field_is_taken_from_everyone_and_leaves_times_alone() {
    let live = stored(json!({"a": "1", "b": "1"}), "x");
    let mut new = map(json!({"b": "1"}));
    assert_eq!(after(Some(&live), &mut new, "x", "2"), [r#"x/Update 1 {"f:data":{".":{},"f:b":{}}}"#]);
    let mut emptied = json!({"metadata": {"name": "m", "uid": "u"}});
    assert_eq!(after(Some(&live), &mut emptied, "x", "2"), Vec::<String>::new());
    assert_eq!(emptied, json!({"metadata": {"name": "m", "uid": "u"}}));
}

#[test]
fn same_content_keeps_the_managers_as_they_are() {
    let live = stored(json!({"a": "1"}), "x");
    let mut new = live.clone();
    after(Some(&live), &mut new, "y", "2");
    assert_eq!(new, live);
    let mut without = map(json!({"a": "1"}));
    after(Some(&live), &mut without, "y", "2");
    assert_eq!(without, live);
}

#[test]
fn own_field_changed_again_only_moves_the_time() {
    let live = stored(json!({"a": "1", "b": "1"}), "x");
    let mut new = map(json!({"a": "2", "b": "1"}));
    assert_eq!(
        after(Some(&live), &mut new, "x", "2"),
        [r#"x/Update 2 {"f:data":{".":{},"f:a":{},"f:b":{}}}"#]
    );
}

#[test]
fn empty_list_forgets_all_owners_and_then_nobody_is_tracked() {
    let live = stored(json!({"a": "1"}), "x");
    for reset in [json!([]), json!([{}])] {
        let mut new = map(json!({"a": "2"}));
        new["metadata"]["managedFields"] = reset;
        assert_eq!(after(Some(&live), &mut new, "x", "2"), Vec::<String>::new());
        let mut next = map(json!({"a": "3"}));
        assert_eq!(after(Some(&new), &mut next, "x", "3"), Vec::<String>::new());
    }
}

#[test]
fn sent_managers_replace_the_stored_ones_if_readable() {
    let live = stored(json!({"a": "1"}), "x");
    let entry = |fields: Value| json!([{"manager": "z", "operation": "Update", "apiVersion": "v1", "time": "0", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let mut new = map(json!({"a": "1"}));
    new["metadata"]["managedFields"] = entry(json!({"f:data": {"f:a": {}}}));
    assert_eq!(after(Some(&live), &mut new, "x", "2"), [r#"z/Update 0 {"f:data":{"f:a":{}}}"#]);
    for unreadable in
        [entry(json!({"bad": {}})), entry(json!({"f:a": 1})), json!([{"operation": "Update"}]), json!([7])]
    {
        let mut new = map(json!({"a": "1"}));
        new["metadata"]["managedFields"] = unreadable;
        assert_eq!(after(Some(&live), &mut new, "x", "2"), listed(&live));
    }
}

#[test]
fn subresource_ignores_sent_managers_and_has_its_own_entry() {
    let root = root("Pod");
    let mut live = json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n"}});
    track_update(schema(), root, None, &mut live, &writer("kubelet")).unwrap();
    let mut new = json!({"metadata": {"uid": "u", "managedFields": []}, "spec": {"nodeName": "other"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let status = Writer { subresource: "status", reset: &["spec".to_owned()], ..writer("kubelet") };
    track_update(schema(), root, Some(&live), &mut new, &status).unwrap();
    let managed = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managed.len(), 2);
    assert_eq!(managed[0]["fieldsV1"], json!({"f:spec": {"f:nodeName": {}}}));
    assert_eq!(managed[1]["subresource"], "status");
    let condition =
        json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}});
    assert_eq!(
        managed[1]["fieldsV1"],
        json!({"f:status": {"f:conditions": {".": {}, "k:{\"type\":\"Ready\"}": condition}}})
    );
}

#[test]
fn eleventh_update_manager_is_folded_with_the_oldest() {
    let mut live = stored(json!({"k0": "1"}), "m0");
    for at in 1..12 {
        let mut new = live.clone();
        new["data"][&*format!("k{at}")] = "1".into();
        after(Some(&live), &mut new, &format!("m{at}"), &format!("t{at:02}"));
        live = new;
    }
    let managers = listed(&live);
    assert_eq!(managers.len(), UPDATE_MANAGERS_MAX);
    assert_eq!(
        managers[0],
        r#"ancient-changes/Update t02 {"f:data":{".":{},"f:k0":{},"f:k1":{},"f:k2":{}}}"#
    );
    assert!(managers[1].starts_with("m3/"));
}

#[test]
fn duplicate_items_are_owned_as_one() {
    let root = root("Pod");
    let env = |items: Value| json!({"spec": {"containers": [{"name": "c", "env": items}]}});
    let twice = env(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]));
    let once = env(json!([{"name": "A", "value": "1"}]));
    let added = compare(schema(), root, &env(json!([])), &twice).unwrap();
    let changed = compare(schema(), root, &once, &twice).unwrap();
    let back = compare(schema(), root, &twice, &once).unwrap();
    let at = |env: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:env": env}}}});
    let item = "k:{\"name\":\"A\"}";
    assert_eq!(added.changed.to_fields_v1(), at(json!({item: {}})));
    assert_eq!(changed.changed.to_fields_v1(), at(json!({item: {}})));
    assert_eq!(changed.removed.to_fields_v1(), at(json!({item: {"f:name": {}, "f:value": {}, ".": {}}})));
    assert_eq!(back.removed.to_fields_v1(), at(json!({item: {}})));
    assert_eq!(back.changed.to_fields_v1(), at(json!({item: {"f:name": {}, "f:value": {}, ".": {}}})));
}

#[test]
fn items_without_keys_keep_the_stored_managers() {
    let root = root("Pod");
    let mut live = json!({"metadata": {"uid": "u"}, "spec": {"nodeName": "n"}});
    track_update(schema(), root, None, &mut live, &writer("x")).unwrap();
    let mut new = json!({"metadata": {"uid": "u"}, "spec": {"hostAliases": [{"hostnames": ["h"]}]}});
    let error = track_update(schema(), root, Some(&live), &mut new, &writer("x")).unwrap_err();
    assert!(error.to_string().contains(r#"omits all key fields ["ip"]"#), "{error}");
    assert_eq!(new["metadata"]["managedFields"], live["metadata"]["managedFields"]);
}

#[test]
fn untyped_content_is_owned_key_by_key_and_lists_as_one() {
    let root = schema().find_type("apiextensions.v1.JSONSchemaProps").unwrap();
    let object = |default: Value| json!({"default": default});
    let changed = |old: Value, new: Value| {
        let Comparison { changed, removed } = compare(schema(), root, &object(old), &object(new)).unwrap();
        (changed.to_fields_v1()["f:default"].clone(), removed.to_fields_v1()["f:default"].clone())
    };
    let none = Value::Null;
    assert_eq!(
        changed(json!({"a": {"b": 1}}), json!({"a": {"b": 2}})),
        (json!({"f:a": {"f:b": {}}}), none.clone())
    );
    assert_eq!(changed(json!({"a": [1]}), json!({"a": [1, 2]})), (json!({"f:a": {}}), none.clone()));
    assert_eq!(changed(json!({"a": 1}), json!({"a": 1.0})), (none.clone(), none.clone()));
    assert_eq!(
        changed(json!({"a": {"b": 1}}), json!({"a": 1})),
        (json!({"f:a": {}}), json!({"f:a": {"f:b": {}}}))
    );
    assert_eq!(
        changed(json!({"a": 1}), json!({"a": {"b": 1}})),
        (json!({"f:a": {".": {}, "f:b": {}}}), none)
    );
}

#[test]
fn documents_of_others_are_owned_as_a_whole() {
    let root = root("ControllerRevision");
    let object = |b: i64| json!({"data": {"a": {"b": b}}});
    let Comparison { changed, removed } = compare(schema(), root, &object(1), &object(2)).unwrap();
    assert_eq!(changed.to_fields_v1(), json!({"f:data": {}}));
    assert!(removed.is_empty());
}

#[test]
fn times_stay_when_nothing_else_changed() {
    let live = stored(json!({"a": "1"}), "x");
    let with_time = |object: &Value| {
        let mut new = object.clone();
        new["metadata"]["managedFields"][0]["time"] = "9".into();
        new["metadata"]["resourceVersion"] = "9".into();
        new
    };
    let mut new = with_time(&live);
    keep_times_if_unchanged(&live, &mut new);
    assert_eq!(new["metadata"]["managedFields"], live["metadata"]["managedFields"]);
    for change in ["/data/a", "/metadata/name", "/metadata/managedFields/0/manager"] {
        let mut new = with_time(&live);
        *place_in(&mut new, change) = "other".into();
        keep_times_if_unchanged(&live, &mut new);
        assert_eq!(new["metadata"]["managedFields"][0]["time"], "9", "{change}");
    }
}

/// The value at the path `steps`, which are separated by slashes.
fn place_in<'v>(object: &'v mut Value, steps: &str) -> &'v mut Value {
    steps.split('/').skip(1).fold(object, |value, step| match step.parse::<usize>() {
        Ok(at) => &mut value[at],
        Err(_) => &mut value[step],
    })
}
