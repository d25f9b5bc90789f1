//! One mutation of an object: a part that is merged, or a JSON patch.
//!
//! Owns what the result has to be: an object of the same kind, in canonical form, with its defaults. A patch whose result cannot be
//! read, or has an unknown field, ends the request, whatever the failure policy is, as in the reference.

use orch_rules::expression::policy::{Made, MutationKind};
use orch_rules::validate::tree::{set, unset};
use orch_schema::value::Value;
use orch_schema::{Decoded, TypeId};

use super::refusal::PolicyFault;
use crate::admission::matching::{Names, Target};
use crate::error::ApiError;
use crate::fields::overlay;
use crate::patch::{JsonPatch, PatchError};

/// The result of a mutation of this kind in canonical form, with its defaults.
fn completed(
    target: &Target<'_>,
    type_id: TypeId,
    kind: MutationKind,
    value: &Value,
) -> Result<Value, PolicyFault> {
    let internal = |reason: String| PolicyFault::Request(ApiError::Internal(reason));
    let Decoded { mut value, strict, .. } = target.decoded(type_id, value).map_err(|reason| match kind {
        MutationKind::JsonPatch => internal(reason),
        MutationKind::ApplyConfiguration => {
            let Names { group, version, kind, .. } = target.names;
            let text =
                format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {reason}");
            PolicyFault::Policy(text)
        }
    })?;
    // Of declared kinds unknown fields are removed, as from any object.
    if !strict.is_empty() && !target.resource.is_declared() {
        let mut named: Vec<String> = strict.iter().map(ToString::to_string).collect();
        // The members that a patch has touched are in the order of their names in the reference.
        named.sort_unstable();
        return Err(internal(format!("strict decoding error: {}", named.join(", "))));
    }
    target.default(type_id, &mut value);
    Ok(value)
}

/// `object` after the mutation `made`.
///
/// # Errors
/// It cannot be made.
pub(super) fn applied(target: &Target<'_>, object: &Value, made: Made) -> Result<Value, PolicyFault> {
    let Some(type_id) = target.type_id else { return Ok(object.clone()) };
    let kind = made.kind;
    let changed = match kind {
        MutationKind::ApplyConfiguration => merged(target, type_id, object, made.document)?,
        MutationKind::JsonPatch => match patched(target, object, made.document)? {
            Some(changed) => changed,
            None => return Ok(object.clone()),
        },
    };
    completed(target, type_id, kind, &changed)
}

fn merged(
    target: &Target<'_>,
    type_id: TypeId,
    object: &Value,
    mut part: Value,
) -> Result<Value, PolicyFault> {
    // Whatever kind the part names, it is taken as the object's.
    for field in ["apiVersion", "kind"] {
        unset(&mut part, field);
    }
    let refused = |reason| PolicyFault::Policy(format!("error applying patch: {reason}"));
    overlay(&target.resource.schema, type_id, object, &part).map_err(refused)
}

/// `None`: an operation `test` does not hold, which leaves the object as it is.
fn patched(target: &Target<'_>, object: &Value, operations: Value) -> Result<Option<Value>, PolicyFault> {
    let names = target.names;
    let failed = |reason: &dyn std::fmt::Display| PolicyFault::Policy(format!("JSON Patch: {reason}"));
    let patch = JsonPatch::made(operations).map_err(|error| failed(&error))?;
    // Operations may look at the kind, which the tree does not have.
    let mut changed = object.clone();
    set(&mut changed, "apiVersion", &*names.api_version);
    set(&mut changed, "kind", &*names.kind);
    match patch.apply(&mut changed) {
        Ok(()) => {}
        Err(PatchError::TestFailed) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    }
    let has = |field: &str, own: &str| changed.get(field).and_then(Value::as_str) == Some(own);
    if !has("apiVersion", &names.api_version) || !has("kind", &names.kind) {
        return Err(failed(&"apiVersion and kind may not change"));
    }
    unset(&mut changed, "apiVersion");
    unset(&mut changed, "kind");
    Ok(Some(changed))
}
