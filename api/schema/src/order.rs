//! The order of members: fields as their type declares them, keys of maps by name.
//!
//! Owns the order in which stored objects have their members, for values that a client sent in another one. Messages
//! about such a value show it in this order. Adds and removes nothing.

use super::types::{ObjectType, Schema, TypeId, ValueType};
use crate::budget::count_step;
use crate::value::{Map, Value};

/// Brings the members of `value`, and of all values in it, into their order; unknown members come last.
pub fn order_members(schema: &Schema, type_id: TypeId, value: &mut Value) {
    order_value(schema, &ValueType::Object(type_id), value);
}

fn order_value(schema: &Schema, ty: &ValueType, value: &mut Value) {
    match (ty.plain(), value) {
        (ValueType::Object(id), Value::Object(map)) => order_object(schema, schema.get(*id), map),
        (ValueType::List { item, .. }, Value::Array(items)) => {
            items.iter_mut().take_while(|_| count_step()).for_each(|value| order_value(schema, item, value));
        }
        (ValueType::Map { value: ty, .. }, Value::Object(map)) => {
            map.sort_keys();
            map.values_mut().take_while(|_| count_step()).for_each(|value| order_value(schema, ty, value));
        }
        _ => {}
    }
}

fn order_object(schema: &Schema, ty: &ObjectType, map: &mut Map) {
    map.sort_by_place(|name| ty.position(name).unwrap_or(usize::MAX));
    for (name, value) in map.iter_mut().take_while(|_| count_step()) {
        if let Some(field) = ty.field(name) {
            order_value(schema, &field.value, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::testing::orch;

    #[test]
    fn fields_stand_as_declared_and_keys_by_name() {
        let mut value = json!({
            "spec": {
                "template": {"spec": {"containers": [{"image": "i", "name": "c", "odd": 1}]}},
                "selector": {"matchExpressions": [{"operator": "Exists", "key": "k"}], "matchLabels": {"z": "1", "a": "2"}},
                "replicas": 1
            },
            "metadata": {"name": "n"}
        });
        order_members(orch(), orch().find_type("apps.v1.Deployment").unwrap(), &mut value);
        assert_eq!(
            value.to_string(),
            concat!(
                r#"{"metadata":{"name":"n"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"2","z":"1"},"#,
                r#""matchExpressions":[{"key":"k","operator":"Exists"}]},"template":{"spec":{"containers":"#,
                r#"[{"name":"c","image":"i","odd":1}]}}}}"#
            )
        );
        assert_eq!(value["spec"]["selector"]["matchLabels"]["z"], "1");
    }
}
