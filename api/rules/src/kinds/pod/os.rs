//! Rules for pods by their operating system: fields that Windows or Linux lacks, and host processes.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

const NOT_WINDOWS: &str = "cannot be set for a windows pod";

/// Members of the spec that Windows lacks.
const LINUX_SPEC: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];

/// Members of a pod's security context that Windows lacks.
const LINUX_POD: [&str; 11] = [
    "appArmorProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsGroup",
    "runAsUser",
    "seLinuxChangePolicy",
    "seLinuxOptions",
    "seccompProfile",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "sysctls",
];

/// Members of a container's security context that Windows lacks.
const LINUX_CONTAINER: [&str; 10] = [
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
];

/// Rules for a pod that names its operating system.
pub(super) fn validate_os(spec: &Value, path: &Path) -> FieldErrors {
    match spec.at("os").text("name") {
        "windows" => validate_windows(spec, path),
        "linux" => validate_linux(spec, path),
        _ => FieldErrors::new(),
    }
}

/// All containers with their paths.
pub(super) fn containers<'s>(spec: &'s Value, path: &Path) -> impl Iterator<Item = (&'s Value, Path)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| {
        let path = path.child(list);
        spec.items(list).iter().numbered().map(move |(at, container)| (container, path.index(at)))
    })
}

fn validate_windows(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut refuse = |holder: &Value, members: &[&str], path: &Path| {
        // An absent flag and one that is false ask for the same, but for those that have a third state.
        let is_asked = |member: &&&str| match **member {
            "hostPID" | "hostIPC" => holder.flag(member),
            "sysctls" | "supplementalGroups" => !holder.items(member).is_empty(),
            member => holder.has(member),
        };
        let asked = members.iter().filter(is_asked);
        errors.extend(asked.map(|member| FieldError::forbidden(path.child(member), NOT_WINDOWS)));
    };
    if spec.has("securityContext") {
        refuse(spec.at("securityContext"), &LINUX_POD, &path.child("securityContext"));
        refuse(spec, &LINUX_SPEC, path);
    }
    for (container, path) in containers(spec, path) {
        refuse(container.at("securityContext"), &LINUX_CONTAINER, &path.child("securityContext"));
    }
    errors
}

fn validate_linux(spec: &Value, path: &Path) -> FieldErrors {
    let has_options = |holder: &Value| holder.at("securityContext").has("windowsOptions");
    let options = |path: &Path| path.child("securityContext").child("windowsOptions");
    let mut errors = FieldErrors::new();
    let detail = "windows options cannot be set for a linux pod";
    if has_options(spec) {
        errors.push(FieldError::forbidden(options(path), detail));
    }
    let given = containers(spec, path).filter(|(container, _)| has_options(container));
    errors.extend(given.map(|(_, path)| FieldError::forbidden(options(&path), detail)));
    errors
}

/// Rules for containers that are processes of their Windows host: all of a pod, or none.
pub(super) fn validate_host_processes(spec: &Value, path: &Path) -> FieldErrors {
    let of = |holder: &Value| holder.at("securityContext").at("windowsOptions").at("hostProcess").as_bool();
    let of_pod = of(spec);
    let mut errors = FieldErrors::new();
    let (mut all, mut on_host) = (0, 0);
    for (container, path) in containers(spec, path) {
        let own = of(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let path = path.child("securityContext").child("windowsOptions").child("hostProcess");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(FieldError::invalid(path, &own.to_string(), &detail));
        }
        all += 1;
        on_host += usize::from(own.or(of_pod) == Some(true));
    }
    if on_host == 0 {
        return errors;
    }
    if on_host < all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid_str(path.clone(), "", detail));
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(path.child("hostNetwork"), &shown(&Value::from(false)), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_asks_for_nothing_that_its_operating_system_lacks() {
        for (spec, expected) in [
            (
                json!({
                    "os": {"name": "windows"}, "hostPID": true, "hostIPC": false, "shareProcessNamespace": false,
                    "securityContext": {"fsGroup": 1, "sysctls": [], "windowsOptions": {}},
                    "containers": [{"securityContext": {"privileged": false, "windowsOptions": {}}}],
                }),
                vec![
                    "s.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                    "s.hostPID: Forbidden: cannot be set for a windows pod",
                    "s.shareProcessNamespace: Forbidden: cannot be set for a windows pod",
                    "s.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
                ],
            ),
            (
                json!({
                    "os": {"name": "linux"}, "securityContext": {"windowsOptions": {}},
                    "initContainers": [{"securityContext": {"windowsOptions": {}}}], "containers": [{}],
                }),
                vec![
                    "s.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
                    "s.initContainers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a \
                     linux pod",
                ],
            ),
            (json!({"hostPID": true, "securityContext": {"windowsOptions": {}}}), vec![]),
        ] {
            assert_eq!(texts(&validate_os(&spec, &Path::new("s"))), expected, "{spec}");
        }
    }

    #[test]
    fn host_processes_are_all_containers_of_a_pod_or_none() {
        let options = |is_on_host: bool| json!({"windowsOptions": {"hostProcess": is_on_host}});
        let on_host = json!({"securityContext": options(true)});
        for (spec, expected) in [
            (json!({"containers": [{}]}), vec![]),
            (json!({"containers": [on_host.clone()], "hostNetwork": true}), vec![]),
            (json!({"containers": [{}], "securityContext": options(true), "hostNetwork": true}), vec![]),
            (
                json!({"containers": [on_host.clone(), {}]}),
                vec![
                    "s: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be \
                     HostProcess containers",
                    "s.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess \
                     containers",
                ],
            ),
            (
                json!({"containers": [on_host], "securityContext": options(false), "hostNetwork": true}),
                vec![
                    "s.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess \
                     value must be identical if both are specified, was false",
                ],
            ),
        ] {
            assert_eq!(texts(&validate_host_processes(&spec, &Path::new("s"))), expected, "{spec}");
        }
    }
}
