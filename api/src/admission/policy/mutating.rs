//! `MutatingAdmissionPolicy`: changes objects by what policies make.
//!
//! Owns the order over policies, bindings and parameters, and the rules of the two rounds. Which policies a write meets is
//! found before the first changes it; conditions and mutations see what those before have changed. A mutation that fails
//! does not stop those behind it; the write is refused in the end, with all errors. In the second round a policy is evaluated
//! that may be, was in the first, and behind which something has changed (facts/extension.md 5.5).
//!
//! Invariant: a refused write leaves the object as it was.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::Either;
use orch_proto::Brand;
use orch_rules::expression::policy::{FailurePolicy, Input, Matched, MutatingPrograms};
use orch_schema::value::Value;

use super::change::applied;
use super::params::name_of;
use super::prepared::{Binding, Bound, Policies, Policy, PolicyKind};
use super::refusal::{PolicyErrors, PolicyFault};
use super::{is_judged, looked_up};
use crate::admission::matching::{Names, Objects, Param, Target, Version, Write, back, shown_in};
use crate::admission::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;
use crate::follow::Maintained;

impl PolicyKind for MutatingPrograms {
    const SOURCES: [&'static str; 2] = [
        "mutatingadmissionpolicies.admissionregistration",
        "mutatingadmissionpolicybindings.admissionregistration",
    ];

    fn compile(spec: &Value, brand: &'static Brand) -> Self {
        MutatingPrograms::compile(spec, brand)
    }
}

#[derive(Debug, Default)]
pub(in crate::admission) struct MutatingAdmissionPolicy {
    policies: Maintained<Policies<MutatingPrograms>>,
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
        let looked = looked_up(&self.policies, attributes, view);
        if looked.as_ref().is_some_and(Vec::is_empty) {
            return rule(Ok(()));
        }
        Either::Right(Box::pin(async move {
            let found = match looked {
                Some(found) => found,
                None => {
                    let plural = &*attributes.resource.plural;
                    self.policies.read(view.applied(), |policies| policies.of_resource(plural)).await
                }
            };
            let memory = additions.remembered::<Memory>().map(|memory| (*memory).clone());
            let mut mutating = Mutating {
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

/// What the first round leaves for the second.
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

/// A policy that the write meets, with a binding and a parameter.
struct Invocation<'a> {
    policy: Arc<Policy<MutatingPrograms>>,
    binding: Arc<Binding>,
    param: Option<Value>,
    version: Version<'a>,
}

struct Mutating<'a> {
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
    ) -> Vec<Invocation<'a>> {
        let mut invocations = Vec::new();
        for Bound { policy, bindings } in found {
            let version = match self.version(policy, object) {
                Ok(Some(version)) => version,
                Ok(None) => continue,
                Err(reason) => {
                    self.misconfigured(policy, None, &reason);
                    continue;
                }
            };
            for binding in bindings {
                match self.params(policy, binding, object).await {
                    Ok(params) => invocations.extend(params.into_iter().map(|param| Invocation {
                        policy: policy.clone(),
                        binding: binding.clone(),
                        param,
                        version,
                    })),
                    Err(reason) => self.misconfigured(policy, Some(binding), &reason),
                }
            }
        }
        invocations
    }

    /// The version by which `policy` is about the write of `object`.
    fn version(
        &self,
        policy: &Policy<MutatingPrograms>,
        object: &Value,
    ) -> Result<Option<Version<'a>>, String> {
        let Some(version) = self.write.matched(&policy.matching, Some(object))? else { return Ok(None) };
        self.write.check_param_kind(policy)?;
        Ok(Some(version))
    }

    async fn params(
        &self,
        policy: &Policy<MutatingPrograms>,
        binding: &Binding,
        object: &Value,
    ) -> Result<Vec<Option<Value>>, String> {
        if !self.write.is_bound(binding, Some(object))? {
            return Ok(Vec::new());
        }
        self.write.params(policy, binding).await
    }

    /// The object behind all evaluations; `None` if none changed anything.
    ///
    /// # Errors
    /// What a mutation left cannot be read, whatever the failure policy is.
    async fn run(
        &mut self,
        invocations: &[Invocation<'a>],
        object: &Value,
    ) -> Result<Option<Value>, ApiError> {
        if self.is_second && self.memory.output != *object {
            self.make_due();
        }
        let mut current: Option<Value> = None;
        let mut is_dirty = false;
        for invocation in invocations {
            let key = invocation.key();
            // set: keys of the invocations that are due.
            if self.is_second && !self.memory.due.contains(&key) {
                continue;
            }
            let before = current.as_ref().unwrap_or(object);
            let Some(after) = self.invoke(invocation, before).await? else {
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

    /// Evaluates a policy over `object`; `None` where its conditions leave it out.
    async fn invoke(
        &mut self,
        invocation: &Invocation<'a>,
        object: &Value,
    ) -> Result<Option<After>, ApiError> {
        let Invocation { policy, binding, param, version } = invocation;
        let asked = self.write.asked;
        let own = asked.attributes.resource;
        let shown = shown_in(own, version, Some(object)).await;
        let old = shown_in(own, version, asked.attributes.old).await;
        let (Ok(Some(shown)), Ok(old)) = (shown, old) else {
            self.misconfigured(policy, Some(binding), "failed to convert object version");
            return Ok(None);
        };
        let mut shown = shown.into_owned();
        let names = Names::of(&asked, version);
        let request = asked.document(&names, &Names::of(&asked, &Version::Own));
        let programs = policy.programs(asked.attributes.brand);
        let param = Param { object: param.as_ref(), kind: policy.param_kind() };
        let around = Objects { version: &names, object: None, old: old.as_deref(), request: &request };
        let conditions = |input: &Input<'_>| programs.matched(input, policy.failure);
        match self
            .write
            .evaluate_policy(policy, Objects { object: Some(&shown), ..around }, param, conditions)
            .await
        {
            Matched::Yes => {}
            Matched::No => return Ok(None),
            Matched::Failed(reason) => {
                self.failed(policy, binding, reason);
                return Ok(None);
            }
        }
        let target = Target::of(asked.attributes, version, &names);
        let mut is_dirty = false;
        for at in 0..programs.mutations() {
            let mutation = |input: &Input<'_>| programs.evaluate(at, input);
            let made = self
                .write
                .evaluate_policy(policy, Objects { object: Some(&shown), ..around }, param, mutation)
                .await;
            match made.map(|made| applied(&target, &shown, made)) {
                Ok(Ok(after)) => {
                    shown = after;
                    is_dirty = true;
                }
                Ok(Err(PolicyFault::Policy(reason))) | Err(reason) => self.failed(policy, binding, reason),
                Ok(Err(PolicyFault::Request(error))) => return Err(error),
            }
        }
        if !is_dirty {
            return Ok(Some(After { object: None, is_dirty }));
        }
        match back(own, version, shown).await {
            Ok(object) => Ok(Some(After { object: Some(object), is_dirty })),
            Err(reason) => Err(ApiError::Internal(reason)),
        }
    }

    fn failed(&mut self, policy: &Policy<MutatingPrograms>, binding: &Binding, reason: String) {
        if policy.failure == FailurePolicy::Fail {
            self.errors.add_failure(&policy.name, &binding.name, &reason);
        }
    }

    fn misconfigured(&mut self, policy: &Policy<MutatingPrograms>, binding: Option<&Binding>, reason: &str) {
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

impl Invocation<'_> {
    fn key(&self) -> Key {
        (self.policy.name.clone(), self.binding.name.clone(), name_of(self.param.as_ref()))
    }
}
