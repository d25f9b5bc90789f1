//! The members of an object that a patch may look at or change.
//!
//! Owns cutting them out, and putting them back. A patch that sets a label of an object of a megabyte is applied to the
//! labels alone, and what it makes of them is decoded alone: the other members of a stored object are in canonical form
//! already. Reaching too far costs time and changes nothing; where it is not certain that a part is enough, there is
//! none, and the object is patched as a whole.
//!
//! Invariant: a member beyond the reach of a patch has no part in what the patch does, its errors included.

use std::collections::BTreeMap;

use orch_schema::value::{Map, SmolStr, Value};

/// An object with so many members for each that is reached is copied, and the reached ones replaced; any other is put
/// together from those that stay, so that what is replaced is not copied before.
const SPARSE: usize = 16;

/// How far a patch reaches from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that is there.
    Whole,
    /// These members of the object that is there, and nothing of one that is no object.
    Members(BTreeMap<SmolStr, Reach>),
}

impl Reach {
    /// Members of one object that are reached one by one. Of more of them the object is reached as a whole: telling them
    /// apart would cost as much as what it saves.
    pub(super) const MEMBERS_MAX: usize = 1024;

    /// Of a merge patch: members that the patch has, at any depth.
    pub fn of_merge_patch(patch: &Value) -> Reach {
        match patch {
            Value::Object(map) if !map.is_empty() && map.len() <= Reach::MEMBERS_MAX => Reach::Members(
                map.iter().map(|(name, value)| (name.clone(), Reach::of_merge_patch(value))).collect(),
            ),
            _ => Reach::Whole,
        }
    }

    /// Extends the reach to the place that `steps` lead to.
    pub(super) fn extend<'p>(&mut self, mut steps: impl Iterator<Item = &'p str>) {
        let Reach::Members(members) = self else { return };
        let Some(step) = steps.next() else {
            *self = Reach::Whole;
            return;
        };
        let nothing = || Reach::Members(BTreeMap::new());
        members.entry(step.into()).or_insert_with(nothing).extend(steps);
        if members.len() > Reach::MEMBERS_MAX {
            *self = Reach::Whole;
        }
    }

    /// The part of `object` that is reached.
    pub fn part_of(&self, object: &Value) -> Value {
        match (self, object) {
            (Reach::Members(members), Value::Object(map)) => {
                let part =
                    |(name, below): (&SmolStr, &Reach)| Some((name.clone(), below.part_of(map.get(name)?)));
                Value::Object(members.iter().filter_map(part).collect())
            }
            _ => object.clone(),
        }
    }

    /// `object` with `part`, what became of the part that is reached, in the place of that. `None`: whether an object that
    /// lost its last member stays as an empty one is for a decoder to say, which has to see it.
    pub fn joined(&self, object: &Value, part: Value) -> Option<Value> {
        match (self, object, part) {
            (Reach::Members(members), Value::Object(map), Value::Object(part)) => {
                joined(map, members, part).map(Value::Object)
            }
            (Reach::Members(_), Value::Object(_), _) => None,
            (_, _, part) => Some(part),
        }
    }
}

fn joined(old: &Map, members: &BTreeMap<SmolStr, Reach>, mut part: Map) -> Option<Map> {
    let mut new = if old.len() > SPARSE * members.len() {
        old.clone()
    } else {
        let kept = old.iter().filter(|(name, _)| !members.contains_key(*name));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    for (name, below) in members {
        let (before, mut now) = (old.get(name), part.swap_remove(name));
        if let (Reach::Members(_), Some(before @ Value::Object(_))) = (below, before) {
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
        let reach = Reach::of_merge_patch(&json!({"a": {"b": 0, "x": 1}, "e": {"0": 1}, "y": null}));
        let part = reach.part_of(&object);
        assert_eq!(part, json!({"a": {"b": 1}, "e": [1, 2]}));
        assert_eq!(reach.joined(&object, part), Some(object.clone()));
        let changed = json!({"a": {"x": 7}, "y": {"z": 1}, "f": "beyond"});
        assert_eq!(
            reach.joined(&object, changed),
            Some(json!({"a": {"c": {"d": 2}, "x": 7}, "f": 3, "y": {"z": 1}}))
        );
    }

    #[test]
    fn an_emptied_object_has_no_part() {
        let reach = Reach::of_merge_patch(&json!({"a": {"b": null}}));
        assert_eq!(reach.joined(&json!({"a": {"b": 1}}), json!({"a": {}})), None);
        assert_eq!(reach.joined(&json!({"a": {"b": 1}}), json!({})), None);
        assert_eq!(reach.joined(&json!({"a": {"b": 1}}), json!({"a": 1})), None, "it was no object's place");
        assert_eq!(reach.joined(&json!({"a": {}}), json!({})), Some(json!({"a": {}})));
        assert_eq!(reach.joined(&json!({"c": 1}), json!({})), Some(json!({"c": 1})));
    }

    #[test]
    fn many_members_and_everything_are_reached_as_a_whole() {
        let members: Map = (0..=Reach::MEMBERS_MAX).map(|at| (at.to_string(), json!(1))).collect();
        let reach = Reach::of_merge_patch(&json!({"data": members}));
        assert_eq!(reach, Reach::Members([("data".into(), Reach::Whole)].into()));
        let mut reach = Reach::Members(BTreeMap::new());
        for at in 0..=Reach::MEMBERS_MAX {
            reach.extend(["data", &at.to_string()].into_iter());
        }
        assert_eq!(reach, Reach::Members([("data".into(), Reach::Whole)].into()));
        reach.extend(["data", "x", "y"].into_iter());
        assert_eq!(reach, Reach::Members([("data".into(), Reach::Whole)].into()));
        reach.extend([].into_iter());
        assert_eq!(reach, Reach::Whole);
    }
}
