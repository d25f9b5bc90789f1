//! Schemas of definitions against values: what is kept, filled in, refused, and in which words.

use std::sync::LazyLock;

use orch_proto::brand::ORCH;
use orch_schema::budget::Budget;
use orch_schema::{Limits, apply_defaults, decode_json, encode_json, json};

use super::*;
use crate::validate::FieldErrors;

mod applied;
mod others;
mod ratcheting;

static BASE: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Schema::builtin(&ORCH)));

pub(super) fn compiled(schema: &Value) -> Compiled {
    let input = Input {
        brand: &ORCH,
        group: "example.com",
        version: "v1",
        kind: "Widget",
        schema,
        preserve_unknown_fields: false,
    };
    compile(&input, &BASE).unwrap()
}

/// A schema whose object has these properties beside the metadata.
fn schema_of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// The object of `body` as it is stored, and its strict errors.
fn stored(compiled: &Compiled, body: &str) -> (Value, Vec<String>) {
    let Compiled { schema, root, .. } = compiled;
    let decoded = decode_json(schema, *root, body.as_bytes(), Limits::default()).unwrap();
    let mut value = decoded.value;
    apply_defaults(schema, *root, &mut value);
    let mut json = Vec::new();
    encode_json(schema, *root, &value, &mut json);
    let mut again = decode_json(schema, *root, &json, Limits::default()).unwrap().value;
    apply_defaults(schema, *root, &mut again);
    assert_eq!(again, value, "stored bytes are read as they were written");
    let told = decoded.strict.iter().map(ToString::to_string).collect();
    (serde_json::from_slice(&json).unwrap(), told)
}

#[track_caller]
fn check_stored(properties: Value, body: &str, expected: Value, strict: &[&str]) {
    let (value, told) = stored(&compiled(&schema_of(properties)), body);
    let mut expected = expected;
    expected["metadata"] = json!({});
    assert_eq!(value, expected);
    assert_eq!(told, strict);
}

#[track_caller]
fn check_errors(properties: Value, object: Value, expected: &[&str]) {
    let compiled = compiled(&schema_of(properties));
    let mut errors = compiled.constraints.validate(&object, None);
    errors.extend(compiled.constraints.validate_rest(&object, None));
    compiled.constraints.validate_expressions(&object, None, &mut errors);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected, "{object}");
}

