//! The client of the loops: requests to the pipeline like any client's, without HTTP.
//!
//! Owns the identity under which loops act. Every change of an object that a loop decided on carries the uid and, where
//! the decision depends on the object's content, the revision it was decided on: an object that changed meanwhile is
//! left alone and looked at again.

use std::future::Future;
use std::ops::Sub;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_raft::{Key, ObjectPath, State, Store};
use orch_rules::Action;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use crate::aggregation::Aggregation;
use crate::ambient::{Timestamp, uuid_text};
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::follow::Applied;
use crate::gate::Gate;
use crate::metrics::LoopFigures;
use crate::pipeline::{Answer, Pipeline, Request};
use crate::registry::{Changes, Registry, Resource};
use crate::request::{Query, Target, Verb};
use crate::status::Status;
use crate::webhook::Webhooks;

/// Deletion propagation policy: the treatment of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents stay, without their reference to the object.
    Orphan,
}

impl Propagation {
    /// The value of `propagationPolicy`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// An instant of the clock of a store's sleep, for limits of warnings. Stores of one process began at different times: an
/// instant of another one may lie behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment(pub Duration);

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.0.abs_diff(earlier.0)
    }
}

/// Resource and path of an object to act on.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Its resource.
    pub resource: &'a Arc<Resource>,
    /// `namespace/name`, or `name` for cluster scope.
    pub path: &'a str,
}

/// The body of a request, its media type, and the query beside it.
struct Body<'a> {
    content_type: &'a str,
    query: &'a Query,
    value: &'a Value,
}

/// A client of the pipeline with the loops' user and a field manager. Clones share everything.
pub(super) struct Client<S> {
    pipeline: Arc<Pipeline<S>>,
    user: Arc<User>,
    manager: &'static str,
}

impl<S: Store> Client<S> {
    /// A client whose writes belong to the field manager `manager`.
    pub(super) fn new(pipeline: Arc<Pipeline<S>>, manager: &'static str) -> Self {
        Client { pipeline, user: Arc::new(User::server()), manager }
    }

    /// The store below.
    pub(super) fn store(&self) -> &S {
        &self.pipeline.store
    }

    /// The numbers of the loops, for metrics.
    pub(super) fn figures(&self) -> &LoopFigures {
        &self.pipeline.loops
    }

    /// Decides on rights.
    pub(super) fn gate(&self) -> &Gate {
        &self.pipeline.gate
    }

    /// The groups and versions that other servers answer.
    pub(super) fn aggregation(&self) -> &Aggregation {
        &self.pipeline.aggregation
    }

