//! Rules for sources of volumes that persistent volumes and the volumes of pods share.

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

const CACHING_MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
const DISK_KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
const MANAGED_DISK: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
const HOST_AND_PORT: &str = "must be a host:port pair or multiple pairs separated by commas";

/// Longest name of a volume and its portal, in bytes, where an initiator has a name.
const PORTAL_NAME_MAX: usize = 64;
/// The error about a longer one.
pub(crate) const PORTAL_NAME_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
    characters if iscsi.initiatorName is specified.";
/// Longest tenant of a Quobyte volume, in bytes.
const TENANT_MAX: usize = 64;

/// Checks a number that is stored in a byte.
pub(crate) fn in_byte(value: &Value, field: &str, path: &Path) -> FieldErrors {
    let number = value.int(field).filter(|number| !(0..=255).contains(number));
    let error = |number: i64| {
        FieldError::invalid(path.child(field), &number.to_string(), "must be between 0 and 255, inclusive")
    };
    number.map(error).into_iter().collect()
}

/// Checks the number of a partition; without one it is 0. The reference's message leaves out that 0 is allowed.
pub(crate) fn validate_partition(value: &Value, path: &Path) -> FieldErrors {
    let number = value.int("partition").filter(|number| !(0..=255).contains(number));
    let detail = "must be between 1 and 255, inclusive";
    let error = |number: i64| FieldError::invalid(path.child("partition"), &number.to_string(), detail);
    number.map(error).into_iter().collect()
}

/// Whether the initiator of an iSCSI volume has a name, and the volume's name with its portal is too long for that.
pub(crate) fn iscsi_name_is_long(value: &Value, name: &str) -> bool {
    let length = name.len() + 1 + value.text("targetPortal").len();
    value.has("initiatorName") && length > PORTAL_NAME_MAX
}

/// A Flocker dataset goes by its name or by its UUID.
pub(crate) fn validate_flocker(value: &Value, path: &Path) -> FieldErrors {
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

/// Checks that a path starts at the root.
pub(crate) fn validate_absolute(target: &str, path: &Path) -> FieldErrors {
    let error = || FieldError::invalid_str(path.clone(), target, "must be an absolute path");
    (!target.starts_with('/')).then(error).into_iter().collect()
}

/// A Quobyte volume names its registries and itself.
pub(crate) fn validate_quobyte(value: &Value, path: &Path) -> FieldErrors {
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

/// `iqn.2001-04.com.example:storage`, `eui.` with sixteen letters or digits, or `naa.` with thirty-two.
pub(crate) fn is_iscsi_name(name: &str) -> bool {
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

/// A volume of Fibre Channel goes by its target's names and a number, or by its world wide identifiers.
pub(crate) fn validate_fc(value: &Value, path: &Path) -> FieldErrors {
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

/// Options of a driver, which must not be in the namespaces of the system.
pub(crate) fn validate_flex_options(context: &Context<'_>, value: &Value, path: &Path) -> FieldErrors {
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

/// An Azure disk has a mode and a kind, and an address of that kind.
pub(crate) fn validate_azure_disk(value: &Value, path: &Path) -> FieldErrors {
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

/// The names of a StorageOS volume and of its namespace there.
pub(crate) fn validate_storageos_names(value: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["volumeName", "volumeNamespace"] {
        let name = value.text(field);
        if !name.is_empty() {
            errors.extend(invalid_each(&path.child(field), name, names::dns1123_label(name)));
        }
    }
    errors
}
