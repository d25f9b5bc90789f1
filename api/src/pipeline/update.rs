//! Replacing an object (PUT), and the stages that every change of a stored object shares with it.
//!
//! Owns the stages from a new value to a put: defaults, managed fields, admission, the kind's preparation, validation.

use orch_raft::object::SharedObject;
use orch_raft::{Key, Store};
use orch_rules::Action;
use orch_rules::kinds::{Context, NameRule, alike};
use orch_rules::validate::tree::{Tree, carry, child_mut, set, unset};
use orch_rules::validate::{
    FieldError, FieldErrors, Path, WriteKind, carry_system_fields, validate_object_meta,
    validate_object_meta_update,
};
use orch_schema::apply_defaults;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::allotment::Transfer;
use super::incoming::{Incoming, check_readable};
use super::judged::{Judged, Rejected, Write};
use super::modify::{ATTEMPTS_MAX, Attempt, Current, changing_too_fast};
use super::new_object::{Origin, fill_prepared, in_order};
use super::options::Options;
use super::owners::{self, Stage};
use super::stored::check_size;
use super::{Pipeline, Request, Written};
use crate::admission::{Additions, Attributes, Operation, Refused, View};
use crate::allocation::claims::Holdings;
use crate::error::{ApiError, Subject};
use crate::fields::{FieldsError, Writer, keep_times_if_unchanged, track_update};
use crate::registry::Resource;

