//! Strategic merge patch: a merge patch that follows the merge keys and strategies of the types.
//!
//! Owns the merge of objects and its directives: `$patch` replaces or empties an object, `$retainKeys` drops unlisted
//! members, `$deleteFromPrimitiveList/...` and `$setElementOrder/...` stand beside the list that they apply to. Lists
//! are in `lists`, their order in `order`, the directives of the types in `meta`. Messages are the reference's.

mod lists;
mod meta;
mod order;

use orch_schema::budget::count_step;
use orch_schema::excerpt::part;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::{Map, SmolStr, Value};

use self::meta::Meta;
use super::go_text::{printed, type_name};
use super::{PatchError, PatchScope};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Merges `patch` into `target`, an object of the type `root`.
pub fn strategic_merge_patch(
    schema: &Schema,
    root: TypeId,
    target: &mut Value,
    patch: Value,
) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else {
        let text = format!("error decoding patch: expected an object, got {}", type_name(&patch));
        return Err(PatchError::Malformed(text));
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return Ok(()) };
    Merger { schema }.merge(target, patch, Meta::Struct(schema.get(root)))
}

/// The members of an object of the type `root` that `patch` may read or change: its own members, at any depth. An
/// object with a directive, or with the patch strategy `replace`, is reached as a whole.
pub fn strategic_scope(schema: &Schema, root: TypeId, patch: &Value) -> PatchScope {
    scope(schema, Meta::Struct(schema.get(root)), patch)
}

fn scope(schema: &Schema, meta: Meta<'_>, patch: &Value) -> PatchScope {
    let Value::Object(patch) = patch else { return PatchScope::Whole };
    if patch.is_empty() || patch.len() > PatchScope::MEMBERS_MAX {
        return PatchScope::Whole;
    }
    // few: the members of an object are mostly fields.
    if patch.keys().any(|key| key.starts_with('$')) {
        return PatchScope::Whole;
    }
    let below = |(key, value): (&SmolStr, &Value)| {
        let scope = match meta.field(schema, key) {
            Ok((inner, strategy)) if !strategy.replace => scope(schema, inner, value),
            _ => PatchScope::Whole,
        };
        (key.clone(), scope)
    };
    PatchScope::Members(patch.iter().map(below).collect())
}

struct Merger<'s> {
    schema: &'s Schema,
}

impl<'s> Merger<'s> {
    /// Merges an object.
    fn merge(&self, target: &mut Map, mut patch: Map, meta: Meta<'s>) -> Result<(), PatchError> {
        if let Some(directive) = patch.swap_remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => {
                    *target = patch;
                    Ok(())
                }
                Some("delete") => {
                    target.clear();
                    Ok(())
                }
                _ => Err(unknown_directive(directive, patch)),
            };
        }
        retain_keys(target, &mut patch)?;
        self.merge_ordered_lists(target, &mut patch, meta)?;
        let mut members = patch.into_iter().take_while(|_| count_step());
        members.try_for_each(|(key, value)| self.merge_field(target, key, value, meta))
    }

    fn merge_field(
        &self,
        target: &mut Map,
        key: SmolStr,
        value: Value,
        meta: Meta<'s>,
    ) -> Result<(), PatchError> {
        let deletes = key.starts_with(DELETE_FROM_PRIMITIVE_LIST);
        let key = if deletes {
            list_of_directive(&key, DELETE_FROM_PRIMITIVE_LIST)
                .ok_or_else(|| malformed("invalid patch format of primitive list"))?
                .into()
        } else {
            key
        };
        if value.is_null() {
            target.swap_remove(&key);
            return Ok(());
        }
        match (target.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(patch)) => {
                let (inner, strategy) = meta.field(self.schema, &key)?;
                if strategy.replace {
                    *old = patch;
                    return Ok(());
                }
                self.merge(old, patch, inner)
            }
            (Some(Value::Array(old)), Value::Array(patch)) => {
                let (item, strategy) = meta.field(self.schema, &key)?;
                *old = self.merge_list(std::mem::take(old), patch, item, strategy, deletes)?;
                Ok(())
            }
            _ if deletes => Ok(()),
            (_, mut value) => {
                discard_nulls(&mut value);
                match without_directives(value) {
                    Some(value) => drop(target.insert(key, value)),
                    None => drop(target.swap_remove(&key)),
                }
                Ok(())
            }
        }
    }

    /// Merges each list with a `$setElementOrder` directive, and removes list and directive from the patch.
    fn merge_ordered_lists(
        &self,
        target: &mut Map,
        patch: &mut Map,
        meta: Meta<'s>,
    ) -> Result<(), PatchError> {
        let directives: Vec<SmolStr> =
            patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.swap_remove(&directive) else { continue };
            let Value::Array(order) = order else { return Err(wrong_type("[]interface {}", &order)) };
            let key = list_of_directive(&directive, SET_ELEMENT_ORDER)
                .ok_or_else(|| malformed("invalid patch format of setElementOrder list"))?;
            let old = list_in(target, key)?;
            let new = list_in(patch, key)?;
            let (item, strategy) = meta.field(self.schema, key)?;
            let merged = self.merge_in_order(old, new, &order, item, strategy)?;
            if let Some(merged) = merged {
                target.insert(key.to_owned(), Value::Array(merged));
            }
        }
        Ok(())
    }
}

