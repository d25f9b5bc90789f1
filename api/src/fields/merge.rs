//! Merges an applied configuration into an object, and removes fields from it.
//!
//! Owns the structure of server-side apply: leaves come from the configuration, maps merge by key and lists by item,
//! and items of the configuration come in its order. Nothing is removed by a merge; [`remove`] does that.

use std::collections::{BTreeMap, BTreeSet};

use orch_schema::budget::count_step;
use orch_schema::types::Schema;
use orch_schema::value::{Map, Value};

use super::element::PathElement;
use super::set::{Entry, FieldSet};
use super::shape::{ItemError, Shape, element_of_item, is_same_item, same};

/// `live` with all values of `config` merged in.
pub(super) fn merge<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    live: &Value,
    config: &Value,
) -> Result<Value, ItemError> {
    match shape {
        Shape::Scalar | Shape::Atomic => Ok(config.clone()),
        Shape::Struct(_) | Shape::Map(_) => {
            let empty = Map::new();
            let (old, new) = (live.as_object().unwrap_or(&empty), config.as_object().unwrap_or(&empty));
            if old.is_empty() && new.is_empty() {
                return Ok(config.clone());
            }
            merge_maps(schema, shape, old, new)
        }
        Shape::Set | Shape::Keyed { .. } => {
            let old = live.as_array().map_or(&[][..], Vec::as_slice);
            let new = config.as_array().map_or(&[][..], Vec::as_slice);
            if old.is_empty() && new.is_empty() {
                return Ok(config.clone());
            }
            merge_lists(schema, shape, old, new)
        }
    }
}

/// The parts of an object that a merge changed, before and after. List items keep their key fields.
pub(super) struct Difference {
    pub(super) old: Value,
    pub(super) new: Value,
}

/// [`merge`] in place; `None` if nothing changes. Comparing the difference gives the same field sets as comparing the
/// objects.
pub(super) fn merge_into<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    live: &mut Value,
    config: &Value,
) -> Result<Option<Difference>, ItemError> {
    match (shape, &mut *live, config) {
        (Shape::Struct(_) | Shape::Map(_), Value::Object(old), Value::Object(new)) if !old.is_empty() => {
            merge_members(schema, shape, old, new)
        }
        (Shape::Keyed { keys, .. }, Value::Array(old), Value::Array(new))
            if old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| is_same_item(schema, shape, old, new)) =>
        {
            merge_items(schema, shape, keys, old, new)
        }
        _ => {
            if same(live, config) {
                return Ok(None);
            }
            let new = merge(schema, shape, live, config)?;
            let old = std::mem::replace(live, new.clone());
            Ok(Some(Difference { old, new }))
        }
    }
}

fn merge_members<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    live: &mut Map,
    config: &Map,
) -> Result<Option<Difference>, ItemError> {
    let (mut olds, mut news) = (Map::new(), Map::new());
    for (name, new) in config.iter().take_while(|_| count_step()) {
        let difference = match (live.get_mut(name), shape.member(name)) {
            (Some(old), Some(slot)) => merge_into(schema, slot.shape(schema, Some(new)), old, new)?,
            (Some(old), None) if same(old, new) => None,
            (Some(old), None) => {
                Some(Difference { old: std::mem::replace(old, new.clone()), new: new.clone() })
            }
            (None, _) => {
                live.insert(name.clone(), new.clone());
                news.insert(name.clone(), new.clone());
                None
            }
        };
        if let Some(Difference { old, new }) = difference {
            olds.insert(name.clone(), old);
            news.insert(name.clone(), new);
        }
    }
    let changes = !news.is_empty();
    Ok(changes.then_some(Difference { old: Value::Object(olds), new: Value::Object(news) }))
}

fn merge_items<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    keys: &[Box<str>],
    live: &mut [Value],
    config: &[Value],
) -> Result<Option<Difference>, ItemError> {
    let (mut olds, mut news) = (Vec::new(), Vec::new());
    for (item, new) in live.iter_mut().zip(config).take_while(|_| count_step()) {
        let Some(slot) = shape.item() else { continue };
        let Some(mut difference) = merge_into(schema, slot.shape(schema, Some(new)), item, new)? else {
            continue;
        };
        for side in [&mut difference.old, &mut difference.new] {
            let Value::Object(side) = side else { continue };
            for key in keys {
                if let Some(value) = item.get(&**key).filter(|_| !side.contains_key(key)) {
                    side.insert(key.to_string(), value.clone());
                }
            }
        }
        olds.push(difference.old);
        news.push(difference.new);
    }
    let changes = !news.is_empty();
    Ok(changes.then_some(Difference { old: Value::Array(olds), new: Value::Array(news) }))
}

