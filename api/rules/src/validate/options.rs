//! Options of writes: field manager, dry run, field validation and the options of a delete.
//!
//! Owns the messages for option values out of range, in the order of the reference. The pipeline parses query and body.

use orch_schema::excerpt::{is_printable, quoted};
use orch_schema::value::Value;

use crate::validate::errors::{ERRORS_SHOWN_MAX, FieldErrors};
use crate::validate::field::{FieldError, Path};
use crate::validate::tree::Tree;

/// Longest name of a field manager, in bytes.
const FIELD_MANAGER_LENGTH_MAX: usize = 128;

const PROPAGATION_POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];

/// The options that create, update and patch share, as parsed from the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// `fieldManager`; empty when not given.
    pub field_manager: &'a str,
    /// Each value of `dryRun`; an empty one stands for the parameter without a value.
    pub dry_run: &'a [&'a str],
    /// `fieldValidation`; empty when not given.
    pub field_validation: &'a str,
}

/// The kind of a write, by its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// An object, or a patch other than an apply configuration.
    Plain,
    /// An apply configuration.
    Apply,
}

/// Rules for the options of a create or an update.
pub fn validate_write_options(options: WriteOptions<'_>) -> FieldErrors {
    let mut errors = validate_field_manager(options.field_manager, &Path::new("fieldManager"));
    errors.extend(validate_dry_run(options.dry_run));
    errors.extend(validate_field_validation(options.field_validation));
    errors
}

/// Rules for the options of a patch. `force`: the parameter, if given.
pub fn validate_patch_options(
    options: WriteOptions<'_>,
    kind: WriteKind,
    force: Option<bool>,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if kind == WriteKind::Apply && options.field_manager.is_empty() {
        errors.push(FieldError::required(Path::new("fieldManager"), "is required for apply patch"));
    }
    if kind == WriteKind::Plain && force.is_some() {
        errors.push(FieldError::forbidden(Path::new("force"), "may not be specified for non-apply patch"));
    }
    errors.extend(validate_write_options(options));
    errors
}

/// Rules for a `DeleteOptions` document (body and query already merged).
pub fn validate_delete_options(options: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = Path::new("propagationPolicy");
    if let Some(policy) = options.at("propagationPolicy").as_str() {
        if options.has("orphanDependents") {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid_str(path.clone(), policy, detail));
        }
        // few: three policies.
        if !PROPAGATION_POLICIES[..3].contains(&policy) {
            errors.push(FieldError::not_supported(path, policy, &PROPAGATION_POLICIES));
        }
    }
    errors.extend(validate_dry_run(&options.texts("dryRun")));
    if options.flag("ignoreStoreReadErrorWithClusterBreakingPotential") {
        let path = Path::new("ignoreStoreReadErrorWithClusterBreakingPotential");
        let others = ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
        errors.extend(others.into_iter().filter(|name| options.has(name)).map(|name| {
            FieldError::invalid(path.clone(), "true", &format!("cannot be set together with .{name}"))
        }));
    }
    errors
}

/// Checks the name of a field manager: its length, and that all characters are printable.
pub fn validate_field_manager(manager: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if manager.len() > FIELD_MANAGER_LENGTH_MAX {
        errors.push(FieldError::too_long(path.clone(), FIELD_MANAGER_LENGTH_MAX));
    }
    let unprintable = manager.char_indices().filter(|&(_, character)| !is_printable(character));
    errors.extend(unprintable.map(|(at, character)| {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        FieldError::invalid_str(path.clone(), manager, &detail)
    }));
    errors
}

/// Checks `dryRun`: `All`, or an empty value, which means the same.
fn validate_dry_run(values: &[&str]) -> Option<FieldError> {
    if values.iter().all(|value| matches!(*value, "" | "All")) {
        return None;
    }
    let shown: Vec<String> = values.iter().take(ERRORS_SHOWN_MAX).map(|value| quoted(value)).collect();
    let shown = format!("[{}]", shown.join(","));
    Some(FieldError::not_supported_value(Path::new("dryRun"), &shown, &["All"]))
}

/// Checks `fieldValidation`: `Ignore`, `Warn`, `Strict` or empty.
fn validate_field_validation(value: &str) -> Option<FieldError> {
    let supported = ["", "Ignore", "Strict", "Warn"];
    // few: four values.
    if supported.contains(&value) {
        return None;
    }
    Some(FieldError::not_supported(Path::new("fieldValidation"), value, &supported))
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn texts(errors: impl IntoIterator<Item = FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn dry_run_is_all_or_nothing() {
        assert!(texts(validate_dry_run(&["All", ""])).is_empty());
        assert_eq!(
            texts(validate_dry_run(&["Some"])),
            ["dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""]
        );
    }

    #[test]
    fn field_validation_values() {
        assert!(texts(validate_field_validation("Strict")).is_empty());
        assert_eq!(
            texts(validate_field_validation("Loose")),
            [
                "fieldValidation: Unsupported value: \"Loose\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
            ]
        );
    }

    #[test]
    fn field_managers() {
        let path = Path::new("fieldManager");
        assert!(validate_field_manager("me (v1) / ü", &path).is_empty());
        assert_eq!(
            texts(validate_field_manager(&"m".repeat(129), &path)),
            ["fieldManager: Too long: may not be more than 128 bytes"]
        );
        assert_eq!(
            texts(validate_field_manager("a\nb", &path)),
            ["fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)"]
        );
    }

    #[test]
    fn patch_options_depend_on_the_patch() {
        let options = WriteOptions::default();
        assert_eq!(
            texts(validate_patch_options(options, WriteKind::Apply, None)),
            ["fieldManager: Required value: is required for apply patch"]
        );
        assert_eq!(
            texts(validate_patch_options(options, WriteKind::Plain, Some(false))),
            ["force: Forbidden: may not be specified for non-apply patch"]
        );
    }

    #[test]
    fn delete_options() {
        for (options, expected) in [
            (json!({"propagationPolicy": "Orphan", "dryRun": ["All"]}), ""),
            (json!({"orphanDependents": true}), ""),
            (json!([]), ""),
            (
                json!({"propagationPolicy": "Sideways"}),
                "propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \
                 \"Background\", \"Orphan\", \"nil\"",
            ),
            (
                json!({"propagationPolicy": "Orphan", "orphanDependents": false}),
                "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be \
                 both set",
            ),
            (json!({"dryRun": ["x"]}), "dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
            (
                json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true, "gracePeriodSeconds": 1}),
                "ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with \
                 .gracePeriodSeconds",
            ),
        ] {
            assert_eq!(texts(validate_delete_options(&options)).join("; "), expected, "{options}");
        }
    }
}
