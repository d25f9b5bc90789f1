//! Rules of the affinity that arguments of `NodeAffinity` add to every pod.

use super::arguments::{NodeAffinity, NodeSelectorTerm, Requirement};
use super::faults::Faults;
use super::qualified_name;

const OPERATORS: [&str; 6] = ["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"];

/// Notes what is wrong with `affinity`.
pub(super) fn node_affinity_faults(path: &str, affinity: &NodeAffinity, faults: &mut Faults) {
    if let Some(required) = &affinity.required {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        for (at, term) in required.node_selector_terms.iter().enumerate() {
            check_term(&format!("{path}[{at}]"), term, faults);
        }
    }
    for (at, preferred) in affinity.preferred.iter().enumerate() {
        // Terms without weight match nothing, and are not looked at.
        if preferred.weight != 0 {
            let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{at}]");
            check_term(&path, &preferred.preference, faults);
        }
    }
}

fn check_term(path: &str, term: &NodeSelectorTerm, faults: &mut Faults) {
    for (at, requirement) in term.match_expressions.iter().enumerate() {
        check_label(&format!("{path}.matchExpressions[{at}]"), requirement, faults);
    }
    for (at, requirement) in term.match_fields.iter().enumerate() {
        check_field(&format!("{path}.matchFields[{at}]"), requirement, faults);
    }
}

fn check_label(path: &str, requirement: &Requirement, faults: &mut Faults) {
    let Requirement { key, operator, values } = requirement;
    for fault in qualified_name::faults(key) {
        faults.invalid(&format!("{path}.key"), key.as_str(), fault);
    }
    let values_path = format!("{path}.values");
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            faults.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.forbidden(
                &values_path,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "Gt" | "Lt" if values.len() != 1 => {
            faults.required(&values_path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "Gt" | "Lt" if values[0].parse::<i64>().is_err() => {
            faults.invalid(
                &format!("{values_path}[0]"),
                values[0].as_str(),
                "for 'Gt', 'Lt' operators, the value must be an integer",
            );
        }
        known if OPERATORS.contains(&known) => {}
        other => faults.unsupported(&format!("{path}.operator"), other, &OPERATORS),
    }
}

fn check_field(path: &str, requirement: &Requirement, faults: &mut Faults) {
    let Requirement { key, operator, values } = requirement;
    if !matches!(operator.as_str(), "In" | "NotIn") {
        faults.unsupported(&format!("{path}.operator"), operator, &["In", "NotIn"]);
    } else if values.len() != 1 {
        faults.required(&format!("{path}.values"), "must have one element");
    }
    if key != "metadata.name" {
        faults.unsupported(&format!("{path}.key"), key, &["metadata.name"]);
    }
}
