//! Containers of a pod: regular, init and ephemeral ones.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::environment::{validate_env, validate_env_from, validate_ports};
use crate::kinds::pod::mount::validate_mounts;
use crate::kinds::pod::probe::validate_probes;
use crate::kinds::pod::resources::{Claims, validate_requirements};
use crate::kinds::pod::security::validate_container_security;
use crate::kinds::pod::volume::Volumes;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// The parts of a pod that the rules of its containers read.
pub(super) struct PodContext<'a> {
    pub(super) brand: &'static Brand,
    pub(super) spec: &'a Value,
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: Claims<'a>,
}

/// Restart rules of one container, and exit codes of one rule: the reference's bounds.
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

const NEEDS_RESTART: &str = "may not be set for init containers without restartPolicy=Always";
/// Fields that an ephemeral container must not set: it takes no part in the pod's service.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
];

/// Those that are set even where they are empty.
const OBJECTS: [&str; 4] = ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// Rules for all containers of a pod spec.
pub(super) fn validate_containers(pod: &PodContext<'_>, path: &Path) -> FieldErrors {
    let regular = pod.spec.items("containers");
    let list = path.child("containers");
    let mut errors = FieldErrors::new();
    if regular.is_empty() {
        errors.push(FieldError::required(list.clone(), ""));
    }
    let mut seen = Distinct::new();
    for (at, container) in regular.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = list.index(at);
        errors.extend(validate_any(pod, container, &path));
        errors.extend(duplicate_name(container, &mut seen, &path));
        errors.extend(validate_probes(container, grace_period(pod), &path));
        errors.extend(validate_restart(container, false, &path));
    }
    errors.extend(host_port_conflicts(regular, &list));
    errors.extend(validate_init(pod, path));
    errors.extend(validate_ephemeral(pod, path));
    errors
}

/// A container may have another restart policy than its pod, and rules by the exit code before it.
fn validate_restart(container: &Value, is_init: bool, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let known = ["Always", "Never", "OnFailure"];
    let rules = container.items("restartPolicyRules");
    match container.at("restartPolicy").as_str() {
        None if rules.is_empty() => {}
        None => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(path.child("restartPolicy"), detail));
            // The reference does not read the rules of an init container that lacks the policy.
            if is_init {
                return errors;
            }
        }
        // few: three policies.
        Some(policy) if known.contains(&policy) => {}
        Some(policy) => errors.push(FieldError::not_supported(path.child("restartPolicy"), policy, &known)),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.push(FieldError::too_many(path.clone(), rules.len(), RESTART_RULES_MAX));
    }
    for (at, rule) in rules.iter().numbered() {
        errors.extend(validate_restart_rule(rule, &path.index(at)));
    }
    errors
}

fn validate_restart_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let supported = |given: &str, known: &[&str], path: Path| {
        // few: two words.
        (!known.contains(&given)).then(|| FieldError::not_supported(path, given, known))
    };
    errors.extend(supported(rule.text("action"), &["Restart", "RestartAllContainers"], path.child("action")));
    let (codes, path) = (rule.at("exitCodes"), path.child("exitCodes"));
    if !codes.is_object() {
        errors.push(FieldError::required(path, "must be specified"));
        return errors;
    }
    errors.extend(supported(codes.text("operator"), &["In", "NotIn"], path.child("operator")));
    let count = codes.items("values").len();
    if count > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(path.child("values"), count, EXIT_CODES_MAX));
    }
    errors
}

fn validate_init(pod: &PodContext<'_>, path: &Path) -> FieldErrors {
    let list = path.child("initContainers");
    let mut errors = FieldErrors::new();
    let mut seen: Distinct<&str> =
        pod.spec.items("containers").iter().map(|container| container.text("name")).collect();
    for (at, container) in pod.spec.items("initContainers").iter().numbered() {
        let path = list.index(at);
        errors.extend(validate_any(pod, container, &path));
        errors.extend(validate_restart(container, true, &path));
        if !container.text("name").is_empty() {
            errors.extend(duplicate_name(container, &mut seen, &path));
        }
        errors.extend(validate_kept_running(container, &path.child("resizePolicy")));
        errors.extend(host_port_conflicts(std::slice::from_ref(container), &list));
        if container.text("restartPolicy") == "Always" {
            errors.extend(validate_probes(container, grace_period(pod), &path));
        } else {
            let forbidden = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
            let given = forbidden.into_iter().filter(|field| container.has(field));
            errors.extend(given.map(|field| FieldError::forbidden(path.child(field), NEEDS_RESTART)));
        }
    }
    errors
}

/// An init container that runs to its end cannot be restarted to resize it.
fn validate_kept_running(container: &Value, path: &Path) -> FieldErrors {
    let restarts = container.items("resizePolicy").iter().numbered().filter(|(_, policy)| {
        container.text("restartPolicy") != "Always" && policy.text("restartPolicy") == "RestartContainer"
    });
    let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
    let error =
        |at| FieldError::invalid_str(path.index(at).child("restartPolicy"), "RestartContainer", detail);
    restarts.map(|(at, _)| error(at)).collect()
}

