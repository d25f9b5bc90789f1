//! Decodes a body into an object of the kind: media type, `apiVersion` and `kind`, field validation, namespace.
//!
//! Owns the decoding of the body of a create or an update. The result is in canonical form and pruned; none of the
//! kind's own rules has run on it.

use memchr::memmem;
use orch_raft::Store;
use orch_rules::Action;
use orch_rules::validate::FieldErrors;
use orch_rules::validate::tree::{Tree, child_mut, object_mut, set, unset};
use orch_schema::excerpt::{part, summary};
use orch_schema::value::Value;
use orch_schema::{
    DecodeError, Decoded, Head, Limits, StrictError, decode_json, decode_protobuf_object, decode_yaml,
    read_json, read_yaml,
};

use super::foreign::ForeignType;
use super::media_type::{media_type, takes_protobuf, unsupported};
use super::options::FieldValidation;
use super::{Pipeline, Request};
use crate::error::ApiError;
use crate::exchange::Step;
use crate::request::Verb;

/// The object of a body.
pub(super) struct Incoming {
    /// Canonical form of the request's version.
    pub value: Value,
    /// The type that it states, where that is not the path's.
    pub foreign: Option<ForeignType>,
}

/// An object of the path's type.
impl From<Value> for Incoming {
    fn from(value: Value) -> Self {
        Incoming { value, foreign: None }
    }
}

/// The result of a patch.
pub(super) struct Patched {
    /// Canonical form of the request's version.
    pub value: Value,
    /// The type that it states, where that is not the path's.
    pub foreign: Option<ForeignType>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

impl<S: Store> Pipeline<S> {
    /// Decodes the body of a create or update, which has to be of the path's type.
    pub(super) fn incoming(
        &self,
        request: Request<'_>,
        validation: FieldValidation,
    ) -> Result<Value, ApiError> {
        let Incoming { value, foreign } = self.incoming_of_any_kind(request, validation)?;
        match foreign {
            None => Ok(value),
            Some(foreign) => {
                let name = value.at("metadata").text("name");
                Err(foreign.refusal(request.resource, name, FieldErrors::new()))
            }
        }
    }

    /// Decodes the body of a create or update. That of a declared kind may state another kind.
    pub(super) fn incoming_of_any_kind(
        &self,
        request: Request<'_>,
        validation: FieldValidation,
    ) -> Result<Incoming, ApiError> {
        request.budget.check()?;
        let began = self.ambient.now();
        let decoded = decode_body(request, |format, error| refused_in(format, request, error))?;
        request.budget.check()?;
        let Decoded { mut value, mut strict, head } = decoded;
        let foreign = match request.resource.is_declared() {
            true => check_declared_head(request, &head)?,
            false => check_head(request, &head).map(|()| None)?,
        };
        if foreign.is_some() {
            // The schema is that of another kind.
            strict.retain(
                |error| !matches!(error, StrictError::Unknown(path) if !path.starts_with("metadata.")),
            );
        }
        let warnings = report_strict_errors(request, &head, strict, validation)?;
        request.exchange.warn(warnings);
        request.record_object(&value);
        if self.empties_owners(request) {
            clear_managed_fields(&mut value);
        }
        request.exchange.note(Step::Decode, began, self.ambient.now());
        Ok(Incoming { value, foreign })
    }

    /// Whether the body has `managedFields: []`. Decoding drops an empty list, but this one asks to clear all managed
    /// fields.
    fn empties_owners(&self, request: Request<'_>) -> bool {
        let is_named = memmem::find(request.body, b"managedFields").is_some();
        if request.verb != Verb::Update || !is_named {
            return false;
        }
        let document = match media_type(request.content_type) {
            "" | "application/json" => {
                read_json(&request.resource.schema, request.body, Limits::default()).ok()
            }
            "application/yaml" => read_yaml(&request.resource.schema, request.body)
                .ok()
                .map(|(document, _)| (document, Vec::new())),
            _ => None,
        };
        document.is_some_and(|(document, _)| has_empty_managed_fields(&document))
    }

