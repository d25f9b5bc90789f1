//! Sources of persistent volumes: one for each volume, with the fields that it needs.

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::volume::{no_backsteps, validate_host_path};
use crate::kinds::storage::validate_driver_name;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, shown};
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

const CACHING_MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
const DISK_KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
const MANAGED_DISK: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
const HOST_AND_PORT: &str = "must be a host:port pair or multiple pairs separated by commas";

/// `targetPortal` and `initiatorName` as the reference names them in some errors.
const PORTAL_SHOWN: &str = "targetportal";
const INITIATOR_SHOWN: &str = "initiatorname";

/// Longest name of a volume and its portal, in bytes, where an initiator has a name.
const PORTAL_NAME_MAX: usize = 64;
/// Longest tenant of a Quobyte volume, in bytes.
const TENANT_MAX: usize = 64;

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
        "gcePersistentDisk" | "awsElasticBlockStore" => in_byte(value, "partition", path),
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
        "storageos" => validate_storageos(value, path),
        "csi" => validate_csi(value, path),
        _ => FieldErrors::new(),
    });
    errors
}

fn in_byte(value: &Value, field: &str, path: &Path) -> FieldErrors {
    let number = value.int(field).filter(|number| !(0..=255).contains(number));
    let error = |number: i64| {
        FieldError::invalid(path.child(field), &number.to_string(), "must be between 0 and 255, inclusive")
    };
    number.map(error).into_iter().collect()
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

fn validate_flocker(value: &Value, path: &Path) -> FieldErrors {
    let (name, uuid) = (value.text("datasetName"), value.text("datasetUUID"));
    let mut errors = FieldErrors::new();
    if name.is_empty() && uuid.is_empty() {
        let detail = "one of datasetName and datasetUUID is required";
        errors.push(FieldError::required(path.clone(), detail));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid_str(path.clone(), "resource", detail));
    }
    // once: one pass over a name.
    if name.contains('/') {
        errors.push(FieldError::invalid_str(path.child("datasetName"), name, "must not contain '/'"));
    }
    errors
}

fn validate_absolute(target: &str, path: &Path) -> FieldErrors {
    let error = || FieldError::invalid_str(path.clone(), target, "must be an absolute path");
    (!target.starts_with('/')).then(error).into_iter().collect()
}

fn validate_quobyte(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let registry = value.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(path.child("registry"), HOST_AND_PORT));
    } else if value.text("tenant").len() > TENANT_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(path.child("tenant"), detail));
    } else {
        let bad = registry.split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(bad.map(|_| FieldError::invalid_str(path.child("registry"), registry, HOST_AND_PORT)));
    }
    if value.text("volume").is_empty() {
        errors.push(FieldError::required(path.child("volume"), ""));
    }
    errors
}

/// A host and a port with a colon between them; an address with colons stands in brackets.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_plain = |text: &str, separators: &[char]| !text.contains(separators);
    is_plain(port, &['[', ']'])
        && inner.map_or(is_plain(host, &['[', ']', ':']), |host| is_plain(host, &['[', ']']))
}

fn validate_iscsi(value: &Value, name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (portal, initiator) = (value.text("targetPortal"), value.at("initiatorName").as_str());
    if initiator.is_some() && name.len() + 1 + portal.len() > PORTAL_NAME_MAX {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid_str(path.child(PORTAL_SHOWN), portal, detail));
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

/// `iqn.2001-04.com.example:storage`, `eui.` with sixteen letters or digits, or `naa.` with thirty-two.
fn is_iscsi_name(name: &str) -> bool {
    let is_word = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("eui.") {
        return is_word(rest, 16);
    }
    if let Some(rest) = name.strip_prefix("naa.") {
        return is_word(rest, 32);
    }
    let parts = name.strip_prefix("iqn.").and_then(|rest| rest.split_once(':'));
    let Some((authority, own)) = parts else { return false };
    let is_date = |date: &[u8]| match date {
        [year @ .., b'-', _, _, b'.'] if year.len() == 4 => {
            year.iter().chain(&date[5..7]).all(u8::is_ascii_digit)
        }
        _ => false,
    };
    let Some((date, domain)) = authority.as_bytes().split_at_checked(8) else { return false };
    let is_of_domain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_own =
        |letter: char| !letter.is_whitespace() && !matches!(letter, ',' | ';' | '*' | '&' | '$' | '|');
    is_date(date)
        && !domain.is_empty()
        && domain.iter().all(is_of_domain)
        && !own.is_empty()
        && own.chars().all(is_own)
}

/// A secret whose namespace the source must name.
fn validate_owned_secret(secret: &Value, path: &Path) -> FieldErrors {
    if secret.is_null() {
        return FieldErrors::new();
    }
    let missing = ["name", "namespace"].into_iter().filter(|field| secret.text(field).is_empty());
    missing.map(|field| FieldError::required(path.child(field), "")).collect()
}

fn validate_fc(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (names, ids) = (value.is_empty_at("targetWWNs"), value.is_empty_at("wwids"));
    let names_path = path.child("targetWWNs");
    if names && ids {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(names_path.clone(), detail));
    }
    if !names && !ids {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(names_path, &shown(value.at("targetWWNs")), detail));
    }
    if !names && !value.has("lun") {
        errors.push(FieldError::required(path.child("lun"), "lun is required if targetWWNs is specified"));
    } else if !names {
        errors.extend(in_byte(value, "lun", path));
    }
    errors
}

fn validate_flex_options(context: &Context<'_>, value: &Value, path: &Path) -> FieldErrors {
    let (labels, groups) = (context.brand.label_domain, context.brand.group_domain);
    let is_reserved = |option: &str| {
        let namespace = option.split_once('/').map_or(option, |(namespace, _)| namespace).to_lowercase();
        let below = |domain: &str| {
            namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        below(labels) || below(groups)
    };
    let reserved = value.entries("options").into_iter().filter(|(option, _)| is_reserved(option));
    let detail = format!("{labels} and {groups} namespaces are reserved");
    reserved.map(|(option, _)| FieldError::invalid_str(path.key(option), option, &detail)).collect()
}

fn validate_azure_file(value: &Value, path: &Path) -> FieldErrors {
    let is_blank = value.at("secretNamespace").as_str() == Some("");
    is_blank.then(|| FieldError::required(path.child("secretNamespace"), "")).into_iter().collect()
}

fn validate_azure_disk(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (field, supported) in [("cachingMode", CACHING_MODES), ("kind", DISK_KINDS)] {
        // few: three values.
        if let Some(given) = value.at(field).as_str().filter(|given| !supported.contains(given)) {
            errors.push(FieldError::not_supported(path.child(field), given, &supported));
        }
    }
    let uri = value.text("diskURI");
    let (beginning, example) = match value.at("kind").as_str() {
        None => return errors,
        Some("Managed") => ("/subscriptions/", MANAGED_DISK),
        Some(_) => ("https://", BLOB_DISK),
    };
    if !uri.starts_with(beginning) {
        errors.push(FieldError::not_supported(path.child("diskURI"), uri, &[example]));
    }
    errors
}

fn validate_storageos(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["volumeName", "volumeNamespace"] {
        let name = value.text(field);
        if !name.is_empty() {
            errors.extend(invalid_each(&path.child(field), name, names::dns1123_label(name)));
        }
    }
    errors.extend(validate_owned_secret(value.at("secretRef"), &path.child("secretRef")));
    errors
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
