//! Expressions of configurations and objects, in the Common Expression Language.
//!
//! Owns the bounds of expressions that an operator writes, and what their values become. Types, costs and evaluation are
//! `orch_expression`'s. Selectors of devices, which another program evaluates, are only checked ([`selector`]).
//! Invariants: an expression that compiled names only known variables, members and functions, and its evaluation ends
//! within [`Limits::CONFIGURED`]; a fault of an evaluation shows names of members and no values.

pub mod policy;
pub mod rules;
mod selector;
mod value;

pub use orch_expression::{
    Allowance, Budget, Charge, DeviceBounds, Exhausted, MetPattern, ObjectTable, Pattern, PatternError,
    PatternLimits, Scope, Type, letters_and_signs,
};
use orch_expression::{Ast, Limits, Program, Val};

pub use self::selector::{
    DEVICE_SELECTOR_BYTES_MAX, DEVICE_SELECTOR_STEPS_MAX, DeviceSelector, OBJECT_COMPILE_STEPS_MAX,
    check_device_selector, device_scope,
};
pub use self::value::Variable;

/// Bytes of an expression. The reference has no bound of its own here; its longest documented ones have a few hundred.
const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// Steps of compiling an expression of a configuration, which an operator writes: a second.
const COMPILE_STEPS_MAX: u64 = 10_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    variables: Vec<&'static str>,
}

/// The type that the place of an expression asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `bool`.
    Bool,
    /// Any type: the caller looks at the value.
    Any,
}

/// The reason why an expression is refused. The text is shown behind the field's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(String);

/// The reason why an evaluation has no value. Shows names of members and no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// A member is not there.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A function or operator does not take values of these types.
    #[error("no such overload")]
    NoSuchOverload,
    /// The evaluation costs more than one may.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// Another fault of the evaluation.
    #[error("the expression has no value")]
    Other,
}

impl From<orch_expression::EvaluationError> for EvaluationError {
    fn from(error: orch_expression::EvaluationError) -> Self {
        match error {
            orch_expression::EvaluationError::NoSuchKey(key) => EvaluationError::NoSuchKey(key),
            orch_expression::EvaluationError::NoSuchOverload(_) => EvaluationError::NoSuchOverload,
            orch_expression::EvaluationError::Cost => EvaluationError::Cost,
            orch_expression::EvaluationError::NoSuchAttribute(_)
            | orch_expression::EvaluationError::Undecided(_)
            | orch_expression::EvaluationError::Other(_) => EvaluationError::Other,
        }
    }
}

/// Variables of a place, with the scope that declares them.
#[derive(Clone, Debug)]
pub struct Place {
    scope: Scope,
    variables: Vec<&'static str>,
}

impl Place {
    /// A place with these variables, whose objects are in `objects`.
    pub fn new(variables: &[(&'static str, Type)], objects: ObjectTable) -> Place {
        let scope = Scope::default().with_objects(objects);
        let scope = variables.iter().fold(scope, |scope, (name, of)| scope.with_variable(name, of.clone()));
        Place { scope, variables: variables.iter().map(|(name, _)| *name).collect() }
    }
}

impl Expression {
    /// Compiles `source`, an expression of the operator's configuration, for `place`. Its patterns have
    /// [`PatternLimits::CONFIGURED`].
    ///
    /// # Errors
    /// It does not parse, names something unknown, or has another type than `wanted`.
    pub fn compile(source: &str, place: &Place, wanted: Wanted) -> Result<Expression, CompileError> {
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(CompileError(format!("must be at most {EXPRESSION_BYTES_MAX} bytes long")));
        }
        let mut allowance = Allowance::of(COMPILE_STEPS_MAX);
        let too_costly = |Exhausted| CompileError::failed("it takes too long to compile");
        let ast = Ast::check(source, &place.scope, &mut allowance).map_err(too_costly)?;
        let ast = ast.map_err(|error| CompileError::failed(&error.to_string()))?;
        if wanted == Wanted::Bool && *ast.result() != Type::Bool {
            return Err(CompileError("must evaluate to bool".to_owned()));
        }
        let program = ast.program(PatternLimits::CONFIGURED, &mut allowance).map_err(too_costly)?;
        if let Some(reason) = program.refusal() {
            return Err(CompileError(reason));
        }
        Ok(Expression { program, variables: place.variables.clone() })
    }

    /// The text.
    pub fn source(&self) -> &str {
        self.program.source()
    }

    /// Whether the expression reads `variable.member`, or tests for it.
    pub fn reads(&self, variable: &str, member: &str) -> bool {
        self.program.reads(variable, member)
    }

    /// The result of `read` on the expression's value over these variables.
    ///
    /// # Errors
    /// The expression has no value, or its evaluation would cost too much.
    fn evaluate<T>(
        &self,
        variables: &[&Variable],
        read: impl FnOnce(Val<'_>) -> T,
    ) -> Result<T, EvaluationError> {
        let of = |name: &&'static str| {
            // few: the variables of a place.
            let found = variables.iter().find(|variable| variable.name() == *name);
            found.map(|variable| Val::json(variable.value()))
        };
        let values: Vec<Option<Val<'_>>> = self.variables.iter().map(of).collect();
        let mut budget = Budget::UNBOUNDED;
        let value = self.program.evaluate(&values, Limits::CONFIGURED, &mut budget)?;
        Ok(read(value))
    }

    /// Whether the expression holds.
    ///
    /// # Errors
    /// As of `evaluate`, or the value is no `bool`.
    pub fn holds(&self, variables: &[&Variable]) -> Result<bool, EvaluationError> {
        self.evaluate(variables, |value| value.as_bool())?.ok_or(EvaluationError::Other)
    }

    /// The value as a text; `None` if it is none.
    ///
    /// # Errors
    /// As of `evaluate`.
    pub fn text(&self, variables: &[&Variable]) -> Result<Option<String>, EvaluationError> {
        self.evaluate(variables, |value| value.as_text().map(str::to_owned))
    }

    /// The value as texts: of a text itself, of a list its texts, of null none; empty texts are left out. `None` if it is
    /// something else.
    ///
    /// # Errors
    /// As of `evaluate`.
    pub fn texts(&self, variables: &[&Variable]) -> Result<Option<Vec<String>>, EvaluationError> {
        let texts = self.evaluate(variables, |value| match value {
            Val::Null => Some(Vec::new()),
            Val::Text(text) => Some(vec![text.to_string()]),
            Val::List(list) => list.iter().map(|item| item.as_text().map(str::to_owned)).collect(),
            _ => None,
        })?;
        Ok(texts.map(|texts| texts.into_iter().filter(|text| !text.is_empty()).collect()))
    }
}

impl CompileError {
    fn failed(reason: &str) -> CompileError {
        CompileError(format!("compilation failed: {reason}"))
    }
}

#[cfg(test)]
mod tests;
