//! Requests to the pipeline of a trial.
//!
//! Owns their paths: the namespace of an object that names none is `default`, as for clients.

use std::sync::Arc;

use bytes::Bytes;
use orch_raft::memory::MemoryStore;
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::budget::Budget;
use orch_schema::value::Value;

use crate::answer::Answer;
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::pipeline::{Pipeline, Request};
use crate::registry::Resource;
use crate::request::{Query, Target, Verb};

/// A request for an object.
pub(super) struct Sent<'r> {
    verb: Verb,
    resource: &'r Arc<Resource>,
    namespace: String,
    /// Empty of a create.
    name: String,
    body: Bytes,
    query: Query,
}

/// The namespace of `object`; empty where its kind has none.
pub(super) fn namespace_of<'o>(resource: &Resource, object: &'o Value) -> &'o str {
    match (resource.namespaced, object.at("metadata").text("namespace")) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    }
}

impl<'r> Sent<'r> {
    fn of(verb: Verb, resource: &'r Arc<Resource>, object: &Value, body: Bytes) -> Sent<'r> {
        let namespace = namespace_of(resource, object).to_owned();
        let name = match verb {
            Verb::Create => "",
            _ => object.at("metadata").text("name"),
        };
        Sent { verb, resource, namespace, name: name.to_owned(), body, query: Query::default() }
    }

    /// The creation of `object`.
    pub(super) fn create(resource: &'r Arc<Resource>, object: &Value) -> Sent<'r> {
        Sent::of(Verb::Create, resource, object, object.to_string().into())
    }

    /// The change of the object of its name to `object`.
    pub(super) fn update(resource: &'r Arc<Resource>, object: &Value) -> Sent<'r> {
        Sent::of(Verb::Update, resource, object, object.to_string().into())
    }

    /// The removal of the object of the name of `object`.
    pub(super) fn delete(resource: &'r Arc<Resource>, object: &Value) -> Sent<'r> {
        Sent::of(Verb::Delete, resource, object, Bytes::new())
    }

    /// The same as a dry run.
    pub(super) fn dry_run(self) -> Sent<'r> {
        Sent { query: Query::parse("dryRun=All"), ..self }
    }
}

/// The answer to a request of `user`.
///
/// # Errors
/// It is refused.
pub(super) async fn send(
    pipeline: &Pipeline<MemoryStore>,
    sent: Sent<'_>,
    user: &User,
    exchange: &Exchange,
) -> Result<Answer, ApiError> {
    let Sent { verb, resource, namespace, name, body, query } = sent;
    resource.make_tables().await?;
    let target = Target {
        group: resource.path_group.to_string(),
        version: resource.version.clone(),
        namespace,
        resource: resource.plural.clone(),
        name,
        ..Target::default()
    };
    let request = Request {
        verb,
        registry: &pipeline.registry(),
        target: &target,
        resource,
        action: Action::Object,
        query: &query,
        exchange,
        user,
        user_agent: "orch-policy-test",
        content_type: "application/json",
        body: &body,
        budget: &Budget::default(),
    };
    // Boxed: the whole pipeline's future is large.
    Box::pin(pipeline.run(request)).await
}
