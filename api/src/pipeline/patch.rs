//! Patching an object: JSON patch, merge patch, strategic merge patch, and server-side apply.
//!
//! Owns choosing the format and turning "stored object plus patch" into a new object, which then takes the way of
//! every update. A patch is parsed once, however often it is tried.

use orch_raft::Store;
use orch_raft::object::SharedObject;
use serde_json::{Map, Value, json};

use super::create::Origin;
use super::incoming::{Incoming, media_type, met};
use super::modify::Change;
use super::options::{FieldValidation, Options};
use super::stored::tree_of;
use super::update::check_name;
use super::{Pipeline, Request, Written};
use crate::error::ApiError;
use crate::fields::{ApplyError, ApplyOptions, Writer, apply};
use crate::patch::{JsonPatch, PatchError, merge_patch, strategic_merge_patch};
use crate::schema::{Decoded, Head, Limits, StrictError, decode_value};
use crate::validate::tree::Tree;

/// A patch in its format.
enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

impl<S: Store> Pipeline<S> {
    /// PATCH.
    pub(super) async fn patch(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let format = media_type(request.content_type);
        let options = self.write_options(request, format == "application/apply-patch+yaml")?;
        let patch = parse(format, request.body)?;
        let key = request.key()?;
        let mut warnings = Vec::new();
        let changed = self
            .modify(&key, options.dry_run, |current| {
                self.try_patch(request, &options, &patch, current, &mut warnings)
            })
            .await?;
        match (changed, &patch) {
            (Some(modified), _) => Ok(modified.written(warnings)),
            (None, Patch::Apply(config)) if request.target.subresource.is_empty() => {
                let now = self.ambient.now().seconds_text();
                let applied = self.applied(request, &options, None, config, &now)?;
                let incoming = self.patched(request, applied, options.field_validation, &[])?;
                self.create_from(request, &options, incoming, Origin::Applied).await
            }
            _ => Err(ApiError::NotFound(request.subject())),
        }
    }

    fn try_patch(
        &self,
        request: Request<'_>,
        options: &Options,
        patch: &Patch,
        current: &SharedObject,
        warnings: &mut Vec<String>,
    ) -> Result<Change, ApiError> {
        let resource = request.resource;
        let live = resource.in_version(tree_of(current)?);
        let mut origin = Origin::Sent;
        let mut unknown: Vec<StrictError> = Vec::new();
        let changed = match patch {
            Patch::Json(patch) => {
                let mut document = with_head(request, live);
                patch.apply(&mut document).map_err(patch_error)?;
                let met = patch.unknown_fields().iter();
                unknown = met
                    .map(|path| StrictError::Other(format!("json patch unknown field {path:?}")))
                    .collect();
                document
            }
            Patch::Merge(patch) => {
                let mut document = with_head(request, live);
                merge_patch(&mut document, patch.clone()).map_err(patch_error)?;
                document
            }
            Patch::Strategic(patch) => {
                let mut document = with_head(request, live);
                strategic_merge_patch(&self.registry.schema, resource.type_id, &mut document, patch.clone())
                    .map_err(patch_error)?;
                document
            }
            Patch::Apply(config) => {
                origin = Origin::Applied;
                let now = self.ambient.now().seconds_text();
                self.applied(request, options, Some(&with_head(request, live)), config, &now)?
            }
        };
        let incoming = self.patched(request, changed, options.field_validation, &unknown)?;
        let mut value = incoming.value;
        self.settle_namespace(request, &mut value)?;
        check_name(request, &value)?;
        let mut more = Vec::new();
        let change = self.replace(request, options, current, value, origin, &mut more)?;
        *warnings = incoming.warnings;
        warnings.append(&mut more);
        Ok(change)
    }

    /// The patched document as an object of the kind.
    fn patched(
        &self,
        request: Request<'_>,
        document: Value,
        validation: FieldValidation,
        unknown: &[StrictError],
    ) -> Result<Incoming, ApiError> {
        let decoded =
            decode_value(&self.registry.schema, request.resource.type_id, &document, Limits::default());
        let Decoded { value, mut strict, .. } =
            decoded.map_err(|error| ApiError::PatchResult(error.to_string()))?;
        strict.splice(0..0, unknown.iter().cloned());
        let warnings = met(request, &Head::default(), strict, validation).map_err(|error| match error {
            ApiError::BadRequest(message) => {
                let told = message.split_once(": ").map_or(message.as_str(), |(_, told)| told);
                let shown = serde_json::to_string(&document).unwrap_or_default();
                ApiError::PatchResult(format!("{shown}: {told}"))
            }
            other => other,
        })?;
        Ok(Incoming { value, warnings })
    }

