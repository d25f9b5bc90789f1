//! Fields of objects that field selectors may name, as a definition declares them.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::validate::field_path::{Notation, resolve};
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Different fields of one version.
const FIELDS_MAX: usize = 8;

const NOT_SCALAR: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";

/// Rules for the selectable fields at `path`, of a `schema` in which paths can be resolved, or none. `before`: those of the stored definition. `missing`: the text about fields without
/// a schema.
pub(super) fn validate(
    fields: &[Value],
    before: Option<&[Value]>,
    schema: &Value,
    path: &Path,
    missing: &str,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if schema.is_null() {
        errors.push(FieldError::invalid_str(path.clone(), "", missing));
        return errors;
    }
    let mut seen = Distinct::new();
    let mut count = 0;
    for (at, field) in fields.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let (text, path) = (field.text("jsonPath"), path.index(at).child("jsonPath"));
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let (steps, found) = match resolve(text, schema, Notation::Dots) {
            Ok(resolved) => resolved,
            Err(fault) => {
                errors.push(FieldError::invalid_str(path, text, &format!("is an invalid path: {fault}")));
                continue;
            }
        };
        // few: one comparison.
        if steps.first().is_some_and(|step| step.name() == "metadata") {
            errors.push(FieldError::invalid_str(path.clone(), text, "must not point to fields in metadata"));
        }
        if !matches!(found.text("type"), "string" | "boolean" | "integer") {
            errors.push(FieldError::invalid_str(path.clone(), text, NOT_SCALAR));
        }
        if seen.is_repeated(steps) {
            errors.push(FieldError::duplicate(path, &quoted(text)));
        } else {
            count += 1;
        }
    }
    let is_kept = before.is_some_and(|before| before.len() > FIELDS_MAX && before == fields);
    if count > FIELDS_MAX && !is_kept {
        errors.push(FieldError::too_many(path.clone(), count, FIELDS_MAX));
    }
    errors
}
