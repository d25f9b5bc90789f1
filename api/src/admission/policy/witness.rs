//! Evaluations of policies as they are shown to those who try policies out.
//!
//! Owns the form of what is shown. A node has no witness. Invariant: a witness changes nothing of what policies do.

use std::fmt;

use orch_rules::expression::policy::Verdict;
use orch_schema::value::Value;

use super::params::name_of;
use super::prepared::{Binding, Policy, PolicyKind};

/// Is shown each evaluation of a policy, in order.
pub trait Witness: fmt::Debug + Send + Sync {
    /// Takes note of an evaluation.
    fn evaluated(&self, evaluation: Evaluation);
}

/// The evaluation of a policy with one binding and one parameter.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Kind of the policy.
    pub kind: &'static str,
    /// Name of the policy.
    pub policy: String,
    /// Name of the binding; empty where the policy cannot be evaluated with any.
    pub binding: String,
    /// Namespace and name of the parameter, `NAMESPACE/NAME`; empty without one.
    pub param: String,
    /// The binding's actions on a violation: `Deny`, `Warn`, `Audit`. Empty for a mutating policy.
    pub actions: Vec<&'static str>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a policy's evaluation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The policy cannot be evaluated: the reason.
    Misconfigured(String),
    /// Its match conditions leave it out.
    LeftOut,
    /// Its match conditions have no value: the reason.
    NoConditions(String),
    /// The verdict of a validating policy.
    Validated(Verdict),
    /// The mutations of a mutating policy, in order.
    Mutated(Vec<Mutated>),
}

/// One mutation.
#[derive(Clone, Debug)]
pub struct Mutated {
    /// The reason why it was not made.
    pub error: Option<String>,
    /// The cost of its expression.
    pub cost: u64,
}

impl Evaluation {
    /// That of `policy` with `binding` and `param`.
    pub(super) fn of<K: PolicyKind>(
        policy: &Policy<K>,
        binding: Option<&Binding>,
        param: Option<&Value>,
        outcome: Outcome,
    ) -> Evaluation {
        let param = name_of(param);
        Evaluation {
            kind: K::KIND,
            policy: policy.name.to_string(),
            binding: binding.map(|binding| binding.name.to_string()).unwrap_or_default(),
            param: param.trim_start_matches('/').to_owned(),
            actions: binding.map(Binding::action_names).unwrap_or_default(),
            outcome,
        }
    }
}
