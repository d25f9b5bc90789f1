//! The versions of reviews that a webhook understands, of which the server sends the first that it knows.

use orch_schema::NameRule;
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::names::check_name;
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Versions of admission and conversion reviews that the server sends.
const KNOWN: [&str; 2] = ["v1", "v1beta1"];

/// Rules for the list at `path`. `missing`: the text where it is empty. `requires_known`: one of them is a version that the server
/// knows.
pub(in crate::kinds) fn validate(
    reviews: &Value,
    missing: &str,
    requires_known: bool,
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let names = reviews.as_array().map(Vec::as_slice).unwrap_or_default();
    if names.is_empty() {
        errors.push(FieldError::required(path.clone(), missing));
        return errors;
    }
    let mut seen = Distinct::new();
    for (at, name) in names.iter().numbered() {
        let name = name.as_str().unwrap_or_default();
        if seen.is_repeated(name) {
            errors.push(FieldError::invalid_str(path.index(at), name, "duplicate version"));
            continue;
        }
        errors.extend(invalid_each(&path.index(at), name, check_name(NameRule::Dns1035Label, name, false)));
    }
    if requires_known && !KNOWN.iter().any(|version| seen.has(version)) {
        let detail = format!("must include at least one of {}", KNOWN.join(", "));
        errors.push(FieldError::invalid(path.clone(), &shown(reviews), &detail));
    }
    errors
}

/// The text where a webhook of admission names no version.
pub(in crate::kinds) fn one_of_known() -> String {
    format!("must specify one of {}", KNOWN.join(", "))
}

/// Whether the list in `field` of a stored webhook has a version that the server knows.
pub(in crate::kinds) fn has_known(webhook: &Value, field: &str) -> bool {
    // few: two versions.
    webhook.items(field).iter().any(|name| KNOWN.contains(&name.as_str().unwrap_or_default()))
}
