//! Objects that state another type than that of their path.
//!
//! Owns the error of such an object of a declared kind, and which changes of the type a patch may make. The error is one of the
//! object: it is found with those of the kind's rules, after admission and after the check of the object's version. A body in another
//! version than the path's, or of a built-in kind and another type, is not decoded at all (`incoming`).

use orch_rules::validate::tree::{self, Tree};
use orch_rules::validate::{FieldError, FieldErrors, Path};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::Request;
use super::patch_refusal::go_string;
use crate::error::{ApiError, Subject};
use crate::registry::Resource;

/// The type that an object states, where that is another one than the path's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForeignType {
    kind: String,
    api_version: String,
}

impl ForeignType {
    /// The type `kind` in `api_version`; `None`: it is that of `resource`.
    pub(super) fn of(resource: &Resource, kind: &str, api_version: &str) -> Option<ForeignType> {
        let is_own = kind == resource.kind && api_version == resource.api_version();
        (!is_own).then(|| ForeignType { kind: kind.to_owned(), api_version: api_version.to_owned() })
    }

    /// The refusal of the object called `name` at a path of `resource`, behind `errors`, which were found before.
    pub(super) fn refusal(&self, resource: &Resource, name: &str, mut errors: FieldErrors) -> ApiError {
        let version = resource.api_version();
        for (field, given, expected) in
            [("kind", &self.kind, &resource.kind), ("apiVersion", &self.api_version, &version)]
        {
            if given != expected {
                let detail = format!("must be {expected}");
                errors.push(FieldError::invalid(Path::new(field), &quoted(given), &detail));
            }
        }
        // A version of the core group has no group in front of it.
        let group = match self.api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => part(group).to_string(),
            _ => String::new(),
        };
        let subject = Subject { group, kind: part(&self.kind).to_string(), name: name.to_owned() };
        ApiError::Invalid { subject, errors }
    }
}

/// Refuses a patch that changes `apiVersion` or `kind`. Of built-in kinds a removed `kind` counts as unchanged, a removed
/// `apiVersion` does not. Of declared kinds no `kind` may be removed, and another type is an error of the object.
pub(super) fn check_kept_head(
    request: Request<'_>,
    document: &Value,
) -> Result<Option<ForeignType>, ApiError> {
    let resource = request.resource;
    let (kind, version) = (document.text("kind"), document.text("apiVersion"));
    if !document.is_object() {
        // Decoding refuses a document that is no object.
        return Ok(None);
    }
    if version.is_empty() {
        return Err(ApiError::BadRequest("the patched object has no apiVersion".to_owned()));
    }
    if resource.is_declared() {
        return match document.is_empty_at("kind") {
            true => {
                let told = format!("Object 'Kind' is missing in '{}'", tree::shown(document));
                Err(ApiError::PatchResult(format!("{}: {told}", go_string(request, document))))
            }
            // Decoding refuses a kind that is no text.
            false if kind.is_empty() => Ok(None),
            false => Ok(ForeignType::of(resource, kind, version)),
        };
    }
    if (kind.is_empty() || kind == resource.kind) && version == resource.api_version() {
        return Ok(None);
    }
    let told = format!(
        "the patch makes {} {} of {} {}",
        part(version),
        part(kind),
        resource.api_version(),
        resource.kind
    );
    Err(ApiError::PatchResult(format!("{}: {told}", go_string(request, document))))
}
