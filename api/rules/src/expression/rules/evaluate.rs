//! Evaluation of the rules of an object.
//!
//! Owns the walk over the object beside the object before it, and the errors of broken rules, in the reference's words
//! (vectors/cel). Old values are found by the names of properties, the keys of maps, and the key properties of lists; an
//! item of another list has none. A part that is as it was may break a rule that is no transition rule: that is a warning.

use orch_expression::{Budget, EvaluationError, Limits, Program, Val};
use orch_schema::value::{Map, SmolStr, Value};

use super::{Children, Node, OldUse, Reason, Rule, SchemaRules};
use crate::validate::{FieldError, FieldErrorKind, FieldErrors, Path};

/// Cost that all rules of an object may have together. The reference's.
pub const RULES_COST_MAX: u64 = 10_000_000;
/// Bytes of a message that an expression makes; a longer one is not used. The reference's.
const MESSAGE_BYTES_MAX: usize = 5120;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further \
                                     validation rules will be run";
/// Errors of the root have this path in the reference.
const ROOT: &str = "<nil>";

/// What the rules say of an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The object is refused for these.
    pub errors: FieldErrors,
    /// Errors of parts that are as they were, for which it is not refused.
    pub warnings: Vec<String>,
}

impl SchemaRules {
    /// Evaluates the rules over `new`, whose shape was checked, and the object before it. The cost is taken from `budget`.
    pub fn validate(&self, new: &Value, old: Option<&Value>, budget: &mut Budget) -> Verdict {
        let mut walk = Walk { verdict: Verdict::default(), budget, has_ended: false };
        if let Some(root) = &self.root {
            let place = Place { path: None, old, unchanged: old.map(|old| (new, old)), is_head: false };
            walk.node(root, new, &place);
        }
        walk.verdict
    }
}

struct Walk<'b> {
    verdict: Verdict,
    budget: &'b mut Budget,
    has_ended: bool,
}

/// Where a value stands.
struct Place<'v> {
    /// `None` at the root.
    path: Option<Path>,
    old: Option<&'v Value>,
    /// The nearest value around whose old value was found, and that one.
    unchanged: Option<(&'v Value, &'v Value)>,
    /// It is `apiVersion` or `kind` of the object, whose errors stay errors.
    is_head: bool,
}

impl Place<'_> {
    fn path(&self) -> Path {
        self.path.clone().unwrap_or_else(|| Path::new(ROOT))
    }
}

impl<'v> Place<'v> {
    /// A part with the value `new`, whose old value is `old`.
    fn part(&self, path: Path, new: &'v Value, old: Option<&'v Value>) -> Place<'v> {
        let unchanged = old.map(|old| (new, old)).or(self.unchanged);
        Place { path: Some(path), old, unchanged, is_head: false }
    }
}