#[test]
fn unknown_fields_are_dropped_where_the_schema_declares_what_there_is() {
    check_stored(
        json!({
            "spec": {"type": "object", "properties": {
                "items": {"type": "string"}, "type": {"type": "integer"}, "default": {"type": "boolean"},
                "properties": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        }),
        r#"{"spec": {"items": "", "type": 0, "default": false, "properties": {"k": {"a": "1", "b": 2}, "n": null}, "x": 1, "items": "i"},
            "list": [{"n": 1, "m": 2}, {}], "other": {}, "apiVersion": "example.com/v1", "kind": "Widget"}"#,
        json!({"spec": {"items": "i", "type": 0, "default": false, "properties": {"k": {"a": "1"}}}, "list": [{"n": 1}, {}]}),
        &[
            "duplicate field \"spec.items\"",
            "unknown field \"list[0].m\"",
            "unknown field \"other\"",
            "unknown field \"spec.properties.k.b\"",
            "unknown field \"spec.x\"",
        ],
    );
}

#[test]
fn unknown_fields_stay_where_the_schema_says_so_and_go_again_below_declared_ones() {
    check_stored(
        json!({
            "spec": {"type": "object", "x-orch-preserve-unknown-fields": true, "properties": {
                "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
            "any": {"x-orch-preserve-unknown-fields": true},
            "items": {"type": "array", "x-orch-preserve-unknown-fields": true, "items": {"type": "object", "properties": {
                "in": {"type": "object"}}}},
            "untyped": {"type": "object", "additionalProperties": true},
        }),
        r#"{"spec": {"z": {"y": null, "b": [{}]}, "closed": {"a": "1", "b": 2}}, "any": [1, {"z": 1, "a": null}],
            "items": [{"free": 1, "in": {"x": 1}}], "untyped": {"a": {"b": 1}, "n": null, "t": "x"}}"#,
        json!({"spec": {"closed": {"a": "1"}, "z": {"b": [{}], "y": null}}, "any": [1, {"a": null, "z": 1}],
            "items": [{"in": {}, "free": 1}], "untyped": {"a": {}, "n": null, "t": "x"}}),
        &[
            "unknown field \"items[0].in.x\"",
            "unknown field \"spec.closed.b\"",
            "unknown field \"untyped.a.b\"",
        ],
    );
}

#[test]
fn members_beside_the_declared_ones_are_kept_empty_where_any_are_allowed() {
    check_stored(
        json!({
            "any": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true},
            "none": {"type": "object", "additionalProperties": false},
            "kept": {"type": "object", "x-orch-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
            "both": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                "properties": {"b": {"type": "string"}}},
        }),
        r#"{"any": {"a": "1", "b": {"c": 1}, "d": 2, "n": null}, "none": {"x": 1}, "kept": [{"x": 1}], "both": [{"a": "1"}]}"#,
        json!({"any": {"a": "1", "b": {}, "d": 2, "n": null}, "none": {"x": 1}, "kept": [{"x": 1}], "both": [{"a": "1"}]}),
        &["unknown field \"any.b.c\""],
    );
    check_errors(
        json!({"none": {"type": "object", "additionalProperties": false}}),
        json!({"none": {"x": 1}}),
        &["none: Invalid value: \"x\": none.x in body is a forbidden property"],
    );
}

#[test]
fn an_enumeration_of_hundreds_of_thousands_is_told_in_part_and_compared_within_the_steps() {
    let names: Vec<Value> = (0..200_000).map(|at| json!(format!("name{at}"))).collect();
    let schema = schema_of(json!({"l": {"type": "array", "items": {"type": "string", "enum": names}}}));
    let constraints = compiled(&schema).constraints;
    let few = json!({"l": ["x", "y"]});
    let errors = constraints.validate(&few, None);
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|error| error.message.len() < 64 << 10), "names are cut");
    let many = json!({"l": vec!["x"; 100_000]});
    let poor = Arc::new(Budget::of(1_000_000));
    poor.enter(|| constraints.validate(&many, None));
    assert!(poor.check().is_err(), "the request ends");
}

#[test]
fn an_object_of_a_type_with_thousands_of_fields_takes_steps_for_them() {
    let properties: Value = (0..10_000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let items = json!({"type": "object", "properties": properties});
    let compiled = compiled(&schema_of(json!({"l": {"type": "array", "items": items}})));
    let mut object = json!({"l": vec![json!({}); 10_000]});
    for work in [0, 1] {
        let poor = Arc::new(Budget::of(1_000_000));
        poor.enter(|| match work {
            0 => apply_defaults(&compiled.schema, compiled.root, &mut object),
            _ => drop(compiled.constraints.validate(&object, None)),
        });
        assert!(poor.check().is_err(), "the request ends");
    }
}

#[test]
fn defaults_fill_absent_fields_and_nulls_that_are_no_values() {
    let integer = |default: i64| json!({"type": "integer", "default": default});
    check_stored(
        json!({"spec": {"type": "object", "properties": {
            "a": integer(1), "b": integer(2), "c": {"type": "integer", "default": 3, "nullable": true},
            "n": {"type": "string", "nullable": true}, "m": {"type": "string"},
            "o": {"type": "object", "default": {}, "properties": {"p": integer(4)}},
            "absent": {"type": "object", "properties": {"q": integer(5)}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"r": integer(6)}}},
            "list": {"type": "array", "items": {"type": "integer", "default": 7}},
            "nulls": {"type": "array", "items": {"type": "integer", "nullable": true}},
            "values": {"type": "object", "additionalProperties": {"type": "integer", "default": 8}},
        }}}),
        r#"{"spec": {"a": null, "b": 0, "c": null, "n": null, "m": null, "map": {"k": {}, "l": {"r": 0}, "z": null},
            "list": [null, 1], "nulls": [null], "values": {"v": null}}}"#,
        json!({"spec": {"a": 1, "b": 0, "c": null, "list": [7, 1], "map": {"k": {"r": 6}, "l": {"r": 0}}, "n": null,
            "nulls": [null], "o": {"p": 4}, "values": {"v": 8}}}),
        &[],
    );
}

