//! Creating an object, from a POST, from a PUT on an absent name, or from an apply.
//!
//! Owns the order of the stages of a create, and their repetition; `new_object` owns what each stage sets and checks in the object.
//!
//!     mutated    once: defaults, ownership, mutating admission, rights that a role grants
//!     validated  again for another name, or for other addresses: uid and name, allot, prepare, validate, validating admission
//!     stored     again for each view: admission reserves, the quorum decides

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Put, Store};
use orch_rules::kinds::Context;
use orch_rules::validate::tree::Tree;
use orch_rules::validate::{FieldErrors, WriteKind};
use orch_schema::value::Value;

use super::admit::LOOKS;
use super::allotment::Transfer;
use super::definitions::{check_may_be_created, declares};
use super::foreign::ForeignType;
use super::incoming::Incoming;
use super::modify::{ATTEMPTS_MAX, changing_too_fast, dependency_changed};
use super::new_object::{Origin, clear_system_fields, fill_prepared, is_name_to_be_drawn, known_name};
use super::options::Options;
use super::owners::{self, Stage};
use super::staged::tree_for_store;
use super::stored::without_revision;
use super::update::check_name;
use super::{Pipeline, Request, WriteOutcome, Written};
use crate::admission::{self, Additions, Attributes, View};
use crate::allocation::claims::Holdings;
use crate::authz::ResourceAttributes;
use crate::error::{ApiError, Subject};
use crate::follow::Applied;
use crate::request::Verb;

/// Names drawn for one create while they collide: as many as in the reference.
const NAME_ATTEMPTS: usize = 8;

/// A new object that mutating admission has completed. It has no uid yet, and no generated name.
#[derive(Clone)]
struct Mutated {
    value: Value,
    /// See [`Incoming::foreign`].
    foreign: Option<ForeignType>,
    /// Time of the create.
    now: String,
    /// The client's object had labels.
    labels_given: bool,
    view: View,
    additions: Additions,
}

/// A new object on its way to the store, without its value.
struct Draft<'a> {
    request: Request<'a>,
    attributes: Attributes<'a>,
    key: Key,
    /// The object has a `generateName`.
    is_generated: bool,
}

/// The outcome of a proposal.
enum Stored {
    /// The JSON to answer with, and the object unless this was a dry run.
    Done(Bytes, Option<SharedObject>),
    /// Number of the admission condition that did not hold, where its plugin gave no refusal.
    Broken(usize),
    /// Another object has got a value that this one was allotted.
    Taken,
}

impl<S: Store> Pipeline<S> {
    /// POST.
    pub(super) async fn create(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let incoming = self.incoming_of_any_kind(request, options.field_validation)?;
        self.create_from(request, &options, incoming, Origin::Sent).await
    }

    /// Creates `incoming` under its own or a generated name.
    pub(super) async fn create_from(
        &self,
        request: Request<'_>,
        options: &Options,
        mut incoming: Incoming,
        origin: Origin,
    ) -> Result<Written, ApiError> {
        let value = &mut incoming.value;
        if request.verb != Verb::Create {
            self.check_may_create(request).await?;
        }
        self.settle_namespace(request, value)?;
        check_unversioned(value)?;
        let stage = match origin {
            Origin::Sent => Stage::Sent,
            Origin::Applied => Stage::Mutated,
        };
        request.exchange.warn(owners::deduplicate(value, stage));
        let first = self.mutated_new(request, options, incoming, origin).await?;
        let draws_names = is_name_to_be_drawn(&first.value);
        let mut names_left = if draws_names { NAME_ATTEMPTS } else { 1 };
        let is_kept = self.allots(request) || draws_names && first.additions.has_waited();
        let (kept, mut first) = (is_kept.then(|| first.clone()), Some(first));
        for _ in 0..ATTEMPTS_MAX {
            let tried = match (first.take(), &kept) {
                (Some(first), _) => first,
                (None, Some(kept)) => Mutated { view: View::of(&self.store), ..kept.clone() },
                // Drawn names collide too rarely for a copy of each object.
                (None, None) => self.mutated_again(request, options, origin).await?,
            };
            match self.try_create(request, options, tried).await {
                Ok(Some(written)) => return Ok(written),
                Ok(None) => {}
                Err(ApiError::NameGenerationExhausted(_) | ApiError::BeingDeleted(_)) if names_left > 1 => {
                    names_left -= 1;
                }
                Err(error) => return Err(error),
            }
        }
        Err(changing_too_fast())
    }

