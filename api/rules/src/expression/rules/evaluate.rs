//! Evaluation of the rules of an object.
//!
//! Owns the walk over the object beside the object before it, and the errors of broken rules, in the reference's words
//! (vectors/cel). Old values are found by the names of properties, the keys of maps, and the key properties of lists; an
//! item of another list has none. A part that is as it was may break a rule that is no transition rule: that is a warning.

use orch_expression::schema::Declared;
use orch_expression::{Budget, EvaluationError, Limits, Program, Val, charge_request};
use orch_proto::Brand;
use orch_schema::value::Value;

use super::place::{Keyed, Pair, Place, Sameness, Step};
use super::{Children, Compiled, Node, OldUse, Reason, Rule, SchemaRules};
use crate::validate::errors::ERRORS_SHOWN_MAX;
use crate::validate::{FieldError, FieldErrorKind, FieldErrors, Path};

/// Cost that all rules of an object may have together. The reference's.
pub const RULES_COST_MAX: u64 = 10_000_000;
/// Bytes of a message that an expression makes; a longer one is not used. The reference's.
const MESSAGE_BYTES_MAX: usize = 5120;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further \
                                     validation rules will be run";

/// The verdict of the rules on an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The object is refused for these.
    pub errors: FieldErrors,
    /// Errors of parts that are as they were, for which it is not refused.
    pub warnings: Vec<String>,
}

impl SchemaRules {
    /// Evaluates the rules over `new`, whose shape was checked, and the object before it. `head`: `apiVersion` and `kind`, where
    /// they are not among its members. `shape`: its schema, which tells the parts that are as they were. The cost is taken from `budget`,
    /// and the time from the request that the thread works for: of a request that was stopped, the verdict is not whole.
    pub fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        head: Option<&(Value, Value)>,
        shape: Option<&dyn Sameness>,
        budget: &mut Budget,
    ) -> Verdict {
        let Some(root) = &self.root else { return Verdict::default() };
        let head = head.filter(|_| self.reads_head);
        let headed = head.map(|head| (with_head(new, head), old.map(|old| with_head(old, head))));
        let (new, old) = match &headed {
            Some((new, old)) => (new, old.as_ref()),
            None => (new, old),
        };
        let mut walk = Walk::new(self.brand, budget);
        walk.node(root, new, &Place::of(Step::Root, new, old, shape, None));
        walk.verdict
    }

    /// The part that is the whole.
    pub fn whole(&self) -> Option<RulePart<'_>> {
        self.root.as_ref().map(|node| RulePart { node, brand: self.brand })
    }
}

/// A part of a schema with rules in it, for values that stand in the schema itself.
#[derive(Clone, Copy, Debug)]
pub struct RulePart<'r> {
    node: &'r Node,
    brand: &'static Brand,
}

impl<'r> RulePart<'r> {
    /// The property `name`.
    pub fn property(self, name: &str) -> Option<RulePart<'r>> {
        let Children::Properties(nodes) = &self.node.children else { return None };
        let at = nodes.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(RulePart { node: &nodes[at].1, ..self })
    }

    /// The items of a list.
    pub fn items(self) -> Option<RulePart<'r>> {
        let Children::Items(node, _) = &self.node.children else { return None };
        Some(RulePart { node, ..self })
    }

    /// The errors of `default`, which stands at `path`: those of an update that leaves it as it is, else those of a create. What
    /// the dearer of the two costs is taken from `budget`.
    pub fn validate_default(self, default: &Value, path: &Path, budget: &mut Budget) -> FieldErrors {
        let run = |old: Option<&Value>, mut budget: Budget| {
            let mut walk = Walk { forgives: false, ..Walk::new(self.brand, &mut budget) };
            walk.node(self.node, default, &Place::of(Step::Base(path), default, old, None, None));
            (walk.verdict.errors, budget)
        };
        let (errors, after_update) = run(Some(default), *budget);
        if !errors.is_empty() {
            *budget = after_update;
            return errors;
        }
        let (errors, after_create) = run(None, *budget);
        *budget = if after_create.left() < after_update.left() { after_create } else { after_update };
        errors
    }
}

/// The object with `apiVersion` and `kind`.
fn with_head(object: &Value, (api_version, kind): &(Value, Value)) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion", api_version.clone());
        members.insert("kind", kind.clone());
    }
    object
}

