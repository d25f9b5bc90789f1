//! The status that a definition is to have: a function of the definition, the names in use in its group, and the time.
//!
//! Owns when a definition comes into force. The rules for names and the texts are those of its kind (`kinds::definition`).

use std::time::Duration;

use orch_proto::Brand;
use orch_rules::kinds::definition::conditions::{
    Condition, ConditionStatus, ConditionType, remove_condition, set_condition,
};
use orch_rules::kinds::definition::names::{Pool, accept};
use orch_rules::kinds::definition::{approval, has_unreadable_ca_bundle};
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use crate::ambient::Timestamp;

/// From the acceptance of the names until a definition is in force, where there are several members: all of them have applied the
/// acceptance by then, as in the reference.
const INSTALLATION: Duration = Duration::from_secs(5);

/// What a status depends on beside the definition.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) brand: &'static Brand,
    pub(super) now: Timestamp,
    /// The cluster has more than one member.
    pub(super) several_members: bool,
    /// What is wrong with the structure of the schemas, where that was looked at.
    pub(super) violations: Option<&'a str>,
}

/// The next status of a definition.
pub(super) struct Next {
    /// The definition with it.
    pub(super) definition: Value,
    /// When the definition is to be looked at again, without a change.
    pub(super) wait: Option<Duration>,
}

/// The next status of `definition`, which is not being deleted, beside the names of `pool`.
pub(super) fn next(definition: &Value, pool: &Pool, surroundings: Surroundings<'_>) -> Next {
    let Surroundings { brand, now, several_members, violations } = surroundings;
    let text = now.seconds_text();
    let mut after = definition.clone();
    let accepted = accept(definition, pool);
    set(child_mut(&mut after, "status"), "acceptedNames", accepted.names);
    set_condition(&mut after, brand, &accepted.names_accepted, &text);
    let mut wait = None;
    if let Some(condition) = accepted.established {
        let is_accepted = accepted.names_accepted.status == ConditionStatus::True;
        let left = if several_members { installation_left(&after, now) } else { Duration::ZERO };
        let is_due = is_accepted && left.is_zero();
        let condition = match is_due {
            true if has_unreadable_ca_bundle(definition) => Condition::invalid_ca_bundle(),
            true => Condition::established(),
            false => condition,
        };
        set_condition(&mut after, brand, &condition, &text);
        wait = (is_accepted && !is_due).then_some(left);
    }
    match violations {
        Some(errors) => set_condition(&mut after, brand, &Condition::non_structural(errors), &text),
        None => remove_condition(&mut after, ConditionType::NonStructuralSchema),
    };
    match approval(brand, definition) {
        Some(condition) => set_condition(&mut after, brand, &condition, &text),
        None => remove_condition(&mut after, ConditionType::ApprovalPolicyConformant),
    };
    Next { definition: after, wait }
}

/// The time until a definition whose names are accepted may come into force.
fn installation_left(definition: &Value, now: Timestamp) -> Duration {
    let accepted = ConditionType::NamesAccepted.find(definition);
    let since =
        accepted.and_then(|found| Instant::parse(found.text("lastTransitionTime"), Precision::Seconds));
    let Some(since) = since else { return INSTALLATION };
    let passed_ms =
        i64::try_from(now.millis()).unwrap_or(i64::MAX).saturating_sub(since.seconds.saturating_mul(1000));
    // A clock that was set back makes nobody wait for longer.
    INSTALLATION.saturating_sub(Duration::from_millis(passed_ms.try_into().unwrap_or_default()))
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

    fn at(seconds: u64, several_members: bool) -> Surroundings<'static> {
        let now = Timestamp((NOW + seconds) * 1_000_000);
        Surroundings { brand: &ORCH, now, several_members, violations: None }
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
    fn with_one_member_a_definition_is_in_force_at_once() {
        let next = next(&definition(), &Pool::new(), at(0, false));
        assert_eq!(reasons(&next.definition), ["True NoConflicts", "True InitialNamesAccepted"]);
        assert_eq!(next.wait, None);
        let patch = patch(&definition(), &next.definition).unwrap();
        assert_eq!(patch["status"]["acceptedNames"], definition()["spec"]["names"]);
        assert!(patch["status"].get("storedVersions").is_none(), "others write that");
    }

    #[test]
    fn with_several_members_five_seconds_pass_since_the_acceptance() {
        let first = next(&definition(), &Pool::new(), at(0, true));
        assert_eq!(reasons(&first.definition), ["True NoConflicts", "False Installing"]);
        assert_eq!(first.wait, Some(INSTALLATION));
        let second = next(&first.definition, &Pool::new(), at(3, true));
        assert!(patch(&first.definition, &second.definition).is_none());
        assert_eq!(second.wait, Some(Duration::from_secs(2)), "a new leader counts from the acceptance");
        let third = next(&second.definition, &Pool::new(), at(5, true));
        assert_eq!(reasons(&third.definition), ["True NoConflicts", "True InitialNamesAccepted"]);
    }

    #[test]
    fn names_in_use_hold_a_definition_back_until_they_are_free() {
        let mut pool = Pool::new();
        let others = json!({"plural": "others", "singular": "other", "kind": "Widget"});
        pool.add(&others);
        let held = next(&definition(), &pool, at(0, false));
        assert_eq!(reasons(&held.definition), ["False KindConflict", "False NotAccepted"]);
        assert_eq!(held.wait, None);
        pool.remove(&others);
        let free = next(&held.definition, &pool, at(60, true));
        assert_eq!(reasons(&free.definition), ["True NoConflicts", "False Installing"]);
        assert_eq!(free.wait, Some(INSTALLATION));
    }

    #[test]
    fn a_name_that_is_no_longer_accepted_is_taken_out() {
        let mut old = definition();
        old["status"]["acceptedNames"] = json!({"plural": "widgets", "shortNames": ["wi"]});
        let next = next(&old, &Pool::new(), at(0, false));
        let patch = patch(&old, &next.definition).unwrap();
        assert_eq!(patch["status"]["acceptedNames"]["shortNames"], Value::Null);
        assert!(patch["status"]["acceptedNames"].get("kind").is_some());
    }
}
