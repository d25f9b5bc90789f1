//! The status that a definition is to have: a function of the definition, the names in use in its group, and the time.
//!
//! Owns when a definition comes into force: as soon as its names are accepted. The reference waits five seconds for its other
//! servers; here a member that does not know a kind asks a quorum before it says so (`http::stages`). The rules for names and the texts are those of its kind (`kinds::definition`).

use orch_proto::Brand;
use orch_rules::kinds::definition::conditions::{
    Condition, ConditionStatus, ConditionType, remove_condition, set_condition,
};
use orch_rules::kinds::definition::names::{Pool, accept};
use orch_rules::kinds::definition::{approval, has_unreadable_ca_bundle};
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use crate::ambient::Timestamp;

/// The input of a status beside the definition.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) brand: &'static Brand,
    pub(super) now: Timestamp,
    /// The faults in the structure of the schemas; `None` where none were found or looked for.
    pub(super) violations: Option<&'a Condition>,
}

/// `definition`, which is not being deleted, with its next status beside the names of `pool`.
pub(super) fn next(definition: &Value, pool: &Pool, surroundings: Surroundings<'_>) -> Value {
    let Surroundings { brand, now, violations } = surroundings;
    let text = now.seconds_text();
    let mut after = definition.clone();
    let accepted = accept(definition, pool);
    set(child_mut(&mut after, "status"), "acceptedNames", accepted.names);
    set_condition(&mut after, brand, &accepted.names_accepted, &text);
    if let Some(condition) = accepted.established {
        let is_accepted = accepted.names_accepted.status == ConditionStatus::True;
        let condition = match is_accepted {
            true if has_unreadable_ca_bundle(definition) => Condition::invalid_ca_bundle(),
            true => Condition::established(),
            false => condition,
        };
        set_condition(&mut after, brand, &condition, &text);
    }
    match violations {
        Some(condition) => set_condition(&mut after, brand, condition, &text),
        None => remove_condition(&mut after, ConditionType::NonStructuralSchema),
    };
    match approval(brand, definition) {
        Some(condition) => set_condition(&mut after, brand, &condition, &text),
        None => remove_condition(&mut after, ConditionType::ApprovalPolicyConformant),
    };
    after
}

/// The patch that gives a definition which is being deleted the names that it may use: somebody may have written others into its status.
/// `None`: it has them. Whether it is in force stays as it is.
pub(super) fn restored(definition: &Value, pool: &Pool, surroundings: Surroundings<'_>) -> Option<Value> {
    let Surroundings { brand, now, .. } = surroundings;
    let accepted = accept(definition, pool);
    let mut after = definition.clone();
    set(child_mut(&mut after, "status"), "acceptedNames", accepted.names);
    set_condition(&mut after, brand, &accepted.names_accepted, &now.seconds_text());
    patch(definition, &after)
}

/// The merge patch from the status of `before` to that of `after`; `None` where they are the same.
pub(super) fn patch(before: &Value, after: &Value) -> Option<Value> {
    let (old, new) = (before.at("status"), after.at("status"));
    let mut status = json!({});
    if old.at("conditions") != new.at("conditions") {
        status["conditions"] = new.at("conditions").clone();
    }
    if old.at("acceptedNames") != new.at("acceptedNames") {
        let mut names = new.at("acceptedNames").clone();
        for field in old.at("acceptedNames").as_object().into_iter().flat_map(|names| names.keys()) {
            if !names.has(field) {
                names[field.as_str()] = Value::Null;
            }
        }
        status["acceptedNames"] = names;
    }
    let is_changed = status.as_object().is_some_and(|changed| !changed.is_empty());
    is_changed.then(|| json!({"status": status}))
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    const NOW: u64 = 1_767_322_145;

    fn at(seconds: u64) -> Surroundings<'static> {
        let now = Timestamp((NOW + seconds) * 1_000_000);
        Surroundings { brand: &ORCH, now, violations: None }
    }

    fn definition() -> Value {
        let names =
            json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
        json!({"spec": {"group": "g.example.com", "names": names}, "status": {"storedVersions": ["v1"]}})
    }

    fn reasons(definition: &Value) -> Vec<String> {
        let conditions = definition.at("status").items("conditions").iter();
        conditions.map(|found| format!("{} {}", found.text("status"), found.text("reason"))).collect()
    }

    #[test]
    fn a_definition_is_in_force_when_its_names_are_accepted() {
        let next = next(&definition(), &Pool::new(), at(0));
        assert_eq!(reasons(&next), ["True NoConflicts", "True InitialNamesAccepted"]);
        let written = patch(&definition(), &next).unwrap();
        assert_eq!(written["status"]["acceptedNames"], definition()["spec"]["names"]);
        assert!(written["status"].get("storedVersions").is_none(), "others write that");
        assert!(
            patch(&next, &super::next(&next, &Pool::new(), at(3))).is_none(),
            "a second look writes nothing"
        );
    }

    #[test]
    fn names_in_use_hold_a_definition_back_until_they_are_free() {
        let mut pool = Pool::new();
        let others = json!({"plural": "others", "singular": "other", "kind": "Widget"});
        pool.add(&others);
        let held = next(&definition(), &pool, at(0));
        assert_eq!(reasons(&held), ["False KindConflict", "False NotAccepted"]);
        pool.remove(&others);
        let free = next(&held, &pool, at(60));
        assert_eq!(reasons(&free), ["True NoConflicts", "True InitialNamesAccepted"]);
    }

    #[test]
    fn a_name_that_is_no_longer_accepted_is_taken_out() {
        let mut old = definition();
        old["status"]["acceptedNames"] = json!({"plural": "widgets", "shortNames": ["wi"]});
        let patch = patch(&old, &next(&old, &Pool::new(), at(0))).unwrap();
        assert_eq!(patch["status"]["acceptedNames"]["shortNames"], Value::Null);
        assert!(patch["status"]["acceptedNames"].get("kind").is_some());
    }
}