#[test]
fn values_of_the_wrong_type_are_kept_for_the_rules_to_refuse() {
    let properties = json!({
        "text": {"type": "string"}, "object": {"type": "object", "properties": {"a": {"type": "string"}}},
        "list": {"type": "array", "items": {"type": "string"}}, "number": {"type": "integer"},
    });
    let body = r#"{"text": {"a": 1}, "object": [{"b": 1}], "list": "x", "number": "1"}"#;
    let (value, told) = stored(&compiled(&schema_of(properties.clone())), body);
    assert_eq!(value, json!({"metadata": {}, "text": {}, "object": [{}], "list": "x", "number": "1"}));
    assert_eq!(told, ["unknown field \"object[0].b\"", "unknown field \"text.a\""]);
    check_errors(
        properties,
        value,
        &[
            "list: Invalid value: \"string\": list in body must be of type array: \"string\"",
            "number: Invalid value: \"string\": number in body must be of type integer: \"string\"",
            "object: Invalid value: \"array\": object in body must be of type object: \"array\"",
            "text: Invalid value: \"object\": text in body must be of type string: \"object\"",
        ],
    );
}

#[test]
fn numbers_stay_as_they_were_sent() {
    check_stored(
        json!({"n": {"type": "number"}, "i": {"type": "integer"}, "x": {"x-orch-int-or-string": true}}),
        r#"{"n": 1.50, "i": 9007199254740993, "x": -0}"#,
        json!({"n": 1.5, "i": 9_007_199_254_740_993_i64, "x": 0}),
        &[],
    );
    check_stored(json!({"n": {"type": "number"}}), r#"{"n": 1.0}"#, json!({"n": 1}), &[]);
}

#[test]
fn objects_within_have_metadata_of_their_own() {
    let properties = json!({"template": {"type": "object", "x-orch-embedded-resource": true, "x-orch-preserve-unknown-fields": true}});
    check_stored(
        properties.clone(),
        r#"{"template": {"kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "nope": 1}, "spec": {"x": 1}, "apiVersion": "v1"}}"#,
        json!({"template": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"x": 1}}}),
        &["unknown field \"template.metadata.nope\""],
    );
    check_errors(
        properties,
        json!({"template": {"kind": "", "metadata": {"name": "a/b"}}}),
        &[
            "template.apiVersion: Required value",
            "template.kind: Invalid value: \"\": must not be empty",
            "template.metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ],
    );
}

fn check_causes<const N: usize>(cases: [(Value, Value, &str); N]) {
    for (schema, value, expected) in cases {
        let compiled = compiled(&schema_of(json!({"v": schema})));
        let errors = compiled.constraints.validate(&json!({"v": value}), None);
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        assert_eq!(first, format!("v: {expected}"), "{schema}");
    }
}

#[test]
fn enumerations_and_texts_have_the_words_of_the_reference() {
    check_causes([
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "number", "enum": [1, 2.5]}),
            json!(2),
            "Unsupported value: 2: supported values: \"1\", \"2.5\"",
        ),
        (
            json!({"x-orch-int-or-string": true, "enum": ["a", "bc"]}),
            json!(98),
            r#"Unsupported value: 98: supported values: "a", "bc""#,
        ),
        (
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
            json!(null),
            r#"Unsupported value: null: supported values: "a""#,
        ),
        (json!({"type": "string", "maxLength": 1}), json!("éé"), "Too long: may not be more than 1 byte"),
        (
            json!({"type": "string", "minLength": 3}),
            json!("éé"),
            r#"Invalid value: "éé": v in body should be at least 3 chars long"#,
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            r#"Invalid value: "b": v in body should match '^a+$'"#,
        ),
    ]);
}

#[test]
fn an_enumeration_compares_in_the_type_of_the_listed_value() {
    for (schema, value) in [
        (json!({"type": "number", "enum": [1, 2]}), json!(1.5)),
        (json!({"type": "number", "enum": [1.5, 2.0]}), json!(2)),
        (json!({"x-orch-int-or-string": true, "enum": ["a"]}), json!(97)),
        (json!({"x-orch-int-or-string": true, "enum": ["\u{fffd}"]}), json!(-1)),
    ] {
        check_errors(json!({"v": schema}), json!({"v": value}), &[]);
    }
}

