//! The policies of one kind that a write meets, in the order in which they are evaluated.
//!
//! Owns that order, which both kinds have in common: policies by name, their bindings by name, the parameters of each. A policy
//! that cannot be evaluated has its place in it, with the reason. What an evaluation leads to is the kinds' own.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use orch_schema::value::Value;

use super::prepared::{Binding, Bound, Policies, Policy, PolicyKind};
use super::witness::{Evaluation, Outcome, Witness};
use crate::admission::matching::{Version, Write};
use crate::admission::{Attributes, View};
use crate::follow::Maintained;

/// Pairs of policies and bindings with series of their own, of which none goes again: administrators name far fewer, and names that
/// change with each deployment must not fill the memory.
const NAMED_PAIRS_MAX: usize = 1000;

/// The stored policies of one kind.
#[derive(Debug)]
pub(super) struct Stored<K: PolicyKind> {
    policies: Maintained<Policies<K>>,
    /// Policies and bindings that have series of their own.
    named: Mutex<HashSet<(Arc<str>, Arc<str>)>>,
    /// Is shown all evaluations; none on a node.
    witness: Option<Arc<dyn Witness>>,
}

impl<K: PolicyKind> Default for Stored<K> {
    fn default() -> Self {
        Stored { policies: Maintained::default(), named: Mutex::default(), witness: None }
    }
}

/// The outcome of a look-up.
pub(super) enum Looked<K> {
    /// The bound policies whose rules name the resource of the write.
    Found(Vec<Bound<K>>),
    /// The policies have to be brought up first.
    Behind,
}

impl<K: PolicyKind> Stored<K> {
    /// None so far, whose evaluations are shown to `witness`.
    pub(super) fn witnessed(witness: Arc<dyn Witness>) -> Self {
        Stored { witness: Some(witness), ..Stored::default() }
    }

    /// Whether evaluations are shown to somebody.
    pub(super) fn has_witness(&self) -> bool {
        self.witness.is_some()
    }

    /// Shows an evaluation of `policy` to the witness, if there is one.
    pub(super) fn show(
        &self,
        policy: &Policy<K>,
        binding: Option<&Binding>,
        param: Option<&Value>,
        outcome: impl FnOnce() -> Outcome,
    ) {
        if let Some(witness) = &self.witness {
            witness.evaluated(Evaluation::of(policy, binding, param, outcome()));
        }
    }

    /// Looks the write up; `None` if it meets no policy.
    pub(super) fn look_up(&self, attributes: &Attributes<'_>, view: &View) -> Option<Looked<K>> {
        let applied = view.applied();
        if applied.state.collection(K::SOURCES[1]).is_empty() {
            return None;
        }
        let plural = &attributes.resource.plural;
        match self.policies.try_read(applied, |policies| policies.of_resource(plural)) {
            Some(found) if found.is_empty() => None,
            Some(found) => Some(Looked::Found(found)),
            None => Some(Looked::Behind),
        }
    }

    /// The bound policies of a look-up, ordered by name.
    pub(super) async fn found(
        &self,
        looked: Looked<K>,
        attributes: &Attributes<'_>,
        view: &View,
    ) -> Vec<Bound<K>> {
        match looked {
            Looked::Found(found) => found,
            Looked::Behind => {
                let plural = &*attributes.resource.plural;
                self.policies.read(view.applied(), |policies| policies.of_resource(plural)).await
            }
        }
    }

    /// The names of a policy and its binding for series; empty ones beyond the bound.
    pub(super) fn series_names(&self, policy: &Policy<K>, binding: &Binding) -> (String, String) {
        let names = (policy.name.clone(), binding.name.clone());
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        // set: of the pairs that have series.
        let has_series = named.contains(&names) || named.len() < NAMED_PAIRS_MAX && named.insert(names);
        match has_series {
            true => (policy.name.to_string(), binding.name.to_string()),
            false => (String::new(), String::new()),
        }
    }
}

/// One evaluation: a policy with a binding and a parameter.
pub(super) struct Invocation<'a, K> {
    pub(super) policy: Arc<Policy<K>>,
    pub(super) binding: Arc<Binding>,
    pub(super) param: Option<Value>,
    /// The version in which the policy is shown the objects.
    pub(super) version: Version<'a>,
}

/// A policy that cannot be evaluated.
pub(super) struct Misconfigured {
    /// `None`: with no binding.
    pub(super) binding: Option<Arc<Binding>>,
    pub(super) reason: String,
}

/// The evaluations of the policy in `bound` that the write of `object` meets, in order.
pub(super) async fn invocations<'a, K: PolicyKind>(
    write: &Write<'a>,
    Bound { policy, bindings }: &Bound<K>,
    object: Option<&Value>,
) -> Vec<Result<Invocation<'a, K>, Misconfigured>> {
    let version = match write.version_for(policy, object) {
        Ok(Some(version)) => version,
        Ok(None) => return Vec::new(),
        Err(reason) => return vec![Err(Misconfigured { binding: None, reason })],
    };
    let mut invocations = Vec::new();
    let mut is_convertible = None;
    for binding in bindings {
        let params = match write.is_bound(binding, object) {
            Ok(false) => continue,
            Ok(true) => {
                if K::CONVERTS_FIRST && is_convertible.is_none() {
                    is_convertible = Some(write.check_conversion(&version, object).await);
                }
                if let Some(Err(reason)) = &is_convertible {
                    invocations.push(Err(Misconfigured { binding: None, reason: reason.clone() }));
                    continue;
                }
                write.params(policy, binding).await
            }
            Err(reason) => Err(reason),
        };
        match params {
            Ok(params) => invocations.extend(params.into_iter().map(|param| {
                Ok(Invocation { policy: policy.clone(), binding: binding.clone(), param, version })
            })),
            Err(reason) => invocations.push(Err(Misconfigured { binding: Some(binding.clone()), reason })),
        }
    }
    invocations
}
