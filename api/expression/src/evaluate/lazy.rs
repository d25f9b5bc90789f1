//! Variables that are evaluated when an expression reads them, once for a group of expressions.
//!
//! Owns their values, and the cost of those that were evaluated since it was last taken. What an evaluation of one costs is
//! not the cost of the expression that reads it, as in the reference: each has the bound of one evaluation, and the
//! group's budget pays for both. A variable may read others; they nest on the stack, so the levels of those that are read behind one
//! another are bounded.
//!
//! Invariant: the memory that variables of a group make has the bound of one evaluation, whatever their number.

use std::sync::Arc;

use super::meter::{MADE_BYTES_MAX, Parts, Run};
use super::{Outcome, evaluate, no_such_key};
use crate::NESTING_MAX;
use crate::error::fault;
use crate::tree::{Node, Select};
use crate::value::Val;

/// Levels of the expressions of variables that read one another, with [`READ_LEVELS`] for each: as those of sixteen that nest as deeply as
/// one may, or of a hundred and more usual ones.
const LEVELS_MAX: usize = 16 * NESTING_MAX;
/// Levels that a read takes of the stack.
const READ_LEVELS: usize = 4;

/// The variables of a group, by name.
pub(crate) trait LazySource: Send + Sync {
    /// The place among an expression's variables whose members these are.
    fn place(&self) -> usize;
    /// Number of variables.
    fn count(&self) -> usize;
    /// The variable `name`.
    fn find(&self, name: &str) -> Option<usize>;
    /// The program of a variable, or the reason why it did not compile.
    fn parts(&self, at: usize) -> Result<Parts<'_>, &str>;
    /// Levels of its expression.
    fn levels(&self, at: usize) -> usize;
}

/// The state of a variable: its value, once it was read.
#[derive(Debug)]
enum State<'v> {
    Unread,
    /// An evaluation is under way: a variable that reads itself has no value.
    Reading,
    Known(Result<Val<'v>, Arc<str>>),
}

/// Values of variables so far.
pub(crate) struct Lazies<'v> {
    source: &'v dyn LazySource,
    states: Vec<State<'v>>,
    /// Of the variables that are being read.
    levels: usize,
    cost: u64,
    steps: u64,
    bytes_left: usize,
}

impl<'v> Lazies<'v> {
    /// Variables of which none was read yet.
    pub(crate) fn of(source: &'v dyn LazySource) -> Lazies<'v> {
        let states = (0..source.count()).map(|_| State::Unread).collect();
        Lazies { source, states, levels: 0, cost: 0, steps: 0, bytes_left: MADE_BYTES_MAX }
    }

    /// Cost and steps of the evaluations since this was last asked.
    pub(crate) fn take_spent(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.cost), std::mem::take(&mut self.steps))
    }
}

/// Whether `node` is the object whose members are lazy variables.
pub(super) fn is_lazy(run: &Run<'_>, node: &Node) -> bool {
    let Node::Variable(at) = node else { return false };
    run.lazies.as_ref().is_some_and(|lazies| lazies.source.place() == *at)
}

/// `variables.name`.
#[inline(never)]
pub(super) fn member<'v>(run: &mut Run<'v>, select: &'v Select) -> Outcome<'v> {
    // The object, and its member.
    run.charge(2)?;
    read(run, &select.field)
}

/// `has(variables.name)`.
pub(super) fn has<'v>(run: &mut Run<'v>, select: &'v Select) -> Outcome<'v> {
    run.charge(1)?;
    let found = run.lazies.as_ref().and_then(|lazies| lazies.source.find(&select.field));
    Ok(Val::Bool(found.is_some()))
}

fn read<'v>(run: &mut Run<'v>, name: &str) -> Outcome<'v> {
    let Some(lazies) = run.lazies.as_mut() else { return Err(no_such_key(name)) };
    let source = lazies.source;
    let Some(at) = source.find(name) else { return Err(no_such_key(name)) };
    let levels = source.levels(at).saturating_add(READ_LEVELS);
    match &lazies.states[at] {
        State::Known(Ok(value)) => return Ok(value.clone()),
        State::Known(Err(reason)) => return Err(fault(&**reason)),
        State::Reading => return Err(fault(format!("variable {name:?} reads itself"))),
        State::Unread if lazies.levels.saturating_add(levels) > LEVELS_MAX => {
            return Err(fault(format!("variable {name:?} is read behind too many others")));
        }
        State::Unread => {}
    }
    let known: Result<Val<'v>, Arc<str>> = match source.parts(at) {
        Err(reason) => Err(format!("composited variable {name:?} fails to compile: {reason}").into()),
        Ok(parts) => {
            lazies.states[at] = State::Reading;
            lazies.levels += levels;
            let value = nested(run, parts);
            let lazies = run.lazies.as_mut().expect("the nested evaluation gave them back");
            lazies.levels -= levels;
            match value {
                // The place evaluates again when it has the answer.
                Err(failure) if failure.is_undecided() => {
                    lazies.states[at] = State::Unread;
                    return Err(failure);
                }
                Err(failure) => {
                    Err(format!("composited variable {name:?} fails to evaluate: {failure}").into())
                }
                Ok(value) => Ok(value),
            }
        }
    };
    let lazies = run.lazies.as_mut().expect("as above");
    let outcome = match &known {
        Ok(value) => Ok(value.clone()),
        Err(reason) => Err(fault(&**reason)),
    };
    lazies.states[at] = State::Known(known);
    outcome
}

/// Evaluates the program of a variable, within the bounds of an evaluation of its own.
fn nested<'v>(run: &mut Run<'v>, parts: Parts<'v>) -> Outcome<'v> {
    let bytes = run.lazies.as_ref().map_or(0, |lazies| lazies.bytes_left).min(run.made_bytes_left());
    let mut inner = Run::new(run.variables, parts.names, parts.patterns, parts.slots, run.limits());
    inner.lazies = run.lazies.take();
    inner.set_made_bytes_left(bytes);
    let value = evaluate(&mut inner, parts.root);
    let made = bytes - inner.made_bytes_left();
    run.lazies = inner.lazies.take();
    if let Some(lazies) = run.lazies.as_mut() {
        lazies.cost = lazies.cost.saturating_add(inner.cost());
        lazies.steps = lazies.steps.saturating_add(inner.steps());
        lazies.bytes_left = lazies.bytes_left.saturating_sub(made);
    }
    run.set_made_bytes_left(run.made_bytes_left().saturating_sub(made));
    value
}
