//! Deleting an object in two phases (spec 3).
//!
//! Owns DeleteOptions, preconditions, finalizers that a propagation policy asks for, and grace periods. An object that
//! nothing holds goes at once; one that is held is marked and stays until the last hold is gone.

use orch_raft::Store;
use orch_raft::object::SharedObject;
use serde_json::{Map, Value, json};

use super::create::forbidden;
use super::incoming::media_type;
use super::modify::{Change, Modified};
use super::stored::tree_of;
use super::{Answer, Pipeline, Request, Written};
use crate::error::{ApiError, Subject};
use crate::kinds::DefaultPropagation;
use crate::registry::Resource;
use crate::schema::{Decoded, Limits, decode_json};
use crate::status::Status;
use crate::validate::tree::{Tree, child_mut, set};
use crate::validate::validate_delete_options;

/// The finalizer of an object that waits for its dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be orphaned.
const ORPHAN: &str = "orphan";

/// What a delete asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    value: Value,
    /// Everything but the storing.
    pub dry_run: bool,
}

impl<S: Store> Pipeline<S> {
    /// DELETE of one object.
    pub(super) async fn delete(&self, request: Request<'_>) -> Result<Answer, ApiError> {
        let strategy = request.resource.strategy;
        let options = self.delete_options(request)?;
        if let Some(reason) = strategy.forbids_deletion(self.registry.brand, &request.target.name) {
            return Err(forbidden(request, &request.target.name, reason));
        }
        let key = request.key()?;
        let removed = self.remove(request, &key, &options).await?;
        let Some(modified) = removed else { return Err(ApiError::NotFound(request.subject())) };
        let Modified { json, stored, before, is_removal } = modified;
        if is_removal && !self.shows_deleted(request, &before)? {
            let subject = Subject::resource(request.resource, &request.target.name);
            return Ok(Answer::Done(Status::deleted(subject, before.index.uid.clone())));
        }
        let orphans_unasked =
            strategy.default_propagation() == DefaultPropagation::Orphan && !options.names_propagation();
        let warnings = if orphans_unasked { vec![orphaning(request.resource)] } else { Vec::new() };
        Ok(Answer::Written(Written { json, stored, created: false, warnings }))
    }

    /// Marks or removes the object under `key`.
    pub(super) async fn remove(
        &self,
        request: Request<'_>,
        key: &orch_raft::Key,
        options: &DeleteOptions,
    ) -> Result<Option<Modified>, ApiError> {
        self.modify(key, options.dry_run, |current| self.try_delete(request, key, options, current)).await
    }

    fn try_delete(
        &self,
        request: Request<'_>,
        key: &orch_raft::Key,
        options: &DeleteOptions,
        current: &SharedObject,
    ) -> Result<Change, ApiError> {
        let resource = request.resource;
        let old = tree_of(current)?;
        options.check_preconditions(request, key.name(), &old)?;
        let strategy = resource.strategy;
        let grace = strategy.grace_period_seconds(&old, options.value.int("gracePeriodSeconds"));
        let mut new = old.clone();
        let finalizers = options.finalizers(&old, strategy.default_propagation());
        let metadata = child_mut(&mut new, "metadata");
        if finalizers.is_empty() {
            metadata.as_object_mut().map(|fields| fields.shift_remove("finalizers"));
        } else {
            set(metadata, "finalizers", finalizers.clone());
        }
        let now = self.ambient.now();
        let wait = grace.unwrap_or(0).max(0);
        mark(
            metadata,
            wait,
            &crate::ambient::Timestamp(now.0 + wait.unsigned_abs() * 1_000_000).seconds_text(),
        );
        strategy.prepare_for_delete(&mut new);
        let held = !finalizers.is_empty() || wait > 0 || strategy.holds_deletion(&new);
        let put = self.put(resource, key.clone(), new)?;
        Ok(match (held, grace) {
            (true, _) => Change::Put(put),
            // A kind that knows graceful deletion shows how it ended.
            (false, Some(_)) => Change::Remove(Some(put)),
            (false, None) => Change::Remove(None),
        })
    }

    /// Kinds with graceful deletion answer with the object even when it is gone.
    fn shows_deleted(&self, request: Request<'_>, before: &SharedObject) -> Result<bool, ApiError> {
        let old = tree_of(before)?;
        Ok(request.resource.strategy.grace_period_seconds(&old, None).is_some())
    }

