//! Checks of the level `restricted`: what a pod has to say for its own hardening.

use std::collections::BTreeSet;

use orch_schema::value::Value;

use super::Violation;
use super::isolation::{adding, is_allowed_profile, seccomp as allowed_seccomp};
use super::pod::{Pod, containers, plural, quoted_list, quoted_set, setters};
use crate::validate::tree::Tree;

/// Sources of volumes that a pod may have.
const SOURCES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Other sources, in the reference's order.
const RESTRICTED_SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Each container gives up gaining rights.
pub(super) fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.containers_with(|context| context.at("allowPrivilegeEscalation").as_bool() != Some(false));
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad)),
    })
}

/// The same, but on Windows.
pub(super) fn escalation_but_on_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_on_windows() { None } else { escalation(pod) }
}

/// Each container drops all capabilities, and adds back at most that of low ports.
pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeps = |context: &Value| {
        // once: the capabilities that a container drops.
        !context.at("capabilities").items("drop").iter().any(|dropped| dropped == "ALL")
    };
    let keeping = pod.containers_with(keeps);
    let (bad, added) = adding(pod, |added| *added != "NET_BIND_SERVICE");
    let mut told = Vec::new();
    if !keeping.is_empty() {
        told.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !bad.is_empty() {
        told.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&bad),
            quoted_set(&added)
        ));
    }
    (!told.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: told.join("; ") })
}

/// The same, but on Windows.
pub(super) fn capabilities_but_on_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_on_windows() { None } else { capabilities(pod) }
}

/// Volumes are of the cluster's own kinds.
pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |volume: &&Value| SOURCES.iter().all(|source| !volume.has(source));
    let bad: Vec<&Value> = pod.spec.items("volumes").iter().filter(is_bad).collect();
    if bad.is_empty() {
        return None;
    }
    // few: the kinds of volumes.
    let kind_of = |volume: &&Value| RESTRICTED_SOURCES.into_iter().find(|source| volume.has(source));
    let kinds: BTreeSet<&str> = bad.iter().map(|volume| kind_of(volume).unwrap_or("unknown")).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted_list(bad.iter().map(|volume| volume.text("name"))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted_set(&kinds)
    );
    Some(Violation { reason: "restricted volume types", detail })
}

/// Containers say that they do not run as root, themselves or for the whole pod.
pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    let of = |context: &Value| context.at("runAsNonRoot").as_bool();
    let reason = "runAsNonRoot != true";
    let setters =
        setters(of(pod.context()) == Some(false), &pod.containers_with(|context| of(context) == Some(false)));
    if !setters.is_empty() {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason, detail });
    }
    if of(pod.context()) == Some(true) {
        return None;
    }
    let silent = pod.containers_with(|context| of(context).is_none());
    (!silent.is_empty()).then(|| Violation {
        reason,
        detail: format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent)),
    })
}

/// The same, unless root in the pod is none on the node.
pub(super) fn non_root_outside_user_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { non_root(pod) }
}

/// Nothing runs as the user 0.
pub(super) fn user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context.int("runAsUser") == Some(0);
    let setters = setters(is_root(pod.context()), &pod.containers_with(is_root));
    (!setters.is_empty())
        .then(|| Violation { reason: "runAsUser=0", detail: format!("{setters} must not set runAsUser=0") })
}

/// The same, unless root in the pod is none on the node.
pub(super) fn user_outside_user_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { user(pod) }
}

/// Containers have a profile of seccomp, themselves or for the whole pod.
pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(violation) = allowed_seccomp(pod) {
        return Some(violation);
    }
    if pod.context().has("seccompProfile") && is_allowed_profile(pod.context().at("seccompProfile")) {
        return None;
    }
    let silent = pod.containers_with(|context| !context.has("seccompProfile"));
    (!silent.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        ),
    })
}

/// The same, but on Windows.
pub(super) fn seccomp_but_on_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_on_windows() { None } else { seccomp(pod) }
}
