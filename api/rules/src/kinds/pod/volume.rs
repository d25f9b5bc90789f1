//! Volumes of a pod: one source each, with the fields the source needs.
//!
//! Owns the rules for volumes and for paths within them. The mounts of containers are in `mount.rs`.

mod file;
mod source;

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::spec::Place;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// The volumes of a pod that mounts may refer to, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// Rules for the volumes of a pod. Returns also the valid volumes, to which mounts may refer.
pub(super) fn validate_volumes<'a>(
    context: &Context<'_>,
    volumes: &'a [Value],
    place: Place<'_>,
    path: &Path,
) -> (Volumes<'a>, FieldErrors) {
    let mut errors = FieldErrors::new();
    let mut valid = Volumes::new();
    let made: Distinct<String> = volumes
        .iter()
        .filter(|volume| volume.has("ephemeral"))
        .filter_map(|volume| place.claim_name(volume.text("name")))
        .collect();
    for (at, volume) in volumes.iter().numbered() {
        let path = path.index(at);
        let (name, name_path) = (volume.text("name"), path.child("name"));
        let mut own = source::validate_source(context, volume, place, &path);
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
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        if !claim.is_empty() && made.has(&claim.to_owned()) {
            let path = path.child("persistentVolumeClaim").child("claimName");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid_str(path, claim, detail));
        }
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

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    fn check(volumes: Value, expected: &[&str]) {
        check_in(Place::Template, volumes, expected);
    }

    fn check_in(place: Place<'_>, volumes: Value, expected: &[&str]) {
        let (_, errors) = validate_volumes(&CONTEXT, volumes.as_array().unwrap(), place, &Path::new("v"));
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

    #[test]
    fn claims_of_ephemeral_volumes_are_named_after_their_pod() {
        let template = json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}
        }});
        let volumes = json!([
            {"name": "a", "ephemeral": {"volumeClaimTemplate": template}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "p-a"}}
        ]);
        check(volumes.clone(), &[]);
        let metadata = json!({"name": "p"});
        check_in(
            Place::Pod { metadata: &metadata },
            volumes.clone(),
            &[
                "v[1].persistentVolumeClaim.claimName: Invalid value: \"p-a\": must not reference a PVC that gets created \
               for an ephemeral volume",
            ],
        );
        let metadata = json!({"name": "p".repeat(252)});
        let name = "p".repeat(252);
        check_in(
            Place::Pod { metadata: &metadata },
            json!([volumes[0]]),
            &[&format!(
                "v[0].name: Invalid value: \"a\": PVC name \"{name}-a\": must be no more than 253 characters"
            )],
        );
        check(
            json!([{"name": "a", "ephemeral": {"volumeClaimTemplate": {
                "metadata": {"labels": {"a": "b"}, "name": "x", "uid": "u"}, "spec": template["spec"]
            }}}]),
            &[
                "v[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                "v[0].ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set",
            ],
        );
    }
}
