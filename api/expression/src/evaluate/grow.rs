//! Lists and maps that grow in loops, where they stand.
//!
//! Owns the steps that macros write as a sum or a call over the accumulator; a step over a fault evaluates nothing.

use super::{Outcome, Run, evaluate};
use crate::cost;
use crate::error::{Failure, fault, no_overload};
use crate::tree::{Append, Insert, Node};
use crate::value::{Key, Map, Val};

/// A fault in the slot `accumulator`, which is that of whatever would be added to it.
fn sound(run: &Run<'_>, accumulator: usize) -> Result<(), Failure> {
    run.slots[accumulator].as_ref().map(|_| ()).map_err(Clone::clone)
}

/// `@result + [item]`: costs a name, a list of one, and a sum. A list of a literal is a literal, which costs nothing.
#[inline(never)]
pub(super) fn append<'v>(run: &mut Run<'v>, one: &'v Append) -> Outcome<'v> {
    sound(run, one.accumulator)?;
    let item = evaluate(run, &one.item)?;
    let list = if matches!(one.item, Node::Constant(_)) { 0 } else { cost::LIST };
    run.charge(2 + list)?;
    run.make_values(2)?;
    match std::mem::replace(&mut run.slots[one.accumulator], Ok(Val::Null))? {
        Val::List(list) => {
            let mut items = list.into_items();
            items.push(item);
            Ok(Val::list(items))
        }
        _ => Err(no_overload()),
    }
}

/// Values that count for an entry of a map: key, value, and its place.
const ENTRY_VALUES: usize = 4;

#[inline(never)]
pub(super) fn insert<'v>(run: &mut Run<'v>, one: &'v Insert) -> Outcome<'v> {
    sound(run, one.accumulator)?;
    let key = evaluate(run, &one.key)?;
    let value = evaluate(run, &one.value)?;
    run.charge(2)?;
    let key = Key::of(&key).ok_or_else(|| fault("unsupported key type"))?;
    grow(run, one.accumulator, [(key, value)])
}

#[inline(never)]
pub(super) fn merge<'v>(run: &mut Run<'v>, one: &'v Append) -> Outcome<'v> {
    sound(run, one.accumulator)?;
    let Val::Map(entries) = evaluate(run, &one.item)? else { return Err(no_overload()) };
    run.charge(2)?;
    let entries: Option<Vec<_>> =
        entries.iter().map(|(key, value)| Key::of(&key).map(|key| (key, value))).collect();
    grow(run, one.accumulator, entries.ok_or_else(|| fault("unsupported key type"))?)
}

/// The map in the slot `accumulator` with these entries.
fn grow<'v>(
    run: &mut Run<'v>,
    accumulator: usize,
    entries: impl IntoIterator<Item = (Key<'v>, Val<'v>)>,
) -> Outcome<'v> {
    let mut made = match std::mem::replace(&mut run.slots[accumulator], Ok(Val::Null))? {
        Val::Map(Map::Made(map)) => std::sync::Arc::unwrap_or_clone(map),
        _ => return Err(no_overload()),
    };
    for (key, value) in entries {
        run.make_values(ENTRY_VALUES)?;
        if let Err(key) = made.insert(key, value) {
            return Err(fault(format!("insert failed: key {} already exists", key.value())));
        }
    }
    Ok(Val::map(made))
}
