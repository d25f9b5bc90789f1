//! Columns of tables, as a definition declares them.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::subresources::validate_simple_path;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Rules for the columns at `path`.
pub(super) fn validate(columns: &[Value], path: &Path) -> FieldErrors {
    let columns = columns.iter().numbered();
    columns.flat_map(|(at, column)| validate_column(column, &path.index(at))).collect()
}

fn validate_column(column: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if column.text("name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    let (kind, format) = (column.text("type"), column.text("format"));
    let types = format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), &types));
    } else if !TYPES.contains(&kind) {
        // few: five types.
        errors.push(FieldError::invalid_str(path.child("type"), kind, &types));
    }
    // few: eight formats.
    if !format.is_empty() && !FORMATS.contains(&format) {
        let formats = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid_str(path.child("format"), format, &formats));
    }
    let json_path = column.text("jsonPath");
    // The name of the field in the reference's own form.
    let path = path.child("JSONPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        errors.extend(validate_simple_path(json_path, path));
    }
    errors
}
