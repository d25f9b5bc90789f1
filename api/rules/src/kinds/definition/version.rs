//! One version of a definition: its name, its deprecation, and what is not common to all versions.

use orch_schema::NameRule;
use orch_schema::excerpt::is_printable;
use orch_schema::value::Value;

use super::hoist::Hoisted;
use super::schema::Judge;
use super::{columns, selectable_fields, subresources};
use crate::validate::names::check_name;
use crate::validate::tree::{Tree, is_empty};
use crate::validate::{FieldError, FieldErrors, Path};

/// Length of a deprecation warning, in bytes, which the reference's text calls characters.
const WARNING_BYTES_MAX: usize = 256;

/// Rules for the version at `path`. Fields that are reported above the versions are left out. `old`: the version of the same
/// name in the stored definition.
pub(super) fn validate(
    judge: &mut Judge<'_>,
    old: Option<&Value>,
    version: &Value,
    path: &Path,
    hoisted: Hoisted,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(joined(&path.child("name"), version.text("name")));
    errors.extend(validate_deprecation(version, &path.child("deprecationWarning")));
    let schema = version.at("schema").at("openAPIV3Schema");
    if !hoisted.schema {
        let has_status = version.at("subresources").has("status");
        let before = old.map(|old| old.at("schema").at("openAPIV3Schema"));
        errors.extend(judge.validate(schema, before, &path.child("schema"), has_status));
    }
    if !hoisted.subresources {
        errors.extend(subresources::validate(version.at("subresources"), &path.child("subresources")));
    }
    if !hoisted.columns {
        let path = path.child("additionalPrinterColumns");
        errors.extend(columns::validate(version.items("additionalPrinterColumns"), &path));
    }
    let fields = version.items("selectableFields");
    let has_fields = !is_empty(version.at("selectableFields")) && !judge.has_unsupported(schema);
    if !hoisted.selectable_fields && has_fields {
        let path = path.child("selectableFields");
        let before = old.map(|old| old.items("selectableFields"));
        let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.extend(selectable_fields::validate(fields, before, schema, &path, missing));
    }
    errors
}

/// The error of a name that is no label, with all its faults in one message.
pub(super) fn joined(path: &Path, name: &str) -> Option<FieldError> {
    let faults = check_name(NameRule::Dns1035Label, name, false);
    (!faults.is_empty()).then(|| FieldError::invalid_str(path.clone(), name, &faults.join(",")))
}

fn validate_deprecation(version: &Value, path: &Path) -> FieldErrors {
    let Some(warning) = version.at("deprecationWarning").as_str() else { return FieldErrors::new() };
    let mut errors = FieldErrors::new();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid_str(path.clone(), warning, detail));
    if !version.flag("deprecated") {
        refuse("can only be set for deprecated versions");
        return errors;
    }
    if warning.len() > WARNING_BYTES_MAX {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    // once: one pass over a text.
    if let Some((at, _)) = warning.char_indices().find(|&(_, c)| !is_printable(c)) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    errors
}
