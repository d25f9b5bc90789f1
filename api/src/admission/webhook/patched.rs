//! The patch of a mutating webhook.
//!
//! Owns its way: read with the bounds of a client's patch, applied to the object with its kind, decoded as any object of the
//! kind (unknown fields go), and completed with defaults. Invariant: it cannot change what the object is.

use orch_rules::validate::tree::{set, unset};
use orch_schema::value::Value;
use orch_schema::{Limits, Schema, read_json};

use super::answer::Fault;
use crate::admission::matching::Target;
use crate::error::ApiError;
use crate::patch::JsonPatch;

/// The operations in `text`; `None` where there are none.
///
/// # Errors
/// It is no JSON patch.
pub(super) fn read(schema: &Schema, text: &[u8]) -> Result<Option<JsonPatch>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    let unreadable = |reason: String| Fault::Patch(reason);
    let (document, _) =
        read_json(schema, text, Limits::default()).map_err(|error| unreadable(error.to_string()))?;
    let is_empty = document.is_null() || document.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        return Ok(None);
    }
    JsonPatch::parse(document).map(Some).map_err(|error| unreadable(error.to_string()))
}

/// `object`, which is in the version of `target`, after `patch`; `None` where that changes nothing.
///
/// # Errors
/// It cannot be applied, or leaves no object of the kind.
pub(super) fn applied(
    target: &Target<'_>,
    object: &Value,
    patch: JsonPatch,
) -> Result<Option<Value>, ApiError> {
    let internal = |reason: &dyn std::fmt::Display| ApiError::WebhookFailed(reason.to_string());
    let Some(type_id) = target.type_id else {
        return Err(internal(&"the options of the connection cannot be changed"));
    };
    let names = target.names;
    let mut changed = object.clone();
    set(&mut changed, "apiVersion", &*names.api_version);
    set(&mut changed, "kind", &*names.kind);
    patch.apply(&mut changed).map_err(|error| internal(&error))?;
    let has = |field: &str, own: &str| changed.get(field).and_then(Value::as_str) == Some(own);
    if !has("apiVersion", &names.api_version) || !has("kind", &names.kind) {
        return Err(internal(&"apiVersion and kind may not change"));
    }
    unset(&mut changed, "apiVersion");
    unset(&mut changed, "kind");
    if changed == *object {
        return Ok(None);
    }
    let mut changed = target.decoded(type_id, &changed).map_err(|error| internal(&error))?.value;
    if changed == *object {
        return Ok(None);
    }
    target.default(type_id, &mut changed);
    Ok(Some(changed))
}
