//! A property of every kind: where an update may not change a field, it may not take the field from absent to its zero
//! or back either (decision 0032).
//!
//! Random objects are made of the ones with every field of every kind (`api/tests/golden/every_kind`), by leaving members
//! out. A place is immutable where both giving it a value and taking the value away are refused; what else is wrong with
//! such an object is no matter, because a refusal counts only where an update that changes nothing has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use orch_schema::json;
use orch_schema::testing::orch;
use orch_schema::value::Value;
use orch_schema::{Limits, ResourceType, apply_defaults, decode_json, write_value};

use super::alike::judged_against;
use super::testing::CONTEXT;
use super::{Context, Strategy, strategy_for};
use crate::Action;
use crate::validate::tree::child_mut;
use crate::validate::{Path, carry_system_fields, validate_object_meta_update};

/// Updates that are tried.
const CASES: u32 = 3000;

/// Of twenty members that are not on the way to the place, those that an object is left without.
const LEFT_OUT: u64 = 13;

/// Objects that are tried for each place with an amount.
const OBJECTS: u32 = 10;

/// Members whose absence and zero are one, by kind and the end of the path, each with the reason.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    ("PersistentVolumeClaim", r#"[Member("spec"), Member("dataSource")]"#, FILLED_IN),
    ("PersistentVolumeClaim", r#"[Member("spec"), Member("dataSourceRef")]"#, FILLED_IN),
    ("ResourceClaim", IN_PARAMETERS, UNTYPED),
    ("ResourceClaimTemplate", IN_PARAMETERS, UNTYPED),
];

/// The list in the parameters of the objects with every field.
const IN_PARAMETERS: &str = r#"Member("parameters"), Member("f:any"), Member("k")]"#;

const UNTYPED: &str = "an absent list is an empty one, which is not told apart inside parameters that have no types (docs/deviations.md)";

const FILLED_IN: &str =
    "each is filled in from the other before both objects are compared, as in the reference";

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap())).unwrap()
    }
}

/// A step to a member of an object or the first item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    First,
}

/// A kind with the object that has all its fields, and the places in it.
struct Kind {
    resource: &'static ResourceType,
    strategy: std::sync::Arc<dyn Strategy>,
    whole: Value,
    places: Vec<Vec<Step>>,
}

fn kinds() -> Vec<Kind> {
    let directory = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/every_kind");
    let kind = |resource: &'static ResourceType| {
        let stem = resource
            .group
            .strip_suffix("orch.io")
            .map_or(&*resource.group, |stem| stem.trim_end_matches('.'));
        let storage =
            if stem.is_empty() { resource.plural.clone() } else { format!("{}.{stem}", resource.plural) };
        // The rules are those of the stored version.
        let is_stored = (stem, &*resource.version) != ("autoscaling", "v1") && stem != "events";
        let strategy = strategy_for(&storage).filter(|_| is_stored)?;
        let text =
            std::fs::read(directory.join(format!("{}.1.json", orch().get(resource.type_id).name))).ok()?;
        let mut whole: Value = serde_json::from_slice(&text).unwrap();
        whole["metadata"] = json!({"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "5"});
        let mut places = Vec::new();
        collect(&whole, &mut Vec::new(), &mut places);
        Some(Kind { resource, strategy, whole, places })
    };
    orch().resources().iter().filter_map(kind).collect()
}

/// Adds the paths of all members below `path`, but for the metadata of the object itself.
fn collect(value: &Value, path: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if path.is_empty() && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                    continue;
                }
                path.push(Step::Member(name.to_string()));
                places.push(path.clone());
                collect(member, path, places);
                path.pop();
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                path.push(Step::First);
                collect(first, path, places);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Leaves out members of `value` at random, but none on the way along `path`.
fn thin(value: &mut Value, path: Option<&[Step]>, random: &mut Random) {
    let (step, rest) = path.and_then(<[Step]>::split_first).unzip();
    match value {
        Value::Object(members) => {
            let names: Vec<String> = members.keys().map(ToString::to_string).collect();
            for name in names {
                let is_next = matches!(step, Some(Step::Member(next)) if *next == name);
                if is_next {
                    thin(&mut members[name.as_str()], rest, random);
                } else if name != "metadata" && random.below(20) < LEFT_OUT {
                    members.shift_remove(name.as_str());
                } else if name != "metadata" {
                    thin(&mut members[name.as_str()], None, random);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                thin(item, rest.filter(|_| at == 0), random);
            }
        }
        _ => {}
    }
}

/// `value` with `member` at `path`; `None` removes what is there.
fn with(mut value: Value, path: &[Step], member: Option<Value>) -> Value {
    let (Some(Step::Member(last)), way) = (path.last(), &path[..path.len() - 1]) else { unreachable!() };
    let parent = way.iter().fold(&mut value, |value, step| match step {
        Step::Member(name) => &mut value[name.as_str()],
        Step::First => &mut value[0],
    });
    let Value::Object(members) = parent else { unreachable!("places are members") };
    match member {
        Some(member) => members.insert(last.to_owned(), member),
        None => members.shift_remove(last.as_str()),
    };
    value
}

fn at<'a>(value: &'a Value, path: &[Step]) -> &'a Value {
    path.iter().fold(value, |value, step| match step {
        Step::Member(name) => &value[name.as_str()],
        Step::First => &value[0],
    })
}

/// The zero of a member like `value`.
fn zero(value: &Value) -> Value {
    match value {
        Value::Bool(_) => json!(false),
        Value::Number(_) => json!(0),
        Value::String(_) => json!(""),
        Value::Array(_) => json!([]),
        _ => json!({}),
    }
}

