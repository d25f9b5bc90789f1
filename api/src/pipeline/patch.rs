//! Patching an object: JSON patch, merge patch, strategic merge patch, and server-side apply.
//!
//! Owns the choice of the format, and the computation of a new object from the stored one and the patch. The new object then
//! passes the stages of every update.

use orch_raft::{Key, Store};
use orch_rules::Action;
use orch_rules::validate::WriteKind;
use orch_rules::validate::tree::{Tree, child_mut, unset};
use orch_schema::excerpt::{part, quoted};
use orch_schema::json;
use orch_schema::value::{Map, Value};
use orch_schema::{
    DecodeError, Decoded, Head, Limits, Schema, StrictError, TypeId, decode_json, write_value,
};

use super::foreign::check_kept_head;
use super::incoming::{
    Incoming, Patched, clear_managed_fields, has_empty_managed_fields, report_strict_errors,
};
use super::judged::{Judged, Rejected};
use super::media_type::patch_media_type;
use super::modify::{ATTEMPTS_MAX, Attempt, Current, changing_too_fast};
use super::new_object::Origin;
use super::options::{FieldValidation, Options};
use super::patch_body::{APPLY, Parsed, Patch, parse_patch};
use super::patch_refusal::{apply_error, decode_problem, failed, go_string, redact_patch, redact_values};
use super::staged::is_current;
use super::stored::tree_of;
use super::update::{check_name, writer};
use super::{Pipeline, Request, Written};
use crate::admission::{Operation, Refused, View};
use crate::error::ApiError;
use crate::fields::{ApplyOptions, apply};
use crate::patch::{PatchError, merge_patch, printed, strategic_merge_patch};

/// Bytes of the largest stored object whose tree is kept while it is patched. The tree takes many times its bytes, so a
/// larger object is parsed again after the patch.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A decoder of JSON.
pub(super) type Decode = fn(&Schema, TypeId, &[u8], Limits) -> Result<Decoded, DecodeError>;

impl<S: Store> Pipeline<S> {
    /// PATCH.
    pub(super) async fn patch(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let format = patch_media_type(request.content_type);
        let write = if format == APPLY { WriteKind::Apply } else { WriteKind::Plain };
        let options = self.write_options(request, write)?;
        let parse = || self.parsed(request);
        let mut first = Some(parse()?);
        request.record_patch(format);
        let names_version = first.as_ref().is_some_and(|parsed| parsed.patch.names_version());
        let key = request.key()?;
        for _ in 0..ATTEMPTS_MAX {
            let attempt = PatchAttempt {
                pipeline: self,
                request,
                key: &key,
                options: &options,
                first: &mut first,
                names_version,
            };
            if let Some(modified) = self.modify(request, &key, options.dry_run, attempt).await? {
                return Ok(modified.written());
            }
            if format != APPLY || request.action != Action::Object {
                return Err(ApiError::NotFound(request.subject()));
            }
            let Parsed { patch, strict } = first.take().map_or_else(parse, Ok)?;
            let Patch::Apply(config) = patch else { return Err(ApiError::NotFound(request.subject())) };
            let incoming = self.created_by_apply(request, &options, &config, &strict)?;
            drop(config);
            match self.create_from(request, &options, incoming.into(), Origin::Applied).await {
                // Another request created the object: apply to that.
                Err(ApiError::AlreadyExists(_)) => {}
                created => return created,
            }
        }
        Err(changing_too_fast())
    }

    /// The patch in the body.
    pub(super) fn parsed(&self, request: Request<'_>) -> Result<Parsed, ApiError> {
        let format = patch_media_type(request.content_type);
        parse_patch(request, format).map_err(|error| redact_patch(request, error))
    }

