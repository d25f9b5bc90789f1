//! JSON patch.

use super::*;

fn apply(document: Value, patch: Value) -> Result<Value, PatchError> {
    let mut document = document;
    JsonPatch::parse(patch)?.apply(&mut document)?;
    Ok(document)
}

fn check(document: Value, patch: Value, expected: Value) {
    assert_eq!(apply(document, patch.clone()), Ok(expected), "{patch}");
}

fn refused(document: Value, patch: Value) {
    let result = apply(document, patch.clone());
    assert!(
        matches!(result, Err(PatchError::CannotApply(_) | PatchError::TestFailed)),
        "{patch}: {result:?}"
    );
}

#[test]
fn operations_do_what_the_rfc_says() {
    check(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2}));
    check(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}));
    check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
    check(json!({"a": 1}), json!([{"op": "add", "path": "", "value": {}}]), json!({}));
    check(json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2}));
    check(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]}));
    check(json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": null}]), json!({"a": null}));
    check(
        json!({"a": {"b": 1}}),
        json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
        json!({"a": {}, "c": 1}),
    );
    check(json!({"a": 1}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": 1, "b": 1}));
    check(json!({"a": [1]}), json!([{"op": "test", "path": "/a/0", "value": 1}]), json!({"a": [1]}));
}

#[test]
fn pointers_unescape_slashes_and_tildes() {
    check(json!({"a/b": 1}), json!([{"op": "test", "path": "/a~1b", "value": 1}]), json!({"a/b": 1}));
    check(json!({"~1": 1}), json!([{"op": "test", "path": "/~01", "value": 1}]), json!({"~1": 1}));
    check(json!({"": 1}), json!([{"op": "test", "path": "/", "value": 1}]), json!({"": 1}));
    refused(json!({"a": 1}), json!([{"op": "test", "path": "a", "value": 1}]));
}

#[test]
fn reference_is_wider_than_the_rfc() {
    check(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]}));
    check(json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]}));
    check(json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-2", "value": 3}]), json!({"a": [1, 3, 2]}));
    check(json!({}), json!([{"op": "test", "path": "/nowhere", "value": null}]), json!({}));
    check(json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null}));
}

#[test]
fn only_a_member_may_be_absent_in_a_test() {
    let document = json!({"a": 1, "l": [1], "m": {"nil": null}});
    let test = |path: &str, value: Value| {
        apply(document.clone(), json!([{"op": "test", "path": path, "value": value}])).err()
    };
    let missing = |path: &str| {
        let text = format!("test operation does not apply: is missing path: {path}: missing value");
        Some(PatchError::CannotApply(text))
    };
    for (path, value, expected) in [
        ("/m/none", json!(null), None),
        ("/m/nil", json!(null), None),
        ("/m/none", json!(1), Some(PatchError::TestFailed)),
        ("/a", json!(null), Some(PatchError::TestFailed)),
        ("/l/0", json!(2), Some(PatchError::TestFailed)),
        ("/l/-1", json!(1), None),
        ("/none/k", json!(null), missing("/none/k")),
        ("/none/k", json!(1), missing("/none/k")),
        ("/a/k", json!(1), missing("/a/k")),
        ("/m/nil/k", json!(1), missing("/m/nil/k")),
    ] {
        assert_eq!(test(path, value), expected, "{path}");
    }
    for path in ["/l/1", "/l/-"] {
        let told = test(path, json!(null));
        assert!(matches!(told, Some(PatchError::CannotApply(_))), "{path}: {told:?}");
    }
}

#[test]
fn a_null_that_an_expression_made_is_a_value() {
    let test = |operation: Value| JsonPatch::made(json!([operation])).unwrap().apply(&mut json!({"m": {}}));
    assert_eq!(test(json!({"op": "test", "path": "/m/k", "value": null})), Err(PatchError::TestFailed));
    assert_eq!(test(json!({"op": "test", "path": "/m/k"})), Ok(()));
}

#[test]
fn operations_that_do_not_fit_are_refused() {
    for patch in [
        json!([{"op": "bogus", "path": "/a"}]),
        json!([{}]),
        json!([{"op": "test", "path": "/a", "value": 2}]),
        json!([{"op": "remove", "path": "/no/such"}]),
        json!([{"op": "remove", "path": ""}]),
        json!([{"op": "replace", "path": "/no", "value": 1}]),
        json!([{"op": "add", "path": "/no/such", "value": 1}]),
        json!([{"op": "add", "path": "/a/b", "value": 1}]),
        json!([{"op": "add", "path": "/l/3", "value": 1}]),
        json!([{"op": "add", "path": "/l/-4", "value": 1}]),
        json!([{"op": "add", "path": "/l/x", "value": 1}]),
        json!([{"op": "replace", "path": "/l/2", "value": 1}]),
        json!([{"op": "move", "from": "/m", "path": "/m/inside"}]),
        json!([{"op": "copy", "from": "/no", "path": "/b"}]),
        json!([{"op": "copy", "path": "/b", "from": "x"}]),
    ] {
        refused(json!({"a": 1, "l": [1, 2], "m": {}}), patch);
    }
}

#[test]
fn malformed_patches_are_told_apart() {
    for patch in [json!({}), json!(null), json!([1]), json!([{"op": 1}]), json!([{"op": "add", "path": 2}])] {
        let result = apply(json!({}), patch.clone());
        assert!(matches!(result, Err(PatchError::Malformed(_))), "{patch}: {result:?}");
    }
}

#[test]
fn unknown_members_are_reported_by_position() {
    let patch =
        json!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/b", "value": 1, "foo": 2}]);
    assert_eq!(JsonPatch::parse(patch).unwrap().unknown_fields(), ["[1].foo"]);
}

#[test]
fn number_of_operations_is_bounded() {
    let operations =
        |count: usize| Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); count]);
    assert!(apply(json!({"a": 1}), operations(OPERATIONS_MAX)).is_ok());
    let error = apply(json!({"a": 1}), operations(OPERATIONS_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_cannot_blow_the_document_up() {
    let patch: Vec<Value> =
        (0..40).map(|at| json!({"op": "copy", "from": "", "path": format!("/c{at}")})).collect();
    refused(json!({"a": "x".repeat(1000)}), Value::Array(patch));
}

#[test]
fn copies_cannot_nest_the_document_too_deeply() {
    let mut path = String::new();
    let patch: Vec<Value> = (0..20)
        .map(|_| {
            let next = format!("{path}/a");
            let operation = json!({"op": "copy", "from": "", "path": next});
            path = if path.is_empty() { next } else { format!("{path}{next}") };
            operation
        })
        .collect();
    refused(json!({}), Value::Array(patch));
    let deep = "/a".repeat(DEPTH_MAX + 1);
    refused(json!({}), json!([{"op": "add", "path": deep, "value": 1}]));
}

#[test]
fn shifting_a_long_list_is_bounded() {
    let long = vec![Value::Null; 100_000];
    let patch = vec![json!({"op": "add", "path": "/l/0", "value": 1}); 1000];
    refused(json!({"l": long}), Value::Array(patch));
}
