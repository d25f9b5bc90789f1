//! The source of a volume: one of many kinds, with the fields that it needs.

use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use super::file::{validate_downward_file, validate_keyed, validate_mode, validate_projections};
use super::{validate_descending_path, validate_host_path};
use crate::kinds::Context;
use crate::kinds::pod::container::one_of;
use crate::kinds::pod::spec::Place;
use crate::kinds::storage::validate_driver_name;
use crate::kinds::volume_claim::validate_claim_spec;
use crate::kinds::volume_source::{
    PORTAL_NAME_LONG, in_byte, is_iscsi_name, iscsi_name_is_long, validate_absolute, validate_azure_disk,
    validate_fc, validate_flex_options, validate_flocker, validate_partition, validate_quobyte,
    validate_storageos_names,
};
use crate::validate::metadata::{invalid_each, validate_annotations, validate_labels};
use crate::validate::tree::{Tree, is_empty, sorted_entries};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The kinds of sources in the order in which the reference looks for them, with the texts and lists that each needs.
const SOURCES: [(&str, &[&str]); 30] = [
    ("emptyDir", &[]),
    ("hostPath", &[]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &[]),
    ("ephemeral", &[]),
    ("image", &[]),
];

/// Rules for the source of a volume: exactly one, with its fields.
pub(super) fn validate_source(
    context: &Context<'_>,
    volume: &Value,
    place: Place<'_>,
    path: &Path,
) -> FieldErrors {
    let mut given = SOURCES.into_iter().filter(|(kind, _)| volume.has(kind));
    let Some((kind, required)) = given.next() else {
        return FieldErrors::from(FieldError::required(path.clone(), "must specify a volume type"));
    };
    // The reference names this source otherwise where it is the only one.
    let shown = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
    let source_path = path.child(shown);
    let source = volume.at(kind);
    let missing = required.iter().filter(|field| source.is_empty_at(field));
    let mut errors: FieldErrors =
        missing.map(|field| FieldError::required(source_path.child(field), "")).collect();
    errors.extend(match kind {
        "ephemeral" => validate_ephemeral(context, source, &source_path),
        "flexVolume" => validate_flex_options(context, source, &source_path.child("options")),
        "image" => validate_image(source, place, &source_path),
        _ => validate_typed(kind, source, &source_path),
    });
    for (kind, _) in given {
        let shown = match kind {
            "cephfs" => "cephFS",
            // As the reference spells it.
            "downwardAPI" => "downwarAPI",
            _ => kind,
        };
        errors.push(FieldError::forbidden(path.child(shown), "may not specify more than 1 volume type"));
    }
    errors.extend(validate_name(volume, kind, place, &path.child("name")));
    errors
}

/// Rules for the name of a volume that depend on its source.
fn validate_name(volume: &Value, kind: &str, place: Place<'_>, path: &Path) -> FieldErrors {
    let name = volume.text("name");
    let mut errors = FieldErrors::new();
    if iscsi_name_is_long(volume.at("iscsi"), name) {
        errors.push(FieldError::invalid_str(path.clone(), name, PORTAL_NAME_LONG));
    }
    if let Some(claim) = place.claim_name(name).filter(|_| kind == "ephemeral" && !name.is_empty()) {
        let messages = names::dns1123_subdomain(&claim).into_iter();
        let messages =
            messages.map(|message| format!("PVC name {}: {message}", super::super::quoted(&claim)));
        errors.extend(invalid_each(path, name, messages.collect()));
    }
    errors
}

