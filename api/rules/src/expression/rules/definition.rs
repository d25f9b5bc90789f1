//! Errors of a definition's rules.
//!
//! Owns the errors of rules that do not compile, and of costs: of one rule, of one message, and of a whole schema. Texts
//! and paths are the reference's (vectors/cel).

use std::fmt::Write;

use orch_proto::Brand;
use orch_schema::value::Value;

use super::Rule;
use super::build::{Place, Plan, Seen, Typing, Visitor};
use super::compile::{Compiler, Outcome, Texts};
use crate::expression::{Charge, Exhausted};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Cost that one rule or message may be estimated at. This and the next three are the reference's.
const EXPRESSION_COST_MAX: u64 = 10_000_000;
/// Cost that all rules and messages of a schema may be estimated at.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// Rules and messages that are named where a schema costs too much.
const COSTLY_SHOWN_MAX: usize = 4;
/// Cost of one that is named there.
const COSTLY_MIN: u64 = 1_000_000;
/// The end of each error about costs.
const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

/// How the rules of a schema are checked.
pub struct RuleChecks<'r> {
    /// Whether the rules of a part are judged: they are compiled in any case.
    pub is_judged: &'r dyn Fn(&[Value]) -> bool,
    /// Takes the steps of compiling.
    pub charge: &'r mut dyn Charge,
}

/// The report to a definition about its rules.
struct Report<'r> {
    path: &'r Path,
    is_judged: &'r dyn Fn(&[Value]) -> bool,
    validations: String,
    compiler: Compiler<'r>,
    errors: FieldErrors,
    total: u64,
    /// The dearest rules and messages with their costs, the dearest first.
    costly: Vec<(u64, Path)>,
}

/// The errors of the rules of `schema`, the whole schema of a version at `path`, which is structural.
///
/// # Errors
/// The steps of compiling are not left.
pub fn check_rules(
    schema: &Value,
    path: &Path,
    brand: &'static Brand,
    checks: RuleChecks<'_>,
) -> Result<FieldErrors, Exhausted> {
    let RuleChecks { is_judged, charge } = checks;
    let Some(plan) = Plan::of(schema, brand) else { return Ok(FieldErrors::new()) };
    let mut report = Report {
        path,
        is_judged,
        validations: format!("{}validations", brand.extension_prefix),
        compiler: Compiler::new(brand.name, charge),
        errors: FieldErrors::new(),
        total: 0,
        costly: Vec::new(),
    };
    plan.walk(schema, path, &mut report)?;
    Ok(report.finished(brand))
}

impl Visitor for Report<'_> {
    fn rules(
        &mut self,
        _schema: &Value,
        rules: &[Value],
        seen: &Seen,
        place: &Place<'_>,
    ) -> Result<Vec<Rule>, Exhausted> {
        let is_judged = (self.is_judged)(rules);
        // Paths are made once for each part with rules.
        let path = place.path().child(&self.validations);
        if place.typing == Typing::Missing {
            if is_judged {
                let untyped = self.untyped(path);
                self.push(untyped);
            }
            return Ok(Vec::new());
        }
        for (at, rule) in rules.iter().enumerate() {
            // A rule without a text is refused with the definition.
            if rule.text("rule").trim().is_empty() {
                continue;
            }
            let compiled = self.compiler.compile(Texts::of(rule), seen, place.cardinality)?;
            if is_judged {
                self.judge(rule, &compiled, &path.index(at), place.uncorrelatable);
            }
        }
        Ok(Vec::new())
    }
}

impl Report<'_> {
    /// Adds the errors of one rule.
    fn judge(&mut self, rule: &Value, compiled: &Outcome, path: &Path, uncorrelatable: Option<&Place<'_>>) {
        self.add_cost(compiled.rule_cost, path, "rule");
        if let Err(reason) = &compiled.rule {
            self.push(FieldError::invalid(path.child("rule"), &shown(rule), reason));
        }
        self.add_cost(compiled.message_cost, path, "messageExpression");
        if let Some(Err(reason)) = &compiled.message {
            self.push(FieldError::invalid(path.child("messageExpression"), &shown(rule), reason));
        }
        self.judge_old(rule, compiled, path, uncorrelatable);
    }

    /// The error of the rules at `path` without a type for `self`.
    fn untyped(&self, path: Path) -> FieldError {
        let detail = format!(
            "internal error: failed to construct type information for {} rules: unable to convert structural schema to CEL declarations",
            self.validations
        );
        FieldError::internal(path, &detail)
    }

    fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    fn judge_old(
        &mut self,
        rule: &Value,
        compiled: &Outcome,
        path: &Path,
        uncorrelatable: Option<&Place<'_>>,
    ) {
        if let (true, Some(within)) = (compiled.uses_old, uncorrelatable) {
            let within = within.path();
            let reason =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            self.push(FieldError::invalid_str(path.child("rule"), rule.text("rule"), &reason));
        }
        if let (false, Some(optional)) = (compiled.uses_old, rule.at("optionalOldSelf").as_bool()) {
            let reason = "may not be set if oldSelf is not used in rule";
            self.push(FieldError::invalid(path.child("optionalOldSelf"), &optional.to_string(), reason));
        }
    }

    /// Adds the cost of the expression `what` of the rule at `path`.
    fn add_cost(&mut self, cost: u64, path: &Path, what: &str) {
        self.total = self.total.saturating_add(cost);
        if cost >= COSTLY_MIN {
            let at = self.costly.partition_point(|(known, _)| *known >= cost);
            self.costly.insert(at, (cost, path.child(what)));
            self.costly.truncate(COSTLY_SHOWN_MAX);
        }
        if cost > EXPRESSION_COST_MAX {
            let factor = factor(cost, EXPRESSION_COST_MAX);
            let reason = format!("estimated {what} cost exceeds budget by factor of {factor} {ADVICE}");
            self.push(FieldError::forbidden(path.child(what), &reason));
        }
    }

    fn finished(mut self, brand: &Brand) -> FieldErrors {
        if self.total > SCHEMA_COST_MAX {
            for (_, path) in std::mem::take(&mut self.costly) {
                let reason = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                self.push(FieldError::forbidden(path, reason));
            }
            let factor = factor(self.total, SCHEMA_COST_MAX);
            let reason = format!(
                "{}validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {factor} {ADVICE}",
                brand.extension_prefix
            );
            self.push(FieldError::forbidden(self.path.clone(), &reason));
        }
        self.errors
    }
}

/// How far a cost is above its bound.
fn factor(cost: u64, most: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a factor is shown with a few digits")]
    let factor = cost as f64 / most as f64;
    if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    }
}

/// The rule as the reference shows it in errors.
fn shown(rule: &Value) -> String {
    let text = |name: &str| Value::from(rule.text(name)).to_string();
    let or_null = |name: &str| rule.at(name).to_string();
    let mut out = String::new();
    let parts = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", or_null("reason")),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", or_null("optionalOldSelf")),
    ];
    for (at, (name, value)) in parts.iter().enumerate() {
        let comma = if at == 0 { '{' } else { ',' };
        // Writing to a text does not fail.
        let _ = write!(out, "{comma}\"{name}\":{value}");
    }
    out.push('}');
    out
}
