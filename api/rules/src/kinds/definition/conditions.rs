//! Conditions of a definition: their types, reasons and texts, and how one is set.
//!
//! Owns the texts of all conditions, and the answers that follow from them: whether objects of the definition are served, and
//! whether discovery shows them. It decides nothing over time; the loop of definitions asks and writes.
//!
//!     created --> NamesAccepted True, Established False Installing --(others have taken it)--> Established True
//!             \-> NamesAccepted False, Established False NotAccepted      never back, whatever the names do
//!     deleted --> Terminating True InstanceDeletionPending -> InstanceDeletionInProgress -> False InstanceDeletionCompleted
//!
//! Invariant: `lastTransitionTime` changes with the status of a condition, and with nothing else of it.

use orch_proto::Brand;
use orch_schema::excerpt::fitting;
use orch_schema::json;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, child_mut, set};

/// Bytes of a condition's message, as answers hold them: more than any text of ours, less than a failure of another part may tell.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The type of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// The names are free.
    NamesAccepted,
    /// Objects are served.
    Established,
    /// A schema is not structural. Only definitions of an earlier time have one.
    NonStructuralSchema,
    /// Objects are being deleted, and then the definition.
    Terminating,
    /// The definition of a protected group is approved.
    ApprovalPolicyConformant,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, of the structure of a schema that cannot be checked.
    Unknown,
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Type of the condition.
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl ConditionType {
    /// The name of the type; that of the approval carries the product's name.
    pub fn name(self, brand: &Brand) -> String {
        match self {
            ConditionType::ApprovalPolicyConformant => {
                format!("{}APIApprovalPolicyConformant", brand.product)
            }
            other => other.plain_name().to_owned(),
        }
    }

    fn plain_name(self) -> &'static str {
        match self {
            ConditionType::NamesAccepted => "NamesAccepted",
            ConditionType::Established => "Established",
            ConditionType::NonStructuralSchema => "NonStructuralSchema",
            ConditionType::Terminating => "Terminating",
            ConditionType::ApprovalPolicyConformant => "APIApprovalPolicyConformant",
        }
    }

    fn is(self, condition: &Value) -> bool {
        let name = condition.text("type");
        match self {
            ConditionType::ApprovalPolicyConformant => name.ends_with(self.plain_name()),
            other => name == other.plain_name(),
        }
    }

    /// The condition of this type of `definition`.
    pub fn find(self, definition: &Value) -> Option<&Value> {
        // few: five types of conditions, and what clients wrote besides.
        definition.at("status").items("conditions").iter().find(|condition| self.is(condition))
    }

    /// Whether `definition` has the condition with the status `True`.
    pub fn is_true(self, definition: &Value) -> bool {
        self.find(definition).is_some_and(|condition| condition.text("status") == "True")
    }
}

