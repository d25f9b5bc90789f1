//! Fields that an object has although no client sent them: those that are written even when empty, and defaults.
//!
//! Owns both fillings and the rounding of amounts, which comes with the defaults. Defaults that no table can state
//! belong to the kind's strategy.

use super::types::{Field, ObjectType, Schema, TypeId, ValueType};
use crate::budget::{count_step, count_steps};
use crate::quantity;
use crate::value::{Map, Value};

/// Fields of a type that are looked at in one step.
const FIELDS_PER_STEP: u64 = 8;

/// Fills fields that have a default where they are absent, null, or zero without presence. Amounts of resources that
/// are finer than a thousandth are rounded up.
pub fn apply_defaults(schema: &Schema, type_id: TypeId, value: &mut Value) {
    walk(schema, schema.get(type_id), value, &mut |ty, map| {
        // A client's types may have thousands of fields, and an object none of them.
        if ty.any_form && !count_steps(ty.fields.len() as u64 / FIELDS_PER_STEP) {
            return;
        }
        for field in &ty.fields {
            let Some(default) = field.default.as_deref().filter(|default| field.is_written(default)) else {
                continue;
            };
            let is_absent = |value: &Value| (value.is_null() && !field.nullable) || is_unsaid(field, value);
            if map.get(&field.name).is_none_or(is_absent) {
                map.insert(field.name.clone(), default.clone());
            }
        }
    });
}

/// The empty object: the fields that are written even when empty, and no other.
pub(super) fn empty_object(schema: &Schema, ty: &ObjectType) -> Value {
    let always = ty.always_written().map(|at| &ty.fields[at]);
    Value::Object(always.map(|field| (field.name.clone(), empty_field(schema, field))).collect())
}

/// The value of an absent field that is written even when empty.
pub(super) fn empty_field(schema: &Schema, field: &Field) -> Value {
    match &field.value {
        ValueType::Object(id) if !field.presence => empty_object(schema, schema.get(*id)),
        _ => field.empty_value(),
    }
}

/// The value of null as an item of a list or as a value of a map.
pub(super) fn zero_value(schema: &Schema, ty: &ValueType) -> Value {
    match ty {
        ValueType::Object(id) => empty_object(schema, schema.get(*id)),
        ValueType::Scalar(scalar) => scalar.zero_value(),
        ValueType::List { .. } | ValueType::Map { .. } | ValueType::Untyped | ValueType::Member(_) => {
            Value::Null
        }
    }
}

/// Whether `value` is zero in a field without presence, which means absent.
fn is_unsaid(field: &Field, value: &Value) -> bool {
    !field.presence && field.is_zero(value)
}

/// Visits every object of a declared type, outer ones first: objects that a visit adds are visited, too.
fn walk(schema: &Schema, ty: &ObjectType, value: &mut Value, visit: &mut impl FnMut(&ObjectType, &mut Map)) {
    if let Some(head) = ty.head_defaults {
        walk(schema, schema.get(head), value, visit);
    }
    let Value::Object(map) = value else { return };
    visit(ty, map);
    for (name, value) in map.iter_mut().take_while(|_| count_step()) {
        let Some(field) = ty.field(name) else { continue };
        if field.rounds_amounts {
            round_up(value);
        } else {
            walk_value(schema, &field.value, value, visit);
        }
    }
}

/// Rounds the amounts of a map up to thousandths.
fn round_up(amounts: &mut Value) {
    let Value::Object(amounts) = amounts else { return };
    for (_, amount) in amounts.iter_mut().take_while(|_| count_step()) {
        if let Some(rounded) = amount.as_str().and_then(quantity::in_thousandths) {
            *amount = Value::from(rounded);
        }
    }
}

