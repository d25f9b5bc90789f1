//! A slow oracle for pruning and defaults: both rules of structural schemas, written straight on trees of JSON.
//!
//! Owns the comparison of random schemas and values: the decoder and the defaults along the tables make what the oracle makes, tell
//! of the same unknown fields, and make nothing else of what they made.

use orch_schema::{Limits, apply_defaults, decode_json, encode_json, json};
use proptest::prelude::*;

use super::tests::compiled;
use super::*;

const PRESERVE: &str = "x-orch-preserve-unknown-fields";

fn property<'s>(schema: Option<&'s Value>, name: &str) -> Option<&'s Value> {
    schema?.get("properties")?.get(name)
}

/// The schema of values beside the properties; `Some(None)`: any value, of which nothing is declared.
fn additional(schema: Option<&Value>) -> Option<Option<&Value>> {
    match schema?.get("additionalProperties")? {
        Value::Bool(_) => Some(None),
        of => Some(Some(of)),
    }
}

fn flag(schema: Option<&Value>, name: &str) -> bool {
    schema.and_then(|schema| schema.get(name)) == Some(&Value::Bool(true))
}

/// Whether each member in `value`, but in lists, has a schema.
fn declares_all(schema: &Value, value: &Value) -> bool {
    let is_declared = |(name, value): (&SmolStr, &Value)| {
        let of = property(Some(schema), name).or(additional(Some(schema)).flatten());
        of.is_some_and(|of| declares_all(of, value))
    };
    value.as_object().into_iter().flatten().all(is_declared)
}

/// Drops what is not declared, and notes its path. `is_kept`: unknown members stay, here and in lists.
fn prune(value: &mut Value, schema: Option<&Value>, is_kept: bool, path: &str, dropped: &mut Vec<String>) {
    let is_kept = is_kept || flag(schema, PRESERVE);
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().map(ToString::to_string).collect();
            for name in names {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some(schema) = property(schema, &name) {
                    prune(&mut map[name.as_str()], Some(schema), false, &below, dropped);
                } else if let Some(schema) = additional(schema) {
                    prune(&mut map[name.as_str()], schema, false, &below, dropped);
                } else if !is_kept {
                    map.shift_remove(&name);
                    dropped.push(format!("unknown field {below:?}"));
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            if is_kept && schema.is_none() {
                return;
            }
            for (at, item) in items.iter_mut().enumerate() {
                prune(item, schema, is_kept, &format!("{path}[{at}]"), dropped);
            }
        }
        _ => {}
    }
}

fn default_of(schema: Option<&Value>) -> Option<&Value> {
    schema.and_then(|schema| schema.get("default")).filter(|default| !default.is_null())
}

fn below<'s>(schema: Option<&'s Value>, name: &str) -> Option<&'s Value> {
    property(schema, name).or_else(|| additional(schema).flatten())
}

