//! Policies of a job: which failures of pods count, and when the job has succeeded.

use std::collections::HashSet;

use orch_schema::budget::{Numbered, count_step};
use orch_schema::value::Value;

use crate::validate::metadata::{invalid_each, nonnegative};
use crate::validate::tree::{Tree, existing_mut, items_mut, set_default_text, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// Most rules of a policy, and most patterns of conditions in one rule.
const RULES_MAX: usize = 20;
/// Most exit codes of a rule.
const CODES_MAX: usize = 255;
/// Longest list of indexes, in bytes.
const INDEXES_BYTES_MAX: usize = 64 << 10;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Sets the defaults of `podFailurePolicy`: a pattern of a condition without a status is met by a true one.
pub(super) fn default_failure_policy(spec: &mut Value) {
    let Some(policy) = existing_mut(spec, "podFailurePolicy") else { return };
    for rule in items_mut(policy, "rules") {
        for pattern in items_mut(rule, "onPodConditions").iter_mut().filter(|pattern| pattern.is_object()) {
            set_default_text(pattern, "status", "True");
        }
    }
}

/// Rules for `podFailurePolicy`.
pub(super) fn validate_failure_policy(spec: &Value, path: &Path) -> FieldErrors {
    let (rules, path) = (spec.at("podFailurePolicy").items("rules"), path.child("rules"));
    let mut errors = FieldErrors::new();
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(path.clone(), rules.len(), RULES_MAX));
    }
    let pod = spec.at("template").at("spec");
    let containers = pod.items("containers").iter().chain(pod.items("initContainers"));
    let containers: HashSet<&str> = containers.map(|container| container.text("name")).collect();
    for (at, rule) in rules.iter().numbered() {
        errors.extend(validate_failure_rule(spec, rule, &containers, &path.index(at)));
    }
    errors
}

/// A missing value of an enumeration.
fn missing(path: Path, known: &[&str]) -> FieldError {
    let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
    FieldError::required(path, &format!("valid values: [{}]", known.join(" ")))
}

fn validate_failure_rule(spec: &Value, rule: &Value, containers: &HashSet<&str>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let action_path = path.child("action");
    match rule.text("action") {
        "" => errors.push(missing(action_path, &ACTIONS)),
        "FailIndex" if !spec.has("backoffLimitPerIndex") => {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid_str(action_path, "FailIndex", detail));
        }
        // few: four actions.
        action if !ACTIONS.contains(&action) => {
            errors.push(FieldError::not_supported(action_path, action, &ACTIONS));
        }
        _ => {}
    }
    let conditions = rule.items("onPodConditions");
    if rule.has("onExitCodes") {
        errors.extend(validate_exit_codes(rule.at("onExitCodes"), containers, &path.child("onExitCodes")));
    }
    errors.extend(validate_conditions(conditions, &path.child("onPodConditions")));
    match (rule.has("onExitCodes"), conditions.is_empty()) {
        (true, false) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(FieldError::invalid_unshown(path.clone(), detail));
        }
        (false, true) => {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(FieldError::invalid_unshown(path.clone(), detail));
        }
        _ => {}
    }
    errors
}

fn validate_conditions(patterns: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if patterns.len() > RULES_MAX {
        errors.push(FieldError::too_many(path.clone(), patterns.len(), RULES_MAX));
    }
    for (at, pattern) in patterns.iter().numbered() {
        let (path, kind) = (path.index(at), pattern.text("type"));
        errors.extend(invalid_each(&path.child("type"), kind, names::qualified_name(kind)));
        match pattern.text("status") {
            "" => errors.push(missing(path.child("status"), &STATUSES)),
            // few: three statuses.
            status if !STATUSES.contains(&status) => {
                errors.push(FieldError::not_supported(path.child("status"), status, &STATUSES));
            }
            _ => {}
        }
    }
    errors
}

fn validate_exit_codes(codes: &Value, containers: &HashSet<&str>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let operator = codes.text("operator");
    match operator {
        "" => errors.push(missing(path.child("operator"), &OPERATORS)),
        // few: two operators.
        other if !OPERATORS.contains(&other) => {
            errors.push(FieldError::not_supported(path.child("operator"), other, &OPERATORS));
        }
        _ => {}
    }
    if let Some(name) = codes.at("containerName").as_str().filter(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid_str(path.child("containerName"), name, detail));
    }
    let (values, path) = (codes.items("values"), path.child("values"));
    if values.is_empty() {
        errors.push(FieldError::invalid(
            path.clone(),
            &shown(codes.at("values")),
            "at least one value is required",
        ));
    } else if values.len() > CODES_MAX {
        errors.push(FieldError::too_many(path.clone(), values.len(), CODES_MAX));
    }
    let numbers = || values.iter().filter_map(Value::as_i64);
    let mut seen = Distinct::new();
    for (at, value) in numbers().numbered() {
        let (path, shown) = (path.index(at), value.to_string());
        if operator == "In" && value == 0 {
            let detail = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(path.clone(), &shown, detail));
        }
        if seen.is_repeated(value) {
            errors.push(FieldError::duplicate(path, &shown));
        }
    }
    if !numbers().is_sorted() {
        errors.push(FieldError::invalid(path, &shown(codes.at("values")), "must be ordered"));
    }
    errors
}

