//! Checks of the level `baseline` about what separates a container from the kernel: capabilities, profiles of AppArmor,
//! seccomp and SELinux, masks of `/proc`, and sysctls.

use std::collections::BTreeSet;

use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::Violation;
use super::pod::{Pod, containers, joined, plural, quoted_list, quoted_set, setters};
use crate::validate::tree::{Tree, sorted_entries};

/// Capabilities that container runtimes give by default.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Types of SELinux for containers; the last is allowed from version 1.31 on.
const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Sysctls that touch the pod alone, each with the minor version in which it was found so.
const SYSCTLS: [(&str, u64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// Profiles are the runtime's own or files of the node, in fields and in the annotations before them.
pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let profile = |context: &'_ Value| context.at("appArmorProfile").as_object().is_some();
    let is_bad = |context: &Value| profile(context) && !is_allowed_profile(context.at("appArmorProfile"));
    let all = std::iter::once(pod.context()).chain(pod.containers().map(|one| one.at("securityContext")));
    values.extend(
        all.filter(|context| is_bad(context)).map(|context| context.at("appArmorProfile").text("type")),
    );
    let setters = setters(is_bad(pod.context()), &pod.containers_with(is_bad));
    let prefix = format!("container.apparmor.security.beta.{}/", pod.brand.label_domain);
    let allowed =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: Vec<String> = sorted_entries(pod.metadata.at("annotations"))
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| key.starts_with(&prefix) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    if setters.is_empty() && annotations.is_empty() {
        return None;
    }
    let by_annotation = plural("annotation", "annotations", annotations.len());
    let who = match (setters.as_str(), annotations.is_empty()) {
        ("", _) => by_annotation.to_owned(),
        (setters, true) => setters.to_owned(),
        (setters, false) => format!("{setters} and {by_annotation}"),
    };
    let count = values.len() + annotations.len();
    let listed = quoted_list(values.into_iter().chain(annotations.iter().map(String::as_str)));
    Some(Violation {
        reason: plural("forbidden AppArmor profile", "forbidden AppArmor profiles", count),
        detail: format!("{who} must not set AppArmor profile type to {listed}"),
    })
}

/// Whether a profile of seccomp or AppArmor is the runtime's own or a file of the node.
pub(super) fn is_allowed_profile(profile: &Value) -> bool {
    matches!(profile.text("type"), "RuntimeDefault" | "Localhost")
}

/// No container adds a capability beyond those of the runtime.
pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    // few: the capabilities that runtimes give.
    let beyond = |added: &&str| !CAPABILITIES.contains(added);
    let (bad, added) = adding(pod, beyond);
    (!bad.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&bad),
            quoted_set(&added)
        ),
    })
}

/// The containers that add a `forbidden` capability, and all such capabilities.
pub(super) fn adding<'a>(
    pod: &Pod<'a>,
    forbidden: impl Fn(&&str) -> bool,
) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let (mut bad, mut all) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let added = container.at("securityContext").at("capabilities").texts("add");
        let mut added = added.into_iter().filter(|one| forbidden(one)).peekable();
        if added.peek().is_some() {
            bad.push(container.text("name"));
        }
        all.extend(added);
    }
    (bad, all)
}

/// `/proc` is masked.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let of = |context: &'_ Value| context.at("procMount").as_str().is_some_and(|mount| mount != "Default");
    let bad = pod.containers_with(of);
    let mounts = pod.containers().map(|container| container.at("securityContext"));
    let values: BTreeSet<&str> =
        mounts.filter(|context| of(context)).map(|context| context.text("procMount")).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers(&bad),
            quoted_set(&values)
        ),
    })
}

/// [`proc_mount`] for pods whose root is root on the node: others may unmask it.
pub(super) fn proc_mount_outside_user_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

/// Processes have types for containers, and neither user nor role is chosen.
pub(super) fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    se_linux_among(pod, &SE_LINUX_TYPES[..4])
}

