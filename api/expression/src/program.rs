//! Programs: expressions that are ready for their evaluation.
//!
//! Owns the way from a text to a program, with its price, and the evaluation within its limits.

use std::fmt;
use std::sync::Arc;

use cel::IdedExpr;

use crate::allowance::{Charge, Exhausted};
use crate::check::{Checked, Name, check};
use crate::compile::compile;
use crate::cost::{Estimate, Sizes, estimate};
use crate::error::{CompileError, EvaluationError};
use crate::evaluate::{Budget, Lazies, Limits, Parts, Run, evaluate};
use crate::parse::{Parsed, parse};
use crate::pattern::{PatternError, PatternLimits};
use crate::reads::reads;
use crate::scope::{Scope, Variables};
use crate::tree::{Node, Standing};
use crate::types::Type;
use crate::value::Val;

/// A checked expression, before its patterns are compiled.
#[derive(Debug)]
pub struct Ast {
    parsed: Arc<Parsed>,
    checked: Checked,
    scope: Scope,
}

/// An expression that is ready for its evaluation.
pub struct Program {
    root: Node,
    patterns: Vec<Standing>,
    variables: Arc<Variables>,
    slots: usize,
    result: Type,
    source: Box<str>,
    expression: Arc<IdedExpr>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Ast {
    /// Parses and checks `source` against `scope`, and charges for it.
    ///
    /// # Errors
    /// The outer one: the steps are not left. The inner one: it is no expression, nests too deeply, or does not pass the
    /// check.
    pub fn check(
        source: &str,
        scope: &Scope,
        charge: &mut dyn Charge,
    ) -> Result<Result<Ast, CompileError>, Exhausted> {
        let parsed = parse(source, scope.libraries(), charge)?;
        Ok(parsed.and_then(|parsed| Ast::of(Arc::new(parsed), scope)))
    }

    /// Checks what was parsed before with the libraries of `scope`. The caller charges [`Parsed::check_steps`].
    ///
    /// # Errors
    /// It does not pass the check.
    pub fn of(parsed: Arc<Parsed>, scope: &Scope) -> Result<Ast, CompileError> {
        let checked = check(&parsed, scope)?;
        Ok(Ast { parsed, checked, scope: scope.clone() })
    }

    /// The type of the value.
    pub fn result(&self) -> &Type {
        self.checked.result.as_ref().unwrap_or(&Type::Dyn)
    }

    /// The tree as it is written, with its macros expanded.
    pub fn expression(&self) -> &IdedExpr {
        &self.parsed.expression
    }

    /// Whether the expression names the variable `name`.
    pub fn names_variable(&self, name: &str) -> bool {
        let Some((at, _)) = self.scope.variable(name) else { return false };
        self.checked.names.values().any(|found| *found == Name::Variable(at))
    }

    /// The least and the greatest cost of an evaluation, for variables of these sizes.
    pub fn estimate(&self, sizes: &dyn Sizes) -> Estimate {
        estimate(&self.parsed.expression, &self.checked, sizes)
    }

    /// Numbers of the calls to which several overloads of their function fit.
    #[cfg(test)]
    pub(crate) fn unsettled_calls(&self) -> std::collections::HashSet<u64> {
        let calls = self.checked.calls.iter();
        calls.filter(|(_, resolved)| resolved.overloads.len() > 1).map(|(id, _)| *id).collect()
    }

    /// The program, with its patterns compiled within `limits`; they are charged for.
    ///
    /// # Errors
    /// The steps are not left.
    pub fn program(self, limits: PatternLimits, charge: &mut dyn Charge) -> Result<Program, Exhausted> {
        let (root, patterns) = compile(&self.parsed, &self.checked, limits, charge)?;
        let result = self.result().clone();
        let slots = self.checked.locals_max;
        let source = self.parsed.source().into();
        let expression = Arc::clone(&self.parsed.expression);
        Ok(Program { root, patterns, variables: self.scope.variables(), slots, result, source, expression })
    }
}

impl Program {
    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The tree as it is written, with its macros expanded.
    pub fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// Whether the expression reads `variable.member`, or tests for it.
    pub fn reads(&self, variable: &str, member: &str) -> bool {
        reads(&self.expression, variable, member)
    }

    /// The type of the value.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// The reason why the expression is refused for a pattern that stands in it, in the words of the reference: one of a match that
    /// cannot be used, or one whose places are asked for and which is none. One of the latter that is too large is a fault of the
    /// evaluation, as where it is known there only.
    pub fn refusal(&self) -> Option<String> {
        let mut matched = self.patterns.iter().filter(|pattern| !pattern.is_searched);
        if let Some(faulty) = matched.find(|pattern| pattern.compiled.is_err()) {
            let fault = (faulty.offset, "invalid matches argument".to_owned());
            let fault = CompileError::at_places(&self.source, vec![fault]);
            return Some(format!("compilation failed: {fault}"));
        }
        self.patterns.iter().find_map(|pattern| match &pattern.compiled {
            Err(reason @ PatternError::Invalid(_)) => Some(format!("program instantiation failed: {reason}")),
            _ => None,
        })
    }

    /// Steps of matching the standing pattern `source`, for each byte of the text; one that cannot be used fails at once.
    /// `None` if no such pattern of a match stands there.
    pub fn steps_of_byte(&self, source: &str) -> Option<u64> {
        // few: the patterns of one expression, most of which have one.
        let mut matched = self.patterns.iter().filter(|pattern| !pattern.is_searched);
        let pattern = matched.find(|pattern| *pattern.source == *source)?;
        Some(pattern.compiled.as_ref().map_or(0, crate::pattern::Pattern::steps_of_byte))
    }

    /// Number of different patterns that stand in the expression.
    pub fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Bytes of memory that patterns take.
    pub fn pattern_bytes(&self) -> usize {
        let each = self.patterns.iter().filter_map(|pattern| pattern.compiled.as_ref().ok());
        each.map(crate::pattern::Pattern::bytes).fold(0, usize::saturating_add)
    }

    /// The value for these variables, in the order of the scope; `None` stands for a variable that has no value here.
    /// The cost is taken from `budget`, also where there is a fault.
    ///
    /// # Errors
    /// It has no value, or costs more than `limits`.
    pub fn evaluate<'v>(
        &'v self,
        variables: &'v [Option<Val<'v>>],
        limits: Limits,
        budget: &mut Budget,
    ) -> Result<Val<'v>, EvaluationError> {
        let (value, (cost, steps), _) = self.run(variables, limits, None);
        budget.spend(cost, steps);
        value
    }

    /// The value, what it cost with its steps, and `lazies` as the evaluation left them.
    pub(crate) fn run<'v>(
        &'v self,
        variables: &'v [Option<Val<'v>>],
        limits: Limits,
        lazies: Option<Lazies<'v>>,
    ) -> (Result<Val<'v>, EvaluationError>, (u64, u64), Option<Lazies<'v>>) {
        let mut run = Run::new(variables, &*self.variables, &self.patterns, self.slots, limits);
        run.lazies = lazies;
        let value = evaluate(&mut run, &self.root).map_err(|failure| *failure);
        (value, (run.cost(), run.steps()), run.lazies.take())
    }

    /// The parts that an evaluation reads.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let (root, patterns) = (&self.root, &*self.patterns);
        Parts { root, names: &*self.variables, patterns, slots: self.slots }
    }
}
