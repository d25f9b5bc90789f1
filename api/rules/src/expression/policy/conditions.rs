//! Match conditions: expressions that all have to hold for a policy to be evaluated, or a webhook to be called.
//!
//! Owns the rule for errors: one condition that is false leaves the policy or webhook out, whatever the others say.

use std::sync::LazyLock;

use orch_expression::environments::AdmissionVariable;
use orch_expression::{Budget, Group, LazyVariables, Question, Val};
use orch_proto::Brand;
use orch_schema::value::Value;

use super::compile::{Compiler, POLICY_COMPILE_STEPS_MAX, Place, Wanted};
use super::input::{Input, Shown};
use super::{CONDITIONS_COST_MAX, Compiled, End, FailurePolicy, OUT_OF_BUDGET};
use crate::expression::{Allowance, Charge};
use crate::validate::Distinct;
use crate::validate::tree::Tree;

/// A match condition.
#[derive(Debug)]
pub struct Condition {
    compiled: Compiled,
}

/// The conditions of one policy or webhook, in its order.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Condition>);

/// The verdict of all conditions on a request, with what is counted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionVerdict {
    /// The verdict.
    pub matched: Matched,
    /// Conditions without a value, up to the first one that is false.
    pub errors: u64,
}

/// The verdict of all conditions on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// All hold.
    Yes,
    /// A condition is false, or has no value and the policy is left out then.
    No,
    /// No condition is false, and some have no value. Holds the text of their errors.
    Failed(String),
}

static NO_VARIABLES: LazyLock<LazyVariables> =
    LazyLock::new(|| LazyVariables::at(AdmissionVariable::Variables.place()));

impl Conditions {
    /// The conditions of a stored webhook, compiled for the first write that it may be sent. One that does not compile is an error of
    /// each evaluation.
    pub fn of_webhook(webhook: &Value, brand: &'static Brand) -> Conditions {
        let mut allowance = Allowance::of(POLICY_COMPILE_STEPS_MAX);
        Conditions::compile(webhook, &mut Compiler::validating(brand, false), &mut allowance)
    }

    /// The conditions of a stored policy.
    pub(super) fn compile(spec: &Value, compiler: &mut Compiler<'_>, charge: &mut dyn Charge) -> Conditions {
        let conditions = spec.items("matchConditions").iter();
        let compiled = conditions.map(|condition| {
            let source = condition.text("expression");
            let program = compiler.compile(source, Place::Condition, &Wanted::Bool, charge);
            Condition { compiled: Compiled::of(source, program) }
        });
        Conditions(compiled.collect())
    }

    /// Whether the policy is evaluated, or the webhook called.
    ///
    /// # Errors
    /// A question that has to be answered first.
    pub fn matched(
        &self,
        input: &Input<'_>,
        failure: FailurePolicy,
    ) -> Result<ConditionVerdict, Box<Question>> {
        self.matched_within(input, failure, &mut Budget::of(CONDITIONS_COST_MAX))
    }

    /// [`Conditions::matched`], with the cost taken from `budget`.
    ///
    /// # Errors
    /// A question that has to be answered first.
    pub(super) fn matched_within(
        &self,
        input: &Input<'_>,
        failure: FailurePolicy,
        budget: &mut Budget,
    ) -> Result<ConditionVerdict, Box<Question>> {
        if self.0.is_empty() {
            return Ok(ConditionVerdict { matched: Matched::Yes, errors: 0 });
        }
        let values = input.values(Shown::InConditions);
        let mut group = Group::new(&values, &NO_VARIABLES);
        let mut errors: Vec<String> = Vec::new();
        let (mut is_false, mut counted) = (false, 0);
        for condition in &self.0 {
            match condition.compiled.evaluate(&mut group, budget) {
                Ok(Ok(Val::Bool(truth))) => is_false |= !truth,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    counted += u64::from(!is_false);
                    errors.push(error);
                }
                Err(End::Budget) => {
                    let matched = failed(OUT_OF_BUDGET.to_owned(), failure);
                    return Ok(ConditionVerdict { matched, errors: 0 });
                }
                Err(End::Undecided(question)) => return Err(question),
            }
        }
        let mut told = Distinct::new();
        // once: each error is looked up by its hash.
        errors.retain(|error| !told.is_repeated(error.clone()));
        let matched = match &errors[..] {
            _ if is_false => Matched::No,
            [] => Matched::Yes,
            [one] => failed(one.clone(), failure),
            many => failed(format!("[{}]", many.join(", ")), failure),
        };
        Ok(ConditionVerdict { matched, errors: counted })
    }
}

fn failed(reason: String, failure: FailurePolicy) -> Matched {
    match failure {
        FailurePolicy::Fail => Matched::Failed(reason),
        FailurePolicy::Ignore => Matched::No,
    }
}