impl Kind {
    /// `value` as a request holds it after defaults; `None` where no decoder takes it.
    fn canonical(&self, context: &Context<'_>, value: &Value) -> Option<Value> {
        let mut json = Vec::new();
        write_value(value, &mut json);
        let decoded = decode_json(orch(), self.resource.type_id, &json, Limits::default()).ok()?;
        let mut value = decoded.value;
        apply_defaults(orch(), self.resource.type_id, &mut value);
        self.strategy.default(context, &mut value);
        Some(value)
    }

    /// The context of an update that changes `place`.
    fn context(&self, place: &[Step]) -> Context<'static> {
        let is_status = matches!(place.first(), Some(Step::Member(name)) if name == "status");
        let action = if is_status { Action::Status } else { Action::Object };
        Context { action, group: &self.resource.group, version: &self.resource.version, ..CONTEXT }
    }

    /// The errors of an update from `old` to `new`.
    fn errors(&self, context: &Context<'_>, old: &Value, new: &Value) -> BTreeSet<String> {
        let mut new = new.clone();
        carry_system_fields(&old["metadata"], child_mut(&mut new, "metadata"));
        self.strategy.prepare_for_update(context, old, &mut new);
        let alike = judged_against(orch(), self.resource.type_id, &*self.strategy, context, old, &mut new);
        let old = alike.as_ref().unwrap_or(old);
        let metadata =
            validate_object_meta_update(&new["metadata"], &old["metadata"], &Path::new("metadata"));
        let all = metadata.into_iter().chain(self.strategy.validate_update(context, old, &new));
        all.map(|error| error.to_string()).collect()
    }

    /// Whether the change from `old` to `new` is refused as a change.
    fn refuses(&self, context: &Context<'_>, old: &Value, new: &Value) -> bool {
        !self.errors(context, old, new).is_subset(&self.errors(context, new, new))
    }
}

#[test]
fn absence_is_another_value_wherever_a_change_is_refused() {
    let kinds = kinds();
    assert!(kinds.len() > 40, "{}", kinds.len());
    let mut random = Random(34);
    let (mut immutable, mut equal, mut kinds_met) = (0, 0, BTreeSet::new());
    let mut found: BTreeMap<(String, String), Value> = BTreeMap::new();
    for _ in 0..CASES {
        let kind = &kinds[random.index(kinds.len())];
        if kind.places.is_empty() {
            continue;
        }
        let place = &kind.places[random.index(kind.places.len())];
        let context = kind.context(place);
        let mut object = kind.whole.clone();
        thin(&mut object, Some(place), &mut random);
        let zero = zero(at(&object, place));
        let absent = with(object.clone(), place, None);
        let zeroed = with(object.clone(), place, Some(zero));
        let all = [&object, &absent, &zeroed].map(|value| kind.canonical(&context, value));
        let [Some(object), Some(absent), Some(zeroed)] = all else { continue };
        if !kind.refuses(&context, &absent, &object) || !kind.refuses(&context, &object, &absent) {
            continue;
        }
        immutable += 1;
        kinds_met.insert(kind.resource.kind.as_str());
        if absent == zeroed {
            equal += 1;
            continue;
        }
        if !kind.refuses(&context, &absent, &zeroed) || !kind.refuses(&context, &zeroed, &absent) {
            let path = format!("{place:?}");
            found.entry((kind.resource.kind.clone(), path)).or_insert(absent);
        }
    }
    // A test that meets no immutable field shows nothing.
    assert!(
        immutable > 300 && immutable - equal > 100,
        "{immutable} immutable places, {equal} without presence"
    );
    assert!(kinds_met.len() > 10, "{kinds_met:?}");
    let is_excepted =
        |kind: &str, path: &str| EXCEPTIONS.iter().any(|(of, end, _)| *of == kind && path.ends_with(end));
    found.retain(|(kind, path), _| !is_excepted(kind, path));
    let places: Vec<_> =
        found.iter().map(|((kind, path), object)| format!("{kind} {path}: {object}")).collect();
    assert!(
        places.is_empty(),
        "{} places, {immutable} immutable, {equal} equal, {kinds_met:?}:\n{}",
        places.len(),
        places.join("\n")
    );
}

#[test]
fn an_amount_that_is_written_in_another_way_is_no_change() {
    let (mut random, mut refused, mut immutable) = (Random(35), BTreeSet::new(), BTreeSet::new());
    for kind in &kinds() {
        for place in &kind.places {
            let context = kind.context(place);
            let of = |object: &Value, amount: &str| {
                kind.canonical(&context, &with(object.clone(), place, Some(json!(amount))))
            };
            let is_amount = of(&kind.whole, "1000m").is_some_and(|object| at(&object, place) == "1");
            for _ in (0..OBJECTS).take_while(|_| is_amount) {
                let mut object = kind.whole.clone();
                thin(&mut object, Some(place), &mut random);
                let all = ["1Gi", "1073741824", "2Gi"].map(|amount| of(&object, amount));
                let [Some(object), Some(same), Some(other)] = all else { continue };
                if !kind.refuses(&context, &object, &other) || !kind.refuses(&context, &other, &object) {
                    continue;
                }
                immutable.insert(kind.resource.kind.as_str());
                if kind.refuses(&context, &object, &same) || kind.refuses(&context, &same, &object) {
                    refused.insert((kind.resource.kind.clone(), format!("{place:?}")));
                }
            }
        }
    }
    assert!(immutable.len() > 5, "{immutable:?}");
    assert!(refused.is_empty(), "{} places: {refused:#?}", refused.len());
}