/// [`se_linux`], with the type of engines that run containers in containers.
pub(super) fn se_linux_with_engine(pod: &Pod<'_>) -> Option<Violation> {
    se_linux_among(pod, &SE_LINUX_TYPES)
}

fn se_linux_among(pod: &Pod<'_>, types: &[&str]) -> Option<Violation> {
    // few: the types.
    let is_type = |options: &Value| types.contains(&options.text("type"));
    let is_bad = |context: &Value| {
        let options = context.at("seLinuxOptions");
        !is_type(options) || !options.text("user").is_empty() || !options.text("role").is_empty()
    };
    let setters = setters(is_bad(pod.context()), &pod.containers_with(is_bad));
    if setters.is_empty() {
        return None;
    }
    let contexts = pod.containers().map(|container| container.at("securityContext"));
    let all: Vec<&Value> =
        std::iter::once(pod.context()).chain(contexts).map(|context| context.at("seLinuxOptions")).collect();
    let bad_types: BTreeSet<&str> =
        all.iter().filter(|options| !is_type(options)).map(|options| options.text("type")).collect();
    let mut told = Vec::new();
    if !bad_types.is_empty() {
        told.push(format!("{} {}", plural("type", "types", bad_types.len()), quoted_set(&bad_types)));
    }
    for field in ["user", "role"] {
        // once: a pass over the containers for each of two fields.
        if all.iter().any(|options| !options.text(field).is_empty()) {
            told.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", told.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

/// Annotations for seccomp, which fields replaced in version 1.19.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let base = format!("seccomp.security.alpha.{}", pod.brand.label_domain);
    let of_containers =
        pod.containers().map(|container| format!("container.{base}/{}", container.text("name")));
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let bad: BTreeSet<String> = std::iter::once(format!("{base}/pod"))
        .chain(of_containers)
        .filter_map(|key| pod.annotation(&key).filter(|value| !allowed(value)).map(|value| (key, value)))
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!("forbidden {} {}", plural("annotation", "annotations", bad.len()), joined(bad)),
    })
}

/// Profiles of seccomp, where there are some, are the runtime's own or files of the node.
pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad =
        |context: &Value| context.has("seccompProfile") && !is_allowed_profile(context.at("seccompProfile"));
    let setters = setters(is_bad(pod.context()), &pod.containers_with(is_bad));
    if setters.is_empty() {
        return None;
    }
    let contexts = pod.containers().map(|container| container.at("securityContext"));
    let values: BTreeSet<&str> = std::iter::once(pod.context())
        .chain(contexts)
        .filter(|context| is_bad(context))
        .map(|context| context.at("seccompProfile").text("type"))
        .collect();
    let detail =
        format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted_set(&values));
    Some(Violation { reason: "seccompProfile", detail })
}

/// Sysctls of the first version.
pub(super) fn sysctls_of_0(pod: &Pod<'_>) -> Option<Violation> {
    sysctls(pod, 0)
}

/// Sysctls from version 1.27 on.
pub(super) fn sysctls_of_27(pod: &Pod<'_>) -> Option<Violation> {
    sysctls(pod, 27)
}

/// Sysctls from version 1.29 on.
pub(super) fn sysctls_of_29(pod: &Pod<'_>) -> Option<Violation> {
    sysctls(pod, 29)
}

/// Sysctls from version 1.32 on.
pub(super) fn sysctls_of_32(pod: &Pod<'_>) -> Option<Violation> {
    sysctls(pod, 32)
}

fn sysctls(pod: &Pod<'_>, minor: u64) -> Option<Violation> {
    // few: the sysctls that are allowed.
    let allowed = |name: &str| SYSCTLS.iter().any(|(known, since)| *known == name && *since <= minor);
    let names = pod.context().items("sysctls").iter().map(|sysctl| sysctl.text("name"));
    let bad: Vec<String> = names
        .filter(|name| !allowed(name))
        .map(|name| orch_schema::excerpt::part(name).into_owned())
        .collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: joined(bad) })
}
