//! Values compared with `serde_json`, whose behaviour they promise.

use proptest::prelude::*;

use super::*;

#[test]
fn sizes_are_those_that_budgets_count() {
    assert_eq!(size_of::<Value>(), 32);
    assert_eq!(size_of::<(SmolStr, Value)>(), 56);
}

#[test]
fn reading_is_that_of_serde_json() {
    for text in [
        r#"{"b":[1,-1,18446744073709551615,1.5,1e400,true,null,"x"],"a":{"b":{}},"b":2}"#,
        r#""\ud83d\ude00 a text of more than twenty-three bytes""#,
        "[[[]]]",
        r#"{"a":}"#,
        "",
        &"[".repeat(200),
    ] {
        let ours = serde_json::from_str::<Value>(text).map(|value| value.to_string());
        let theirs = serde_json::from_str::<serde_json::Value>(text).map(|value| value.to_string());
        assert_eq!(
            ours.map_err(|error| error.to_string()),
            theirs.map_err(|error| error.to_string()),
            "{text}"
        );
    }
}

#[test]
fn objects_are_equal_in_any_order_and_lists_are_not() {
    assert_eq!(json!({"a": 1, "b": [1, 2]}), json!({"b": [1, 2], "a": 1}));
    assert_ne!(json!({"a": 1, "b": 2}), json!({"a": 1, "c": 2}));
    assert_ne!(json!([1, 2]), json!([2, 1]));
}

#[test]
fn a_missing_member_is_null_until_it_is_set() {
    let mut value = Value::Null;
    assert_eq!(value["a"][0]["b"], Value::Null);
    value["a"]["b"] = json!([1]);
    value["a"]["b"][0] = json!("x");
    assert_eq!(value, json!({"a": {"b": ["x"]}}));
}

/// A change of a map, by the number of a name.
#[derive(Clone, Debug)]
enum Change {
    Insert(u8, i64),
    Entry(u8, i64),
    SwapRemove(u8),
    ShiftRemove(u8),
    Retain(u8),
    Sort,
}

fn change() -> impl Strategy<Value = Change> {
    let name = 0..40u8;
    prop_oneof![
        8 => (name.clone(), any::<i64>()).prop_map(|(name, value)| Change::Insert(name, value)),
        4 => (name.clone(), any::<i64>()).prop_map(|(name, value)| Change::Entry(name, value)),
        2 => name.clone().prop_map(Change::SwapRemove),
        2 => name.clone().prop_map(Change::ShiftRemove),
        1 => name.prop_map(Change::Retain),
        1 => Just(Change::Sort),
    ]
}

/// A name that has to be allocated now and then.
fn name(at: u8) -> String {
    format!("{}{at}", "a name of some length".repeat(usize::from(at % 3)))
}

proptest! {
    #[test]
    fn a_map_changes_like_that_of_serde_json(changes in proptest::collection::vec(change(), 0..120)) {
        let (mut ours, mut theirs) = (Map::new(), serde_json::Map::new());
        for change in changes {
            match change {
                Change::Insert(at, value) => {
                    let before = ours.insert(name(at), value.into());
                    prop_assert_eq!(before, theirs.insert(name(at), value.into()).map(Value::from));
                }
                Change::Entry(at, value) => {
                    let there = ours.entry(name(at)).or_insert(value.into()).clone();
                    prop_assert_eq!(there, Value::from(theirs.entry(name(at)).or_insert(value.into()).clone()));
                }
                Change::SwapRemove(at) => {
                    prop_assert_eq!(ours.swap_remove(&name(at)), theirs.swap_remove(&name(at)).map(Value::from));
                }
                Change::ShiftRemove(at) => {
                    prop_assert_eq!(ours.shift_remove(&name(at)), theirs.shift_remove(&name(at)).map(Value::from));
                }
                Change::Retain(at) => {
                    ours.retain(|key, _| key.len() % 7 != usize::from(at) % 7);
                    theirs.retain(|key, _| key.len() % 7 != usize::from(at) % 7);
                }
                Change::Sort => {
                    ours.sort_keys();
                    theirs.sort_keys();
                }
            }
            let names: Vec<&str> = ours.keys().map(SmolStr::as_str).collect();
            prop_assert_eq!(names, theirs.keys().map(String::as_str).collect::<Vec<_>>());
            for at in 0..40 {
                prop_assert_eq!(ours.get(&name(at)).cloned(), theirs.get(&name(at)).cloned().map(Value::from));
            }
        }
    }
}
