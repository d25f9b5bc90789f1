//! Parts of an object that are as they were, whose faults are forgiven.

use super::*;

/// The errors and warnings of a write of `new` over `old`, of a kind with these properties and a rule that nothing at `spec` meets.
fn ratcheted(spec: Value, old: Value, new: Value) -> (Vec<String>, Vec<String>) {
    let mut spec = spec;
    spec["x-orch-validations"] = json!([{"rule": "false", "message": "never"}]);
    let head = json!({"type": "string"});
    let compiled = compiled(&schema_of(
        json!({"apiVersion": head, "kind": head, "metadata": {"type": "object"}, "spec": spec}),
    ));
    let object = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let (old, new) = (object(old), object(new));
    let mut errors = compiled.constraints.validate(&new, Some(&old));
    compiled.constraints.validate_expressions(&new, Some(&old), &mut errors);
    let texts = errors.iter().map(ToString::to_string).collect();
    (texts, errors.take_warnings())
}

#[test]
fn a_part_is_as_it_was_where_the_schema_says_so() {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer", "maximum": 5}}});
    let list = |extra: Value| {
        let mut list = json!({"type": "array", "items": item});
        list.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"l": list}})
    };
    let keyed = || list(json!({"x-orch-list-type": "map", "x-orch-list-map-keys": ["k"]}));
    let (a, b) = (json!({"k": "a", "n": 9}), json!({"k": "b", "n": 1}));
    let text = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut open = text.clone();
    open["x-orch-preserve-unknown-fields"] = json!(true);
    let mut embedded = open.clone();
    embedded["x-orch-embedded-resource"] = json!(true);
    let set = json!({"type": "object", "properties": {"s": {"type": "array", "x-orch-list-type": "set", "items": {"type": "string"}}}});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    for (what, spec, old, new, is_same) in [
        ("equal", text.clone(), json!({"a": "x"}), json!({"a": "x"}), true),
        ("changed", text, json!({"a": "x"}), json!({"a": "y"}), false),
        ("keys in another order", keyed(), json!({"l": [a, b]}), json!({"l": [b, a]}), true),
        ("a list in another order", list(json!({})), json!({"l": [b, b, a]}), json!({"l": [b, a, b]}), false),
        ("a new key", keyed(), json!({"l": [b]}), json!({"l": [json!({"k": "c"})]}), false),
        ("no key", keyed(), json!({"l": [{"n": 1}]}), json!({"l": [{"n": 1}]}), false),
        ("repeated keys", keyed(), json!({"l": [a, a, b]}), json!({"l": [a, b, a]}), true),
        ("other items with a key", keyed(), json!({"l": [b]}), json!({"l": [{"k": "b", "n": 2}]}), false),
        ("fewer keys", keyed(), json!({"l": [a, b]}), json!({"l": [b]}), false),
        ("an equal set", set.clone(), json!({"s": ["a", "b"]}), json!({"s": ["a", "b"]}), true),
        ("a set in another order", set, json!({"s": ["a", "b"]}), json!({"s": ["b", "a"]}), false),
        ("a map", map, json!({"x": "1"}), json!({"x": "1"}), true),
        ("members that are not declared", open.clone(), json!({"z": 1}), json!({"z": 1}), false),
        ("only declared ones", open, json!({"a": "x"}), json!({"a": "x"}), true),
        (
            "another kind's",
            embedded,
            json!({"apiVersion": "v1", "kind": "A"}),
            json!({"apiVersion": "v1", "kind": "A"}),
            false,
        ),
    ] {
        let (errors, warnings) = ratcheted(spec, old, new);
        let told = |texts: &[String]| texts.iter().any(|text| text == "spec: Invalid value: never");
        assert_eq!((told(&errors), told(&warnings)), (!is_same, is_same), "{what}: {errors:?} {warnings:?}");
    }
}

#[test]
fn kind_and_version_of_a_status_are_not_forgiven_while_it_changes() {
    let name = json!({"type": "string", "pattern": "^[A-Z]"});
    let status =
        json!({"type": "object", "properties": {"kind": name, "other": name, "n": {"type": "integer"}}});
    let constraints = compiled(&schema_of(json!({"status": status}))).constraints;
    let object = |n: i64| json!({"metadata": {"name": "a"}, "status": {"kind": "x", "other": "y", "n": n}});
    let told = |new: i64| {
        let errors = constraints.validate_status(&object(new), &object(1));
        errors.iter().map(|error| error.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((told(1), told(2)), (vec![], vec!["status.kind".to_owned()]));
}

#[test]
fn a_whole_object_is_as_it_was_only_where_its_metadata_are_declared() {
    let rule = json!([{"rule": "false", "message": "never"}]);
    let head = json!({"type": "string"});
    for (metadata, is_same) in
        [(json!({"type": "object"}), false), (json!({"type": "object", "properties": {"name": head}}), true)]
    {
        let mut schema = schema_of(json!({"apiVersion": head, "kind": head, "metadata": metadata}));
        schema["x-orch-validations"] = rule.clone();
        let compiled = compiled(&schema);
        let object = json!({"metadata": {"name": "a"}});
        let mut errors = FieldErrors::new();
        compiled.constraints.validate_expressions(&object, Some(&object), &mut errors);
        assert_eq!(errors.is_empty(), is_same);
    }
}
