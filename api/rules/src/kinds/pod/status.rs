//! Rules for updates of a pod's status.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::spec::validate_ip;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, shown, shown_items};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const NO_WAY_BACK: &str = "may not be transitioned to non-terminated state";
const ONE_PER_FAMILY: &str = "may specify no more than one IP for each IP family";

/// Rules for a change of the status of a pod, metadata excepted.
pub(super) fn validate_status_update(old: &Value, new: &Value) -> FieldErrors {
    let (before, after) = (old.at("status"), new.at("status"));
    let path = Path::new("status");
    let mut errors = validate_conditions(after.items("conditions"));
    let nominated = after.text("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.text("nominatedNodeName") {
        let path = path.child("nominatedNodeName");
        errors.extend(invalid_each(&path, nominated, names::dns1123_subdomain(nominated)));
    }
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

fn validate_conditions(conditions: &[Value]) -> FieldErrors {
    let path = Path::new("metadata").child("conditions");
    let system = ["PodScheduled", "Ready", "Initialized"];
    let own =
        // few: three conditions are the system's.
        conditions.iter().numbered().filter(|(_, condition)| !system.contains(&condition.text("type")));
    own.flat_map(|(at, condition)| {
        let kind = condition.text("type");
        invalid_each(&path.index(at).child("Type"), kind, names::qualified_name(kind))
    })
    .collect()
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
        let mut seen = Distinct::new();
        for (at, ip) in addresses.iter().numbered() {
            if seen.is_repeated(ip) {
                errors.push(FieldError::duplicate(path.index(at), &shown(&ips[at])));
            }
        }
    }
    errors
}
