//! The members of an object that a patch may read or change.
//!
//! Owns cutting them out, and putting them back. A patch that sets a label of an object of a megabyte is applied to the
//! labels alone, and only its result is decoded: the other members of a stored object are in canonical form already. A
//! scope that is too large costs time but gives the same result. If a part is not certainly enough, the object is
//! patched as a whole.
//!
//! Invariant: a member beyond the scope of a patch has no influence on its result and errors.

use std::collections::BTreeMap;

use orch_schema::value::{Map, SmolStr, Value};

/// An object with more than this many members for each reached one is copied, and the reached ones replaced. A smaller
/// one is built from the members that stay, so that replaced values are not copied first.
const SPARSE: usize = 16;

/// The part of a value that a patch reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchScope {
    /// The whole value.
    Whole,
    /// These members of an object; nothing of a value that is no object.
    Members(BTreeMap<SmolStr, PatchScope>),
}

impl PatchScope {
    /// Members of one object that are reached one by one. An object with more of them is reached as a whole: separating
    /// them would cost as much as it saves.
    pub(super) const MEMBERS_MAX: usize = 1024;

    /// The scope of a merge patch: its members, at any depth.
    pub fn of_merge_patch(patch: &Value) -> PatchScope {
        match patch {
            Value::Object(map) if !map.is_empty() && map.len() <= PatchScope::MEMBERS_MAX => {
                PatchScope::Members(
                    map.iter()
                        .map(|(name, value)| (name.clone(), PatchScope::of_merge_patch(value)))
                        .collect(),
                )
            }
            _ => PatchScope::Whole,
        }
    }

    /// Extends the scope to the value at the path `steps`.
    pub(super) fn extend<'p>(&mut self, mut steps: impl Iterator<Item = &'p str>) {
        let PatchScope::Members(members) = self else { return };
        let Some(step) = steps.next() else {
            *self = PatchScope::Whole;
            return;
        };
        let nothing = || PatchScope::Members(BTreeMap::new());
        members.entry(step.into()).or_insert_with(nothing).extend(steps);
        if members.len() > PatchScope::MEMBERS_MAX {
            *self = PatchScope::Whole;
        }
    }

    /// The reached part of `object`.
    pub fn part_of(&self, object: &Value) -> Value {
        match (self, object) {
            (PatchScope::Members(members), Value::Object(map)) => {
                let part = |(name, below): (&SmolStr, &PatchScope)| {
                    Some((name.clone(), below.part_of(map.get(name)?)))
                };
                Value::Object(members.iter().filter_map(part).collect())
            }
            _ => object.clone(),
        }
    }

    /// `object` with its reached part replaced by `part`, the patched one. `None` if an object lost its last member:
    /// only decoding the whole tells whether an empty object stays.
    pub fn joined(&self, object: &Value, part: Value) -> Option<Value> {
        match (self, object, part) {
            (PatchScope::Members(members), Value::Object(map), Value::Object(part)) => {
                joined(map, members, part).map(Value::Object)
            }
            (PatchScope::Members(_), Value::Object(_), _) => None,
            (_, _, part) => Some(part),
        }
    }
}

fn joined(old: &Map, members: &BTreeMap<SmolStr, PatchScope>, mut part: Map) -> Option<Map> {
    let mut new = if old.len() > SPARSE * members.len() {
        old.clone()
    } else {
        let kept = old.iter().filter(|(name, _)| !members.contains_key(*name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    for (name, below) in members {
        let (before, mut now) = (old.get(name), part.swap_remove(name));
        if let (PatchScope::Members(_), Some(before @ Value::Object(_))) = (below, before) {
            let inner = below.joined(before, now.unwrap_or_else(|| Value::Object(Map::new())))?;
            now = Some(inner);
        }
        match now {
            Some(value) => drop(new.insert(name.clone(), value)),
            None => drop(new.swap_remove(name)),
        }
    }
    if new.is_empty() && !old.is_empty() { None } else { Some(new) }
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn a_part_is_cut_out_and_put_back() {
        let object = json!({"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2], "f": 3});
        let scope = PatchScope::of_merge_patch(&json!({"a": {"b": 0, "x": 1}, "e": {"0": 1}, "y": null}));
        let part = scope.part_of(&object);
        assert_eq!(part, json!({"a": {"b": 1}, "e": [1, 2]}));
        assert_eq!(scope.joined(&object, part), Some(object.clone()));
        let changed = json!({"a": {"x": 7}, "y": {"z": 1}, "f": "beyond"});
        assert_eq!(
            scope.joined(&object, changed),
            Some(json!({"a": {"c": {"d": 2}, "x": 7}, "f": 3, "y": {"z": 1}}))
        );
    }

    #[test]
    fn an_emptied_object_has_no_part() {
        let scope = PatchScope::of_merge_patch(&json!({"a": {"b": null}}));
        assert_eq!(scope.joined(&json!({"a": {"b": 1}}), json!({"a": {}})), None);
        assert_eq!(scope.joined(&json!({"a": {"b": 1}}), json!({})), None);
        assert_eq!(scope.joined(&json!({"a": {"b": 1}}), json!({"a": 1})), None, "it was no object's place");
        assert_eq!(scope.joined(&json!({"a": {}}), json!({})), Some(json!({"a": {}})));
        assert_eq!(scope.joined(&json!({"c": 1}), json!({})), Some(json!({"c": 1})));
    }

    #[test]
    fn many_members_and_everything_are_reached_as_a_whole() {
        let members: Map = (0..=PatchScope::MEMBERS_MAX).map(|at| (at.to_string(), json!(1))).collect();
        let scope = PatchScope::of_merge_patch(&json!({"data": members}));
        assert_eq!(scope, PatchScope::Members([("data".into(), PatchScope::Whole)].into()));
        let mut scope = PatchScope::Members(BTreeMap::new());
        for at in 0..=PatchScope::MEMBERS_MAX {
            scope.extend(["data", &at.to_string()].into_iter());
        }
        assert_eq!(scope, PatchScope::Members([("data".into(), PatchScope::Whole)].into()));
        scope.extend(["data", "x", "y"].into_iter());
        assert_eq!(scope, PatchScope::Members([("data".into(), PatchScope::Whole)].into()));
        scope.extend([].into_iter());
        assert_eq!(scope, PatchScope::Whole);
    }
}
