//! Creating an object, from a POST, from a PUT on an absent name, or from an apply.
//!
//! Owns names (given or generated), what the server sets on a new object, and the order of stages of a create.

use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Store, Transaction};
use serde_json::Value;

use super::incoming::Incoming;
use super::objects::StateObjects;
use super::options::Options;
use super::stored::{check_size, without_revision};
use super::{Pipeline, Request, WriteOutcome, Written, owners};
use crate::ambient::{SUFFIX_LENGTH, suffix_text, uuid_text};
use crate::error::{ApiError, Subject};
use crate::fields::{Writer, track_update};
use crate::kinds::Context;
use crate::schema::apply_defaults;
use crate::validate::field::part;
use crate::validate::tree::{Tree, child_mut, set, unset};
use crate::validate::{Path, WriteKind, quoted, validate_object_meta};

/// How often a colliding generated name is drawn again: as often as the reference does.
const NAME_ATTEMPTS: usize = 8;

/// Longest prefix of a generated name: names end at 63 where they must be labels.
const GENERATED_PREFIX_MAX: usize = 63 - SUFFIX_LENGTH;

/// How a create comes about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The object as sent: its fields become the writer's.
    Sent,
    /// The result of an apply: who owns what is settled.
    Applied,
}

impl<S: Store> Pipeline<S> {
    /// POST.
    pub(super) async fn create(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let incoming = self.incoming(request, options.field_validation)?;
        self.create_from(request, &options, incoming, Origin::Sent).await
    }

    /// Creates `incoming` under its own or a generated name.
    pub(super) async fn create_from(
        &self,
        request: Request<'_>,
        options: &Options,
        incoming: Incoming,
        origin: Origin,
    ) -> Result<Written, ApiError> {
        let Incoming { mut value, mut warnings } = incoming;
        self.settle_namespace(request, &mut value)?;
        // 0 is no version, and what is no number at all is not looked at.
        if value.at("metadata").text("resourceVersion").parse::<u64>().is_ok_and(|version| version != 0) {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
        let applied = origin == Origin::Applied;
        warnings.extend(owners::deduplicate(&mut value, applied));
        let generated = value.at("metadata").text("name").is_empty()
            && !value.at("metadata").text("generateName").is_empty();
        let attempts = if generated { NAME_ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            let draft = Incoming { value: value.clone(), warnings: warnings.clone() };
            match self.try_create(request, options, draft, origin).await {
                Err(ApiError::NameGenerationExhausted(_) | ApiError::BeingDeleted(_)) => {}
                result => return result,
            }
        }
        self.try_create(request, options, Incoming { value, warnings }, origin).await
    }

    async fn try_create(
        &self,
        request: Request<'_>,
        options: &Options,
        incoming: Incoming,
        origin: Origin,
    ) -> Result<Written, ApiError> {
        let Incoming { mut value, mut warnings } = incoming;
        let now = self.ambient.now();
        let now_text = now.seconds_text();
        self.check_namespace(request, known_name(&value)).await?;
        self.set_system_fields(&mut value, &now_text);
        let name = value.at("metadata").text("name").to_owned();
        self.complete(request, options, &mut value, &now_text, origin)?;
        request.budget.check()?;
        self.validate_new(request, &value, &now_text)?;
        let context = self.context(request, &now_text);
        warnings.extend(request.resource.strategy.warnings(&context, None, &value));
        let key = Key::new(&request.resource.storage, &request.target.namespace, &name)
            .map_err(|error| ApiError::BadRequest(error.to_string()))?;
        let is_generated = !value.at("metadata").text("generateName").is_empty();
        let taken = |by: Option<&SharedObject>| taken(request, &name, is_generated, by);
        let put = self.put(request.resource, key.clone(), value)?;
        request.budget.check()?;
        if options.dry_run {
            if let Some(by) = self.most_recent().await?.object(&key) {
                return Err(taken(Some(by)));
            }
            let json = without_revision(&put);
            return Ok(Written { json, stored: None, outcome: WriteOutcome::Created, warnings });
        }
        let mut conditions = vec![Condition::Absent(key)];
        if !request.target.namespace.is_empty() {
            conditions.push(Condition::NamespaceActive(request.target.namespace.as_str().into()));
        }
        let transaction =
            Transaction { proposed_ms: now.millis(), conditions, operations: vec![Operation::Put(put)] };
        request.budget.begin_write()?;
        match self.store.propose(transaction).await? {
            Outcome::Applied { object: Some(object), .. } => {
                let (json, stored) = (object.json.clone(), Some(object));
                Ok(Written { json, stored, outcome: WriteOutcome::Created, warnings })
            }
            Outcome::Applied { .. } => Err(ApiError::Internal("a put left no object".to_owned())),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Refused { condition: 0, current, .. } => Err(taken(current.as_ref())),
            Outcome::Refused { current, .. } => {
                Err(self.namespace_refusal(request, &name, current.is_some()))
            }
        }
    }

    /// Identity and times are the server's.
    fn set_system_fields(&self, value: &mut Value, now: &str) {
        let metadata = child_mut(value, "metadata");
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            unset(metadata, field);
        }
        set(metadata, "uid", uuid_text(self.ambient.random()));
        set(metadata, "creationTimestamp", now);
        let prefix = metadata.text("generateName");
        if metadata.text("name").is_empty() && !prefix.is_empty() {
            let mut end = prefix.len().min(GENERATED_PREFIX_MAX);
            while !prefix.is_char_boundary(end) {
                end -= 1;
            }
            let name = format!("{}{}", &prefix[..end], suffix_text(self.ambient.random()));
            set(metadata, "name", name);
        }
    }

