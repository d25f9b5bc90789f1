//! Which requests a policy or binding is about: selectors, and rules over operations and resources.
//!
//! Owns the defaults and the rules of `MatchResources`. Matching itself is `admission::policy::matching`'s.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::names::path_segment;
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, existing_mut, items_mut, set_default, set_default_text, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Operations that rules may name.
pub(super) const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Those that have an object to change.
pub(super) const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Fills in the defaults of the `MatchResources` in `field`, if it is there.
pub(super) fn default_match(spec: &mut Value, field: &str) {
    let Some(resources) = existing_mut(spec, field) else { return };
    set_default_text(resources, "matchPolicy", "Equivalent");
    set_default(resources, "namespaceSelector", json!({}));
    set_default(resources, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(resources, rules) {
            if rule.is_object() {
                set_default_text(rule, "scope", "*");
            }
        }
    }
}

/// Rules for the `MatchResources` at `path`, whose rules may name `operations`.
pub(super) fn validate_match(resources: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let policy = resources.text("matchPolicy");
    // few: two values.
    if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(path.child("matchPolicy"), policy, &POLICIES));
    }
    for (field, named) in [("namespaceSelector", "namespaceSelector"), ("objectSelector", "labelSelector")] {
        match resources.at(field) {
            Value::Null => errors.push(FieldError::required(path.child(field), "")),
            selector => errors.extend(validate_label_selector(selector, &path.child(named))),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in resources.items(field).iter().numbered() {
            errors.extend(validate_named_rule(rule, &path.child(field).index(at)));
        }
    }
    if operations.len() < OPERATIONS.len() {
        errors.extend(refuse_operations(resources, operations, path));
    }
    errors
}

/// Refuses operations that rules may name elsewhere. The reference reports them without the place of the rule.
fn refuse_operations(resources: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let path = path.child("resourceRules").child("operations");
    let rules = resources.items("resourceRules").iter();
    let named = rules.flat_map(|rule| rule.texts("operations"));
    // few: the operations that there are.
    let refused = named.filter(|name| OPERATIONS.contains(name) && !operations.contains(name));
    refused.map(|name| FieldError::not_supported(path.clone(), name, operations)).collect()
}

fn validate_named_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut names = Distinct::new();
    for (at, name) in rule.texts("resourceNames").into_iter().numbered() {
        let path = path.child("resourceNames").index(at);
        errors.extend(invalid_each(&path, name, path_segment(name)));
        if names.is_repeated(name) {
            errors.push(FieldError::duplicate(path, &quoted(name)));
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
    errors.extend(validate_list(rule, "operations", "operations", path));
    for (at, operation) in rule.texts("operations").into_iter().numbered() {
        // few: the operations that there are.
        if !OPERATIONS.contains(&operation) {
            let path = path.child("operations").index(at);
            errors.push(FieldError::not_supported(path, operation, &OPERATIONS));
        }
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
