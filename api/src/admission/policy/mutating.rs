//! `MutatingAdmissionPolicy`: changes objects by what policies make.
//!
//! Owns the rules of the two rounds, which are the reference's. Policies are matched with the object before the first of them
//! changes it; the conditions and mutations of each see the changes of those before. A mutation that fails does not stop those
//! behind it; the write is refused in the end, with all errors. The second round evaluates a policy again if its
//! `reinvocationPolicy` allows it, the first round evaluated it, and the object has changed since.
//!
//! Invariant: a refused write leaves the object as it was.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::Either;
use orch_proto::Brand;
use orch_rules::expression::policy::{FailurePolicy, Input, Matched, MutatingPrograms};
use orch_schema::value::Value;

use super::change::applied;
use super::checks::{count_mutation, observe_unmet_conditions};
use super::is_judged;
use super::met::{Invocation, Misconfigured, Stored, invocations};
use super::params::name_of;
use super::prepared::{Binding, Bound, Policy, PolicyKind};
use super::refusal::{PolicyErrors, PolicyFault};
use super::witness::{Mutated, Outcome, Witness};
use crate::admission::matching::{Names, Objects, Param, Target, Write, back, shown_in};
use crate::admission::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;

impl PolicyKind for MutatingPrograms {
    const SOURCES: [&'static str; 2] = [
        "mutatingadmissionpolicies.admissionregistration",
        "mutatingadmissionpolicybindings.admissionregistration",
    ];
    const KIND: &'static str = "MutatingAdmissionPolicy";
    const CONVERTS_FIRST: bool = true;

    fn compile(spec: &Value, brand: &'static Brand) -> Self {
        MutatingPrograms::compile(spec, brand)
    }
}

#[derive(Debug, Default)]
pub(in crate::admission) struct MutatingAdmissionPolicy {
    stored: Stored<MutatingPrograms>,
}

impl MutatingAdmissionPolicy {
    /// The plugin whose evaluations are shown to `witness`.
    pub(in crate::admission) fn witnessed(witness: Arc<dyn Witness>) -> Self {
        MutatingAdmissionPolicy { stored: Stored::witnessed(witness) }
    }
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_judged(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let Some(looked) = self.stored.look_up(attributes, view) else { return rule(Ok(())) };
        Either::Right(Box::pin(async move {
            let found = self.stored.found(looked, attributes, view).await;
            let memory = additions.remembered::<Memory>().map(|memory| (*memory).clone());
            let mut mutating = Mutating {
                stored: &self.stored,
                write: Write::new(attributes, view),
                memory: memory.unwrap_or_default(),
                is_second: additions.is_second_round(),
                errors: PolicyErrors::default(),
            };
            let invocations = mutating.invocations(&found, object).await;
            let changed = mutating.run(&invocations, object).await.map_err(Refusal::Error)?;
            let Mutating { errors, mut memory, .. } = mutating;
            errors.refusal(attributes)?;
            if changed.is_some() {
                additions.ask_again();
            }
            if let Some(changed) = changed {
                *object = changed;
            }
            memory.output = object.clone();
            additions.remember(memory);
            Ok(())
        }))
    }
}

/// The state of the first round, from which the second one goes on.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// The object behind the policies.
    output: Value,
    /// Evaluations that may be made again, and were made.
    made: HashSet<Key>,
    /// Those of them behind which something has changed.
    due: HashSet<Key>,
}

/// One evaluation: policy, binding and parameter.
type Key = (Arc<str>, Arc<str>, String);

type Evaluation<'a> = Invocation<'a, MutatingPrograms>;

struct Mutating<'a> {
    stored: &'a Stored<MutatingPrograms>,
    write: Write<'a>,
    memory: Memory,
    is_second: bool,
    errors: PolicyErrors,
}

