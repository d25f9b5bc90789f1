//! Updates of a service: fields that a change of its type drops, and changes that are refused.

use orch_schema::value::Value;

use super::spec::validate_class;
use super::{EXTERNAL_NAME, LOAD_BALANCER, is_headless, needs_health_check, node_ports, uses_node_ports};
use crate::validate::tree::{Tree, child_mut, items_mut, set, shown, unset};
use crate::validate::{FieldError, FieldErrors, Path};

const NO_CHANGE: &str = "may not change once set";

/// Drops fields that the old type of the service had and the new one has not, if the client left them as they were.
pub(super) fn drop_fields_of_old_type(old: &Value, new: &mut Value) {
    let old = old.at("spec");
    let spec = child_mut(new, "spec");
    let is_external = |spec: &Value| spec.text("type") == EXTERNAL_NAME;
    let is_balanced = |spec: &Value| spec.text("type") == LOAD_BALANCER;
    if !is_external(old) && is_external(spec) {
        let is_same = |field: &str| {
            old.at(field) == spec.at(field) || old.is_empty_at(field) && spec.is_empty_at(field)
        };
        let are_addresses_same = is_same("clusterIP") && is_same("clusterIPs");
        let dropped: Vec<&str> = [("clusterIP", are_addresses_same), ("clusterIPs", are_addresses_same)]
            .into_iter()
            .chain(
                ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
                    .map(|field| (field, is_same(field))),
            )
            .filter_map(|(field, is_same)| is_same.then_some(field))
            .collect();
        dropped.into_iter().for_each(|field| unset(spec, field));
    }
    if uses_node_ports(old) && !uses_node_ports(spec) && adds_no_node_port(old, spec) {
        items_mut(spec, "ports").iter_mut().for_each(|port| unset(port, "nodePort"));
    }
    let unset_if = |spec: &mut Value, field: &str, is_over: bool| {
        if is_over && old.at(field) == spec.at(field) {
            unset(spec, field);
        }
    };
    let is_check_over = needs_health_check(old) && !needs_health_check(spec);
    unset_if(spec, "healthCheckNodePort", is_check_over);
    let is_balancer_over = is_balanced(old) && !is_balanced(spec);
    unset_if(spec, "allocateLoadBalancerNodePorts", is_balancer_over);
    unset_if(spec, "loadBalancerClass", is_balancer_over);
    let is_outside_over = uses_node_ports(old) && !uses_node_ports(spec);
    unset_if(spec, "externalTrafficPolicy", is_outside_over);
    if !is_balanced(spec) {
        set(child_mut(new, "status"), "loadBalancer", orch_schema::json!({}));
    }
}

fn adds_no_node_port(old: &Value, new: &Value) -> bool {
    let before = node_ports(old);
    let after = new.items("ports").iter().filter_map(|port| port.int("nodePort"));
    // set: `before` is one.
    after.filter(|port| *port != 0).all(|port| before.contains(&port))
}

/// The rules between the old and the new spec.
pub(super) fn validate_change(old: &Value, new: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = Path::new("spec");
    let external = [old, new].into_iter().filter(|spec| spec.text("type") == EXTERNAL_NAME).count();
    if external == 0 {
        errors.extend(validate_addresses(old, new, &path));
        errors.extend(validate_families(old, new, &path));
    }
    let balanced = [old, new].into_iter().filter(|spec| spec.text("type") == LOAD_BALANCER).count();
    let class = |spec: &Value| spec.at("loadBalancerClass").as_str().map(str::to_owned);
    if balanced == 2 && class(old) != class(new) {
        let path = path.child("loadBalancerClass");
        errors.push(FieldError::invalid(path, &shown(new.at("loadBalancerClass")), NO_CHANGE));
    }
    // The reference checks the class with the change, and once more with the whole service.
    errors.extend(validate_class(new, &path.child("loadBalancerClass")));
    if needs_health_check(old)
        && needs_health_check(new)
        && old.int("healthCheckNodePort") != new.int("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(path.child("healthCheckNodePort"), "field is immutable"));
    }
    errors
}

/// A second address may come and go; addresses that stay are the same.
fn validate_addresses(old: &Value, new: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if is_headless(old) && is_headless(new) {
        return errors;
    }
    let (before, after, list) = (old.texts("clusterIPs"), new.texts("clusterIPs"), path.child("clusterIPs"));
    let mut refuse = |at: usize, detail| {
        errors.push(FieldError::invalid(list.index(at), &shown(new.at("clusterIPs")), detail));
    };
    if before.len() == after.len() {
        for (at, _) in before.iter().zip(&after).enumerate().filter(|(_, (before, after))| before != after) {
            refuse(at, NO_CHANGE);
        }
        return errors;
    }
    match (before.first(), after.first()) {
        (Some(_), None) => refuse(0, "primary clusterIP can not be unset"),
        (Some(before), Some(after)) if before != after => refuse(0, NO_CHANGE),
        _ => {}
    }
    if after.len() < before.len() && after.len() == 1 {
        errors.extend(must_be_single(new, path, "clusterIP"));
    }
    errors
}

/// The same for families. Headless services change theirs freely.
fn validate_families(old: &Value, new: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if is_headless(old) || is_headless(new) {
        return errors;
    }
    let (before, after, list) = (old.texts("ipFamilies"), new.texts("ipFamilies"), path.child("ipFamilies"));
    let first = list.index(0);
    let mut refuse = |field: &str, detail| {
        errors.push(FieldError::invalid(first.clone(), &shown(new.at(field)), detail));
    };
    if before.len() == after.len() {
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        (0..changed).for_each(|_| refuse("ipFamilies", NO_CHANGE));
        return errors;
    }
    let shrinks = after.len() < before.len();
    if shrinks && new.texts("clusterIPs").is_empty() {
        refuse("ipFamilies", "primary ipFamily can not be unset");
    }
    if let (Some(before), Some(after)) = (before.first(), after.first())
        && before != after
    {
        refuse("clusterIPs", NO_CHANGE);
    }
    if shrinks && after.len() == 1 {
        errors.extend(must_be_single(new, path, "ipFamily"));
    }
    errors
}

fn must_be_single(spec: &Value, path: &Path, what: &str) -> Option<FieldError> {
    let policy = spec.text("ipFamilyPolicy");
    let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
    (policy != "SingleStack").then(|| {
        FieldError::invalid(path.child("ipFamilyPolicy"), &shown(spec.at("ipFamilyPolicy")), &detail)
    })
}