/// Whether `live` has all values of `config`, so that merging would change nothing. If list items are in other
/// positions this is false, and the merge itself decides.
pub(super) fn holds<'s>(schema: &'s Schema, shape: Shape<'s>, live: &Value, config: &Value) -> bool {
    match (shape, live, config) {
        (Shape::Struct(_) | Shape::Map(_), Value::Object(old), Value::Object(new)) if !old.is_empty() => new
            .iter()
            .take_while(|_| count_step())
            .all(|(name, new)| match (old.get(name), shape.member(name)) {
                (Some(old), Some(slot)) => holds(schema, slot.shape(schema, Some(new)), old, new),
                (Some(old), None) => same(old, new),
                (None, _) => false,
            }),
        (Shape::Keyed { .. }, Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).take_while(|_| count_step()).all(|(old, new)| {
                let inner = shape.item().map(|slot| slot.shape(schema, Some(new)));
                is_same_item(schema, shape, old, new)
                    && inner.is_some_and(|inner| holds(schema, inner, old, new))
            })
        }
        _ => same(live, config),
    }
}

fn merge_maps<'s>(schema: &'s Schema, shape: Shape<'s>, old: &Map, new: &Map) -> Result<Value, ItemError> {
    let mut out = Map::with_capacity(old.len().max(new.len()));
    for (name, old) in old.iter().take_while(|_| count_step()) {
        let merged = match (new.get(name), shape.member(name)) {
            (Some(new), Some(slot)) => merge(schema, slot.shape(schema, Some(new)), old, new)?,
            (Some(new), None) => new.clone(),
            (None, _) => old.clone(),
        };
        out.insert(name.clone(), merged);
    }
    for (name, new) in new.iter().take_while(|_| count_step()).filter(|(name, _)| !old.contains_key(name)) {
        out.insert(name.clone(), new.clone());
    }
    Ok(Value::Object(out))
}

/// Walks both lists at once. Items that only the object has keep their place; items in both come in the order of the
/// configuration.
fn merge_lists<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    old: &[Value],
    new: &[Value],
) -> Result<Value, ItemError> {
    let elements = |items: &[Value]| -> Result<Vec<PathElement>, ItemError> {
        items.iter().take_while(|_| count_step()).map(|item| element_of_item(schema, shape, item)).collect()
    };
    let (old_elements, new_elements) = (elements(old)?, elements(new)?);
    // A duplicate item cannot be merged with: the configuration's item replaces it.
    let mut old_places: BTreeMap<&PathElement, Option<usize>> = BTreeMap::new();
    for (at, element) in old_elements.iter().enumerate() {
        old_places.entry(element).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let in_new: BTreeSet<&PathElement> = new_elements.iter().collect();
    let mut shared = new_elements.iter().filter(|element| old_places.contains_key(element)).peekable();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    while count_step() && (l < old.len() || r < new.len()) {
        if let Some(element) = old_elements.get(l) {
            if !in_new.contains(element) {
                out.push(old[l].clone());
                l += 1;
                continue;
            }
            if new_elements.get(r) == Some(element) {
                l += 1;
            } else if shared.peek().is_some_and(|next| *next != element) {
                // Another shared item is due first; this one comes where the configuration has it.
                l += 1;
                continue;
            } else if merged.contains(element) {
                l += 1;
            }
        }
        if let Some(element) = new_elements.get(r) {
            shared.next_if_eq(&element);
            merged.insert(element);
            let place = old_places.get(element).copied().flatten();
            out.push(match (place, shape.item()) {
                (Some(at), Some(slot)) => {
                    merge(schema, slot.shape(schema, Some(&new[r])), &old[at], &new[r])?
                }
                _ => new[r].clone(),
            });
            r += 1;
        }
    }
    Ok(Value::Array(out))
}

/// Treatment of a map or list that loses its last entry.
#[derive(Clone, Copy)]
pub(super) enum Emptied<'h> {
    /// It becomes null: the steps of pruning need to see that it was present.
    Null,
    /// The value is removed, unless it is an object that a manager holds as such: such an object stays without members. The parent
    /// stays, even if that was its only content.
    Gone {
        /// The fields of all managers.
        held: &'h FieldSet,
    },
}