    /// The options of a delete: the body, or the query where there is none.
    pub(super) fn delete_options(&self, request: Request<'_>) -> Result<DeleteOptions, ApiError> {
        let mut value =
            if request.body.is_empty() { query_options(request)? } else { self.body_options(request)? };
        let dry_run: Vec<&str> = request.query.values("dryRun").collect();
        if !dry_run.is_empty() {
            set(&mut value, "dryRun", dry_run.iter().map(|text| json!(text)).collect::<Vec<_>>());
        }
        let errors = validate_delete_options(&value);
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: self.options_subject("DeleteOptions"), errors });
        }
        let dry_run = !value.items("dryRun").is_empty();
        Ok(DeleteOptions { value, dry_run })
    }

    fn body_options(&self, request: Request<'_>) -> Result<Value, ApiError> {
        let schema = &self.registry.schema;
        let type_id = schema
            .named("meta.v1.DeleteOptions")
            .ok_or_else(|| ApiError::Internal("DeleteOptions is not in the schema".to_owned()))?;
        let brand = self.registry.brand;
        let decoded = match media_type(request.content_type) {
            "" | "application/json" => decode_json(schema, type_id, request.body, Limits::default()),
            "application/yaml" => {
                crate::schema::decode_yaml(schema, type_id, request.body, Limits::default())
            }
            other if other == brand.protobuf_media_type => {
                crate::schema::decode_protobuf_object(schema, type_id, request.body, Limits::default())
            }
            _ => {
                let accepted = format!("application/json, application/yaml, {}", brand.protobuf_media_type);
                return Err(ApiError::UnsupportedMediaType(format!(
                    "the body of the request was in an unknown format - accepted media types include: {accepted}"
                )));
            }
        };
        let Decoded { value, head, .. } =
            decoded.map_err(|error| ApiError::BadRequest(format!("DeleteOptions: {error}")))?;
        if !matches!(head.kind.as_str(), "" | "DeleteOptions") {
            let message =
                format!("decoded object cannot be converted to DeleteOptions: it is a {}", head.kind);
            return Err(ApiError::BadRequest(message));
        }
        Ok(if value.is_object() { value } else { json!({}) })
    }
}

impl DeleteOptions {
    /// The version and uid that the client expects.
    fn check_preconditions(&self, request: Request<'_>, name: &str, old: &Value) -> Result<(), ApiError> {
        let wanted = self.value.at("preconditions");
        let stored = old.at("metadata");
        let subject = || Subject::kind(request.resource, name);
        let (uid, version) = (wanted.text("uid"), wanted.text("resourceVersion"));
        if !uid.is_empty() && uid != stored.text("uid") {
            let reason = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                stored.text("uid")
            );
            return Err(ApiError::Conflict { subject: subject(), reason });
        }
        if !version.is_empty() && version != stored.text("resourceVersion") {
            let reason = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                stored.text("resourceVersion")
            );
            return Err(ApiError::Conflict { subject: subject(), reason });
        }
        Ok(())
    }

    /// Whether the delete says what becomes of dependents.
    fn names_propagation(&self) -> bool {
        self.value.has("propagationPolicy") || self.value.has("orphanDependents")
    }

    /// The object's finalizers with those that the propagation policy asks for.
    fn finalizers(&self, old: &Value, default: DefaultPropagation) -> Vec<Value> {
        let stored = old.at("metadata").items("finalizers");
        let has = |name: &str| stored.iter().any(|finalizer| finalizer == name);
        let orphans = self.value.at("orphanDependents").as_bool();
        let (orphan, foreground) = match (self.value.text("propagationPolicy"), orphans) {
            _ if default == DefaultPropagation::Unsupported => (false, false),
            ("Orphan", _) | ("", Some(true)) => (true, false),
            ("Foreground", _) => (false, true),
            ("Background", _) | ("", Some(false)) => (false, false),
            _ if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
            _ => (default == DefaultPropagation::Orphan, false),
        };
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

/// What a client is told that may not know that dependents stay.
fn orphaning(resource: &Resource) -> String {
    format!(
        "child pods are preserved by default when {} are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        resource.plural
    )
}

/// Marks the metadata as being deleted. A second delete may shorten the wait, never lengthen it.
fn mark(metadata: &mut Value, wait_seconds: i64, ends: &str) {
    let first = !metadata.has("deletionTimestamp");
    let shorter = metadata.int("deletionGracePeriodSeconds").is_some_and(|pending| wait_seconds < pending);
    if first || shorter {
        set(metadata, "deletionTimestamp", ends);
        set(metadata, "deletionGracePeriodSeconds", wait_seconds);
    }
    if let (true, Some(generation)) = (first, metadata.int("generation").filter(|&generation| generation > 0))
    {
        set(metadata, "generation", generation.saturating_add(1));
    }
}

fn query_options(request: Request<'_>) -> Result<Value, ApiError> {
    let mut options = Map::new();
    if let Some(seconds) = request.query.integer("gracePeriodSeconds")? {
        options.insert("gracePeriodSeconds".to_owned(), json!(seconds));
    }
    if let Some(orphan) = request.query.optional_flag("orphanDependents") {
        options.insert("orphanDependents".to_owned(), json!(orphan));
    }
    if let Some(policy) = request.query.value("propagationPolicy") {
        options.insert("propagationPolicy".to_owned(), json!(policy));
    }
    Ok(Value::Object(options))
}
