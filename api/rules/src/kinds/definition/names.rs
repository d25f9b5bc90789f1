//! The names of a definition: which of them it may use beside the other definitions of its group.
//!
//! Owns the comparison of wanted names with those in use, and the two conditions that follow from it. The names that a
//! definition uses stand in its `status.acceptedNames`; those of all definitions of a group form two pools: one of
//! plurals, singulars and short names, one of kinds and list kinds. Categories are free.
//!
//! Invariant: a wanted name that is in use by another definition is never accepted; the definition keeps the name that
//! it had, and no name at all if it had none.

use std::collections::HashMap;

use orch_schema::budget::count_step;
use orch_schema::excerpt::quoted;
use orch_schema::value::{SmolStr, Value};

use super::conditions::{Condition, ConditionStatus, ConditionType};
use crate::validate::Distinct;
use crate::validate::tree::{Tree, carry, set};

/// Names of short names in conflict that a message repeats; the reference repeats all.
const CONFLICTS_SHOWN_MAX: usize = 16;

/// Fields with one name of a resource, and the reason of its conflict.
const RESOURCE_NAMES: [(&str, &str); 2] = [("plural", "PluralConflict"), ("singular", "SingularConflict")];

/// Fields with one name of a kind, and the reason of its conflict.
const KIND_NAMES: [(&str, &str); 2] = [("kind", "KindConflict"), ("listKind", "ListKindConflict")];

/// The names in use by the definitions of one group.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Plurals, singulars and short names, with the number of their uses.
    resources: HashMap<SmolStr, usize>,
    /// Kinds and list kinds, with the number of their uses.
    kinds: HashMap<SmolStr, usize>,
}

impl Pool {
    /// A group without definitions.
    pub fn new() -> Pool {
        Pool::default()
    }

    /// Adds the `status.acceptedNames` of a definition of the group.
    pub fn add(&mut self, accepted: &Value) {
        resource_names(accepted).for_each(|name| *self.resources.entry(name.into()).or_default() += 1);
        kind_names(accepted).for_each(|name| *self.kinds.entry(name.into()).or_default() += 1);
    }

    /// Removes the `status.acceptedNames` of a definition, as they were added.
    pub fn remove(&mut self, accepted: &Value) {
        resource_names(accepted).for_each(|name| release(&mut self.resources, name));
        kind_names(accepted).for_each(|name| release(&mut self.kinds, name));
    }
}

/// One use of `name` less.
fn release(uses: &mut HashMap<SmolStr, usize>, name: &str) {
    let left = uses.get(name).map_or(0, |count| count.saturating_sub(1));
    if left == 0 {
        uses.remove(name);
    } else {
        uses.insert(name.into(), left);
    }
}

fn resource_names(names: &Value) -> impl Iterator<Item = &str> {
    let single = ["plural", "singular"].into_iter().map(|field| names.text(field));
    let short = names.items("shortNames").iter().filter_map(Value::as_str).take_while(|_| count_step());
    single.chain(short).filter(|name| !name.is_empty())
}

fn kind_names(names: &Value) -> impl Iterator<Item = &str> {
    ["kind", "listKind"].into_iter().map(|field| names.text(field)).filter(|name| !name.is_empty())
}

/// The names that a definition may use, and the conditions that tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Acceptance {
    /// The new `status.acceptedNames`.
    pub names: Value,
    /// The new condition `NamesAccepted`.
    pub names_accepted: Condition,
    /// The new condition `Established`. `None`: it stays as it is.
    pub established: Option<Condition>,
}

/// Decides which names of `definition` are accepted beside those of `pool`.
///
/// `pool` has the accepted names of the definitions of the same group. The definition's own accepted names may be in it or not:
/// they make no difference, save that a name which it gives up in one field is still in use in another until the next round, as in
/// the reference.
pub fn accept(definition: &Value, pool: &Pool) -> Acceptance {
    let (wanted, had) = (definition.at("spec").at("names"), definition.at("status").at("acceptedNames"));
    let mut names = if had.is_object() { had.clone() } else { Value::Object(Default::default()) };
    let mut conflict = None;
    let is_own = |name: &str| resource_names(had).any(|own| own == name); // few: the short names of one definition
    for (field, reason) in RESOURCE_NAMES {
        let name = wanted.text(field);
        if name != had.text(field) && (pool.resources.contains_key(name) || is_own(name)) {
            conflict = Some((reason, in_use(name)));
        } else {
            carry(wanted, &mut names, field);
        }
    }
    match short_names_in_use(wanted, had, pool) {
        Some(message) => conflict = Some(("ShortNamesConflict", message)),
        None => carry(wanted, &mut names, "shortNames"),
    }
    let is_own = |name: &str| kind_names(had).any(|own| own == name); // few: two names
    for (field, reason) in KIND_NAMES {
        let name = wanted.text(field);
        if name != had.text(field) && (pool.kinds.contains_key(name) || is_own(name)) {
            conflict = Some((reason, in_use(name)));
        } else {
            carry(wanted, &mut names, field);
        }
    }
    carry(wanted, &mut names, "categories");
    // Required fields of the document, whatever was accepted.
    for field in ["plural", "kind"] {
        if !names.has(field) {
            set(&mut names, field, "");
        }
    }
    let names_accepted = match conflict {
        None => Condition::names_accepted(),
        Some((reason, message)) => {
            Condition::new(ConditionType::NamesAccepted, ConditionStatus::False, reason, message)
        }
    };
    let established = established(definition, &names_accepted);
    Acceptance { names, names_accepted, established }
}

