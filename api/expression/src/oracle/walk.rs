//! The walk: what the language says of each node, with the reference's cost of it.

use std::collections::HashSet;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::plain::Plain;
use super::rights::UNDECIDED;
use super::{calls, rights};
use crate::Ast;

/// A value, or the text of the fault for which there is none.
pub(super) type Told = Result<Plain, String>;

/// Conversions of literals are literals.
const CONVERSIONS: [&str; 9] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

/// Names of types that expressions here have.
const TYPES: [&str; 4] = ["int", "list", "null_type", "string"];

/// Functions whose cost the reference takes from the overload: where the checker left open which one it is, they cost one.
const COST_OF_OVERLOAD: [&str; 8] = ["_+_", "_<_", "_<=_", "_>_", "_>=_", "@in", "bytes", "string"];

/// Names before those of functions.
const FAMILIES: [&str; 6] = ["format", "ip", "lists", "optional", "sets", "strings"];

pub(super) struct Walk<'e> {
    pub(super) cost: u64,
    /// Faults that were met, also those that something forgave.
    pub(super) faults: usize,
    /// Variables: those that are given come first, those of loops and bindings behind them.
    names: Vec<(String, Told)>,
    /// Number of those that are given.
    given: usize,
    variables: Vec<Variable<'e>>,
    /// Calls to which several overloads fit, of the expression that is walked.
    unsettled: HashSet<u64>,
    /// A question has no answer yet, which nothing forgives.
    has_ended: bool,
}

/// A variable of a policy, `variables.name`.
struct Variable<'e> {
    name: &'e str,
    ast: &'e Ast,
    /// The value or the fault of the variable; `None` before its first reading.
    told: Option<Told>,
}

