//! Loops over lists and maps.

use super::{Outcome, Run, evaluate, truth};
use crate::error::fault;
use crate::tree::{Fold, Node};
use crate::value::Val;

/// Whether the loop goes on.
enum Round {
    Next,
    End,
}

/// Evaluates a loop. A fault of a round is the accumulator until another round decides; it is that of the loop at its end. Filters are
/// asked in each round, as in the reference: of several faults of theirs, the last one is told.
#[inline(never)]
pub(super) fn fold<'v>(run: &mut Run<'v>, one: &'v Fold) -> Outcome<'v> {
    let range = evaluate(run, &one.range)?;
    let start = evaluate(run, &one.start)?;
    run.slots[one.accumulator] = Ok(start);
    match &range {
        Val::List(list) => {
            for at in 0..list.len() {
                let Some(item) = list.get(at) else { break };
                let index = Val::Int(i64::try_from(at).unwrap_or(i64::MAX));
                let (first, second) = if one.has_two_variables { (index, item) } else { (item, Val::Null) };
                if let Round::End = round(run, one, first, second)? {
                    break;
                }
            }
        }
        Val::Map(map) => {
            for (key, value) in map.iter() {
                if let Round::End = round(run, one, key, value)? {
                    break;
                }
            }
        }
        other if one.has_two_variables => {
            return Err(fault(format!("unsupported comprehension range type: {}", other.program_name())));
        }
        other => return Err(fault(format!("got '{}', expected iterable type", other.program_name()))),
    }
    let result = evaluate(run, &one.result);
    run.slots[one.accumulator] = Ok(Val::Null);
    result
}

fn round<'v>(
    run: &mut Run<'v>,
    one: &'v Fold,
    first: Val<'v>,
    second: Val<'v>,
) -> Result<Round, crate::error::Failure> {
    run.tick(1)?;
    run.slots[one.accumulator + 1] = first.checked();
    if one.has_two_variables {
        run.slots[one.accumulator + 2] = second.checked();
    }
    if let Some(condition) = &one.condition
        && !truth(evaluate(run, condition))?
    {
        return Ok(Round::End);
    }
    let next = evaluate(run, &one.step);
    // Without a condition no further round can mend a fault, and without a filter none brings another one.
    let is_last = match &next {
        Err(failure) if failure.is_final() => return Err(failure.clone()),
        Err(_) => one.condition.is_none() && !matches!(one.step, Node::Conditional(_)),
        Ok(_) => false,
    };
    run.slots[one.accumulator] = next;
    Ok(if is_last { Round::End } else { Round::Next })
}
