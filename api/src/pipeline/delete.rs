//! Deleting an object in two phases.
//!
//! Owns the options of a delete (`delete_query` reads those in the query), preconditions, the finalizers of propagation policies, and
//! grace periods. An object without finalizers, grace period or other hold is removed at once; otherwise it gets a
//! `deletionTimestamp` and stays until the last hold is gone.

use orch_raft::Store;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_rules::validate::validate_delete_options;
use orch_schema::excerpt::{part, quoted};
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{DecodeError, Decoded, DefaultPropagation, Head, Rules};

use super::allotment::Transfer;
use super::delete_query::add_query_options;
use super::grace::Grace;
use super::incoming::decode_body;
use super::judged::{Judged, Rejected, Write};
use super::modified::Modified;
use super::modify::{Attempt, Current};
use super::{Answer, Pipeline, Request, WriteOutcome, Written};
use crate::admission::{Additions, Attributes, Operation, Refused, View, forbidden};
use crate::allocation::claims::Holdings;
use crate::error::{ApiError, Subject};
use crate::registry::Resource;
use crate::status::Status;

/// The kind of the body of a DELETE.
const OPTIONS: &str = "DeleteOptions";
/// The finalizer of an object that waits for its dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be orphaned.
const ORPHAN: &str = "orphan";

/// Validated options of a delete.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    value: Value,
    /// Run every stage, store nothing.
    pub dry_run: bool,
}

impl<S: Store> Pipeline<S> {
    /// DELETE of one object.
    pub(super) async fn delete(&self, request: Request<'_>) -> Result<Answer, ApiError> {
        let strategy = &request.resource.strategy;
        let options = self.delete_options(request)?;
        if let Some(reason) = strategy.forbids_deletion(&request.target.name) {
            return Err(forbidden(request.subject(), reason));
        }
        let key = request.key()?;
        let removed = self.remove(request, &key, &options).await?;
        let Some(modified) = removed else { return Err(ApiError::NotFound(request.subject())) };
        let Modified { json, stored, written_as, before, is_removal } = modified;
        if is_removal && !request.resource.rules.returns_deleted {
            let subject = Subject::resource(request.resource, &request.target.name);
            return Ok(Answer::Done(Status::deleted(subject, before.index.uid.clone())));
        }
        let is_accepted = !is_removal && options.value.at("orphanDependents") == &json!(false);
        let outcome = if is_accepted { WriteOutcome::Accepted } else { WriteOutcome::Done };
        Ok(Answer::Written(Written { json, stored, written_as, outcome }))
    }

    /// Marks or removes the object under `key`.
    pub(super) async fn remove(
        &self,
        request: Request<'_>,
        key: &orch_raft::Key,
        options: &DeleteOptions,
    ) -> Result<Option<Modified>, ApiError> {
        let attempt = DeleteAttempt { pipeline: self, request, key, options };
        self.modify(request, key, options.dry_run, attempt).await
    }

