//! Evictions: a pod is deleted if its disruption budget allows that.
//!
//! Owns the way of an eviction through the stages, and the exactness of budgets: the status of the budget, from which
//! the eviction is taken off, is written in the transaction that deletes the pod, under the condition that the budget
//! is as it was when it was judged. Of two evictions at once, through whatever nodes, one is applied first; the other
//! is refused, and judged again by what is left.
//!
//! Admission sees the eviction, and the new status of the budget: once for each version of the budget, and not in a dry
//! run, which writes none. As in the reference it is not asked about the deletion of the pod.

use std::sync::LazyLock;

use orch_proto::brand::SERVER_MANAGER;
use orch_raft::{Condition, Key, ObjectPath, Operation as StoreOperation, Revision, Store};
use orch_rules::Action;
use orch_rules::disruption::{EvictionDecision, ignores_budget, judge};
use orch_rules::kinds::pod::condition::set_disruption_target;
use orch_rules::validate::tree::{Tree, child_mut, set, sorted_entries};
use orch_rules::validate::{WriteKind, validate_delete_options};
use orch_schema::json;
use orch_schema::value::Value;

use super::binding::pod_request;
use super::budget_selectors::BUDGETS;
use super::delete::DeleteOptions;
use super::delete_query::add_dry_run;
use super::judged::{Judged, Rejected};
use super::modify::{Attempt, Current};
use super::new_object::clear_system_fields;
use super::{Pipeline, Request};
use crate::admission::{Additions, Attributes, Operation, Refused, View};
use crate::authn::User;
use crate::error::{ApiError, Subject};
use crate::fields::{Writer, track_update};
use crate::registry::Resource;
use crate::request::{Query, Target};
use crate::status::Status;

/// Seconds after which an eviction may be tried again whose budget has not been counted yet, as in the reference.
const RETRY_SECONDS: u32 = 10;

/// The user under whom the server writes budgets.
static SERVER: LazyLock<User> = LazyLock::new(User::server);

/// The query of these writes, which is empty.
static NO_OPTIONS: LazyLock<Query> = LazyLock::new(Query::default);

impl<S: Store> Pipeline<S> {
    /// POST of an eviction.
    pub(super) async fn evict(&self, request: Request<'_>) -> Result<Status, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let mut eviction = self.incoming(request, options.field_validation)?;
        self.settle_namespace(request, &mut eviction)?;
        if eviction.at("metadata").text("name") != request.target.name {
            let message = "name in URL does not match name in Eviction object";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
        clear_system_fields(&mut eviction);
        propagate_dry_run(request, &mut eviction);
        // That no budget selects the pod is no condition of the transaction: a node that lags must not judge it.
        self.most_recent().await?;
        let (mut view, mut additions) = (View::of(&self.store), Additions::default());
        let dry_run = !eviction.at("deleteOptions").items("dryRun").is_empty();
        let attributes = Attributes { dry_run, ..self.attributes(request, Operation::Create) };
        self.mutate(&attributes, Some(&mut eviction), &mut view, &mut additions).await?;
        self.validate(&attributes, Some(&eviction), &mut view, &mut additions).await?;
        let deletion = delete_options(request, &eviction, dry_run)?;
        let target: &Target = request.target;
        let pod = pod_request(request, target)?;
        let key = pod.key()?;
        let attempt = EvictAttempt {
            pipeline: self,
            request: pod,
            key: &key,
            options: &deletion,
            eviction: &eviction,
            attributes,
            additions: &additions,
            charge: None,
        };
        match self.modify(pod, &key, dry_run, attempt).await? {
            Some(_) => Ok(Status::created()),
            None => Err(ApiError::NotFound(pod.subject())),
        }
    }

    /// The budget of `pod`, and its status after the eviction. `None`: no budget selects the pod.
    ///
    /// # Errors
    /// The refusal of the budget.
    async fn judge_budget(
        &self,
        request: Request<'_>,
        pod: &Value,
        view: &View,
    ) -> Result<Option<JudgedBudget>, ApiError> {
        let namespace = &request.target.namespace;
        let (budget, others) = self.budgets_of(namespace, pod, view).await;
        let Some(budget) = budget else { return Ok(None) };
        if others > 0 {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::Unsupported(message.to_owned()));
        }
        let name = budget.at("metadata").text("name");
        let key = Key::new(&BUDGETS.into(), namespace, name)
            .map_err(|error| ApiError::Internal(error.to_string()))?;
        let found = view.applied().state.object(&key);
        let revision = found.ok_or_else(|| ApiError::Internal(format!("no budget {name}")))?.revision;
        let status = match judge(&budget, pod, &self.ambient.now().seconds_text()) {
            EvictionDecision::Uncounted => None,
            EvictionDecision::Counted(status) => Some(status),
            decision => return Err(refusal(name, decision)),
        };
        Ok(Some(JudgedBudget { key, revision, budget, status }))
    }