/// The condition `Established` that the names allow. A definition that is established stays so.
fn established(definition: &Value, names_accepted: &Condition) -> Option<Condition> {
    if ConditionType::Established.is_true(definition) {
        return None;
    }
    match names_accepted.status {
        ConditionStatus::True => Some(Condition::installing()),
        ConditionStatus::False if ConditionType::Established.find(definition).is_some() => None,
        ConditionStatus::False | ConditionStatus::Unknown => Some(Condition::not_accepted()),
    }
}

/// The message about the wanted short names that are in use. Names that the definition has already are its own.
fn short_names_in_use(wanted: &Value, had: &Value, pool: &Pool) -> Option<String> {
    if wanted.at("shortNames") == had.at("shortNames") {
        return None;
    }
    let own: Distinct<&str> = had.texts("shortNames").into_iter().collect();
    let single = [had.text("plural"), had.text("singular")];
    // few: two names.
    let taken = |name: &&str| !own.has(name) && (pool.resources.contains_key(*name) || single.contains(name));
    conflicts_message(wanted.texts("shortNames").into_iter().filter(taken))
}

/// The message about these short names, which are in use; `None`: there are none.
fn conflicts_message<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut conflicts: Vec<String> = names.take(CONFLICTS_SHOWN_MAX).map(in_use).collect();
    // Equal errors are told once.
    let mut told = Distinct::new();
    // few: sixteen at most.
    conflicts.retain(|conflict| !told.is_repeated(conflict.clone()));
    match conflicts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Whether `refusal`, a condition `NamesAccepted` that is `False`, tells of names that `wanted` has. Where it does not, the names were
/// changed since it was written, or a client wrote it.
pub(super) fn is_refusal_of(refusal: &Value, wanted: &Value) -> bool {
    let (reason, message) = (refusal.text("reason"), refusal.text("message"));
    if reason == "ShortNamesConflict" {
        let is_told = |name: &&str| message.contains(in_use(name).as_str());
        let told = wanted.texts("shortNames").into_iter().filter(is_told);
        return conflicts_message(told).is_some_and(|told| told == message);
    }
    // few: four fields.
    let field = RESOURCE_NAMES.into_iter().chain(KIND_NAMES).find(|(_, conflict)| *conflict == reason);
    field.is_some_and(|(field, _)| message == in_use(wanted.text(field)))
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", quoted(name))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn names(plural: &str, short: &[&str], kind: &str) -> Value {
        json!({
            "plural": plural, "singular": kind.to_lowercase(), "shortNames": short, "kind": kind,
            "listKind": format!("{kind}List"),
        })
    }

    fn told(acceptance: &Acceptance) -> (&str, &str, Option<&str>) {
        let condition = &acceptance.names_accepted;
        (
            condition.reason,
            &condition.message,
            acceptance.established.as_ref().map(|condition| condition.reason),
        )
    }

    #[test]
    fn free_names_are_accepted_and_installing() {
        let mut pool = Pool::new();
        pool.add(&names("gadgets", &["ga"], "Gadget"));
        let wanted = names("widgets", &["wi", "widgets"], "Widget");
        let acceptance = accept(&json!({"spec": {"names": wanted}}), &pool);
        assert_eq!(acceptance.names, wanted);
        assert_eq!(told(&acceptance), ("NoConflicts", "no conflicts found", Some("Installing")));
        pool.add(&wanted);
        let again = json!({"spec": {"names": wanted}, "status": {"acceptedNames": wanted}});
        assert_eq!(accept(&again, &pool).names, wanted, "own names are no conflict");
        pool.remove(&wanted);
        assert!(pool.resources.len() == 3 && pool.kinds.len() == 2, "{pool:?}");
    }

    #[test]
    fn the_last_conflict_is_told_and_free_names_are_accepted() {
        let mut pool = Pool::new();
        pool.add(&names("widgets", &["wi", "wd"], "Widget"));
        let wanted = json!({
            "plural": "others", "singular": "widget", "shortNames": ["wi", "x", "wd", "wi"], "kind": "Other",
            "listKind": "OtherList", "categories": ["all"],
        });
        let acceptance = accept(&json!({"spec": {"names": wanted}}), &pool);
        let short = "[\"wi\" is already in use, \"wd\" is already in use]";
        assert_eq!(told(&acceptance), ("ShortNamesConflict", short, Some("NotAccepted")));
        let accepted =
            json!({"plural": "others", "kind": "Other", "listKind": "OtherList", "categories": ["all"]});
        assert_eq!(acceptance.names, accepted);
        let mut wanted = wanted;
        set(&mut wanted, "listKind", "Widget");
        let acceptance = accept(&json!({"spec": {"names": wanted}}), &pool);
        assert_eq!(told(&acceptance).0, "ListKindConflict");
        assert_eq!(acceptance.names.text("kind"), "Other");
    }

    #[test]
    fn a_definition_that_is_established_stays_so_and_keeps_its_names() {
        let mut pool = Pool::new();
        pool.add(&names("widgets", &[], "Widget"));
        let had = names("others", &["o"], "Other");
        let wanted =
            json!({"plural": "others", "singular": "widget", "kind": "Other", "listKind": "OtherList"});
        let established = [json!({"type": "Established", "status": "True"})];
        let status = json!({"acceptedNames": had, "conditions": established});
        let acceptance = accept(&json!({"spec": {"names": wanted}, "status": status}), &pool);
        assert_eq!(told(&acceptance), ("SingularConflict", "\"widget\" is already in use", None));
        assert_eq!(acceptance.names.text("singular"), "other");
        assert!(!acceptance.names.has("shortNames"));
    }
}
