//! core/v1 ResourceQuota: names and amounts of limited resources, scopes, and the usage that the status reports.

use std::collections::BTreeSet;

use orch_proto::Brand;
use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::pod::resources::{is_huge_pages_quota, validate_quantity, validate_resource_name};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::tree::{Tree, set, shown, shown_items};
use crate::validate::{FieldError, FieldErrors, Path};

/// Resources without a domain that a quota may limit, besides huge pages.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Resources that quotas of the scopes of pods may limit, besides `pods`.
const COMPUTE: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
/// Resources that quotas of the scope of volume claims may limit.
const CLAIMED: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that an object is in or not, whatever the values.
const SCOPES_WITHOUT_VALUES: [&str; 5] =
    ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"];
/// Scopes that no object is in at the same time.
const CONFLICTING: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

const UNSUPPORTED: &str = "unsupported scope applied to resource";
const EXISTS_ONLY: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
    ResourceQuotaScopeCrossNamespacePodAffinity";
const ONE_VALUE: &str = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
const NO_VALUE: &str = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";

/// The rules of quotas.
#[derive(Debug)]
pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context.brand, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            let (status, path) = (new.at("status"), Path::new("status"));
            for field in ["hard", "used"] {
                errors.extend(validate_amounts(context.brand, status, field, &path));
            }
            return errors;
        }
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        errors.extend(validate_spec(context.brand, spec, &path));
        if scopes(old.at("spec")) != scopes(spec) {
            let shown = shown_items(spec.items("scopes"));
            errors.push(FieldError::invalid(path.child("scopes"), &shown, "field is immutable"));
        }
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (requests, limits) = usage_columns(object.at("status"));
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(requests),
            json!(limits),
            json!(age::age(object, now)),
        ])
    }
}

/// `NAME: USED/HARD` of each limited resource, those of limits apart.
fn usage_columns(status: &Value) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in status.entries("hard") {
        let used = status.at("used").at(name).as_str().unwrap_or("0");
        let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{name}: {used}/{}", hard.as_str().unwrap_or("0")));
    }
    (requests.join(", "), limits.join(", "))
}

fn scopes(spec: &Value) -> BTreeSet<&str> {
    spec.texts("scopes").into_iter().collect()
}

fn validate_spec(brand: &Brand, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_amounts(brand, spec, "hard", path);
    errors.extend(validate_scopes(spec, &path.child("scopes")));
    if spec.has("scopeSelector") {
        errors.extend(validate_selector(spec, &path.child("scopeSelector").child("matchExpressions")));
    }
    errors
}

/// Checks the names and amounts in the map `field` of `parent`.
fn validate_amounts(brand: &Brand, parent: &Value, field: &str, path: &Path) -> FieldErrors {
    let path = path.child(field);
    let mut errors = FieldErrors::new();
    for (name, amount) in parent.entries(field) {
        let path = path.key(name);
        errors.extend(validate_resource_name(name, &path));
        if !name.contains('/') && !is_standard(name) {
            errors.push(FieldError::invalid_str(path.clone(), name, "must be a standard resource for quota"));
        }
        errors.extend(validate_quantity(brand, name, amount, &path));
    }
    errors
}

fn is_standard(name: &str) -> bool {
    // few: the standard resources.
    STANDARD.contains(&name) || is_huge_pages_quota(name)
}

/// The limited resources that have a name for quotas alone, ordered.
fn standard_resources(spec: &Value) -> Vec<&str> {
    spec.entries("hard").into_iter().map(|(name, _)| name).filter(|name| is_standard(name)).collect()
}

/// Whether quotas of `scope` may limit `resource`.
fn suits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        // few: the resources of pods.
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || COMPUTE.contains(&resource),
        // few: the resources of volume claims.
        "VolumeAttributesClass" => CLAIMED.contains(&resource),
        _ => true,
    }
}

fn validate_scopes(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let shown = shown_items(spec.items("scopes"));
    let resources = standard_resources(spec);
    for scope in spec.texts("scopes") {
        // few: the scopes.
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(path.clone(), &shown, "unsupported scope"));
        }
        let unsuited = resources.iter().filter(|resource| !suits(scope, resource));
        errors.extend(unsuited.map(|_| FieldError::invalid(path.clone(), &shown, UNSUPPORTED)));
        if errors.is_full() || !count_step() {
            break;
        }
    }
    errors.extend(conflicts(&scopes(spec), spec, path));
    errors
}

fn conflicts(scopes: &BTreeSet<&str>, spec: &Value, path: &Path) -> FieldErrors {
    let conflicting = CONFLICTING.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope)));
    let shown = if spec.has("scopes") { shown_items(spec.items("scopes")) } else { "null".to_owned() };
    conflicting.map(|_| FieldError::invalid(path.clone(), &shown, "conflicting scopes")).collect()
}

