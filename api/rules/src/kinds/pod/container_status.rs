//! Rules for what a node reports of the containers of a pod: ended ones stay ended unless they are restarted, users have
//! identities that can be, and devices are those that the containers ask for.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const NO_WAY_BACK: &str = "may not be transitioned to non-terminated state";
/// Before the claim, and perhaps the request of it, in the name of a resource that a claim stands for.
const CLAIM: &str = "claim:";
/// Bytes of a message about the health of a device.
const MESSAGE_MAX: usize = 1024;

/// Rules for a change of the statuses of containers. `path` is that of the pod's status.
pub(super) fn validate_container_statuses(old: &Value, new: &Value, path: &Path) -> FieldErrors {
    let (before, after, spec) = (old.at("status"), new.at("status"), new.at("spec"));
    let mut errors = FieldErrors::new();
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        let path = path.child(list);
        let statuses = after.items(list);
        match containers {
            Some(containers) => {
                let containers = old.at("spec").items(containers);
                let (policy, ended) = (old.at("spec"), before.items(list));
                errors.extend(validate_restarts(policy, containers, ended, statuses, &path));
            }
            None => errors.extend(validate_ended(before.items(list), statuses, &path)),
        }
        let containers = containers.map(|containers| by_name(spec.items(containers)));
        for (at, status) in statuses.iter().numbered() {
            let path = path.index(at);
            errors.extend(validate_user(status, spec, &path.child("user").child("linux")));
            errors.extend(validate_devices(
                status,
                containers.as_ref(),
                &path.child("allocatedResourcesStatus"),
            ));
        }
    }
    errors
}

/// Containers by their names; of two with one name the first.
fn by_name(containers: &[Value]) -> HashMap<&str, &Value> {
    let mut named: HashMap<&str, &Value> = HashMap::new();
    for container in containers {
        named.entry(container.text("name")).or_insert(container);
    }
    named
}

/// A container that ended stays ended, unless it is restarted.
fn validate_restarts(
    spec: &Value,
    containers: &[Value],
    before: &[Value],
    after: &[Value],
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if may_all_restart(spec) {
        return errors;
    }
    let mut first: HashMap<&str, &Value> = HashMap::new();
    for status in after.iter().filter(|status| !status.at("state").has("terminated")) {
        first.entry(status.text("name")).or_insert(status);
    }
    let named = by_name(containers);
    for (at, old) in before.iter().numbered() {
        let (ended, name) = (old.at("state").at("terminated"), old.text("name"));
        if !ended.is_object() || !first.contains_key(name) {
            continue;
        }
        let code = ended.int("exitCode").unwrap_or(0);
        if !named.get(name).is_some_and(|container| restarts(container, spec, code)) {
            errors.push(FieldError::forbidden(path.index(at).child("state"), NO_WAY_BACK));
        }
    }
    errors
}

/// Whether the end of some container restarts all of them.
fn may_all_restart(spec: &Value) -> bool {
    let containers = spec.items("initContainers").iter().chain(spec.items("containers"));
    let mut rules = containers.flat_map(|container| container.items("restartPolicyRules"));
    // once: the rules of one pod.
    rules.any(|rule| rule.text("action") == "RestartAllContainers")
}

