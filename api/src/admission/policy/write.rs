//! Bindings and parameters of a policy, read for a write.

use std::time::Duration;

use orch_rules::expression::policy::{Input, Question};
use orch_schema::value::Value;

use super::params::{self, Params};
use super::prepared::{Binding, Policy, PolicyKind};
use crate::admission::matching::{Objects, Param, Version, Write, shown_in};

impl<'a> Write<'a> {
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

    /// # Errors
    /// The objects of the write cannot be converted to `version`: the reason.
    pub(super) async fn check_conversion(
        &self,
        version: &Version<'_>,
        object: Option<&Value>,
    ) -> Result<(), String> {
        if matches!(version, Version::Own) {
            return Ok(());
        }
        let attributes = self.asked.attributes;
        let (own, trace) = (attributes.resource, attributes.exchange.onward());
        shown_in(own, version, attributes.old, trace).await?;
        shown_in(own, version, object, trace).await?;
        Ok(())
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
        let trace = self.asked.attributes.exchange.onward();
        params::collect(resource, reference, self.asked.namespace, self.view, trace).await
    }

    /// The result of `run`, an evaluation of `policy`, and its time: see [`Write::evaluate`].
    pub(super) async fn evaluate_policy<K: PolicyKind, T>(
        &self,
        policy: &Policy<K>,
        objects: Objects<'_>,
        param: Param<'_>,
        run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>,
    ) -> (T, Duration) {
        self.evaluate(policy.reads_namespace, objects, param, run).await
    }
}
