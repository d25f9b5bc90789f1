//! Expressions of configurations and objects, in the Common Expression Language.
//!
//! Owns compiling them against the variables of their place, and evaluating them within a bound. The language itself is
//! a library's. Expressions in objects that another program evaluates, such as the selectors of devices, are only
//! checked. Invariants: an expression that compiled names only known variables, members and functions, and its
//! evaluation ends after a number of steps that is known before it starts; compiling has a price, which is charged before
//! it begins ([`allowance`](self::allowance)).

mod allowance;
mod cost;
mod nesting;
mod parse;
mod pattern;
mod selector;
mod shape;
mod value;

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Env, ExecutionError, IdedExpr, Value};

pub use self::allowance::{Allowance, Charge, Exhausted};
pub use self::cost::{DeviceBounds, device_selector_steps};
pub use self::parse::parse;
pub use self::pattern::{
    CelPattern, Pattern, PatternError, PatternLimits, Patterns, extension as pattern_extension,
};
pub use self::selector::{
    DEVICE_SELECTOR_BYTES_MAX, DEVICE_SELECTOR_STEPS_MAX, DeviceSelector, OBJECT_COMPILE_STEPS_MAX,
    check_device_selector,
};
pub use self::shape::{Functions, Scope, Shape};
pub use self::value::Variable;

/// Bytes of an expression. The reference has no bound of its own here; its longest documented ones have a few hundred.
const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// Steps of an evaluation: well under a tenth of a second, in the thread of the request.
const STEPS_MAX: u64 = 1_000_000;
/// Steps of compiling an expression of a configuration, which an operator writes: a second.
const COMPILE_STEPS_MAX: u64 = 10_000_000;
/// Steps of matching the patterns of an expression, if each of them met each byte of the input in its slowest state, in
/// each round of a loop: five seconds for what an operator would have to write on purpose; usual patterns take a fiftieth.
const PATTERN_STEPS_MAX: u64 = 50_000_000;

/// The library's standard functions, and those over strings, lists and numbers that the reference adds.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    let extensions =
        [cel::extensions::strings, cel::extensions::lists, cel::extensions::math, pattern::extension];
    for extension in extensions {
        environment.add_extension(extension).expect("each extension is added once");
    }
    Arc::new(environment)
});

/// A compiled expression.
pub struct Expression {
    source: String,
    /// As it is written, for questions about it.
    written: IdedExpr,
    /// With its patterns compiled.
    expression: IdedExpr,
    patterns: Patterns,
    cost: Cost,
}

/// Upper bound of the cost of an evaluation, as a function of its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Nodes of the expression.
    nodes: u64,
    /// Loops inside each other.
    depth: u32,
    /// Whether it makes lists of texts, which have as many elements as the text has characters.
    splits: bool,
}

impl Cost {
    /// Steps of an evaluation over lists of `elements` elements together and texts of `bytes` bytes together. A function
    /// may look at all of them, 64 bytes in one step.
    fn steps(self, elements: u64, bytes: u64) -> u64 {
        let elements = if self.splits { elements.saturating_add(bytes) } else { elements };
        // The expression's own literals can be appended to what it is given.
        let elements = elements.saturating_add(self.nodes);
        let of_one = (elements.saturating_add(bytes) / 64).saturating_add(1);
        elements.saturating_pow(self.depth).saturating_mul(self.nodes).saturating_mul(of_one)
    }

    /// Steps of matching patterns that take `of_byte` steps for each byte together, over the same input.
    fn pattern_steps(self, of_byte: u64, elements: u64, bytes: u64) -> u64 {
        let elements = if self.splits { elements.saturating_add(bytes) } else { elements };
        // Each round may match any text of the input.
        let rounds = elements.saturating_add(self.nodes).saturating_pow(self.depth);
        rounds.saturating_mul(bytes.saturating_add(1)).saturating_mul(of_byte)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("source", &self.source).finish_non_exhaustive()
    }
}

/// The type that the place of an expression asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `bool`.
    Bool,
    /// Any: it is looked at when it is there.
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
    #[error("no such overload: {0}")]
    NoSuchOverload(String),
    /// The input is too large for the expression.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// Another fault of the evaluation.
    #[error("the expression has no value")]
    Other,
}

