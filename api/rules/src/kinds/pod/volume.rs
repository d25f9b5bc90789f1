//! Volumes of a pod: one source each, with the fields the source needs.
//!
//! Owns the rules for volumes and for paths within them. The mounts of containers are in `mount.rs`.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::kinds::pod::environment::{validate_field_reference, validate_resource_reference};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, sorted_entries};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Required texts of each source.
const REQUIRED: [(&str, &[&str]); 17] = [
    ("secret", &["secretName"]),
    ("configMap", &["name"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("nfs", &["server", "path"]),
    ("csi", &["driver"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
];

/// The volumes of a pod that mounts may refer to, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// Rules for the volumes of a pod. Returns also the valid volumes, to which mounts may refer.
pub(super) fn validate_volumes<'a>(volumes: &'a [Value], path: &Path) -> (Volumes<'a>, FieldErrors) {
    let mut errors = FieldErrors::new();
    let mut valid = Volumes::new();
    for (at, volume) in volumes.iter().numbered() {
        let path = path.index(at);
        let (name, name_path) = (volume.text("name"), path.child("name"));
        let mut own = validate_source(volume, &path);
        if name.is_empty() {
            own.push(FieldError::required(name_path.clone(), ""));
        } else {
            own.extend(invalid_each(&name_path, name, names::dns1123_label(name)));
        }
        if valid.contains_key(name) {
            own.push(FieldError::duplicate(name_path, &super::quoted(name)));
        }
        if own.is_empty() {
            valid.insert(name, volume);
        }
        errors.extend(own);
    }
    (valid, errors)
}

/// Checks a path below a directory: relative, and without `..`.
pub(super) fn validate_descending_path(target: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if target.starts_with('/') {
        errors.push(FieldError::invalid_str(path.clone(), target, "must be a relative path"));
    }
    errors.extend(no_backsteps(target, path));
    errors
}

/// The error of a path with a part `..`.
pub(crate) fn no_backsteps(target: &str, path: &Path) -> Option<FieldError> {
    // once: one pass over a path.
    let steps_back = target.split('/').any(|part| part == "..");
    steps_back.then(|| FieldError::invalid_str(path.clone(), target, "must not contain '..'"))
}

fn validate_source(volume: &Value, path: &Path) -> FieldErrors {
    let sources: Vec<(&str, &Value)> = sorted_entries(volume)
        .into_iter()
        .filter(|(name, source)| *name != "name" && !source.is_null())
        .collect();
    let Some((kind, source)) = sources.first() else {
        return FieldErrors::from(FieldError::required(path.clone(), "must specify a volume type"));
    };
    let mut errors = validate_typed(kind, source, &path.child(kind));
    let more = "may not specify more than 1 volume type";
    errors.extend(sources[1..].iter().map(|(kind, _)| FieldError::forbidden(path.child(kind), more)));
    errors
}

fn validate_typed(kind: &str, source: &Value, path: &Path) -> FieldErrors {
    let required = REQUIRED.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, fields)| fields);
    let missing = required.iter().filter(|field| source.text(field).is_empty());
    let mut errors: FieldErrors = missing.map(|field| FieldError::required(path.child(field), "")).collect();
    match kind {
        "emptyDir" => {
            let size = source.at("sizeLimit").as_str().and_then(Quantity::parse).unwrap_or_default();
            if size.is_negative() {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(path.child("sizeLimit"), detail));
            }
        }
        "hostPath" => errors.extend(validate_host_path(source, path)),
        "nfs" if !source.text("path").starts_with('/') => {
            let detail = "must be an absolute path";
            errors.push(FieldError::invalid_str(path.child("path"), source.text("path"), detail));
        }
        "secret" | "configMap" => errors.extend(validate_keyed(source, path)),
        "downwardAPI" => {
            errors.extend(validate_mode(source, "defaultMode", path));
            errors.extend(source.items("items").iter().flat_map(|file| validate_downward_file(file, path)));
        }
        "projected" => {
            errors.extend(validate_mode(source, "defaultMode", path));
            errors.extend(validate_projections(source, path));
        }
        "ephemeral" if !source.has("volumeClaimTemplate") => {
            errors.push(FieldError::required(path.child("volumeClaimTemplate"), ""));
        }
        _ => {}
    }
    errors
}

/// Rules for a path of the host, and for what it leads to.
pub(crate) fn validate_host_path(source: &Value, path: &Path) -> FieldErrors {
    let target = source.text("path");
    if target.is_empty() {
        return FieldErrors::from(FieldError::required(path.child("path"), ""));
    }
    let mut errors: FieldErrors = no_backsteps(target, &path.child("path")).into_iter().collect();
    let kind = source.text("type");
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &HOST_PATH_TYPES));
    }
    errors
}

fn validate_keyed(source: &Value, path: &Path) -> FieldErrors {
    let mut errors: FieldErrors = validate_mode(source, "defaultMode", path).into_iter().collect();
    let items = path.child("items");
    for (at, item) in source.items("items").iter().numbered() {
        errors.extend(validate_key_to_path(item, &items.index(at)));
    }
    errors
}

