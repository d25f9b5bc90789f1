//! Evaluation of compiled expressions.
//!
//! Owns the walk over the tree, the order in which parts are evaluated, and faults on their way: `&&` and `||` forgive a
//! fault that the other operand decides, `?:` evaluates one branch. Each node takes its cost from the run ([`meter`]),
//! and a run that has none left ends at once. Frames are small: each kind of node has a function of its own, so that the
//! deepest tree that compiles fits into the stack of a thread.

mod fold;
mod grow;
mod lazy;
mod meter;

use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use self::lazy::{Lazies, LazySource};
pub use self::meter::{Budget, Limits};
pub(crate) use self::meter::{Parts, Run};
use crate::cost;
use crate::error::{EvaluationError, Failure, fault, no_overload};
use crate::functions::{Code, guards};
use crate::library::access::no_index;
use crate::library::strings::{find_all_standing, find_standing};
use crate::tree::{Bind, Call, Entry, Find, Item, Matches, Node, Select, Wanted};
use crate::value::{Key, MadeMap, Val};

/// A value, or the fault for which there is none.
pub(crate) type Outcome<'v> = Result<Val<'v>, Failure>;

/// Evaluates `node`.
pub(crate) fn evaluate<'v>(run: &mut Run<'v>, node: &'v Node) -> Outcome<'v> {
    run.tick(1)?;
    match node {
        Node::Constant(value) => Ok(value.lent()),
        Node::Variable(at) => variable(run, *at),
        Node::Local(at) => local(run, *at),
        Node::Select(select) => member(run, select),
        Node::Has(select) => has(run, select),
        Node::OptionalSelect(select) => optional_member(run, select),
        Node::And(parts) => logical(run, &parts.0, &parts.1, false),
        Node::Or(parts) => logical(run, &parts.0, &parts.1, true),
        Node::Conditional(parts) => conditional(run, parts),
        Node::OptionalOr(parts) => optional_or(run, &parts.0, &parts.1),
        Node::OptionalOrValue(parts) => optional_or_value(run, &parts.0, &parts.1),
        Node::Call(call) => self::call(run, call),
        Node::Matches(matches) => self::matches(run, matches),
        Node::Find(find) => self::find(run, find),
        Node::List(items) => list(run, items),
        Node::Map(entries) => map(run, entries, None),
        Node::Object(object) => map(run, &object.members, Some(&object.name)),
        Node::Fold(one) => fold::fold(run, one),
        Node::Bind(one) => bind(run, one),
        Node::Append(one) => grow::append(run, one),
        Node::Insert(one) => grow::insert(run, one),
        Node::Merge(one) => grow::merge(run, one),
    }
}

fn variable<'v>(run: &mut Run<'v>, at: usize) -> Outcome<'v> {
    run.charge(1)?;
    match run.variables.get(at) {
        Some(Some(value)) => value.clone().checked(),
        _ => Err(Box::new(EvaluationError::NoSuchAttribute(run.names.name(at).to_owned()))),
    }
}

fn local<'v>(run: &mut Run<'v>, at: usize) -> Outcome<'v> {
    run.charge(1)?;
    run.slots[at].clone()
}

#[inline(never)]
fn member<'v>(run: &mut Run<'v>, select: &'v Select) -> Outcome<'v> {
    if lazy::is_lazy(run, &select.operand) {
        return lazy::member(run, select);
    }
    let operand = evaluate(run, &select.operand)?;
    run.charge(1)?;
    match operand {
        Val::Map(map) => map.member(&select.field).ok_or_else(|| no_such_key(&select.field))?.checked(),
        Val::Optional(None) => Ok(Val::NONE),
        Val::Optional(Some(value)) => optional_of(&value, &select.field),
        Val::List(_) => Err(no_index(&Val::text(&*select.field), "")),
        // Other values have no members.
        _ => Err(no_such_key(&select.field)),
    }
}

fn no_such_key(name: &str) -> Failure {
    Box::new(EvaluationError::NoSuchKey(name.to_owned()))
}

/// The member `name` of `value`, as an optional.
fn optional_of<'v>(value: &Val<'v>, name: &str) -> Outcome<'v> {
    match value {
        Val::Map(map) if !map.has_member(name) => Ok(Val::NONE),
        Val::Map(map) => match map.member(name) {
            Some(value) => value.checked().map(Val::some),
            None => Ok(Val::NONE),
        },
        Val::List(_) => Err(no_index(&Val::text(name), "")),
        _ => Ok(Val::NONE),
    }
}