impl<S: Store> Pipeline<S> {
    /// PUT.
    pub(super) async fn update(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let sent = || self.sent_of_any_kind(request, &options);
        let mut first = Some(sent()?);
        let names_version = first.as_ref().is_some_and(|first| names_version(&first.value));
        let key = request.key()?;
        for _ in 0..ATTEMPTS_MAX {
            let attempt = UpdateAttempt {
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
            let creates = request.resource.rules.create_on_update && request.action == Action::Object;
            if !creates {
                return Err(ApiError::NotFound(request.subject()));
            }
            let incoming = created_by_put(request, first.take().map_or_else(sent, Ok)?)?;
            match self.create_from(request, &options, incoming, Origin::Sent).await {
                // Another request created the object: replace that.
                Err(ApiError::AlreadyExists(_)) => {}
                created => return created,
            }
        }
        Err(changing_too_fast())
    }

    /// The decoded body of a PUT, which has to be of the path's type; its name is that of the URL.
    pub(super) fn sent(&self, request: Request<'_>, options: &Options) -> Result<Value, ApiError> {
        let mut value = self.incoming(request, options.field_validation)?;
        self.settle_sent(request, &mut value)?;
        Ok(value)
    }

    /// [`Pipeline::sent`] of a declared kind, which may state another kind.
    fn sent_of_any_kind(&self, request: Request<'_>, options: &Options) -> Result<Incoming, ApiError> {
        let mut incoming = self.incoming_of_any_kind(request, options.field_validation)?;
        self.settle_sent(request, &mut incoming.value)?;
        Ok(incoming)
    }

    fn settle_sent(&self, request: Request<'_>, value: &mut Value) -> Result<(), ApiError> {
        self.settle_namespace(request, value)?;
        check_name(request, value)?;
        request.exchange.warn(owners::deduplicate(value, Stage::Sent));
        Ok(())
    }

    /// Judges the change of `current` to `new`, which is in the request's version. `origin` tells whether managed fields
    /// are still to be computed.
    pub(super) async fn replace(
        &self,
        request: Request<'_>,
        options: &Options,
        current: Current<'_>,
        new: Incoming,
        origin: Origin,
    ) -> Result<Judged, Rejected> {
        let resource = request.resource;
        let Incoming { value: mut new, foreign } = new;
        let Current { value: stored, view, .. } = current;
        // Without a direct conversion the request's version is the form of the rules, and the object is held once.
        let converted = resource.direct().map(|_| resource.to_version(stored.clone()));
        let old = converted.as_ref().unwrap_or(&stored);
        request.exchange.warn(owners::deduplicate(&mut new, Stage::Mutated));
        check_version(request, old, &mut new)?;
        let now = self.ambient.now().seconds_text();
        let context = self.context(request, &now);
        check_readable(request, &new)?;
        apply_defaults(&resource.schema, resource.type_id, &mut new);
        resource.strategy.default(&context, &mut new);
        if origin == Origin::Sent {
            check_size(request, &new)?;
            self.track(request, options, old, &mut new, &now);
        }
        request.budget.check()?;
        drop(converted);
        let (old, mut new) = (stored, resource.to_rules(new));
        let mut additions = Additions::default();
        let attributes = Attributes {
            old: Some(&old),
            dry_run: options.dry_run,
            ..self.attributes(request, Operation::Update)
        };
        self.mutate(&attributes, Some(&mut new), view, &mut additions).await?;
        // A plugin that changed the `resourceVersion` names another object. The refusal is final: webhooks are asked once.
        check_version(request, &old, &mut new).map_err(Rejected::Finally)?;
        self.settle_namespace(request, &mut new)?;
        request.exchange.warn(owners::deduplicate(&mut new, Stage::Mutated));
        self.confirm_rights(&attributes, &new, view).await?;
        self.allot_in_time(&attributes, &mut new, view).await?;
        carry_system_fields(old.at("metadata"), child_mut(&mut new, "metadata"));
        resource.strategy.prepare_for_update(&context, &old, &mut new);
        let alike = judged_against(resource, &context, &old, &mut new);
        let required = resource.strategy.namespace_requirement(&context, Some(&old), &new);
        let unmet = self.unmet(request, required, view).await?;
        if let Some(foreign) = foreign.filter(|_| request.action == Action::Object) {
            let errors = metadata_errors(resource, &old, &new);
            return Err(foreign.refusal(resource, &request.target.name, errors).into());
        }
        self.validate_change(request, alike.as_ref().unwrap_or(&old), &new, &now, unmet)?;
        drop(alike);
        request.exchange.warn(resource.strategy.warnings(&context, Some(&old), &new));
        request.budget.check()?;
        let is_removal = is_freed(request, &new);
        let attributes = Attributes { is_removal, ..attributes };
        self.validate(&attributes, Some(&new), view, &mut additions).await?;
        fill_prepared(resource, &mut new);
        keep_times_if_unchanged(&old, &mut new);
        let transfer = self.allocator.holds(resource).then(|| {
            let after = if is_removal { Holdings::default() } else { Holdings::of(&new) };
            Transfer { before: Holdings::of(&old), after }
        });
        let put = self.put_converted(request, request.key()?, &mut new).await?;
        let write = if is_removal { Write::Free(put) } else { Write::Put(put) };
        Ok(Judged::new(write, old, Some(new), additions).with_transfer(transfer))
    }

    /// Records the fields that the writer of `new` owns.
    pub(super) fn track(
        &self,
        request: Request<'_>,
        options: &Options,
        old: &Value,
        new: &mut Value,
        now: &str,
    ) {
        let resource = request.resource;
        let api_version = resource.api_version();
        let writer = writer(request, options, &api_version, now);
        if let Err(error) = track(resource, Some(old), new, &writer) {
            tracing::debug!(%error, "ownership of a change is not tracked");
        }
    }

    /// Checks the rules of metadata and of the kind. `unmet` is the error of a namespace without a label that the object
    /// needs.
    pub(super) fn validate_change(
        &self,
        request: Request<'_>,
        old: &Value,
        new: &Value,
        now: &str,
        unmet: Option<FieldError>,
    ) -> Result<(), ApiError> {
        let resource = request.resource;
        let validate = |new: &Value| {
            let mut errors = metadata_errors(resource, old, new);
            errors.extend(unmet.clone());
            errors.append(resource.strategy.validate_update(&self.context(request, now), old, new));
            errors
        };
        let mut errors = validate(new);
        request.exchange.warn(errors.take_warnings());
        if errors.is_empty() {
            return Ok(());
        }
        let ordered = validate(&in_order(resource, new));
        let errors = if ordered.is_empty() { errors } else { ordered };
        Err(ApiError::Invalid { subject: Subject::kind(resource, &request.target.name), errors })
    }
}

/// The errors of the metadata of a changed object, apart from those that its kind finds.
fn metadata_errors(resource: &Resource, old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("metadata");
    let (metadata, before) = (new.at("metadata"), old.at("metadata"));
    let mut errors = validate_object_meta(metadata, resource.namespaced, NameRule::PathSegment, &path);
    errors.extend(validate_object_meta_update(metadata, before, &path));
    errors
}

/// The object that the rules of the kind compare `new` with, where that is not `old` itself.
fn judged_against(resource: &Resource, context: &Context<'_>, old: &Value, new: &mut Value) -> Option<Value> {
    // Objects of a version that is converted are of another type by now.
    let (schema, strategy) = (&resource.schema, &*resource.strategy);
    let is_stored_form = resource.direct().is_none();
    is_stored_form
        .then(|| alike::judged_against(schema, resource.type_id, strategy, context, old, new))
        .flatten()
}

/// Whether the object is being deleted and nothing holds it any more.
pub(super) fn is_freed(request: Request<'_>, new: &Value) -> bool {
    let metadata = new.at("metadata");
    let grace_over = metadata.int("deletionGracePeriodSeconds").unwrap_or(0) == 0;
    metadata.has("deletionTimestamp")
        && grace_over
        && metadata.items("finalizers").is_empty()
        && !request.resource.strategy.holds_deletion(new)
}

/// A PUT on a stored object.
struct UpdateAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a Key,
    options: &'a Options,
    /// The decoded body, until an attempt takes it. Another attempt decodes the body again: a copy would rarely be
    /// used.
    first: &'a mut Option<Incoming>,
    names_version: bool,
}

