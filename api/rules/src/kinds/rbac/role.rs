//! Role and ClusterRole: rules over resources, and over non-resource paths for cluster roles.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::{Context, NameRule, Strategy, object_meta};
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of roles.
#[derive(Debug)]
pub struct Role;

/// The rules of cluster roles.
#[derive(Debug)]
pub struct ClusterRole;

impl Strategy for Role {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_rules(new, true));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, true, NameRule::PathSegment);
        errors.extend(validate_rules(new, true));
        errors.extend(object_meta::on_update(context, old, new));
        errors
    }
}

impl Strategy for ClusterRole {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_rules(new, false));
        errors.extend(validate_aggregation(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::PathSegment);
        errors.extend(validate_rules(new, false));
        errors.extend(validate_aggregation(new));
        errors.extend(object_meta::on_update(context, old, new));
        errors
    }
}

fn validate_rules(role: &Value, namespaced: bool) -> FieldErrors {
    let path = Path::new("rules");
    let rules = role.items("rules").iter().numbered();
    rules.flat_map(|(at, rule)| validate_rule(rule, namespaced, &path.index(at))).collect()
}

fn validate_rule(rule: &Value, namespaced: bool, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let given = |field: &str| !rule.items(field).is_empty();
    if !given("verbs") {
        errors.push(FieldError::required(path.child("verbs"), "verbs must contain at least one value"));
    }
    if given("nonResourceURLs") {
        let urls = shown(rule.at("nonResourceURLs"));
        let path = path.child("nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(path.clone(), &urls, detail));
        }
        if given("apiGroups") || given("resources") || given("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(path, &urls, detail));
        }
        return errors;
    }
    if !given("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(path.child("apiGroups"), detail));
    }
    if !given("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(path.child("resources"), detail));
    }
    errors
}

fn validate_aggregation(role: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let aggregation = role.at("aggregationRule");
    if aggregation.is_null() {
        return errors;
    }
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = aggregation.items("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path.clone(), detail));
    }
    for (at, selector) in selectors.iter().numbered() {
        let broken = validate_label_selector(selector, &path.index(at));
        let unusable = !broken.is_empty();
        errors.extend(broken);
        if unusable {
            let detail = "invalid label selector.";
            errors.push(FieldError::invalid(path.index(at), &shown(selector), detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, check_update};

    #[test]
    fn rules_name_verbs_groups_and_resources() {
        for (rule, expected) in [
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), &[][..]),
            (json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]}), &[]),
            (
                json!({}),
                &[
                    "rules[0].verbs: Required value: verbs must contain at least one value",
                    "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                    "rules[0].resources: Required value: resource rules must supply at least one resource",
                ],
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]}),
                &[
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource \
                     URLs",
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources \
                     and non-resource URLs",
                ],
            ),
        ] {
            check_create(&Role, json!({"rules": [rule]}), expected);
        }
        check_hostile(&Role);
    }

    #[test]
    fn an_update_is_checked_like_a_create() {
        let role =
            |verbs: Value| json!({"rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]});
        check_update(&Role, role(json!(["get"])), role(json!(["list"])), &[]);
        check_update(
            &Role,
            role(json!(["get"])),
            role(json!([])),
            &["rules[0].verbs: Required value: verbs must contain at least one value"],
        );
    }

    #[test]
    fn cluster_roles_may_speak_of_paths_and_aggregate() {
        let bare = |role: Value| {
            let errors = ClusterRole.validate_create(&crate::kinds::testing::CONTEXT, &role);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(bare(json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]})).is_empty());
        assert_eq!(
            bare(json!({"aggregationRule": {}})),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
              aggregationRule is non-nil"
            ]
        );
        assert_eq!(
            bare(json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"!": "x"}}]}})).len(),
            2
        );
        check_hostile(&ClusterRole);
    }
}