impl<'e> Walk<'e> {
    /// A walk with these variables, and `authorizer`.
    pub(super) fn over(given: Vec<(&str, Plain)>) -> Walk<'e> {
        let mut names: Vec<(String, Told)> =
            given.into_iter().map(|(name, value)| (name.to_owned(), Ok(value))).collect();
        names.push(("authorizer".to_owned(), Ok(rights::start())));
        Walk {
            cost: 0,
            faults: 0,
            given: names.len(),
            names,
            variables: Vec::new(),
            unsettled: HashSet::new(),
            has_ended: false,
        }
    }

    /// The walk with the variables of a policy.
    pub(super) fn with_variables(mut self, variables: &'e [(&'e str, Ast)]) -> Walk<'e> {
        self.variables = variables.iter().map(|(name, ast)| Variable { name, ast, told: None }).collect();
        self
    }

    /// The value of an expression, or the text of its fault.
    pub(super) fn expression(&mut self, ast: &Ast) -> Told {
        let around = std::mem::replace(&mut self.unsettled, ast.unsettled_calls());
        let told = self.value(ast.expression());
        self.unsettled = around;
        told
    }

    /// The value of the variable `name` of a policy, if it was read and has one.
    pub(super) fn read(&self, name: &str) -> Option<&Plain> {
        self.variables.iter().find(|own| own.name == name)?.told.as_ref()?.as_ref().ok()
    }

    fn value(&mut self, node: &IdedExpr) -> Told {
        if let Some(value) = literal(node) {
            return Ok(value);
        }
        match &node.expr {
            Expr::Ident(name) => {
                let found = self.names.iter().rev().find(|(own, _)| own == name);
                let Some((_, found)) = found else {
                    // The name of a type is a literal.
                    let kind = TYPES.into_iter().find(|kind| kind == name);
                    return Ok(Plain::Type(kind.unwrap_or_else(|| panic!("{name} is no name here"))));
                };
                self.cost += 1;
                found.clone()
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call, self.unsettled.contains(&node.id)),
            Expr::List(list) => {
                let mut items = Vec::new();
                for (at, element) in list.elements.iter().enumerate() {
                    match (self.value(element)?, list.optional_indices.contains(&at)) {
                        (value, false) => items.push(value),
                        (Plain::Optional(Some(value)), true) => items.push(*value),
                        (_, true) => {}
                    }
                }
                self.cost += 10;
                Ok(Plain::List(items))
            }
            Expr::Map(map) => {
                let mut made: Vec<(Plain, Plain)> = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { panic!("no entry of a map") };
                    let (key, value) = (self.value(&entry.key)?, self.value(&entry.value)?);
                    let value = match (value, entry.optional) {
                        (value, false) => value,
                        (Plain::Optional(Some(value)), true) => *value,
                        (_, true) => continue,
                    };
                    if made.iter().any(|(own, _)| own.equals(&key)) {
                        return self.fault(format!("Failed with repeated key: {}", calls::text(&key)));
                    }
                    made.push((key, value));
                }
                self.cost += 30;
                Ok(Plain::Map(made))
            }
            Expr::Comprehension(one) => self.comprehension(one),
            other => panic!("no expression here has {other:?}"),
        }
    }

    pub(super) fn fault(&mut self, text: impl Into<String>) -> Told {
        let text = text.into();
        self.faults += 1;
        self.has_ended |= text == UNDECIDED;
        Err(text)
    }

    /// The value of a variable of a policy: it is evaluated where it is first read, and sees no variable of the loops there.
    fn variable(&mut self, name: &str) -> Told {
        self.cost += 2;
        let at = self.variables.iter().position(|own| own.name == name);
        let at = at.unwrap_or_else(|| panic!("no policy here has {name}"));
        if let Some(told) = self.variables[at].told.clone() {
            self.faults += usize::from(told.is_err());
            return told;
        }
        let given = self.names[..self.given].to_vec();
        let around = std::mem::replace(&mut self.names, given);
        let told = self.expression(self.variables[at].ast);
        self.names = around;
        if self.has_ended {
            return told;
        }
        let told = told.map_err(|text| format!("composited variable {name:?} fails to evaluate: {text}"));
        self.variables[at].told = Some(told.clone());
        told
    }

    fn select(&mut self, select: &SelectExpr) -> Told {
        match &select.operand.expr {
            Expr::Ident(name) if name == "variables" && select.test => {
                self.cost += 1;
                return Ok(Plain::Bool(true));
            }
            Expr::Ident(name) if name == "variables" => return self.variable(&select.field),
            Expr::Ident(name) if name == "authorizer" && select.field == "requestResource" => {
                self.cost += 1;
                return Ok(rights::of_request());
            }
            _ => {}
        }
        let operand = self.value(&select.operand)?;
        let key = Plain::Text(select.field.clone());
        if operand.items().is_some() {
            return self.fault("unsupported index type 'string' in list");
        }
        if select.test {
            return Ok(Plain::Bool(operand.get(&key).is_some()));
        }
        self.cost += 1;
        match operand {
            Plain::Optional(value) => {
                let found = value.and_then(|value| value.get(&key).cloned());
                Ok(Plain::Optional(found.map(Box::new)))
            }
            operand => match operand.get(&key) {
                Some(value) => Ok(value.clone()),
                None => self.fault(format!("no such key: {}", select.field)),
            },
        }
    }

    fn truth(&mut self, node: &IdedExpr) -> Result<bool, String> {
        match self.value(node)? {
            Plain::Bool(truth) => Ok(truth),
            other => panic!("the checker lets no {other:?} pass as a truth value"),
        }
    }

    fn call(&mut self, call: &CallExpr, is_unsettled: bool) -> Told {
        // `sets.contains` is one name of a function.
        let family = call.target.as_deref().and_then(|target| match &target.expr {
            Expr::Ident(name) if FAMILIES.contains(&name.as_str()) => Some(name),
            _ => None,
        });
        let target = call.target.as_deref().filter(|_| family.is_none());
        let name =
            family.map_or_else(|| call.func_name.clone(), |family| format!("{family}.{}", call.func_name));
        let parts: Vec<&IdedExpr> = target.into_iter().chain(&call.args).collect();
        match (name.as_str(), parts.as_slice()) {
            (operators::LOGICAL_AND, [one, other]) => self.logical(one, other, false),
            (operators::LOGICAL_OR, [one, other]) => self.logical(one, other, true),
            (operators::CONDITIONAL, [condition, one, other]) => {
                let branch = if self.truth(condition)? { one } else { other };
                self.value(branch)
            }
            ("@not_strictly_false", [condition]) => {
                let truth = self.truth(condition);
                if self.has_ended {
                    return truth.map(Plain::Bool);
                }
                self.cost += 1;
                Ok(Plain::Bool(truth.unwrap_or(true)))
            }
            ("orValue", [one, other]) => {
                let one = self.value(one)?;
                self.cost += 1;
                match one {
                    Plain::Optional(Some(value)) => Ok(*value),
                    _ => self.value(other),
                }
            }
            ("or", [one, other]) => {
                let one = self.value(one)?;
                self.cost += 1;
                match one {
                    Plain::Optional(None) => self.value(other),
                    some => Ok(some),
                }
            }
            (name, parts) => {
                let mut arguments = Vec::new();
                for part in parts {
                    arguments.push(self.value(part)?);
                }
                let is_searched_free = name == "@in" && literal(parts[1]).is_some();
                let is_method = target.is_some();
                match calls::call(name, is_method, &arguments) {
                    Ok((value, cost)) => {
                        let is_one = is_unsettled && COST_OF_OVERLOAD.contains(&name);
                        self.cost += match (is_searched_free, is_one) {
                            (true, _) => 0,
                            (false, true) => 1,
                            (false, false) => cost,
                        };
                        Ok(value)
                    }
                    Err(text) => self.fault(text),
                }
            }
        }
    }

    /// `&&` and `||`: an operand that is `decides` decides, also where the other one is a fault.
    fn logical(&mut self, one: &IdedExpr, other: &IdedExpr, decides: bool) -> Told {
        let first = self.truth(one);
        if first == Ok(decides) || self.has_ended {
            return first.map(Plain::Bool);
        }
        let second = self.truth(other);
        if second == Ok(decides) || self.has_ended {
            return second.map(Plain::Bool);
        }
        first.and(second).map(Plain::Bool)
    }

    fn comprehension(&mut self, one: &ComprehensionExpr) -> Told {
        let range = self.value(&one.iter_range)?;
        let start = self.value(&one.accu_init);
        if self.has_ended {
            return start;
        }
        // A binding is a loop over nothing, and a fault in it is met where the name is read.
        let start =
            if range.size() == 0 && one.accu_var != crate::macros::ACCUMULATOR { start } else { Ok(start?) };
        let around = self.names.len();
        self.names.push((one.accu_var.clone(), start));
        let rounds: Vec<(Plain, Plain)> = match (range, &one.iter_var2) {
            (Plain::List(items) | Plain::Identified(_, items), _) => items
                .into_iter()
                .enumerate()
                .map(|(at, item)| (Plain::Int(i64::try_from(at).unwrap()), item))
                .collect(),
            (Plain::Map(entries), Some(_)) => entries,
            (Plain::Map(entries), None) => entries.into_iter().map(|(key, value)| (value, key)).collect(),
            other => panic!("no loop goes over {other:?}"),
        };
        for (first, second) in rounds {
            match &one.iter_var2 {
                Some(name) => {
                    self.names.push((one.iter_var.clone(), Ok(first)));
                    self.names.push((name.clone(), Ok(second)));
                }
                None => self.names.push((one.iter_var.clone(), Ok(second))),
            }
            let goes_on = self.truth(&one.loop_cond)?;
            let next = if goes_on { Some(self.value(&one.loop_step)) } else { None };
            self.names.truncate(around + 1);
            match next {
                Some(Err(text)) if self.has_ended => return Err(text),
                Some(next) => self.names[around].1 = next,
                None => break,
            }
        }
        let result = self.value(&one.result);
        self.names.truncate(around);
        result
    }
}