    /// The write that marks or removes `old`.
    pub(super) async fn try_delete(
        &self,
        request: Request<'_>,
        key: &orch_raft::Key,
        options: &DeleteOptions,
        old: &Value,
    ) -> Result<Write, ApiError> {
        let resource = request.resource;
        let strategy = &*resource.strategy;
        let now = self.ambient.now();
        let text = now.seconds_text();
        if let Some(mut marked) = strategy.mark_deleted(&self.context(request, &text), old) {
            return Ok(Write::Put(self.put_converted(request, key.clone(), &mut marked).await?));
        }
        let requested = options.value.int("gracePeriodSeconds");
        let grace = Grace::of(strategy, old, requested, now);
        let ends_by_itself = old.at("metadata").has("deletionTimestamp") && strategy.holds_deletion(old);
        if grace == Grace::Pending || ends_by_itself {
            // Termination is under way: a further delete changes nothing, not even finalizers.
            return Ok(Write::Put(self.put_converted(request, key.clone(), &mut old.clone()).await?));
        }
        let finalizers = options.finalizers(old, &resource.rules);
        let waits = matches!(grace, Grace::Given { seconds, .. } if seconds > 0);
        // Kinds hold a deletion by other fields than the finalizers in the metadata.
        let is_held = !finalizers.is_empty() || waits || strategy.holds_deletion(old);
        if is_held || grace != Grace::None {
            let mut new = old.clone();
            let metadata = child_mut(&mut new, "metadata");
            if finalizers.is_empty() {
                metadata.as_object_mut().map(|fields| fields.shift_remove("finalizers"));
            } else {
                set(metadata, "finalizers", finalizers);
            }
            grace.mark(child_mut(&mut new, "metadata"), now);
            strategy.prepare_for_delete(&mut new);
            let put = self.put_converted(request, key.clone(), &mut new).await?;
            return Ok(if is_held { Write::Put(put) } else { Write::Remove(Some(put)) });
        }
        let shown = match resource.rules.returns_deleted {
            true => Some(self.put_converted(request, key.clone(), &mut old.clone()).await?),
            false => None,
        };
        Ok(Write::Remove(shown))
    }

    /// The options of a delete, from the body and the query.
    pub(super) fn delete_options(&self, request: Request<'_>) -> Result<DeleteOptions, ApiError> {
        let mut value = if request.body.is_empty() { json!({}) } else { self.body_options(request)? };
        add_query_options(request, &mut value)?;
        let errors = validate_delete_options(&value);
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: request.options_subject(OPTIONS), errors });
        }
        let dry_run = !value.items("dryRun").is_empty();
        let options = DeleteOptions::new(value, dry_run);
        // Before anything is deleted, so that a collection's deletion that fails halfway carries the warning, too.
        request.exchange.warn(options.orphaning_warning(request.resource));
        Ok(options)
    }

    fn body_options(&self, request: Request<'_>) -> Result<Value, ApiError> {
        let refused = |_, error: &DecodeError| ApiError::BadRequest(format!("{OPTIONS}: {error}"));
        let Decoded { value, head, .. } = decode_body(request, refused)?;
        check_options_head(request, &head)?;
        let options = if value.is_object() { value } else { json!({}) };
        let meta = format!("{}/v1", request.registry.brand.group("meta"));
        let version = if head.api_version.is_empty() { &meta } else { &head.api_version };
        request.record_options(OPTIONS, version, &options);
        Ok(options)
    }
}

/// A deletion of a stored object.
struct DeleteAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a orch_raft::Key,
    options: &'a DeleteOptions,
}

impl<S: Store> Attempt for DeleteAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let DeleteAttempt { pipeline, request, key, options } = *self;
        let Current { value: old, view, .. } = current;
        options.check_preconditions(request, key.name(), &old)?;
        let mut additions = Additions::default();
        let write = pipeline.try_delete(request, key, options, &old).await?;
        let attributes = Attributes {
            namespace: key.namespace(),
            name: key.name(),
            old: Some(&old),
            deletion: Some(&options.value),
            dry_run: options.dry_run,
            is_removal: matches!(write, Write::Remove(_)),
            ..pipeline.attributes(request, Operation::Delete)
        };
        pipeline.mutate(&attributes, None, view, &mut additions).await?;
        pipeline.validate(&attributes, None, view, &mut additions).await?;
        let frees = pipeline.allocator.holds(request.resource) && attributes.is_removal;
        let transfer = frees.then(|| Transfer { before: Holdings::of(&old), after: Holdings::default() });
        Ok(Judged::new(write, old, None, additions).with_transfer(transfer))
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let asked = (self.request, Operation::Delete, self.options.dry_run);
        self.pipeline.reserve(asked, self.key, judged, view)
    }

    fn names_version(&self) -> bool {
        self.options.names_version()
    }
}

impl DeleteOptions {
    /// The options `value`, which are valid.
    pub(super) fn new(value: Value, dry_run: bool) -> Self {
        DeleteOptions { value, dry_run }
    }

