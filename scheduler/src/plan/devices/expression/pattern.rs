//! `matches`: regular expressions as values of expressions.
//!
//! Owns compiling the patterns that stand in an expression once, with it, instead of in each evaluation: each becomes a
//! variable that no expression can spell. Patterns that are only known in an evaluation are compiled there, and shorter.

use std::any::Any;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelBool, CelString, Kind, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use orch_rules::expression::{Pattern, PatternError};

static PATTERN: Type = Type::simple_type(Kind::Opaque, "pattern");

/// The function for patterns that are not known before the evaluation.
const MATCHES_UNKNOWN: &str = "@matches";
/// What the variables of patterns begin with; their place follows.
const VARIABLE: &str = "@pattern";

/// A compiled pattern, or the reason why it cannot be used.
#[derive(Clone, Debug)]
pub(super) struct CelPattern(Result<Pattern, PatternError>);

impl CelPattern {
    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Pattern::bytes)
    }

    /// Steps of matching, for each byte of the text; one that cannot be used fails at once.
    pub(super) fn steps_of_byte(&self) -> u64 {
        self.0.as_ref().map_or(0, Pattern::steps_of_byte)
    }
}

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
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
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

/// The pattern with the name `variable`.
pub(super) fn find<'a>(patterns: &'a [CelPattern], variable: &str) -> Option<&'a CelPattern> {
    patterns.get(variable.strip_prefix(VARIABLE)?.parse::<usize>().ok()?)
}

/// Compiles the patterns that stand in `expression`, which from now on names them.
pub(super) fn compile_all(expression: &mut IdedExpr) -> Vec<CelPattern> {
    let mut patterns = Vec::new();
    compile_in(expression, &mut patterns);
    patterns
}

fn compile_in(expression: &mut IdedExpr, patterns: &mut Vec<CelPattern>) {
    if let Expr::Call(call) = &mut expression.expr {
        compile_call(call, patterns);
    }
    for child in children(expression) {
        compile_in(child, patterns);
    }
}

fn compile_call(call: &mut CallExpr, patterns: &mut Vec<CelPattern>) {
    let pattern = match (call.func_name.as_str(), &call.target, call.args.as_mut_slice()) {
        ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => pattern,
        _ => return,
    };
    match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => {
            let compiled = CelPattern(Pattern::compile(text.inner()));
            pattern.expr = Expr::Ident(format!("{VARIABLE}{}", patterns.len()));
            patterns.push(compiled);
        }
        _ => MATCHES_UNKNOWN.clone_into(&mut call.func_name),
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
