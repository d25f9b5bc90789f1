//! The order of a merged list: the patch's order for items that it names, the old order for the rest, interleaved as
//! well as both allow.

use std::collections::BTreeMap;

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::{DIRECTIVE, SET_ELEMENT_ORDER, malformed, no_merge_key, wrong_type};
use crate::fields::KeyValue;
use crate::patch::PatchError;
use crate::patch::go_text::printed_list;

/// Positions of items, by merge key or value.
pub(super) struct Arrangement<'k> {
    wanted: BTreeMap<KeyValue, usize>,
    old: BTreeMap<KeyValue, usize>,
    merge_key: Option<&'k str>,
}

impl<'k> Arrangement<'k> {
    /// Items in `wanted` take its order, others that of `old`. Without a merge key items are identified by their whole
    /// value.
    pub(super) fn new(
        wanted: &[Value],
        old: &[Value],
        merge_key: Option<&'k str>,
    ) -> Result<Self, PatchError> {
        let places = |items: &[Value]| {
            let mut places = BTreeMap::new();
            for (at, item) in items.iter().take_while(|_| count_step()).enumerate() {
                places.entry(identity(item, merge_key)?).or_insert(at);
            }
            Ok::<_, PatchError>(places)
        };
        Ok(Arrangement { wanted: places(wanted)?, old: places(old)?, merge_key })
    }

    /// Puts `items` in order.
    pub(super) fn arrange(&self, items: Vec<Value>) -> Result<Vec<Value>, PatchError> {
        let mut wanted: Vec<Placed> = Vec::with_capacity(items.len());
        let mut others: Vec<Placed> = Vec::new();
        for item in items.into_iter().take_while(|_| count_step()) {
            let id = identity(&item, self.merge_key)?;
            let old = self.old.get(&id).copied();
            match self.wanted.get(&id) {
                Some(&place) => wanted.push(Placed { place, old, item }),
                None => others.push(Placed { place: old.unwrap_or(usize::MAX), old, item }),
            }
        }
        wanted.sort_by_key(|placed| placed.place);
        others.sort_by_key(|placed| placed.place);
        Ok(interleave(others, wanted))
    }
}

struct Placed {
    place: usize,
    old: Option<usize>,
    item: Value,
}

/// Merges two ordered lists. An item of `others` goes before a wanted one only if it stood before it in the old list.
fn interleave(others: Vec<Placed>, wanted: Vec<Placed>) -> Vec<Value> {
    let mut out = Vec::with_capacity(others.len() + wanted.len());
    let mut others = others.into_iter().peekable();
    for next in wanted {
        while let Some(before) =
            others.next_if(|other| matches!((other.old, next.old), (Some(other), Some(next)) if other < next))
        {
            out.push(before.item);
        }
        out.push(next.item);
    }
    out.extend(others.map(|placed| placed.item));
    out
}

fn identity(item: &Value, merge_key: Option<&str>) -> Result<KeyValue, PatchError> {
    let Some(key) = merge_key else { return Ok(KeyValue::of(item)) };
    let map = item.as_object().ok_or_else(|| wrong_type("map[string]interface {}", item))?;
    map.get(key).map(KeyValue::of).ok_or_else(|| no_merge_key(item, key))
}

/// Refuses a patch list that is not a subsequence of `order`. Items to be deleted do not count.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().take_while(|_| count_step()) {
        if merge_key.is_some() && !item.is_object() {
            return Err(wrong_type("map[string]interface {}", item));
        }
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        let id = identity(item, merge_key)?;
        loop {
            let Some(next) = rest.next() else {
                return Err(malformed(&format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
                    printed_list(patch),
                    printed_list(order)
                )));
            };
            if identity(next, merge_key)? == id {
                break;
            }
        }
    }
    Ok(())
}