    /// A budget in `namespace` that selects `pod`, and the number of the others that do.
    async fn budgets_of(&self, namespace: &str, pod: &Value, view: &View) -> (Option<Value>, usize) {
        let labels: Vec<(String, String)> = sorted_entries(pod.at("metadata").at("labels"))
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
            .collect();
        let applied = view.applied();
        let found =
            self.budget_selectors.read(applied, |selectors| selectors.selecting(namespace, &labels)).await;
        let paths = found.look(applied.state.clone(), labels).await;
        let names = paths.iter().map(|path| ObjectPath::of(path).name());
        // The selectors may be of a later state, in which a budget is new.
        let mut names = names.filter(|name| view.has_object(BUDGETS, namespace, name));
        (names.next().and_then(|name| view.find(BUDGETS, namespace, name)), names.count())
    }

    /// The write of `budget` with its new `status`, which the plugins have judged.
    ///
    /// # Errors
    /// The refusal of a plugin.
    async fn charge(
        &self,
        request: Request<'_>,
        judged: &JudgedBudget,
        status: Value,
        view: &View,
    ) -> Result<Charge, Rejected> {
        let JudgedBudget { key, revision, budget, .. } = judged;
        let resource =
            request.registry.find("policy", "v1", "poddisruptionbudgets").ok_or(ApiError::UnknownPath)?;
        let mut new = budget.clone();
        set(&mut new, "status", status);
        let writer = Writer {
            manager: SERVER_MANAGER,
            api_version: &resource.api_version(),
            subresource: Action::Status.subresource(),
            now: &self.ambient.now().seconds_text(),
            reset: resource.resets(Action::Status),
            others: &resource.others,
        };
        if let Err(error) = track_update(&resource.schema, resource.type_id, Some(budget), &mut new, &writer)
        {
            tracing::debug!(%error, "ownership of a budget's status is not tracked");
        }
        let attributes = self.budget_attributes(request, resource, key, budget);
        let (mut view, mut additions) = (view.clone(), Additions::default());
        self.mutate(&attributes, Some(&mut new), &mut view, &mut additions).await?;
        self.validate(&attributes, Some(&new), &mut view, &mut additions).await?;
        let put = self.put(resource, key.clone(), &mut new)?;
        additions.operate(StoreOperation::Put(put));
        Ok(Charge { revision: *revision, key: key.clone(), new, additions })
    }

    /// The change of a budget's status as plugins see it.
    fn budget_attributes<'a>(
        &'a self,
        request: Request<'a>,
        resource: &'a Resource,
        key: &'a Key,
        budget: &'a Value,
    ) -> Attributes<'a> {
        Attributes {
            resource,
            action: Action::Status,
            name: key.name(),
            path_name: key.name(),
            old: Some(budget),
            query: &NO_OPTIONS,
            user: &SERVER,
            ..self.attributes(request, Operation::Update)
        }
    }
}

/// A budget that selects a pod which is to be evicted.
struct JudgedBudget {
    key: Key,
    revision: Revision,
    budget: Value,
    /// Its status after the eviction; `None` where the pod does not count.
    status: Option<Value>,
}

/// The write of a budget from which an eviction is taken off.
struct Charge {
    key: Key,
    /// The version of the budget that it is based on.
    revision: Revision,
    new: Value,
    /// The write itself, and the plugins' additions to it.
    additions: Additions,
}

/// The error of an eviction that the budget `name` refuses.
fn refusal(name: &str, decision: EvictionDecision) -> ApiError {
    let no = |cause: String, retry_after_seconds| ApiError::DisruptionBudget { cause, retry_after_seconds };
    match decision {
        EvictionDecision::Exhausted(cause) => no(cause, 0),
        EvictionDecision::NotObserved => not_observed(name),
        EvictionDecision::Broken(reason) => {
            let subject = Subject {
                group: "policy".to_owned(),
                kind: "poddisruptionbudget".to_owned(),
                name: name.to_owned(),
            };
            let message = format!("{} {:?} is forbidden: {reason}", subject.qualified(), subject.name);
            let cause =
                format!("The disruption budget {name} does not allow evicting pods currently: {reason}");
            ApiError::Forbidden { subject, message, cause: Some(("DisruptionBudget", cause, "")) }
        }
        EvictionDecision::Uncounted | EvictionDecision::Counted(_) => {
            ApiError::Internal("an allowed eviction is refused".to_owned())
        }
    }
}

