//! Applies to objects of declared kinds, whose schemas say less than tables of built-in kinds.

use std::sync::{Arc, LazyLock};

use orch_proto::brand::ORCH;
use orch_rules::kinds::defined::schema::{Compiled, Input, compile};

use super::*;

/// A kind whose objects have a member `v` of this schema.
fn kind(schema: &Value) -> Compiled {
    static BASE: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Schema::builtin(&ORCH)));
    let schema = json!({"type": "object", "properties": {"v": schema}});
    let input = Input {
        brand: &ORCH,
        group: "example.com",
        version: "v1",
        kind: "Widget",
        schema: &schema,
        preserve_unknown_fields: false,
    };
    compile(&input, &BASE).unwrap()
}

fn object(value: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "a"}, "v": value})
}

fn applied(kind: &Compiled, live: Option<&Value>, value: &Value) -> Result<Value, String> {
    let options = ApplyOptions { force: true, brand: &ORCH };
    let writer = Writer { manager: "m", ..writer("") };
    let live = live.map(object);
    apply(&kind.schema, kind.root, live, &object(value), &writer, options).map_err(|error| error.to_string())
}

fn owned(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().find(|entry| entry["manager"] == "m").unwrap()["fieldsV1"].clone()
}

#[test]
fn an_apply_takes_what_the_schema_leaves_open_and_the_rules_refuse_it() {
    let leaf = json!({"f:v": {}});
    let date = json!({"type": "string", "format": "date-time"});
    let untyped = json!({"x-orch-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
    let values = json!({"x-orch-preserve-unknown-fields": true, "additionalProperties": {"type": "string"}});
    let either = json!({"x-orch-int-or-string": true});
    let free = json!({"type": "object", "x-orch-preserve-unknown-fields": true});
    let object = json!({"type": "object"});
    let any_values = json!({"type": "object", "additionalProperties": true});
    let no_values = json!({"type": "object", "additionalProperties": false});
    let member = |name: &str| json!({"f:v": {name: {}}});
    let expected = |form: &str| Err(format!(".v: expected {form}, got "));
    for (schema, value, found) in [
        (&date, json!(5), Ok(leaf.clone())),
        (&date, json!(true), Ok(leaf.clone())),
        (&date, json!([5]), expected("any scalar")),
        (&json!({"type": "string", "format": "byte"}), json!(5), expected("string")),
        (&json!({"type": "string"}), json!(5), expected("string")),
        (&untyped, json!("text"), Ok(leaf.clone())),
        (&untyped, json!([{"a": 1}]), Ok(leaf.clone())),
        (&untyped, json!({"a": "x"}), Ok(member("f:a"))),
        (&untyped, json!({"a": 5}), Err(".v.a: expected string, got ".to_owned())),
        (&values, json!(5), Ok(leaf.clone())),
        (&values, json!({"k": 5}), Err(".v.k: expected string, got ".to_owned())),
        (&either, json!({"a": 1}), Ok(member("f:a"))),
        (&either, json!([1]), Ok(leaf.clone())),
        (&either, json!("x"), Ok(leaf)),
        (&free, json!("x"), expected("map")),
        (&free, json!({"a": 1}), Ok(member("f:a"))),
        (&object, json!("x"), expected("map")),
        (&object, json!({"a": {"b": 1}}), Ok(json!({"f:v": {"f:a": {".": {}, "f:b": {}}}}))),
        (&any_values, json!({"k": "x"}), Ok(member("f:k"))),
        (&any_values, json!({"k": {"b": 1}}), Ok(json!({"f:v": {"f:k": {".": {}, "f:b": {}}}}))),
        (&any_values, json!("x"), expected("map")),
        (&no_values, json!({"k": {"b": 1}}), Err(".v.k: field not declared in schema".to_owned())),
        (&no_values, json!({}), Ok(json!({"f:v": {}}))),
    ] {
        let kind = kind(schema);
        match (applied(&kind, None, &value), found) {
            (Ok(object), Ok(fields)) => assert_eq!(owned(&object), fields, "{schema} {value}"),
            (Err(told), Err(end)) => assert!(told.contains(&end), "{schema} {value}: {told}"),
            (told, found) => panic!("{schema} {value}: {told:?} is not {found:?}"),
        }
    }
}

#[test]
fn a_value_that_changes_its_form_is_replaced_and_owned_by_who_changes_it() {
    let kind =
        kind(&json!({"x-orch-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}));
    for (before, after, fields) in [
        (json!({"a": "x"}), json!("text"), json!({"f:v": {}})),
        (json!("text"), json!({"a": "x"}), json!({"f:v": {"f:a": {}}})),
        (json!([1]), json!({"a": "x", "z": 1}), json!({"f:v": {"f:a": {}, "f:z": {}}})),
        (json!({"a": "x"}), json!([1]), json!({"f:v": {}})),
    ] {
        let object = applied(&kind, Some(&before), &after).unwrap();
        assert_eq!((&object["v"], owned(&object)), (&after, fields), "{before} {after}");
    }
    let compared =
        compare(&kind.schema, kind.root, &object(&json!("x")), &object(&json!({"a": "y"}))).unwrap();
    let has = |set: &FieldSet, names: &[&str]| {
        let path: Vec<PathElement> = names.iter().map(|name| PathElement::field(name)).collect();
        set.has(&path)
    };
    assert!(has(&compared.changed, &["v", "a"]) && has(&compared.changed, &["v"]), "{compared:?}");
}

#[test]
fn an_atomic_map_of_unknown_members_is_owned_as_a_whole() {
    let value = json!({"a": 1, "b": {"c": 2}});
    let owned_of = |schema: &Value| owned(&applied(&kind(schema), None, &value).unwrap())["f:v"].clone();
    let free = json!({"type": "object", "x-orch-preserve-unknown-fields": true});
    assert_eq!(owned_of(&free), json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}));
    let atomic =
        json!({"type": "object", "x-orch-preserve-unknown-fields": true, "x-orch-map-type": "atomic"});
    assert_eq!(owned_of(&atomic), json!({}));
    let unknown = json!({"type": "object", "x-orch-map-type": "atomic"});
    assert_eq!(owned_of(&unknown), json!({}));
    for item in [&atomic, &unknown] {
        let values = json!({"type": "object", "additionalProperties": item});
        let value = json!({"k": {"a": 1}});
        let owned = owned(&applied(&kind(&values), None, &value).unwrap());
        assert_eq!(owned, json!({"f:v": {"f:k": {}}}), "{item}");
    }
}
