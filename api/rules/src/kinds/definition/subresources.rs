//! Sub-resources that a definition declares, and the simple paths in them.

use orch_schema::value::Value;

use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Rules for the sub-resources at `path`.
pub(super) fn validate(subresources: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let scale = subresources.at("scale");
    if !scale.is_object() {
        return errors;
    }
    let path = path.child("scale");
    for (field, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (text, path) = (scale.text(field), path.child(field));
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Some(error) = validate_simple_path(text, path.clone()) {
            errors.push(error);
        } else if !is_under(text, root) {
            let detail = format!("should be a json path under {root}");
            errors.push(FieldError::invalid_str(path, text, &detail));
        }
    }
    let (selector, path) = (scale.text("labelSelectorPath"), path.child("labelSelectorPath"));
    if !selector.is_empty() {
        if let Some(error) = validate_simple_path(selector, path.clone()) {
            errors.push(error);
        } else if !is_under(selector, ".spec") && !is_under(selector, ".status") {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid_str(path, selector, detail));
        }
    }
    errors
}

fn is_under(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

/// The error of a path that does not begin with a dot. Nothing else of it is checked in a definition.
pub(super) fn validate_simple_path(text: &str, path: Path) -> Option<FieldError> {
    if text.is_empty() {
        return Some(FieldError::invalid_str(path, text, "must not be empty"));
    }
    let detail = "must be a simple json path starting with .";
    (!text.starts_with('.')).then(|| FieldError::invalid_str(path, text, detail))
}
