//! Patches only the members that a patch reaches, without decoding the rest of the object.
//!
//! Owns this fast path. It is taken only where its result certainly equals that of the full path, and never refuses:
//! after any failure here the object is patched again as a whole, so that every refusal has the text of the full path.
//!
//! Invariant: both paths give the same object and the same warnings.

use orch_raft::Store;
use orch_rules::validate::tree::{child_mut, existing_mut, set};
use orch_schema::value::Value;
use orch_schema::{Decoded, Head, Limits, check_held, decode_applied, decode_json, write_value};

use super::foreign::check_kept_head;
use super::incoming::{Patched, clear_managed_fields, has_empty_managed_fields, report_strict_errors};
use super::options::FieldValidation;
use super::patch::with_head;
use super::patch_body::{Parsed, Patch};
use super::{Pipeline, Request};
use crate::error::ApiError;
use crate::patch::{PatchScope, strategic_scope};

impl<S: Store> Pipeline<S> {
    /// The members that `patch` reaches of an object in the stored form. `None`: it has to be patched as a whole.
    pub(super) fn scope(&self, request: Request<'_>, patch: &Patch) -> Option<PatchScope> {
        if request.resource.direct().is_some() {
            return None;
        }
        let scope = match patch {
            Patch::Json(patch) => patch.scope(),
            Patch::Merge(patch) => PatchScope::of_merge_patch(patch),
            Patch::Strategic(patch) => {
                strategic_scope(&request.resource.schema, request.resource.type_id, patch)
            }
            Patch::Apply(_) => return None,
        };
        Some(scope).filter(|scope| *scope != PatchScope::Whole)
    }

    /// `stored` after the patch, which reaches `scope`. `None`: it has to be patched as a whole.
    pub(super) fn patched_part(
        &self,
        request: Request<'_>,
        parsed: Parsed,
        stored: &Value,
        scope: &PatchScope,
        validation: FieldValidation,
    ) -> Option<Patched> {
        let (schema, type_id) = (&request.resource.schema, request.resource.type_id);
        let Parsed { patch, strict } = parsed;
        let keeps_head = !matches!(patch, Patch::Strategic(_));
        let mut document = with_head(request, scope.part_of(stored));
        self.apply_patch(request, patch, &mut document).ok()?;
        if keeps_head && check_kept_head(request, &document).ok()?.is_some() {
            return None;
        }
        let empties_owners = has_empty_managed_fields(&document);
        let mut json = Vec::with_capacity(1024);
        write_value(&document, &mut json);
        drop(document);
        let decoded = decode_json(schema, type_id, &json, Limits::patched()).ok()?;
        let Decoded { value: part, strict: found, .. } = decoded;
        if !found.is_empty() {
            return None;
        }
        let warnings = report_strict_errors(request, &Head::default(), strict, validation).ok()?;
        let mut value = scope.joined(stored, part)?;
        check_held(schema, type_id, &value, Limits::patched()).ok()?;
        if empties_owners {
            clear_managed_fields(&mut value);
        }
        Some(Patched { value, foreign: None, warnings })
    }

    /// Decodes the result of an apply as an object of the kind, all but `managedFields`: those were just written by
    /// this server. Fields that no schema declares, of an object whose schema names no members, are dropped without a word.
    pub(super) fn applied_object(
        &self,
        request: Request<'_>,
        mut applied: Value,
        shown: impl Fn(&Value) -> String,
    ) -> Result<Patched, ApiError> {
        let metadata = existing_mut(&mut applied, "metadata").and_then(Value::as_object_mut);
        let Some(managers) = metadata.and_then(|metadata| metadata.shift_remove("managedFields")) else {
            return self.decoded_again(request, applied, FieldValidation::Ignore, &[], shown, decode_applied);
        };
        let with_managers = |document: &Value| {
            let mut document = document.clone();
            set(child_mut(&mut document, "metadata"), "managedFields", managers.clone());
            shown(&document)
        };
        let mut incoming = self.decoded_again(
            request,
            applied,
            FieldValidation::Ignore,
            &[],
            with_managers,
            decode_applied,
        )?;
        set(child_mut(&mut incoming.value, "metadata"), "managedFields", managers);
        check_held(&request.resource.schema, request.resource.type_id, &incoming.value, Limits::patched())
            .map_err(|error| ApiError::OverBudget(error.to_string()))?;
        Ok(incoming)
    }
}
