//! Counters of checks: what policies said, and how long their evaluation took.
//!
//! Owns the series of both kinds of policies, under the reference's names. As there, a validation that holds is not counted. The time is that
//! of a whole evaluation, of which each validation is a part.

use std::time::Duration;

use metrics::{counter, histogram};
use orch_rules::expression::policy::{COMPILATION_ERROR, OUT_OF_BUDGET};

use super::prepared::Action;

/// What came of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// It has no value, and the policy is left out then.
    Allowed,
    /// What the binding names.
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

/// The class of the error with this text; `None`: there was none.
fn error_type(error: Option<&str>) -> &'static str {
    match error {
        None => "no_error",
        Some(error) if error.starts_with(COMPILATION_ERROR) => "compile_error",
        Some(OUT_OF_BUDGET) => "out_of_budget",
        Some(_) => "invalid_error",
    }
}

/// Counts a validation of the policy and binding of these names, which did not hold, or ended with an `error`.
pub(super) fn count_validation(
    (policy, binding): (String, String),
    enforcement: Enforcement,
    error: Option<&str>,
    taken: Duration,
) {
    let labels = [
        ("enforcement_action", enforcement.name().to_owned()),
        ("error_type", error_type(error).to_owned()),
        ("policy", policy),
        ("policy_binding", binding),
    ];
    counter!("apiserver_validating_admission_policy_check_total", &labels).increment(1);
    histogram!("apiserver_validating_admission_policy_check_duration_seconds", &labels).record(taken);
}

/// Counts a mutation of the policy and binding of these names.
pub(super) fn count_mutation((policy, binding): (String, String), error: Option<&str>, taken: Duration) {
    let labels =
        [("error_type", error_type(error).to_owned()), ("policy", policy), ("policy_binding", binding)];
    counter!("apiserver_mutating_admission_policy_check_total", &labels).increment(1);
    histogram!("apiserver_mutating_admission_policy_check_duration_seconds", &labels).record(taken);
}
