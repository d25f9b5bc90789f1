//! Amounts that two values write in different ways: `1Gi` is `1073741824`.
//!
//! Owns the table of the types that hold amounts, and the rewriting of one value in the way of another. The reference
//! compares amounts by value wherever it asks whether an update changes a field; rules over untyped values cannot, so
//! they are given the stored value as the new one would write it.

use super::types::{Field, ObjectType, Scalar, Schema, TypeId, ValueType};
use crate::budget::count_step;
use crate::quantity::Quantity;
use crate::value::Value;

/// The fields with amounts in or below them, of each type of a schema, by their positions. It is empty where no type has any.
#[derive(Debug, Default)]
pub(super) struct AmountFields(Vec<Box<[usize]>>);

impl AmountFields {
    /// The fields of `types`, whose ids are positions behind the types of `base`.
    pub(super) fn of(types: &[ObjectType], base: Option<&Schema>) -> Self {
        let first = base.map_or(0, Schema::len);
        let own = |TypeId(id): TypeId| (id as usize).checked_sub(first);
        let is_in_base = |id: TypeId| {
            let of_base = base.filter(|_| own(id).is_none());
            of_base.is_some_and(|base| !base.amount_fields(id).is_empty())
        };
        let mut holders: Vec<Vec<usize>> = vec![Vec::new(); types.len()];
        for (holder, ty) in types.iter().enumerate() {
            let held = ty.fields.iter().filter_map(|field| object_in(&field.value));
            for at in held.filter_map(own) {
                holders[at].push(holder);
            }
        }
        let is_or_holds_of_base =
            |field: &Field| is_amount(&field.value) || object_in(&field.value).is_some_and(is_in_base);
        // once: one pass over the fields of each type, when the schema is made.
        let has_amount = |ty: &ObjectType| ty.fields.iter().any(is_or_holds_of_base);
        let mut holds: Vec<bool> = types.iter().map(has_amount).collect();
        let mut found: Vec<usize> = (0..types.len()).filter(|&at| holds[at]).collect();
        while let Some(at) = found.pop() {
            for &holder in &holders[at] {
                if !std::mem::replace(&mut holds[holder], true) {
                    found.push(holder);
                }
            }
        }
        let fields = |ty: &ObjectType| {
            let holds_own = |field: &Field| object_in(&field.value).and_then(own).is_some_and(|at| holds[at]);
            let with_amounts = ty.fields.iter().enumerate();
            let with_amounts =
                with_amounts.filter(|(_, field)| is_or_holds_of_base(field) || holds_own(field));
            with_amounts.map(|(at, _)| at).collect::<Box<[usize]>>()
        };
        // once: one pass over the types.
        if !holds.contains(&true) {
            return Self::default();
        }
        Self(types.iter().map(fields).collect())
    }

    /// Those of the type at this position.
    pub(super) fn get(&self, at: usize) -> &[usize] {
        self.0.get(at).map(|fields| &**fields).unwrap_or_default()
    }
}

/// The type of the objects in values of type `ty`.
fn object_in(ty: &ValueType) -> Option<TypeId> {
    match ty {
        ValueType::Object(id) => Some(*id),
        ValueType::List { item: inner, .. } | ValueType::Map { value: inner, .. } => object_in(inner),
        ValueType::Member(member) => object_in(&member.value),
        ValueType::Scalar(_) | ValueType::Untyped => None,
    }
}

/// Whether values of type `ty` are amounts, or lists or maps of amounts.
fn is_amount(ty: &ValueType) -> bool {
    match ty {
        ValueType::Scalar(scalar) => *scalar == Scalar::Quantity,
        ValueType::List { item: inner, .. } | ValueType::Map { value: inner, .. } => is_amount(inner),
        ValueType::Member(member) => is_amount(&member.value),
        ValueType::Object(_) | ValueType::Untyped => false,
    }
}

/// `old` with every amount written as `new` writes it at the same place, where both are one amount. `None`: none is
/// written in another way. Both are canonical; items of lists are compared by position.
pub fn written_alike(schema: &Schema, type_id: TypeId, old: &Value, new: &Value) -> Option<Value> {
    rewritten(schema, &ValueType::Object(type_id), old, new)
}

fn rewritten(schema: &Schema, ty: &ValueType, old: &Value, new: &Value) -> Option<Value> {
    match (ty.plain(), old, new) {
        (ValueType::Scalar(Scalar::Quantity), Value::String(before), Value::String(after)) => {
            let is_one = before != after
                && Quantity::parse(before).is_some_and(|amount| Quantity::parse(after) == Some(amount));
            is_one.then(|| new.clone())
        }
        (ValueType::Object(id), Value::Object(before), Value::Object(after)) => {
            let (mut out, fields) = (None, &schema.get(*id).fields);
            for field in schema.amount_fields(*id).iter().map(|&at| &fields[at]) {
                let (Some(old), Some(new)) = (before.get(&field.name), after.get(&field.name)) else {
                    continue;
                };
                if let Some(value) = rewritten(schema, &field.value, old, new) {
                    out.get_or_insert_with(|| before.clone()).insert(field.name.clone(), value);
                }
            }
            out.map(Value::Object)
        }
        (ValueType::Map { value: ty, .. }, Value::Object(before), Value::Object(after)) => {
            let mut out = None;
            for (key, old) in before.iter().take_while(|_| count_step()) {
                if let Some(value) = after.get(key).and_then(|new| rewritten(schema, ty, old, new)) {
                    out.get_or_insert_with(|| before.clone()).insert(key.clone(), value);
                }
            }
            out.map(Value::Object)
        }
        (ValueType::List { item, .. }, Value::Array(before), Value::Array(after)) => {
            let mut out = None;
            for (at, (old, new)) in before.iter().zip(after).enumerate().take_while(|_| count_step()) {
                if let Some(value) = rewritten(schema, item, old, new) {
                    out.get_or_insert_with(|| before.clone())[at] = value;
                }
            }
            out.map(Value::Array)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::testing::orch;

    fn alike(name: &str, old: &Value, new: &Value) -> Option<Value> {
        written_alike(orch(), orch().find_type(name).unwrap(), old, new)
    }

    #[test]
    fn equal_amounts_are_written_as_the_new_value_does() {
        let pod = |memory: &str, cpu: &str, text: &str| {
            json!({"spec": {
                "containers": [
                    {"name": "a", "env": [{"name": "E", "value": text}]},
                    {"name": "b", "resources": {"limits": {"memory": memory, "cpu": cpu}}},
                ],
                "volumes": [{"emptyDir": {"sizeLimit": memory}}],
            }})
        };
        let (old, new) = (pod("1Gi", "1", "1Gi"), pod("1073741824", "2", "1073741824"));
        assert_eq!(alike("core.v1.Pod", &old, &new), Some(pod("1073741824", "1", "1Gi")));
        for new in [json!({}), json!({"spec": {"containers": []}}), pod("2Gi", "1", "1Gi"), old.clone()] {
            assert_eq!(alike("core.v1.Pod", &old, &new), None, "{new}");
        }
    }

    #[test]
    fn types_without_amounts_are_not_walked() {
        let fields = |name: &str| orch().amount_fields(orch().find_type(name).unwrap()).len();
        assert_eq!(fields("core.v1.ConfigMap"), 0);
        assert_eq!(fields("core.v1.Pod"), 2);
        assert_eq!(fields("core.v1.ResourceRequirements"), 2);
        assert!(fields("meta.v1.ObjectMeta") == 0 && fields("core.v1.Secret") == 0);
    }
}