    /// Checks that the user of a PUT or an apply, which asked for `update` or `patch`, may create the object, too.
    async fn check_may_create(&self, request: Request<'_>) -> Result<(), ApiError> {
        let target = request.target;
        let asked = ResourceAttributes {
            verb: Verb::Create.as_str(),
            group: &target.group,
            version: &target.version,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: target.namespace_of_rules(),
            name: &target.name,
            ..ResourceAttributes::default()
        };
        self.gate.check(request.user, asked, &Applied::of(&self.store)).await
    }

    /// The new object of the body once more. All plugins ruled at once the first time, so that they may be asked again.
    async fn mutated_again(
        &self,
        request: Request<'_>,
        options: &Options,
        origin: Origin,
    ) -> Result<Mutated, ApiError> {
        let mut incoming = self.incoming_of_any_kind(request, options.field_validation)?;
        self.settle_namespace(request, &mut incoming.value)?;
        owners::deduplicate(&mut incoming.value, Stage::Sent);
        self.mutated_new(request, options, incoming, origin).await
    }

    /// The new object of `incoming` with its defaults and owners, after mutating admission.
    async fn mutated_new(
        &self,
        request: Request<'_>,
        options: &Options,
        incoming: Incoming,
        origin: Origin,
    ) -> Result<Mutated, ApiError> {
        let Incoming { mut value, foreign } = incoming;
        let now = self.ambient.now().seconds_text();
        let labels_given = !value.at("metadata").is_empty_at("labels");
        let context = Context { labels_given, ..self.context(request, &now) };
        // For mutating admission, and in its refusals, a generated name is its `generateName`.
        let asked_name = known_name(&value).to_owned();
        clear_system_fields(&mut value);
        let attributes = Attributes {
            name: &asked_name,
            draws_name: is_name_to_be_drawn(&value),
            dry_run: options.dry_run,
            ..self.attributes(request, admission::Operation::Create)
        };
        let size = self.default_new(request, options, &mut value, &context, origin);
        let (mut view, mut additions) = (View::of(&self.store), Additions::default());
        check_may_be_created(request.resource, value.at("metadata").text("name"))?;
        self.mutate(&attributes, Some(&mut value), &mut view, &mut additions).await?;
        size?;
        check_unversioned(&value)?;
        self.settle_namespace(request, &mut value)?;
        if request.verb != Verb::Create {
            check_name(request, &value)?;
        }
        request.exchange.warn(owners::deduplicate(&mut value, Stage::Mutated));
        self.confirm_rights(&attributes, &value, &mut view).await?;
        Ok(Mutated { value, foreign, now, labels_given, view, additions })
    }

    /// Creates the object `mutated`. `None`: another object has got a value that this one was allotted.
    async fn try_create(
        &self,
        request: Request<'_>,
        options: &Options,
        mutated: Mutated,
    ) -> Result<Option<Written>, ApiError> {
        let Mutated { mut value, foreign, now, labels_given, mut view, mut additions } = mutated;
        let is_generated = !value.at("metadata").text("generateName").is_empty();
        let draws_name = is_name_to_be_drawn(&value);
        self.set_system_fields(&mut value, &now);
        let resource = request.resource;
        let context = Context { labels_given, ..self.context(request, &now) };
        let attributes =
            Attributes { dry_run: options.dry_run, ..self.attributes(request, admission::Operation::Create) };
        self.allot_in_time(&attributes, &mut value, &mut view).await?;
        resource.strategy.prepare_for_create(&context, &mut value);
        request.budget.check()?;
        let name = value.at("metadata").text("name").to_owned();
        if let Some(foreign) = foreign {
            return Err(foreign.refusal(resource, &name, FieldErrors::new()));
        }
        let required = resource.strategy.namespace_requirement(&context, None, &value);
        let unmet = self.unmet(request, required, &view).await?;
        self.validate_new(request, &value, &now, unmet)?;
        request.exchange.warn(resource.strategy.warnings(&self.context(request, &now), None, &value));
        let key = Key::new(&resource.storage, &request.target.namespace, &name)
            .map_err(|error| ApiError::BadRequest(error.to_string()))?;
        let attributes = Attributes { name: &name, draws_name, ..attributes };
        self.validate(&attributes, Some(&value), &mut view, &mut additions).await?;
        fill_prepared(resource, &mut value);
        let draft = Draft { request, attributes, key, is_generated };
        let created = self.create_validated(draft, value, additions).await?;
        let written_as = resource.staged().map(|staged| staged.stored.clone());
        Ok(created.map(|(json, stored)| Written { json, stored, written_as, outcome: WriteOutcome::Created }))
    }

