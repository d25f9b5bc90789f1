//! Mounts and block devices of a container: each refers to a volume of the pod.
//!
//! Owns the rules for `volumeMounts` and `volumeDevices`. The volumes themselves are in `volume.rs`.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::volume::{Volumes, no_backsteps, validate_descending_path};
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Rules for the mounts and devices of a container.
pub(super) fn validate_mounts(container: &Value, volumes: &Volumes<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    let mounts = path.child("volumeMounts");
    let devices = paths_by_name(container, "volumeDevices", "devicePath");
    let device_paths: Distinct<&str> = devices.values().copied().collect();
    for (at, mount) in container.items("volumeMounts").iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = mounts.index(at);
        let (name, target) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(path.child("name"), &super::quoted(name)));
        }
        if target.is_empty() {
            errors.push(FieldError::required(path.child("mountPath"), ""));
        }
        if seen.is_repeated(target) {
            errors.push(FieldError::invalid_str(path.child("mountPath"), target, "must be unique"));
        }
        if devices.contains_key(name) {
            let detail = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid_str(path.child("name"), name, detail));
        }
        if device_paths.has(&target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid_str(path.child("mountPath"), target, detail));
        }
        errors.extend(validate_sub_paths(mount, &path, &mounts));
        errors.extend(validate_propagation(mount, container, &mounts.child("mountPropagation")));
        errors.extend(validate_recursion(mount, &mounts.child("recursiveReadOnly")));
    }
    errors.extend(validate_devices(container, volumes, &path.child("volumeDevices")));
    errors
}

fn validate_sub_paths(mount: &Value, path: &Path, list: &Path) -> FieldErrors {
    let (plain, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    let mut errors = validate_descending_path(plain, &list.child("subPath"));
    if !expression.is_empty() {
        if !plain.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid_str(path.child("subPathExpr"), expression, detail));
        }
        errors.extend(validate_descending_path(expression, &list.child("subPathExpr")));
    }
    errors
}

fn validate_propagation(mount: &Value, container: &Value, path: &Path) -> Option<FieldError> {
    let known = ["Bidirectional", "HostToContainer", "None"];
    let mode = mount.at("mountPropagation").as_str()?;
    if !known.contains(&mode) {
        return Some(FieldError::not_supported(path.clone(), mode, &known));
    }
    let detail = "Bidirectional mount propagation is available only to privileged containers";
    let privileged = container.at("securityContext").flag("privileged");
    (mode == known[0] && !privileged).then(|| FieldError::forbidden(path.clone(), detail))
}

/// A mount can be read-only with all that is mounted below it only if it is read-only itself and stays apart from the
/// mounts of its node.
fn validate_recursion(mount: &Value, path: &Path) -> FieldErrors {
    let known = ["Disabled", "Enabled", "IfPossible"];
    let mut errors = FieldErrors::new();
    match mount.at("recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                let detail = "may only be specified when readOnly is true";
                errors.push(FieldError::forbidden(path.clone(), detail));
            }
            if mount.at("mountPropagation").as_str().is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path.clone(), detail));
            }
        }
        Some(mode) => errors.push(FieldError::not_supported(path.clone(), mode, &known)),
    }
    errors
}

/// The path in the container of each volume of a list; of two with one name the last, as the reference remembers them.
fn paths_by_name<'a>(container: &'a Value, list: &str, field: &str) -> HashMap<&'a str, &'a str> {
    container.items(list).iter().map(|item| (item.text("name"), item.text(field))).collect()
}

