//! Validates which requests a policy or binding matches: selectors, and rules over operations and resources.
//!
//! Owns the defaults and the rules of `MatchResources`. Matching itself is `admission::policy::matching`'s.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::admission_rule::{
    OPERATIONS, default_rules, default_selection, validate_match_policy, validate_rule,
};
use crate::validate::metadata::invalid_each;
use crate::validate::names::path_segment;
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, existing_mut};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Those that have an object to change.
pub(super) const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Fills in the defaults of the `MatchResources` in `field`, if it is there.
pub(super) fn default_match(spec: &mut Value, field: &str) {
    let Some(resources) = existing_mut(spec, field) else { return };
    default_selection(resources);
    for rules in ["resourceRules", "excludeResourceRules"] {
        default_rules(resources, rules);
    }
}

/// Rules for the `MatchResources` at `path`, whose rules may name `operations`.
pub(super) fn validate_match(resources: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_match_policy(resources.text("matchPolicy"), path));
    for field in ["namespaceSelector", "objectSelector"] {
        match resources.at(field) {
            Value::Null => errors.push(FieldError::required(path.child(field), "")),
            selector => errors.extend(validate_label_selector(selector, &path.child(field))),
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

/// Refuses other operations. The reference reports them without the place of the rule, also those that no rule may name anywhere.
fn refuse_operations(resources: &Value, operations: &[&str], path: &Path) -> FieldErrors {
    let path = path.child("resourceRules").child("operations");
    let rules = resources.items("resourceRules").iter();
    let named = rules.flat_map(|rule| rule.texts("operations"));
    // few: the operations that there are.
    let refused = named.filter(|name| !operations.contains(name));
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
    errors.extend(validate_rule(rule, path));
    errors
}
