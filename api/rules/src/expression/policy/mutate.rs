//! The evaluation of a mutating policy with one parameter: what each mutation would change.
//!
//! Owns the document that an expression makes. Merging it into the object is `admission::policy`'s in the API.

use orch_expression::environments::{JSON_PATCH, MUTATED_OBJECT};
use orch_expression::{Budget, Group, LazyVariables, Question};
use orch_proto::Brand;
use orch_schema::value::Value;

use super::compile::{Compiler, POLICY_COMPILE_STEPS_MAX, Place, Wanted};
use super::conditions::{ConditionVerdict, Conditions};
use super::input::{Input, Shown};
use super::validate::variables;
use super::{Compiled, End, FailurePolicy, OUT_OF_BUDGET, POLICY_COST_MAX};
use crate::expression::{Allowance, Charge};
use crate::validate::tree::Tree;

/// A compiled mutating policy.
#[derive(Debug)]
pub struct MutatingPrograms {
    conditions: Conditions,
    variables: LazyVariables,
    mutations: Vec<Mutation>,
}

#[derive(Debug)]
struct Mutation {
    kind: MutationKind,
    compiled: Compiled,
}

/// How a mutation changes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    /// A part of an object, which is merged.
    ApplyConfiguration,
    /// Operations of a JSON patch.
    JsonPatch,
}

/// The change that a mutation asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// How.
    pub kind: MutationKind,
    /// The part of the object, or the list of operations.
    pub document: Value,
}

impl MutatingPrograms {
    /// Compiles the policy with this spec as it is stored. An expression that does not compile is an error of each evaluation.
    pub fn compile(spec: &Value, brand: &'static Brand) -> MutatingPrograms {
        let mut allowance = Allowance::of(POLICY_COMPILE_STEPS_MAX);
        let charge = &mut allowance as &mut dyn Charge;
        let mut compiler = Compiler::mutating(brand, spec.has("paramKind"));
        let conditions = Conditions::compile(spec, &mut compiler, charge);
        let variables = variables(spec, &mut compiler, charge);
        let mutations = spec.items("mutations").iter().map(|of| {
            let (kind, field, wanted) = match of.text("patchType") {
                "JSONPatch" => (MutationKind::JsonPatch, "jsonPatch", Wanted::Patch),
                _ => (MutationKind::ApplyConfiguration, "applyConfiguration", Wanted::Configuration),
            };
            let source = of.at(field).text("expression");
            let program = compiler.compile(source, Place::Mutation, &wanted, charge);
            Mutation { kind, compiled: Compiled::of(source, program) }
        });
        let mutations = mutations.collect();
        MutatingPrograms { conditions, variables, mutations }
    }

    /// Number of mutations.
    pub fn mutations(&self) -> usize {
        self.mutations.len()
    }

    /// Whether the policy is evaluated.
    ///
    /// # Errors
    /// A question about rights that has to be answered first.
    pub fn matched(
        &self,
        input: &Input<'_>,
        failure: FailurePolicy,
    ) -> Result<ConditionVerdict, Box<Question>> {
        self.conditions.matched(input, failure)
    }

    /// The change that the mutation number `at` makes to the object in `input`, or the text of the error; and what it cost.
    ///
    /// # Errors
    /// A question about rights that has to be answered first.
    pub fn evaluate(
        &self,
        at: usize,
        input: &Input<'_>,
    ) -> Result<(Result<Made, String>, u64), Box<Question>> {
        let Mutation { kind, compiled } = &self.mutations[at];
        if let Err(reason) = &compiled.program {
            return Ok((Err(reason.clone()), 0));
        }
        let values = input.values(Shown::All);
        let mut group = Group::new(&values, &self.variables);
        let mut budget = Budget::of(POLICY_COST_MAX);
        let made = compiled.evaluate(&mut group, &mut budget);
        let cost = POLICY_COST_MAX - budget.left();
        let made = match made {
            Ok(Ok(made)) => made,
            Ok(Err(reason)) => return Ok((Err(reason), cost)),
            Err(End::Budget) => return Ok((Err(OUT_OF_BUDGET.to_owned()), cost)),
            Err(End::Undecided(question)) => return Err(question),
        };
        let root = match kind {
            MutationKind::ApplyConfiguration => MUTATED_OBJECT,
            MutationKind::JsonPatch => JSON_PATCH,
        };
        Ok((made.to_document(root).map(|document| Made { kind: *kind, document }), cost))
    }
}
