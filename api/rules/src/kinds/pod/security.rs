//! Security contexts of pods and containers.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::volume::validate_descending_path;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL_FORMAT: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const SYSCTL_LENGTH_MAX: usize = 253;
const APP_ARMOR_LENGTH_MAX: usize = 4095;
/// Bytes of a credential of a group managed service account, and of a user's name with its domain: the reference's bounds.
const GMSA_BYTES_MAX: usize = 64 << 10;
const USER_NAME_MAX: usize = 256 + 20;

/// Rules for the security context of a pod. `spec` is the pod's spec, `path` the context's path.
pub(super) fn validate_pod_security(spec: &Value, path: &Path) -> FieldErrors {
    let context = spec.at("securityContext");
    let mut errors = validate_ids(context, &["fsGroup", "runAsUser", "runAsGroup"], path);
    let groups = path.child("supplementalGroups");
    for (at, group) in context.items("supplementalGroups").iter().numbered() {
        errors.extend(validate_id(group.as_i64(), groups.index(at)));
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(path.child("shareProcessNamespace"), "true", detail));
    }
    errors.extend(validate_sysctls(spec, &path.child("sysctls")));
    let choices: [(&str, &[&str]); 3] = [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["Recursive"]),
    ];
    for (field, known) in choices {
        if let Some(given) = context.at(field).as_str().filter(|given| !known.contains(given)) {
            errors.push(FieldError::not_supported(path.child(field), given, known));
        }
    }
    errors.extend(validate_profiles(context, path));
    errors
}

/// Rules for the security context of a container. `own_users`: the pod has a user namespace of its own.
pub(super) fn validate_container_security(context: &Value, own_users: bool, path: &Path) -> FieldErrors {
    let mut errors = validate_ids(context, &["runAsUser", "runAsGroup"], path);
    let mount = path.child("procMount");
    match context.at("procMount").as_str() {
        None | Some("Default") => {}
        Some("Unmasked") if own_users => {}
        Some("Unmasked") => {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid_str(mount, "Unmasked", detail));
        }
        Some(other) => errors.push(FieldError::not_supported(mount, other, &["Default", "Unmasked"])),
    }
    if context.at("allowPrivilegeEscalation").as_bool() == Some(false) {
        if context.flag("privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path.clone(), &shown(context), detail));
        }
        // once: one capability is looked for.
        if context.at("capabilities").texts("add").contains(&"CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path.clone(), &shown(context), detail));
        }
    }
    errors.extend(validate_profiles(context, path));
    errors
}

fn validate_ids(context: &Value, fields: &[&str], path: &Path) -> FieldErrors {
    fields.iter().flat_map(|field| validate_id(context.int(field), path.child(field))).collect()
}

fn validate_id(id: Option<i64>, path: Path) -> FieldErrors {
    let messages = id.map(names::user_id).unwrap_or_default();
    let shown = id.unwrap_or(0).to_string();
    messages.iter().map(|message| FieldError::invalid(path.clone(), &shown, message)).collect()
}

/// Prefixes of kernel parameters that each namespace of IPC has of its own.
const IPC_SYSCTLS: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

/// Why a pod that shares namespaces of its host may not set a kernel parameter; it would set it for the host.
fn host_sysctl(spec: &Value, name: &str) -> Option<&'static str> {
    let name = name.replace('/', ".");
    // few: four prefixes.
    let is_of_ipc = || IPC_SYSCTLS.iter().any(|prefix| name.starts_with(prefix));
    if spec.flag("hostNetwork") && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    (spec.flag("hostIPC") && is_of_ipc()).then_some("may not be specified when 'hostIPC' is true")
}

fn validate_sysctls(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, sysctl) in spec.at("securityContext").items("sysctls").iter().numbered() {
        let (name, path) = (sysctl.text("name"), path.index(at).child("name"));
        let is_repeated = seen.is_repeated(name);
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !is_sysctl(name) {
            let detail =
                format!("must have at most {SYSCTL_LENGTH_MAX} characters and match regex {SYSCTL_FORMAT}");
            errors.push(FieldError::invalid_str(path, name, &detail));
        } else if is_repeated {
            errors.push(FieldError::duplicate(path, &super::quoted(name)));
        } else if let Some(detail) = host_sysctl(spec, name) {
            errors.push(FieldError::invalid_str(path, name, detail));
        }
    }
    errors
}