#[inline(never)]
fn has<'v>(run: &mut Run<'v>, select: &'v Select) -> Outcome<'v> {
    if lazy::is_lazy(run, &select.operand) {
        return lazy::has(run, select);
    }
    match evaluate(run, &select.operand)? {
        Val::Optional(Some(value)) => has_member(&value, &select.field),
        other => has_member(&other, &select.field),
    }
}

/// Values other than objects and lists have no members.
fn has_member<'v>(value: &Val<'v>, name: &str) -> Outcome<'v> {
    match value {
        Val::Map(map) => Ok(Val::Bool(map.has_member(name))),
        Val::List(_) => Err(no_index(&Val::text(name), "")),
        _ => Ok(Val::Bool(false)),
    }
}

#[inline(never)]
fn optional_member<'v>(run: &mut Run<'v>, select: &'v Select) -> Outcome<'v> {
    if lazy::is_lazy(run, &select.operand) {
        return lazy::member(run, select).map(Val::some);
    }
    let operand = evaluate(run, &select.operand)?;
    run.charge(1)?;
    match operand {
        Val::Optional(None) => Ok(Val::NONE),
        Val::Optional(Some(value)) => optional_of(&value, &select.field),
        other => optional_of(&other, &select.field),
    }
}

/// `&&` and `||`: `decides` is the value that one operand decides by.
#[inline(never)]
fn logical<'v>(run: &mut Run<'v>, one: &'v Node, other: &'v Node, decides: bool) -> Outcome<'v> {
    let first = truth(evaluate(run, one));
    match first {
        Ok(truth) if truth == decides => return Ok(Val::Bool(decides)),
        Err(failure) if failure.is_final() => return Err(failure),
        _ => {}
    }
    match truth(evaluate(run, other)) {
        Ok(truth) if truth == decides => Ok(Val::Bool(decides)),
        Err(failure) if failure.is_final() => Err(failure),
        second => first.and(second).map(Val::Bool),
    }
}

fn truth(outcome: Outcome<'_>) -> Result<bool, Failure> {
    outcome?.as_bool().ok_or_else(no_overload)
}

#[inline(never)]
fn conditional<'v>(run: &mut Run<'v>, parts: &'v [Node; 3]) -> Outcome<'v> {
    let holds = truth(evaluate(run, &parts[0]))?;
    evaluate(run, &parts[if holds { 1 } else { 2 }])
}

#[inline(never)]
fn optional_or<'v>(run: &mut Run<'v>, one: &'v Node, other: &'v Node) -> Outcome<'v> {
    let first = evaluate(run, one)?;
    run.charge(1)?;
    match first {
        Val::Optional(None) => match evaluate(run, other)? {
            second @ Val::Optional(_) => Ok(second),
            _ => Err(no_overload()),
        },
        // A value that is no optional is the result, as in the reference.
        first => Ok(first),
    }
}

#[inline(never)]
fn optional_or_value<'v>(run: &mut Run<'v>, one: &'v Node, other: &'v Node) -> Outcome<'v> {
    let first = evaluate(run, one)?;
    run.charge(1)?;
    match first {
        Val::Optional(None) => evaluate(run, other),
        Val::Optional(Some(value)) => Ok((*value).clone()),
        first => Ok(first),
    }
}

#[inline(never)]
fn call<'v>(run: &mut Run<'v>, call: &'v Call) -> Outcome<'v> {
    let mut arguments: SmallVec<[Val<'v>; 3]> = SmallVec::new();
    for argument in &call.arguments {
        let value = match evaluate(run, argument) {
            Ok(value) => value,
            Err(failure) => return forgive(run, call, failure),
        };
        arguments.push(value);
    }
    let result = match (call.code)(run, &arguments) {
        Ok(result) => result,
        Err(failure) => return Err(named(call, &arguments, failure, run.brand())),
    };
    let cost = cost::actual(call.price, &arguments, &result);
    run.charge(cost)?;
    Ok(result)
}

/// The fault of a call whose arguments have other types than its function takes names them.
#[cold]
fn named(call: &Call, arguments: &[Val<'_>], failure: Failure, brand: &str) -> Failure {
    match &*failure {
        EvaluationError::NoSuchOverload(text) if text.is_empty() => {
            let text = guards::mismatch(call.function, arguments, brand);
            Box::new(EvaluationError::NoSuchOverload(text))
        }
        _ => failure,
    }
}

/// A fault in an argument is that of the call, but for the condition of a loop, which goes on behind a fault.
fn forgive<'v>(run: &mut Run<'v>, call: &Call, failure: Failure) -> Outcome<'v> {
    if !call.is_condition || failure.is_final() {
        return Err(failure);
    }
    run.charge(1)?;
    Ok(Val::Bool(true))
}