    /// Defaults, ownership, admission and what the kind prepares, in the reference's order.
    fn complete(
        &self,
        request: Request<'_>,
        options: &Options,
        value: &mut Value,
        now: &str,
        origin: Origin,
    ) -> Result<(), ApiError> {
        let resource = request.resource;
        let labels_given = !value.at("metadata").is_empty_at("labels");
        let context = Context { labels_given, ..self.context(request, now) };
        apply_defaults(&self.registry.schema, resource.type_id, value);
        resource.strategy.default(&context, value);
        if origin == Origin::Sent {
            check_size(&self.registry.schema, request, value)?;
            let api_version = resource.api_version();
            let writer = Writer {
                manager: &options.manager,
                api_version: &api_version,
                subresource: "",
                now,
                reset: resource.strategy.reset_fields(""),
                others: &resource.others,
            };
            if let Err(error) = track_update(&self.registry.schema, resource.type_id, None, value, &writer) {
                tracing::debug!(%error, "ownership of a new object is not tracked");
            }
        }
        *value = resource.in_store(value.take());
        let objects = StateObjects(self.store.state());
        if let Err(reason) = resource.strategy.admit(&context, None, value, &objects) {
            return Err(forbidden(request, known_name(value), &reason));
        }
        resource.strategy.prepare_for_create(&context, value);
        Ok(())
    }

    fn validate_new(&self, request: Request<'_>, value: &Value, now: &str) -> Result<(), ApiError> {
        let resource = request.resource;
        let rule = resource.strategy.name_rule();
        let metadata = value.at("metadata");
        let mut errors = validate_object_meta(metadata, resource.namespaced, rule, &Path::new("metadata"));
        errors.extend(resource.strategy.validate_create(&self.context(request, now), value));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::Invalid { subject: Subject::kind(resource, metadata.text("name")), errors })
    }

    /// Nothing is created in a namespace that is not there or on its way out. The transaction checks again.
    async fn check_namespace(&self, request: Request<'_>, name: &str) -> Result<(), ApiError> {
        let namespace = request.target.namespace.as_str();
        if namespace.is_empty() {
            return Ok(());
        }
        let active = |state: &orch_raft::State| {
            state
                .collection(orch_raft::state::NAMESPACES)
                .get(namespace)
                .map(|found| !found.index.terminating)
        };
        let seen = match active(&self.store.state()) {
            Some(true) => return Ok(()),
            _ => active(&*self.most_recent().await?),
        };
        if seen == Some(true) { Ok(()) } else { Err(self.namespace_refusal(request, name, seen.is_some())) }
    }

    fn namespace_refusal(&self, request: Request<'_>, name: &str, exists: bool) -> ApiError {
        let namespace = &request.target.namespace;
        if !exists {
            let kind = orch_raft::state::NAMESPACES.to_owned();
            return ApiError::NotFound(Subject { group: String::new(), kind, name: namespace.clone() });
        }
        let subject = Subject::resource(request.resource, name);
        let namespace = part(namespace);
        let reason =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("{} {} is forbidden: {reason}", subject.qualified(), quoted(name));
        let told = format!("namespace {namespace} is being terminated");
        ApiError::Forbidden {
            subject,
            message,
            cause: Some(("NamespaceTerminating", told, "metadata.namespace")),
        }
    }
}

/// The name of an object that may still be without one, as messages of admission have it.
fn known_name(value: &Value) -> &str {
    let metadata = value.at("metadata");
    match metadata.text("name") {
        "" => metadata.text("generateName"),
        name => name,
    }
}

/// The name is in use.
fn taken(request: Request<'_>, name: &str, is_generated: bool, by: Option<&SharedObject>) -> ApiError {
    let subject = Subject::resource(request.resource, name);
    let error = if is_generated {
        ApiError::NameGenerationExhausted(subject)
    } else {
        ApiError::AlreadyExists(subject)
    };
    if by.is_some_and(|object| object.index.terminating) {
        return ApiError::BeingDeleted(Box::new(error));
    }
    error
}

/// A write that admission refused.
pub(super) fn forbidden(request: Request<'_>, name: &str, reason: &str) -> ApiError {
    let subject = Subject::resource(request.resource, name);
    let message = format!("{} {} is forbidden: {reason}", subject.qualified(), quoted(name));
    ApiError::Forbidden { subject, message, cause: None }
}