    /// The webhooks that this node calls.
    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.pipeline.webhooks
    }

    /// A random number.
    pub(super) fn random(&self) -> u128 {
        self.pipeline.ambient.random()
    }

    /// The registry that is served now.
    pub(super) fn registry(&self) -> Arc<Registry> {
        self.pipeline.registry()
    }

    /// The changes of what is served, from now on.
    pub(super) fn follow(&self) -> Changes {
        self.pipeline.served.follow()
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        // date: for those that call.
        self.pipeline.ambient.now()
    }

    /// A random UUID.
    pub(super) fn random_uuid(&self) -> String {
        uuid_text(self.pipeline.ambient.random())
    }

    /// Now, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        // date: for those that call.
        self.pipeline.ambient.now().millis()
    }

    /// Now, for limits of warnings.
    pub(super) fn moment(&self) -> Moment {
        Moment(self.store().elapsed())
    }

    /// Now, in the RFC 3339 form of objects.
    pub(super) fn now_text(&self) -> String {
        // date: the form of objects.
        self.pipeline.ambient.now().seconds_text()
    }

    /// The served resource stored as `storage`, in the version that is stored.
    pub(super) fn stored_resource(&self, storage: &str) -> Option<Arc<Resource>> {
        self.registry().stored(storage).cloned()
    }

    /// A state no older than any write acknowledged before the call.
    pub(super) async fn most_recent(&self) -> Result<Arc<State>, ApiError> {
        self.pipeline.most_recent().await
    }

    /// The state that this node has applied, no older than any write acknowledged before the call.
    pub(super) async fn newest(&self) -> Result<Applied, ApiError> {
        self.most_recent().await?;
        Ok(Applied::of(self.store()))
    }

    /// The state that this node has applied.
    pub(super) fn applied(&self) -> Applied {
        Applied::of(self.store())
    }

    /// Creates an object in `namespace`, which is empty for cluster scope.
    pub(super) async fn create(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        object: &Value,
    ) -> Result<(), ApiError> {
        let path = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        self.send(Verb::Create, Place { resource, path: &path }, Action::Object, object).await
    }

    /// Replaces the object. The uid and resourceVersion in `object` are conditions.
    pub(super) async fn update(&self, place: Place<'_>, object: &Value) -> Result<(), ApiError> {
        self.send(Verb::Update, place, Action::Object, object).await
    }

    /// Merges `patch` into the object or its sub-resource. The uid and resourceVersion in the patch are conditions.
    pub(super) async fn patch(
        &self,
        place: Place<'_>,
        action: Action,
        patch: &Value,
    ) -> Result<(), ApiError> {
        self.send(Verb::Patch, place, action, patch).await
    }

    /// Applies `status` to the status of the object with `uid`, whatever other managers own of it. `status`: the whole status that the
    /// loop is for.
    pub(super) async fn apply_status(
        &self,
        place: Place<'_>,
        uid: &str,
        status: Value,
    ) -> Result<(), ApiError> {
        let (_, name) = ObjectPath::of(place.path).parts();
        let configuration = json!({
            "apiVersion": place.resource.api_version(),
            "kind": &*place.resource.kind,
            "metadata": {"name": name, "uid": uid},
            "status": status,
        });
        let query = Query::parse(&format!("fieldManager={}&force=true", self.manager));
        let body =
            Body { content_type: "application/apply-patch+yaml", query: &query, value: &configuration };
        self.send_as(Verb::Patch, place, Action::Status, body).await
    }

    /// Deletes the object if it still has `uid` and, where given, is still of `revision`.
    pub(super) async fn delete(
        &self,
        place: Place<'_>,
        uid: &str,
        revision: Option<orch_raft::Revision>,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        let mut preconditions = json!({"uid": uid});
        if let Some(revision) = revision {
            preconditions["resourceVersion"] = json!(revision.to_string());
        }
        let options = json!({"preconditions": preconditions, "propagationPolicy": propagation.as_str()});
        self.send(Verb::Delete, place, Action::Object, &options).await
    }

    /// Has what is served follow the definitions of the state that this node has applied.
    pub(super) async fn follow_definitions(&self) {
        self.pipeline.definitions.catch_up(&self.pipeline.store, &self.pipeline.served).await;
    }

    /// Removes what is stored of the kind whose definition was the object under `key`, unless there is a definition again.
    pub(super) async fn remove_leftovers(&self, key: &Key) -> Result<(), ApiError> {
        self.pipeline.remove_leftovers(key).await
    }

    async fn send(&self, verb: Verb, place: Place<'_>, action: Action, body: &Value) -> Result<(), ApiError> {
        let content_type =
            if verb == Verb::Patch { "application/merge-patch+json" } else { "application/json" };
        let body = Body { content_type, query: &Query::default(), value: body };
        self.send_as(verb, place, action, body).await
    }

    async fn send_as(
        &self,
        verb: Verb,
        place: Place<'_>,
        action: Action,
        body: Body<'_>,
    ) -> Result<(), ApiError> {
        let Place { resource, path } = place;
        resource.make_tables().await?;
        let (namespace, name) = ObjectPath::of(path).parts();
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: namespace.to_owned(),
            resource: resource.plural.clone(),
            name: name.to_owned(),
            subresource: action.subresource().to_owned(),
            subpath: String::new(),
            deprecated_watch: false,
        };
        let request = Request {
            verb,
            registry: &self.registry(),
            target: &target,
            resource,
            action,
            query: body.query,
            exchange: &Exchange::internal(),
            user: &self.user,
            user_agent: self.manager,
            content_type: body.content_type,
            body: &Bytes::from(body.value.to_string()),
            budget: &Budget::default(),
        };
        let began = self.store().elapsed();
        // Boxed: the whole pipeline's future is large, and many of these are held at once.
        let answer: Result<Answer, ApiError> = Box::pin(self.pipeline.run(request)).await;
        let took = self.store().elapsed().saturating_sub(began);
        let (method, code) = (method(verb), self.code(verb, answer.as_ref().err()));
        self.figures().note_request(method, code, took);
        answer.map(drop)
    }

    /// The code that an HTTP client would get.
    fn code(&self, verb: Verb, error: Option<&ApiError>) -> u16 {
        match error {
            Some(error) => Status::of(error, self.registry().brand).code,
            None if verb == Verb::Create => 201,
            None => 200,
        }
    }
}

/// The method of a request that writes.
fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete | Verb::DeleteCollection => "DELETE",
        Verb::Get | Verb::List | Verb::Watch => "GET",
    }
}

/// Whether a refused action needs no retry: the object or its kind is gone, or its change makes the loop look at it again.
pub(super) fn is_overtaken(error: &ApiError) -> bool {
    use ApiError::{AlreadyExists, Conflict, NotFound, UnknownPath};
    matches!(error, NotFound(_) | UnknownPath | Conflict { .. } | AlreadyExists(_))
}

/// How long a loop with much to compute stands back: a timer's smallest step, which no ready task waits longer for. A
/// sleep of zero need not stand back at all.
const PAUSE: Duration = Duration::from_millis(1);

/// Lets other tasks run, clients' requests among them.
pub(super) async fn let_others_run<S: Store>(store: &S) {
    store.sleep(PAUSE).await;
}

/// Runs `work` for each item, at most `at_once` at a time, and gives the results in the order of completion.
pub(super) async fn for_each<T, R, F>(
    items: impl IntoIterator<Item = T>,
    at_once: usize,
    work: impl FnMut(T) -> F,
) -> Vec<R>
where
    F: Future<Output = R>,
{
    use futures::StreamExt;
    futures::stream::iter(items.into_iter().map(work)).buffer_unordered(at_once).collect().await
}

#[cfg(test)]
mod tests {
    use orch_bounded::WarningLimit;

    use super::*;

    #[test]
    fn warnings_of_loops_are_limited_over_the_clocks_of_several_stores() {
        let limit = WarningLimit::<Moment>::new();
        let passed = [1_000_000, 1_000_001, 1_009_999, 1_010_000, 500_000, 500_001]
            .map(|now| limit.pass_at(Moment(Duration::from_millis(now))));
        assert_eq!(passed, [Some(0), None, None, Some(2), Some(0), None]);
    }
}