fn walk_value(
    schema: &Schema,
    ty: &ValueType,
    value: &mut Value,
    visit: &mut impl FnMut(&ObjectType, &mut Map),
) {
    match (ty, value) {
        (ValueType::Object(id), value) => walk(schema, schema.get(*id), value, visit),
        (ValueType::List { item, .. }, Value::Array(items)) => {
            items
                .iter_mut()
                .take_while(|_| count_step())
                .for_each(|value| walk_value(schema, item, value, visit));
        }
        (ValueType::Map { value: ty, .. }, Value::Object(map)) => {
            map.iter_mut()
                .take_while(|_| count_step())
                .for_each(|(_, value)| walk_value(schema, ty, value, visit));
        }
        (ValueType::Member(member), value) => {
            if let Some(default) = member.default.as_ref().filter(|_| value.is_null() && !member.nullable) {
                *value = default.clone();
            }
            walk_value(schema, &member.value, value, visit);
        }
        (ValueType::Scalar(_) | ValueType::Untyped | ValueType::List { .. } | ValueType::Map { .. }, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::testing::orch;
    use crate::types::Scalar;

    fn id(name: &str) -> TypeId {
        orch().find_type(name).unwrap()
    }

    #[test]
    fn defaults_fill_what_is_absent_and_nothing_else() {
        let mut pod = json!({"spec": {"containers": [{"name": "c", "ports": [
            {"containerPort": 1}, {"containerPort": 2, "protocol": "UDP"}, {"containerPort": 3, "protocol": ""},
        ]}]}});
        apply_defaults(orch(), id("core.v1.Pod"), &mut pod);
        let ports = &pod["spec"]["containers"][0]["ports"];
        let protocols: Vec<_> =
            ports.as_array().unwrap().iter().map(|port| port["protocol"].clone()).collect();
        assert_eq!(protocols, ["TCP", "UDP", "TCP"]);
        let mut action = json!({"port": 1, "service": null});
        apply_defaults(orch(), id("core.v1.GRPCAction"), &mut action);
        assert_eq!(action, json!({"port": 1, "service": ""}));
    }

    #[test]
    fn amounts_of_resources_are_rounded_up_to_thousandths() {
        let amounts =
            json!({"a": "100500u", "b": "1n", "c": "-1500u", "d": "1", "e": "15e-4", "f": "100m", "g": null});
        let rounded =
            json!({"a": "101m", "b": "1m", "c": "-2m", "d": "1", "e": "2e-3", "f": "100m", "g": null});
        let (exact, kept) = ("resource.v1.CapacityRequirements", "requests");
        for (ty, field) in [
            ("core.v1.ResourceRequirements", "requests"),
            ("core.v1.NodeStatus", "allocatable"),
            ("core.v1.ResourceQuotaSpec", "hard"),
            ("core.v1.LimitRangeItem", "maxLimitRequestRatio"),
            ("core.v1.PersistentVolumeClaimStatus", "allocatedResources"),
            ("node.v1.Overhead", "podFixed"),
            (exact, kept),
        ] {
            let mut value = Value::Object(Map::new());
            value.as_object_mut().unwrap().insert(field.to_owned(), amounts.clone());
            apply_defaults(orch(), id(ty), &mut value);
            assert_eq!(
                value[field],
                if ty == exact { amounts.clone() } else { rounded.clone() },
                "{ty}.{field}"
            );
        }
        let mut pods = json!({"spec": {"template": {"spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "100500u"}}}], "overhead": {"cpu": "1500u"}
        }}}});
        apply_defaults(orch(), id("apps.v1.Deployment"), &mut pods);
        let spec = &pods["spec"]["template"]["spec"];
        assert_eq!(spec["containers"][0]["resources"]["limits"]["cpu"], "101m");
        assert_eq!(spec["overhead"]["cpu"], "2m");
    }

    /// Every map of amounts rounds, but those that are named exact: a new one is a ResourceList unless it says otherwise.
    #[test]
    fn maps_of_amounts_round_unless_they_are_named_exact() {
        let types = (0..orch().len()).map(|at| orch().get(TypeId(u32::try_from(at).unwrap())));
        let exact: Vec<String> = types
            .flat_map(|ty| ty.fields.iter().map(move |field| (ty, field)))
            .filter(|(_, field)| match &field.value {
                ValueType::Map { value, .. } => matches!(**value, ValueType::Scalar(Scalar::Quantity)),
                _ => false,
            })
            .filter(|(_, field)| !field.rounds_amounts)
            .map(|(ty, field)| format!("{}.{}", ty.name, field.name))
            .collect();
        assert_eq!(
            exact,
            [
                "resource.v1.CapacityRequirements.requests",
                "resource.v1.DeviceRequestAllocationResult.consumedCapacity"
            ]
        );
    }
}