fn validate_key_to_path(item: &Value, path: &Path) -> FieldErrors {
    let missing = ["key", "path"].into_iter().filter(|field| item.text(field).is_empty());
    let mut errors: FieldErrors = missing.map(|field| FieldError::required(path.child(field), "")).collect();
    errors.extend(validate_file_path(item.text("path"), &path.child("path")));
    errors.extend(validate_mode(item, "mode", path));
    errors
}

fn validate_file_path(target: &str, path: &Path) -> FieldErrors {
    let mut errors = validate_descending_path(target, path);
    if target.starts_with("..") && !target.starts_with("../") && target != ".." {
        errors.push(FieldError::invalid_str(path.clone(), target, "must not start with '..'"));
    }
    errors
}

fn validate_mode(source: &Value, field: &str, path: &Path) -> Option<FieldError> {
    let mode = source.int(field).filter(|mode| !(0..=0o777).contains(mode))?;
    Some(FieldError::invalid(path.child(field), &mode.to_string(), FILE_MODE))
}

// The reference reports a file of a downward volume on the volume, not on the item.
fn validate_downward_file(file: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if file.text("path").is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    errors.extend(validate_file_path(file.text("path"), &path.child("path")));
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if !field.is_null() {
        errors.extend(validate_field_reference(field, true, &path.child("fieldRef")));
        if !resource.is_null() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid_str(path.clone(), "resource", detail));
        }
    } else if resource.is_null() {
        errors.push(FieldError::required(path.clone(), "one of fieldRef and resourceFieldRef is required"));
    } else {
        errors.extend(validate_resource_reference(resource, true, &path.child("resourceFieldRef")));
    }
    errors.extend(validate_mode(file, "mode", path));
    errors
}

fn validate_projections(projected: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    let sources = path.child("sources");
    for (at, source) in projected.items("sources").iter().numbered() {
        let source_path = sources.index(at);
        let given: Vec<(&str, &Value)> =
            sorted_entries(source).into_iter().filter(|(_, source)| !source.is_null()).collect();
        for (kind, source) in &given {
            errors.extend(validate_projection(kind, source, &source_path.child(kind), path));
            for item in source.items("items").iter().filter(|item| !item.text("path").is_empty()) {
                if seen.is_repeated(item.text("path")) {
                    let shown = if *kind == "downwardAPI" { item.text("path") } else { source.text("name") };
                    errors.push(FieldError::invalid_str(path.clone(), shown, "conflicting duplicate paths"));
                }
            }
        }
        if given.len() > 1 {
            errors.push(FieldError::forbidden(source_path, "may not specify more than 1 volume type"));
        }
    }
    errors
}

fn validate_projection(kind: &str, source: &Value, path: &Path, volume: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match kind {
        "secret" | "configMap" => {
            if source.text("name").is_empty() {
                errors.push(FieldError::required(path.child("name"), ""));
            }
            errors.extend(validate_keyed(source, path));
        }
        "downwardAPI" => {
            errors.extend(source.items("items").iter().flat_map(|file| validate_downward_file(file, path)));
        }
        "serviceAccountToken" => {
            let seconds = source.int("expirationSeconds").unwrap_or(0);
            let detail = if seconds < 600 {
                Some("may not specify a duration less than 10 minutes")
            } else if seconds > 1 << 32 {
                Some("may not specify a duration larger than 2^32 seconds")
            } else {
                None
            };
            let expiration = path.child("expirationSeconds");
            errors.extend(detail.map(|detail| FieldError::invalid(expiration, &seconds.to_string(), detail)));
            if source.text("path").is_empty() {
                errors.push(FieldError::required(volume.child("path"), ""));
            }
            errors.extend(validate_file_path(source.text("path"), &volume.child("path")));
        }
        _ => {}
    }
    errors
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn check(volumes: Value, expected: &[&str]) {
        let (_, errors) = validate_volumes(volumes.as_array().unwrap(), &Path::new("v"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{volumes}");
    }

    #[test]
    fn each_volume_has_a_name_and_one_source() {
        check(json!([{"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s"}}]), &[]);
        check(json!([{"name": "a"}]), &["v[0]: Required value: must specify a volume type"]);
        check(json!([{"emptyDir": {}}]), &["v[0].name: Required value"]);
        check(
            json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
            &["v[1].name: Duplicate value: \"a\""],
        );
        check(
            json!([{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
            &["v[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        );
    }

    #[test]
    fn sources_are_complete() {
        for (source, expected) in [
            (json!({"secret": {}}), &["v[0].secret.secretName: Required value"][..]),
            (
                json!({"emptyDir": {"sizeLimit": "-1"}}),
                &["v[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
            ),
            (
                json!({"hostPath": {"path": "/a/../b"}}),
                &["v[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
            ),
            (
                json!({"configMap": {"name": "c", "defaultMode": 512, "items": [{"key": "k", "path": "/p"}]}}),
                &[
                    "v[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both \
                     inclusive",
                    "v[0].configMap.items[0].path: Invalid value: \"/p\": must be a relative path",
                ],
            ),
            (
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 10}}]}}),
                &[
                    "v[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 10: may not specify \
                   a duration less than 10 minutes",
                ],
            ),
            (
                json!({"downwardAPI": {"items": [{"path": "p"}]}}),
                &["v[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
            ),
        ] {
            let mut volume = source;
            crate::validate::tree::set(&mut volume, "name", "a");
            check(json!([volume]), expected);
        }
    }
}
