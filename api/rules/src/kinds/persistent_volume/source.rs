//! Sources of persistent volumes: one for each volume, with the fields that it needs.

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::volume::{no_backsteps, validate_host_path};
use crate::kinds::storage::validate_driver_name;
use crate::kinds::volume_source::{
    PORTAL_NAME_LONG, in_byte, is_iscsi_name, iscsi_name_is_long, validate_absolute, validate_azure_disk,
    validate_fc, validate_flex_options, validate_flocker, validate_partition, validate_quobyte,
    validate_storageos_names,
};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// A kind of source.
pub(super) struct Source {
    /// Its member of the spec.
    pub(super) field: &'static str,
    /// The member as the reference names it in errors.
    shown: &'static str,
    /// The texts and lists that must not be empty.
    required: &'static [&'static str],
    /// Whether a volume of this kind may have mount options in an annotation.
    pub(super) mounts_options: bool,
}

const fn source(field: &'static str, required: &'static [&'static str], mounts_options: bool) -> Source {
    Source { field, shown: field, required, mounts_options }
}

/// The sources in the order in which the reference looks for them.
pub(super) const SOURCES: [Source; 22] = [
    source("hostPath", &[], false),
    Source { shown: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], true) },
    source("awsElasticBlockStore", &["volumeID"], true),
    source("glusterfs", &["endpoints", "path"], true),
    source("flocker", &[], false),
    source("nfs", &["server", "path"], true),
    source("rbd", &["monitors", "image"], true),
    source("quobyte", &[], true),
    source("cephfs", &["monitors"], true),
    source("iscsi", &["targetPortal"], true),
    source("cinder", &["volumeID"], true),
    source("fc", &[], false),
    source("flexVolume", &["driver"], false),
    source("azureFile", &["secretName", "shareName"], true),
    source("vsphereVolume", &["volumePath"], true),
    source("photonPersistentDisk", &["pdID"], true),
    source("portworxVolume", &["volumeID"], false),
    source("azureDisk", &["diskName", "diskURI"], true),
    source("scaleIO", &["gateway", "system", "volumeName"], false),
    source("local", &["path"], false),
    source("storageos", &["volumeName"], false),
    source("csi", &[], false),
];

/// `targetPortal` and `initiatorName` as the reference names them in some errors.
const PORTAL_SHOWN: &str = "targetportal";
const INITIATOR_SHOWN: &str = "initiatorname";

/// The first source of a volume's spec.
pub(super) fn source_of(spec: &Value) -> Option<&'static Source> {
    // few: the kinds of sources.
    SOURCES.iter().find(|source| spec.has(source.field))
}

/// Rules for the source of the volume `name`: exactly one, with its fields.
pub(super) fn validate_sources(context: &Context<'_>, spec: &Value, name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut is_first = true;
    for source in SOURCES.iter().filter(|source| spec.has(source.field)) {
        if is_first || source.field == "flexVolume" {
            errors.extend(validate_source(
                context,
                source,
                spec.at(source.field),
                name,
                &path.child(source.shown),
            ));
            // A directory of a node is of use on that node alone.
            if source.field == "local" && !spec.has("nodeAffinity") {
                let detail = "Local volume requires node affinity";
                errors.push(FieldError::required(path.child("nodeAffinity"), detail));
            }
        } else {
            let shown = if source.field == "cephfs" { "cephFS" } else { source.field };
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(path.child(shown), detail));
        }
        is_first = false;
    }
    if is_first {
        errors.push(FieldError::required(path.clone(), "must specify a volume type"));
    }
    errors
}