#[test]
fn counts_and_bounds_have_the_words_of_the_reference() {
    check_causes([
        (
            json!({"type": "array", "maxItems": 1, "items": {}}),
            json!([1, 2]),
            "Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {}}),
            json!([]),
            "Invalid value: 0: v in body should have at least 1 items",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "Invalid value: 0: v in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "maxProperties": 0}),
            json!({"a": 1}),
            "Too many: 1: must have at most 0 items",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            "Invalid value: 6: v in body should be less than or equal to 5",
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "Invalid value: 5: v in body should be less than 5",
        ),
        (
            json!({"type": "number", "minimum": 0}),
            json!(-0.5),
            "Invalid value: -0.5: v in body should be greater than or equal to 0",
        ),
    ]);
}

#[test]
fn types_and_formats_have_the_words_of_the_reference() {
    check_causes([
        (
            json!({"type": "integer", "multipleOf": 4}),
            json!(6),
            "Invalid value: 6: v in body should be a multiple of 4",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1.5),
            r#"Invalid value: "float64": v in body must be of type int32: "float64""#,
        ),
        (
            json!({"type": "integer"}),
            json!(null),
            r#"Invalid value: "null": v in body must be of type integer: "null""#,
        ),
        (
            json!({"x-orch-int-or-string": true}),
            json!(true),
            r#"Invalid value: "boolean": v in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("x"),
            r#"Invalid value: "x": v in body must be of type ipv4: "x""#,
        ),
    ]);
}

#[test]
fn rules_are_not_checked_beside_other_faults_of_an_object() {
    check_errors(
        json!({"spec": {"type": "object", "required": ["a"], "x-orch-validations": [{"rule": "true"}]}}),
        json!({"spec": {}}),
        &[
            "spec.a: Required value",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ],
    );
}

#[test]
fn of_several_schemas_that_fail_the_one_that_fits_best_is_told() {
    let either = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [
        {"required": ["a"], "properties": {"a": {"enum": ["x"]}}}, {"required": ["b"]}]});
    for (value, expected) in [
        (json!({"a": "x"}), &[][..]),
        (
            json!({"a": "x", "b": "y"}),
            &[
                r#"<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ][..],
        ),
        (
            json!({"a": "y"}),
            &[
                r#"<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid"#,
                r#"v.a: Unsupported value: "y": supported values: "x""#,
            ][..],
        ),
    ] {
        check_errors(json!({"v": either}), json!({"v": value}), expected);
    }
    let not =
        json!({"type": "string", "not": {"pattern": "^a"}, "allOf": [{"minLength": 2}, {"maxLength": 3}]});
    check_errors(
        json!({"v": not}),
        json!({"v": "a"}),
        &[
            r#"v: Invalid value: "a": v in body should be at least 2 chars long"#,
            r#"<nil>: Invalid value: "": "v" must validate all the schemas (allOf)"#,
            r#"<nil>: Invalid value: "": "v" must not validate the schema (not)"#,
        ],
    );
}

