//! The conditions of a terminating namespace.
//!
//! Owns their types, reasons and messages, and the rule for a transition. It reads no state: findings are passed in.

use std::collections::BTreeMap;

use orch_rules::validate::tree::{Tree, set};
use orch_schema::json;
use orch_schema::value::Value;

/// Each condition with its reason and message while there is nothing to report, in the order of the status.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Obstacles to the end of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Storage resources with content that are not served.
    pub unserved: Vec<String>,
    /// Messages of deletions that failed.
    pub failures: Vec<String>,
    /// Objects left, by `resource.group`.
    pub remaining: BTreeMap<String, usize>,
    /// Objects left that a finalizer holds, by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// Whether there is no obstacle.
    pub(super) fn is_clear(&self) -> bool {
        self.unserved.is_empty() && self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Reason and message of a condition that is true; `None` where it is false.
    fn report(&self, condition: &str) -> Option<(&'static str, String)> {
        let counted = |counts: &BTreeMap<String, usize>, verb: &str| {
            let texts: Vec<String> = counts
                .iter()
                .map(|(what, count)| format!("{what} {verb} {count} resource instances"))
                .collect();
            texts.join(", ")
        };
        match condition {
            "NamespaceDeletionDiscoveryFailure" if !self.unserved.is_empty() => {
                let (count, names) = (self.unserved.len(), self.unserved.join(", "));
                Some((
                    "DiscoveryFailed",
                    format!("Discovery failed for some groups, {count} failing: {names}"),
                ))
            }
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut texts = self.failures.clone();
                texts.sort();
                let (count, texts) = (texts.len(), texts.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {texts}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let message = format!("Some resources are remaining: {}", counted(&self.remaining, "has"));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let told = counted(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {told}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// The namespace's conditions, updated by the findings. `None`: they are up to date.
    pub(super) fn conditions(&self, status: &Value, now: &str) -> Option<Vec<Value>> {
        let mut conditions = status.items("conditions").to_vec();
        let mut changed = false;
        for (kind, ok_reason, ok_message) in CONDITIONS {
            let (value, reason, message) = match self.report(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", ok_reason, ok_message.to_owned()),
            };
            // once: for each of five kinds of condition.
            let Some(old) = conditions.iter_mut().find(|condition| condition.text("type") == kind) else {
                conditions.push(json!({
                    "type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message,
                }));
                changed = true;
                continue;
            };
            let turned = old.text("status") != value;
            if turned {
                set(old, "lastTransitionTime", now);
            }
            if turned || old.text("reason") != reason || old.text("message") != message {
                set(old, "status", value);
                set(old, "reason", reason);
                set(old, "message", message);
                changed = true;
            }
        }
        changed.then_some(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "2026-01-02T03:04:05Z";
    const NOW: &str = "2026-01-02T03:04:06Z";

    fn check(findings: &Findings, kind: &str, expected: [&str; 3]) {
        let conditions = findings.conditions(&json!({}), NOW).unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        assert_eq!([found.text("status"), found.text("reason"), found.text("message")], expected, "{kind}");
        assert_eq!(conditions.len(), CONDITIONS.len());
    }

    fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn each_finding_has_its_condition() {
        let findings = Findings {
            unserved: vec!["widgets.example".to_owned()],
            failures: vec!["b".to_owned(), "a".to_owned()],
            remaining: counts(&[("roles.rbac.authorization.orch.io", 1), ("configmaps.", 2)]),
            finalizers: counts(&[("example.com/hold", 2)]),
        };
        let report = |kind, reason, message| check(&findings, kind, ["True", reason, message]);
        report(
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            "Discovery failed for some groups, 1 failing: widgets.example",
        );
        report(
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            "Failed to delete all resource types, 2 remaining: a, b",
        );
        report(
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances, roles.rbac.authorization.orch.io has 1 resource instances",
        );
        report(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances",
        );
        assert!(!findings.is_clear());
    }

    #[test]
    fn nothing_found_is_said_too() {
        for (kind, reason, message) in CONDITIONS {
            check(&Findings::default(), kind, ["False", reason, message]);
        }
        assert!(Findings::default().is_clear());
    }

    #[test]
    fn conditions_change_only_with_what_they_say() {
        let one = Findings { remaining: counts(&[("configmaps.", 1)]), ..Findings::default() };
        let conditions = one.conditions(&json!({}), THEN).unwrap();
        let status = json!({"conditions": conditions});
        assert_eq!(one.conditions(&status, NOW), None);
        let two = Findings { remaining: counts(&[("configmaps.", 2)]), ..Findings::default() };
        let told = two.conditions(&status, NOW).unwrap();
        assert_eq!(told[3]["lastTransitionTime"], THEN, "another message is no transition");
        let done = Findings::default().conditions(&status, NOW).unwrap();
        assert_eq!((&done[3]["status"], &done[3]["lastTransitionTime"]), (&json!("False"), &json!(NOW)));
        assert_eq!(done[0]["lastTransitionTime"], THEN);
    }

    #[test]
    fn conditions_of_others_stay() {
        let status = json!({"conditions": [{"type": "Own", "status": "True"}]});
        let conditions = Findings::default().conditions(&status, NOW).unwrap();
        assert_eq!(conditions[0], json!({"type": "Own", "status": "True"}));
        assert_eq!(conditions.len(), CONDITIONS.len() + 1);
    }
}
