//! Nulls of an apply, and parts of a schema that are the same.

use orch_schema::decode_applied;

use super::*;

/// The object after an apply of `body`, and what is wrong with it.
fn applied(properties: Value, body: &Value) -> (Value, Vec<String>) {
    let Compiled { schema, root, constraints, .. } = compiled(&schema_of(properties));
    let decoded = decode_applied(&schema, root, body.to_string().as_bytes(), Limits::default()).unwrap();
    let mut value = decoded.value;
    apply_defaults(&schema, root, &mut value);
    let errors = constraints.validate(&value, None);
    (value, errors.iter().map(ToString::to_string).collect())
}

#[test]
fn nulls_of_an_apply_are_replaced_by_defaults_or_kept_where_allowed_and_refused_elsewhere() {
    let object = |nullable: bool| json!({"type": "object", "nullable": nullable, "properties": {"a": {"type": "string"}}});
    let properties = json!({
        "plain": {"type": "string"}, "object": object(false), "list": {"type": "array", "items": {"type": "string"}},
        "either": {"x-orch-int-or-string": true}, "filled": {"type": "integer", "default": 3},
        "nullable": object(true), "any": {"x-orch-preserve-unknown-fields": true},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "nullables": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        "values": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
        "items": {"type": "array", "items": object(false)},
        "loose": {"type": "object", "x-orch-preserve-unknown-fields": true},
        "looses": {"type": "object", "additionalProperties": {"type": "object", "x-orch-preserve-unknown-fields": true}},
    });
    let wrong = |field: &str, kind: &str| {
        format!("{field}: Invalid value: \"null\": {field} in body must be of type {kind}: \"null\"")
    };
    for (field, value, expected) in [
        ("plain", json!(null), Err(wrong("plain", "string"))),
        ("object", json!(null), Err(wrong("object", "object"))),
        ("object", json!({"a": null}), Err(wrong("object.a", "string"))),
        ("list", json!(null), Err(wrong("list", "array"))),
        ("list", json!([null]), Err(wrong("list[0]", "string"))),
        ("either", json!(null), Err(wrong("either", "integer,string"))),
        ("filled", json!(null), Ok(json!(3))),
        ("nullable", json!(null), Ok(json!(null))),
        ("nullable", json!({"a": null}), Err(wrong("nullable.a", "string"))),
        ("any", json!(null), Ok(json!(null))),
        ("any", json!({"a": null}), Ok(json!({"a": null}))),
        ("map", json!({"k": null}), Err(wrong("map.k", "string"))),
        ("nullables", json!({"k": null}), Ok(json!({"k": null}))),
        ("values", json!({"k": null}), Ok(json!({"k": "d"}))),
        ("items", json!([null]), Err(wrong("items[0]", "object"))),
        ("loose", json!(null), Err(wrong("loose", "object"))),
        ("looses", json!({"k": null}), Err(wrong("looses.k", "object"))),
    ] {
        let (kept, errors) = applied(properties.clone(), &json!({"metadata": null, field: value}));
        match expected {
            Ok(expected) => {
                assert_eq!((kept.get(field), errors), (Some(&expected), vec![]), "{field} {value}");
            }
            Err(expected) => assert_eq!(errors, [expected], "{field} {value}"),
        }
        assert_eq!(kept["metadata"], json!({}), "null is the absence of metadata");
    }
}

#[test]
fn parts_of_a_schema_that_are_the_same_are_kept_once() {
    let container = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]+$", "description": "A name."},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "ports": {"type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["port"], "items": {
            "type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "minimum": 1}}}},
    }});
    let list = |item: &Value| json!({"type": "array", "items": item});
    let schema =
        |count: usize| schema_of((0..count).map(|at| (format!("list{at}"), list(&container))).collect());
    let (one, many) = (compiled(&schema(1)), compiled(&schema(100)));
    assert_eq!(one.schema.len(), many.schema.len(), "types of objects");
    let (few, all) = (one.constraints.held_bytes(), many.constraints.held_bytes());
    assert!(all < few + 100 * 40, "{few} and {all}");
    // Parts that differ in what is seldom said are not the same.
    let mut other = container.clone();
    other["properties"]["mode"]["enum"] = json!(["a", "c"]);
    let differing = compiled(&schema_of(json!({"one": list(&container), "other": list(&other)})));
    let object = json!({"one": [{"name": "n", "mode": "c"}], "other": [{"name": "n", "mode": "b"}]});
    let errors = differing.constraints.validate(&object, None);
    assert_eq!(errors.iter().count(), 2, "{errors:?}");
    other["properties"]["mode"] = json!({"type": "string", "enum": ["a", "b"], "default": "b"});
    let differing = compiled(&schema_of(json!({"one": list(&container), "other": list(&other)})));
    let (filled, _) = stored(&differing, r#"{"one": [{"name": "n"}], "other": [{"name": "n"}]}"#);
    assert_eq!((&filled["one"][0]["mode"], &filled["other"][0]["mode"]), (&json!("a"), &json!("b")));
}