fn validate_typed(kind: &str, source: &Value, path: &Path) -> FieldErrors {
    match kind {
        "emptyDir" => validate_size(source, path).into_iter().collect(),
        "hostPath" => validate_host_path(source, path),
        "gitRepo" => validate_descending_path(source.text("directory"), &path.child("directory")),
        "gcePersistentDisk" | "awsElasticBlockStore" => validate_partition(source, path),
        "secret" | "configMap" => validate_keyed(source, path),
        "nfs" => validate_absolute(source.text("path"), &path.child("path")),
        "iscsi" => validate_iscsi(source, path),
        "flocker" => validate_flocker(source, path),
        "cinder" => validate_secret(source, path),
        "quobyte" => validate_quobyte(source, path),
        "downwardAPI" => {
            let mut errors: FieldErrors = validate_mode(source, "defaultMode", path).into_iter().collect();
            errors.extend(source.items("items").iter().flat_map(|file| validate_downward_file(file, path)));
            errors
        }
        "fc" => validate_fc(source, path),
        "azureDisk" => validate_azure_disk(source, path),
        "storageos" => {
            let mut errors = validate_storageos_names(source, path);
            errors.extend(validate_secret(source, path));
            errors
        }
        "projected" => {
            let mut errors: FieldErrors = validate_mode(source, "defaultMode", path).into_iter().collect();
            errors.extend(validate_projections(source, path));
            errors
        }
        "csi" => validate_csi(source, path),
        _ => FieldErrors::new(),
    }
}

fn validate_size(source: &Value, path: &Path) -> Option<FieldError> {
    let size = source.at("sizeLimit").as_str().and_then(Quantity::parse).unwrap_or_default();
    let detail = "SizeLimit field must be a valid resource quantity";
    size.is_negative().then(|| FieldError::forbidden(path.child("sizeLimit"), detail))
}

/// A secret of the pod's own namespace.
fn validate_secret(source: &Value, path: &Path) -> FieldErrors {
    let secret = source.at("secretRef");
    let is_nameless = !secret.is_null() && secret.text("name").is_empty();
    let error = || FieldError::required(path.child("secretRef").child("name"), "");
    is_nameless.then(error).into_iter().collect()
}

fn validate_iscsi(source: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let iqn = source.text("iqn");
    if !iqn.is_empty() {
        errors.extend(validate_iscsi_name(iqn, path.child("iqn")));
    }
    errors.extend(in_byte(source, "lun", path));
    let authenticates = source.flag("chapAuthDiscovery") || source.flag("chapAuthSession");
    if authenticates && source.at("secretRef").is_null() {
        errors.push(FieldError::required(path.child("secretRef"), ""));
    }
    if let Some(initiator) = source.at("initiatorName").as_str() {
        errors.extend(validate_iscsi_name(initiator, path.child("initiatorname")));
    }
    errors
}

fn validate_iscsi_name(name: &str, path: Path) -> Option<FieldError> {
    // few: three beginnings.
    let detail = if !["iqn", "eui", "naa"].iter().any(|beginning| name.starts_with(beginning)) {
        "must be valid format starting with iqn, eui, or naa"
    } else if !is_iscsi_name(name) {
        "must be valid format"
    } else {
        return None;
    };
    Some(FieldError::invalid_str(path, name, detail))
}

fn validate_csi(source: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_driver_name(source.text("driver"), &path.child("driver"));
    let secret = source.at("nodePublishSecretRef");
    if secret.is_null() {
        return errors;
    }
    let name = secret.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("nodePublishSecretRef").child("name"), ""));
    } else {
        // The reference reports this name on the source.
        errors.extend(invalid_each(&path.child("name"), name, names::dns1123_subdomain(name)));
    }
    errors
}

/// Metadata that the template of a claim may have; the rest is that of the claim made of it.
const TEMPLATE_METADATA: [&str; 2] = ["annotations", "labels"];

fn validate_ephemeral(context: &Context<'_>, source: &Value, path: &Path) -> FieldErrors {
    let (template, path) = (source.at("volumeClaimTemplate"), path.child("volumeClaimTemplate"));
    if template.is_null() {
        return FieldErrors::from(FieldError::required(path, ""));
    }
    let (metadata, metadata_path) = (template.at("metadata"), path.child("metadata"));
    let mut errors = validate_annotations(metadata.at("annotations"), &metadata_path.child("annotations"));
    errors.extend(validate_labels(metadata.at("labels"), &metadata_path.child("labels")));
    for (field, value) in sorted_entries(metadata) {
        if !TEMPLATE_METADATA.contains(&field) && !is_empty(value) {
            let shown = if field == "uid" { "uID" } else { field };
            errors.push(FieldError::forbidden(metadata_path.child(shown), "cannot be set"));
        }
    }
    errors.extend(validate_claim_spec(context, template.at("spec"), &path.child("spec")));
    errors
}