fn validate_selector(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let resources = standard_resources(spec);
    let requirements = spec.at("scopeSelector").items("matchExpressions");
    let mut named = BTreeSet::new();
    let shown = shown_selector(requirements);
    for requirement in requirements {
        let scope = requirement.text("scopeName");
        named.insert(scope);
        // few: the scopes.
        if !SCOPES.contains(&scope) {
            let path = path.child("scopeName");
            errors.push(FieldError::invalid_str(path, scope, "unsupported scope"));
        }
        let unsuited = resources.iter().filter(|resource| !suits(scope, resource));
        errors.extend(unsuited.map(|_| FieldError::invalid(path.clone(), &shown, UNSUPPORTED)));
        errors.extend(validate_operator(requirement, path));
        if errors.is_full() || !count_step() {
            break;
        }
    }
    errors.extend(conflicts(&named, spec, path));
    errors
}

fn validate_operator(requirement: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (operator, values) = (requirement.text("operator"), requirement.items("values"));
    let operator_path = path.child("operator");
    // few: the scopes.
    if SCOPES_WITHOUT_VALUES.contains(&requirement.text("scopeName")) && operator != "Exists" {
        errors.push(FieldError::invalid_str(operator_path.clone(), operator, EXISTS_ONLY));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(path.child("values"), ONE_VALUE));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(FieldError::invalid(path.child("values"), &shown_items(values), NO_VALUE));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(FieldError::invalid_str(operator_path, operator, "not a valid selector operator")),
    }
    errors
}

/// The scope selector as the reference prints it: by the names of its program's fields.
fn shown_selector(requirements: &[Value]) -> String {
    let printed: Vec<Value> = requirements
        .iter()
        .map(|requirement| {
            json!({
                "ScopeName": requirement.text("scopeName"),
                "Operator": requirement.text("operator"),
                "Values": requirement.at("values").clone(),
            })
        })
        .collect();
    shown(&json!({"MatchExpressions": printed}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{
        CONTEXT, check_create, check_hostile, check_update, check_update_in, created,
    };

    fn check(spec: Value, expected: &[&str]) {
        check_create(&ResourceQuota, json!({"spec": spec}), expected);
    }

    #[test]
    fn limited_resources() {
        check(
            json!({"hard": {"pods": "1", "requests.example.com/gpu": "4", "hugepages-2Mi": "1Gi",
                "count/deployments.apps": "3", "gold.storageclass.storage.orch.io/requests.storage": "5Gi"}}),
            &[],
        );
        check(
            json!({"hard": {"pods": "1500m", "cpu": "-1", "storage": "1"}}),
            &[
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ],
        );
        check_hostile(&ResourceQuota);
    }

    #[test]
    fn scopes_suit_their_resources() {
        check(
            json!({"hard": {"pods": "1", "services": "1"}, "scopes": ["NotTerminating"]}),
            &["spec.scopes: Invalid value: [\"NotTerminating\"]: unsupported scope applied to resource"],
        );
        check(
            json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}),
            &[
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: conflicting scopes",
            ],
        );
        let selector = json!({"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}]});
        check(
            json!({"hard": {"cpu": "1"}, "scopeSelector": selector}),
            &["spec.scopeSelector.matchExpressions: Invalid value: \
                 {\"MatchExpressions\":[{\"ScopeName\":\"BestEffort\",\"Operator\":\"Exists\",\"Values\":null}]}: \
                 unsupported scope applied to resource"],
        );
    }

    #[test]
    fn operators_of_selectors() {
        let expressions = json!([
            {"scopeName": "PriorityClass", "operator": "In"},
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["x"]},
            {"scopeName": "Odd", "operator": "Odd"},
        ]);
        check(
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": expressions}}),
            &[
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when \
                 `operator` is 'In' or 'NotIn' for scope selector",
                "spec.scopeSelector.matchExpressions.values: Invalid value: [\"x\"]: must be no value when \
                 `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"Odd\": unsupported scope",
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Odd\": not a valid selector operator",
            ],
        );
    }

    #[test]
    fn scopes_are_immutable_and_limits_are_not() {
        let quota = |pods: &str, scope: &str| json!({"spec": {"hard": {"pods": pods}, "scopes": [scope]}});
        check_update(&ResourceQuota, quota("1", "BestEffort"), quota("2", "BestEffort"), &[]);
        check_update(
            &ResourceQuota,
            quota("1", "BestEffort"),
            quota("1", "Terminating"),
            &["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"],
        );
    }

    #[test]
    fn the_status_is_written_by_its_own_path_and_shown_in_columns() {
        let old = created(&ResourceQuota, json!({"spec": {"hard": {"pods": "1"}}, "status": {"hard": {}}}));
        assert_eq!(old["status"], json!({}));
        let context = Context { action: Action::Status, ..CONTEXT };
        let status = json!({"status": {"hard": {"pods": "2"}, "used": {"pods": "-3", "odd": "1"}}});
        check_update_in(
            &context,
            &ResourceQuota,
            old,
            status,
            &[
                "status.used[odd]: Invalid value: \"odd\": must be a standard resource type or fully qualified",
                "status.used[odd]: Invalid value: \"odd\": must be a standard resource for quota",
                "status.used[pods]: Invalid value: \"-3\": must be greater than or equal to 0",
            ],
        );
        let status =
            json!({"hard": {"pods": "2", "limits.cpu": "1", "requests.cpu": "1"}, "used": {"pods": "1"}});
        let (requests, limits) = usage_columns(&status);
        assert_eq!((&*requests, &*limits), ("pods: 1/2, requests.cpu: 0/1", "limits.cpu: 0/1"));
    }
}
