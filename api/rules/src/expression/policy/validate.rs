//! The evaluation of a validating policy with one parameter.
//!
//! Owns its order, and what each validation says in the end: conditions; validations; messages of all validations, also of
//! those that hold, as in the reference; audit annotations.

use orch_expression::environments::AdmissionVariable;
use orch_expression::{Budget, Group, LazyVariables, Question, Val};
use orch_proto::Brand;
use orch_schema::value::Value;

use super::compile::{Compiler, POLICY_COMPILE_STEPS_MAX, Place, Wanted};
use super::conditions::{ConditionVerdict, Conditions, Matched};
use super::input::{Input, Shown, Values};
use super::{CONDITIONS_COST_MAX, Compiled, End, FailurePolicy, OUT_OF_BUDGET, POLICY_COST_MAX};
use crate::expression::{Allowance, Charge};
use crate::validate::tree::Tree;

/// Bytes of a message that an expression makes; a longer one is not used. The reference's.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// A compiled validating policy.
#[derive(Debug)]
pub struct ValidatingPrograms {
    conditions: Conditions,
    variables: LazyVariables,
    validations: Vec<Validation>,
    annotations: Vec<Annotated>,
}

#[derive(Debug)]
struct Validation {
    compiled: Compiled,
    /// Trimmed; may be empty.
    message: Box<str>,
    message_expression: Option<Compiled>,
    /// Empty where the policy names none.
    reason: Box<str>,
}

#[derive(Debug)]
struct Annotated {
    key: Box<str>,
    compiled: Compiled,
}

/// The result of one validation, in the order of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The object meets it.
    Holds,
    /// It has no value, and the policy is left out then: the text.
    Ignored(String),
    /// It has no value, and the request is refused then: the text.
    Failed(String),
    /// The object does not meet it.
    Denied {
        /// The message for the client.
        message: String,
        /// The reason that the policy names; may be empty.
        reason: String,
    },
}

/// A value for audit events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// The key without the policy's name, and the text.
    Published(String, String),
    /// There is no value, for which the request is refused: the text.
    Failed(String),
}

/// The verdict of a policy on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The conditions hold.
    pub applies: bool,
    /// Conditions without a value, up to the first one that is false.
    pub condition_errors: u64,
    /// By validation; one alone where the evaluation ended early. Empty where a condition does not hold.
    pub said: Vec<Said>,
    /// Cost of each validation that was evaluated, with the variables that it was the first to read.
    pub costs: Vec<u64>,
    /// Cost of the conditions, validations, messages and annotations together.
    pub cost: u64,
    /// Those that have a value or an error.
    pub annotations: Vec<Annotation>,
}

impl ValidatingPrograms {
    /// Compiles the policy with this spec as it is stored. An expression that does not compile is an error of each evaluation.
    pub fn compile(spec: &Value, brand: &'static Brand) -> ValidatingPrograms {
        let mut allowance = Allowance::of(POLICY_COMPILE_STEPS_MAX);
        let charge = &mut allowance as &mut dyn Charge;
        let mut compiler = Compiler::validating(brand, spec.has("paramKind"));
        let conditions = Conditions::compile(spec, &mut compiler, charge);
        let variables = variables(spec, &mut compiler, charge);
        let validations = spec.items("validations").iter();
        let validations = validations.map(|of| Validation::compile(of, &mut compiler, charge)).collect();
        let annotations = spec.items("auditAnnotations").iter();
        let annotations = annotations.map(|of| {
            let source = of.text("valueExpression");
            let program = compiler.compile(source, Place::Annotation, &Wanted::TextOrNull, charge);
            Annotated { key: of.text("key").into(), compiled: Compiled::of(source, program) }
        });
        ValidatingPrograms { conditions, variables, validations, annotations: annotations.collect() }
    }

    /// The verdict of the policy.
    ///
    /// # Errors
    /// A question about rights that has to be answered first: then the policy is evaluated again.
    pub fn validate(&self, input: &Input<'_>, failure: FailurePolicy) -> Result<Verdict, Box<Question>> {
        let mut verdict = Verdict::default();
        let mut budget = Budget::of(CONDITIONS_COST_MAX);
        let ConditionVerdict { matched, errors } =
            self.conditions.matched_within(input, failure, &mut budget)?;
        verdict.condition_errors = errors;
        verdict.cost += CONDITIONS_COST_MAX - budget.left();
        match matched {
            Matched::Yes => verdict.applies = true,
            Matched::No => return Ok(verdict),
            Matched::Failed(reason) => return Ok(verdict.ended(error(reason, failure))),
        }
        let mut budget = Budget::of(POLICY_COST_MAX);
        let values = input.values(Shown::All);
        let outcomes = self.outcomes(&values, &mut budget, &mut verdict.costs)?;
        let Some(outcomes) = outcomes else {
            verdict.cost += POLICY_COST_MAX - budget.left();
            return Ok(verdict.ended(error(OUT_OF_BUDGET.to_owned(), failure)));
        };
        // Without the authorizer: expressions of these places cannot name it, or find no value.
        let values = input.values(Shown::WithoutAuthorizer);
        let messages = self.messages(&values, &mut budget)?;
        verdict.cost += POLICY_COST_MAX - budget.left();
        verdict.said = self.said(outcomes, messages, failure);
        let mut budget = Budget::of(POLICY_COST_MAX);
        let annotations = self.annotations(&values, failure, &mut budget)?;
        verdict.cost += POLICY_COST_MAX - budget.left();
        match annotations {
            Some(annotations) => Ok(Verdict { annotations, ..verdict }),
            None => Ok(verdict.ended(error(OUT_OF_BUDGET.to_owned(), failure))),
        }
    }

