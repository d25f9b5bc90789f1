//! A write on its way through policies of either kind.
//!
//! Owns what their evaluations share: the names of the write, its namespace, answers to questions about rights, and the
//! inputs of an evaluation.

use std::sync::OnceLock;
use std::time::Duration;

use orch_raft::state::NAMESPACES;
use orch_rules::expression::policy::{Document, Input, Question, ResourceTarget};
use orch_schema::value::Value;

use super::asked::{Asked, namespace_document};
use super::matching::{Match, Version};
use super::params::{self, Params};
use super::prepared::{Binding, Policy, PolicyKind};
use super::rights::{Rights, request_resource};
use super::versions::Names;
use crate::admission::{Attributes, View};
use crate::expression_times::evaluating;

/// A write that policies are asked about.
pub(super) struct Write<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) view: &'a View,
    rights: Rights,
    target: ResourceTarget,
    /// The namespace as expressions see it, once one may read it; null where there is none.
    namespace: OnceLock<Value>,
}

/// The objects of a write as one evaluation is shown them.
#[derive(Clone, Copy)]
pub(super) struct Objects<'o> {
    pub(super) version: &'o Names,
    pub(super) object: Option<&'o Value>,
    pub(super) old: Option<&'o Value>,
    /// The document behind the variable `request`.
    pub(super) request: &'o Value,
}

/// A parameter of one evaluation, and its `apiVersion` and kind.
#[derive(Clone, Copy)]
pub(super) struct Param<'o> {
    pub(super) object: Option<&'o Value>,
    pub(super) kind: Option<(&'o str, &'o str)>,
}

impl<'a> Write<'a> {
    pub(super) fn new(attributes: &'a Attributes<'a>, view: &'a View) -> Write<'a> {
        let asked = Asked::of(attributes);
        let target = request_resource(&asked);
        Write { asked, view, rights: Rights::default(), target, namespace: OnceLock::new() }
    }

    pub(super) fn attributes(&self) -> &'a Attributes<'a> {
        self.asked.attributes
    }

    /// Whether a policy is about the write of `object`, and the version by which.
    ///
    /// # Errors
    /// The reason why that cannot be said.
    pub(super) fn matched(&self, of: &Match, object: Option<&Value>) -> Result<Option<Version<'a>>, String> {
        of.matches(&self.asked, object, self.view)
    }

    /// Whether `binding` is about the write of `object`, too.
    ///
    /// # Errors
    /// As of [`Write::matched`].
    pub(super) fn is_bound(&self, binding: &Binding, object: Option<&Value>) -> Result<bool, String> {
        match &binding.matching {
            None => Ok(true),
            Some(of) => Ok(self.matched(of, object)?.is_some()),
        }
    }

    /// The version by which `policy` is about the write of `object`; `None` if it is not.
    ///
    /// # Errors
    /// That cannot be said, or the kind of its parameters is not served.
    pub(super) fn version_for<K: PolicyKind>(
        &self,
        policy: &Policy<K>,
        object: Option<&Value>,
    ) -> Result<Option<Version<'a>>, String> {
        let version = self.matched(&policy.matching, object)?;
        if let (Some(_), Some(kind)) = (&version, policy.param_kind()) {
            params::resource(self.asked.attributes, kind)?;
        }
        Ok(version)
    }

    /// The parameters of `policy` with `binding`, of one evaluation each.
    ///
    /// # Errors
    /// They cannot be looked for, or there are none and that is an error.
    pub(super) async fn params<K: PolicyKind>(
        &self,
        policy: &Policy<K>,
        binding: &Binding,
    ) -> Result<Params, String> {
        let (Some(kind), Some(reference)) = (policy.param_kind(), &binding.params) else {
            return Ok(vec![None]);
        };
        let resource = params::resource(self.asked.attributes, kind)?;
        params::collect(resource, reference, self.asked.namespace, self.view).await
    }

    /// The result of `run`, an evaluation of `policy`, and the time that it took without the waits for answers. It is made again
    /// for each question about rights that has no answer yet.
    pub(super) async fn evaluate<K: PolicyKind, T>(
        &self,
        policy: &Policy<K>,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> (T, Duration) {
        let mut taken = Duration::ZERO;
        loop {
            let (result, time) = evaluating(|| self.run_once(policy, objects, param, &run));
            taken = taken.saturating_add(time);
            let question = match result {
                Ok(done) => return (done, taken),
                Err(question) => question,
            };
            self.rights.ask(*question, self.asked.attributes, self.view).await;
        }
    }

    fn run_once<K: PolicyKind, T>(
        &self,
        policy: &Policy<K>,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> Result<T, Box<Question>> {
        let Names { api_version, kind, .. } = objects.version;
        let document = |of| Document::new(api_version, kind, of);
        let (object, old) = (objects.object.and_then(document), objects.old.and_then(document));
        let param = param.object.zip(param.kind);
        let params = param.and_then(|(of, (version, kind))| Document::new(version, kind, of));
        let namespace = policy.reads_namespace.then(|| self.namespace()).filter(|of| !of.is_null());
        run(&Input {
            object: object.as_ref(),
            old: old.as_ref(),
            request: objects.request,
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