/// Removes the list under `key` from `map` and returns it.
fn list_in(map: &mut Map, key: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match map.get_mut(key) {
        None => Ok(None),
        Some(Value::Array(items)) => {
            let items = std::mem::take(items);
            map.swap_remove(key);
            Ok(Some(items))
        }
        Some(other) => Err(wrong_type("[]interface {}", other)),
    }
}

/// Applies `$retainKeys`: the patch may only set listed members, and unlisted ones are dropped from `target`.
fn retain_keys(target: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let Some(keys) = patch.swap_remove(RETAIN_KEYS) else { return Ok(()) };
    let bad_format = || malformed("invalid patch format of retainKeys");
    let keys = keys.as_array().ok_or_else(bad_format)?;
    let retained: std::collections::BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_free = |key: &str, value: &Value| {
        value.is_null() || key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER)
    };
    // once: over one patch of one object; `retained` is a set.
    if patch.iter().any(|(key, value)| !is_free(key, value) && !retained.contains(key.as_str())) {
        return Err(bad_format());
    }
    // once: for each object of the patch; the retained ones are a set.
    target.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// The name of the list that a directive applies to: the text behind its slash.
fn list_of_directive<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// Drops null members, at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // once: for each object of the patch.
            map.retain(|_, value| !value.is_null());
            map.values_mut().take_while(|_| count_step()).for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().take_while(|_| count_step()).for_each(discard_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `value` without the objects that carry a `$patch` directive; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let members = map.into_iter().take_while(|_| count_step());
            let kept = members.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            let items = items.into_iter().take_while(|_| count_step());
            Some(Value::Array(items.filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

fn unknown_directive(directive: Value, mut patch: Map) -> PatchError {
    let shown = printed(&directive);
    patch.insert(DIRECTIVE.to_owned(), directive);
    let map = printed(&Value::Object(patch));
    malformed(&format!("unknown patch type: {} in map: {}", part(&shown), part(&map)))
}

fn no_merge_key(item: &Value, merge_key: &str) -> PatchError {
    let map = printed(item);
    malformed(&format!("map: {} does not contain declared merge key: {merge_key}", part(&map)))
}

fn wrong_type(expected: &str, actual: &Value) -> PatchError {
    malformed(&format!("expected a {expected}, but received a {}", type_name(actual)))
}

fn malformed(text: &str) -> PatchError {
    PatchError::Malformed(text.to_owned())
}
