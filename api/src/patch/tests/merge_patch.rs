//! Merge patch.

use super::*;

fn check(target: Value, patch: Value, expected: Value) {
    let mut result = target;
    merge_patch(&mut result, patch.clone()).unwrap();
    assert_eq!(result, expected, "{patch}");
}

#[test]
fn examples_of_the_rfc() {
    check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
    check(json!({"a": "b"}), json!({"a": null}), json!({}));
    check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
    check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
    check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
    check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
    check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
    check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
    check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
}

#[test]
fn only_objects_are_patches() {
    let error = |patch: Value| merge_patch(&mut json!({}), patch).unwrap_err();
    assert_eq!(error(json!(null)), PatchError::Malformed("Invalid JSON Patch".to_owned()));
    assert!(matches!(error(json!([])), PatchError::Malformed(_)));
    assert!(matches!(error(json!("x")), PatchError::Malformed(_)));
}