#[test]
fn sets_and_maps_have_no_repeated_members() {
    let properties = json!({
        "set": {"type": "array", "x-orch-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["k", "p"], "items": {"type": "object"}},
    });
    check_errors(
        properties,
        json!({"set": ["a", "b", "a", "a"], "map": [{"k": 1, "p": "t"}, {"k": 1}, {"p": "t", "k": 1}]}),
        &[r#"map[2]: Duplicate value: {"k":1,"p":"t"}"#, r#"set[2]: Duplicate value: "a""#],
    );
}

#[test]
fn breaches_of_before_that_did_not_change_are_forgiven() {
    let compiled = compiled(&schema_of(json!({
        "spec": {"type": "object", "required": ["must"], "properties": {
            "n": {"type": "integer", "maximum": 1},
            "map": {"type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["k"], "items": {"type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
            "atomic": {"type": "array", "items": {"type": "integer", "maximum": 1}},
        }},
        "set": {"type": "array", "x-orch-list-type": "set", "items": {"type": "integer"}},
    })));
    let texts = |old: &Value, new: &Value| -> Vec<String> {
        let constraints = &compiled.constraints;
        let mut errors = constraints.validate(new, Some(old));
        errors.extend(constraints.validate_rest(new, Some(old)));
        errors.iter().map(|error| error.path.to_string()).collect()
    };
    let spec = |n: i64, list: Value, atomic: Value| json!({"spec": {"n": n, "map": list, "atomic": atomic}, "set": [1, 1]});
    let old = spec(5, json!([{"k": "a", "v": 9}, {"k": "b", "v": 1}]), json!([7]));
    assert_eq!(texts(&old, &old), [""; 0]);
    let moved = spec(5, json!([{"k": "c", "v": 9}, {"k": "a", "v": 9}]), json!([7]));
    assert_eq!(texts(&old, &moved), ["spec.map[0].v", "spec.must"]);
    let other = spec(6, json!([]), json!([7, 1]));
    assert_eq!(texts(&old, &other), ["spec.atomic[0]", "spec.n", "spec.must"]);
    let mut sets = old.clone();
    sets["set"] = json!([2, 2]);
    assert_eq!(texts(&old, &sets), [""; 0], "the list had repeated items before");
}

#[test]
fn defaults_that_explode_are_counted_before_they_are_made() {
    let level = |inner: Value| {
        let items = json!({"type": "object", "properties": {"l": inner}});
        json!({"type": "array", "default": vec![json!({}); 100], "items": items})
    };
    let mut schema = json!({"type": "string", "default": "x".repeat(1000)});
    for _ in 0..6 {
        schema = level(schema);
    }
    let compiled = compiled(&schema_of(json!({"spec": {"type": "object", "properties": {"l": schema}}})));
    let decoded =
        |body: &[u8]| decode_json(&compiled.schema, compiled.root, body, Limits::default()).map(drop);
    assert_eq!(decoded(br#"{"metadata": {}}"#), Ok(()), "nothing is made in an absent object");
    assert_eq!(decoded(br#"{"spec": {}}"#), Err(orch_schema::DecodeError::OverBudget));
}

#[test]
fn a_pattern_is_charged_for_a_long_text_before_it_is_matched() {
    let schema = schema_of(json!({"v": {"type": "string", "pattern": "^(a|b|[^c]){1,64}$"}}));
    let constraints = compiled(&schema).constraints;
    assert!(!constraints.validate(&json!({"v": "c"}), None).is_empty());
    let object = json!({"v": "a".repeat(1 << 20)});
    let poor = Arc::new(Budget::of(100_000));
    poor.enter(|| constraints.validate(&object, None));
    assert!(poor.check().is_err(), "the request ends");
}

#[test]
fn alternatives_in_alternatives_are_paid_for_in_steps() {
    let node = |depth: u32| {
        (0..depth)
            .fold(json!({"required": ["zz"]}), |inner, _| json!({"oneOf": [inner, inner], "anyOf": [inner]}))
    };
    let mut items = node(6);
    items["type"] = json!("object");
    let schema = schema_of(json!({"l": {"type": "array", "items": items}}));
    let constraints = compiled(&schema).constraints;
    let object = json!({"l": vec![json!({}); 1000]});
    let poor = Arc::new(Budget::of(5_000_000));
    poor.enter(|| constraints.validate(&object, None));
    assert!(poor.check().is_err(), "the request ends");
}

#[test]
fn a_schema_takes_little_memory() {
    let property = |at: usize| {
        (
            format!("property{at}"),
            json!({"type": "string", "description": "What this is for, in a sentence or two."}),
        )
    };
    let properties: Value = (0..1000).map(property).collect();
    let schema = schema_of(json!({"spec": {"type": "object", "properties": properties}}));
    let compiled = compiled(&schema);
    let of_rules = compiled.constraints.held_bytes() / 1000;
    let of_tables = size_of::<orch_schema::Field>() + 24;
    assert!(of_rules <= 40 && of_tables <= 128, "{of_rules} and {of_tables} bytes for each property");
}