impl<'a> Mutating<'a> {
    /// The evaluations that the write of `object` meets, in order.
    async fn invocations(
        &mut self,
        found: &[Bound<MutatingPrograms>],
        object: &Value,
    ) -> Vec<Evaluation<'a>> {
        let mut all = Vec::new();
        for bound in found {
            for invocation in invocations(&self.write, bound, Some(object)).await {
                match invocation {
                    Ok(invocation) => all.push(invocation),
                    Err(Misconfigured { binding, reason }) => {
                        self.misconfigured(&bound.policy, binding.as_deref(), &reason);
                    }
                }
            }
        }
        all
    }

    /// The object behind all evaluations; `None` if none changed anything.
    ///
    /// # Errors
    /// The object that a mutation left cannot be read, whatever the failure policy is.
    async fn run(
        &mut self,
        invocations: &[Evaluation<'a>],
        object: &Value,
    ) -> Result<Option<Value>, ApiError> {
        if self.is_second && self.memory.output != *object {
            self.make_due();
        }
        let mut current: Option<Value> = None;
        let mut is_dirty = false;
        for invocation in invocations {
            let key = key_of(invocation);
            let before = current.as_ref().unwrap_or(object);
            let Some(after) = self.invoke(invocation, &key, before).await? else {
                continue;
            };
            is_dirty |= after.is_dirty;
            if after.object.as_ref().is_some_and(|after| after != before) {
                self.make_due();
            }
            if after.object.is_some() {
                current = after.object;
            }
            if invocation.policy.is_reinvoked {
                self.memory.made.insert(key);
            }
        }
        if is_dirty {
            self.make_due();
        }
        // A mutation that left the object as it was asks for the second round, too.
        Ok(if is_dirty { Some(current.unwrap_or_else(|| object.clone())) } else { None })
    }

    /// Has all evaluations that may be made again and were made be made again.
    fn make_due(&mut self) {
        self.memory.due.extend(self.memory.made.drain());
    }

    /// Evaluates a policy over `object`; `None` where its conditions leave it out, or it is not due in the second round: its
    /// conditions are asked then, too.
    async fn invoke(
        &mut self,
        invocation: &Evaluation<'a>,
        key: &Key,
        object: &Value,
    ) -> Result<Option<After>, ApiError> {
        let Invocation { policy, binding, param, version } = invocation;
        let asked = self.write.asked;
        let (own, trace) = (asked.attributes.resource, asked.attributes.exchange.onward());
        let shown = shown_in(own, version, Some(object), trace).await;
        let old = shown_in(own, version, asked.attributes.old, trace).await;
        let (mut shown, old) = match (shown, old) {
            (Ok(Some(shown)), Ok(old)) => (shown.into_owned(), old),
            (Ok(None), _) => return Ok(None),
            (Err(reason), _) | (_, Err(reason)) => {
                self.misconfigured(policy, None, &reason);
                return Ok(None);
            }
        };
        let names = Names::of(&asked, version);
        let request = asked.requests(&names);
        let programs = policy.programs(asked.attributes.brand);
        let param = Param { object: param.as_ref(), kind: policy.param_kind() };
        let around = Objects { version: &names, object: None, old: old.as_deref(), request: &request };
        let is_met = self.is_met(invocation, Objects { object: Some(&shown), ..around }, param).await;
        // set: keys of the evaluations that are due.
        if !is_met || self.is_second && !self.memory.due.contains(key) {
            return Ok(None);
        }
        let target = Target::of(asked.attributes, version, &names);
        let mut shown_mutations = Vec::new();
        let mut is_dirty = false;
        for at in 0..programs.mutations() {
            let mutation = |input: &Input<'_>| programs.evaluate(at, input);
            let objects = Objects { object: Some(&shown), ..around };
            let ((made, cost), taken) = self.write.evaluate_policy(policy, objects, param, mutation).await;
            let error = match made.map(|made| applied(&target, &shown, made)) {
                Ok(Ok(after)) => {
                    shown = after;
                    is_dirty = true;
                    None
                }
                Ok(Err(PolicyFault::Policy(reason))) | Err(reason) => Some(reason),
                Ok(Err(PolicyFault::Request(error))) => return Err(error),
            };
            if self.stored.has_witness() {
                shown_mutations.push(Mutated { error: error.clone(), cost });
            }
            count_mutation(self.stored.series_names(policy, binding), error.as_deref(), taken);
            if let Some(reason) = error {
                self.failed(policy, binding, reason);
            }
        }
        self.stored.show(policy, Some(binding), param.object, || Outcome::Mutated(shown_mutations));
        if !is_dirty {
            return Ok(Some(After { object: None, is_dirty }));
        }
        match back(own, version, shown, trace).await {
            Ok(object) => Ok(Some(After { object: Some(object), is_dirty })),
            Err(reason) => Err(ApiError::Internal(reason)),
        }
    }

    /// Whether the conditions of a policy hold over `objects`.
    async fn is_met(&mut self, invocation: &Evaluation<'a>, objects: Objects<'_>, param: Param<'_>) -> bool {
        let Invocation { policy, binding, .. } = invocation;
        let attributes = self.write.asked.attributes;
        let programs = policy.programs(attributes.brand);
        let conditions = |input: &Input<'_>| programs.matched(input, policy.failure);
        let (verdict, taken) = self.write.evaluate_policy(policy, objects, param, conditions).await;
        let outcome = match &verdict.matched {
            Matched::Yes => return true,
            Matched::No => Outcome::LeftOut,
            Matched::Failed(reason) => Outcome::NoConditions(reason.clone()),
        };
        let (name, _) = self.stored.series_names(policy, binding);
        observe_unmet_conditions(name, attributes.operation, verdict.errors, taken);
        self.stored.show(policy, Some(binding), param.object, || outcome);
        if let Matched::Failed(reason) = verdict.matched {
            self.failed(policy, binding, reason);
        }
        false
    }

    fn failed(&mut self, policy: &Policy<MutatingPrograms>, binding: &Binding, reason: String) {
        if policy.failure == FailurePolicy::Fail {
            self.errors.add_failure(&policy.name, &binding.name, &reason);
        }
    }

    fn misconfigured(&mut self, policy: &Policy<MutatingPrograms>, binding: Option<&Binding>, reason: &str) {
        self.stored.show(policy, binding, None, || Outcome::Misconfigured(reason.to_owned()));
        if policy.failure == FailurePolicy::Fail {
            self.errors.add_misconfiguration(&policy.name, binding.map(|binding| &*binding.name), reason);
        }
    }
}

/// The object behind one policy.
struct After {
    /// `None` if no mutation was made.
    object: Option<Value>,
    /// A mutation was made, though perhaps it changed nothing.
    is_dirty: bool,
}

fn key_of(invocation: &Evaluation<'_>) -> Key {
    let Invocation { policy, binding, param, .. } = invocation;
    (policy.name.clone(), binding.name.clone(), name_of(param.as_ref()))
}