    /// Sets the namespace of the path in the object, or refuses a different one. Removes it from cluster-scoped
    /// objects.
    pub(super) fn settle_namespace(&self, request: Request<'_>, value: &mut Value) -> Result<(), ApiError> {
        object_mut(value);
        let metadata = child_mut(value, "metadata");
        object_mut(metadata);
        if !request.resource.namespaced {
            unset(metadata, "namespace");
            return Ok(());
        }
        let wanted = &request.target.namespace;
        match metadata.text("namespace") {
            "" if wanted.is_empty() => {}
            "" => set(metadata, "namespace", wanted.as_str()),
            given if given == wanted => {}
            _ => {
                let message =
                    "the namespace of the provided object does not match the namespace sent on the request";
                return Err(ApiError::BadRequest(message.to_owned()));
            }
        }
        Ok(())
    }
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// The document in the body, of the type that the verb accepts.
///
/// # Errors
/// `UnsupportedMediaType`, `OverBudget`, and the error that `refused` returns for a body that cannot be decoded.
pub(super) fn decode_body(
    request: Request<'_>,
    refused: impl FnOnce(Format, &DecodeError) -> ApiError,
) -> Result<Decoded, ApiError> {
    let brand = request.registry.brand;
    let format = match media_type(request.content_type) {
        "" | "application/json" => Format::Json,
        "application/yaml" => Format::Yaml,
        other if other == brand.protobuf_media_type && takes_protobuf(request) => Format::Protobuf,
        _ => return Err(unsupported(request)),
    };
    let type_id = request
        .resource
        .request_type(request.action, request.verb)
        .ok_or_else(|| ApiError::Internal(format!("{:?} takes no document", request.verb)))?;
    let decode = match format {
        Format::Json => decode_json,
        Format::Yaml => decode_yaml,
        Format::Protobuf => decode_protobuf_object,
    };
    decode(&request.resource.schema, type_id, request.body, Limits::default()).map_err(|error| match error {
        DecodeError::OverBudget => ApiError::OverBudget(error.to_string()),
        error => refused(format, &error),
    })
}

/// Whether an object that is not decoded yet has `managedFields: []`.
pub(super) fn has_empty_managed_fields(document: &Value) -> bool {
    document.at("metadata").at("managedFields").as_array().is_some_and(Vec::is_empty)
}

/// Sets `managedFields: []` on a decoded object: asks to clear all managed fields.
pub(super) fn clear_managed_fields(value: &mut Value) {
    set(child_mut(value, "metadata"), "managedFields", Vec::<Value>::new());
}

/// The refusal of a body that cannot be decoded as the kind.
pub(super) fn refused(request: Request<'_>, error: &DecodeError) -> ApiError {
    if *error == DecodeError::OverBudget {
        return ApiError::OverBudget(error.to_string());
    }
    let resource = request.resource;
    ApiError::BadRequest(format!(
        "{} in version {:?} cannot be handled as a {}: {error}",
        resource.kind, resource.version, resource.kind
    ))
}

/// Refuses an object that the reference cannot read into its own types, with its text.
pub(super) fn check_readable(request: Request<'_>, value: &Value) -> Result<(), ApiError> {
    let resource = request.resource;
    match resource.strategy.unreadable(value) {
        None => Ok(()),
        Some(fault) => Err(ApiError::BadRequest(format!(
            "{} in version {:?} cannot be handled as a {}: {fault}",
            resource.kind, resource.version, resource.kind
        ))),
    }
}

/// [`refused`], with the reference's text where the kind of the body is unknown, because nothing could be read of it.
fn refused_in(format: Format, request: Request<'_>, error: &DecodeError) -> ApiError {
    if format != Format::Protobuf && !error.is_of_text() {
        return refused(request, error);
    }
    // The beginning of a body may be a secret. That of an envelope stands in its error already.
    let resource = request.resource;
    let beginning = match error.is_of_text() && !resource.rules.confidential {
        true => format!(" ({})", summary(request.body)),
        false => String::new(),
    };
    let kind = &resource.kind;
    ApiError::BadRequest(format!(
        "the object provided is unrecognized (must be of type {kind}): {error}{beginning}"
    ))
}

/// Refuses a body whose `apiVersion` or `kind` is not that of the resource.
fn check_head(request: Request<'_>, head: &Head) -> Result<(), ApiError> {
    let resource = request.resource;
    let version = resource.api_version();
    let (kind_given, version_given) = (head.kind.as_str(), head.api_version.as_str());
    if (kind_given.is_empty() || kind_given == resource.kind)
        && (version_given.is_empty() || version_given == version || is_older_form(request, version_given))
    {
        return Ok(());
    }
    let is_kind = kind_given == resource.kind || kind_given.is_empty();
    let (kind_given, version_given) = (part(kind_given), part(version_given));
    if is_kind {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({version_given}) does not match the expected API version ({version})"
        )));
    }
    Err(ApiError::BadRequest(format!(
        "{kind_given} in version {version_given:?} cannot be handled as a {}: converting ({version_given}, {kind_given}) to ({version}, {}): unknown conversion",
        resource.kind, resource.kind
    )))
}

/// Refuses a body of a declared kind that states no kind, or whose `apiVersion` is not that of the resource. Another kind is an error of
/// the object.
fn check_declared_head(request: Request<'_>, head: &Head) -> Result<Option<ForeignType>, ApiError> {
    let (resource, kind) = (request.resource, &request.resource.kind);
    if head.kind.is_empty() {
        let text = String::from_utf8_lossy(request.body);
        let (body, beginning) = (part(&text), summary(request.body));
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}' ({beginning})"
        )));
    }
    let version = resource.api_version();
    if head.api_version != version {
        return Err(ApiError::BadRequest(format!(
            "the API version in the data ({}) does not match the expected API version ({version})",
            part(&head.api_version)
        )));
    }
    Ok(ForeignType::of(resource, &head.kind, &head.api_version))
}

/// Whether a body may state `version` although it is not that of the resource: older clients that drain nodes send
/// evictions so, in the same form.
fn is_older_form(request: Request<'_>, version: &str) -> bool {
    request.action == Action::Eviction && version == "policy/v1beta1"
}

/// Splits an error of the YAML reader into one warning a line; any other text stays whole.
fn yaml_lines(text: &str) -> Vec<String> {
    match text.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

/// Treats unknown and duplicate fields by the validation level: none, warnings, or the refusal of `Strict`.
pub(super) fn report_strict_errors(
    request: Request<'_>,
    head: &Head,
    strict: Vec<StrictError>,
    validation: FieldValidation,
) -> Result<Vec<String>, ApiError> {
    if strict.is_empty() || validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let texts: Vec<String> = strict.iter().map(ToString::to_string).collect();
    if validation == FieldValidation::Warn {
        return Ok(texts.iter().flat_map(|text| yaml_lines(text)).collect());
    }
    let kind = if head.kind.is_empty() { &request.resource.kind } else { &head.kind };
    Err(ApiError::BadRequest(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
        request.resource.version,
        texts.join(", ")
    )))
}
