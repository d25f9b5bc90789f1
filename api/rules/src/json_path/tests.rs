//! Paths of columns that definitions of the field have, and hostile ones.

use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use super::*;

fn document() -> Value {
    json!({
        "metadata": {"labels": {"region": "eu", "io.example/zone": "a", "a.b": "c"}},
        "spec": {"replicas": 3, "ratio": 0.5, "paused": true, "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 443}]},
        "status": {
            "conditions": [
                {"type": "Progressing", "status": "False", "observed": true},
                {"type": "Ready", "status": "True", "reason": "it (works)", "weight": 5},
            ],
            "addresses": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
            "nothing": null,
        },
    })
}

/// The results of `path` as texts.
#[track_caller]
fn found(path: &str) -> Result<Vec<String>, String> {
    let parsed = JsonPath::parse(path).map_err(|error| error.to_string())?;
    let document = document();
    let results = parsed.evaluate(&document).map_err(|error| error.to_string())?;
    Ok(results.iter().map(|value| text(value)).collect())
}

#[test]
fn paths_of_the_field_find_their_values() {
    for (path, wanted) in [
        (".spec.replicas", &["3"][..]),
        ("spec.replicas", &[]),
        (".spec.ratio", &["0.5"]),
        (".spec.absent.deeper", &[]),
        (".spec.replicas.deeper", &[]),
        (".status.conditions[?(@.type==\"Ready\")].status", &["True"]),
        (".status.conditions[?(@.type=='Ready')].status", &["True"]),
        (".status.conditions[?(@.type == \"Ready\")].reason", &["it (works)"]),
        (".status.conditions[?(@.reason==\"it (works)\")].type", &["Ready"]),
        (".status.conditions[?(@.type!='Ready')].type", &["Progressing"]),
        (".status.conditions[?(@.observed==true)].type", &["Progressing"]),
        (".status.conditions[?(@.observed == false)].type", &[]),
        (".status.conditions[?(@.weight>=5)].type", &["Ready"]),
        (".status.conditions[?(@.weight<5)].type", &[]),
        (".status.conditions[?(@.weight)].type", &["Ready"]),
        (".status.conditions[?(@.type[0])].type", &["Progressing", "Ready"]),
        (".status.conditions[?(@.absent[0])].type", &[]),
        (".status.conditions[?(@.absent==@.type[0])].type", &[]),
        (".status.conditions[?(@.type==\"R\\x65ady\")].type", &["Ready"]),
        (".spec.ports[*]..", &[r#"{"name":"x","port":80}"#, "x", r#"{"name":"y","port":443}"#, "y"]),
        (".status.conditions[0].type", &["Progressing"]),
        (".status.conditions[-1:].type", &["Ready"]),
        (".status.conditions[-1].type", &["Ready"]),
        (".status.addresses[*]", &["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
        (".status.addresses[0:2]", &["10.0.0.1", "10.0.0.2"]),
        (".status.addresses[:2]", &["10.0.0.1", "10.0.0.2"]),
        (".status.addresses[1:]", &["10.0.0.2", "10.0.0.3"]),
        (".status.addresses[0:3:2]", &["10.0.0.1", "10.0.0.3"]),
        (".status.addresses[0,2]", &["10.0.0.1", "10.0.0.3"]),
        (".status.nothing[0]", &[]),
        (".metadata.labels['region']", &["eu"]),
        (".metadata.labels['io\\.example/zone']", &["a"]),
        (".metadata.labels.io\\.example/zone", &["a"]),
        (".metadata.labels.a\\.b", &["c"]),
        (".spec.re\\\\plicas", &["3"]),
        (".spec.ports[*].name", &["x", "y"]),
        (".spec.ports[0]", &[r#"{"name":"x","port":80}"#]),
        ("..port", &["80", "443"]),
        (".spec.*.missing", &[]),
        (".status.nothing", &["<no value>"]),
        ("$.spec.paused", &["true"]),
    ] {
        let wanted: Vec<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
        match path {
            // A word is no member.
            "spec.replicas" => assert!(found(path).is_err(), "{path}"),
            _ => assert_eq!(found(path), Ok(wanted), "{path}"),
        }
    }
}

#[test]
fn paths_that_do_not_fit_the_document_are_errors() {
    for path in [
        ".spec[0]",
        ".status.addresses[7]",
        ".status.addresses[2:1]",
        ".status.addresses[0:2:0]",
        ".spec[?(@.x==1)]",
        ".status.nothing[?(@.x==1)]",
        ".status.conditions[?(@.status==true)].type",
        ".status.conditions[?(@.observed>true)].type",
        ".status.conditions[?(@.weight==5.0)].type",
        ".status.conditions[?(@.type=~\"x\")].type",
        ".status.conditions[?(@.type=<\"x\")].type",
        ".spec.ports[?(@.*==\"x\")]",
    ] {
        assert!(found(path).is_err(), "{path}: {:?}", found(path));
    }
}

#[test]
fn texts_outside_of_the_grammar_are_refused() {
    for path in [
        ".a[",
        ".a[0",
        ".a[x]",
        ".a[\"x\"]",
        ".a[0:1:2:3]",
        ".a[?(@.b==\"c\"]",
        ".a[?(@.b==\"c)]",
        "#",
        ".a[?(1.2.3==1)]",
        ".a[99999999999999999999]",
        "\"open",
        ".a\t.b",
        ".a[?(@.b==\"\\q\")]",
        "....a",
    ] {
        assert!(JsonPath::parse(path).is_err(), "{path}: {:?}", JsonPath::parse(path));
    }
    let deep = format!("{}@.a{}", "[?(".repeat(40), ")]".repeat(40));
    assert!(JsonPath::parse(&deep).is_err());
    assert_eq!(JsonPath::parse(&".a".repeat(4000)), Err(ParseError::TooLarge));
}

#[test]
fn hostile_paths_end() {
    let wide = json!({"a": (0..4_000).map(|at| json!({"b": [at, at]})).collect::<Vec<_>>()});
    for path in ["...*...*...*...*", ".a[*,*,*,*,*,*,*,*]...*...*...*", ".a[?(@...*)]...*...*...*"] {
        let parsed = JsonPath::parse(path).unwrap();
        assert_eq!(parsed.evaluate(&wide), Err(EvaluationError::TooMuchWork), "{path}");
    }
    let deep = format!(".a[?(@{})]", ".none".repeat(700));
    assert_eq!(JsonPath::parse(&deep).unwrap().evaluate(&wide), Err(EvaluationError::TooMuchWork));
}

#[test]
fn a_path_ends_where_nothing_was_found() {
    let path = JsonPath::parse(&format!("{}.b", ".a".repeat(2_000))).unwrap();
    let budget = std::sync::Arc::new(Budget::of(1_000_000));
    let before = budget.steps_left();
    let shallow = json!({"a": {"a": {"c": 1}}});
    assert_eq!(budget.enter(|| path.evaluate(&shallow)), Ok(vec![]));
    let taken = before - budget.steps_left();
    assert!(taken < 100, "{taken} steps");
    // A constant is found whatever was before it, and a word fails.
    assert_eq!(found(".none.none 5"), Ok(vec!["5".to_owned()]));
    assert_eq!(found(".none.none['a','b'].none 5"), Ok(vec!["5".to_owned()]));
    assert!(found(".none.none word").is_err());
}

#[test]
fn numbers_are_printed_as_the_reference_does() {
    for (value, wanted) in [
        (json!(5), "5"),
        (json!(0.25), "0.25"),
        (json!(1_500_000.5), "1.5000005e+06"),
        (json!(0.00001), "1e-05"),
        (json!(-2.0), "-2"),
        (json!(true), "true"),
        (json!({"b": 1, "a": ["<", null]}), r#"{"a":["\u003c",null],"b":1}"#),
    ] {
        assert_eq!(text(&value), wanted);
    }
}
