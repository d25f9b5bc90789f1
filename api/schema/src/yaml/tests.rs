//! YAML 1.1 as the reference converts it, its bounds and its refusals.

use super::*;
use crate::json;
use crate::testing::orch;

#[track_caller]
fn check(yaml: &str, wanted: Value) {
    assert_eq!(yaml_value(orch(), yaml.as_bytes()).unwrap(), wanted, "{yaml}");
}

fn refused(yaml: &str) -> String {
    yaml_value(orch(), yaml.as_bytes()).unwrap_err().to_string()
}

#[test]
fn plain_scalars_follow_yaml_1_1() {
    for (yaml, wanted) in [
        ("a", json!("a")),
        ("'1'", json!("1")),
        ("\"yes\"", json!("yes")),
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("~", json!(null)),
        ("", json!(null)),
        ("12", json!(12)),
        ("-12", json!(-12)),
        ("+1_000", json!(1000)),
        ("0777", json!(511)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("0", json!(0)),
        ("089", json!(89)),
        ("1.0", json!(1)),
        ("1.5e3", json!(1500)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1.2.3", json!("1.2.3")),
        ("100m", json!("100m")),
        ("1Gi", json!("1Gi")),
        ("-", json!([null])),
        ("2026-01-02", json!("2026-01-02")),
        ("2026-01-02T03:04:05Z", json!("2026-01-02T03:04:05Z")),
        ("!!str 5", json!("5")),
        ("|\n  a\n  b\n", json!("a\nb\n")),
        (">-\n  a\n  b\n", json!("a b")),
    ] {
        check(yaml, wanted);
    }
}

#[test]
fn collections_nest_and_keys_become_sorted_strings() {
    check("b: [1, {x: y2}]\na:\n- p\n- q: 1\n", json!({"a": ["p", {"q": 1}], "b": [1, {"x": "y2"}]}));
    check("1: a\ntrue: b\n", json!({"1": "a", "true": "b"}));
    let value = yaml_value(orch(), b"b: 1\na: 2\n").unwrap();
    assert_eq!(value.to_string(), r#"{"a":2,"b":1}"#);
    check("{\"a\": [1, 2], \"b\": null}", json!({"a": [1, 2], "b": null}));
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    check("a: &x {p: 1, q: 2}\nb: *x\n", json!({"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 2}}));
    check(
        "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n",
        json!({"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}),
    );
    check("a: &x 1\n*x : 2\n", json!({"a": 1, "1": 2}));
    let (_, twice) = read_yaml(orch(), b"a: &x {p: 1}\nb:\n  <<: [*x]\n  p: 2\n").unwrap();
    assert_eq!(twice, ["line 4: key \"p\" already set in map"], "as the reference's strict reader");
    assert!(refused("<<: 1\n").contains("map merge requires"));
}

#[test]
fn only_the_first_document_counts() {
    check("a: 1\n---\nb: 2\n", json!({"a": 1}));
    check("---\na: 1\n---\n{", json!({"a": 1}));
}

#[test]
fn text_that_is_not_yaml_is_refused() {
    for yaml in ["a: [1", "a: b: c", "a: *x", "? [1]\n: 2", "a: .inf", "[a]: 1", "a: \"x"] {
        assert!(refused(yaml).starts_with("error converting YAML to JSON: "), "{yaml}");
    }
    assert!(yaml_value(orch(), b"a: \xff").is_err());
}

#[test]
fn alias_bombs_and_depth_are_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let alias = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", alias.trim_end_matches(", ")));
    }
    assert!(refused(&bomb).contains("excessive aliasing"));
    let nested = (0..100).map(|level| format!("&a{level} [")).collect::<String>();
    let text = "x".repeat(100_000);
    assert!(refused(&format!("{nested}{text}{}", "]".repeat(100))).contains("excessive aliasing"));
    assert_eq!(yaml_value(orch(), "[".repeat(150).as_bytes()), Err(DecodeError::TooDeep { depth_max: 100 }));
    assert!(yaml_value(orch(), "[".repeat(100_000).as_bytes()).is_err());
    assert!(yaml_value(orch(), "- ".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn objects_are_decoded_and_duplicates_named_by_line() {
    let type_id = orch().find_type("core.v1.ConfigMap").unwrap();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n  nope: 1\ndata:\n  k: \"1\"\n  k: \"2\"\n";
    let decoded = decode_yaml(orch(), type_id, yaml.as_bytes(), Limits::default()).unwrap();
    assert_eq!(decoded.value, json!({"metadata": {"name": "b"}, "data": {"k": "2"}}));
    assert_eq!(decoded.head.kind, "ConfigMap");
    let strict: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
    assert_eq!(
        strict,
        [
            "yaml: unmarshal errors:\n  line 5: key \"name\" already set in map\n  line 9: key \"k\" already set in map",
            "unknown field \"metadata.nope\"",
        ]
    );
    assert!(decode_yaml(orch(), type_id, b"data: {a: yes}", Limits::default()).is_err());
}

#[test]
fn binary_scalars_hold_base64() {
    check("a: !!binary aGVsbG8=", json!({"a": "hello"}));
    check("a: !!binary |\n  aGVs\n  bG8=\nb: !!binary \"\"", json!({"a": "hello", "b": ""}));
    check("!!binary aw==: 1", json!({"k": 1}));
    check("a: !!binary MTI=", json!({"a": "12"}));
    check("a: !!binary /w==", json!({"a": "\u{fffd}"}));
    assert_eq!(
        yaml_value(orch(), b"a: !!binary a$b").unwrap_err().to_string(),
        "error converting YAML to JSON: yaml: !!binary value contains invalid base64 data"
    );
}

/// The value of `text`, and the messages for its duplicate keys when it is read as JSON and, behind a line `---`, as
/// YAML.
fn duplicates(text: &str) -> (Value, Vec<String>, Vec<String>) {
    let (value, as_json) = read_yaml(orch(), text.as_bytes()).unwrap();
    let (same, as_yaml) = read_yaml(orch(), format!("---\n{text}").as_bytes()).unwrap();
    assert_eq!(value, same, "{text}");
    (value, as_json, as_yaml)
}

#[test]
fn duplicate_keys_of_json_are_told_by_line_like_those_of_yaml() {
    for text in [
        r#"{"a":1,"b":2,"a":3,"a":4}"#,
        "{\n\"a\":1,\r\n\"x\":{\"p\":[1],\n\"p\":\n\n{\"q\":\"1\",\n\"q\":\"2\"}},\n\"a\": [\n1]}\n",
        r#"[{"é\u0041":1,"éA":2},{"é":1}]"#,
    ] {
        let (_, as_json, as_yaml) = duplicates(text);
        let moved = |line: &String| {
            let (number, rest) = line.strip_prefix("line ").unwrap().split_once(':').unwrap();
            format!("line {}:{rest}", number.parse::<usize>().unwrap() + 1)
        };
        assert!(!as_json.is_empty(), "{text}");
        assert_eq!(as_json.iter().map(moved).collect::<Vec<_>>(), as_yaml, "{text}");
    }
    let (value, as_json, _) = duplicates(r#"{"a":1,"b":2,"a":3}"#);
    assert_eq!(
        (value, as_json),
        (json!({"a": 3, "b": 2}), vec!["line 1: key \"a\" already set in map".to_owned()])
    );
}

/// The YAML scanner would look ahead to the end of the collection, and decode the two escapes of a character apart.
#[test]
fn a_member_that_stands_twice_makes_json_no_other_text() {
    let members: String = (0..150_000).map(|at| format!("\"k{at}\":1,")).collect();
    let text = format!("{{{members}\"t\":\"\\ud83d\\ude00\",\"k7\":2}}");
    let (value, twice) = read_yaml(orch(), text.as_bytes()).unwrap();
    assert_eq!((value["k7"].as_i64(), value["t"].as_str()), (Some(2), Some("\u{1f600}")));
    assert_eq!(twice, ["line 1: key \"k7\" already set in map"]);
}
