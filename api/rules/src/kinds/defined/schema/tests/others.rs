//! Objects of other kinds within an object: their defaults, and unknown fields of their metadata.

use super::*;

/// An embedded object with these declared fields.
fn embedded(properties: Value) -> Value {
    json!({"type": "object", "x-orch-embedded-resource": true, "x-orch-preserve-unknown-fields": true, "properties": properties})
}

#[test]
fn an_object_within_gets_the_defaults_of_its_kind_version_and_metadata() {
    let text = |default: &str| json!({"type": "string", "default": default});
    let labels = json!({"type": "object", "default": {}, "additionalProperties": {"type": "string"}, "properties": {"a": text("b")}});
    let template = embedded(json!({
        "kind": text("Foo"), "apiVersion": text("a/v1"), "spec": {"type": "object", "default": {}},
        "metadata": {"type": "object", "properties": {"labels": labels, "name": text("n")}},
    }));
    let filled = |more: Value| {
        let mut filled = json!({"kind": "Foo", "apiVersion": "a/v1", "spec": {}});
        filled.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "template": filled })
    };
    let properties = json!({"template": template});
    for (body, more) in [
        ("{}", json!({})),
        (r#"{"kind": "Bar", "apiVersion": null}"#, json!({"kind": "Bar"})),
        (r#"{"metadata": {}}"#, json!({"metadata": {"name": "n", "labels": {"a": "b"}}})),
        (
            r#"{"metadata": {"name": "m", "labels": {"c": "d"}}}"#,
            json!({"metadata": {"name": "m", "labels": {"a": "b", "c": "d"}}}),
        ),
    ] {
        let body = format!(r#"{{"template": {body}}}"#);
        check_stored(properties.clone(), &body, filled(more), &[]);
    }
    let whole = embedded(json!({"metadata": {"type": "object", "default": {"labels": {"x": "y"}}}}));
    let object = json!({"type": "object", "default": {}, "properties": {"template": whole}});
    check_stored(
        json!({ "o": object, "list": {"type": "array", "items": whole} }),
        r#"{"o": {"template": {}}, "list": [{"z": 1}]}"#,
        json!({
            "o": {"template": {"metadata": {"labels": {"x": "y"}}}},
            "list": [{"z": 1, "metadata": {"labels": {"x": "y"}}}],
        }),
        &[],
    );
}

#[test]
fn a_default_of_metadata_within_keeps_what_metadata_have_and_nothing_else() {
    let text = |default: &str| json!({"type": "string", "default": default});
    let filled = |metadata: Value, sent: &str, expected: Value| {
        let template = embedded(json!({"metadata": metadata, "kind": text("K"), "apiVersion": text("v1")}));
        let compiled = compiled(&schema_of(json!({"template": template})));
        let (value, told) = stored(&compiled, &format!(r#"{{"template": {sent}}}"#));
        assert_eq!((&value["template"]["metadata"], told.len()), (&expected, 0), "{metadata}");
        let (again, told) = stored(&compiled, &value.to_string());
        assert_eq!((again, told.len()), (value, 0), "what is stored is sent again");
    };
    let labels = json!({"labels": {"x": "y"}, "bad": 1, "creationTimestamp": null, "annotations": {}});
    filled(json!({"type": "object", "default": labels}), "{}", json!({"labels": {"x": "y"}}));
    let map = |default: Value, properties: Value| json!({"type": "object", "default": default, "properties": properties});
    for (properties, expected) in [
        (json!({"bad": text("x"), "name": text("n")}), json!({"name": "n"})),
        (json!({"labels": map(json!({}), json!({}))}), json!({})),
        (json!({"labels": map(json!({}), json!({"a": text("b")}))}), json!({"labels": {"a": "b"}})),
        (
            json!({"labels": map(json!({"c": "d"}), json!({"a": text("b")}))}),
            json!({"labels": {"a": "b", "c": "d"}}),
        ),
    ] {
        let metadata = json!({"type": "object", "properties": properties});
        filled(metadata, r#"{"metadata": {}}"#, expected);
    }
    let nested = json!({"labels": {"type": "object", "properties": {"a": text("b")}}});
    let whole = json!({"type": "object", "default": {"labels": {}}, "properties": nested});
    filled(whole, "{}", json!({"labels": {"a": "b"}}));
}

#[test]
fn defaults_of_metadata_within_are_counted_before_they_are_made() {
    let name = json!({"type": "string", "default": "x".repeat(10_000)});
    let item = embedded(json!({"metadata": {"type": "object", "properties": {"name": name}}}));
    let compiled = compiled(&schema_of(json!({"l": {"type": "array", "items": item}})));
    let body = json!({"l": vec![json!({"metadata": {}}); 100_000]}).to_string();
    let decoded = decode_json(&compiled.schema, compiled.root, body.as_bytes(), Limits::default());
    assert_eq!(decoded.map(drop), Err(orch_schema::DecodeError::OverBudget));
}

#[test]
fn unknown_fields_of_metadata_within_come_last_with_keys_in_brackets() {
    let properties = json!({
        "m": {"type": "object", "additionalProperties": embedded(json!({}))},
        "l": {"type": "array", "items": embedded(json!({}))},
        "z": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
    });
    check_stored(
        properties,
        r#"{"m": {"k": {"metadata": {"bad": 1, "ownerReferences": [{"no": 1, "no": 2}]}}}, "l": [{"metadata": {"bad": 1}}],
            "z": {"k": {"b": 1}}}"#,
        json!({
            "m": {"k": {"metadata": {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}}},
            "l": [{"metadata": {}}], "z": {"k": {}},
        }),
        &[
            "unknown field \"z.k.b\"",
            "unknown field \"l[0].metadata.bad\"",
            "unknown field \"m[k].metadata.bad\"",
            "unknown field \"m[k].metadata.ownerReferences[0].no\"",
        ],
    );
}
