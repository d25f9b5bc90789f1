//! Counters of checks: what policies said, and how long their evaluation took.
//!
//! Owns the series of both kinds of policies, under the reference's names; those of their match conditions are shared with webhooks. As
//! there, a validation that holds is not counted. The time is that
//! of a whole evaluation, of which each validation is a part.

use std::time::Duration;

use metrics::{counter, histogram};
use orch_rules::expression::policy::OUT_OF_BUDGET;

use super::prepared::Action;
use crate::admission::Operation;
use crate::admission::matching::{condition_labels, observe_unmet};

/// How the messages of expressions that do not compile begin.
const COMPILATION: &str = "compilation";

/// The enforcement of a validation, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// It has no value, and the policy is left out then.
    Allowed,
    /// The binding's action was carried out.
    Carried(Action),
}

impl Enforcement {
    fn name(self) -> &'static str {
        match self {
            Enforcement::Allowed => "allow",
            Enforcement::Carried(Action::Deny) => "deny",
            Enforcement::Carried(Action::Warn) => "warn",
            Enforcement::Carried(Action::Audit) => "audit",
        }
    }
}

/// The class of an error with this text. As in the reference, the text alone decides, whether an expression failed or was false.
fn error_type(message: &str) -> &'static str {
    if message.starts_with(COMPILATION) {
        "compile_error"
    } else if message.starts_with(OUT_OF_BUDGET) {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

/// Counts a validation of the policy and binding of these names, which did not hold or has no value, with its message.
pub(super) fn count_validation(
    (policy, binding): (String, String),
    enforcement: Enforcement,
    message: &str,
    taken: Duration,
) {
    let labels = [
        ("enforcement_action", enforcement.name().to_owned()),
        ("error_type", error_type(message).to_owned()),
        ("policy", policy),
        ("policy_binding", binding),
    ];
    counter!("apiserver_validating_admission_policy_check_total", &labels).increment(1);
    histogram!("apiserver_validating_admission_policy_check_duration_seconds", &labels).record(taken);
}

/// Counts a mutation of the policy and binding of these names.
pub(super) fn count_mutation((policy, binding): (String, String), error: Option<&str>, taken: Duration) {
    let error_type = error.map_or("no_error", error_type).to_owned();
    let labels = [("error_type", error_type), ("policy", policy), ("policy_binding", binding)];
    counter!("apiserver_mutating_admission_policy_check_total", &labels).increment(1);
    histogram!("apiserver_mutating_admission_policy_check_duration_seconds", &labels).record(taken);
}

/// Observes match conditions of the policy of this name that do not all hold, `errors` of which have no value.
pub(super) fn observe_unmet_conditions(policy: String, of: Operation, errors: u64, taken: Duration) {
    // The reference names the same step for mutating policies.
    observe_unmet(&condition_labels("policy", policy, "validate", of), errors, taken.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_an_error_is_told_by_its_message() {
        for (message, class) in [
            ("failed expression: false", "invalid_error"),
            ("compilation error: no such field", "compile_error"),
            ("compilation of the name is wrong", "compile_error"),
            (OUT_OF_BUDGET, "out_of_budget"),
            ("expression 'a' resulted in error: no such key: a", "invalid_error"),
        ] {
            assert_eq!(error_type(message), class, "{message}");
        }
    }
}
