//! Whether the loop of definitions has nothing to do for a definition: its status tells of its present names.
//!
//! Owns the answer for those who wait for the loop. It follows from the definition alone: a condition that tells of other names, of
//! certificates that were replaced since, or of nothing that the loop writes, is one that the loop is about to write again.

use orch_schema::value::Value;

use super::conditions::{Condition, ConditionType};
use super::has_unreadable_ca_bundle;
use super::names::is_refusal_of;
use crate::validate::tree::Tree;

/// The names of a definition in `spec.names` and `status.acceptedNames`.
const NAMES: [&str; 6] = ["plural", "singular", "shortNames", "kind", "listKind", "categories"];

/// Whether the status of `definition` tells of its names: all of them are accepted and its objects served, or one of them is refused. A
/// definition that is being deleted waits for nothing.
pub fn is_settled(definition: &Value) -> bool {
    if definition.at("metadata").has("deletionTimestamp") {
        return true;
    }
    let wanted = definition.at("spec").at("names");
    let Some(accepted) = ConditionType::NamesAccepted.find(definition) else { return false };
    if accepted.text("status") != "True" {
        return is_refusal_of(accepted, wanted);
    }
    let has = definition.at("status").at("acceptedNames");
    // few: six fields.
    NAMES.iter().all(|field| wanted.at(field) == has.at(field)) && is_decided(definition)
}

/// Whether the condition `Established` of `definition`, whose names are accepted, stays as it is.
fn is_decided(definition: &Value) -> bool {
    let Some(established) = ConditionType::Established.find(definition) else { return false };
    let is_held_back = || {
        established.text("reason") == Condition::invalid_ca_bundle().reason
            && has_unreadable_ca_bundle(definition)
    };
    established.text("status") == "True" || is_held_back()
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    /// Names under the plural `apples`.
    fn names(kind: &str, short: &[&str]) -> Value {
        json!({"plural": "apples", "singular": "apple", "kind": kind, "listKind": format!("{kind}List"), "shortNames": short})
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    }

    fn accepted() -> Value {
        condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    }

    fn refused(reason: &str, message: &str) -> Value {
        condition("NamesAccepted", "False", reason, message)
    }

    fn established() -> Value {
        condition("Established", "True", "InitialNamesAccepted", "")
    }

    fn not_established(reason: &str) -> Value {
        condition("Established", "False", reason, "")
    }

    /// Whether a definition of these wanted and accepted names with these conditions is settled; one whose deletion has begun is.
    fn check(wanted: &Value, has: &Value, conditions: &[Value]) -> bool {
        let mut definition = json!({"metadata": {"deletionTimestamp": null},
            "spec": {"group": "g.example.com", "names": wanted},
            "status": {"acceptedNames": has, "conditions": conditions}});
        let is = is_settled(&definition);
        definition["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert!(is_settled(&definition), "{definition}");
        is
    }

    #[test]
    fn a_definition_waits_until_its_status_tells_of_all_its_names() {
        let (own, none) = (names("Apple", &["a", "b"]), json!({"plural": "", "kind": ""}));
        let without = |field: &str| {
            let mut some = own.clone();
            some.as_object_mut().unwrap().shift_remove(field);
            some
        };
        let mut listed = own.clone();
        listed["categories"] = json!(["all"]);
        let in_use = |name: &str| format!("{name:?} is already in use");
        let both = format!("[{}, {}]", in_use("a"), in_use("b"));
        #[rustfmt::skip]
        let table = [
            ("nobody has looked", &none, vec![], false),
            ("names alone are decided on", &own, vec![accepted()], false),
            ("in force alone", &own, vec![established()], false),
            ("accepted and installing", &own, vec![accepted(), not_established("Installing")], false),
            ("accepted behind a refusal", &own, vec![accepted(), not_established("NotAccepted")], false),
            ("in force", &own, vec![accepted(), established()], true),
            ("another kind is accepted", &names("Pear", &["a", "b"]), vec![accepted(), established()], false),
            ("other short names are accepted", &names("Apple", &["a"]), vec![accepted(), established()], false),
            ("a singular is to come", &without("singular"), vec![accepted(), established()], false),
            ("a list kind is to come", &without("listKind"), vec![accepted(), established()], false),
            ("a category is to go", &listed, vec![accepted(), established()], false),
            ("refused", &none, vec![refused("KindConflict", &in_use("Apple")), not_established("NotAccepted")], true),
            ("refused alone", &none, vec![refused("KindConflict", &in_use("Apple"))], true),
            ("a refused plural", &none, vec![refused("PluralConflict", &in_use("apples"))], true),
            ("a refused singular", &none, vec![refused("SingularConflict", &in_use("apple"))], true),
            ("a refused list kind", &none, vec![refused("ListKindConflict", &in_use("AppleList"))], true),
            ("a refused short name", &none, vec![refused("ShortNamesConflict", &in_use("b"))], true),
            ("refused short names", &none, vec![refused("ShortNamesConflict", &both)], true),
            ("refused while in force", &names("Pear", &[]), vec![refused("KindConflict", &in_use("Apple")), established()], true),
            ("the kind was repaired", &none, vec![refused("KindConflict", &in_use("Pear"))], false),
            ("the list kind was repaired", &none, vec![refused("ListKindConflict", &in_use("Apple"))], false),
            ("the singular was repaired", &none, vec![refused("SingularConflict", &in_use("pear"))], false),
            ("a short name was repaired", &none, vec![refused("ShortNamesConflict", &in_use("c"))], false),
            ("one of two short names was repaired", &none,
                vec![refused("ShortNamesConflict", &format!("[{}, {}]", in_use("a"), in_use("c")))], false),
            ("repaired while in force", &names("Pear", &[]), vec![refused("KindConflict", &in_use("Pear")), established()], false),
            ("a refusal by hand", &none, vec![refused("Nope", "")], false),
            ("a refusal of another reason", &none, vec![refused("PluralConflict", &in_use("Apple"))], false),
            ("certificates that are repaired", &own, vec![accepted(), not_established("InvalidCABundle")], false),
        ];
        for (case, has, conditions, is) in table {
            assert_eq!(check(&own, has, &conditions), is, "{case}");
        }
        // Hostile conditions are none.
        assert!(!is_settled(&json!({"spec": {"names": own}, "status": {"conditions": "x"}})));
    }

    #[test]
    fn unreadable_certificates_hold_a_definition_back_until_they_are_replaced() {
        let own = names("Apple", &[]);
        let conversion = |bundle: &str| {
            json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://example.com", "caBundle": bundle}}})
        };
        let of = |conversion: Value| {
            let conditions = [accepted(), not_established("InvalidCABundle")];
            json!({"spec": {"names": own, "conversion": conversion},
                "status": {"acceptedNames": own, "conditions": conditions}})
        };
        assert!(is_settled(&of(conversion("bm9uZQ=="))));
        assert!(!is_settled(&of(json!({"strategy": "None"}))));
    }
}