    /// The new object of an apply to an absent name.
    fn created_by_apply(
        &self,
        request: Request<'_>,
        options: &Options,
        config: &Value,
        strict: &[StrictError],
    ) -> Result<Value, ApiError> {
        let now = self.ambient.now().seconds_text();
        let applied = self.applied(request, options, None, config, &now)?;
        let shown = |applied: &Value| go_string(request, applied);
        let Patched { mut value, warnings, .. } = self.applied_object(request, applied, shown)?;
        request.exchange.warn(warnings);
        request.exchange.warn(report_duplicate_keys(strict, options.field_validation)?);
        let uid = value.at("metadata").text("uid");
        if !uid.is_empty() {
            let reason = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                part(uid)
            );
            return Err(ApiError::Conflict { subject: request.subject(), reason });
        }
        self.settle_namespace(request, &mut value)?;
        check_name(request, &value)?;
        unset(child_mut(&mut value, "metadata"), "resourceVersion");
        Ok(value)
    }

    async fn try_patch(
        &self,
        request: Request<'_>,
        options: &Options,
        parsed: Parsed,
        mut current: Current<'_>,
    ) -> Result<Judged, Rejected> {
        request.budget.check()?;
        let origin = if matches!(parsed.patch, Patch::Apply(_)) { Origin::Applied } else { Origin::Sent };
        let Patched { mut value, foreign, warnings } =
            self.after_patch(request, options, parsed, &mut current)?;
        request.budget.check()?;
        request.exchange.warn(warnings);
        self.settle_namespace(request, &mut value)?;
        check_name(request, &value)?;
        self.replace(request, options, current, Incoming { value, foreign }, origin).await
    }

    /// The object after the patch.
    fn after_patch(
        &self,
        request: Request<'_>,
        options: &Options,
        parsed: Parsed,
        current: &mut Current<'_>,
    ) -> Result<Patched, ApiError> {
        let parsed = match self.scope(request, &parsed.patch) {
            None => parsed,
            Some(scope) => {
                match self.patched_part(request, parsed, &current.value, &scope, options.field_validation) {
                    Some(incoming) => return Ok(incoming),
                    None => self.parsed(request)?,
                }
            }
        };
        // Parsing the bytes again gives the same tree only where they are not converted.
        let is_parsed = is_current(request.resource, &current.object);
        if current.object.json.len() <= COPIED_BYTES_MAX || !is_parsed {
            return self.patched_whole(request, options, parsed, current.value.clone());
        }
        let incoming = self.patched_whole(request, options, parsed, current.value.take())?;
        current.value = tree_of(&current.object)?;
        Ok(incoming)
    }

    /// `stored` after the patch, decoded again as a whole.
    pub(super) fn patched_whole(
        &self,
        request: Request<'_>,
        options: &Options,
        parsed: Parsed,
        stored: Value,
    ) -> Result<Patched, ApiError> {
        request.budget.check()?;
        let validation = options.field_validation;
        let mut document = with_head(request, request.resource.to_version(stored));
        let Parsed { patch, strict } = parsed;
        let shown = |document: &Value| go_string(request, document);
        if let Patch::Apply(config) = patch {
            let now = self.ambient.now().seconds_text();
            let applied = self.applied(request, options, Some(document), &config, &now)?;
            drop(config);
            let told = report_duplicate_keys(&strict, validation)?;
            let mut incoming = self.applied_object(request, applied, shown)?;
            incoming.warnings.extend(told);
            return Ok(incoming);
        }
        let is_strategic = matches!(patch, Patch::Strategic(_));
        self.apply_patch(request, patch, &mut document).map_err(|error| failed(request, error))?;
        if is_strategic {
            return self.patched(request, document, validation, &strict, |_| self.shown_patch(request));
        }
        let foreign = check_kept_head(request, &document)?;
        let patched = self.patched(request, document, validation, &strict, shown)?;
        Ok(Patched { foreign, ..patched })
    }

    /// Applies a JSON, merge or strategic merge patch to a document, or to the part of one that it reaches.
    pub(super) fn apply_patch(
        &self,
        request: Request<'_>,
        patch: Patch,
        document: &mut Value,
    ) -> Result<(), PatchError> {
        match patch {
            Patch::Json(patch) => patch.apply(document),
            Patch::Merge(patch) => merge_patch(document, patch),
            Patch::Strategic(patch) => {
                strategic_merge_patch(&request.resource.schema, request.resource.type_id, document, patch)
            }
            // Field management merges it (`applied`): both callers take it out before.
            Patch::Apply(_) => Err(PatchError::Malformed("an apply configuration is no patch".to_owned())),
        }
    }

    /// A strategic merge patch as errors quote it: whole, as it was sent; of a confidential kind only kind and name of
    /// the object.
    fn shown_patch(&self, request: Request<'_>) -> String {
        match self.parsed(request) {
            Ok(Parsed { patch: Patch::Strategic(patch), .. }) if !request.resource.rules.confidential => {
                quoted(&printed(&patch))
            }
            _ => go_string(request, &Value::Null),
        }
    }

    /// Decodes the patched document as an object of the kind. `strict` are the unknown and duplicate fields of the
    /// patch itself; `shown` is the text that errors quote. Document and object are never held at once.
    pub(super) fn patched(
        &self,
        request: Request<'_>,
        document: Value,
        validation: FieldValidation,
        strict: &[StrictError],
        shown: impl Fn(&Value) -> String,
    ) -> Result<Patched, ApiError> {
        self.decoded_again(request, document, validation, strict, shown, decode_json)
    }

    /// [`Pipeline::patched`] with the decoder `decode`: [`decode_json`], or [`orch_schema::decode_applied`] of the result of an apply.
    pub(super) fn decoded_again(
        &self,
        request: Request<'_>,
        document: Value,
        validation: FieldValidation,
        strict: &[StrictError],
        shown: impl Fn(&Value) -> String,
        decode: Decode,
    ) -> Result<Patched, ApiError> {
        let schema = &request.resource.schema;
        let empties_owners = has_empty_managed_fields(&document);
        let mut json = Vec::with_capacity(1024);
        write_value(&document, &mut json);
        drop(document);
        request.budget.check()?;
        let decoded = decode(schema, request.resource.type_id, &json, Limits::patched());
        let refused = |told: &str| {
            let document = serde_json::from_slice(&json).unwrap_or_default();
            ApiError::PatchResult(format!("{}: {told}", shown(&document)))
        };
        let Decoded { mut value, strict: mut all, .. } = decoded.map_err(|error| match error {
            DecodeError::OverBudget => ApiError::OverBudget(error.to_string()),
            other => refused(&decode_problem(request, &other)),
        })?;
        all.splice(0..0, strict.iter().cloned());
        let warnings =
            report_strict_errors(request, &Head::default(), all, validation).map_err(
                |error| match error {
                    ApiError::BadRequest(message) => {
                        refused(message.split_once(": ").map_or(message.as_str(), |(_, told)| told))
                    }
                    other => other,
                },
            )?;
        if empties_owners {
            clear_managed_fields(&mut value);
        }
        Ok(Patched { value, foreign: None, warnings })
    }

    fn applied(
        &self,
        request: Request<'_>,
        options: &Options,
        live: Option<Value>,
        config: &Value,
        now: &str,
    ) -> Result<Value, ApiError> {
        check_config(request, config)?;
        let resource = request.resource;
        let api_version = resource.api_version();
        let writer = writer(request, options, &api_version, now);
        let options = ApplyOptions { force: options.force, brand: request.registry.brand };
        apply(&request.resource.schema, resource.type_id, live, config, &writer, options)
            .map_err(|error| apply_error(request, &error))
    }
}

