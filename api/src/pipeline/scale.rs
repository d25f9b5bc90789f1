//! The sub-resource `scale`: the number of replicas of an object, as a document of its own.
//!
//! Owns the way of a read and of a write through it. A write is computed on the scale of the stored object, under the
//! field managers that the scale has; then its number moves into the object, which passes the rules of its kind.
//! Admission sees the scale. Nothing here names a kind: what a scale shows is stated by the kind's message.

use std::sync::Arc;

use orch_raft::{Key, Store};
use orch_rules::Action;
use orch_rules::kinds::scale::{field_at, scale_of, set_replicas};
use orch_rules::validate::tree::{Tree, carry, child_mut, set, unset};
use orch_rules::validate::{FieldErrors, WriteKind};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;
use orch_schema::{ScalePaths, apply_defaults, encode_json};

use super::incoming::Patched;
use super::judged::{Judged, Rejected, Write};
use super::media_type::patch_media_type;
use super::modify::{Attempt, Current};
use super::options::Options;
use super::patch_body::{APPLY, Parsed, Patch};
use super::staged::{self, Asking, tree_for_rules};
use super::update::{check_name, check_version, is_freed, names_version};
use super::{Answer, Pipeline, Request, WriteOutcome, Written};
use crate::admission::{Additions, Attributes, Operation, Refused, View};
use crate::error::{ApiError, Subject};
use crate::fields::{ScaledField, keep_times_if_unchanged};
use crate::registry::Resource;
use crate::request::Verb;

/// The number of replicas in the scale that a patch changes, where the object names none. As in the reference it is a number that no
/// object has.
const UNSAID: i64 = -2_147_483_648;

/// A scale that a client sent.
enum Sent {
    Object(Value),
    Patch(Parsed),
}

/// The object behind a scale.
#[derive(Clone, Copy)]
struct Scaled<'a> {
    /// The request for the scale.
    request: Request<'a>,
    /// The same request as one for the object.
    object: Request<'a>,
    paths: &'a ScalePaths,
}

impl<'a> Scaled<'a> {
    fn new(request: Request<'a>) -> Result<Self, ApiError> {
        let target = request.target;
        let parent = request.registry.find(&target.group, &target.version, &target.resource);
        let resource: &'a Arc<Resource> = parent.ok_or(ApiError::UnknownPath)?;
        let part = resource.subresource(Action::Scale.subresource());
        let paths = part.and_then(|part| part.scale.as_ref()).ok_or(ApiError::UnknownPath)?;
        Ok(Scaled { request, object: Request { resource, action: Action::Object, ..request }, paths })
    }

    /// The field of the number of replicas, in all versions of the object that are served with a scale, for its owners.
    fn field(&self) -> ScaledField {
        let Scaled { request, object, paths } = *self;
        let field = ScaledField::new(paths, object.resource.api_version(), request.resource.api_version());
        object.resource.others.iter().fold(field, |field, other| {
            let version = other.api_version.rsplit('/').next().unwrap_or_default();
            let found = request.registry.find(&request.target.group, version, &request.target.resource);
            let part = found.and_then(|found| found.subresource(Action::Scale.subresource()));
            match part.and_then(|part| part.scale.as_ref()) {
                Some(paths) => field.and_in(paths, other.api_version.clone()),
                None => field,
            }
        })
    }

    /// Whether the object says how many replicas are wanted. Objects of built-in kinds always do.
    fn has_replicas(&self, object: &Value) -> bool {
        !field_at(object, &self.paths.spec_replicas).is_null()
    }

    /// The path of that field as a definition writes it: `.spec.replicas`.
    fn replicas_path(&self) -> String {
        self.paths.spec_replicas.iter().map(|step| format!(".{step}")).collect()
    }

    /// The answer: the scale of the object whose JSON is `json`.
    fn written_of(&self, json: &[u8]) -> Result<Written, ApiError> {
        let object: Value = serde_json::from_slice(json)
            .map_err(|error| ApiError::Internal(format!("a stored object cannot be read: {error}")))?;
        Ok(self.written(&object))
    }