impl Expression {
    /// Compiles `source`, an expression of the operator's configuration, for a place with the variables of `scope`. Its
    /// patterns have [`PatternLimits::CONFIGURED`].
    ///
    /// # Errors
    /// It does not parse, names something unknown, or has another type than `wanted`.
    pub fn compile(source: &str, scope: &Scope, wanted: Wanted) -> Result<Expression, CompileError> {
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(CompileError(format!("must be at most {EXPRESSION_BYTES_MAX} bytes long")));
        }
        let mut allowance = Allowance::of(COMPILE_STEPS_MAX);
        let too_costly = |Exhausted| CompileError::failed("it takes too long to compile");
        let written = parse(&ENVIRONMENT, source, &mut allowance).map_err(too_costly)??;
        let checked = shape::check(&written, scope).map_err(|reason| CompileError::failed(&reason))?;
        if wanted == Wanted::Bool && checked.shape != Shape::Bool {
            return Err(CompileError("must evaluate to bool".to_owned()));
        }
        let mut expression = written.clone();
        let compiled = Patterns::compile_all(&mut expression, PatternLimits::CONFIGURED, &mut allowance);
        let patterns = compiled.map_err(too_costly)?;
        if let Some(fault) = patterns.fault() {
            return Err(CompileError::of_pattern(fault));
        }
        Ok(Expression { source: source.to_owned(), written, expression, patterns, cost: checked.cost })
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the expression reads `variable.member`, or tests for it.
    pub fn reads(&self, variable: &str, member: &str) -> bool {
        shape::reads(&self.written, variable, member)
    }

    /// The value for these variables.
    ///
    /// # Errors
    /// It has none, or would cost too much.
    pub(crate) fn evaluate(&self, variables: &[&Variable]) -> Result<Value, EvaluationError> {
        let elements = variables.iter().map(|variable| variable.elements()).sum();
        let bytes = variables.iter().map(|variable| variable.bytes()).sum();
        let matching = self.cost.pattern_steps(self.patterns.steps_of_byte_of_all(), elements, bytes);
        if self.cost.steps(elements, bytes) > STEPS_MAX || matching > PATTERN_STEPS_MAX {
            return Err(EvaluationError::Cost);
        }
        let resolver = PatternVariables(&self.patterns);
        let mut context = Context::with_env(ENVIRONMENT.clone());
        for variable in variables {
            context.add_variable_from_value(variable.name(), variable.value());
        }
        context.set_variable_resolver(&resolver);
        Value::resolve(&self.expression, &context).map_err(|error| match error {
            ExecutionError::NoSuchKey(key) => EvaluationError::NoSuchKey(key.to_string()),
            ExecutionError::NoSuchOverload(fault) => EvaluationError::NoSuchOverload(fault.to_string()),
            _ => EvaluationError::Other,
        })
    }

    /// Whether the expression holds.
    ///
    /// # Errors
    /// As of `evaluate`, or the value is no `bool`.
    pub fn holds(&self, variables: &[&Variable]) -> Result<bool, EvaluationError> {
        match self.evaluate(variables)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err(EvaluationError::Other),
        }
    }

    /// The value as a text; `None` if it is none.
    ///
    /// # Errors
    /// As of `evaluate`.
    pub fn text(&self, variables: &[&Variable]) -> Result<Option<String>, EvaluationError> {
        Ok(match self.evaluate(variables)? {
            Value::String(text) => Some(text.to_string()),
            _ => None,
        })
    }

    /// The value as texts: of a text itself, of a list its texts, of null none; empty texts are left out. `None` if it is
    /// something else.
    ///
    /// # Errors
    /// As of `evaluate`.
    pub fn texts(&self, variables: &[&Variable]) -> Result<Option<Vec<String>>, EvaluationError> {
        let items = match self.evaluate(variables)? {
            Value::Null => return Ok(Some(Vec::new())),
            Value::String(text) => vec![Value::String(text)],
            Value::List(items) => items.to_vec(),
            _ => return Ok(None),
        };
        let texts: Option<Vec<String>> = items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            })
            .collect();
        Ok(texts.map(|texts| texts.into_iter().filter(|text| !text.is_empty()).collect()))
    }
}

/// The patterns of an expression as its variables.
struct PatternVariables<'a>(&'a Patterns);

impl VariableResolver for PatternVariables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        self.0.find(variable).map(|pattern| CowVal::Borrowed(pattern))
    }
}

impl CompileError {
    fn failed(reason: &str) -> CompileError {
        CompileError(format!("compilation failed: {reason}"))
    }

    /// The reference says the first part, which names the function.
    fn of_pattern(fault: &PatternError) -> CompileError {
        CompileError::failed(&format!("invalid matches argument: {fault}"))
    }
}

#[cfg(test)]
mod tests;
