//! Security contexts of pods and containers.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::sysctl::validate_sysctls;
use crate::kinds::pod::volume::validate_descending_path;
use crate::kinds::pod::windows::validate_windows_options;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const APP_ARMOR_LENGTH_MAX: usize = 4095;

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

fn validate_profiles(context: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kinds = [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")];
    for (field, name) in kinds.into_iter().filter(|(field, _)| context.has(field)) {
        errors.extend(validate_profile(context.at(field), field, name, &path.child(field)));
    }
    errors.extend(validate_windows_options(context.at("windowsOptions"), &path.child("windowsOptions")));
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
    // The name of an AppArmor profile is not looked at behind a type that is none.
    if name == "AppArmor" && !errors.is_empty() {
        return errors;
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
