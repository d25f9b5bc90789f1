//! Counters and times of match conditions, under the reference's names.
//!
//! Owns their labels. Bounds of the names are the callers': administrators choose them. As in the reference nothing is recorded of
//! conditions that all hold.

use metrics::{counter, histogram};

use crate::admission::Operation;

/// The labels of the series of one policy or webhook.
pub(in crate::admission) type ConditionLabels = [(&'static str, String); 4];

/// The labels for `kind`, `policy` or `webhook`, with this name, whose step is `step`.
pub(in crate::admission) fn condition_labels(
    kind: &str,
    name: String,
    step: &str,
    of: Operation,
) -> ConditionLabels {
    [
        ("kind", kind.to_owned()),
        ("name", name),
        ("operation", operation_name(of).to_owned()),
        ("type", step.to_owned()),
    ]
}

/// Observes an evaluation of conditions that do not all hold, `errors` of which have no value.
pub(in crate::admission) fn observe_unmet(labels: &ConditionLabels, errors: u64, seconds: f64) {
    histogram!("apiserver_admission_match_condition_evaluation_seconds", labels).record(seconds);
    if errors > 0 {
        counter!("apiserver_admission_match_condition_evaluation_errors_total", labels).increment(errors);
    }
}

/// Counts a write that conditions keep from a webhook.
pub(in crate::admission) fn count_excluded(labels: &ConditionLabels) {
    counter!("apiserver_admission_match_condition_exclusions_total", labels).increment(1);
}

/// The operation in labels.
pub(in crate::admission) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}
