//! Writes of objects as another server has stored them: with their uid, creation time, generation, owners and status.
//!
//! Owns the parameter `import` of PUT and DELETE, the right that it takes, and the two writes. Any other write gives a new object a
//! uid and a time of its own, and keeps the status from its writers; a cluster that moves in must keep them.
//!
//!     PUT     ?import=exact     creates the object, or replaces one of the same uid; another object of the name stays (409)
//!     PUT     ?import=replace   the same, and another object of the name gives way
//!     DELETE  ?import=exact     removes the object at once, whatever holds it
//!
//! An imported object is decoded and gets its defaults. The rules of its kind check it as a new object or, where they refuse that, as an
//! update that changes nothing. It takes its cluster addresses and node ports. It passes no admission and no preparation: the server that
//! it comes from has carried out both, and a second time they would change or refuse it
//! ([0053](../../../docs/decisions/0053-an-import-keeps-identities-by-a-right-of-its-own.md)).
//!
//! Invariant: nothing here is reached without the right to post to [`RIGHT`], beside that to the object. No role but that of
//! administrators grants it.

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Store};
use orch_rules::Action;
use orch_rules::validate::tree::{Tree, child_mut, set, unset};
use orch_rules::validate::{Path, WriteKind, validate_object_meta};
use orch_schema::apply_defaults;
use orch_schema::value::Value;

use super::allotment::Transfer;
use super::definitions::declares;
use super::delete::DeleteOptions;
use super::incoming::check_readable;
use super::judged::{Judged, Rejected, Write};
use super::modify::{ATTEMPTS_MAX, Attempt, Current, changing_too_fast};
use super::new_object::fill_prepared;
use super::options::Options;
use super::stored::{check_size, without_revision};
use super::{Answer, Pipeline, Request, WriteOutcome, Written};
use crate::admission::{self, Additions, Attributes, Refused, View};
use crate::allocation::claims::Holdings;
use crate::authz;
use crate::error::{ApiError, Subject};
use crate::follow::Applied;
use crate::request::{Verb, quote_shortened};
use crate::status::Status;

/// The path whose `post` is the right to import. Nothing is served there.
pub const RIGHT: &str = "/orch/v1/import";

/// The parameter of an import.
const PARAMETER: &str = "import";

/// Longest uid, in bytes: those of this server and of the reference have 36.
const UID_BYTES_MAX: usize = 128;

/// The fate of an object of the same name and another uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It stays, and the import is refused.
    Kept,
    /// It gives way in the same write.
    Replaced,
}

/// The import that `request` asks for; `None` for other requests, of which the parameter is ignored as any unknown one.
///
/// # Errors
/// `BadRequest`: an unknown value.
pub(super) fn asked(request: Request<'_>) -> Result<Option<Existing>, ApiError> {
    let Some(value) = request.query.value(PARAMETER) else { return Ok(None) };
    match (request.verb, request.action, value) {
        (Verb::Update | Verb::Delete, Action::Object, "exact") => Ok(Some(Existing::Kept)),
        (Verb::Update, Action::Object, "replace") => Ok(Some(Existing::Replaced)),
        (Verb::Update | Verb::Delete, Action::Object, _) => {
            let value = quote_shortened(value);
            let known = "exact, and of a PUT replace, are known";
            Err(ApiError::BadRequest(format!("Invalid value of {PARAMETER}: {value}: {known}")))
        }
        _ => Ok(None),
    }
}

impl<S: Store> Pipeline<S> {
    /// PUT or DELETE with the parameter `import`.
    pub(super) async fn import(&self, request: Request<'_>, existing: Existing) -> Result<Answer, ApiError> {
        let right = authz::Attributes::Path { verb: "post", path: RIGHT };
        self.gate.rule(request.user, right, &Applied::of(&self.store)).await.check(request.user, right)?;
        match request.verb {
            Verb::Delete => self.import_removal(request).await,
            _ => self.import_object(request, existing).await.map(Answer::Written),
        }
    }