fn validate_image(source: &Value, place: Place<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    // The image of a template may be filled in later.
    if place.is_pod() && source.text("reference").is_empty() {
        errors.push(FieldError::required(path.child("reference"), ""));
    }
    errors.extend(one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], path));
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    fn check(mut volume: Value, expected: &[&str]) {
        crate::validate::tree::set(&mut volume, "name", "a");
        let metadata = json!({});
        let errors = validate_source(&CONTEXT, &volume, Place::Pod { metadata: &metadata }, &Path::new("v"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{volume}");
    }

    #[test]
    fn the_first_source_of_the_references_order_is_looked_at() {
        let more = "Forbidden: may not specify more than 1 volume type";
        check(
            json!({"cephfs": {}, "downwardAPI": {}, "emptyDir": {}, "image": {}}),
            &[&format!("v.cephFS: {more}"), &format!("v.downwarAPI: {more}"), &format!("v.image: {more}")],
        );
        check(
            json!({"gcePersistentDisk": {"pdName": "p", "partition": 256}}),
            &["v.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"],
        );
    }

    #[test]
    fn names_of_iscsi_have_a_form() {
        let iscsi = |iqn: &str, more: Value| {
            let mut source = json!({"targetPortal": "127.0.0.1", "iqn": iqn});
            for (field, value) in sorted_entries(&more) {
                crate::validate::tree::set(&mut source, field, value.clone());
            }
            json!({"iscsi": source})
        };
        let good = "iqn.2015-02.example.com:test";
        check(iscsi(good, json!({"lun": 255, "initiatorName": good})), &[]);
        check(
            iscsi("x", json!({"chapAuthSession": true})),
            &[
                "v.iscsi.iqn: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
                "v.iscsi.secretRef: Required value",
            ],
        );
        check(
            iscsi("eui.1", json!({"lun": 256, "initiatorName": "naa"})),
            &[
                "v.iscsi.iqn: Invalid value: \"eui.1\": must be valid format",
                "v.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                "v.iscsi.initiatorname: Invalid value: \"naa\": must be valid format",
            ],
        );
        let long = "h".repeat(63);
        check(
            iscsi(good, json!({"targetPortal": long, "initiatorName": good})),
            &[&format!("v.name: Invalid value: \"a\": {PORTAL_NAME_LONG}")],
        );
    }

    #[test]
    fn sources_need_their_fields() {
        for (volume, expected) in [
            (
                json!({"gitRepo": {"directory": "/x"}}),
                vec![
                    "gitRepo.repository: Required value",
                    "gitRepo.directory: Invalid value: \"/x\": must be a relative path",
                ],
            ),
            (json!({"rbd": {}}), vec!["rbd.monitors: Required value", "rbd.image: Required value"]),
            (
                json!({"cinder": {"volumeID": "v", "secretRef": {}}}),
                vec!["cinder.secretRef.name: Required value"],
            ),
            (json!({"quobyte": {"registry": "r:1"}}), vec!["quobyte.volume: Required value"]),
            (
                json!({"storageos": {"volumeName": "A_"}}),
                vec![
                    "storageos.volumeName: Invalid value: \"A_\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
                 or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
            (
                json!({"csi": {"driver": "d", "nodePublishSecretRef": {}}}),
                vec!["csi.nodePublishSecretRef.name: Required value"],
            ),
            (
                json!({"image": {"pullPolicy": "x"}}),
                vec![
                    "image.reference: Required value",
                    "image.pullPolicy: Unsupported value: \"x\": supported values: \"Always\", \"IfNotPresent\", \
                 \"Never\"",
                ],
            ),
            (json!({"ephemeral": {}}), vec!["ephemeral.volumeClaimTemplate: Required value"]),
            (
                json!({"projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 600}}]}}),
                vec!["projected.path: Required value"],
            ),
        ] {
            let expected: Vec<String> = expected.into_iter().map(|text| format!("v.{text}")).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(volume, &expected);
        }
    }
}