    /// Whether each validation holds, or the text of its error; `None` where the budget is used up.
    fn outcomes(
        &self,
        values: &Values<'_>,
        budget: &mut Budget,
        costs: &mut Vec<u64>,
    ) -> Result<Option<Vec<Result<bool, String>>>, Box<Question>> {
        let mut group = Group::new(values, &self.variables);
        let mut outcomes = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let before = budget.left();
            let outcome = validation.compiled.evaluate(&mut group, budget);
            costs.push(before - budget.left());
            match outcome {
                Ok(outcome) => outcomes.push(outcome.map(|value| value.as_bool() == Some(true))),
                Err(End::Budget) => return Ok(None),
                Err(End::Undecided(question)) => return Err(question),
            }
        }
        Ok(Some(outcomes))
    }

    /// The usable messages that expressions make, by validation; the error where they use up what the validations have left of the
    /// budget, which counts of validations that hold, too.
    fn messages(
        &self,
        values: &Values<'_>,
        budget: &mut Budget,
    ) -> Result<Result<Vec<Option<String>>, String>, Box<Question>> {
        let mut messages: Vec<Option<String>> = vec![None; self.validations.len()];
        // few: the validations of a policy.
        if self.validations.iter().all(|of| of.message_expression.is_none()) {
            return Ok(Ok(messages));
        }
        let mut group = Group::new(values, &self.variables);
        for (message, validation) in messages.iter_mut().zip(&self.validations) {
            let Some(expression) = &validation.message_expression else { continue };
            match expression.evaluate(&mut group, budget) {
                Ok(made) => *message = made.ok().and_then(|made| usable(&made)),
                Err(End::Budget) => return Ok(Err(format!("failed messageExpression: {OUT_OF_BUDGET}"))),
                Err(End::Undecided(question)) => return Err(question),
            }
        }
        Ok(Ok(messages))
    }

    fn said(
        &self,
        outcomes: Vec<Result<bool, String>>,
        messages: Result<Vec<Option<String>>, String>,
        failure: FailurePolicy,
    ) -> Vec<Said> {
        let mut messages = messages.map(Vec::into_iter);
        let one = |(outcome, validation): (Result<bool, String>, &Validation)| {
            let message = messages.as_mut().map(|messages| messages.next().flatten());
            match (outcome, message) {
                (Err(reason), _) => error(reason, failure),
                (Ok(_), Err(reason)) => error(reason.clone(), failure),
                (Ok(true), Ok(_)) => Said::Holds,
                (Ok(false), Ok(made)) => validation.denied(made),
            }
        };
        outcomes.into_iter().zip(&self.validations).map(one).collect()
    }

    /// The audit annotations, which have a budget of their own; `None` where it is used up.
    fn annotations(
        &self,
        values: &Values<'_>,
        failure: FailurePolicy,
        budget: &mut Budget,
    ) -> Result<Option<Vec<Annotation>>, Box<Question>> {
        if self.annotations.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut group = Group::new(values, &self.variables);
        let mut annotations = Vec::new();
        for annotated in &self.annotations {
            let value = match annotated.compiled.evaluate(&mut group, budget) {
                Ok(value) => value,
                Err(End::Budget) => return Ok(None),
                Err(End::Undecided(question)) => return Err(question),
            };
            let text = value.as_ref().ok().and_then(Val::as_text).map(str::trim);
            match (text, &value, failure) {
                (Some(text), _, _) if !text.is_empty() => {
                    annotations.push(Annotation::Published(annotated.key.to_string(), text.to_owned()));
                }
                (_, Err(reason), FailurePolicy::Fail) => annotations.push(Annotation::Failed(reason.clone())),
                _ => {}
            }
        }
        Ok(Some(annotations))
    }
}

impl Verdict {
    /// The verdict of an evaluation that ended early with `said`.
    fn ended(self, said: Said) -> Verdict {
        Verdict { said: vec![said], annotations: Vec::new(), ..self }
    }
}

/// The variables of a stored policy of either kind.
pub(super) fn variables(spec: &Value, compiler: &mut Compiler<'_>, charge: &mut dyn Charge) -> LazyVariables {
    let mut variables = LazyVariables::at(AdmissionVariable::Variables.place());
    for variable in spec.items("variables") {
        let (name, source) = (variable.text("name"), variable.text("expression"));
        let program = compiler.add_variable(name, source, charge);
        variables.add(name, Compiled::of(source, program).program);
    }
    variables
}

fn error(reason: String, failure: FailurePolicy) -> Said {
    match failure {
        FailurePolicy::Fail => Said::Failed(reason),
        FailurePolicy::Ignore => Said::Ignored(reason),
    }
}

/// The text that an expression made for a message, unless it is none or no single line.
fn usable(made: &Val<'_>) -> Option<String> {
    let text = made.as_text()?.trim();
    let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    is_usable.then(|| text.to_owned())
}

impl Validation {
    fn compile(of: &Value, compiler: &mut Compiler<'_>, charge: &mut dyn Charge) -> Validation {
        let source = of.text("expression");
        let program = compiler.compile(source, Place::Validation, &Wanted::Bool, charge);
        let message_source = of.text("messageExpression");
        let message_expression = (!message_source.trim().is_empty()).then(|| {
            let program = compiler.compile(message_source, Place::Message, &Wanted::Text, charge);
            Compiled::of(message_source, program)
        });
        Validation {
            compiled: Compiled::of(source, program),
            message: of.text("message").trim().into(),
            message_expression,
            reason: of.text("reason").into(),
        }
    }

    fn denied(&self, made: Option<String>) -> Said {
        let message = made.unwrap_or_else(|| match &*self.message {
            "" => format!("failed expression: {}", self.compiled.source.trim()),
            message => message.to_owned(),
        });
        Said::Denied { message, reason: self.reason.to_string() }
    }
}