fn validate_source(
    context: &Context<'_>,
    source: &Source,
    value: &Value,
    name: &str,
    path: &Path,
) -> FieldErrors {
    let missing = source.required.iter().filter(|field| value.is_empty_at(field));
    let mut errors: FieldErrors = missing.map(|field| FieldError::required(path.child(field), "")).collect();
    errors.extend(match source.field {
        "hostPath" => validate_host_path(value, path),
        "gcePersistentDisk" | "awsElasticBlockStore" => validate_partition(value, path),
        "glusterfs" => validate_glusterfs(value, path),
        "flocker" => validate_flocker(value, path),
        "nfs" => validate_absolute(value.text("path"), &path.child("path")),
        "quobyte" => validate_quobyte(value, path),
        "iscsi" => validate_iscsi(value, name, path),
        "cinder" => validate_owned_secret(value.at("secretRef"), &path.child("secretRef")),
        "fc" => validate_fc(value, path),
        "flexVolume" => validate_flex_options(context, value, &path.child("options")),
        "azureFile" => validate_azure_file(value, path),
        "azureDisk" => validate_azure_disk(value, path),
        "local" => no_backsteps(value.text("path"), &path.child("path")).into_iter().collect(),
        "storageos" => {
            let mut errors = validate_storageos_names(value, path);
            errors.extend(validate_owned_secret(value.at("secretRef"), &path.child("secretRef")));
            errors
        }
        "csi" => validate_csi(value, path),
        _ => FieldErrors::new(),
    });
    errors
}

fn validate_glusterfs(value: &Value, path: &Path) -> FieldErrors {
    let path = path.child("endpointsNamespace");
    match value.at("endpointsNamespace").as_str() {
        None => FieldErrors::new(),
        Some("") => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            FieldErrors::from(FieldError::invalid_str(path, "", detail))
        }
        Some(namespace) => invalid_each(&path, namespace, names::dns1123_label(namespace)),
    }
}

fn validate_iscsi(value: &Value, name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (portal, initiator) = (value.text("targetPortal"), value.at("initiatorName").as_str());
    if iscsi_name_is_long(value, name) {
        errors.push(FieldError::invalid_str(path.child(PORTAL_SHOWN), portal, PORTAL_NAME_LONG));
    }
    match value.text("iqn") {
        "" => errors.push(FieldError::required(path.child("iqn"), "")),
        iqn if !is_iscsi_name(iqn) => {
            errors.push(FieldError::invalid_str(path.child("iqn"), iqn, "must be valid format"));
        }
        _ => {}
    }
    errors.extend(in_byte(value, "lun", path));
    let secret = value.at("secretRef");
    if secret.is_null() && (value.flag("chapAuthDiscovery") || value.flag("chapAuthSession")) {
        errors.push(FieldError::required(path.child("secretRef"), ""));
    }
    if !secret.is_null() && secret.text("name").is_empty() {
        errors.push(FieldError::required(path.child("secretRef").child("name"), ""));
    }
    if let Some(initiator) = initiator.filter(|name| !is_iscsi_name(name)) {
        errors.push(FieldError::invalid_str(path.child(INITIATOR_SHOWN), initiator, "must be valid format"));
    }
    errors
}

/// A secret whose namespace the source must name.
fn validate_owned_secret(secret: &Value, path: &Path) -> FieldErrors {
    if secret.is_null() {
        return FieldErrors::new();
    }
    let missing = ["name", "namespace"].into_iter().filter(|field| secret.text(field).is_empty());
    missing.map(|field| FieldError::required(path.child(field), "")).collect()
}

fn validate_azure_file(value: &Value, path: &Path) -> FieldErrors {
    let is_blank = value.at("secretNamespace").as_str() == Some("");
    is_blank.then(|| FieldError::required(path.child("secretNamespace"), "")).into_iter().collect()
}

fn validate_csi(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_driver_name(value.text("driver"), &path.child("driver"));
    if value.text("volumeHandle").is_empty() {
        errors.push(FieldError::required(path.child("volumeHandle"), ""));
    }
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if value.has(field) {
            errors.extend(validate_csi_secret(value.at(field), &path.child(field)));
        }
    }
    errors
}

fn validate_csi_secret(secret: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_owned_secret(secret, path);
    let (name, namespace) = (secret.text("name"), secret.text("namespace"));
    if !name.is_empty() {
        errors.extend(invalid_each(&path.child("name"), name, names::dns1123_subdomain(name)));
    }
    if !namespace.is_empty() {
        errors.extend(invalid_each(&path.child("namespace"), namespace, names::dns1123_label(namespace)));
    }
    errors
}
