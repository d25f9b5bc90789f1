//! Rules for updates of a pod's status.

use std::collections::{BTreeMap, VecDeque};

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::pod::spec::validate_ip;
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, carry, items_mut, set, shown_items};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const NO_WAY_BACK: &str = "may not be transitioned to non-terminated state";
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
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        errors.extend(validate_transitions(old, before, after, list, &path.child(list)));
    }
    errors.extend(validate_ips(after.items("podIPs"), &path.child("podIPs")));
    let host_ips = after.items("hostIPs");
    if let Some(first) = host_ips.first().filter(|first| first.text("ip") != after.text("hostIP")) {
        let path = path.child("hostIPs").index(0).child("ip");
        errors.push(FieldError::invalid_str(path, first.text("ip"), "must be equal to `hostIP`"));
    }
    errors.extend(validate_ips(host_ips, &path.child("hostIPs")));
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
            errors.extend(invalid_each(&path, made, names::dns1123_subdomain(made)));
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

// A container that ended stays ended, unless its pod restarts it.
fn validate_transitions(pod: &Value, before: &Value, after: &Value, list: &str, path: &Path) -> FieldErrors {
    let spec = pod.at("spec");
    let policy = if list.starts_with("ephemeral") { "Never" } else { spec.text("restartPolicy") };
    if policy == "Always" {
        return FieldErrors::new();
    }
    let init = spec.items("initContainers").iter();
    let restartable: Distinct<&str> = init
        .filter(|container| container.text("restartPolicy") == "Always")
        .map(|container| container.text("name"))
        .collect();
    let mut errors = FieldErrors::new();
    for (at, old) in before.items(list).iter().numbered() {
        let ended = old.at("state").at("terminated");
        let retried = ended.int("exitCode").unwrap_or(0) != 0 && policy == "OnFailure";
        if !ended.is_object() || retried || restartable.has(&old.text("name")) {
            continue;
        }
        let back = |new: &&Value| new.text("name") == old.text("name") && !new.at("state").has("terminated");
        let count = after.items(list).iter().filter(back).count();
        errors.extend((0..count).map(|_| FieldError::forbidden(path.index(at).child("state"), NO_WAY_BACK)));
    }
    errors
}

fn validate_ips(ips: &[Value], path: &Path) -> FieldErrors {
    let addresses: Vec<&str> = ips.iter().map(|ip| ip.text("ip")).collect();
    let mut errors: FieldErrors =
        addresses.iter().numbered().filter_map(|(at, ip)| validate_ip(ip, path.index(at))).collect();
    if addresses.len() > 1 {
        let of_six = addresses.iter().filter(|ip| ip.contains(':')).count();
        if addresses.len() > 2 || of_six != 1 {
            errors.push(FieldError::invalid(path.clone(), &shown_items(ips), ONE_PER_FAMILY));
        }
    }
    errors
}