    fn applied(
        &self,
        request: Request<'_>,
        options: &Options,
        live: Option<&Value>,
        config: &Value,
        now: &str,
    ) -> Result<Value, ApiError> {
        check_config(request, config)?;
        let resource = request.resource;
        let api_version = resource.api_version();
        let subresource = request.target.subresource.as_str();
        let writer = Writer {
            manager: &options.manager,
            api_version: &api_version,
            subresource,
            now,
            reset: resource.strategy.reset_fields(subresource),
        };
        let options = ApplyOptions { force: options.force, brand: self.registry.brand };
        apply(&self.registry.schema, resource.type_id, live, config, &writer, options)
            .map_err(|error| apply_error(&error))
    }
}

fn parse(format: &str, body: &[u8]) -> Result<Patch, ApiError> {
    let json = |body: &[u8]| {
        serde_json::from_slice::<Value>(body)
            .map_err(|error| ApiError::BadRequest(format!("error decoding patch: {error}")))
    };
    Ok(match format {
        "application/json-patch+json" => Patch::Json(JsonPatch::parse(json(body)?).map_err(patch_error)?),
        "application/merge-patch+json" => Patch::Merge(json(body)?),
        "application/strategic-merge-patch+json" => Patch::Strategic(json(body)?),
        "application/apply-patch+yaml" => Patch::Apply(apply_config(body)?),
        _ => return Err(ApiError::UnsupportedMediaType("415: Unsupported Media Type".to_owned())),
    })
}

/// An apply configuration: YAML, of which JSON is a part.
fn apply_config(body: &[u8]) -> Result<Value, ApiError> {
    let config = crate::schema::yaml_value(body)
        .map_err(|error| ApiError::BadRequest(format!("error decoding YAML: {error}")))?;
    if config.is_object() {
        return Ok(config);
    }
    Err(ApiError::BadRequest("error decoding YAML: an apply configuration is an object".to_owned()))
}

/// Patches see the whole document, head included.
fn with_head(request: Request<'_>, object: Value) -> Value {
    let mut document = Map::new();
    document.insert("kind".to_owned(), json!(request.resource.kind));
    document.insert("apiVersion".to_owned(), json!(request.resource.api_version()));
    if let Value::Object(fields) = object {
        document.extend(fields);
    }
    Value::Object(document)
}

/// A configuration must say what it is, and be what the URL names.
fn check_config(request: Request<'_>, config: &Value) -> Result<(), ApiError> {
    let resource = request.resource;
    let (kind, version) = (config.text("kind"), config.text("apiVersion"));
    if kind.is_empty() || version.is_empty() {
        let missing = if kind.is_empty() { "kind" } else { "apiVersion" };
        return Err(ApiError::BadRequest(format!(
            "invalid object: {missing} must be set in an apply configuration"
        )));
    }
    if kind != resource.kind || version != resource.api_version() {
        return Err(ApiError::BadRequest(format!(
            "invalid object type: {version}, Kind={kind} does not match {}, Kind={}",
            resource.api_version(),
            resource.kind
        )));
    }
    match config.at("metadata").text("name") {
        name if name == request.target.name => Ok(()),
        name => Err(ApiError::BadRequest(format!(
            "metadata.name {name:?} must be the name on the URL ({:?})",
            request.target.name
        ))),
    }
}

fn patch_error(error: PatchError) -> ApiError {
    match error {
        PatchError::Malformed(message) => ApiError::BadRequest(message),
        PatchError::CannotApply(_) => ApiError::UnprocessablePatch,
        PatchError::TooManyOperations(_) => ApiError::ObjectTooLarge(error.to_string()),
        PatchError::Unsupported => ApiError::BadRequest(error.to_string()),
    }
}

fn apply_error(error: &ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(conflicts) => ApiError::ApplyConflict {
            message: error.to_string(),
            causes: conflicts.iter().map(|conflict| (conflict.cause(), conflict.path.clone())).collect(),
        },
        ApplyError::ManagedFieldsGiven | ApplyError::Typed { .. } => ApiError::BadRequest(error.to_string()),
        ApplyError::Managed(_) | ApplyError::Item(_) => ApiError::Internal(error.to_string()),
    }
}