fn validate_devices(container: &Value, volumes: &Volumes<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mounts = paths_by_name(container, "volumeMounts", "mountPath");
    let mount_paths: Distinct<&str> = mounts.values().copied().collect();
    let (mut names, mut paths) = (Distinct::new(), Distinct::new());
    for (at, device) in container.items("volumeDevices").iter().numbered() {
        let path = path.index(at);
        let (name, target) = (device.text("name"), device.text("devicePath"));
        let mut invalid = |field: &str, detail: &str| {
            errors.push(FieldError::invalid_str(path.child(field), device.text(field), detail));
        };
        if !name.is_empty() && names.is_repeated(name) {
            invalid("name", "must be unique");
        }
        if volumes
            .get(name)
            .is_some_and(|volume| !volume.has("persistentVolumeClaim") && !volume.has("ephemeral"))
        {
            invalid(
                "name",
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            );
        }
        if no_backsteps(target, &path).is_some() {
            invalid("devicePath", "can not contain backsteps ('..')");
        } else if paths.is_repeated(target) {
            invalid("devicePath", "must be unique");
        }
        if mounts.contains_key(name) {
            invalid("name", "must not already exist in volumeMounts");
        }
        if mount_paths.has(&target) {
            invalid("devicePath", "must not already exist as a path in volumeMounts");
        }
        let missing = ["name", "devicePath"].into_iter().filter(|field| device.text(field).is_empty());
        errors.extend(missing.map(|field| FieldError::required(path.child(field), "")));
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(path.child("name"), &super::quoted(name)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn mounts_refer_to_volumes() {
        let volume = json!({"name": "a", "emptyDir": {}});
        let container = json!({
            "volumeMounts": [
                {"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x", "subPath": "/abs"}
            ],
            "volumeDevices": [{"name": "a", "devicePath": "/dev/x"}]
        });
        let errors =
            validate_mounts(&container, &Volumes::from([(volume.text("name"), &volume)]), &Path::new("c"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "c.volumeMounts[0].name: Invalid value: \"a\": must not already exist in volumeDevices",
                "c.volumeMounts[1].name: Not found: \"b\"",
                "c.volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique",
                "c.volumeMounts.subPath: Invalid value: \"/abs\": must be a relative path",
                "c.volumeDevices[0].name: Invalid value: \"a\": can only use volume source type of \
                 PersistentVolumeClaim or Ephemeral for block mode",
                "c.volumeDevices[0].name: Invalid value: \"a\": must not already exist in volumeMounts",
            ]
        );
    }

    fn check(container: Value, expected: &[&str]) {
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {}}, {"name": "b", "persistentVolumeClaim": {}},
            {"name": "e", "emptyDir": {}}
        ]);
        let volumes =
            volumes.as_array().unwrap().iter().map(|volume| (volume.text("name"), volume)).collect();
        let errors = validate_mounts(&container, &volumes, &Path::new("c"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{container}");
    }

    #[test]
    fn a_mount_is_recursively_read_only_if_it_is_read_only_and_apart() {
        let with = |mut mount: Value| {
            crate::validate::tree::set(&mut mount, "name", "e");
            crate::validate::tree::set(&mut mount, "mountPath", "/x");
            json!({"volumeMounts": [mount]})
        };
        let (read, apart) = (
            "c.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            "c.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not \
             specified",
        );
        check(with(json!({"recursiveReadOnly": "Disabled"})), &[]);
        check(
            with(json!({"recursiveReadOnly": "Enabled", "readOnly": true, "mountPropagation": "None"})),
            &[],
        );
        check(with(json!({"recursiveReadOnly": "IfPossible"})), &[read]);
        check(
            with(json!({"recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"})),
            &[read, apart],
        );
        check(
            with(json!({"recursiveReadOnly": "x"})),
            &["c.volumeMounts.recursiveReadOnly: Unsupported value: \"x\": supported values: \"Disabled\", \
                 \"Enabled\", \"IfPossible\""],
        );
    }

    #[test]
    fn devices_are_distinct_from_each_other_and_from_mounts() {
        check(
            json!({"volumeDevices": [
                {"name": "a", "devicePath": "/d"}, {"name": "a", "devicePath": "/d"}, {"devicePath": "/x/../d"}
            ]}),
            &[
                "c.volumeDevices[1].name: Invalid value: \"a\": must be unique",
                "c.volumeDevices[1].devicePath: Invalid value: \"/d\": must be unique",
                "c.volumeDevices[2].devicePath: Invalid value: \"/x/../d\": can not contain backsteps ('..')",
                "c.volumeDevices[2].name: Required value",
                "c.volumeDevices[2].name: Not found: \"\"",
            ],
        );
        check(
            json!({
                "volumeMounts": [{"name": "e", "mountPath": "/d"}],
                "volumeDevices": [{"name": "b", "devicePath": "/d"}]
            }),
            &[
                "c.volumeMounts[0].mountPath: Invalid value: \"/d\": must not already exist as a path in volumeDevices",
                "c.volumeDevices[0].devicePath: Invalid value: \"/d\": must not already exist as a path in \
                 volumeMounts",
            ],
        );
    }
}
