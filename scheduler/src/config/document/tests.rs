//! Documents: reading, limits, and writing them as the reference does.

use serde_json::json;

use super::*;

fn error(text: &str) -> String {
    parse(text).unwrap_err()
}

#[test]
fn json_errors_are_the_references() {
    for (text, expected) in [
        ("{{{", "invalid character '{' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\": 1 2}", "invalid character '2' after object key:value pair"),
        ("{\"a\": [1 2]}", "invalid character '2' after array element"),
        ("{\"a\": tru}", "invalid character '}' in literal true (expecting 'e')"),
        ("{\"a\": x}", "invalid character 'x' looking for beginning of value"),
        ("{\"a\": 1", "unexpected end of JSON input"),
        ("{\"a\": \"\\x\"}", "invalid character 'x' in string escape code"),
        ("{\"a\": -}", "invalid character '}' in numeric literal"),
        ("{} {}", "invalid character '{' after top-level value"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn duplicates_are_found_in_both_forms() {
    let yaml = parse("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
    assert_eq!(
        yaml.duplicates,
        [
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
        ]
    );
    assert_eq!(yaml.root.member("a"), Some(&Node::Number("3".into())), "the last counts");
    let json = parse("{\"a\": [{\"b\": 1, \"b\": 2}]}").unwrap();
    assert_eq!(json.duplicates, ["duplicate field \"a[0].b\""]);
}

#[test]
fn plain_scalars_have_the_references_types() {
    let document =
        parse("a: yes\nb: ~\nc: 0x10\nd: 1.50\ne: 10m0s\nf: \"1\"\ng: 2021-01-01\nh: '.'\n").unwrap();
    let member = |name: &str| document.root.member(name).unwrap().clone();
    assert_eq!(member("a"), Node::Bool(true));
    assert_eq!(member("b"), Node::Null);
    assert_eq!(member("c"), Node::Number("16".into()));
    assert_eq!(member("d"), Node::Number("1.5".into()));
    for (name, text) in [("e", "10m0s"), ("f", "1"), ("g", "2021-01-01"), ("h", ".")] {
        assert_eq!(member(name), Node::Text(text.into()));
    }
    assert_eq!(parse("").unwrap().root, Node::Null);
    assert!(
        error("a: [1\n").starts_with("error converting YAML to JSON: yaml: line "),
        "{}",
        error("a: [1\n")
    );
}

#[test]
fn whole_numbers_are_written_without_a_fraction() {
    for (text, expected) in [
        ("1.0", "1"),
        ("1e1", "10"),
        ("-2.0", "-2"),
        ("0.0", "0"),
        ("2.5e-3", "0.0025"),
        ("1e21", "1e+21"),
        ("1.5e-7", "1.5e-7"),
    ] {
        let document = parse(&format!("a: {text}\n")).unwrap();
        assert_eq!(document.root.member("a"), Some(&Node::Number(expected.into())), "{text}");
    }
    // JSON is taken as it stands, as in the reference.
    assert_eq!(parse("{\"a\": 1.0}").unwrap().root.member("a"), Some(&Node::Number("1.0".into())));
}

#[test]
fn merge_keys_bring_members() {
    let document = parse("x: &x {a: 1, b: 1}\ny: &y {a: 2, c: 2}\nz:\n  <<: [*x, *y]\n  d: 3\n").unwrap();
    assert_eq!(document.duplicates, [] as [&str; 0]);
    let merged = document.root.member("z").unwrap();
    let number = |name: &str| merged.member(name).cloned();
    for (name, value) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "3")] {
        assert_eq!(number(name), Some(Node::Number(value.into())), "{name}");
    }
    assert_eq!(merged.member("<<"), None);
    let twice = parse("x: &x {a: 1}\nz:\n  <<: *x\n  a: 2\n").unwrap();
    assert_eq!(twice.duplicates, ["yaml: unmarshal errors:\n  line 4: key \"a\" already set in map"]);
    assert!(error("z:\n  <<: 1\n").ends_with("map merge requires map or sequence of maps as the value"));
    assert_eq!(parse("'<<': 1\n").unwrap().root.member("<<"), Some(&Node::Number("1".into())));
}

#[test]
fn aliases_are_followed_and_bounded() {
    let document = parse("a: &x [1, 2]\nb: *x\n").unwrap();
    assert_eq!(document.root.member("a"), document.root.member("b"));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let before = level - 1;
        let items = format!("*a{before}, ").repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", items.trim_end_matches(", ")));
    }
    assert!(error(&bomb).ends_with("document contains excessive aliasing"));
    assert!(error(&"[".repeat(10_000)).starts_with("exceeded the maximum nesting depth"));
    assert!(error(&format!("{{\"a\": {}", "[".repeat(10_000))).ends_with("exceeded max depth"));
}

#[test]
fn yaml_is_written_as_the_reference_writes_it() {
    let value = json!({
        "b": "", "a": {"z": true, "e": {}}, "nul": "null", "t": "10m0s", "v": "a/b.c", "s": "*", "num": "12",
        "list": [{"name": "x", "list": ["u", 1]}, {"inner": {"k": "v: w"}}, []],
    });
    let expected = "a:\n  e: {}\n  z: true\nb: \"\"\nlist:\n- list:\n  - u\n  - 1\n  name: x\n- inner:\n    k: 'v: w'\n\
        - []\nnul: \"null\"\nnum: \"12\"\ns: '*'\nt: 10m0s\nv: a/b.c\n";
    assert_eq!(to_yaml(&value), expected);
    let read = parse(expected).unwrap();
    assert_eq!(read.root.member("s"), Some(&Node::Text("*".into())));
}
