//! The layout and the quotes of the reference, and that every document written is read back.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::testing::orch;
use crate::yaml_value;

fn written(value: &Value) -> String {
    let mut out = Vec::new();
    write_yaml(value, &mut out);
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn check(value: Value, wanted: &str) {
    let found = written(&value);
    assert_eq!(found, wanted);
    assert_eq!(yaml_value(orch(), found.as_bytes()).unwrap(), value);
}

#[test]
fn a_list_is_written_item_by_item_as_it_is_at_once() {
    let members = json!({"kind": "L", "apiVersion": "v1", "items": [], "metadata": {"resourceVersion": "7"}});
    for items in [json!([]), json!([{"b": [1, [2, {"c": 3}]], "a": "x"}, {}, "text", [4]])] {
        let mut whole = members.clone();
        whole["items"] = items.clone();
        let mut out = Vec::new();
        let each = items.as_array().unwrap().iter().cloned().map(Ok::<_, ()>);
        write_yaml_list(members.as_object().unwrap(), "items", each, &mut out).unwrap();
        let expected = written(&whole);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    let failing = [Ok(json!(1)), Err("second"), Err("third")].into_iter();
    let failed = write_yaml_list(members.as_object().unwrap(), "items", failing, &mut Vec::new());
    assert_eq!(failed, Err("second"));
}

#[test]
fn objects_are_laid_out_like_the_reference() {
    check(
        json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": { "name": "a", "labels": {}, "creationTimestamp": "2026-01-02T03:04:05Z" },
            "spec": { "containers": [{ "name": "c", "args": ["x", "y"], "ports": [] }, { "name": "d" }], "m": null },
            "nested": [["a", "b"], [{ "k": 1 }], []],
        }),
        "apiVersion: v1\n\
         kind: Pod\n\
         metadata:\n  creationTimestamp: \"2026-01-02T03:04:05Z\"\n  labels: {}\n  name: a\n\
         nested:\n- - a\n  - b\n- - k: 1\n- []\n\
         spec:\n  containers:\n  - args:\n    - x\n    - \"y\"\n    name: c\n    ports: []\n  - name: d\n  m: null\n",
    );
}

#[test]
fn documents_need_not_be_objects() {
    check(json!({}), "{}\n");
    check(json!([]), "[]\n");
    check(json!("a"), "a\n");
    check(json!([1, "a"]), "- 1\n- a\n");
    check(json!(null), "null\n");
}

#[test]
fn texts_that_would_be_something_else_are_quoted() {
    for (text, wanted) in [
        ("plain text", "plain text"),
        ("a:b", "a:b"),
        ("a#b", "a#b"),
        ("-x", "-x"),
        ("100m", "100m"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("é\u{4e2d}", "é\u{4e2d}"),
        ("", "\"\""),
        ("1", "\"1\""),
        ("0x1F", "\"0x1F\""),
        ("0xFFFFFFFFFFFFFFFF", "\"0xFFFFFFFFFFFFFFFF\""),
        ("1e3", "\"1e3\""),
        ("1_000", "\"1_000\""),
        ("true", "\"true\""),
        ("no", "\"no\""),
        ("~", "\"~\""),
        ("<<", "\"<<\""),
        (".inf", "\".inf\""),
        ("2026-01-02", "\"2026-01-02\""),
        ("2026-1-2 3:4:5.6", "\"2026-1-2 3:4:5.6\""),
        ("2026-01-02T03:04:05+01:00", "\"2026-01-02T03:04:05+01:00\""),
        ("2026-13-02", "2026-13-02"),
        ("190:20:30.5", "\"190:20:30.5\""),
        ("190:70", "190:70"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        ("- a", "'- a'"),
        ("-", "'-'"),
        ("*", "'*'"),
        ("{a}", "'{a}'"),
        ("'a'", "'''a'''"),
        ("\"a\"", "'\"a\"'"),
        ("%", "'%'"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("---", "'---'"),
        ("a\tb", "\"a\\tb\""),
        ("a\u{1}", "\"a\\x01\""),
        ("\u{1F600}", "\"\\U0001F600\""),
        ("\u{FEFF}a", "\"\\uFEFFa\""),
    ] {
        check(json!({ "k": text }), &format!("k: {wanted}\n"));
    }
}

#[test]
fn texts_of_several_lines_are_blocks() {
    check(json!({ "k": "a\nb\n" }), "k: |\n  a\n  b\n");
    check(json!({ "k": "a\n\n  b" }), "k: |-\n  a\n\n    b\n");
    check(json!({ "k": "a\n\n", "l": 1 }), "k: |+\n  a\n\nl: 1\n");
    check(json!({ "k": " a\nb" }), "k: |2-\n   a\n  b\n");
    check(json!({ "k": ["a\nb\n", "c"] }), "k:\n- |\n  a\n  b\n- c\n");
    check(json!({ "k": "a \nb\n" }), "k: \"a \\nb\\n\"\n");
    check(json!({ "k": "a\nb " }), "k: \"a\\nb \"\n");
    check(json!({ "k": "a\tb\n" }), "k: \"a\\tb\\n\"\n");
}

#[test]
fn long_texts_are_folded_behind_column_80() {
    let words = vec!["word"; 40].join(" ");
    let lines = |text: &str| text.lines().map(str::len).collect::<Vec<_>>();
    for (text, wanted) in [
        (words.clone(), vec![82, 81, 41]),
        (format!("'{words}"), vec![85, 81, 42]),
        (format!("{words}\t"), vec![83, 81, 44]),
        ("x".repeat(200), vec![203]),
    ] {
        let value = json!({ "k": text });
        let found = written(&value);
        assert_eq!(lines(&found), wanted, "{found}");
        assert_eq!(yaml_value(orch(), found.as_bytes()).unwrap(), value);
    }
}

#[test]
fn keys_are_quoted_and_long_ones_introduced() {
    check(
        json!({ "1": 1, "a b": 2, "true": 3, "f:a": 4, ".": {}, "k:{\"n\":\"a\"}": 5 }),
        ".: {}\n\"1\": 1\na b: 2\nf:a: 4\nk:{\"n\":\"a\"}: 5\n\"true\": 3\n",
    );
    let long = "x".repeat(129);
    check(json!({ (long.clone()): { "a": 1 }, "y": [1] }), &format!("? {long}\n: a: 1\n\"y\":\n- 1\n"));
    check(json!({ (long.clone()): ["a"] }), &format!("? {long}\n: - a\n"));
    check(json!({ (long.clone()): "a" }), &format!("? {long}\n: a\n"));
}

#[test]
fn numbers_have_few_digits() {
    check(
        json!([0, -5, i64::MAX, 0.5, 1.5e-7, 1234567.5]),
        "- 0\n- -5\n- 9223372036854775807\n- 0.5\n- 1.5e-07\n- 1.2345675e+06\n",
    );
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[a-z0-9:#'\" \n\t-]{0,16}",
        "([a-z.,']{1,9}[ ]{1,2}){10,30}",
        "[+.0-9eExXob_:TZ-]{1,12}",
        any::<String>(),
        "[a\n \u{85}\u{2028}\u{2029}\u{FEFF}\u{1F600}\r]{0,6}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn everything_written_is_read_back(value in value()) {
        let yaml = written(&value);
        prop_assert_eq!(yaml_value(orch(), yaml.as_bytes()).unwrap(), value, "{}", yaml);
    }
}
