//! Updates of the encoded `managedFields` in place.
//!
//! Owns the effect of a write on each entry. Decoding all field sets into tries and encoding them again would cost more
//! than everything else in this module, so only entries that lose or gain fields are decoded. In the common case, a
//! writer that changes fields it already owns, a time is updated and nothing is decoded.
//!
//! Invariant: stored managed fields are in canonical form (this crate wrote them), so a key can be found by its text.

use orch_schema::types::Schema;
use orch_schema::value::Value;

use super::element::PathElement;
use super::extract::reconcile;
use super::fold::{UPDATE_MANAGERS_MAX, fold_old_updates};
use super::managed::{Managed, ManagedEntry, Operation};
use super::set::{Entry, FieldSet};
use super::shape::Shape;
use super::update::Writer;

/// Adds `changed` to the writer's entry, and removes `changed` and `removed` from all other entries in the writer's
/// version. Returns the new list; `None` if it is empty.
pub(super) fn record<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    list: Vec<Value>,
    changed: FieldSet,
    removed: &FieldSet,
    writer: &Writer<'_>,
) -> Option<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(list.len() + 1);
    let mut key = String::new();
    let mut is_recorded = changed.is_empty();
    for mut entry in list {
        if text(&entry, "apiVersion") != writer.api_version {
            out.push(entry);
            continue;
        }
        let gains = !is_recorded && is_of(&entry, writer);
        is_recorded |= gains;
        let loses_removed = has(&entry, removed, Quantity::Any, &mut key);
        let is_settled = if gains {
            !loses_removed && has(&entry, &changed, Quantity::All, &mut key) && renew_time(&mut entry, writer)
        } else {
            !loses_removed && !has(&entry, &changed, Quantity::Any, &mut key)
        };
        if is_settled {
            out.push(entry);
            continue;
        }
        // Stored entries were written by this module; an entry that cannot be decoded is dropped.
        let Ok(mut entry) = ManagedEntry::decode(0, &entry) else { continue };
        reconcile(schema, shape, &mut entry.set);
        entry.set.subtract(&changed);
        entry.set.subtract(removed);
        if gains {
            entry.set.unite(changed.clone());
            entry.time = Some(writer.now.to_owned());
        }
        if !entry.set.is_empty() {
            out.push(entry.encode());
        }
    }
    if !is_recorded {
        out.push(writer.entry(Operation::Update, changed).encode());
    }
    let updates = out.iter().filter(|entry| text(entry, "operation") == Operation::Update.as_str()).count();
    if updates > UPDATE_MANAGERS_MAX {
        out = folded(out);
    }
    out.sort_by(|a, b| order(a).cmp(&order(b)));
    if out.is_empty() { None } else { Some(Value::Array(out)) }
}

/// Position of the writer's apply entry, if there is one with exactly `set`, and all entries are in the writer's
/// version.
pub(super) fn own_place(list: &[Value], set: &FieldSet, writer: &Writer<'_>) -> Option<usize> {
    // once: one pass for each write.
    if list.iter().any(|entry| text(entry, "apiVersion") != writer.api_version) {
        return None;
    }
    let is_own = |entry: &Value| {
        text(entry, "operation") == Operation::Apply.as_str()
            && text(entry, "manager") == writer.name()
            && text(entry, "subresource") == writer.subresource
            && entry.get("time").is_some_and(Value::is_string)
    };
    // once: one pass for each write.
    let at = list.iter().position(is_own)?;
    let fields = list[at].get("fieldsV1")?;
    is_exactly(fields, set, false, &mut String::new()).then_some(at)
}

/// Whether the writer has no apply entry yet, and all entries are in its version.
pub(super) fn is_newcomer(list: &[Value], set: &FieldSet, writer: &Writer<'_>) -> bool {
    let is_other = |entry: &Value| {
        text(entry, "apiVersion") == writer.api_version
            && (text(entry, "operation") != Operation::Apply.as_str()
                || text(entry, "manager") != writer.name()
                || text(entry, "subresource") != writer.subresource)
    };
    !list.is_empty() && !set.is_empty() && list.iter().all(is_other)
}

/// Whether all stored sets fit the current tables: none has members below a value that has become atomic.
pub(super) fn are_current<'s>(schema: &'s Schema, shape: Shape<'s>, list: &[Value]) -> bool {
    list.iter().all(|entry| entry.get("fieldsV1").is_none_or(|fields| is_current(schema, shape, fields)))
}

fn is_current<'s>(schema: &'s Schema, shape: Shape<'s>, fields: &Value) -> bool {
    let Some(fields) = fields.as_object() else { return true };
    fields.iter().filter(|(_, below)| below.as_object().is_some_and(|below| !below.is_empty())).all(
        |(key, below)| {
            let slot = match key.strip_prefix("f:") {
                Some(name) => shape.member(name),
                None => shape.item(),
            };
            match slot.map(|slot| slot.shape(schema, None)) {
                Some(Shape::Atomic) => false,
                Some(inner) => is_current(schema, inner, below),
                None => true,
            }
        },
    )
}

