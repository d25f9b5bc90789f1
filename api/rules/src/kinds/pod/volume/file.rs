//! Files of volumes that hold configuration: of secrets, maps and fields of the pod, one source or several joined.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::validate_descending_path;
use crate::kinds::pod::reference::{validate_field_reference, validate_resource_reference};
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
/// Sources of a projected volume, in the reference's order of validation.
const PROJECTIONS: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];

/// Rules for the items of a secret or a map that become files, and for the mode of the files.
pub(super) fn validate_keyed(source: &Value, path: &Path) -> FieldErrors {
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

/// Checks the mode of files.
pub(super) fn validate_mode(source: &Value, field: &str, path: &Path) -> Option<FieldError> {
    let mode = source.int(field).filter(|mode| !(0..=0o777).contains(mode))?;
    Some(FieldError::invalid(path.child(field), &mode.to_string(), FILE_MODE))
}

/// Rules for a file with a field of the pod. The reference reports it on the volume, not on the item.
pub(super) fn validate_downward_file(file: &Value, path: &Path) -> FieldErrors {
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

/// Rules for the sources that a volume joins.
pub(super) fn validate_projections(projected: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    let sources = path.child("sources");
    for (at, source) in projected.items("sources").iter().numbered() {
        let source_path = sources.index(at);
        let given: Vec<(&str, &Value)> = PROJECTIONS
            .into_iter()
            .filter(|kind| source.has(kind))
            .map(|kind| (kind, source.at(kind)))
            .collect();
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
            errors.push(FieldError::forbidden(
                source_path,
                "may not specify more than 1 volume type per source",
            ));
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
            } else {
                errors.extend(validate_file_path(source.text("path"), &volume.child("path")));
            }
        }
        _ => {}
    }
    errors
}
