//! Applying less than before, for objects of every kind that are made from the tables.
//!
//! The model states the rule without field sets: a member goes if the manager applied it before, and neither applies it
//! now nor has another manager applying it. Members without an owner go with a parent that goes, and otherwise stay.

use orch_proto::brand::ORCH;
use orch_schema::types::{Field, ObjectType, Scalar, ValueType};
use orch_schema::value::Map;
use proptest::prelude::*;

use super::super::merge::merge;
use super::super::shape::{Shape, Slot, element_of_item, same};
use super::super::unowned::UNOWNED_METADATA;
use super::*;

/// Levels below which only scalars are made.
const LEVELS: u32 = 7;

/// A stream of numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % sides
    }
}

/// Makes values of the tables' types. Leaves depend on their path alone, so that managers never disagree about one.
struct Maker {
    schema: &'static Schema,
    dice: Dice,
}

/// The path of a value as a number.
fn step(path: u64, name: &str) -> u64 {
    name.bytes()
        .fold(path.wrapping_mul(31), |path, byte| (path ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Maker {
    /// An object with the identity of all objects of the test.
    fn object(&mut self, root: TypeId) -> Value {
        let ty = self.schema.get(root);
        let mut map = self.members(ty, 1, LEVELS);
        let mut metadata = match map.shift_remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        metadata.retain(|name, _| !UNOWNED_METADATA.contains(&&**name));
        metadata.insert("name".to_owned(), "o".into());
        map.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(map)
    }

    fn members(&mut self, ty: &'static ObjectType, path: u64, levels: u32) -> Map {
        let mut map = Map::new();
        for _ in 0..self.dice.roll(5) {
            if ty.fields.is_empty() {
                break;
            }
            let at = usize::try_from(self.dice.roll(ty.fields.len() as u64)).unwrap();
            let field: &'static Field = &ty.fields[at];
            if let Some(value) = self.value(Slot::of_field(field), step(path, &field.name), levels) {
                map.insert(field.name.clone(), value);
            }
        }
        map
    }

    fn value(&mut self, slot: Slot<'static>, path: u64, levels: u32) -> Option<Value> {
        let levels = levels.checked_sub(1)?;
        match (slot.shape(self.schema, None), slot.value_type()) {
            (_, ValueType::Scalar(scalar)) => Some(leaf(scalar, path)),
            (Shape::Atomic, ty) => {
                Some(Maker { schema: self.schema, dice: Dice(path) }.atomic(ty, path, levels))
            }
            (Shape::Struct(ty), _) => Some(Value::Object(self.members(ty, path, levels))),
            (Shape::Map(_), ValueType::Untyped) => {
                let names = ["a", "b"].into_iter().filter(|_| self.dice.roll(2) == 0);
                let map: Map =
                    names.map(|name| (name.to_owned(), Value::from(step(path, name).to_string()))).collect();
                Some(Value::Object(map))
            }
            (Shape::Map(ty), _) => {
                let names = ["a", "b"].into_iter();
                let made = names.filter_map(|name| {
                    let is_there = self.dice.roll(2) == 0;
                    let value = is_there.then(|| self.value(Slot::of(ty), step(path, name), levels))??;
                    Some((name.to_owned(), value))
                });
                let map: Map = made.collect();
                (!map.is_empty()).then_some(Value::Object(map))
            }
            (Shape::Set, ValueType::List { item, .. }) => {
                let ValueType::Scalar(scalar) = &**item else { panic!("a set has scalars") };
                let items: Vec<Value> =
                    (0..2).filter(|_| self.dice.roll(2) == 0).map(|nth| leaf(scalar, nth)).collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            (Shape::Keyed { item: ValueType::Object(id), keys }, _) => self.items(*id, keys, path, levels),
            (Shape::Scalar, _) => Some(Value::from(path.to_string())),
            (Shape::Set | Shape::Keyed { .. }, ty) => panic!("no {ty:?} in such a list"),
        }
    }

    fn items(&mut self, id: TypeId, keys: &[Box<str>], path: u64, levels: u32) -> Option<Value> {
        let ty = self.schema.get(id);
        let mut items = Vec::new();
        for nth in 0..2 {
            if self.dice.roll(2) == 0 {
                continue;
            }
            let path = step(path, &nth.to_string());
            let mut item = match Shape::of_type(self.schema, id) {
                Shape::Atomic => Maker { schema: self.schema, dice: Dice(path) }.members(ty, path, levels),
                _ => self.members(ty, path, levels),
            };
            for key in keys {
                let ValueType::Scalar(scalar) = &ty.field(key).unwrap().value else {
                    panic!("{key} is a key")
                };
                item.insert(key.to_string(), leaf(scalar, nth));
            }
            items.push(Value::Object(item));
        }
        (!items.is_empty()).then_some(Value::Array(items))
    }

    fn atomic(&mut self, ty: &ValueType, path: u64, levels: u32) -> Value {
        match ty {
            ValueType::Object(id) => Value::Object(self.members(self.schema.get(*id), path, levels)),
            ValueType::List { item, .. } => Value::Array(vec![match &**item {
                ValueType::Scalar(scalar) => leaf(scalar, path),
                _ => json!({}),
            }]),
            ValueType::Map { value, .. } => match &**value {
                ValueType::Scalar(scalar) => {
                    Value::Object([("a".to_owned(), leaf(scalar, path))].into_iter().collect())
                }
                _ => json!({}),
            },
            ValueType::Member(member) => self.atomic(&member.value, path, levels),
            ValueType::Scalar(_) | ValueType::Untyped => json!({"a": "v"}),
        }
    }
}

fn leaf(scalar: &Scalar, path: u64) -> Value {
    match scalar {
        Scalar::Bool => Value::from(path.is_multiple_of(2)),
        Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => {
            Value::from(u8::try_from(path % 9 + 1).unwrap())
        }
        Scalar::String(_) | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Quantity => {
            Value::from(format!("v{}", path % 9))
        }
    }
}

/// The places where two lists or objects meet: pairs of element text and value.
fn entries(shape: Shape<'_>, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(map) if shape_is_open(shape) => {
            map.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
        }
        Value::Array(items) if matches!(shape, Shape::Set | Shape::Keyed { .. }) => {
            let element = |item: &Value| element_of_item(schema(), shape, item).unwrap().to_string();
            items.iter().map(|item| (element(item), item.clone())).collect()
        }
        _ => Vec::new(),
    }
}

fn shape_is_open(shape: Shape<'_>) -> bool {
    matches!(shape, Shape::Struct(_) | Shape::Map(_))
}

fn inner<'s>(shape: Shape<'s>, name: &str, value: &Value) -> Shape<'s> {
    let slot = if shape_is_open(shape) { shape.member(name) } else { shape.item() };
    slot.map_or(Shape::Scalar, |slot| slot.shape(schema(), Some(value)))
}

