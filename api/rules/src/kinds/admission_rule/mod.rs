//! admissionregistration/v1: what policies of admission and webhooks have in common.
//!
//! Owns the rules over operations and resources with their defaults (this file), the match conditions (`conditions`), and the
//! allowance within which the expressions of one object compile (`expressions`). Matching itself is `admission`'s in the API.

mod conditions;
mod expressions;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

pub(super) use self::conditions::validate_conditions;
pub(super) use self::expressions::Compiling;
use crate::validate::tree::{Tree, items_mut, set_default, set_default_text, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Operations that rules may name.
pub(super) const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Fills in the match policy and the selectors of a webhook or of the constraints of a policy.
pub(super) fn default_selection(of: &mut Value) {
    set_default_text(of, "matchPolicy", "Equivalent");
    set_default(of, "namespaceSelector", json!({}));
    set_default(of, "objectSelector", json!({}));
}

/// Fills in the defaults of the rules in `field`.
pub(super) fn default_rules(of: &mut Value, field: &str) {
    for rule in items_mut(of, field) {
        if rule.is_object() {
            set_default_text(rule, "scope", "*");
        }
    }
}

/// Rules for the failure policy of the object at `path`, which defaults have set.
pub(super) fn validate_failure_policy(policy: &str, path: &Path) -> Option<FieldError> {
    // few: two values.
    let is_known = FAILURE_POLICIES.contains(&policy);
    (!is_known).then(|| FieldError::not_supported(path.child("failurePolicy"), policy, &FAILURE_POLICIES))
}

/// Rules for the match policy of the object at `path`, which defaults have set.
pub(super) fn validate_match_policy(policy: &str, path: &Path) -> Option<FieldError> {
    // few: two values.
    let is_known = MATCH_POLICIES.contains(&policy);
    (!is_known).then(|| FieldError::not_supported(path.child("matchPolicy"), policy, &MATCH_POLICIES))
}

/// Rules for the operations, groups, versions, resources and scope of the rule at `path`.
pub(super) fn validate_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_list(rule, "operations", "operations", path));
    for (at, operation) in rule.texts("operations").into_iter().numbered() {
        // few: the operations that there are.
        if !OPERATIONS.contains(&operation) {
            let path = path.child("operations").index(at);
            errors.push(FieldError::not_supported(path, operation, &OPERATIONS));
        }
    }
    errors.extend(validate_list(rule, "apiGroups", "API groups", path));
    errors.extend(validate_list(rule, "apiVersions", "API versions", path));
    for (at, version) in rule.texts("apiVersions").into_iter().numbered() {
        if version.is_empty() {
            errors.push(FieldError::required(path.child("apiVersions").index(at), ""));
        }
    }
    errors.extend(validate_resources(rule, &path.child("resources")));
    let scope = rule.text("scope");
    // few: three values.
    if !scope.is_empty() && !SCOPES.contains(&scope) {
        errors.push(FieldError::not_supported(path.child("scope"), scope, &SCOPES));
    }
    errors
}

/// A list of a rule has items, and a star stands alone.
fn validate_list(rule: &Value, field: &str, items: &str, path: &Path) -> Option<FieldError> {
    let (values, path) = (rule.texts(field), path.child(field));
    if values.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    // once: the list.
    let is_mixed = values.len() > 1 && values.contains(&"*");
    let detail = format!("if '*' is present, must not specify other {items}");
    is_mixed.then(|| FieldError::invalid(path, &shown(rule.at(field)), &detail))
}

fn validate_resources(rule: &Value, path: &Path) -> FieldErrors {
    let resources = rule.texts("resources");
    let mut errors = FieldErrors::new();
    if resources.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    }
    // `x/*` and `*/x` of the rule so far.
    let (mut whole, mut everywhere) = (Distinct::new(), Distinct::new());
    let mut has_plain = false;
    for (at, resource) in resources.iter().copied().numbered() {
        if resource.is_empty() {
            errors.push(FieldError::required(path.index(at), ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            // As in the reference, the last one counts.
            has_plain = resource != "*";
            continue;
        };
        let mut refuse = |other: String| {
            let detail = format!("if '{other}' is present, must not specify {resource}");
            errors.push(FieldError::invalid_str(path.index(at), resource, &detail));
        };
        if whole.has(&name) {
            refuse(format!("{name}/*"));
        }
        if everywhere.has(&part) {
            refuse(format!("*/{part}"));
        }
        if part == "*" {
            whole.is_repeated(name);
        }
        if name == "*" {
            everywhere.is_repeated(part);
        }
    }
    let given = || shown(rule.at("resources"));
    // once: the list, here and below.
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path.clone(), &given(), detail));
    }
    // once: as above.
    if has_plain && resources.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path.clone(), &given(), detail));
    }
    errors
}
