//! From the texts of a rule to programs.
//!
//! Owns the checks of one rule and its message against the types of their place, with the reference's texts, and the parsed
//! texts of a definition: a text that stands at several places is parsed once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use orch_expression::environments::{OldSelf, rule_scope};
use orch_expression::schema::{Cardinality, SchemaSizes};
use orch_expression::{Ast, CompileError, Libraries, Parsed, Program, Scope, Type, parse};
use orch_proto::Brand;
use orch_schema::budget::count_steps;

use super::build::Seen;
use super::{Compiled, OldUse, PATTERNS, RULE_STEPS_MAX, Rule};
use crate::expression::{Allowance, Charge, Exhausted};

/// The texts of one rule.
#[derive(Clone, Copy)]
pub(super) struct Texts<'r> {
    pub(super) rule: &'r str,
    /// `messageExpression`; may be empty.
    pub(super) message: &'r str,
    /// `optionalOldSelf`.
    pub(super) has_optional_old: bool,
}

/// A compiled rule, with what a definition is judged by.
pub(super) struct Outcome {
    pub(super) rule: Result<Program, String>,
    /// `None` without a message, and beside a rule that is refused.
    pub(super) message: Option<Result<Program, String>>,
    /// Zero of a rule that is refused, as the next one of a message.
    pub(super) rule_cost: u64,
    pub(super) message_cost: u64,
    /// Whether the rule names `oldSelf`; false of one that does not compile to a `bool`.
    pub(super) uses_old: bool,
}

/// Compiles rules of one schema.
pub(super) struct Compiler<'c> {
    /// The name of the brand.
    brand: &'static str,
    charge: &'c mut dyn Charge,
    parsed: HashMap<Box<str>, Result<Arc<Parsed>, CompileError>>,
}

impl<'c> Compiler<'c> {
    /// The compiler of rules of a cluster with the brand of this name.
    pub(super) fn new(brand: &'static str, charge: &'c mut dyn Charge) -> Compiler<'c> {
        Compiler { brand, charge, parsed: HashMap::new() }
    }

    /// Compiles a rule at a part that is there as often as `cardinality` says.
    ///
    /// # Errors
    /// The steps are not left.
    pub(super) fn compile(
        &mut self,
        texts: Texts<'_>,
        seen: &Seen,
        cardinality: Cardinality,
    ) -> Result<Outcome, Exhausted> {
        let Some(declared) = seen.declared.as_deref() else {
            return Ok(Outcome::refused("failed to convert to declType for CEL validation rules".to_owned()));
        };
        let old = if texts.has_optional_old { OldSelf::Optional } else { OldSelf::Value };
        let scope = rule_scope(&seen.types, declared, old, self.brand);
        let sizes = SchemaSizes(declared);
        let ast = match self.check(texts.rule, &scope)? {
            Ok(ast) => ast,
            Err(error) => return Ok(Outcome::refused(failed(&error))),
        };
        if *ast.result() != Type::Bool {
            return Ok(Outcome::refused("cel expression must evaluate to a bool".to_owned()));
        }
        let uses_old = ast.names_variable("oldSelf");
        let rule_cost = ast.estimate(&sizes).max.saturating_mul(cardinality.times(declared));
        let rule = match self.program(ast)? {
            Ok(program) => Ok(program),
            Err(reason) => return Ok(Outcome { uses_old, ..Outcome::refused(reason) }),
        };
        let mut outcome = Outcome { rule, message: None, rule_cost, message_cost: 0, uses_old };
        if texts.message.trim().is_empty() {
            return Ok(outcome);
        }
        outcome.message = Some(match self.check(texts.message, &scope)? {
            Ok(ast) => {
                let cost = ast.estimate(&sizes).max;
                let program = self.message(ast)?;
                outcome.message_cost = if program.is_ok() { cost } else { 0 };
                program
            }
            Err(error) => Err(format!("messageExpression {}", failed(&error))),
        });
        Ok(outcome)
    }

    fn message(&mut self, ast: Ast) -> Result<Result<Program, String>, Exhausted> {
        if *ast.result() != Type::String {
            return Ok(Err("messageExpression must evaluate to a string".to_owned()));
        }
        let program = self.program(ast)?;
        let named = |reason: String| {
            format!("messageExpression {}", reason.strip_prefix("program ").unwrap_or(&reason))
        };
        Ok(program.map_err(named))
    }

    fn check(&mut self, text: &str, scope: &Scope) -> Result<Result<Ast, CompileError>, Exhausted> {
        let parsed = match self.parsed.get(text) {
            Some(known) => {
                if let Ok(parsed) = known {
                    self.charge.charge(parsed.check_steps())?;
                }
                known.clone()
            }
            None => {
                let parsed = parse(text, Libraries::default(), &mut *self.charge)?.map(Arc::new);
                self.parsed.insert(text.into(), parsed.clone());
                parsed
            }
        };
        Ok(parsed.and_then(|parsed| Ast::of(parsed, scope)))
    }

    fn program(&mut self, ast: Ast) -> Result<Result<Program, String>, Exhausted> {
        let program = ast.program(PATTERNS, &mut *self.charge)?;
        Ok(match program.refusal() {
            Some(reason) => Err(reason),
            None => Ok(program),
        })
    }
}

impl Outcome {
    fn refused(reason: String) -> Outcome {
        Outcome { rule: Err(reason), message: None, rule_cost: 0, message_cost: 0, uses_old: false }
    }
}

/// The text of a fault of compiling.
fn failed(error: &CompileError) -> String {
    format!("compilation failed: {error}")
}

/// Steps of a request's budget for each byte of a rule that it is the first to meet: about a third of a microsecond.
const REQUEST_STEPS_PER_BYTE: u64 = 10;

/// The programs of a rule in a stopped request: none.
static STOPPED: LazyLock<Compiled> = LazyLock::new(|| Compiled {
    rule: Err("the request was stopped".to_owned()),
    message: None,
    old: OldUse::Never,
});

/// Steps that are not those of the request: another request may use what this one compiled.
struct Own(Allowance);

impl Charge for Own {
    fn charge(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.0.charge_remembered(steps)
    }
}

impl Rule {
    /// The programs, which are compiled where that has not been done. Those of a stopped request, whose outcome is not used, are not.
    pub(super) fn compiled(&self, seen: &Seen, brand: &'static Brand) -> &Compiled {
        if let Some(compiled) = self.compiled.get() {
            return compiled;
        }
        let bytes = self.text.len() + self.message_expression.len();
        if !count_steps(bytes as u64 * REQUEST_STEPS_PER_BYTE) {
            return &STOPPED;
        }
        self.compiled.get_or_init(|| {
            let texts = Texts {
                rule: &self.text,
                message: &self.message_expression,
                has_optional_old: self.has_optional_old,
            };
            let mut charge = Own(Allowance::of(RULE_STEPS_MAX));
            let compiled = Compiler::new(brand.name, &mut charge).compile(texts, seen, Cardinality::ROOT);
            let Ok(compiled) = compiled else {
                let rule = Err("the rule takes too long to compile".to_owned());
                return Compiled { rule, message: None, old: OldUse::Never };
            };
            let old = match (compiled.uses_old, self.has_optional_old) {
                (false, _) => OldUse::Never,
                (true, false) => OldUse::Required,
                (true, true) => OldUse::Optional,
            };
            Compiled { rule: compiled.rule, message: compiled.message.and_then(Result::ok), old }
        })
    }
}