    async fn import_object(&self, request: Request<'_>, existing: Existing) -> Result<Written, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let key = request.key()?;
        for _ in 0..ATTEMPTS_MAX {
            let attempt = ImportAttempt { pipeline: self, request, key: &key, options: &options, existing };
            if let Some(modified) = self.modify(request, &key, options.dry_run, attempt).await? {
                return Ok(modified.written());
            }
            if let Some(written) = self.import_new(request, &options, &key).await? {
                return Ok(written);
            }
        }
        Err(changing_too_fast())
    }

    /// The object of the body, which has passed the rules of its kind, in their form.
    fn imported(&self, request: Request<'_>, options: &Options) -> Result<Value, ApiError> {
        let resource = request.resource;
        let mut value = self.sent(request, options)?;
        check_identity(&value)?;
        let now = self.ambient.now().seconds_text();
        check_readable(request, &value)?;
        apply_defaults(&resource.schema, resource.type_id, &mut value);
        resource.strategy.default(&self.context(request, &now), &mut value);
        check_size(request, &value)?;
        let mut value = resource.to_rules(value);
        for field in ["resourceVersion", "selfLink"] {
            unset(child_mut(&mut value, "metadata"), field);
        }
        self.check_rules(request, &value, &now)?;
        fill_prepared(resource, &mut value);
        request.budget.check()?;
        Ok(value)
    }

    /// Checks the rules of the kind. An object that only a create would be refused for is one that updates have brought to its state:
    /// a pod with ephemeral containers, a custom object that is older than a rule of its schema. It is held against the rules of an update
    /// that changes nothing, and against those of names, which no update changes.
    fn check_rules(&self, request: Request<'_>, value: &Value, now: &str) -> Result<(), ApiError> {
        let Err(error) = self.validate_new(request, value, now, None) else { return Ok(()) };
        let (resource, metadata) = (request.resource, value.at("metadata"));
        let path = Path::new("metadata");
        if !validate_object_meta(metadata, resource.namespaced, resource.rules.names, &path).is_empty() {
            return Err(error);
        }
        let mut stored = value.clone();
        // Every update of a stored object has one.
        set(child_mut(&mut stored, "metadata"), "resourceVersion", "1");
        self.validate_change(request, &stored, &stored, now, None)
    }

    /// Stores the object of the body under an absent name. `None`: the name, or what the object was allotted, is taken by now.
    async fn import_new(
        &self,
        request: Request<'_>,
        options: &Options,
        key: &Key,
    ) -> Result<Option<Written>, ApiError> {
        let resource = request.resource;
        let mut value = self.imported(request, options)?;
        let mut view = View::of(&self.store);
        let attributes =
            Attributes { dry_run: options.dry_run, ..self.attributes(request, admission::Operation::Create) };
        self.allot_in_time(&attributes, &mut value, &mut view).await?;
        let after = self.allots(request).then(|| Holdings::of(&value));
        let put = self.put_converted(request, key.clone(), &mut value).await?;
        drop(value);
        let written_as = put.index.written_as.clone();
        let answer = |json: Bytes, stored: Option<SharedObject>| Written {
            json,
            stored,
            written_as: written_as.clone(),
            outcome: WriteOutcome::Created,
        };
        if options.dry_run {
            return Ok(Some(answer(without_revision(&put), None)));
        }
        let mut additions = Additions::default();
        additions.begin_endpoint();
        let namespace = namespace_of(request)?;
        if let Some(namespace) = &namespace {
            additions.require(Condition::Exists(namespace.clone()));
        }
        if declares(resource) {
            self.record_new(key, &mut additions)?;
        }
        if let Some(after) = after {
            let transfer = Transfer { before: Holdings::default(), after };
            self.transfer(request, key.path(), &transfer, &view, &mut additions)?;
        }
        request.budget.begin_write()?;
        if declares(resource) {
            self.remove_leftovers(key).await?;
        }
        let absent = Condition::Absent(key.clone());
        match self.propose(request.exchange, resource, absent, Operation::Put(put), &additions).await? {
            Outcome::Applied { object: Some(object), .. } => {
                Ok(Some(answer(object.json.clone(), Some(object))))
            }
            Outcome::Applied { .. } => Err(ApiError::Internal("a put left no object".to_owned())),
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            // Condition 0 is the write's own, 1 that the namespace is there.
            Outcome::Refused { condition: 1, .. } if namespace.is_some() => Err(namespace_absent(request)),
            Outcome::Refused { .. } => Ok(None),
        }
    }

