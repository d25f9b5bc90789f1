//! The body of a PATCH, parsed.
//!
//! Owns the formats, and finding what strict field validation reports of the body itself: duplicate members, and
//! unknown members of JSON patch operations. Whether these are refused, warned of or ignored is decided where the patch
//! is applied.

use orch_schema::value::Value;
use orch_schema::{DecodeError, Limits, Schema, StrictError, read_json, read_yaml};

use super::Request;
use super::media_type::unsupported_patch;
use super::update::names_version;
use crate::error::ApiError;
use crate::patch::{JsonPatch, PatchError};

/// The media type of server-side apply.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// Media type of strategic merge patches.
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A patch in its format.
pub(super) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

impl Patch {
    /// Whether the patch names the `resourceVersion` that it changes.
    pub(super) fn names_version(&self) -> bool {
        match self {
            Patch::Json(patch) => patch.targets("/metadata/resourceVersion"),
            Patch::Merge(patch) | Patch::Strategic(patch) | Patch::Apply(patch) => names_version(patch),
        }
    }
}

/// A patch, and the unknown and duplicate fields of its text.
pub(super) struct Parsed {
    pub patch: Patch,
    /// In the texts of the format: for an apply, lines of the YAML reader.
    pub strict: Vec<StrictError>,
}

/// Reads the body of `request`, which is of the media type `format`.
pub(super) fn parse_patch(request: Request<'_>, format: &str) -> Result<Parsed, ApiError> {
    let (schema, body) = (&request.registry.schema, request.body);
    match format {
        "application/json-patch+json" => {
            let (body, met) = patch_json(schema, body)?;
            let patch = JsonPatch::parse(body).map_err(patch_error)?;
            let unknown = patch.unknown_fields().iter().map(|path| StrictError::Unknown(path.clone()));
            let strict = met.into_iter().chain(unknown);
            let strict = strict.map(|error| StrictError::Other(format!("json patch {error}"))).collect();
            Ok(Parsed { patch: Patch::Json(patch), strict })
        }
        "application/merge-patch+json" => {
            let (patch, strict) = patch_json(schema, body)?;
            Ok(Parsed { patch: Patch::Merge(patch), strict })
        }
        STRATEGIC if !request.resource.is_of_declared() => {
            let (patch, strict) = patch_json(schema, body)?;
            Ok(Parsed { patch: Patch::Strategic(patch), strict })
        }
        APPLY => apply_config(schema, body),
        other => Err(unsupported_patch(other, request)),
    }
}

fn patch_json(schema: &Schema, body: &[u8]) -> Result<(Value, Vec<StrictError>), ApiError> {
    read_json(schema, body, Limits::default()).map_err(|error| unreadable("error decoding patch", &error))
}

fn unreadable(what: &str, error: &DecodeError) -> ApiError {
    match error {
        DecodeError::OverBudget => ApiError::OverBudget(error.to_string()),
        other => ApiError::BadRequest(format!("{what}: {other}")),
    }
}

/// Reads an apply configuration: YAML, which includes JSON.
fn apply_config(schema: &Schema, body: &[u8]) -> Result<Parsed, ApiError> {
    let refused = |told: &str| ApiError::BadRequest(format!("error decoding YAML: {told}"));
    let (config, lines) =
        read_yaml(schema, body).map_err(|error| unreadable("error decoding YAML", &error))?;
    if !config.is_object() && !config.is_null() {
        return Err(refused("an apply configuration is an object"));
    }
    let strict = lines.into_iter().map(StrictError::Other).collect();
    Ok(Parsed { patch: Patch::Apply(config), strict })
}

/// The API error of a patch that could not be read or applied.
pub(super) fn patch_error(error: PatchError) -> ApiError {
    match error {
        PatchError::Malformed(message) => ApiError::BadRequest(message),
        PatchError::CannotApply(_) | PatchError::TestFailed => ApiError::UnprocessablePatch,
        PatchError::Stopped => ApiError::DeadlineExceeded,
        PatchError::TooManyOperations(_) => ApiError::TooManyOperations(error.to_string()),
    }
}