/// Adds an apply entry of the writer with `set`; it has a time if the apply `changes` the object.
pub(super) fn join(list: &mut Vec<Value>, set: &FieldSet, changes: bool, writer: &Writer<'_>) {
    let mut entry = writer.entry(Operation::Apply, set.clone());
    entry.time.take_if(|_| !changes);
    list.push(entry.encode());
    list.sort_by(|a, b| order(a).cmp(&order(b)));
}

/// Whether an entry other than the one at `own` has members of `changed` or `removed`.
pub(super) fn touches_others(
    list: &[Value],
    own: Option<usize>,
    changed: &FieldSet,
    removed: &FieldSet,
) -> bool {
    let mut key = String::new();
    let mut others = list.iter().enumerate().filter(|(at, _)| Some(*at) != own).map(|(_, entry)| entry);
    // once: one pass over the other owners.
    others.any(|entry| {
        has(entry, changed, Quantity::Any, &mut key) || has(entry, removed, Quantity::Any, &mut key)
    })
}

/// Sets the time of the entry at `at`, and sorts the list again.
pub(super) fn renew(list: &mut [Value], at: usize, writer: &Writer<'_>) {
    if renew_time(&mut list[at], writer) {
        list.sort_by(|a, b| order(a).cmp(&order(b)));
    }
}

fn folded(list: Vec<Value>) -> Vec<Value> {
    let list = Value::Array(list);
    let Ok(mut managed) = Managed::decode(Some(&list)) else { return Vec::new() };
    fold_old_updates(&mut managed);
    managed.entries.into_iter().map(ManagedEntry::encode).collect()
}

/// Sets the time of an entry; `false` if it has none.
fn renew_time(entry: &mut Value, writer: &Writer<'_>) -> bool {
    match entry.get_mut("time") {
        Some(Value::String(time)) => {
            *time = writer.now.into();
            true
        }
        // A new member would not be in its canonical position.
        _ => false,
    }
}

fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_of(entry: &Value, writer: &Writer<'_>) -> bool {
    text(entry, "operation") == Operation::Update.as_str()
        && text(entry, "manager") == writer.name()
        && text(entry, "apiVersion") == writer.api_version
        && text(entry, "subresource") == writer.subresource
}

/// Sort key of entries, see [`super::managed`]; `Apply` sorts before `Update`, no time before any.
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Any,
    All,
}

/// Whether any or all members of `set` are in the set of a stored entry. `key` is scratch space.
fn has(entry: &Value, set: &FieldSet, quantity: Quantity, key: &mut String) -> bool {
    entry.get("fieldsV1").is_some_and(|fields| holds(fields, set, quantity, key))
}

fn holds(fields: &Value, set: &FieldSet, quantity: Quantity, key: &mut String) -> bool {
    let mut check = |entry: &Entry| {
        key.clear();
        entry.element.write_wire(key);
        let Some(below) = fields.get(key.as_str()) else { return false };
        let is_member = below.as_object().is_some_and(|map| map.is_empty() || map.contains_key("."));
        match quantity {
            // A value that is a leaf now may be stored by its former members.
            Quantity::Any => {
                entry.member && (is_member || entry.children.is_empty())
                    || holds(below, &entry.children, quantity, key)
            }
            Quantity::All => (!entry.member || is_member) && holds(below, &entry.children, quantity, key),
        }
    };
    match quantity {
        // A large change is compared with possibly thousands of entries, so iterate over the smaller side.
        Quantity::Any if fields.as_object().is_some_and(|map| map.len() < set.entries().len()) => {
            let stored = fields.as_object().into_iter().flatten();
            let mut named = stored.filter_map(|(key, _)| PathElement::parse(key).ok());
            // set: each is looked up in the other.
            named.any(|element| set.entry(&element).is_some_and(&mut check))
        }
        // set: each is looked up in a map.
        Quantity::Any => set.entries().iter().any(&mut check),
        Quantity::All => set.entries().iter().all(&mut check),
    }
}

/// Whether a stored set has the members of `set` and no other.
fn is_exactly(fields: &Value, set: &FieldSet, is_member: bool, key: &mut String) -> bool {
    let Some(map) = fields.as_object() else { return false };
    if set.is_empty() {
        return map.is_empty();
    }
    map.len() == set.entries().len() + usize::from(is_member)
        && map.contains_key(".") == is_member
        && set.entries().iter().all(|entry| {
            key.clear();
            entry.element.write_wire(key);
            let below = map.get(key.as_str());
            below.is_some_and(|below| is_exactly(below, &entry.children, entry.member, key))
        })
}