struct Walk<'b> {
    brand: &'static Brand,
    verdict: Verdict,
    budget: &'b mut Budget,
    /// A part that is as it was may go on to break a rule.
    forgives: bool,
    has_ended: bool,
}

impl<'b> Walk<'b> {
    fn new(brand: &'static Brand, budget: &'b mut Budget) -> Walk<'b> {
        Walk { brand, verdict: Verdict::default(), budget, forgives: true, has_ended: false }
    }

    fn node(&mut self, node: &Node, value: &Value, place: &Place<'_>) {
        if self.has_ended || self.verdict.errors.is_full() || value.is_null() {
            return;
        }
        if let Some(declared) = node.seen.declared.as_deref().filter(|_| !node.rules.is_empty()) {
            self.rules((node, declared), value, place);
        }
        match (&node.children, value) {
            (Children::Properties(nodes), Value::Object(map)) => {
                for (name, node) in nodes {
                    let Some(value) = map.get(name) else { continue };
                    let old = place.old().and_then(|old| old.get(&**name));
                    let mut part = place.part(Step::Property(place, name), value, old);
                    part.is_head = place.is_root() && matches!(&**name, "apiVersion" | "kind");
                    self.node(node, value, &part);
                }
            }
            (Children::Values(node), Value::Object(map)) => {
                for (key, value) in map {
                    let old = place.old().and_then(|old| old.get(&**key));
                    self.node(node, value, &place.part(Step::Key(place, key), value, old));
                }
            }
            (Children::Items(node, keys), Value::Array(items)) => {
                let old = keys.as_deref().zip(place.old()).map(|(keys, old)| Keyed::of(keys, old));
                for (at, item) in items.iter().enumerate() {
                    let old = old.as_ref().and_then(|old| old.find(item));
                    self.node(node, item, &place.part(Step::Index(place, at), item, old));
                }
            }
            _ => {}
        }
    }

    /// The rules at a value.
    fn rules(&mut self, (node, declared): (&Node, &Declared), value: &Value, place: &Place<'_>) {
        let own = declared.read(value);
        let before = place.old().filter(|old| !old.is_null()).map(|old| declared.read(old));
        let optional = before.clone().map_or(Val::NONE, Val::some);
        let wrapped = [Some(own.clone()), Some(optional)];
        let plain = [Some(own), before];
        for rule in &node.rules {
            if self.has_ended {
                return;
            }
            let compiled = rule.compiled(&node.seen, self.brand);
            let variables = match compiled.old {
                OldUse::Required if plain[1].is_none() => continue,
                OldUse::Optional => &wrapped,
                OldUse::Required | OldUse::Never => &plain,
            };
            if self.budget.left() == 0 {
                return self.end(place, node, OUT_OF_BUDGET);
            }
            let program = match &compiled.rule {
                Ok(program) => program,
                Err(reason) => {
                    self.fault(place, node, &format!("rule compile error: {reason}"));
                    continue;
                }
            };
            let outcome = self.evaluate(program, variables);
            self.outcome((rule, compiled), outcome, &plain, (node, value, place));
        }
    }

    /// The value of `program`. Its time is taken from the request.
    fn evaluate<'v>(
        &mut self,
        program: &'v Program,
        variables: &'v [Option<Val<'v>>],
    ) -> Result<Val<'v>, EvaluationError> {
        let before = self.budget.steps();
        let value = program.evaluate(variables, Limits::CALL, self.budget);
        let steps = self.budget.steps() - before;
        self.has_ended |= !charge_request(steps);
        value
    }

    fn outcome(
        &mut self,
        (rule, compiled): (&Rule, &Compiled),
        outcome: Result<Val<'_>, EvaluationError>,
        variables: &[Option<Val<'_>>],
        at: (&Node, &Value, &Place<'_>),
    ) {
        let (node, _, place) = at;
        let name = if rule.message.is_empty() { &rule.text } else { &rule.message };
        if self.budget.is_exceeded() {
            return self.end(place, node, OUT_OF_BUDGET);
        }
        let reason = match outcome {
            Ok(Val::Bool(true)) => return,
            Ok(_) => return self.broken((rule, compiled), variables, at),
            Err(error @ EvaluationError::Cost) => {
                let reason = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                );
                return self.end(place, node, &reason);
            }
            Err(error @ EvaluationError::NoSuchOverload(_)) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            ),
            Err(error) => format!("{error} evaluating rule: {name}"),
        };
        self.fault(place, node, &reason);
    }

    /// Adds the error of a rule that has no value.
    fn fault(&mut self, place: &Place<'_>, node: &Node, reason: &str) {
        self.verdict.errors.push(FieldError::invalid_str(place.path(), &node.type_name, reason));
    }

    /// Adds an error behind which no rule is evaluated.
    fn end(&mut self, place: &Place<'_>, node: &Node, reason: &str) {
        self.fault(place, node, reason);
        self.has_ended = true;
    }

    /// Adds the error of a rule that does not hold, or a warning.
    fn broken(
        &mut self,
        (rule, compiled): (&Rule, &Compiled),
        variables: &[Option<Val<'_>>],
        (node, value, place): (&Node, &Value, &Place<'_>),
    ) {
        let made = match &compiled.message {
            Some(program) => {
                // A message sees the old value where a rule at the node uses it.
                let mut uses = node.rules.iter().map(|rule| rule.compiled(&node.seen, self.brand).old);
                // few: the rules at one node.
                let is_old_used = uses.any(|old| old != OldUse::Never);
                let variables = [variables[0].clone(), variables[1].clone().filter(|_| is_old_used)];
                match self.message(program, &variables) {
                    Ok(made) => made,
                    Err(reason) => {
                        let error = FieldError::invalid_str(rule.path(place), &node.type_name, &reason);
                        self.told(error, compiled, place);
                        self.has_ended = true;
                        return;
                    }
                }
            }
            None => None,
        };
        let detail = made.unwrap_or_else(|| match &*rule.message {
            "" => format!("failed rule: {}", rule.text),
            message => message.to_owned(),
        });
        self.told(error(rule.reason, rule.path(place), value, &detail), compiled, place);
    }

    /// Adds the error of a rule that does not hold: a warning where the part, or the nearest one around whose old value was found, is as it
    /// was.
    fn told(&mut self, error: FieldError, compiled: &Compiled, place: &Place<'_>) {
        let nearest = place.own.as_ref().or(place.around);
        let may_be_forgiven = self.forgives && compiled.old == OldUse::Never && !place.is_head;
        let is_forgiven = may_be_forgiven && nearest.is_some_and(Pair::is_unchanged);
        if !is_forgiven {
            self.verdict.errors.push(error);
        } else if self.verdict.warnings.len() < ERRORS_SHOWN_MAX {
            self.verdict.warnings.push(error.to_string());
        }
    }

    /// The message that an expression makes, if it can be used.
    ///
    /// # Errors
    /// No rule is evaluated behind it, for this reason.
    fn message(
        &mut self,
        program: &Program,
        variables: &[Option<Val<'_>>],
    ) -> Result<Option<String>, String> {
        let made = self.evaluate(program, variables);
        if self.budget.is_exceeded() {
            return Err(MESSAGE_OUT_OF_BUDGET.to_owned());
        }
        let made = match made {
            Ok(made) => made,
            Err(EvaluationError::Cost) => {
                let source = program.source();
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
                ));
            }
            Err(_) => return Ok(None),
        };
        let text = made.as_text().map(str::trim);
        let usable =
            text.filter(|text| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n'));
        Ok(usable.map(str::to_owned))
    }
}

impl Rule {
    /// The path of errors of the rule at `place`.
    fn path(&self, place: &Place<'_>) -> Path {
        match &*self.field_path {
            "" => place.path(),
            behind if place.is_root() => Path::new(behind),
            behind => place.path().child(behind),
        }
    }
}

/// The error of a broken rule. Objects and lists are not shown.
fn error(reason: Reason, path: Path, value: &Value, detail: &str) -> FieldError {
    let shown = match value {
        Value::Object(_) | Value::Array(_) => None,
        scalar => Some(scalar.to_string()),
    };
    match (reason, shown) {
        (Reason::Invalid, Some(shown)) => FieldError::invalid(path, &shown, detail),
        (Reason::Invalid, None) => FieldError::invalid_unshown(path, detail),
        (Reason::Forbidden, _) => FieldError::forbidden(path, detail),
        (Reason::Required, _) => FieldError::required(path, detail),
        (Reason::Duplicate, Some(shown)) => FieldError::duplicate(path, &shown),
        (Reason::Duplicate, None) => {
            FieldError { path, kind: FieldErrorKind::Duplicate, message: "Duplicate value".to_owned() }
        }
    }
}
