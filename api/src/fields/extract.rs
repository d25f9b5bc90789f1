//! The field set of an applied configuration.

use orch_schema::budget::count_step;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::{Map, Value};

use super::element::PathElement;
use super::set::FieldSet;
use super::shape::{ItemError, Shape, element_of_item, is_declared};

/// Every leaf, item and map entry of `value`, an object of the type `root`. An object with declared fields is not
/// itself a member unless it is empty.
pub fn field_set(schema: &Schema, root: TypeId, value: &Value) -> Result<FieldSet, ItemError> {
    let mut set = FieldSet::EMPTY;
    collect(schema, Shape::of_type(schema, root), value, &mut set)?;
    Ok(set)
}

/// Collects the members below a value; returns whether the value itself is a leaf.
fn collect<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    value: &Value,
    out: &mut FieldSet,
) -> Result<bool, ItemError> {
    match (shape, value) {
        (Shape::Scalar | Shape::Atomic, _) => return Ok(true),
        (Shape::Struct(_) | Shape::Map(_), Value::Object(map)) => {
            for (name, value) in map.iter().take_while(|_| count_step()) {
                let Some(slot) = shape.member(name) else { continue };
                let is_field = matches!(shape, Shape::Struct(ty) if is_declared(ty, name));
                let mut below = FieldSet::EMPTY;
                let is_leaf = collect(schema, slot.shape(schema, Some(value)), value, &mut below)?;
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                out.push(PathElement::field(name), is_leaf || is_empty || !is_field, below);
            }
        }
        (Shape::Set | Shape::Keyed { .. }, Value::Array(items)) => collect_items(schema, shape, items, out)?,
        (Shape::Struct(_) | Shape::Map(_) | Shape::Set | Shape::Keyed { .. }, _) => {}
    }
    out.seal();
    Ok(false)
}

/// Duplicate items count as one leaf each.
fn collect_items<'s>(
    schema: &'s Schema,
    shape: Shape<'s>,
    items: &[Value],
    out: &mut FieldSet,
) -> Result<(), ItemError> {
    let mut placed = Vec::with_capacity(items.len());
    for item in items.iter().take_while(|_| count_step()) {
        placed.push((element_of_item(schema, shape, item)?, item));
    }
    placed.sort_by(|a, b| a.0.cmp(&b.0));
    for group in placed.chunk_by(|a, b| a.0 == b.0).take_while(|_| count_step()) {
        let mut below = FieldSet::EMPTY;
        if let ([(_, item)], Some(slot)) = (group, shape.item()) {
            collect(schema, slot.shape(schema, Some(item)), item, &mut below)?;
        }
        out.push(group[0].0.clone(), true, below);
    }
    Ok(())
}

/// `set` with every declared field on the path to a member as a member, too. `merge::remove` needs such sets: removing
/// a parent then removes the field that holds it.
pub(super) fn with_named_fields<'s>(
    schema: &'s Schema,
    shape: Option<Shape<'s>>,
    set: &FieldSet,
) -> FieldSet {
    let mut out = FieldSet::EMPTY;
    for entry in set.entries().iter().take_while(|_| count_step()) {
        let is_named = match (&entry.element, shape) {
            (PathElement::Field(name), Some(Shape::Struct(ty))) => is_declared(ty, name),
            _ => false,
        };
        let below = shape.and_then(|shape| shape.below(schema, &entry.element));
        out.push(
            entry.element.clone(),
            entry.member || is_named,
            with_named_fields(schema, below, &entry.children),
        );
    }
    out
}

/// Adapts a stored set to the current tables: the members of a value that has become atomic are replaced by the value.
pub(super) fn reconcile<'s>(schema: &'s Schema, shape: Shape<'s>, set: &mut FieldSet) {
    set.for_each_entry_mut(&mut |element, member, children| {
        if children.is_empty() {
            return;
        }
        match shape.below(schema, element) {
            Some(Shape::Atomic) => {
                *member = true;
                *children = FieldSet::EMPTY;
            }
            Some(below) => reconcile(schema, below, children),
            None => {}
        }
    });
}
