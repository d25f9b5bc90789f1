//! Refusals of patches: which API errors they are, and what those may quote.
//!
//! Owns the rule that a refusal repeats nothing of a confidential object, and nothing of a patch to one.

use orch_rules::validate::field::FieldError;
use orch_rules::validate::tree;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{DecodeError, Shape};

use super::Request;
use super::media_type::patch_media_type;
use super::patch_body::{STRATEGIC, patch_error};
use crate::error::ApiError;
use crate::fields::ApplyError;
use crate::patch::PatchError;

/// Replaces the reason of a refusal that could quote the data of a confidential object.
const NOT_REPEATED: &str = "it breaks a rule; what it holds is not repeated";

/// A document as errors quote it: the beginning of its JSON. Of a confidential kind only `apiVersion`, `kind` and name:
/// clients log responses, and an annotation may hold the whole object.
pub(super) fn go_string(request: Request<'_>, document: &Value) -> String {
    if request.resource.rules.confidential {
        let name = json!({"name": request.target.name});
        let shown = json!({"kind": request.resource.kind, "apiVersion": request.resource.api_version(), "metadata": name});
        return quoted(&shown.to_string());
    }
    quoted(&tree::shown(document))
}

/// The fault of the patched object, which cannot be decoded. After a strategic merge patch the reference restores
/// the object from its tree, and says so of a value whose shape does not fit; the path before that is ours.
pub(super) fn decode_problem(request: Request<'_>, error: &DecodeError) -> String {
    let is_strategic = patch_media_type(request.content_type) == STRATEGIC;
    let (DecodeError::Type { path, found, .. }, Some(shape), true) =
        (error, error.missed_shape(), is_strategic)
    else {
        return error.to_string();
    };
    let found = match found.as_str() {
        "an object" => "map",
        "a list" => "slice",
        "a string" => "string",
        "a boolean" => "bool",
        // The reference tells whole numbers from others.
        _ => return error.to_string(),
    };
    match shape {
        Shape::Map => format!("{path}: cannot restore map from {found}"),
        Shape::List => format!("{path}: cannot restore slice from {found}"),
        Shape::Object => format!("{path}: cannot restore struct from: {found}"),
    }
}

/// The API error of a patch that could not be applied.
pub(super) fn failed(request: Request<'_>, error: PatchError) -> ApiError {
    redact_patch(request, patch_error(error))
}

/// Replaces the refusal of a patch to a confidential kind by one that quotes nothing of the patch.
pub(super) fn redact_patch(request: Request<'_>, error: ApiError) -> ApiError {
    match error {
        ApiError::BadRequest(_) if request.resource.rules.confidential => {
            ApiError::BadRequest("the patch does not have the form of its format".to_owned())
        }
        other => other,
    }
}

/// Removes all values from the refusal of a JSON patch's result, and the warnings, for confidential kinds. Such a patch
/// can copy stored data into fields that errors quote (a uid, a name, a finalizer). The refusal still names the fields.
pub(super) fn redact_values(request: Request<'_>, error: ApiError) -> ApiError {
    if !request.resource.rules.confidential {
        return error;
    }
    request.exchange.withhold_warnings();
    let shown = || go_string(request, &Value::Null);
    match error {
        ApiError::Invalid { subject, errors } => {
            let errors = errors.into_iter().map(FieldError::withheld).collect();
            ApiError::Invalid { subject, errors }
        }
        ApiError::PatchResult(_) => ApiError::PatchResult(format!("{}: {NOT_REPEATED}", shown())),
        ApiError::BadRequest(_) => ApiError::BadRequest(format!("the patched object: {NOT_REPEATED}")),
        other => other,
    }
}

/// The API error of an apply that was refused.
pub(super) fn apply_error(request: Request<'_>, error: &ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(conflicts) => ApiError::ApplyConflict {
            message: error.to_string(),
            causes: conflicts.shown().map(|conflict| (conflict.cause(), conflict.path())).collect(),
        },
        ApplyError::Typed { object, .. } if request.resource.rules.confidential => {
            ApiError::BadRequest(format!("failed to create typed patch object ({object})"))
        }
        ApplyError::ManagedFieldsGiven | ApplyError::Typed { .. } => ApiError::BadRequest(error.to_string()),
        ApplyError::TooManyFields(_) => ApiError::ObjectTooLarge(error.to_string()),
        ApplyError::Managed(_) | ApplyError::Item(_) => ApiError::Internal(error.to_string()),
    }
}