impl ConditionStatus {
    /// The text in the condition.
    pub fn text(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

impl Condition {
    /// A condition with a message of its own.
    pub fn new(
        kind: ConditionType,
        status: ConditionStatus,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Condition {
        Condition { kind, status, reason, message: message.into() }
    }

    /// All names are free.
    pub fn names_accepted() -> Condition {
        use {ConditionStatus::True, ConditionType::NamesAccepted};
        Condition::new(NamesAccepted, True, "NoConflicts", "no conflicts found")
    }

    /// Some name is in use by another definition, and the definition was never established.
    pub fn not_accepted() -> Condition {
        use {ConditionStatus::False, ConditionType::Established};
        Condition::new(Established, False, "NotAccepted", "not all names are accepted")
    }

    /// The names are accepted, and not all members know of it yet.
    pub fn installing() -> Condition {
        use {ConditionStatus::False, ConditionType::Established};
        Condition::new(Established, False, "Installing", INITIAL_NAMES)
    }

    /// Objects are served by all members.
    pub fn established() -> Condition {
        use {ConditionStatus::True, ConditionType::Established};
        Condition::new(Established, True, "InitialNamesAccepted", INITIAL_NAMES)
    }

    /// The certificates of the conversion webhook cannot be read, so that the definition is not established.
    pub fn invalid_ca_bundle() -> Condition {
        use {ConditionStatus::False, ConditionType::Established};
        Condition::new(Established, False, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    }

    /// The errors of a stored schema.
    pub fn non_structural(errors: impl Into<String>) -> Condition {
        use {ConditionStatus::True, ConditionType::NonStructuralSchema};
        Condition::new(NonStructuralSchema, True, "Violations", errors)
    }

    /// A stored schema uses what structural ones have no place for, as `told` says.
    pub fn unchecked_structure(told: impl Into<String>) -> Condition {
        use {ConditionStatus::Unknown, ConditionType::NonStructuralSchema};
        Condition::new(NonStructuralSchema, Unknown, "StructuralError", told)
    }

    /// The condition `Terminating` of a stage of the deletion.
    pub fn terminating(stage: Termination) -> Condition {
        let (status, reason, message) = stage.told();
        Condition::new(ConditionType::Terminating, status, reason, message)
    }
}

const INITIAL_NAMES: &str = "the initial names have been accepted";

/// A stage of the deletion of a definition, or the reason why it does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// The definition is marked; nothing is deleted yet.
    Pending,
    /// Objects are being deleted.
    InProgress,
    /// No object is left.
    Completed,
    /// Objects could not be listed, for this reason.
    ListFailed(String),
    /// Objects could not be deleted, for this reason.
    DeleteFailed(String),
    /// Objects remain, for this reason.
    Remaining(String),
    /// Objects of the kind were never served, so that there are none.
    NeverEstablished,
    /// The objects of this name are those of a built-in kind.
    OverlapsBuiltIn,
}

impl Termination {
    fn told(self) -> (ConditionStatus, &'static str, String) {
        use ConditionStatus::{False, True};
        let (status, reason, message) = match self {
            Termination::Pending => (
                True,
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            ),
            Termination::InProgress => {
                (True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
            }
            Termination::Completed => (False, "InstanceDeletionCompleted", "removed all instances"),
            Termination::NeverEstablished => (False, "NeverEstablished", "resource was never established"),
            Termination::OverlapsBuiltIn => {
                (False, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
            }
            Termination::ListFailed(why) => {
                return (True, "InstanceDeletionFailed", format!("could not list instances: {why}"));
            }
            Termination::DeleteFailed(why) => {
                return (True, "InstanceDeletionFailed", format!("could not issue all deletes: {why}"));
            }
            Termination::Remaining(why) => {
                let message = format!("could not confirm zero CustomResources remaining: {why}");
                return (True, "InstanceDeletionCheck", message);
            }
        };
        (status, reason, message.to_owned())
    }
}

/// Sets `condition` in the status of `definition` at `now` (RFC 3339). Returns whether the definition was changed.
///
/// A condition of a new type goes to the end. The time of the last transition stays where the status stays.
pub fn set_condition(definition: &mut Value, brand: &Brand, condition: &Condition, now: &str) -> bool {
    let found = condition.kind.find(definition);
    let status = condition.status.text();
    let stays = found.filter(|found| found.text("status") == status);
    let since = stays.map_or("", |found| found.text("lastTransitionTime"));
    let since = if since.is_empty() { now } else { since };
    let message = fitting(&condition.message, MESSAGE_BYTES_MAX);
    let new = json!({
        "type": condition.kind.name(brand), "status": status, "lastTransitionTime": since,
        "reason": condition.reason, "message": message,
    });
    let is_told = |found: &Value| {
        ["status", "lastTransitionTime", "reason", "message"]
            .iter()
            .all(|name| found.at(name) == new.at(name))
    };
    if found.is_some_and(is_told) {
        return false;
    }
    let status = child_mut(definition, "status");
    let mut conditions = status.items("conditions").to_vec();
    // few: five types of conditions, and what clients wrote besides.
    match conditions.iter_mut().find(|found| condition.kind.is(found)) {
        Some(found) => *found = new,
        None => conditions.push(new),
    }
    set(status, "conditions", conditions);
    true
}

/// Removes the condition of this type. Returns whether the definition was changed.
pub fn remove_condition(definition: &mut Value, kind: ConditionType) -> bool {
    if kind.find(definition).is_none() {
        return false;
    }
    let status = child_mut(definition, "status");
    let mut conditions = status.items("conditions").to_vec();
    // few: five types of conditions, and what clients wrote besides.
    conditions.retain(|condition| !kind.is(condition));
    set(status, "conditions", conditions);
    true
}

/// Whether requests for objects of `definition` are served.
pub fn is_served(definition: &Value) -> bool {
    ConditionType::NamesAccepted.is_true(definition) || ConditionType::Established.is_true(definition)
}

/// Whether `definition` is being deleted, so that no object of it may be created.
pub fn is_terminating(definition: &Value) -> bool {
    definition.at("metadata").has("deletionTimestamp") || ConditionType::Terminating.is_true(definition)
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;

    const THEN: &str = "2026-01-02T03:04:05Z";
    const LATER: &str = "2026-01-02T03:05:05Z";

    #[test]
    fn the_time_of_a_condition_is_that_of_its_status() {
        let mut definition = json!({});
        assert!(set_condition(&mut definition, &ORCH, &Condition::names_accepted(), THEN));
        assert!(set_condition(&mut definition, &ORCH, &Condition::installing(), THEN));
        assert!(!set_condition(&mut definition, &ORCH, &Condition::installing(), LATER), "nothing is new");
        assert!(is_served(&definition) && !ConditionType::Established.is_true(&definition));
        assert!(set_condition(&mut definition, &ORCH, &Condition::not_accepted(), LATER));
        let conditions = definition.at("status").items("conditions").to_vec();
        let told: Vec<(&str, &str)> =
            conditions.iter().map(|of| (of.text("reason"), of.text("lastTransitionTime"))).collect();
        assert_eq!(told, [("NoConflicts", THEN), ("NotAccepted", THEN)]);
        assert!(set_condition(&mut definition, &ORCH, &Condition::established(), LATER));
        let established = ConditionType::Established.find(&definition).unwrap();
        assert_eq!(established.text("lastTransitionTime"), LATER);
        assert!(remove_condition(&mut definition, ConditionType::Established));
        assert!(!remove_condition(&mut definition, ConditionType::Established));
    }

    #[test]
    fn the_condition_of_approval_has_the_products_name() {
        let approval = ConditionType::ApprovalPolicyConformant;
        assert_eq!(approval.name(&ORCH), "OrchAPIApprovalPolicyConformant");
        assert_eq!(approval.name(&KUBERNETES), "KubernetesAPIApprovalPolicyConformant");
    }

    #[test]
    fn a_definition_terminates_in_stages() {
        let mut definition = json!({"status": {"conditions": "hostile"}});
        for (stage, reason) in [
            (Termination::Pending, "InstanceDeletionPending"),
            (Termination::InProgress, "InstanceDeletionInProgress"),
            (Termination::ListFailed("x".to_owned()), "InstanceDeletionFailed"),
            (Termination::Remaining("y".to_owned()), "InstanceDeletionCheck"),
        ] {
            assert!(set_condition(&mut definition, &ORCH, &Condition::terminating(stage), THEN));
            let terminating = ConditionType::Terminating.find(&definition).unwrap();
            assert_eq!(terminating.text("reason"), reason);
            assert!(is_terminating(&definition));
        }
        set_condition(&mut definition, &ORCH, &Condition::terminating(Termination::Completed), LATER);
        assert!(!is_terminating(&definition));
    }
}