impl<S: Store> Attempt for UpdateAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let (pipeline, request, options) = (self.pipeline, self.request, self.options);
        let incoming = self.first.take().map_or_else(|| pipeline.sent_of_any_kind(request, options), Ok)?;
        check_uid(request, &current.object, &incoming.value)?;
        pipeline.replace(request, options, current, incoming, Origin::Sent).await
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let asked = (self.request, Operation::Update, self.options.dry_run);
        self.pipeline.reserve(asked, self.key, judged, view)
    }

    fn names_version(&self) -> bool {
        self.names_version
    }
}

/// Computes the managed fields of `new`. In a version that is converted, those fields are owned that come back from the
/// stored form, with what the conversion adds.
pub(super) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    writer: &Writer<'_>,
) -> Result<(), FieldsError> {
    let Some(mut seen) = resource.round_trip(new) else {
        return track_update(&resource.schema, resource.type_id, old, new, writer);
    };
    track_update(&resource.schema, resource.type_id, old, &mut seen, writer)?;
    carry(seen.at("metadata"), child_mut(new, "metadata"), "managedFields");
    Ok(())
}

/// The field manager of a change that `request` makes to a stored object. `api_version` is the resource's.
pub(super) fn writer<'a>(
    request: Request<'a>,
    options: &'a Options,
    api_version: &'a str,
    now: &'a str,
) -> Writer<'a> {
    Writer {
        manager: &options.manager,
        api_version,
        subresource: request.action.subresource(),
        now,
        reset: request.resource.resets(request.action),
        others: &request.resource.others,
    }
}

/// Refuses an object whose name is not that of the URL.
pub(super) fn check_name(request: Request<'_>, value: &Value) -> Result<(), ApiError> {
    let (name, wanted) = (value.at("metadata").text("name"), &request.target.name);
    let url = part(wanted);
    if name.is_empty() {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != wanted {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({}) does not match the name on the URL ({url})",
            part(name)
        )));
    }
    Ok(())
}

/// Refuses a PUT whose uid is not the stored one. In a patch it is a field like any other.
fn check_uid(request: Request<'_>, current: &SharedObject, new: &Value) -> Result<(), ApiError> {
    let (given, uid) = (new.at("metadata").text("uid"), &current.index.uid);
    if given.is_empty() || given == uid {
        return Ok(());
    }
    Err(uid_conflict(request, given, uid))
}

/// The new object of a PUT to an absent name.
fn created_by_put(request: Request<'_>, mut sent: Incoming) -> Result<Incoming, ApiError> {
    let uid = sent.value.at("metadata").text("uid");
    if !uid.is_empty() {
        return Err(uid_conflict(request, uid, ""));
    }
    // As in the reference the `resourceVersion` of an absent object is ignored.
    unset(child_mut(&mut sent.value, "metadata"), "resourceVersion");
    Ok(sent)
}

/// Whether an object that a client sent names a `resourceVersion`.
pub(super) fn names_version(sent: &Value) -> bool {
    !matches!(sent.at("metadata").text("resourceVersion"), "" | "0")
}

/// The error for a uid that is not the stored one.
fn uid_conflict(request: Request<'_>, given: &str, stored: &str) -> ApiError {
    let reason = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {}, UID in object meta: {stored}",
        request.resource.storage,
        part(&request.target.namespace),
        part(&request.target.name),
        part(given)
    );
    ApiError::Conflict { subject: request.subject(), reason }
}

/// Refuses a `resourceVersion` that is not the stored one, and an absent one where the kind requires it.
pub(super) fn check_version(request: Request<'_>, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    let version = old.at("metadata").text("resourceVersion");
    let metadata = child_mut(new, "metadata");
    match metadata.text("resourceVersion") {
        "" | "0" if request.resource.rules.conditional_update => {
            let path = Path::new("metadata").child("resourceVersion");
            let error =
                orch_rules::validate::FieldError::invalid(path, "0", "must be specified for an update");
            // Of every kind the reference names the resource here (vectors/crds).
            let subject = Subject::resource(request.resource, &request.target.name);
            return Err(ApiError::Invalid { subject, errors: error.into() });
        }
        "" | "0" => set(metadata, "resourceVersion", version),
        given if given == version => {}
        _ => return Err(ApiError::modified(request.subject())),
    }
    Ok(())
}
