//! Properties of all objects and patches.

use proptest::prelude::*;

use super::*;
use crate::fields::tests::any_json;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() }
}

/// The merge patch that turns one object into another; `None` if there is none, because a merge patch cannot set null.
fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return if has_null(to) { None } else { Some(to.clone()) };
    };
    let mut patch = Map::new();
    for (key, value) in to {
        match from.get(key) {
            Some(old) if old == value => {}
            Some(old) => drop(patch.insert(key.clone(), difference(old, value)?)),
            None if has_null(value) => return None,
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

fn object() -> impl Strategy<Value = Value> {
    any_json().prop_filter("an object", Value::is_object)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn json_patch_goes_there_and_back(from in any_json(), to in any_json()) {
        let mut document = from.clone();
        for (from, to) in [(&from, &to), (&to, &from)] {
            let plain = |value: &Value| serde_json::to_value(value).unwrap();
            let patch = serde_json::to_value(::json_patch::diff(&plain(from), &plain(to))).unwrap().into();
            JsonPatch::parse(patch).unwrap().apply(&mut document).unwrap();
            prop_assert_eq!(&document, to);
        }
    }

    #[test]
    fn merge_patch_goes_there_and_back(from in object(), to in object()) {
        if let (Some(there), Some(back)) = (difference(&from, &to), difference(&to, &from)) {
            let mut document = from.clone();
            merge_patch(&mut document, there).unwrap();
            prop_assert_eq!(&document, &to);
            merge_patch(&mut document, back).unwrap();
            prop_assert_eq!(&document, &from);
        }
    }

    #[test]
    fn hostile_patches_never_panic(target in any_json(), patch in any_json(), ops in any_json()) {
        let mut document = target.clone();
        let _ = merge_patch(&mut document, patch.clone());
        let mut document = target.clone();
        let _ = strategic_merge_patch(schema(), root("Pod"), &mut document, patch.clone());
        let mut document = target;
        if let Ok(patch) = JsonPatch::parse(ops) {
            let _ = patch.apply(&mut document);
        }
    }

    #[test]
    fn hostile_operations_never_panic(
        target in any_json(),
        ops in prop::collection::vec(("add|remove|replace|move|copy|test", "(/(a|name|x|-|[-0-9]{1,3}|~[012]))*", "(/(a|name|spec|0))*", any_json()), 0..6),
    ) {
        let ops: Vec<Value> = ops
            .into_iter()
            .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
            .collect();
        let mut document = target;
        let _ = JsonPatch::parse(Value::from(ops)).unwrap().apply(&mut document);
        prop_assert!(depth_of(&document, &mut 0) <= DEPTH_MAX);
    }

    #[test]
    fn strategic_patch_of_nothing_changes_nothing(target in object()) {
        let mut document = target.clone();
        strategic_merge_patch(schema(), root("Pod"), &mut document, json!({})).unwrap();
        prop_assert_eq!(document, target);
    }

    #[test]
    fn strategic_patch_applied_again_changes_nothing(
        live in prop::collection::btree_map("[a-d]", 0..3u8, 0..4),
        patch in prop::collection::vec(("[a-f]", 0..3u8), 0..4),
    ) {
        let container = |(name, image): (String, u8)| json!({"name": name, "image": image.to_string()});
        let pod = |containers: Vec<Value>| json!({"spec": {"containers": containers}});
        let mut names = std::collections::BTreeSet::new();
        let patch: Vec<_> = patch.into_iter().filter(|(name, _)| names.insert(name.clone())).map(container).collect();
        let patch = pod(patch);
        let mut once = pod(live.into_iter().map(container).collect());
        strategic_merge_patch(schema(), root("Pod"), &mut once, patch.clone()).unwrap();
        let mut twice = once.clone();
        strategic_merge_patch(schema(), root("Pod"), &mut twice, patch).unwrap();
        prop_assert_eq!(once, twice);
    }
}
