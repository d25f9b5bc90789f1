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
        errors.extend(validate_sub_paths(mount, &path, &mounts));
        errors.extend(validate_propagation(mount, container, &mounts.child("mountPropagation")));
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

fn validate_devices(container: &Value, volumes: &Volumes<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut mounts: HashMap<&str, usize> = HashMap::new();
    for mount in container.items("volumeMounts") {
        *mounts.entry(mount.text("name")).or_default() += 1;
    }
    for (at, device) in container.items("volumeDevices").iter().numbered() {
        let path = path.index(at);
        let (name, target) = (device.text("name"), device.text("devicePath"));
        let volume = volumes.get(name);
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        match volume {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid_str(path.child("name"), name, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(path.child("name"), &super::quoted(name))),
        }
        if target.is_empty() {
            errors.push(FieldError::required(path.child("devicePath"), ""));
        }
        if no_backsteps(target, &path).is_some() {
            let detail = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid_str(path.child("devicePath"), target, detail));
        }
        let detail = "must not already exist in volumeMounts";
        let clashes = 0..mounts.get(name).copied().unwrap_or_default();
        errors.extend(clashes.map(|_| FieldError::invalid_str(path.child("name"), name, detail)));
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
                "c.volumeMounts[1].name: Not found: \"b\"",
                "c.volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique",
                "c.volumeMounts.subPath: Invalid value: \"/abs\": must be a relative path",
                "c.volumeDevices[0].name: Invalid value: \"a\": can only use volume source type of \
                 PersistentVolumeClaim or Ephemeral for block mode",
                "c.volumeDevices[0].name: Invalid value: \"a\": must not already exist in volumeMounts",
            ]
        );
    }
}