    /// The answer: the scale of `object`.
    fn written(&self, object: &Value) -> Written {
        let resource = self.request.resource;
        let mut json = Vec::with_capacity(512);
        encode_json(&resource.schema, resource.type_id, &scale_of(object, self.paths), &mut json);
        Written { json: json.into(), stored: None, written_as: None, outcome: WriteOutcome::Done }
    }
}

impl<S: Store> Pipeline<S> {
    /// GET, PUT or PATCH of a scale.
    pub(super) async fn scale(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let scaled = Scaled::new(request)?;
        if request.verb == Verb::Get {
            let object = self.get(scaled.object).await?;
            let tree = tree_for_rules(scaled.object.resource, &object, Asking::Anew, request).await?;
            if !scaled.has_replicas(&tree) {
                let path = quoted(&scaled.replicas_path());
                return Err(ApiError::BadRequest(format!("the spec replicas field {path} does not exist")));
            }
            return Ok(scaled.written(&tree));
        }
        let format = patch_media_type(request.content_type);
        let is_apply = request.verb == Verb::Patch && format == APPLY;
        let write = if is_apply { WriteKind::Apply } else { WriteKind::Plain };
        let options = self.write_options(request, write)?;
        let first = self.sent_scale(request, &options)?;
        if request.verb == Verb::Patch {
            request.record_patch(format);
        }
        let names_version = match &first {
            Sent::Object(value) => names_version(value),
            Sent::Patch(parsed) => parsed.patch.names_version(),
        };
        let (key, first) = (scaled.object.key()?, Some(first));
        let attempt =
            ScaleAttempt { pipeline: self, scaled, key: &key, options: &options, first, names_version };
        match self.modify(scaled.object, &key, options.dry_run, attempt).await? {
            Some(modified) => {
                let answer = Answer::Written(modified.written());
                match staged::shown(scaled.object.resource, answer, request).await? {
                    Answer::Written(shown) => scaled.written_of(&shown.json),
                    _ => Err(ApiError::Internal("a write is answered with something else".to_owned())),
                }
            }
            None => Err(ApiError::NotFound(scaled.object.subject())),
        }
    }

    /// The scale or the patch in the body.
    fn sent_scale(&self, request: Request<'_>, options: &Options) -> Result<Sent, ApiError> {
        match request.verb {
            Verb::Patch => self.parsed(request).map(Sent::Patch),
            _ => self.sent(request, options).map(Sent::Object),
        }
    }

    /// Judges the change of `current` by a scale.
    async fn rescale(
        &self,
        scaled: Scaled<'_>,
        options: &Options,
        sent: Sent,
        current: Current<'_>,
    ) -> Result<Judged, Rejected> {
        let Scaled { request, object, paths } = scaled;
        let Current { value: stored, view, .. } = current;
        let (now, field) = (self.ambient.now().seconds_text(), scaled.field());
        let mut old = scale_of(&stored, paths);
        if let Some(managed) = field.to_scale(stored.at("metadata").get("managedFields")) {
            set(child_mut(&mut old, "metadata"), "managedFields", managed);
        }
        let mut new = match scaled.has_replicas(&stored) {
            true => self.new_scale(request, options, sent, &old, &now)?,
            false => {
                let mut unsaid = old.clone();
                set(child_mut(&mut unsaid, "spec"), "replicas", UNSAID);
                self.new_scale(request, options, sent, &unsaid, &now)?
            }
        };
        if object.resource.is_declared() && new.at("spec").int("replicas") == Some(UNSAID) {
            let path = quoted(&scaled.replicas_path());
            let told = format!("the spec replicas field {path} cannot be empty");
            return Err(ApiError::BadRequest(told).into());
        }
        let mut additions = Additions::default();
        let attributes = Attributes {
            old: Some(&old),
            dry_run: options.dry_run,
            ..self.attributes(request, Operation::Update)
        };
        self.mutate(&attributes, Some(&mut new), view, &mut additions).await?;
        self.check_scale(scaled, &old, &new, &now)?;
        let mut after = stored.clone();
        set_replicas(&mut after, &new, paths);
        let metadata = child_mut(&mut after, "metadata");
        // A scale need not name the version that it changes, whatever its kind demands.
        let named = if names_version(&new) { &new } else { &stored };
        carry(named.at("metadata"), metadata, "resourceVersion");
        match field.to_object(metadata.get("managedFields"), new.at("metadata").get("managedFields")) {
            Some(managed) => set(metadata, "managedFields", managed),
            None => unset(metadata, "managedFields"),
        }
        check_version(object, &stored, &mut after)?;
        let context = self.context(object, &now);
        object.resource.strategy.prepare_for_update(&context, &stored, &mut after);
        self.validate_change(object, &stored, &after, &now, None)?;
        request.exchange.warn(object.resource.strategy.warnings(&context, Some(&stored), &after));
        request.budget.check()?;
        let is_removal = is_freed(object, &after);
        let (shown, attributes) = (scale_of(&after, paths), Attributes { is_removal, ..attributes });
        self.validate(&attributes, Some(&shown), view, &mut additions).await?;
        keep_times_if_unchanged(&stored, &mut after);
        let put = self.put_converted(object, object.key()?, &mut after).await?;
        let write = if is_removal { Write::Free(put) } else { Write::Put(put) };
        Ok(Judged::new(write, old, Some(shown), additions))
    }

