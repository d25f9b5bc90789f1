//! Admission policies: their expressions, compiled and evaluated.
//!
//! Owns what an expression of a policy may name in each of its places, its error where it does not compile, and the order in
//! which a policy is evaluated: conditions, validations with their messages, audit annotations. Which requests a policy is
//! about, its parameters, and what a violation leads to is `admission::policy`'s in the API. It asks nobody: an evaluation
//! that needs the answer to a question about rights ends with the question.
//!
//! Order and texts are the reference's.

mod compile;
mod conditions;
mod input;
mod mutate;
mod published;
#[cfg(test)]
mod tests;
mod validate;

pub use self::compile::{Compiler, POLICY_COMPILE_STEPS_MAX, Place, Refusal, Wanted};
pub use self::conditions::{Condition, ConditionVerdict, Conditions, Matched};
pub use self::input::{Document, Input};
pub use self::mutate::{Made, MutatingPrograms, MutationKind};
pub use self::published::{Issue, Part, PublishedType, type_issues};
pub use self::validate::{Annotation, Said, ValidatingPrograms, Verdict};
use crate::expression::Exhausted;
use orch_expression::{Budget, EvaluationError, Group, Limits, Program, Val, charge_request};
pub use orch_expression::{Decision, Decisions, Question, ResourceTarget, Target};

/// Cost of the validations of one policy with one binding and one parameter, and of one mutation. The reference's, as the
/// next one.
const POLICY_COST_MAX: u64 = 10_000_000;
/// Cost of the conditions of one policy.
const CONDITIONS_COST_MAX: u64 = 2_500_000;
/// The error of a group of expressions that has none left.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// Begins the error of an expression that was stored and does not compile.
pub const COMPILATION_ERROR: &str = "compilation error";

/// The treatment of a request for which an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The policy is left out.
    Ignore,
}

impl FailurePolicy {
    /// That of the text of a policy.
    pub fn of(text: &str) -> FailurePolicy {
        if text == "Ignore" { FailurePolicy::Ignore } else { FailurePolicy::Fail }
    }
}

/// An expression of a stored policy.
#[derive(Debug)]
struct Compiled {
    source: Box<str>,
    /// The reason of one that does not compile.
    program: Result<Program, String>,
}

/// The end of a group of expressions.
#[derive(Debug)]
enum End {
    /// Its cost is used up, or the request was stopped, of which no result is used.
    Budget,
    /// It has to be evaluated again with the answer.
    Undecided(Box<Question>),
}

impl Compiled {
    fn of(source: &str, compiled: Result<Result<Program, Refusal>, Exhausted>) -> Compiled {
        let program = match compiled {
            Ok(compiled) => compiled.map_err(Refusal::into_text),
            Err(Exhausted) => Err("it takes too long to compile".to_owned()),
        };
        Compiled { source: source.into(), program }
    }

    /// The value, or the text of the error. Its time is taken from the request.
    fn evaluate<'v>(
        &'v self,
        group: &mut Group<'v>,
        budget: &mut Budget,
    ) -> Result<Result<Val<'v>, String>, End> {
        let program = match &self.program {
            Ok(program) => program,
            Err(reason) => return Ok(Err(format!("{COMPILATION_ERROR}: {reason}"))),
        };
        let before = budget.steps();
        let value = group.evaluate(program, Limits::CALL, budget);
        let goes_on = charge_request(budget.steps() - before);
        match value {
            _ if !goes_on => Err(End::Budget),
            Err(EvaluationError::Undecided(question)) => Err(End::Undecided(question)),
            _ if budget.is_exceeded() => Err(End::Budget),
            Ok(value) => Ok(Ok(value)),
            Err(error) => Ok(Err(format!("expression '{}' resulted in error: {error}", self.source))),
        }
    }
}