    /// Whether the preconditions name the `resourceVersion` of the object.
    pub(super) fn names_version(&self) -> bool {
        self.value.at("preconditions").has("resourceVersion")
    }

    /// Refuses the delete of an object whose uid or `resourceVersion` is not that of the preconditions.
    pub(super) fn check_preconditions(
        &self,
        request: Request<'_>,
        name: &str,
        old: &Value,
    ) -> Result<(), ApiError> {
        let wanted = self.value.at("preconditions");
        let stored = old.at("metadata");
        for (field, name_of, after) in [
            ("uid", "UID", "The object might have been deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "The object might have been modified"),
        ] {
            let (given, found) = (wanted.text(field), stored.text(field));
            if !wanted.has(field) || given == found {
                continue;
            }
            let given = part(given);
            let resource = request.resource;
            let (subject, reason) = match resource.rules.has_kind_specific_deletion {
                true => (
                    Subject::resource(resource, name),
                    format!(
                        "Precondition failed: {name_of} in precondition: {given}, {name_of} in object meta: {found}"
                    ),
                ),
                false => (
                    Subject::kind(resource, name),
                    format!(
                        "the {name_of} in the precondition ({given}) does not match the {name_of} in record ({found}). {after}"
                    ),
                ),
            };
            return Err(ApiError::Conflict { subject, reason });
        }
        Ok(())
    }

    /// The warning for a client that names no propagation policy where the kind orphans dependents by default.
    fn orphaning_warning(&self, resource: &Resource) -> Option<String> {
        let names_propagation = self.value.has("propagationPolicy") || self.value.has("orphanDependents");
        if names_propagation || resource.rules.propagation != DefaultPropagation::Orphan {
            return None;
        }
        Some(format!(
            "child pods are preserved by default when {} are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
            resource.plural
        ))
    }

    /// The object's finalizers with those that the propagation policy asks for.
    fn finalizers(&self, old: &Value, rules: &Rules) -> Vec<Value> {
        let default = rules.propagation;
        let stored = old.at("metadata").items("finalizers");
        // few: asked four times.
        let has = |name: &str| stored.iter().any(|finalizer| finalizer == name);
        let orphans = self.value.at("orphanDependents").as_bool();
        let (orphan, foreground) = match (self.value.text("propagationPolicy"), orphans) {
            _ if default == DefaultPropagation::Unsupported => (false, false),
            ("Orphan", _) | ("", Some(true)) => (true, false),
            ("Foreground", _) => (false, true),
            ("Background", _) => (false, false),
            ("", Some(false)) => (false, rules.has_kind_specific_deletion),
            _ if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
            _ => (default == DefaultPropagation::Orphan, false),
        };
        if (orphan, foreground) == (has(ORPHAN), has(FOREGROUND)) {
            return stored.to_vec();
        }
        let mut finalizers: Vec<Value> =
            stored.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
        if orphan {
            finalizers.push(json!(ORPHAN));
        }
        if foreground {
            finalizers.push(json!(FOREGROUND));
        }
        finalizers
    }
}

/// Refuses a body of another kind than `DeleteOptions`: its sender did not mean a deletion. The `apiVersion` may be
/// that of any served group, as old clients send it.
fn check_options_head(request: Request<'_>, head: &Head) -> Result<(), ApiError> {
    let registry = request.registry;
    let meta = registry.brand.group("meta");
    let own = format!("{meta}/v1");
    let version = if head.api_version.is_empty() { &own } else { &head.api_version };
    let kind = if head.kind.is_empty() { OPTIONS } else { head.kind.as_str() };
    let is_known = || version == "v1" || *version == own || registry.serves(version);
    if kind == OPTIONS && is_known() {
        return Ok(());
    }
    let (kind, version) = (quoted(kind), quoted(version));
    Err(ApiError::BadRequest(format!(
        "no kind {kind} is registered for version {version} in scheme {}",
        quoted(&meta)
    )))
}
