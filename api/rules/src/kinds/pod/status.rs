//! Rules for updates of a pod's status.

use std::collections::{BTreeMap, VecDeque};

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::pod::container_status::validate_container_statuses;
use crate::validate::address::validate_ip;
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, carry, items_mut, set, shown_items};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const ONE_PER_FAMILY: &str = "may specify no more than one IP for each IP family";

/// Rules for a change of the status of a pod, metadata excepted.
pub(super) fn validate_status_update(old: &Value, new: &Value) -> FieldErrors {
    let (before, after) = (old.at("status"), new.at("status"));
    let path = Path::new("status");
    let mut errors = validate_conditions(after.items("conditions"), &path.child("conditions"));
    let nominated = after.text("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.text("nominatedNodeName") {
        let path = path.child("nominatedNodeName");
        if !old.at("spec").text("nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
        errors.extend(invalid_each(&path, nominated, names::dns1123_subdomain(nominated)));
    }
    errors.extend(immutable(after.at("qosClass"), before.at("qosClass"), path.child("qosClass")));
    let claims = new.at("spec").items("resourceClaims");
    errors.extend(validate_claims(after, claims, &path.child("resourceClaimStatuses")));
    let generation = after.int("observedGeneration").unwrap_or(0);
    if generation < 0 {
        let path = path.child("observedGeneration");
        errors.push(FieldError::invalid(path, &generation.to_string(), "must be a non-negative integer"));
    }
    let extended = path.child("extendedResourceClaimStatus");
    errors.extend(validate_extended_claim(
        after.at("extendedResourceClaimStatus"),
        new.at("spec"),
        &extended,
    ));
    errors.extend(validate_container_statuses(old, new, &path));
    errors.extend(validate_ips(before.items("podIPs"), after.items("podIPs"), &path.child("podIPs")));
    let host_ips = after.items("hostIPs");
    if let Some(first) = host_ips.first().filter(|first| first.text("ip") != after.text("hostIP")) {
        let path = path.child("hostIPs").index(0).child("ip");
        errors.push(FieldError::invalid_str(path, first.text("ip"), "must be equal to `hostIP`"));
    }
    errors.extend(validate_ips(before.items("hostIPs"), host_ips, &path.child("hostIPs")));
    errors
}

/// Keeps the observed generations of `old` where `new` names none: old clients do not know them.
pub(super) fn keep_observed_generations(old: &Value, new: &mut Value) {
    const FIELD: &str = "observedGeneration";
    let mut known: BTreeMap<&str, VecDeque<&Value>> = BTreeMap::new();
    for condition in old.items("conditions") {
        known.entry(condition.text("type")).or_default().push_back(condition.at(FIELD));
    }
    for condition in items_mut(new, "conditions") {
        // Each condition has taken its predecessor's, also where it names one itself.
        let before = known.get_mut(condition.text("type")).and_then(VecDeque::pop_front);
        if let Some(before) = before.filter(|before| !before.is_null())
            && condition.is_empty_at(FIELD)
        {
            set(condition, FIELD, before.clone());
        }
    }
    if new.is_empty_at(FIELD) {
        carry(old, new, FIELD);
    }
}

fn validate_claims(status: &Value, claims: &[Value], path: &Path) -> FieldErrors {
    let names: Distinct<&str> = claims.iter().map(|claim| claim.text("name")).collect();
    let (mut seen, mut errors) = (Distinct::new(), FieldErrors::new());
    for (at, claim) in status.items("resourceClaimStatuses").iter().numbered() {
        let made_path = path.index(at).child("resourceClaimName");
        let (path, name) = (path.index(at).child("name"), claim.text("name"));
        if !names.has(&name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid_str(path.clone(), name, detail));
        }
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path.clone(), &quoted(name)));
        }
        let made = claim.text("resourceClaimName");
        if claim.has("resourceClaimName") {
            errors.extend(invalid_each(&made_path, made, names::dns1123_subdomain(made)));
        }
    }
    errors
}

