//! Validates spread constraints, and labels of the pod itself in selectors.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::metadata::validate_label_name;
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Rules for `topologySpreadConstraints`.
pub(super) fn validate_spread(constraints: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let pair = |constraint: &'_ Value| {
        (constraint.text("topologyKey").to_owned(), constraint.text("whenUnsatisfiable").to_owned())
    };
    let mut left: HashMap<(String, String), usize> = HashMap::new();
    for constraint in constraints {
        *left.entry(pair(constraint)).or_default() += 1;
    }
    for (at, constraint) in constraints.iter().numbered() {
        let path = path.index(at);
        errors.extend(validate_spread_constraint(constraint, &path));
        let (key, when) = pair(constraint);
        let shown = super::quoted(&format!("{{{key}, {when}}}"));
        let later = left.entry((key, when)).or_default();
        *later = later.saturating_sub(1);
        // As in the reference the error is about the first of two alike.
        if *later > 0 {
            errors.push(FieldError::duplicate(path.child("{topologyKey, whenUnsatisfiable}"), &shown));
        }
    }
    errors
}

fn validate_spread_constraint(constraint: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let positive = "must be greater than zero";
    let skew = constraint.int("maxSkew").unwrap_or(0);
    if skew <= 0 {
        errors.push(FieldError::invalid(path.child("maxSkew"), &skew.to_string(), positive));
    }
    let key = constraint.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
    }
    let when = constraint.text("whenUnsatisfiable");
    let known = ["DoNotSchedule", "ScheduleAnyway"];
    if !known.contains(&when) {
        errors.push(FieldError::not_supported(path.child("whenUnsatisfiable"), when, &known));
    }
    if let Some(domains) = constraint.int("minDomains") {
        let path = path.child("minDomains");
        if domains <= 0 {
            errors.push(FieldError::invalid(path.clone(), &domains.to_string(), positive));
        }
        if when != known[0] {
            let detail = format!("can only use minDomains if whenUnsatisfiable={}, not {when}", known[0]);
            errors.push(FieldError::invalid(path, &domains.to_string(), &detail));
        }
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let policies = ["Honor", "Ignore"];
        if let Some(policy) = constraint.at(field).as_str().filter(|policy| !policies.contains(policy)) {
            errors.push(FieldError::not_supported(path.child(field), policy, &policies));
        }
    }
    errors.extend(validate_label_selector(constraint.at("labelSelector"), &path.child("labelSelector")));
    errors.extend(validate_label_keys(constraint, path));
    errors
}

/// Rules for keys whose values a selector takes from the labels of the pod. The selector has expressions for them by now,
/// so that a second use of such a key shows.
pub(super) fn validate_label_keys(holder: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let selector = holder.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, path) = (holder.texts(field), path.child(field));
        if !keys.is_empty() && selector.is_null() {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(path, detail));
            continue;
        }
        let keys = keys.into_iter().numbered();
        errors.extend(keys.flat_map(|(at, key)| validate_label_name(key, &path.index(at))));
    }
    let keys = holder.texts("matchLabelKeys");
    let places: HashMap<&str, usize> = keys.iter().numbered().map(|(at, key)| (*key, at)).collect();
    let mut seen: Distinct<&str> =
        selector.at("matchLabels").as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        if seen.is_repeated(key)
            && let Some(at) = places.get(key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid_str(path.index(*at), key, detail));
        }
    }
    let unlike: Distinct<&str> = holder.texts("mismatchLabelKeys").into_iter().collect();
    let both = keys.into_iter().numbered().filter(|(_, key)| unlike.has(key));
    errors.extend(both.map(|(at, key)| {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        FieldError::invalid_str(path.child("matchLabelKeys").index(at), key, detail)
    }));
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn constraints_are_distinct() {
        let constraint = json!({"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2});
        assert_eq!(
            texts(validate_spread(&[constraint.clone(), constraint], &Path::new("s"))),
            [
                "s[0].maxSkew: Invalid value: 0: must be greater than zero",
                "s[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                 ScheduleAnyway",
                "s[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, ScheduleAnyway}\"",
                "s[1].maxSkew: Invalid value: 0: must be greater than zero",
                "s[1].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                 ScheduleAnyway",
            ]
        );
    }

    #[test]
    fn label_keys_are_used_once() {
        let expression = |key: &str| json!({"key": key, "operator": "Exists"});
        for (term, expected) in [
            (json!({}), vec![]),
            (
                json!({"matchLabelKeys": ["a"]}),
                vec!["t.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
            ),
            (
                json!({"labelSelector": {"matchExpressions": [expression("a")]}, "matchLabelKeys": ["a"]}),
                vec![],
            ),
            (
                json!({
                    "labelSelector": {"matchLabels": {"b": "1"}, "matchExpressions": [expression("b"), expression("c")]},
                    "matchLabelKeys": ["a", "b"], "mismatchLabelKeys": ["a"]
                }),
                vec![
                    "t[1]: Invalid value: \"b\": exists in both matchLabelKeys and labelSelector",
                    "t.matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and mismatchLabelKeys",
                ],
            ),
        ] {
            assert_eq!(texts(validate_label_keys(&term, &Path::new("t"))), expected, "{term}");
        }
    }
}