/// Drops nulls of members that are neither nullable nor have a default.
fn drop_nulls(value: &mut Value, schema: Option<&Value>) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                let schema = below(schema, name);
                !(value.is_null()
                    && schema.is_some()
                    && !flag(schema, "nullable")
                    && default_of(schema).is_none())
            });
            map.iter_mut().for_each(|(name, value)| drop_nulls(value, below(schema, name)));
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            items.iter_mut().for_each(|item| drop_nulls(item, schema));
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: Option<&Value>) {
    let replace_null = |value: &mut Value, schema: Option<&Value>| {
        if value.is_null() && !flag(schema, "nullable") {
            *value = default_of(schema).cloned().unwrap_or_default();
        }
    };
    match value {
        Value::Object(map) => {
            let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                if let Some(default) = default_of(Some(schema)) {
                    let is_nullable = flag(Some(schema), "nullable");
                    if map.get(name).is_none_or(|value| value.is_null() && !is_nullable) {
                        map.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, value) in map.iter_mut() {
                let values = additional(schema).flatten().filter(|_| property(schema, name).is_none());
                if values.is_some() {
                    replace_null(value, values);
                }
                fill(value, below(schema, name));
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.and_then(|schema| schema.get("items")) {
                for item in items {
                    replace_null(item, Some(schema));
                    fill(item, Some(schema));
                }
            }
        }
        _ => {}
    }
}

const NAMES: [&str; 7] = ["a", "b", "items", "properties", "default", "type", "x"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(0.5)),
        prop::sample::select(&["", "t", "text that is longer than twenty-three bytes"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// A node with the flags and the default. What the node would not keep is no default.
fn with_flags(node: Value, flags: (bool, bool, Option<Value>)) -> Value {
    let (nullable, preserves, default) = flags;
    let mut node = node;
    if nullable {
        node["nullable"] = json!(true);
    }
    if preserves || node.get("type").is_none() {
        node[PRESERVE] = json!(true);
    }
    if let Some(mut default) = default {
        prune(&mut default, Some(&node), false, "", &mut Vec::new());
        drop_nulls(&mut default, Some(&node));
        node["default"] = default;
    }
    node
}

fn schema() -> impl Strategy<Value = Value> {
    let flags = || {
        let default = prop::option::weighted(0.3, value());
        (prop::bool::weighted(0.2), prop::bool::weighted(0.2), default)
    };
    let types = ["string", "integer", "number", "boolean", "object"];
    let leaf = prop_oneof![
        4 => prop::sample::select(types.to_vec()).prop_map(|name| json!({"type": name})),
        1 => Just(json!({})),
    ];
    let leaf = (leaf, flags()).prop_map(|(node, flags)| with_flags(node, flags));
    leaf.prop_recursive(4, 32, 5, move |inner| {
        let properties = prop::collection::vec((name(), inner.clone()), 1..5);
        let node = prop_oneof![
            3 => properties.prop_map(|members| {
                let members: Value = members.into_iter().collect();
                json!({"type": "object", "properties": members})
            }),
            1 => inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            1 => any::<bool>().prop_map(|any| json!({"type": "object", "additionalProperties": any})),
            1 => inner.clone().prop_map(|a| json!({"type": "object", "properties": {"a": a}, "additionalProperties": true})),
            2 => inner.prop_map(|items| json!({"type": "array", "items": items})),
        ];
        (node, flags()).prop_map(|(node, flags)| with_flags(node, flags))
    })
}

fn written(compiled: &Compiled, body: &str) -> (Vec<u8>, Vec<String>) {
    let Compiled { schema, root, .. } = compiled;
    let decoded = decode_json(schema, *root, body.as_bytes(), Limits::default()).unwrap();
    let mut value = decoded.value;
    apply_defaults(schema, *root, &mut value);
    let mut json = Vec::new();
    encode_json(schema, *root, &value, &mut json);
    (json, decoded.strict.iter().map(ToString::to_string).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn values_become_what_the_rules_say_and_stay_so(
        properties in prop::collection::vec((name(), schema()), 1..5),
        members in prop::collection::vec((name(), value()), 0..6),
        preserves in prop::bool::weighted(0.1),
    ) {
        let mut root = json!({"type": "object"});
        root["properties"] = properties.into_iter().collect();
        if preserves {
            root[PRESERVE] = json!(true);
        }
        let mut expected: Value = members.into_iter().collect();
        let body = expected.to_string();
        let mut dropped = Vec::new();
        prune(&mut expected, Some(&root), false, "", &mut dropped);
        dropped.sort();
        drop_nulls(&mut expected, Some(&root));
        fill(&mut expected, Some(&root));
        expected["metadata"] = json!({});
        let compiled = compiled(&root);
        let (json, mut told) = written(&compiled, &body);
        told.sort();
        prop_assert_eq!(told, dropped, "{} {}", root, body);
        let found: Value = serde_json::from_slice(&json).unwrap();
        prop_assert_eq!(&found, &expected, "{} {}", root, body);
        let (again, told) = written(&compiled, std::str::from_utf8(&json).unwrap());
        prop_assert_eq!((again, told), (json, Vec::new()), "{} {}", root, body);
        compiled.constraints.validate(&found, None);
        let is_declared = |(name, value): (&SmolStr, &Value)| {
            property(Some(&root), name).is_none_or(|schema| declares_all(schema, value))
        };
        if found.as_object().into_iter().flatten().all(is_declared) {
            let errors = compiled.constraints.validate(&found, Some(&found));
            prop_assert!(errors.is_empty(), "what is declared and unchanged is forgiven: {:?}", errors);
        }
    }
}