    /// The reserving phase and the proposal; both again in another view if an object that a plugin had read there has
    /// changed. `additions` are those of the phases before.
    async fn create_validated(
        &self,
        draft: Draft<'_>,
        mut value: Value,
        mut additions: Additions,
    ) -> Result<Option<(Bytes, Option<SharedObject>)>, ApiError> {
        let Draft { request, attributes, .. } = &draft;
        let (once, mut looks) = (additions.extent(), LOOKS);
        let mut turn = None;
        // Plugins of the phases before may have waited: their view is old.
        let mut view = View::of(&self.store);
        let holdings = self.allots(*request).then(|| Holdings::of(&value));
        // Once: it may ask another server.
        let mut stored = tree_for_store(request.resource, &value, *request).await?;
        for _ in 0..ATTEMPTS_MAX {
            if let Err(refused) = self.admission.reserve(attributes, Some(&value), &view, &mut additions) {
                additions.truncate(once);
                self.look_again(request.budget, refused, &mut looks, &mut view).await?;
                continue;
            }
            if !attributes.dry_run
                && turn.is_none()
                && let Some(shared) = additions.contended()
            {
                turn = self.turns.join(shared, &self.store).await;
                if turn.is_some() {
                    view = View::of(&self.store);
                    additions.truncate(once);
                    continue;
                }
            }
            let put = self.put(request.resource, draft.key.clone(), stored.as_mut().unwrap_or(&mut value))?;
            if additions.extent() == once && !declares(request.resource) {
                // No plugin reserves again: the object's tree, many times its bytes, is freed before the quorum is waited for.
                (value, stored) = (Value::Null, None);
            }
            if let Some(after) = &holdings {
                let transfer = Transfer { before: Holdings::default(), after: after.clone() };
                self.transfer(*request, draft.key.path(), &transfer, &view, &mut additions)?;
            }
            if declares(request.resource) {
                self.record_new(&draft.key, &mut additions)?;
            }
            request.budget.check()?;
            match self.store_new(&draft, put, &additions).await? {
                Stored::Done(json, stored) => return Ok(Some((json, stored))),
                Stored::Taken => return Ok(None),
                Stored::Broken(condition) if condition < once.conditions => break,
                Stored::Broken(_) => {
                    if turn.is_none()
                        && let Some(shared) = additions.contended()
                    {
                        turn = Some(self.turns.take(shared, &self.store).await);
                    }
                }
            }
            view = View::of(&self.store);
            additions.truncate(once);
        }
        Err(dependency_changed())
    }

    /// Stores a new object, unless this is a dry run.
    async fn store_new(
        &self,
        draft: &Draft<'_>,
        put: Put,
        additions: &Additions,
    ) -> Result<Stored, ApiError> {
        let Draft { request, attributes, key, is_generated } = draft;
        let name_in_use =
            |by: Option<&SharedObject>| name_in_use(*request, attributes.name, *is_generated, by);
        if attributes.dry_run {
            return match self.most_recent().await?.object(key) {
                Some(by) => Err(name_in_use(Some(by))),
                None => Ok(Stored::Done(without_revision(&put), None)),
            };
        }
        request.budget.begin_write()?;
        if declares(request.resource) {
            self.remove_leftovers(key).await?;
        }
        let absent = Condition::Absent(key.clone());
        match self.propose(request.exchange, request.resource, absent, Operation::Put(put), additions).await?
        {
            Outcome::Applied { object: Some(object), .. } => {
                Ok(Stored::Done(object.json.clone(), Some(object)))
            }
            Outcome::Applied { .. } => Err(ApiError::Internal("a put left no object".to_owned())),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Refused { condition: 0, current, .. } => Err(name_in_use(current.as_ref())),
            Outcome::Refused { condition, current, .. } => {
                let (added, found) = (condition - 1, current.is_some());
                if additions.is_allotment(added) {
                    return Ok(Stored::Taken);
                }
                match self.admission.broken_condition(attributes, additions, added, found) {
                    Some(error) => Err(error),
                    None => Ok(Stored::Broken(added)),
                }
            }
        }
    }
}

/// The error for a name that is in use.
fn name_in_use(request: Request<'_>, name: &str, is_generated: bool, by: Option<&SharedObject>) -> ApiError {
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

/// Refuses a new object with a `resourceVersion`. `0`, and text that is no number, count as none.
fn check_unversioned(value: &Value) -> Result<(), ApiError> {
    match value.at("metadata").text("resourceVersion").parse::<u64>() {
        Ok(version) if version != 0 => {
            let message = "resourceVersion should not be set on objects to be created";
            Err(ApiError::BadRequest(message.to_owned()))
        }
        _ => Ok(()),
    }
}