fn validate_ephemeral(pod: &PodContext<'_>, path: &Path) -> FieldErrors {
    let list = path.child("ephemeralContainers");
    let others = pod.spec.items("containers").iter().chain(pod.spec.items("initContainers"));
    let others: Distinct<&str> = others.map(|container| container.text("name")).collect();
    let mut seen = others.clone();
    let mut errors = FieldErrors::new();
    for (at, container) in pod.spec.items("ephemeralContainers").iter().numbered() {
        let path = list.index(at);
        errors.extend(validate_any(pod, container, &path));
        errors.extend(padded_image(container, &path));
        errors.extend(duplicate_name(container, &mut seen, &path));
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.has(&target) {
            errors.push(FieldError::not_found(path.child("targetContainerName"), &super::quoted(target)));
        }
        let detail = "cannot be set for an Ephemeral Container";
        let given = NOT_EPHEMERAL.into_iter().filter(|field| {
            if OBJECTS.contains(field) { container.has(field) } else { !container.is_empty_at(field) }
        });
        errors.extend(given.map(|field| FieldError::forbidden(path.child(field), detail)));
        let mounts = path.child("volumeMounts");
        for (at, mount) in container.items("volumeMounts").iter().numbered() {
            let given = ["subPath", "subPathExpr"].into_iter().filter(|field| !mount.is_empty_at(field));
            errors.extend(given.map(|field| FieldError::forbidden(mounts.index(at).child(field), detail)));
        }
    }
    errors
}

/// Refuses an image with spaces around it in a pod; templates may have such images.
pub(super) fn padded_image(container: &Value, path: &Path) -> Option<FieldError> {
    let image = container.text("image");
    let detail = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| FieldError::invalid_str(path.child("image"), image, detail))
}

fn validate_any(pod: &PodContext<'_>, container: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let name = container.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else {
        errors.extend(invalid_each(&path.child("name"), name, names::dns1123_label(name)));
    }
    if container.text("image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.extend(one_of(container, "terminationMessagePolicy", &policies, path));
    errors.extend(validate_ports(container.items("ports"), &path.child("ports")));
    errors.extend(validate_env(container.items("env"), &path.child("env")));
    errors.extend(validate_env_from(container.items("envFrom"), &path.child("envFrom")));
    errors.extend(validate_mounts(container, &pod.volumes, path));
    errors.extend(one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path));
    let resources = path.child("resources");
    errors.extend(validate_requirements(pod.brand, container.at("resources"), &pod.claims, &resources));
    errors.extend(validate_resize_policies(
        container,
        pod.spec.text("restartPolicy"),
        &path.child("resizePolicy"),
    ));
    let own_users = pod.spec.at("hostUsers").as_bool() == Some(false);
    let security = path.child("securityContext");
    errors.extend(validate_container_security(container.at("securityContext"), own_users, &security));
    errors
}

/// Checks that a required text is one of `known`.
pub(super) fn one_of(value: &Value, field: &str, known: &[&str], path: &Path) -> Option<FieldError> {
    let given = value.text(field);
    if given.is_empty() {
        return Some(FieldError::required(path.child(field), ""));
    }
    (!known.contains(&given)).then(|| FieldError::not_supported(path.child(field), given, known))
}

fn validate_resize_policies(container: &Value, pod_policy: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, policy) in container.items("resizePolicy").iter().numbered() {
        let resource = policy.text("resourceName");
        if seen.is_repeated(resource) {
            errors.push(FieldError::duplicate(path.index(at), &super::quoted(resource)));
        }
        let choices: [(&str, &[&str]); 2] = [
            (resource, &["cpu", "memory"]),
            (policy.text("restartPolicy"), &["NotRequired", "RestartContainer"]),
        ];
        for (given, known) in choices {
            if given.is_empty() {
                errors.push(FieldError::required(path.clone(), ""));
            } else if !known.contains(&given) {
                errors.push(FieldError::not_supported(path.clone(), given, known));
            }
        }
        if pod_policy == "Never" && policy.text("restartPolicy") != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid_str(path.clone(), policy.text("restartPolicy"), detail));
        }
    }
    errors
}

fn duplicate_name<'a>(container: &'a Value, seen: &mut Distinct<&'a str>, path: &Path) -> Option<FieldError> {
    let name = container.text("name");
    seen.is_repeated(name).then(|| FieldError::duplicate(path.child("name"), &super::quoted(name)))
}

fn grace_period(pod: &PodContext<'_>) -> Option<i64> {
    pod.spec.int("terminationGracePeriodSeconds")
}

fn host_port_conflicts(containers: &[Value], list: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, container) in containers.iter().numbered() {
        let ports = list.index(at).child("ports");
        for (at, port) in container.items("ports").iter().numbered() {
            let Some(number) = port.int("hostPort").filter(|&number| number != 0) else { continue };
            let taken = (port.text("protocol"), port.text("hostIP"), number);
            if seen.is_repeated(taken) {
                let taken = format!("{}/{}/{number}", taken.0, taken.1);
                errors.push(FieldError::duplicate(ports.index(at).child("hostPort"), &super::quoted(&taken)));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use crate::kinds::pod::Pod;
    use crate::kinds::testing::check_create;

    #[test]
    fn init_containers_that_end_are_not_restarted() {
        let resize = |policy: &str| json!([{"resourceName": "cpu", "restartPolicy": policy}]);
        check_create(
            &Pod,
            json!({"spec": {
                "containers": [{"name": "c", "image": "i", "resizePolicy": resize("RestartContainer")}],
                "initContainers": [
                    {"name": "a", "image": "i", "resizePolicy": resize("RestartContainer")},
                    {"name": "b", "image": "i", "resizePolicy": resize("RestartContainer"), "restartPolicy": "Always"},
                    {"name": "d", "image": "i", "restartPolicyRules": [{"action": "x"}]}
                ]
            }}),
            &[
                "spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be \
                 set to 'RestartContainer' for non-sidecar initContainers",
                "spec.initContainers[2].restartPolicy: Required value: must specify restartPolicy when restart rules are \
                 used",
            ],
        );
    }

    #[test]
    fn rules_for_restarts_are_bounded() {
        let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": vec![1; 256]}});
        check_create(
            &Pod,
            json!({"spec": {"containers": [{
                "name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": vec![rule; 1]
            }]}}),
            &[
                "spec.containers[0].restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items",
            ],
        );
    }
}