    /// The scale that the client wants of the one that is `old`, with its managed fields.
    fn new_scale(
        &self,
        request: Request<'_>,
        options: &Options,
        sent: Sent,
        old: &Value,
        now: &str,
    ) -> Result<Value, ApiError> {
        let resource = request.resource;
        let (mut new, is_applied) = match sent {
            Sent::Object(value) => (value, false),
            Sent::Patch(parsed) => {
                let is_applied = matches!(parsed.patch, Patch::Apply(_));
                let Patched { mut value, warnings, .. } =
                    self.patched_whole(request, options, parsed, old.clone())?;
                request.exchange.warn(warnings);
                self.settle_namespace(request, &mut value)?;
                check_name(request, &value)?;
                (value, is_applied)
            }
        };
        request.budget.check()?;
        apply_defaults(&resource.schema, resource.type_id, &mut new);
        if !is_applied {
            self.track(request, options, old, &mut new, now);
        }
        Ok(new)
    }

    /// Checks the rules of scales, and that the scale is that of the stored object.
    fn check_scale(&self, scaled: Scaled<'_>, old: &Value, new: &Value, now: &str) -> Result<(), ApiError> {
        let Scaled { request, object, .. } = scaled;
        let (resource, name) = (request.resource, &request.target.name);
        // The number of a declared kind is judged where the object has it.
        let errors = match object.resource.is_declared() {
            true => FieldErrors::new(),
            false => resource.strategy.validate_create(&self.context(request, now), new),
        };
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: Subject::kind(resource, name), errors });
        }
        let (given, uid) = (new.at("metadata").text("uid"), old.at("metadata").text("uid"));
        if given.is_empty() || given == uid {
            return Ok(());
        }
        let kind = format!("{}/{}", object.resource.plural, request.action.subresource());
        let reason =
            format!("Precondition failed: UID in precondition: {}, UID in object meta: {uid}", part(given));
        Err(ApiError::Conflict { subject: Subject { kind, ..object.subject() }, reason })
    }
}

/// A PUT or PATCH of a scale.
struct ScaleAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    scaled: Scaled<'a>,
    key: &'a Key,
    options: &'a Options,
    /// The body, until an attempt takes it. Another attempt reads the body again.
    first: Option<Sent>,
    names_version: bool,
}

impl<S: Store> Attempt for ScaleAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let (pipeline, scaled, options) = (self.pipeline, self.scaled, self.options);
        let sent = match self.first.take() {
            Some(sent) => sent,
            None => pipeline.sent_scale(scaled.request, options)?,
        };
        pipeline.rescale(scaled, options, sent, current).await
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let asked = (self.scaled.request, Operation::Update, self.options.dry_run);
        self.pipeline.reserve(asked, self.key, judged, view)
    }

    fn names_version(&self) -> bool {
        self.names_version
    }
}
