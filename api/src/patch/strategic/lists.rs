//! Lists under a strategic merge patch: replaced, merged as a set, or merged item by item.

use std::collections::BTreeMap;

use orch_schema::budget::count_step;
use orch_schema::types::PatchStrategy;
use orch_schema::value::Value;

use super::meta::Meta;
use super::order::{Arrangement, check_order};
use super::{DIRECTIVE, Merger, malformed, no_merge_key, unknown_directive, without_directives, wrong_type};
use crate::fields::KeyValue;
use crate::patch::PatchError;
use crate::patch::go_text::{printed_list, type_name};

impl<'s> Merger<'s> {
    /// Merges `patch` into `old`; `deletes`: the items of `patch` are to be removed.
    pub(super) fn merge_list(
        &self,
        old: Vec<Value>,
        patch: Vec<Value>,
        item: Meta<'s>,
        strategy: &'s PatchStrategy,
        deletes: bool,
    ) -> Result<Vec<Value>, PatchError> {
        if !strategy.merge && !deletes {
            return Ok(patch);
        }
        if old.is_empty() && patch.is_empty() {
            return Ok(old);
        }
        match (items_are_objects(&old, &patch)?, strategy.merge_key.as_deref()) {
            (true, Some(key)) => self.merge_objects(old, patch, item, key),
            (true, None) => Err(malformed("cannot merge lists without merge key for struct")),
            (false, _) if deletes => Ok(without(old, &patch)),
            (false, _) => merge_scalars(old, patch),
        }
    }

    /// [`Merger::merge_list`] with the result in `order`; `None` if there is neither list.
    pub(super) fn merge_in_order(
        &self,
        old: Option<Vec<Value>>,
        patch: Option<Vec<Value>>,
        order: &[Value],
        item: Meta<'s>,
        strategy: &'s PatchStrategy,
    ) -> Result<Option<Vec<Value>>, PatchError> {
        let key = strategy.merge_key.as_deref();
        check_order(patch.as_deref().unwrap_or_default(), order, key)?;
        let by_objects = match (&old, &patch) {
            (None, None) => return Ok(None),
            (old, patch) if old.iter().chain(patch).all(Vec::is_empty) => return Ok(Some(Vec::new())),
            (old, patch) => {
                items_are_objects(old.as_deref().unwrap_or_default(), patch.as_deref().unwrap_or_default())?
            }
        };
        let key = key.filter(|_| by_objects);
        let arrangement = Arrangement::new(order, old.as_deref().unwrap_or_default(), key)?;
        let merged = match (old, patch) {
            (Some(old), Some(patch)) => self.merge_list(old, patch, item, strategy, false)?,
            (Some(old), None) => old,
            (None, patch) => patch.into_iter().flatten().filter_map(without_directives).collect(),
        };
        arrangement.arrange(merged).map(Some)
    }

    fn merge_objects(
        &self,
        old: Vec<Value>,
        patch: Vec<Value>,
        item: Meta<'s>,
        key: &str,
    ) -> Result<Vec<Value>, PatchError> {
        let Parts { mut items, patch } = take_out_directives(old, patch, key)?;
        let arrangement = Arrangement::new(&patch, &items, Some(key))?;
        let mut places: BTreeMap<KeyValue, usize> = BTreeMap::new();
        for (at, old) in items.iter().take_while(|_| count_step()).enumerate() {
            let old =
                old.as_object().ok_or_else(|| malformed(&format!("value for key {at} is not a map")))?;
            if let Some(value) = old.get(key) {
                places.entry(KeyValue::of(value)).or_insert(at);
            }
        }
        for new in patch.into_iter().take_while(|_| count_step()) {
            let value = new.get(key).ok_or_else(|| no_merge_key(&new, key))?;
            let place = KeyValue::of(value);
            match (places.get(&place), new) {
                (Some(&at), Value::Object(new)) => {
                    if let Value::Object(old) = &mut items[at] {
                        self.merge(old, new, item)?;
                    }
                }
                (_, new) => {
                    places.insert(place, items.len());
                    items.push(new);
                }
            }
        }
        arrangement.arrange(items)
    }
}

/// The old items that stay, and the patch items without a directive.
struct Parts {
    items: Vec<Value>,
    patch: Vec<Value>,
}

/// Carries out the `$patch` directives among the items of a patch.
fn take_out_directives(mut old: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<Parts, PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = std::collections::BTreeSet::new();
    let mut replaces = false;
    for new in patch.into_iter().take_while(|_| count_step()) {
        let Value::Object(mut map) = new else { return Err(wrong_type("map[string]interface {}", &new)) };
        match map.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(Value::Object(map)),
            Some("delete") => match map.get(key) {
                Some(value) => drop(deleted.insert(KeyValue::of(value))),
                None => return Err(no_merge_key(&Value::Object(map), key)),
            },
            Some("replace") => replaces = true,
            Some("merge") => return Err(malformed("merging lists cannot yet be specified in the patch")),
            Some(_) => {
                let directive = map.swap_remove(DIRECTIVE).unwrap_or_default();
                return Err(unknown_directive(directive, map));
            }
        }
    }
    if replaces {
        return Ok(Parts { items: plain, patch: Vec::new() });
    }
    if !deleted.is_empty() {
        // set: `deleted` is one.
        old.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(&KeyValue::of(value))));
    }
    Ok(Parts { items: old, patch: plain })
}

/// The union of both lists; items of the patch come in its order.
fn merge_scalars(old: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    let arrangement = Arrangement::new(&patch, &old, None)?;
    let mut seen = std::collections::BTreeSet::new();
    let all = old.into_iter().chain(patch).take_while(|_| count_step());
    let merged = all.filter(|item| seen.insert(KeyValue::of(item))).collect();
    arrangement.arrange(merged)
}

fn without(old: Vec<Value>, gone: &[Value]) -> Vec<Value> {
    let gone: std::collections::BTreeSet<KeyValue> =
        gone.iter().take_while(|_| count_step()).map(KeyValue::of).collect();
    // set: `gone` is one.
    old.into_iter().filter(|item| !gone.contains(&KeyValue::of(item))).collect()
}

/// Whether the items of both lists are objects; all must be of one type, and none a list.
fn items_are_objects(old: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut names = old.iter().chain(patch).map(type_name);
    let first = names.next();
    if first == Some("[]interface {}") {
        return Err(PatchError::CannotApply("lists of lists are not supported".to_owned()));
    }
    // once: one pass over a list.
    if names.any(|name| Some(name) != first) || first == Some("null") {
        let lists = format!("[{} {}]", printed_list(old), printed_list(patch));
        return Err(malformed(&format!("list element types are not identical: {lists}")));
    }
    Ok(first == Some("map[string]interface {}"))
}