fn entry(shape: Shape<'_>, value: Option<&Value>, name: &str) -> Option<Value> {
    entries(shape, value?).into_iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

fn is_key(shape: Option<Shape<'_>>, name: &str) -> bool {
    matches!(shape, Some(Shape::Keyed { keys, .. }) if keys.iter().any(|key| **key == *name))
}

fn rebuilt(value: &Value, entries: Vec<(String, Value)>) -> Value {
    match value {
        Value::Array(_) => entries.into_iter().map(|(_, item)| item).collect(),
        _ => entries.into_iter().collect(),
    }
}

/// `value` without random parts: never the identity, nor the keys of an item that stays.
fn given_up(dice: &mut Dice, outer: Option<Shape<'_>>, shape: Shape<'_>, value: &Value) -> Value {
    if !value.is_object() && !value.is_array() || !shape_is_open(shape) && entries(shape, value).is_empty() {
        return value.clone();
    }
    let mut rest = Vec::new();
    for (name, member) in entries(shape, value) {
        let is_fixed = is_key(outer, &name) || name == "metadata" || name == "name";
        if !is_fixed && dice.roll(4) == 0 {
            continue;
        }
        let left = given_up(dice, Some(shape), inner(shape, &name, &member), &member);
        if left.as_array().is_none_or(|items| !items.is_empty()) {
            rest.push((name, left));
        }
    }
    rebuilt(value, rest)
}

/// The object without managed fields and empty members, its lists sorted.
fn content(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let members = map.iter().filter(|(name, _)| **name != "managedFields");
            let mut members: Vec<(String, Value)> =
                members.map(|(name, value)| (name.to_string(), content(value))).collect();
            members.retain(|(_, value)| {
                value.as_object().is_none_or(|map| !map.is_empty())
                    && value.as_array().is_none_or(|items| !items.is_empty())
            });
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.into_iter().collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(content).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// Whether the identity of the object is at `name`.
fn is_identity(path: &[String], name: &str) -> bool {
    match path {
        [] => name == "metadata",
        [metadata] => metadata == "metadata" && UNOWNED_METADATA.contains(&name),
        _ => false,
    }
}

/// The model: `merged` without the members of `before` that neither `now` nor `theirs` has.
fn expected(
    path: &mut Vec<String>,
    shape: Shape<'_>,
    merged: &Value,
    [before, now, theirs]: [Option<&Value>; 3],
) -> Value {
    let members = entries(shape, merged);
    if members.is_empty() {
        return merged.clone();
    }
    let mut kept = Vec::new();
    for (name, member) in members {
        let parts = [before, now, theirs].map(|part| entry(shape, part, &name));
        let is_held = parts[1].is_some() || parts[2].is_some() || is_identity(path, &name);
        if parts[0].is_some() && !is_held {
            continue;
        }
        path.push(name.clone());
        let inner = inner(shape, &name, &member);
        let left = expected(path, inner, &member, parts.each_ref().map(Option::as_ref));
        path.pop();
        kept.push((name, left));
    }
    rebuilt(merged, kept)
}

/// Whether `whole` has every member of `part`, those without content, too.
fn has(shape: Shape<'_>, whole: &Value, part: &Value) -> bool {
    let members = entries(shape, part);
    if members.is_empty() {
        return part.is_object() && whole.is_object() || same(whole, part);
    }
    members.into_iter().all(|(name, member)| {
        entry(shape, Some(whole), &name)
            .is_some_and(|there| has(inner(shape, &name, &member), &there, &member))
    })
}

fn apply_by(manager: &'static str, root: TypeId, live: Option<Value>, config: &Value) -> Value {
    let options = ApplyOptions { force: false, brand: &ORCH };
    apply(schema(), root, live, config, &writer(manager), options).unwrap()
}

/// One object of `kind`: applied, completed by the server, applied by another manager, and applied with less.
fn check(kind: &str, root: TypeId, seed: u64) {
    let mut maker = Maker { schema: schema(), dice: Dice(seed) };
    let (before, theirs, server) = (maker.object(root), maker.object(root), maker.object(root));
    let shape = Shape::of_type(schema(), root);
    let now = given_up(&mut maker.dice, None, shape, &before);
    let mut live = apply_by("me", root, None, &before);
    let managed = live["metadata"]["managedFields"].clone();
    if managed.is_null() {
        // The manager owns nothing, and has nothing to give up.
        return;
    }
    let mut completed = merge(schema(), shape, &live, &server).unwrap();
    completed["metadata"]["uid"] = "u".into();
    completed["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
    completed["metadata"]["managedFields"] = managed;
    live = apply_by("them", root, Some(completed), &theirs);
    let merged = content(&live);
    let after = apply_by("me", root, Some(live), &now);
    let model = expected(&mut Vec::new(), shape, &merged, [Some(&before), Some(&now), Some(&theirs)]);
    let told = || format!("{kind}, seed {seed}: {before} became {now}, beside {theirs}, on {merged}");
    assert_eq!(content(&after), content(&model), "{}", told());
    for part in [&now, &theirs] {
        assert!(has(shape, &after, part), "{after} lacks some of {part}: {}", told());
    }
    for name in ["name", "uid", "creationTimestamp"] {
        assert!(after["metadata"].get(name).is_some(), "no {name}: {}", told());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_that_are_no_longer_applied_go_and_the_rest_stays(seed in any::<u64>()) {
        for (nth, resource) in schema().resources().iter().enumerate() {
            if schema().get(resource.type_id).field("metadata").is_some() {
                check(&resource.kind, resource.type_id, seed.wrapping_add(nth as u64));
            }
        }
    }
}

#[test]
fn the_last_member_of_metadata_can_be_given_up_in_every_kind() {
    let members = [
        ("labels", json!({"team": "a"})),
        ("annotations", json!({"note": "a"})),
        ("finalizers", json!(["example.com/hold"])),
        ("ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}])),
    ];
    for resource in schema().resources() {
        if schema().get(resource.type_id).field("metadata").is_none() {
            continue;
        }
        for (name, value) in &members {
            let mut config = json!({"metadata": {"name": "o"}});
            let without = config.clone();
            config["metadata"][*name] = value.clone();
            let mut live = apply_by("me", resource.type_id, None, &config);
            live["metadata"]["uid"] = "u".into();
            let after = apply_by("me", resource.type_id, Some(live), &without);
            assert_eq!(after, json!({"metadata": {"name": "o", "uid": "u"}}), "{} {name}", resource.kind);
        }
    }
}

#[test]
fn an_object_stays_when_only_its_members_are_given_up() {
    let root = root("Pod");
    let pod = |dir: Value| json!({"metadata": {"name": "o"}, "spec": {"volumes": [{"name": "v", "emptyDir": dir}]}});
    let live = apply_by("me", root, None, &pod(json!({"sizeLimit": "1Gi"})));
    assert_eq!(apply_by("me", root, Some(live), &pod(json!({})))["spec"], pod(json!({}))["spec"]);
}

#[test]
fn an_item_that_another_manager_owns_keeps_its_keys() {
    let root = root("Pod");
    let config = json!({"metadata": {"name": "o"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut live = apply_by("me", root, None, &config);
    // The item itself belongs to another manager, its members do not.
    let sets = [json!({"f:image": {}, "f:name": {}}), json!({".": {}})];
    let mut entries = vec![live["metadata"]["managedFields"][0].clone(); 2];
    for (entry, set) in entries.iter_mut().zip(sets) {
        entry["fieldsV1"] = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": set}}});
    }
    entries[1]["manager"] = "them".into();
    live["metadata"]["managedFields"] = Value::Array(entries);
    let after =
        apply_by("me", root, Some(live), &json!({"metadata": {"name": "o"}, "spec": {"hostname": "h"}}));
    assert_eq!(after["spec"], json!({"containers": [{"name": "c"}], "hostname": "h"}));
}
