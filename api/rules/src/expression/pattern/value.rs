//! `matches`: patterns as values of expressions.
//!
//! Owns compiling the patterns that stand in an expression once, with it, instead of in each evaluation: each becomes a
//! variable that no expression can spell, and a pattern that stands there twice is compiled once. Patterns that are only
//! known in an evaluation are compiled there, and smaller. The library itself has no `matches`: it is built without.

use std::any::Any;
use std::collections::HashMap;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelBool, CelString, Kind, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::super::allowance::{Charge, Exhausted};
use super::{Pattern, PatternError, PatternLimits};

static PATTERN: Type = Type::simple_type(Kind::Opaque, "pattern");

/// The function for patterns that are not known before the evaluation.
const MATCHES_UNKNOWN: &str = "@matches";
/// What the variables of patterns begin with; their place follows.
const VARIABLE: &str = "@pattern";

/// A compiled pattern, or the reason why it cannot be used.
#[derive(Clone, Debug)]
pub struct CelPattern(Result<Pattern, PatternError>);

impl Val for CelPattern {
    fn get_type(&self) -> &Type {
        &PATTERN
    }

    fn cel_type() -> &'static Type {
        &PATTERN
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelPattern {}

/// Adds `matches` for compiled patterns, and for those that are not known yet.
///
/// # Errors
/// The environment has them already.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn matches: (CelString, CelPattern) -> Result<CelBool>, id = "matches_pattern")?;
    cel::add_member_overload!(env, fn matches: (CelString, CelPattern) -> Result<CelBool>,
        id = "string_matches_pattern")?;
    cel::add_overload!(env, fn matches_unknown: (CelString, CelString) -> Result<CelBool>,
        name = MATCHES_UNKNOWN, id = "matches_unknown")?;
    cel::add_member_overload!(env, fn matches_unknown: (CelString, CelString) -> Result<CelBool>,
        name = MATCHES_UNKNOWN, id = "string_matches_unknown")
}

fn matches(text: &CelString<'_>, pattern: &CelPattern) -> Result<CelBool, ExecutionError> {
    let pattern = pattern.0.as_ref().map_err(|error| ExecutionError::function_error("matches", error))?;
    Ok(CelBool::from(pattern.is_match(text.inner())))
}

fn matches_unknown(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    matches(text, &CelPattern(Pattern::compile_unknown(pattern.inner())))
}

/// The patterns of one expression.
#[derive(Debug, Default)]
pub struct Patterns {
    all: Vec<CelPattern>,
}

impl Patterns {
    /// Compiles the patterns that stand in `expression`, each within `limits`. The expression names them from now on.
    ///
    /// # Errors
    /// The steps are not left. The expression is of no use then.
    pub fn compile_all(
        expression: &mut IdedExpr,
        limits: PatternLimits,
        charge: &mut dyn Charge,
    ) -> Result<Patterns, Exhausted> {
        let mut compiling = Compiling { all: Vec::new(), known: HashMap::new(), limits, charge };
        compiling.compile_in(expression)?;
        Ok(Patterns { all: compiling.all })
    }

    /// The pattern with the name `variable`.
    pub fn find(&self, variable: &str) -> Option<&CelPattern> {
        self.all.get(variable.strip_prefix(VARIABLE)?.parse::<usize>().ok()?)
    }

    /// Steps of matching the pattern with the name `variable`, for each byte of the text; one that cannot be used fails at
    /// once.
    pub fn steps_of_byte(&self, variable: &str) -> Option<u64> {
        self.find(variable).map(|pattern| pattern.0.as_ref().map_or(0, Pattern::steps_of_byte))
    }

    /// The same of all patterns together.
    pub fn steps_of_byte_of_all(&self) -> u64 {
        let each = self.all.iter().filter_map(|pattern| pattern.0.as_ref().ok()).map(Pattern::steps_of_byte);
        each.fold(0, u64::saturating_add)
    }

    /// The first reason why one of them cannot be used.
    pub fn fault(&self) -> Option<&PatternError> {
        self.all.iter().find_map(|pattern| pattern.0.as_ref().err())
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let each = self.all.iter().filter_map(|pattern| pattern.0.as_ref().ok()).map(Pattern::bytes);
        each.fold(0, usize::saturating_add)
    }
}

/// Patterns that are being compiled.
struct Compiling<'a> {
    all: Vec<CelPattern>,
    /// Places of those that are compiled, by their text.
    known: HashMap<String, usize>,
    limits: PatternLimits,
    charge: &'a mut dyn Charge,
}

impl Compiling<'_> {
    /// Walks over an expression whose depth is bounded by `nesting`.
    fn compile_in(&mut self, expression: &mut IdedExpr) -> Result<(), Exhausted> {
        if let Expr::Call(call) = &mut expression.expr {
            self.compile_call(call)?;
        }
        children(expression).into_iter().try_for_each(|child| self.compile_in(child))
    }

    fn compile_call(&mut self, call: &mut CallExpr) -> Result<(), Exhausted> {
        let pattern = match (call.func_name.as_str(), &call.target, call.args.as_mut_slice()) {
            ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => pattern,
            _ => return Ok(()),
        };
        let Expr::Literal(LiteralValue::String(text)) = &pattern.expr else {
            MATCHES_UNKNOWN.clone_into(&mut call.func_name);
            return Ok(());
        };
        let at = match self.known.get(text.inner()) {
            Some(at) => *at,
            None => {
                self.all.push(CelPattern(Pattern::compile(text.inner(), self.limits, self.charge)?));
                self.known.insert(text.inner().to_owned(), self.all.len() - 1);
                self.all.len() - 1
            }
        };
        pattern.expr = Expr::Ident(format!("{VARIABLE}{at}"));
        Ok(())
    }
}

fn children(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => {
            call.target.iter_mut().map(|target| &mut **target).chain(call.args.iter_mut()).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|entry| of_entry(&mut entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter_mut().flat_map(|entry| of_entry(&mut entry.expr)).collect(),
        Expr::Comprehension(one) => vec![
            &mut one.iter_range,
            &mut one.accu_init,
            &mut one.loop_cond,
            &mut one.loop_step,
            &mut one.result,
        ],
    }
}

fn of_entry(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}