/// A PATCH of a stored object.
struct PatchAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a Key,
    options: &'a Options,
    /// The patch, until an attempt takes it and moves its values into the object. Another attempt parses the body
    /// again: a copy would rarely be used.
    first: &'a mut Option<Parsed>,
    names_version: bool,
}

impl<S: Store> Attempt for PatchAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let (pipeline, request) = (self.pipeline, self.request);
        let parsed = self.first.take().map_or_else(|| pipeline.parsed(request), Ok)?;
        let may_move_data = matches!(parsed.patch, Patch::Json(_));
        let changed = pipeline.try_patch(request, self.options, parsed, current).await;
        changed.map_err(|rejected| {
            rejected.map(|error| if may_move_data { redact_values(request, error) } else { error })
        })
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let asked = (self.request, Operation::Update, self.options.dry_run);
        self.pipeline.reserve(asked, self.key, judged, view)
    }

    fn names_version(&self) -> bool {
        self.names_version
    }
}

/// `object` with `apiVersion` and `kind`, as patches see it.
pub(super) fn with_head(request: Request<'_>, object: Value) -> Value {
    let mut document = Map::new();
    document.insert("kind".to_owned(), json!(request.resource.kind));
    document.insert("apiVersion".to_owned(), json!(request.resource.api_version()));
    if let Value::Object(fields) = object {
        document.extend(fields);
    }
    Value::Object(document)
}

/// Refuses an apply configuration whose `apiVersion` or `kind` is absent or not that of the URL.
fn check_config(request: Request<'_>, config: &Value) -> Result<(), ApiError> {
    let resource = request.resource;
    let (kind, version) = (config.text("kind"), config.text("apiVersion"));
    if kind == resource.kind && version == resource.api_version() {
        return Ok(());
    }
    let version = match version.matches('/').count() {
        0 => format!("/{version}"),
        1 => version.to_owned(),
        _ => "/".to_owned(),
    };
    let kind = if version == "/" && !config.text("apiVersion").is_empty() { "" } else { kind };
    Err(ApiError::BadRequest(format!("invalid object type: {}, Kind={}", part(&version), part(kind))))
}

/// Treats duplicate keys of an apply configuration by the validation level: none, warnings, or the refusal of `Strict`.
fn report_duplicate_keys(
    strict: &[StrictError],
    validation: FieldValidation,
) -> Result<Vec<String>, ApiError> {
    let lines: Vec<String> = strict.iter().map(ToString::to_string).collect();
    if validation == FieldValidation::Strict && !lines.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            lines.join("\n  ")
        )));
    }
    Ok(if validation == FieldValidation::Warn { lines } else { Vec::new() })
}
