//! What a policy asks of a write besides its own rules: its binding, its parameters.

use orch_rules::expression::policy::{Input, Question};
use orch_schema::value::Value;

use super::params::{self, Params};
use super::prepared::{Binding, Policy, PolicyKind};
use crate::admission::matching::{Objects, Param, Write};

impl Write<'_> {
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

    /// Whether the kind of parameters of `policy` is served.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check_param_kind<K: PolicyKind>(&self, policy: &Policy<K>) -> Result<(), String> {
        match policy.param_kind() {
            Some(kind) => params::resource(self.asked.attributes, kind).map(drop),
            None => Ok(()),
        }
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

    /// The result of `run`, an evaluation of `policy`.
    pub(super) async fn evaluate_policy<K: PolicyKind, T>(
        &self,
        policy: &Policy<K>,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> T {
        self.evaluate(policy.reads_namespace, objects, param, run).await
    }
}