fn not_observed(name: &str) -> ApiError {
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    ApiError::DisruptionBudget { cause, retry_after_seconds: RETRY_SECONDS }
}

/// Adds the query's `dryRun` to that of the document: the eviction is a dry run where either says so.
fn propagate_dry_run(request: Request<'_>, eviction: &mut Value) {
    let mut asked = request.query.values("dryRun").peekable();
    if asked.peek().is_some() {
        add_dry_run(child_mut(eviction, "deleteOptions"), asked);
    }
}

/// The options of the pod's deletion.
fn delete_options(request: Request<'_>, eviction: &Value, dry_run: bool) -> Result<DeleteOptions, ApiError> {
    let options = eviction.at("deleteOptions");
    let value = if options.is_object() { options.clone() } else { json!({}) };
    let errors = validate_delete_options(&value);
    if !errors.is_empty() {
        return Err(ApiError::Invalid { subject: request.options_subject("DeleteOptions"), errors });
    }
    Ok(DeleteOptions::new(value, dry_run))
}

/// An eviction of a stored pod.
struct EvictAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    /// The request for the pod.
    request: Request<'a>,
    key: &'a Key,
    options: &'a DeleteOptions,
    eviction: &'a Value,
    /// The eviction as plugins see it.
    attributes: Attributes<'a>,
    /// The plugins' additions, made once for the eviction.
    additions: &'a Additions,
    /// The last write of the budget that the plugins were asked about.
    charge: Option<Charge>,
}

impl<S: Store> EvictAttempt<'_, S> {
    /// Takes the eviction of `pod` off its budget, if it has one. The plugins are asked about each version of the budget
    /// once, in whatever many views it stands.
    ///
    /// # Errors
    /// The refusal of the budget, or of a plugin.
    async fn charge_budget(
        &mut self,
        pod: &Value,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), Refused> {
        let EvictAttempt { pipeline, request, options, .. } = *self;
        let Some(mut judged) = pipeline.judge_budget(request, pod, view).await? else { return Ok(()) };
        additions.begin_endpoint();
        additions.require(Condition::AtRevision(judged.key.clone(), judged.revision));
        let Some(status) = judged.status.take().filter(|_| !options.dry_run) else { return Ok(()) };
        let kept = self.charge.take();
        let kept = kept.filter(|charge| (&charge.key, charge.revision) == (&judged.key, judged.revision));
        let charge = match kept {
            Some(charge) => charge,
            None => pipeline.charge(request, &judged, status, view).await.map_err(Refused::from)?,
        };
        additions.extend(&charge.additions);
        let resource = request.registry.find("policy", "v1", "poddisruptionbudgets");
        let resource = resource.ok_or(ApiError::UnknownPath)?;
        let attributes = pipeline.budget_attributes(request, resource, &judged.key, &judged.budget);
        let reserved = pipeline.admission.reserve(&attributes, Some(&charge.new), view, additions);
        self.charge = Some(charge);
        reserved
    }
}

impl<S: Store> Attempt for EvictAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let EvictAttempt { pipeline, request, key, options, additions, .. } = *self;
        let Current { value: pod, .. } = current;
        options.check_preconditions(request, key.name(), &pod)?;
        let mut evicted = pod.clone();
        if !options.dry_run {
            set_disruption_target(&mut evicted, &pipeline.ambient.now().seconds_text());
        }
        let write = pipeline.try_delete(request, key, options, &evicted).await?;
        Ok(Judged::new(write, pod, None, additions.clone()))
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let EvictAttempt { pipeline, request, key, options, eviction, .. } = *self;
        pipeline.admission.reserve(&self.attributes, Some(eviction), view, &mut judged.additions)?;
        // No plugin is asked about the deletion, but the pod's usage is given back.
        pipeline.reserve((request, Operation::Delete, options.dry_run), key, judged, view)?;
        if !ignores_budget(&judged.old) {
            let Judged { old, additions, .. } = judged;
            self.charge_budget(old, view, additions).await?;
        }
        Ok(())
    }

    fn names_version(&self) -> bool {
        self.options.names_version()
    }
}