impl<'h> Emptied<'h> {
    /// The treatment of what is below the member `name`, and whether a manager holds that member.
    fn below_field(self, name: &str) -> (Self, bool) {
        self.below(|held| held.entry_of_field(name))
    }

    fn below(self, entry: impl FnOnce(&'h FieldSet) -> Option<&'h Entry>) -> (Self, bool) {
        static NOTHING: FieldSet = FieldSet::EMPTY;
        let Emptied::Gone { held } = self else { return (self, false) };
        let entry = entry(held);
        let held = entry.map_or(&NOTHING, |entry| &entry.children);
        (Emptied::Gone { held }, entry.is_some_and(|entry| entry.member))
    }
}

/// Removes the members of `gone` from `value`. Items that stay keep their keys.
pub(super) fn remove<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    value: &Value,
    gone: &FieldSet,
    emptied: Emptied<'_>,
) -> Value {
    match (shape, value) {
        (Shape::Struct(_) | Shape::Map(_), Value::Object(map)) => {
            let mut out = Map::with_capacity(map.len());
            let mut kept = 0;
            for (name, value) in map.iter().take_while(|_| count_step()) {
                let inner = shape.member(name).map(|slot| slot.shape(schema, Some(value)));
                let (below, is_held) = emptied.below_field(name);
                let Some(rest) = without(schema, inner, value, gone.entry_of_field(name), below) else {
                    continue;
                };
                kept += 1;
                match (rest, emptied) {
                    (Value::Null, Emptied::Gone { .. }) if is_held && value.is_object() => {
                        out.insert(name.clone(), Value::Object(Map::new()));
                    }
                    (Value::Null, Emptied::Gone { .. }) if !value.is_null() => {}
                    (rest, _) => {
                        out.insert(name.clone(), rest);
                    }
                }
            }
            if kept == 0 { Value::Null } else { Value::Object(out) }
        }
        (Shape::Set | Shape::Keyed { .. }, Value::Array(items)) => {
            let mut out = Vec::with_capacity(items.len());
            for item in items.iter().take_while(|_| count_step()) {
                let element = element_of_item(schema, shape, item).ok();
                let entry = element.as_ref().and_then(|element| gone.entry(element));
                let inner = shape.item().map(|slot| slot.shape(schema, Some(item)));
                let (below, _) = emptied.below(|held| held.entry(element.as_ref()?));
                let rest = without(schema, inner, item, entry, below);
                out.extend(rest.map(|rest| with_keys(shape, item, rest)));
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
        // The set is from a time when this leaf had members; removing those removes the leaf.
        (Shape::Atomic | Shape::Struct(_) | Shape::Map(_) | Shape::Set | Shape::Keyed { .. }, _) => {
            Value::Null
        }
        (Shape::Scalar, _) => value.clone(),
    }
}

/// The rest of `item` with its keys: an item that is not itself removed cannot be without them.
fn with_keys(shape: Shape<'_>, item: &Value, rest: Value) -> Value {
    let (Shape::Keyed { keys, .. }, Value::Object(item)) = (shape, item) else { return rest };
    let mut rest = match rest {
        Value::Object(rest) => rest,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return rest,
    };
    for key in keys {
        if let Some(value) = item.get(key).filter(|_| !rest.contains_key(key)) {
            rest.insert(key.to_string(), value.clone());
        }
    }
    Value::Object(rest)
}

/// The entry after the removal, null if it lost all its content; `None` if it is itself removed.
fn without<'s>(
    schema: &'s Schema,
    shape: Option<Shape<'s>>,
    value: &Value,
    entry: Option<&Entry>,
    emptied: Emptied<'_>,
) -> Option<Value> {
    match (entry, shape) {
        (Some(entry), _) if entry.member => None,
        (Some(entry), Some(shape)) => Some(remove(schema, shape, value, &entry.children, emptied)),
        (Some(_) | None, _) => Some(value.clone()),
    }
}
