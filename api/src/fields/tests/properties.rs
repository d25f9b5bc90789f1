//! Properties of all objects, configurations and managers.

use orch_proto::brand::ORCH;
use orch_schema::value::{Map, SmolStr};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::merge::{merge, merge_into};
use super::super::shape::{Shape, same};
use super::*;

const OPTIONS: ApplyOptions = ApplyOptions { force: false, brand: &ORCH };

fn config() -> ProptestConfig {
    ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() }
}

/// Pods over few names, which therefore collide: labels, a set, keyed lists in keyed lists, an atomic list, a nested
/// object.
fn pod(image: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Value> {
    let ports = btree_set((80..83u16, prop::bool::ANY), 0..3);
    let container = (option::of(image.clone()), ports, option::of(btree_set("[AB]", 1..3)));
    (
        btree_map("[ab]", image.clone(), 0..3),
        btree_set("[fgh]", 0..3),
        option::of(btree_map("[cde]", container, 1..4)),
        option::of(image),
    )
        .prop_map(|(labels, finalizers, containers, grace)| {
            let mut spec = Map::new();
            if let Some(containers) = containers {
                let containers = containers.into_iter().map(|(name, parts)| container_of(&name, parts));
                spec.insert("containers".to_owned(), containers.collect());
            }
            if let Some(grace) = grace {
                spec.insert("terminationGracePeriodSeconds".to_owned(), grace.into());
                spec.insert("securityContext".to_owned(), json!({"runAsUser": grace}));
            }
            let labels: Map =
                labels.into_iter().map(|(name, value)| (name, value.to_string().into())).collect();
            let mut metadata = Map::new();
            if !labels.is_empty() {
                metadata.insert("labels".to_owned(), Value::Object(labels));
            }
            if !finalizers.is_empty() {
                metadata.insert("finalizers".to_owned(), finalizers.into_iter().collect());
            }
            json!({"metadata": metadata, "spec": spec})
        })
}

type Parts =
    (Option<u8>, std::collections::BTreeSet<(u16, bool)>, Option<std::collections::BTreeSet<String>>);

fn container_of(name: &str, (image, ports, env): Parts) -> Value {
    let mut out = json!({"name": name});
    if let Some(image) = image {
        out["image"] = image.to_string().into();
    }
    if !ports.is_empty() {
        let port = |(port, udp): (u16, bool)| {
            if udp {
                json!({"containerPort": port, "protocol": "UDP"})
            } else {
                json!({"containerPort": port})
            }
        };
        out["ports"] = ports.into_iter().map(port).collect();
    }
    if let Some(env) = env {
        out["env"] = env.into_iter().map(|name| json!({"name": name, "value": "v"})).collect();
    }
    out
}

/// Configurations that never disagree on a value.
fn agreeing() -> impl Strategy<Value = Value> {
    pod(Just(1))
}

/// Any JSON, with keys that resemble those with a meaning in the formats.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("a"),
        Just("name"),
        Just("f:a"),
        Just("k:{\"name\":\"a\"}"),
        Just("k:{"),
        Just("v:1"),
        Just("v:x"),
        Just("i:2"),
        Just("."),
        Just("é:"),
        Just("x"),
        Just("metadata"),
        Just("managedFields"),
        Just("spec"),
        Just("containers"),
        Just("finalizers"),
        Just("labels"),
        Just("$patch"),
        Just("delete"),
        Just("replace"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$setElementOrder/finalizers"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("fieldsV1"),
        Just("fieldsType"),
        Just("FieldsV1"),
        Just("operation"),
        Just("Update"),
        Just("apiVersion"),
        Just("/a/-1"),
        Just("ports"),
        Just("env"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text.clone(), inner), 0..5)
                .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn applied(live: Option<&Value>, config: &Value, manager: &'static str) -> Value {
    let mut object = apply(schema(), root("Pod"), live.cloned(), config, &writer(manager), OPTIONS).unwrap();
    object["metadata"]["uid"] = "u".into();
    object
}

/// The object with sorted lists, without managed fields, empty members and times.
fn content(object: &Value) -> Value {
    match object {
        Value::Object(map) => {
            let mut names: Vec<&SmolStr> =
                map.keys().filter(|name| *name != "managedFields" && *name != "uid").collect();
            names.sort();
            let rest = names.into_iter().map(|name| (name.clone(), content(&map[name])));
            Value::Object(rest.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(content).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn sets(object: &Value) -> Vec<(String, FieldSet)> {
    let managed = Managed::decode(object["metadata"].get("managedFields")).unwrap();
    let mut sets: Vec<_> = managed.entries().iter().map(|e| (e.manager.clone(), e.set.clone())).collect();
    sets.sort_by(|a, b| a.0.cmp(&b.0));
    sets
}

/// The managed fields after a write, computed the plain way: decode all sets, change them, encode them.
fn recorded_plainly(live: &Value, new: &Value, who: &Writer<'_>) -> Vec<(String, FieldSet)> {
    let Comparison { changed, removed } = compare(schema(), root("Pod"), live, new).unwrap();
    let mut all: std::collections::BTreeMap<String, FieldSet> = sets(live).into_iter().collect();
    for set in all.values_mut() {
        set.subtract(&changed);
        set.subtract(&removed);
    }
    all.entry(who.manager.to_owned()).or_default().unite(changed);
    all.into_iter().filter(|(_, set)| !set.is_empty()).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn field_sets_survive_their_wire_form(object in pod(0..3u8)) {
        let set = field_set(schema(), root("Pod"), &object).unwrap();
        let wire = set.to_fields_v1();
        let text = wire.to_string();
        prop_assert_eq!(set.wire_len(), text.len() - text.matches('\\').count());
        prop_assert_eq!(FieldSet::from_fields_v1(&wire).unwrap(), set);
    }

    #[test]
    fn set_algebra_holds(a in pod(0..3u8), b in pod(0..3u8)) {
        let set = |object: &Value| field_set(schema(), root("Pod"), object).unwrap();
        let (a, b) = (set(&a), set(&b));
        let both = a.intersection(&b);
        let mut only_a = a.clone();
        only_a.subtract(&b);
        prop_assert!(only_a.intersection(&b).is_empty());
        prop_assert_eq!(only_a.len() + both.len(), a.len());
        let mut again = only_a.clone();
        again.unite(both);
        prop_assert_eq!(&again, &a);
        let mut all = a.clone();
        all.unite(b.clone());
        only_a.unite(b);
        prop_assert_eq!(all, only_a);
    }

    #[test]
    fn order_of_agreeing_managers_does_not_matter(a in agreeing(), b in agreeing(), c in agreeing()) {
        let run = |order: [(&'static str, &Value); 3]| {
            order.iter().fold(None, |live: Option<Value>, (manager, config)| {
                Some(applied(live.as_ref(), config, manager))
            }).unwrap()
        };
        let first = run([("a", &a), ("b", &b), ("c", &c)]);
        let second = run([("c", &c), ("a", &a), ("b", &b)]);
        prop_assert_eq!(content(&first), content(&second));
        prop_assert_eq!(sets(&first), sets(&second));
    }

    #[test]
    fn applying_twice_changes_nothing(live in pod(0..3u8), config in pod(0..3u8)) {
        let live = applied(None, &live, "live");
        let force = ApplyOptions { force: true, ..OPTIONS };
        let first = Writer { now: "1", ..writer("x") };
        let once = apply(schema(), root("Pod"), Some(live.clone()), &config, &first, force).unwrap();
        let second = Writer { now: "2", ..writer("x") };
        let twice = apply(schema(), root("Pod"), Some(once.clone()), &config, &second, OPTIONS).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_merge_in_place_tells_what_it_changed(live in pod(0..3u8), config in pod(0..3u8)) {
        let (schema, root) = (schema(), root("Pod"));
        let shape = Shape::of_type(schema, root);
        let merged = merge(schema, shape, &live, &config).unwrap();
        let mut found = live.clone();
        let difference = merge_into(schema, shape, &mut found, &config).unwrap();
        prop_assert!(same(&found, &merged), "{} is not {}", found, merged);
        let whole = compare(schema, root, &live, &merged).unwrap();
        let part = difference.map_or_else(Comparison::default, |d| compare(schema, root, &d.old, &d.new).unwrap());
        prop_assert_eq!(whole, part);
    }

    #[test]
    fn fields_of_a_single_manager_go_with_its_configuration(theirs in agreeing(), mine in agreeing()) {
        let before = applied(None, &theirs, "them");
        let with_mine = applied(Some(&before), &mine, "me");
        let after = applied(Some(&with_mine), &json!({}), "me");
        prop_assert_eq!(content(&after), content(&before));
        prop_assert_eq!(sets(&after), sets(&before));
    }

    #[test]
    fn configuration_wins_and_nothing_else_changes(theirs in pod(0..3u8), mine in pod(0..3u8)) {
        let before = applied(None, &theirs, "them");
        let force = ApplyOptions { force: true, ..OPTIONS };
        let after = apply(schema(), root("Pod"), Some(before.clone()), &mine, &writer("me"), force).unwrap();
        let Comparison { changed, removed } = compare(schema(), root("Pod"), &before, &after).unwrap();
        prop_assert!(removed.is_empty());
        let mut beyond = changed;
        beyond.subtract(&field_set(schema(), root("Pod"), &mine).unwrap());
        // Fields beyond the configuration may only be parents of applied ones: none is a leaf.
        let unowned = field_set(schema(), root("Pod"), &after).unwrap();
        prop_assert!(beyond.intersection(&unowned).is_empty());
        let Comparison { changed, .. } = compare(schema(), root("Pod"), &after, &mine).unwrap();
        prop_assert!(changed.is_empty(), "{:?}", changed);
    }

    #[test]
    fn recording_in_the_stored_form_equals_the_plain_way(
        first in pod(0..3u8), second in pod(0..3u8), third in pod(0..3u8), by_same in any::<bool>(),
    ) {
        let mut live = first;
        live["metadata"]["uid"] = "u".into();
        track_update(schema(), root("Pod"), None, &mut live, &writer("a")).unwrap();
        for (new, manager) in [(second, "b"), (third, if by_same { "b" } else { "a" })] {
            if live["metadata"].get("managedFields").is_none() {
                break;
            }
            let mut new = new;
            new["metadata"]["uid"] = "u".into();
            let expected = recorded_plainly(&live, &new, &writer(manager));
            track_update(schema(), root("Pod"), Some(&live), &mut new, &writer(manager)).unwrap();
            prop_assert_eq!(sets(&new), expected);
            live = new;
        }
    }

    #[test]
    fn comparing_finds_exactly_what_differs(a in pod(0..3u8), b in pod(0..3u8)) {
        let differences = compare(schema(), root("Pod"), &a, &b).unwrap();
        prop_assert_eq!(content(&a) == content(&b), differences == Comparison::default());
        let back = compare(schema(), root("Pod"), &b, &a).unwrap();
        let mut both = differences.changed.clone();
        both.unite(differences.removed);
        let mut both_back = back.changed;
        both_back.unite(back.removed);
        prop_assert_eq!(both, both_back);
    }

    #[test]
    fn hostile_managers_never_panic(managers in any_json(), object in pod(0..3u8), config in any_json()) {
        let _ = FieldSet::from_fields_v1(&managers);
        let mut live = object.clone();
        live["metadata"]["uid"] = "u".into();
        live["metadata"]["managedFields"] = managers.clone();
        let _ = apply(schema(), root("Pod"), Some(live.clone()), &config, &writer("x"), OPTIONS);
        let _ = apply(schema(), root("Pod"), Some(live.clone()), &object, &writer("x"), OPTIONS);
        let mut new = object.clone();
        new["metadata"]["managedFields"] = json!([{"operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": managers}]);
        let _ = track_update(schema(), root("Pod"), Some(&live), &mut new, &writer("x"));
        let mut odd = config;
        let _ = track_update(schema(), root("Pod"), Some(&live), &mut odd, &writer("x"));
        keep_times_if_unchanged(&live, &mut odd);
    }

    #[test]
    fn path_elements_survive_their_text(text in "[fkvix.]?:?.{0,12}") {
        if let Ok(element) = PathElement::parse(&text) {
            let mut wire = String::new();
            element.write_wire(&mut wire);
            prop_assert_eq!(PathElement::parse(&wire), Ok(element));
        }
    }
}

#[test]
fn deep_field_sets_are_refused() {
    let mut deep = json!({});
    for _ in 0..DEPTH_MAX + 1 {
        deep = json!({"f:a": deep});
    }
    assert_eq!(FieldSet::from_fields_v1(&deep), Err(WireError::TooDeep));
}