/// Whether a container that ended with `code` starts again: its first rule for the code decides, then its policy, then
/// that of its pod.
fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let policy = match container.at("restartPolicy").as_str() {
        None => spec.text("restartPolicy"),
        Some(policy) => {
            let mut rules = container.items("restartPolicyRules").iter();
            // few: at most twenty rules.
            if let Some(rule) = rules.find(|rule| is_for(rule, code)) {
                return rule.text("action") == "Restart";
            }
            policy
        }
    };
    match policy {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

fn is_for(rule: &Value, code: i64) -> bool {
    let codes = rule.at("exitCodes");
    // few: at most 255 codes.
    let is_listed = codes.items("values").iter().any(|value| value.as_i64() == Some(code));
    match codes.text("operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

/// An ephemeral container that ended stays ended.
fn validate_ended(before: &[Value], after: &[Value], path: &Path) -> FieldErrors {
    let mut going: HashMap<&str, usize> = HashMap::new();
    for status in after.iter().filter(|status| !status.at("state").has("terminated")) {
        *going.entry(status.text("name")).or_default() += 1;
    }
    let mut errors = FieldErrors::new();
    for (at, old) in before.iter().numbered() {
        let count = going.get(old.text("name")).copied().unwrap_or_default();
        if old.at("state").at("terminated").is_object() {
            let path = path.index(at).child("state");
            errors.extend((0..count).map(|_| FieldError::forbidden(path.clone(), NO_WAY_BACK)));
        }
    }
    errors
}

fn validate_user(status: &Value, spec: &Value, path: &Path) -> FieldErrors {
    let user = status.at("user").at("linux");
    if user.is_null() {
        return FieldErrors::new();
    }
    if spec.at("os").text("name") == "windows" {
        return FieldErrors::from(FieldError::forbidden(path.clone(), "cannot be set for a windows pod"));
    }
    let groups = path.child("supplementalGroups");
    let own = ["uid", "gid"].into_iter().map(|field| (user.int(field).unwrap_or(0), path.child(field)));
    let of_groups = user.items("supplementalGroups").iter().numbered();
    let of_groups = of_groups.map(|(at, group)| (group.as_i64().unwrap_or(0), groups.index(at)));
    let mut errors = FieldErrors::new();
    for (id, path) in own.chain(of_groups) {
        let messages = names::user_id(id);
        errors
            .extend(messages.iter().map(|detail| FieldError::invalid(path.clone(), &id.to_string(), detail)));
    }
    errors
}

/// Rules for the health of devices. `containers`: those of the list that may have devices.
fn validate_devices(status: &Value, containers: Option<&HashMap<&str, &Value>>, path: &Path) -> FieldErrors {
    let reported = status.items("allocatedResourcesStatus");
    let mut errors = FieldErrors::new();
    let Some(containers) = containers else {
        if !reported.is_empty() {
            let detail = "must not be specified in container status";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
        return errors;
    };
    let container = containers.get(status.text("name"));
    let requests = container.map(|container| container.at("resources").at("requests"));
    let claims: Distinct<String> = container
        .into_iter()
        .flat_map(|container| container.at("resources").items("claims"))
        .map(|claim| match claim.text("request") {
            "" => claim.text("name").to_owned(),
            request => format!("{}/{request}", claim.text("name")),
        })
        .collect();
    for (at, resource) in reported.iter().numbered() {
        let (path, name) = (path.index(at), resource.text("name"));
        let fault = requests.and_then(|requests| name_fault(requests, &claims, name));
        errors.extend(fault.map(|fault| FieldError::invalid_str(path.child("name"), name, fault)));
        errors.extend(validate_health(resource.items("resources"), &path.child("resources")));
    }
    errors
}

fn name_fault(requests: &Value, claims: &Distinct<String>, name: &str) -> Option<&'static str> {
    let Some(claimed) = name.strip_prefix(CLAIM) else {
        let detail = "must match one of the container's resource requests";
        return (!requests.has(name)).then_some(detail);
    };
    let detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                  'claim:<claimName>' if request is empty";
    (!claims.has(&claimed.to_owned())).then_some(detail)
}

fn validate_health(devices: &[Value], path: &Path) -> FieldErrors {
    let known = ["Healthy", "Unhealthy", "Unknown"];
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, device) in devices.iter().numbered() {
        let (path, health, id) = (path.index(at), device.text("health"), device.text("resourceID"));
        if !known.contains(&health) {
            errors.push(FieldError::not_supported(path.child("health"), health, &known));
        }
        match device.at("message").as_str() {
            Some("") => {
                errors.push(FieldError::required(path.child("message"), "must be non-empty if specified"));
            }
            Some(message) if message.len() > MESSAGE_MAX => {
                errors.push(FieldError::too_long(path.child("message"), MESSAGE_MAX));
            }
            _ => {}
        }
        if seen.is_repeated(id) {
            errors.push(FieldError::duplicate(path.child("resourceID"), &quoted(id)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn check(old: Value, new: Value, expected: &[&str]) {
        let errors = validate_container_statuses(&old, &new, &Path::new("s"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{old} {new}");
    }

    #[test]
    fn a_container_that_ended_starts_again_by_its_own_policy() {
        let error =
            "s.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        let rule = |action: &str| json!([{"action": action, "exitCodes": {"operator": "In", "values": [3]}}]);
        for (pod, own, rules, code, is_allowed) in [
            ("Always", None, json!([]), 0, true),
            ("Never", None, json!([]), 1, false),
            ("OnFailure", None, json!([]), 1, true),
            ("OnFailure", None, json!([]), 0, false),
            ("Never", Some("Always"), json!([]), 0, true),
            ("Always", Some("Never"), json!([]), 1, false),
            ("Always", Some("Never"), rule("Restart"), 3, true),
            ("Always", Some("Never"), rule("Restart"), 4, false),
            ("Never", Some("Never"), rule("RestartAllContainers"), 0, true),
        ] {
            let mut container = json!({"name": "c", "restartPolicyRules": rules});
            if let Some(own) = own {
                crate::validate::tree::set(&mut container, "restartPolicy", own);
            }
            let spec = json!({"restartPolicy": pod, "containers": [container]});
            let old = json!({"spec": spec, "status": {
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
            }});
            let new = json!({"spec": spec, "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}});
            let expected: Vec<&str> = Some(error).filter(|_| !is_allowed).into_iter().collect();
            check(old, new, &expected);
        }
    }

    #[test]
    fn users_and_devices_are_those_of_containers() {
        let spec = json!({"containers": [{"name": "c", "resources": {
            "requests": {"x.com/gpu": "1"}, "claims": [{"name": "a"}, {"name": "b", "request": "r"}]
        }}]});
        let device = |name: &str| json!({"name": name, "resources": []});
        check(
            json!({}),
            json!({"spec": spec, "status": {"containerStatuses": [{
                "name": "c", "user": {"linux": {"uid": -1, "gid": 0, "supplementalGroups": [-2]}},
                "allocatedResourcesStatus": [
                    device("x.com/gpu"), device("claim:a"), device("claim:b/r"), device("claim:b"), device("y"),
                    {"name": "x.com/gpu", "resources": [
                        {"resourceID": "1", "health": "Healthy"}, {"resourceID": "1", "health": "x", "message": ""}
                    ]}
                ]
            }]}}),
            &[
                "s.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "s.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -2: must be between 0 and \
                 2147483647, inclusive",
                "s.containerStatuses[0].allocatedResourcesStatus[3].name: Invalid value: \"claim:b\": must match one of \
                 the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if \
                 request is empty",
                "s.containerStatuses[0].allocatedResourcesStatus[4].name: Invalid value: \"y\": must match one of the \
                 container's resource requests",
                "s.containerStatuses[0].allocatedResourcesStatus[5].resources[1].health: Unsupported value: \"x\": \
                 supported values: \"Healthy\", \"Unhealthy\", \"Unknown\"",
                "s.containerStatuses[0].allocatedResourcesStatus[5].resources[1].message: Required value: must be \
                 non-empty if specified",
                "s.containerStatuses[0].allocatedResourcesStatus[5].resources[1].resourceID: Duplicate value: \"1\"",
            ],
        );
        check(
            json!({}),
            json!({
                "spec": {"os": {"name": "windows"}},
                "status": {"ephemeralContainerStatuses": [
                    {"user": {"linux": {"uid": -1}}, "allocatedResourcesStatus": [{"name": "a"}]}
                ]}
            }),
            &[
                "s.ephemeralContainerStatuses[0].user.linux: Forbidden: cannot be set for a windows pod",
                "s.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in container \
                 status",
            ],
        );
    }
}