fn validate_conditions(conditions: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, condition) in conditions.iter().numbered() {
        let generation = condition.int("observedGeneration").unwrap_or(0);
        if generation < 0 {
            let path = path.index(at).child("observedGeneration");
            errors.push(FieldError::invalid(path, &generation.to_string(), "must be a non-negative integer"));
        }
    }
    let system = ["PodScheduled", "Ready", "Initialized"];
    let own =
        // few: three conditions are the system's.
        conditions.iter().numbered().filter(|(_, condition)| !system.contains(&condition.text("type")));
    errors.extend(own.flat_map(|(at, condition)| {
        let kind = condition.text("type");
        invalid_each(&path.index(at).child("Type"), kind, names::qualified_name(kind))
    }));
    errors
}

/// The claim that was made for devices that the containers of a pod ask for as resources.
fn validate_extended_claim(status: &Value, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if status.is_null() {
        return errors;
    }
    let containers = spec.items("initContainers").iter().chain(spec.items("containers"));
    let containers: BTreeMap<&str, &Value> =
        containers.map(|container| (container.text("name"), container)).collect();
    let (mappings, list) = (status.items("requestMappings"), path.child("requestMappings"));
    if mappings.is_empty() {
        errors.push(FieldError::required(list.clone(), "at least one request mapping is required"));
    }
    const KEY: [&str; 3] = ["containerName", "resourceName", "requestName"];
    let mut seen = Distinct::new();
    for (at, mapping) in mappings.iter().numbered() {
        let item = list.index(at);
        let (resource, request) = (mapping.text("resourceName"), mapping.text("requestName"));
        let name = mapping.text("containerName");
        match containers.get(name) {
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid_str(item.child("containerName"), name, detail));
            }
            Some(container) if !container.at("resources").at("requests").has(resource) => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.push(FieldError::invalid_str(item.child("resourceName"), resource, detail));
            }
            Some(_) => {}
        }
        errors.extend(invalid_each(&path.child("requestName"), request, names::dns1123_label(request)));
        if seen.is_repeated(KEY.map(|field| mapping.text(field))) {
            let duplicate = |field| FieldError::duplicate(item.child(field), &quoted(mapping.text(field)));
            errors.extend(KEY.map(duplicate));
        }
    }
    let (claim, path) = (status.text("resourceClaimName"), path.child("resourceClaimName"));
    if claim.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        errors.extend(invalid_each(&path, claim, names::dns1123_subdomain(claim)));
    }
    errors
}

/// `known`: those that were there may have a form that is refused by now.
fn validate_ips(known: &[Value], ips: &[Value], path: &Path) -> FieldErrors {
    let known: Distinct<&str> = known.iter().map(|ip| ip.text("ip")).collect();
    let addresses: Vec<&str> = ips.iter().map(|ip| ip.text("ip")).collect();
    let added = addresses.iter().numbered().filter(|(_, ip)| !known.has(ip));
    let mut errors: FieldErrors = added.filter_map(|(at, ip)| validate_ip(&path.index(at), ip)).collect();
    if addresses.len() > 1 {
        let of_six = addresses.iter().filter(|ip| ip.contains(':')).count();
        if addresses.len() > 2 || of_six != 1 {
            errors.push(FieldError::invalid(path.clone(), &shown_items(ips), ONE_PER_FAMILY));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn claims_of_devices_are_of_containers_that_ask_for_them() {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"x.com/gpu": "1"}}}]});
        let mapping = |container: &str, resource: &str| json!({"containerName": container, "resourceName": resource, "requestName": "r"});
        for (status, expected) in [
            (json!(null), vec![]),
            (json!({"resourceClaimName": "a", "requestMappings": [mapping("c", "x.com/gpu")]}), vec![]),
            (json!({}), vec!["e.requestMappings: Required", "e.resourceClaimName: Required"]),
            (
                json!({"resourceClaimName": "a", "requestMappings": [mapping("c", "y"), mapping("d", "y"), mapping("d", "y")]}),
                vec![
                    "e.requestMappings[0].resourceName: Invalid",
                    "e.requestMappings[1].containerName: Invalid",
                    "e.requestMappings[2].containerName: Invalid",
                    "e.requestMappings[2].containerName: Duplicate",
                    "e.requestMappings[2].resourceName: Duplicate",
                    "e.requestMappings[2].requestName: Duplicate",
                ],
            ),
        ] {
            let errors = validate_extended_claim(&status, &spec, &Path::new("e"));
            let told: Vec<String> = errors
                .iter()
                .map(|error| error.to_string().split(" value").next().unwrap().to_owned())
                .collect();
            assert_eq!(told, expected, "{status}");
        }
    }
}