#[inline(never)]
fn matches<'v>(run: &mut Run<'v>, one: &'v Matches) -> Outcome<'v> {
    let text = evaluate(run, &one.text)?;
    let Val::Text(text) = &text else { return Err(no_overload()) };
    let standing = &run.patterns[one.pattern];
    run.charge(if one.is_function { 1 } else { cost::of_match(text, &standing.source) })?;
    let pattern = match &standing.compiled {
        Ok(pattern) => pattern,
        Err(reason) => return Err(fault(reason.to_string())),
    };
    run.match_steps(crate::pattern::steps(pattern.steps_of_byte(), crate::length(text.len())))?;
    Ok(Val::Bool(pattern.is_match(text)))
}

#[inline(never)]
fn find<'v>(run: &mut Run<'v>, one: &'v Find) -> Outcome<'v> {
    let text = evaluate(run, &one.text)?;
    let most = match &one.wanted {
        Wanted::First | Wanted::All => -1,
        Wanted::Most(most) => match evaluate(run, most)? {
            Val::Int(most) => most,
            _ => return Err(no_overload()),
        },
    };
    let Val::Text(text) = &text else { return Err(no_overload()) };
    let patterns = run.patterns;
    let standing = &patterns[one.pattern];
    let pattern = match &standing.compiled {
        Ok(pattern) => pattern,
        Err(reason) => return Err(fault(reason.to_string())),
    };
    let found = match one.wanted {
        Wanted::First => find_standing(run, text, pattern)?,
        Wanted::All | Wanted::Most(_) => find_all_standing(run, text, pattern, most)?,
    };
    run.charge(cost::of_match(text, &standing.source))?;
    Ok(found)
}

#[inline(never)]
fn list<'v>(run: &mut Run<'v>, items: &'v [Item]) -> Outcome<'v> {
    run.make_values(items.len())?;
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let value = evaluate(run, &item.value)?;
        if !item.is_optional {
            values.push(value);
            continue;
        }
        match value {
            Val::Optional(None) => {}
            Val::Optional(Some(value)) => values.push((*value).clone()),
            other => {
                let reason =
                    format!("cannot initialize optional list element from non-optional value {other}");
                return Err(fault(reason));
            }
        }
    }
    run.charge(cost::LIST)?;
    Ok(Val::list(values))
}

#[inline(never)]
fn map<'v>(run: &mut Run<'v>, entries: &'v [Entry], object: Option<&'v Arc<str>>) -> Outcome<'v> {
    run.make_values(entries.len().saturating_mul(4))?;
    let mut made = MadeMap::of(object.cloned());
    for entry in entries {
        let key = evaluate(run, &entry.key)?;
        let mut value = evaluate(run, &entry.value)?;
        if entry.is_optional {
            value = match value {
                Val::Optional(None) => continue,
                Val::Optional(Some(value)) => (*value).clone(),
                other => {
                    let reason =
                        format!("cannot initialize optional entry '{key}' from non-optional value {other}");
                    return Err(fault(reason));
                }
            };
        }
        if matches!(key, Val::Double(_)) {
            return Err(fault("unsupported key type"));
        }
        let key = Key::of(&key).ok_or_else(|| fault("unsupported key type"))?;
        if let Err(key) = made.insert(key, value) {
            return Err(fault(format!("Failed with repeated key: {}", key.value())));
        }
    }
    run.charge(if object.is_some() { cost::OBJECT } else { cost::MAP })?;
    Ok(Val::map(made))
}

#[inline(never)]
fn bind<'v>(run: &mut Run<'v>, one: &'v Bind) -> Outcome<'v> {
    let value = evaluate(run, &one.value);
    if let Err(failure) = &value
        && failure.is_final()
    {
        return value;
    }
    run.slots[one.place] = value;
    let result = evaluate(run, &one.result);
    run.slots[one.place] = Ok(Val::Null);
    result
}

/// The value of `code` for the literal `value`, if it has one.
pub(crate) fn fold_constant(code: Code, value: &Val<'static>) -> Option<Val<'static>> {
    let mut run = Run::of_constant();
    code(&mut run, std::slice::from_ref(value)).ok()
}