/// The value of a literal, of a list or map of literals, and of a conversion of one: they cost nothing.
fn literal(node: &IdedExpr) -> Option<Plain> {
    match &node.expr {
        Expr::Literal(LiteralValue::Null) => Some(Plain::Null),
        Expr::Literal(LiteralValue::UInt(number)) => Some(Plain::Uint(*number.inner())),
        Expr::Literal(LiteralValue::Bytes(bytes)) => Some(Plain::Bytes(bytes.inner().to_vec())),
        Expr::Literal(LiteralValue::Boolean(truth)) => Some(Plain::Bool(*truth.inner())),
        Expr::Literal(LiteralValue::Int(number)) => Some(Plain::Int(*number.inner())),
        Expr::Literal(LiteralValue::Double(number)) => Some(Plain::Double(*number.inner())),
        Expr::Literal(LiteralValue::String(text)) => Some(Plain::Text(text.inner().to_owned())),
        Expr::List(list) if list.optional_indices.is_empty() => {
            Some(Plain::List(list.elements.iter().map(literal).collect::<Option<_>>()?))
        }
        Expr::Map(map) => {
            let mut made: Vec<(Plain, Plain)> = Vec::new();
            for entry in &map.entries {
                let EntryExpr::MapEntry(entry) = &entry.expr else { return None };
                let (key, value) = (literal(&entry.key)?, literal(&entry.value)?);
                if entry.optional || made.iter().any(|(own, _)| own.equals(&key)) {
                    return None;
                }
                made.push((key, value));
            }
            Some(Plain::Map(made))
        }
        Expr::Call(call) if call.target.is_none() && CONVERSIONS.contains(&call.func_name.as_str()) => {
            let argument = literal(call.args.first()?)?;
            calls::call(&call.func_name, false, &[argument]).ok().map(|(value, _)| value)
        }
        _ => None,
    }
}
