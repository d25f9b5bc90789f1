//! Functions over lists and sets, each with its cost.

use super::calls::{self, Called, boolean, int, tenths};
use super::plain::Plain;

/// Calls over the items of a list.
pub(super) fn call(name: &str, items: &[Plain], rest: &[Plain]) -> Option<Called> {
    let size = crate::length(items.len());
    let traversal: u64 = items.iter().map(Plain::traversal).sum();
    let is_null_first = matches!(items.first(), Some(Plain::Null));
    let has_null = items.iter().any(|item| matches!(item, Plain::Null));
    Some(match (name, rest) {
        ("sum" | "min" | "max" | "isSorted", []) if is_null_first => return None,
        ("sum" | "min" | "max", []) if has_null => return None,
        (name, [Plain::List(other)]) if name.starts_with("sets.") => of_sets(name, items, other),
        ("sort" | "distinct" | "@sortByAssociatedKeys", rest) => ordered(name, items, rest),
        ("isSorted", []) => {
            for pair in items.windows(2) {
                if matches!(pair[1], Plain::Null) {
                    return None;
                }
                if pair[0].order(&pair[1]).is_some_and(std::cmp::Ordering::is_gt) {
                    return Some(boolean(false, traversal));
                }
            }
            boolean(true, traversal)
        }
        ("sum", []) if matches!(items.first(), Some(Plain::Duration(_))) => {
            let mut sum = Plain::Duration(0);
            for item in items {
                sum = match calls::call("_+_", false, &[sum, item.clone()]) {
                    Ok((sum, _)) => sum,
                    Err(text) => return Some(Err(text)),
                };
            }
            Ok((sum, traversal))
        }
        ("sum", []) => {
            let mut sum: Option<i64> = Some(0);
            for item in items {
                let Plain::Int(number) = item else { panic!("no expression here adds {item:?}") };
                sum = sum.and_then(|sum| sum.checked_add(*number));
            }
            int(sum).map(|(sum, _)| (sum, traversal))
        }
        ("min" | "max", []) => {
            let Some(mut found) = items.first() else {
                return Some(Err(format!("{name} called on empty list")));
            };
            for item in items {
                let order = item.order(found);
                let is_better = if name == "min" {
                    order.is_some_and(std::cmp::Ordering::is_lt)
                } else {
                    order.is_some_and(std::cmp::Ordering::is_gt)
                };
                found = if is_better { item } else { found };
            }
            Ok((found.clone(), traversal))
        }
        ("indexOf", [wanted]) => {
            let at = items.iter().position(|item| item.equals(wanted));
            Ok((Plain::Int(at.map_or(-1, |at| i64::try_from(at).unwrap())), traversal))
        }
        ("slice", [Plain::Int(start), Plain::Int(end)]) => sliced(items, *start, *end),
        ("flatten", []) => {
            let flat = items.iter().flat_map(|item| match item {
                Plain::List(inner) | Plain::Identified(_, inner) => inner.clone(),
                other => vec![other.clone()],
            });
            Ok((Plain::List(flat.collect()), size + 11))
        }
        ("reverse", []) => Ok((Plain::List(items.iter().rev().cloned().collect()), size + 11)),
        ("join", rest) => {
            let separator = match rest {
                [Plain::Text(separator)] => separator.as_str(),
                _ => "",
            };
            let parts: Vec<String> = items.iter().map(calls::text).collect();
            let joined = Plain::Text(parts.join(separator));
            let cost = tenths(joined.size(), 2);
            Ok((joined, cost))
        }
        _ => return None,
    })
}

/// The cost of comparing each item with each other.
fn pairs(items: &[Plain]) -> u64 {
    let size = crate::length(items.len());
    let is_text = matches!(items.first(), Some(Plain::Text(_) | Plain::Bytes(_)));
    (if is_text { size * size * 21 / 10 } else { size * size * 2 }) + 11
}