    async fn import_removal(&self, request: Request<'_>) -> Result<Answer, ApiError> {
        if declares(request.resource) {
            let reason = "a definition is deleted without import: its objects go with it".to_owned();
            return Err(ApiError::BadRequest(reason));
        }
        let options = self.delete_options(request)?;
        let key = request.key()?;
        let attempt = RemovalAttempt { pipeline: self, request, key: &key, options: &options };
        let removed = self.modify(request, &key, options.dry_run, attempt).await?;
        let removed = removed.ok_or_else(|| ApiError::NotFound(request.subject()))?;
        Ok(Answer::Done(Status::deleted(request.subject(), removed.before.index.uid.clone())))
    }
}

/// An import of an object whose name is in use.
struct ImportAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a Key,
    options: &'a Options,
    existing: Existing,
}

impl<S: Store> Attempt for ImportAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let (pipeline, request) = (self.pipeline, self.request);
        let Current { object, value: old, view } = current;
        let mut new = pipeline.imported(request, self.options)?;
        let is_same_object = new.at("metadata").text("uid") == object.index.uid;
        if !is_same_object && self.existing == Existing::Kept {
            return Err(ApiError::AlreadyExists(request.subject()).into());
        }
        let attributes = Attributes {
            old: Some(&old),
            dry_run: self.options.dry_run,
            ..pipeline.attributes(request, admission::Operation::Update)
        };
        pipeline.allot_in_time(&attributes, &mut new, view).await?;
        let transfer = pipeline
            .allocator
            .holds(request.resource)
            .then(|| Transfer { before: Holdings::of(&old), after: Holdings::of(&new) });
        let put = pipeline.put_converted(request, self.key.clone(), &mut new).await?;
        let judged = Judged::new(Write::Put(put), old, Some(new), Additions::default());
        Ok(judged.with_transfer(transfer))
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        Ok(self.pipeline.reserve_unjudged(self.request, self.key, judged, view)?)
    }

    fn names_version(&self) -> bool {
        false
    }
}

/// A removal at once.
struct RemovalAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a Key,
    options: &'a DeleteOptions,
}

impl<S: Store> Attempt for RemovalAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let Current { value: old, .. } = current;
        self.options.check_preconditions(self.request, self.key.name(), &old)?;
        let holds = self.pipeline.allocator.holds(self.request.resource);
        let transfer = holds.then(|| Transfer { before: Holdings::of(&old), after: Holdings::default() });
        Ok(Judged::new(Write::Remove(None), old, None, Additions::default()).with_transfer(transfer))
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        Ok(self.pipeline.reserve_unjudged(self.request, self.key, judged, view)?)
    }

    fn names_version(&self) -> bool {
        self.options.names_version()
    }
}

/// Refuses an object without the identity that an import is there to keep.
fn check_identity(value: &Value) -> Result<(), ApiError> {
    let metadata = value.at("metadata");
    let (uid, created) = (metadata.text("uid"), metadata.text("creationTimestamp"));
    let is_uid = (1..=UID_BYTES_MAX).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_graphic());
    if is_uid && !created.is_empty() {
        return Ok(());
    }
    Err(ApiError::BadRequest(
        "an import keeps metadata.uid and metadata.creationTimestamp: the object must have both".to_owned(),
    ))
}

/// The key of the namespace that a new object is in; `None` for objects of the cluster.
fn namespace_of(request: Request<'_>) -> Result<Option<Key>, ApiError> {
    let namespace = &request.target.namespace;
    if !request.resource.namespaced || namespace.is_empty() {
        return Ok(None);
    }
    let key = Key::new(&NAMESPACES.into(), "", namespace);
    key.map(Some).map_err(|_| namespace_absent(request))
}

/// The resource of namespaces in the store.
const NAMESPACES: &str = "namespaces";

fn namespace_absent(request: Request<'_>) -> ApiError {
    let name = request.target.namespace.clone();
    ApiError::NotFound(Subject { group: String::new(), kind: NAMESPACES.to_owned(), name })
}