/// Rules for `successPolicy` of a job with indexes.
pub(super) fn validate_success_policy(spec: &Value, path: &Path) -> FieldErrors {
    let (rules, path) = (spec.at("successPolicy").items("rules"), path.child("rules"));
    let mut errors = FieldErrors::new();
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(path.clone(), detail));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(path.clone(), rules.len(), RULES_MAX));
    }
    let completions = spec.int("completions").unwrap_or(0);
    for (at, rule) in rules.iter().numbered() {
        errors.extend(validate_success_rule(rule, completions, &path.index(at)));
    }
    errors
}

fn validate_success_rule(rule: &Value, completions: i64, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let indexes = rule.at("succeededIndexes").as_str();
    if indexes.is_none() && !rule.has("succeededCount") {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path.clone(), detail));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(path.clone(), INDEXES_BYTES_MAX));
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(reason) => {
                let detail = format!("error parsing succeededIndexes: {reason}");
                errors.push(FieldError::invalid_str(path, indexes, &detail));
            }
        }
    }
    if let Some(count) = rule.int("succeededCount") {
        let (path, shown) = (path.child("succeededCount"), count.to_string());
        errors.extend(nonnegative(Some(count), path.clone()));
        if count > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(FieldError::invalid(path.clone(), &shown, &detail));
        }
        if indexes.is_some() && count > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.push(FieldError::invalid(path, &shown, &detail));
        }
    }
    errors
}

/// The number of indexes in a list such as `1,3-5`, whose indexes increase and are below `completions`.
fn count_indexes(indexes: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    let mut read = |text: &str| {
        let index: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: \"{text}\""))?;
        if index >= completions {
            return Err(format!("too large index: \"{text}\""));
        }
        match last {
            Some(last) if last >= index => {
                Err(format!("non-increasing order, previous: {last}, current: {index}"))
            }
            _ => {
                last = Some(index);
                Ok(index)
            }
        }
    };
    if indexes.is_empty() {
        return Ok(0);
    }
    for interval in indexes.split(',').take_while(|_| count_step()) {
        total += match interval.split('-').collect::<Vec<_>>()[..] {
            [only] => {
                read(only)?;
                1
            }
            [first, end] => {
                let first = read(first)?;
                read(end)? - first + 1
            }
            _ => {
                return Err(format!(
                    "the fragment \"{interval}\" violates the requirement that an index interval can have at most two \
                     parts separated by '-'"
                ));
            }
        };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn failures_are_told_by_exit_code_or_condition() {
        let spec = json!({
            "template": {"spec": {"containers": [{"name": "c"}]}},
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [0, 5, 3, 5], "containerName": "x"}},
                {"onExitCodes": {}, "onPodConditions": [{"type": "T"}]},
                {"action": "Odd"},
            ]},
        });
        assert_eq!(
            texts(validate_failure_policy(&spec, &Path::new("p"))),
            [
                "p.rules[1].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "p.rules[1].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or \
                 initContainer names in the pod template",
                "p.rules[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                "p.rules[1].onExitCodes.values[3]: Duplicate value: 5",
                "p.rules[1].onExitCodes.values: Invalid value: [0,5,3,5]: must be ordered",
                "p.rules[2].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                "p.rules[2].onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]",
                "p.rules[2].onExitCodes.values: Invalid value: null: at least one value is required",
                "p.rules[2].onPodConditions[0].status: Required value: valid values: [\"False\" \"True\" \"Unknown\"]",
                "p.rules[2]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
                "p.rules[3].action: Unsupported value: \"Odd\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \
                 \"Ignore\"",
                "p.rules[3]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ]
        );
    }

    #[test]
    fn indexes_increase_below_the_completions() {
        for (indexes, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0,2-4", Ok(4)),
            ("2,1", Err("non-increasing order, previous: 2, current: 1")),
            ("2-2", Err("non-increasing order, previous: 2, current: 2")),
            ("9", Err("too large index: \"9\"")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two \
                           parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(count_indexes(indexes, 5), expected.map_err(str::to_owned), "{indexes}");
        }
        let spec = json!({"completions": 5, "successPolicy": {"rules": [
            {}, {"succeededIndexes": "0-1", "succeededCount": 3}, {"succeededCount": 6}
        ]}});
        assert_eq!(
            texts(validate_success_policy(&spec, &Path::new("p"))),
            [
                "p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "p.rules[1].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in \
                 the specified succeededIndexes field)",
                "p.rules[2].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified \
                 completions)",
            ]
        );
    }
}
