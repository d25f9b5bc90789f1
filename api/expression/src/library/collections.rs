//! Functions that make lists of lists: parts, orders, and what is in them.

use std::cmp::Ordering;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::length;
use crate::value::{List, Val, compare};

pub(crate) fn slice<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = arguments else { return Err(no_overload()) };
    let refused = |reason: &str| fault(format!("cannot slice({start}, {end}), {reason}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(refused("negative indexes not supported"));
    };
    if from > to {
        return Err(refused("start index must be less than or equal to end index"));
    }
    if to > list.len() {
        return Err(refused(&format!("list is length {}", list.len())));
    }
    run.make_values(to - from)?;
    Ok(Val::list((from..to).filter_map(|at| list.get(at)).collect()))
}

pub(crate) fn flatten<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (list, depth) = match arguments {
        [Val::List(list)] => (list, 1),
        [Val::List(list), Val::Int(depth)] => (list, *depth),
        _ => return Err(no_overload()),
    };
    let depth = u64::try_from(depth).map_err(|_| fault("level must be non-negative"))?;
    let mut flat = Vec::new();
    // Lists that are being read, with the place of the next item.
    let mut open: Vec<(List<'v>, usize)> = vec![(list.clone(), 0)];
    while let Some((list, at)) = open.last_mut() {
        let Some(item) = list.get(*at) else {
            open.pop();
            continue;
        };
        *at += 1;
        run.make_values(1)?;
        match item {
            Val::List(inner) if length(open.len()) <= depth => open.push((inner, 0)),
            other => flat.push(other),
        }
    }
    Ok(Val::list(flat))
}

/// Sorts places by the values that `keys` has there.
fn sorted_places(run: &mut Run<'_>, keys: &List<'_>) -> Result<Vec<usize>, Failure> {
    let values: Vec<Val<'_>> = keys.iter().collect();
    if let Some(first) = values.first() {
        if compare(first, first).is_none() {
            return Err(fault("list elements must be comparable"));
        }
        let kind = first.type_name();
        // once: a type for each element.
        if values.iter().any(|value| value.type_name() != kind) {
            return Err(fault("list elements must have the same type"));
        }
    }
    let mut rounds = 1;
    while 1_usize << rounds < values.len().max(2) {
        rounds += 1;
    }
    for value in &values {
        run.tick(rounds)?;
        if let Val::Text(text) = value {
            run.read_bytes(text.len().saturating_mul(usize::try_from(rounds).unwrap_or(usize::MAX)))?;
        }
    }
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|one, other| compare(&values[*one], &values[*other]).flatten().unwrap_or(Ordering::Equal));
    Ok(places)
}

pub(crate) fn sort<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    run.make_values(list.len())?;
    let places = sorted_places(run, list)?;
    Ok(Val::list(places.into_iter().filter_map(|at| list.get(at)).collect()))
}

pub(crate) fn sort_by_keys<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list), Val::List(keys)] = arguments else { return Err(no_overload()) };
    run.make_values(list.len())?;
    let places = sorted_places(run, keys)?;
    Ok(Val::list(places.into_iter().filter_map(|at| list.get(at)).collect()))
}

pub(crate) fn distinct<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    run.make_values(list.len())?;
    let mut kept: Vec<Val<'v>> = Vec::new();
    for item in list.iter() {
        let mut is_known = false;
        for one in &kept {
            run.tick(1)?;
            is_known = run.equal(one, &item)?;
            if is_known {
                break;
            }
        }
        if !is_known {
            kept.push(item);
        }
    }
    Ok(Val::list(kept))
}

pub(crate) fn reverse<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    run.make_values(list.len())?;
    Ok(Val::list((0..list.len()).rev().filter_map(|at| list.get(at)).collect()))
}

pub(crate) fn range<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Int(end)] = arguments else { return Err(no_overload()) };
    let end = (*end).max(0);
    run.make_values(usize::try_from(end).unwrap_or(usize::MAX))?;
    Ok(Val::list((0..end).map(Val::Int).collect()))
}

pub(crate) fn first<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    Ok(list.get(0).map_or(Val::NONE, Val::some))
}

pub(crate) fn last<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::List(list)] = arguments else { return Err(no_overload()) };
    let last = list.len().checked_sub(1).and_then(|at| list.get(at));
    Ok(last.map_or(Val::NONE, Val::some))
}