fn is_sysctl(name: &str) -> bool {
    let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let segment = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|&c| edge(c)))
            && bytes.iter().all(|&c| edge(c) || matches!(c, b'-' | b'_'))
    };
    name.len() <= SYSCTL_LENGTH_MAX && name.split(['.', '/']).all(segment)
}

fn validate_profiles(context: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kinds = [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")];
    for (field, name) in kinds.into_iter().filter(|(field, _)| context.has(field)) {
        errors.extend(validate_profile(context.at(field), field, name, &path.child(field)));
    }
    errors.extend(validate_windows_options(context.at("windowsOptions"), &path.child("windowsOptions")));
    errors
}

fn validate_windows_options(options: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(name) = options.at("gmsaCredentialSpecName").as_str() {
        errors.extend(invalid_each(
            &path.child("gmsaCredentialSpecName"),
            name,
            names::dns1123_subdomain(name),
        ));
    }
    for (field, limit) in [("gmsaCredentialSpec", GMSA_BYTES_MAX), ("runAsUserName", USER_NAME_MAX)] {
        let Some(text) = options.at(field).as_str() else { continue };
        if text.is_empty() {
            let detail = format!("{field} cannot be an empty string");
            errors.push(FieldError::invalid_str(path.child(field), text, &detail));
        } else if text.len() > limit {
            let detail = match field {
                "gmsaCredentialSpec" => format!("gmsaCredentialSpec size must be under {} KiB", limit >> 10),
                _ => format!("runAsUserName can be at most {limit} characters long"),
            };
            errors.push(FieldError::invalid_str(path.child(field), text, &detail));
        }
    }
    errors
}

fn validate_profile(profile: &Value, field: &str, name: &str, path: &Path) -> FieldErrors {
    let (kind, local, local_path) =
        (profile.text("type"), profile.at("localhostProfile"), path.child("localhostProfile"));
    let mut errors = FieldErrors::new();
    if kind.is_empty() {
        errors
            .push(FieldError::required(path.child("type"), &format!("type is required when {field} is set")));
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &PROFILE_TYPES));
    }
    let text = local.as_str().unwrap_or_default();
    if kind != "Localhost" {
        if !local.is_null() {
            let detail = format!("can only be set when {name} type is Localhost");
            errors.push(FieldError::invalid_str(local_path, text, &detail));
        }
    } else if local.is_null() || (name == "AppArmor" && text.is_empty()) {
        errors.push(FieldError::required(local_path, &format!("must be set when {name} type is Localhost")));
    } else if name == "seccomp" {
        errors.extend(validate_descending_path(text, &local_path));
    } else {
        if text.trim() != text {
            errors.push(FieldError::invalid_str(
                local_path.clone(),
                text,
                "must not be padded with whitespace",
            ));
        }
        if text.len() > APP_ARMOR_LENGTH_MAX {
            errors.push(FieldError::too_long(local_path, APP_ARMOR_LENGTH_MAX));
        }
    }
    errors
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pod_contexts() {
        let check = |spec: Value, expected: &[&str]| {
            assert_eq!(texts(validate_pod_security(&spec, &Path::new("s"))), expected, "{spec}");
        };
        check(
            json!({"securityContext": {"runAsUser": 0, "sysctls": [{"name": "net.ipv4/x", "value": "1"}]}}),
            &[],
        );
        check(
            json!({"securityContext": {"runAsUser": -1, "supplementalGroups": [2147483648_i64], "fsGroupChangePolicy": "X"}}),
            &[
                "s.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "s.supplementalGroups[0]: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
                "s.fsGroupChangePolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnRootMismatch\"",
            ],
        );
        check(
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {}}}),
            &[
                "s.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                "s.appArmorProfile.type: Required value: type is required when appArmorProfile is set",
            ],
        );
    }

    #[test]
    fn container_contexts() {
        let check = |context: Value, expected: &[&str]| {
            assert_eq!(
                texts(validate_container_security(&context, false, &Path::new("s"))),
                expected,
                "{context}"
            );
        };
        check(json!({"procMount": "Default", "privileged": true}), &[]);
        check(
            json!({"procMount": "Unmasked"}),
            &["s.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"],
        );
        check(
            json!({"allowPrivilegeEscalation": false, "privileged": true}),
            &["s: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set \
               `allowPrivilegeEscalation` to false and `privileged` to true"],
        );
    }
}