impl Walk<'_> {
    fn node<'v>(&mut self, node: &'v Node, value: &'v Value, place: &Place<'v>) {
        if value.is_null() {
            return;
        }
        self.rules(node, value, place);
        let below = |path: &Option<Path>, name: &str| match path {
            Some(path) => path.child(name),
            None => Path::new(name),
        };
        match (&node.children, value) {
            (Children::Properties(nodes), Value::Object(map)) => {
                for (name, node) in nodes {
                    let Some(value) = map.get(name) else { continue };
                    let old = place.old.and_then(|old| old.get(&**name));
                    let mut part = place.part(below(&place.path, name), value, old);
                    part.is_head = place.path.is_none() && matches!(&**name, "apiVersion" | "kind");
                    self.next(node, value, &part);
                }
            }
            (Children::Values(node), Value::Object(map)) => {
                for (key, value) in map {
                    let old = place.old.and_then(|old| old.get(&**key));
                    self.next(node, value, &place.part(place.path().key(key), value, old));
                }
            }
            (Children::Items(node, keys), Value::Array(items)) => {
                let old = keys.as_deref().zip(place.old).map(|(keys, old)| Keyed::of(keys, old));
                for (at, item) in items.iter().enumerate() {
                    let old = old.as_ref().and_then(|old| old.find(item));
                    self.next(node, item, &place.part(place.path().index(at), item, old));
                }
            }
            _ => {}
        }
    }

    fn next<'v>(&mut self, node: &'v Node, value: &'v Value, place: &Place<'v>) {
        if !self.has_ended && !self.verdict.errors.is_full() {
            self.node(node, value, place);
        }
    }

    /// The rules at a value.
    fn rules<'v>(&mut self, node: &'v Node, value: &'v Value, place: &Place<'v>) {
        let Some(declared) = node.declared.as_deref().filter(|_| !node.rules.is_empty()) else { return };
        let own = declared.read(value);
        let before = place.old.filter(|old| !old.is_null()).map(|old| declared.read(old));
        let optional = before.clone().map_or(Val::NONE, Val::some);
        let plain = [Some(own.clone()), before];
        let wrapped = [Some(own), Some(optional)];
        // A message sees the old value where a rule at the node uses it.
        // few: the rules at one node.
        let is_old_used = node.rules.iter().any(|rule| rule.old != OldUse::Never);
        for rule in &node.rules {
            if self.has_ended {
                return;
            }
            let variables = match rule.old {
                OldUse::Required if plain[1].is_none() => continue,
                OldUse::Optional => &wrapped,
                OldUse::Required | OldUse::Never => &plain,
            };
            if self.budget.left() == 0 {
                return self.end(place, node, OUT_OF_BUDGET);
            }
            let program = match &rule.program {
                Ok(program) => program,
                Err(reason) => {
                    self.fault(place, node, &format!("rule compile error: {reason}"));
                    continue;
                }
            };
            let outcome = program.evaluate(variables, Limits::CALL, self.budget);
            let message_variables = [plain[0].clone(), plain[1].clone().filter(|_| is_old_used)];
            self.outcome(rule, outcome, &message_variables, (node, value, place));
        }
    }

    fn outcome(
        &mut self,
        rule: &Rule,
        outcome: Result<Val<'_>, EvaluationError>,
        variables: &[Option<Val<'_>>],
        at: (&Node, &Value, &Place<'_>),
    ) {
        let (node, value, place) = at;
        let name = if rule.message.is_empty() { &rule.text } else { &rule.message };
        if self.budget.is_exceeded() {
            return self.end(place, node, OUT_OF_BUDGET);
        }
        let reason = match outcome {
            Ok(Val::Bool(true)) => return,
            Ok(_) => return self.broken(rule, variables, value, place, node),
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
        rule: &Rule,
        variables: &[Option<Val<'_>>],
        value: &Value,
        place: &Place<'_>,
        node: &Node,
    ) {
        let made = match &rule.message_program {
            Some(program) => match self.message(program, variables) {
                Ok(made) => made,
                Err(reason) => return self.end(place, node, &reason),
            },
            None => None,
        };
        let detail = made.unwrap_or_else(|| match &*rule.message {
            "" => format!("failed rule: {}", rule.text),
            message => message.to_owned(),
        });
        let path = match &*rule.field_path {
            "" => place.path(),
            behind => place.path.as_ref().map_or_else(|| Path::new(behind), |path| path.child(behind)),
        };
        let error = error(rule.reason, path, value, &detail);
        // Compared only here, since most rules hold.
        let is_unchanged = place.unchanged.is_some_and(|(new, old)| new == old);
        if is_unchanged && rule.old == OldUse::Never && !place.is_head {
            self.verdict.warnings.push(error.to_string());
        } else {
            self.verdict.errors.push(error);
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
        let made = program.evaluate(variables, Limits::CALL, self.budget);
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

/// Old items of a list by the values of their key properties.
struct Keyed<'v> {
    keys: &'v [SmolStr],
    items: std::collections::HashMap<Vec<&'v Value>, &'v Value>,
}

impl<'v> Keyed<'v> {
    fn of(keys: &'v [SmolStr], old: &'v Value) -> Keyed<'v> {
        let items = old.as_array().into_iter().flatten();
        let items = items.filter_map(|item| Some((key_of(keys, item)?, item))).collect();
        Keyed { keys, items }
    }

    fn find(&self, item: &'v Value) -> Option<&'v Value> {
        self.items.get(&key_of(self.keys, item)?).copied()
    }
}

/// The values of the key properties of an item; `None` if one is absent or no scalar.
fn key_of<'v>(keys: &[SmolStr], item: &'v Value) -> Option<Vec<&'v Value>> {
    let item: &Map = item.as_object()?;
    keys.iter()
        .map(|key| item.get(key).filter(|value| !value.is_object() && !value.is_array() && !value.is_null()))
        .collect()
}