fn ordered(name: &str, items: &[Plain], rest: &[Plain]) -> Called {
    let keys = if let [Plain::List(keys)] = rest { keys } else { items };
    if name != "distinct" {
        let kind = keys.first().map(std::mem::discriminant);
        if keys.first().is_some_and(|first| first.order(first).is_none()) {
            return Err("list elements must be comparable".to_owned());
        }
        if keys.iter().any(|key| Some(std::mem::discriminant(key)) != kind) {
            return Err("list elements must have the same type".to_owned());
        }
    }
    match (name, rest) {
        ("distinct", []) => Ok((Plain::List(kept_once(items)), pairs(items))),
        ("@sortByAssociatedKeys", [Plain::List(keys)]) => {
            let mut places: Vec<usize> = (0..items.len()).collect();
            places.sort_by(|one, other| keys[*one].order(&keys[*other]).unwrap_or(std::cmp::Ordering::Equal));
            Ok((Plain::List(places.into_iter().map(|at| items[at].clone()).collect()), pairs(keys)))
        }
        ("sort", []) => {
            let mut sorted = items.to_vec();
            sorted.sort_by(|one, other| one.order(other).unwrap_or(std::cmp::Ordering::Equal));
            Ok((Plain::List(sorted), pairs(items)))
        }
        other => panic!("no expression here calls {other:?}"),
    }
}

fn of_sets(name: &str, one: &[Plain], other: &[Plain]) -> Called {
    let has_all = |one: &[Plain], other: &[Plain]| {
        other.iter().all(|wanted| one.iter().any(|item| item.equals(wanted)))
    };
    let pairs = crate::length(one.len()) * crate::length(other.len());
    match name {
        "sets.contains" => boolean(has_all(one, other), pairs + 1),
        "sets.equivalent" => boolean(has_all(one, other) && has_all(other, one), 2 * pairs + 1),
        "sets.intersects" => {
            let holds = other.iter().any(|wanted| has_all(one, std::slice::from_ref(wanted)));
            boolean(holds, pairs + 1)
        }
        other => panic!("no expression here calls {other}"),
    }
}

fn sliced(items: &[Plain], start: i64, end: i64) -> Called {
    let reason = match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from > to => "start index must be less than or equal to end index".to_owned(),
        (Ok(_), Ok(to)) if to > items.len() => format!("list is length {}", items.len()),
        (Ok(from), Ok(to)) => {
            return Ok((Plain::List(items[from..to].to_vec()), crate::length(to - from) + 11));
        }
        _ => "negative indexes not supported".to_owned(),
    };
    Err(format!("cannot slice({start}, {end}), {reason}"))
}

/// The items without those that are equal to one before.
fn kept_once(items: &[Plain]) -> Vec<Plain> {
    let mut kept: Vec<Plain> = Vec::new();
    for item in items {
        if !kept.iter().any(|own| own.equals(item)) {
            kept.push(item.clone());
        }
    }
    kept
}

/// The sum of two lists: of sets, and of lists with keys, what comes from the second takes the place of what is the same, or is left out.
pub(super) fn sum(one: &Plain, other: &Plain) -> Option<Plain> {
    let (own, added) = (one.items()?, other.items()?);
    let Plain::Identified(member, _) = one else {
        return Some(match (own, added) {
            ([], _) => other.clone(),
            (_, []) => one.clone(),
            _ => Plain::List([own, added].concat()),
        });
    };
    let mut sum = own.to_vec();
    for item in added {
        // Of a list with keys, two new items with the same ones are both added.
        let known = if member.is_some() { own.len() } else { sum.len() };
        match sum[..known].iter().position(|own| own.is_same_as(item, *member)) {
            Some(at) if member.is_some() => sum[at] = item.clone(),
            Some(_) => {}
            None => sum.push(item.clone()),
        }
    }
    Some(Plain::Identified(*member, sum))
}
