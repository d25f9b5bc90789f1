//! A write on its way through policies or webhooks.
//!
//! Owns what the evaluations of their expressions share: the names of the write, its namespace, answers to questions about
//! rights, and the inputs of an evaluation.

use std::sync::OnceLock;
use std::time::Duration;

use orch_raft::state::NAMESPACES;
use orch_rules::expression::policy::{Document, Input, Question, ResourceTarget};
use orch_schema::value::Value;

use super::asked::{Asked, Requests, namespace_document};
use super::rights::{Rights, request_resource};
use super::rules::{Match, Version};
use super::versions::Names;
use crate::admission::{Attributes, View};
use crate::expression_times::evaluating;

/// A write that policies or webhooks are asked about.
pub(in crate::admission) struct Write<'a> {
    pub(in crate::admission) asked: Asked<'a>,
    pub(in crate::admission) view: &'a View,
    rights: Rights,
    target: ResourceTarget,
    /// The namespace as expressions see it, once one may read it; null where there is none.
    namespace: OnceLock<Value>,
}

/// The objects of a write as one evaluation is shown them.
#[derive(Clone, Copy)]
pub(in crate::admission) struct Objects<'o> {
    pub(in crate::admission) version: &'o Names,
    pub(in crate::admission) object: Option<&'o Value>,
    pub(in crate::admission) old: Option<&'o Value>,
    /// The documents behind the variable `request`.
    pub(in crate::admission) request: &'o Requests,
}

/// A parameter of one evaluation, and its `apiVersion` and kind.
#[derive(Clone, Copy)]
pub(in crate::admission) struct Param<'o> {
    pub(in crate::admission) object: Option<&'o Value>,
    pub(in crate::admission) kind: Option<(&'o str, &'o str)>,
}

impl<'a> Write<'a> {
    pub(in crate::admission) fn new(attributes: &'a Attributes<'a>, view: &'a View) -> Write<'a> {
        let asked = Asked::of(attributes);
        let target = request_resource(&asked);
        Write { asked, view, rights: Rights::default(), target, namespace: OnceLock::new() }
    }

    pub(in crate::admission) fn attributes(&self) -> &'a Attributes<'a> {
        self.asked.attributes
    }

    /// Whether `of` is about the write of `object`, and the version by which.
    ///
    /// # Errors
    /// The reason why that cannot be said.
    pub(in crate::admission) fn matched(
        &self,
        of: &Match,
        object: Option<&Value>,
    ) -> Result<Option<Version<'a>>, String> {
        of.matches(&self.asked, object, self.view)
    }

    /// The result of `run`, an evaluation of expressions, and the time that it took without the waits for answers. It is made again
    /// for each question about rights that has no answer yet.
    pub(in crate::admission) async fn evaluate<T>(
        &self,
        reads_namespace: bool,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> (T, Duration) {
        let mut taken = Duration::ZERO;
        loop {
            let (result, time) = evaluating(|| self.run_once(reads_namespace, objects, param, &run));
            taken = taken.saturating_add(time);
            let question = match result {
                Ok(done) => return (done, taken),
                Err(question) => question,
            };
            self.rights.ask(*question, self.asked.attributes, self.view).await;
        }
    }

    fn run_once<T>(
        &self,
        reads_namespace: bool,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> Result<T, Box<Question>> {
        let Names { api_version, kind, .. } = objects.version;
        let document = |of| Document::new(api_version, kind, of);
        let (object, old) = (objects.object.and_then(document), objects.old.and_then(document));
        let param = param.object.zip(param.kind);
        let params = param.and_then(|(of, (version, kind))| Document::new(version, kind, of));
        let namespace = reads_namespace.then(|| self.namespace()).filter(|of| !of.is_null());
        run(&Input {
            object: object.as_ref(),
            old: old.as_ref(),
            request: &objects.request.of_matched,
            condition_request: objects.request.of_conditions(),
            params: params.as_ref(),
            namespace,
            decisions: &self.rights,
            target: &self.target,
        })
    }

    fn namespace(&self) -> &Value {
        self.namespace.get_or_init(|| {
            let name = if self.asked.is_namespace { "" } else { self.asked.namespace };
            self.view.find(NAMESPACES, "", name).as_ref().map_or(Value::Null, namespace_document)
        })
    }
}
