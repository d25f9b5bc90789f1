//! The memory that an object in canonical form holds, counted as a decoder counts it.
//!
//! Owns the memory check of objects that were not decoded as a whole: a patched object has members that the patch does
//! not reach, an applied object its managed fields.

use super::json::{DecodeError, Limits};
use super::types::{ObjectType, Schema, TypeId, ValueType, Wire};
use crate::budget::{MemoryCounter, OverBudget};
use crate::value::{Map, Value};

/// Checks that an object of type `type_id` holds no more than `limits.held_bytes_max`.
///
/// # Errors
/// [`DecodeError::OverBudget`].
pub fn check_held(
    schema: &Schema,
    type_id: TypeId,
    value: &Value,
    limits: Limits,
) -> Result<(), DecodeError> {
    let Value::Object(map) = value else { return Ok(()) };
    let mut counter = Counter { schema, held: MemoryCounter::new(limits.held_bytes_max) };
    Ok(counter.object(schema.get(type_id), map)?)
}

struct Counter<'s> {
    schema: &'s Schema,
    held: MemoryCounter,
}

impl Counter<'_> {
    fn object(&mut self, ty: &ObjectType, map: &Map) -> Result<(), OverBudget> {
        self.held.object_of(ty)?;
        map.iter().try_for_each(|(name, value)| match ty.field(name) {
            Some(field) => {
                self.held.field_of(ty)?;
                self.value(&field.value, field.wire, value)
            }
            None => {
                self.held.entry()?;
                self.untyped(value)
            }
        })
    }

    fn value(&mut self, ty: &ValueType, wire: Wire, value: &Value) -> Result<(), OverBudget> {
        match (ty.plain(), value) {
            (ValueType::Object(id), Value::Object(map)) => self.object(self.schema.get(*id), map),
            (ValueType::Map { value: ty, .. }, Value::Object(map)) => map.values().try_for_each(|value| {
                self.held.entry()?;
                self.value(ty, wire, value)
            }),
            (ValueType::List { item, .. }, Value::Array(items)) => items.iter().try_for_each(|value| {
                self.held.item()?;
                self.value(item, Wire::Plain, value)
            }),
            (ValueType::Untyped, Value::Object(map)) => match wire {
                Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id) => {
                    self.object(self.schema.get(id), map)
                }
                Wire::Plain | Wire::Wrapped => self.untyped(value),
            },
            (_, value) => self.untyped(value),
        }
    }

    fn untyped(&mut self, value: &Value) -> Result<(), OverBudget> {
        match value {
            Value::Object(map) => map.values().try_for_each(|value| {
                self.held.entry()?;
                self.untyped(value)
            }),
            Value::Array(items) => items.iter().try_for_each(|value| {
                self.held.item()?;
                self.untyped(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::json;
    use crate::testing::orch;
    use crate::{decode_json, encode_json};

    /// The least bound that `passes`.
    fn least(passes: impl Fn(usize) -> bool) -> usize {
        let (mut below, mut above) = (0, 1 << 20);
        while below < above {
            let middle = usize::midpoint(below, above);
            if passes(middle) { above = middle } else { below = middle + 1 }
        }
        above
    }

    #[test]
    fn an_object_counts_as_much_as_its_decoding() {
        let managers = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}, "k:{\"b\":1}": {"f:c": {}}}}}]);
        for (name, object) in [
            (
                "core.v1.ConfigMap",
                json!({"metadata": {"name": "m", "managedFields": managers}, "data": {"a": "b"}}),
            ),
            (
                "core.v1.Pod",
                json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}, "spec": {
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}},
                        "ports": [{"containerPort": 80}, {"containerPort": 81}]}, {"name": "d"}],
                    "tolerations": [{"key": "k"}]}}),
            ),
            (
                "networking.v1.NetworkPolicy",
                json!({"spec": {"podSelector": {}, "ingress": [{}, {"ports": [{"port": "http"}, {"port": 1}]}]}}),
            ),
        ] {
            let schema = orch();
            let id = schema.find_type(name).unwrap();
            let limits = |held_bytes_max| Limits { held_bytes_max, ..Limits::default() };
            let value =
                decode_json(schema, id, object.to_string().as_bytes(), Limits::default()).unwrap().value;
            let mut json = Vec::new();
            encode_json(schema, id, &value, &mut json);
            let counted = least(|bytes| check_held(schema, id, &value, limits(bytes)).is_ok());
            let decoded = least(|bytes| decode_json(schema, id, &json, limits(bytes)).is_ok());
            assert_eq!(counted, decoded, "{name}");
            assert!(counted > 1000, "{name}: {counted}");
        }
    }
}
