//! The difference between two states of an object, as field sets.
//!
//! Owns the comparison by which managed fields are updated. It reads both values in place and builds path elements only
//! for differences. A field that is encoded even when empty counts as present on both sides, so that the first write
//! does not "add" `spec` or an empty list.

use orch_rules::validate::tree::ParallelLookup;
use orch_schema::budget::count_step;
use orch_schema::types::{Field, ObjectType, Schema, TypeId};
use orch_schema::value::{Map, Value};

use super::element::PathElement;
use super::set::FieldSet;
use super::shape::{self, ItemError, Shape, Slot, for_each_emitted, same};
use super::unowned::UNOWNED_METADATA;

/// The differences between an old and a new state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that are new or have another value.
    pub changed: FieldSet,
    /// Fields that only the old state has.
    pub removed: FieldSet,
}

/// Compares two objects of the type `root`, except for fields without owners (`apiVersion`, `kind`, the identity in
/// `metadata`).
pub fn compare(schema: &Schema, root: TypeId, old: &Value, new: &Value) -> Result<Comparison, ItemError> {
    let walker = Walker { schema };
    let mut out = Node::default();
    let ty = schema.get(root);
    let (old, new) = (object(Some(old)), object(Some(new)));
    walker.fields(ty, Some(old), Some(new), Level::Root, &mut out)?;
    Ok(Comparison { changed: out.changed, removed: out.removed })
}

/// Level of the object, by which fields without owners are skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Inner,
}

impl Level {
    fn skips(self, name: &str) -> bool {
        match self {
            Level::Root => name == "apiVersion" || name == "kind",
            Level::Metadata => UNOWNED_METADATA.contains(&name),
            Level::Inner => false,
        }
    }

    fn below(self, name: &str) -> Level {
        if self == Level::Root && name == "metadata" { Level::Metadata } else { Level::Inner }
    }
}

/// The differences of one value and its members or items.
#[derive(Default)]
struct Node {
    changed: FieldSet,
    removed: FieldSet,
    self_changed: bool,
    self_removed: bool,
}

impl Node {
    fn take(&mut self, element: impl FnOnce() -> PathElement, child: Node) {
        let Node { changed, removed, self_changed, self_removed } = child;
        let any_changed = self_changed || !changed.is_empty();
        let any_removed = self_removed || !removed.is_empty();
        if !any_changed && !any_removed {
            return;
        }
        let element = element();
        if any_changed && any_removed {
            self.changed.push(element.clone(), self_changed, changed);
            self.removed.push(element, self_removed, removed);
        } else if any_changed {
            self.changed.push(element, self_changed, changed);
        } else {
            self.removed.push(element, self_removed, removed);
        }
    }

    fn seal(&mut self) {
        self.changed.seal();
        self.removed.seal();
    }

    /// Compares a value that is a leaf.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.self_changed = true,
            (Some(_), None) => self.self_removed = true,
            (Some(old), Some(new)) => self.self_changed |= !same(old, new),
        }
    }
}

struct Walker<'s> {
    schema: &'s Schema,
}

impl<'s> Walker<'s> {
    /// Compares one value; at least one side is present.
    fn place(
        &self,
        slot: Slot<'s>,
        old: Option<&Value>,
        new: Option<&Value>,
        level: Level,
    ) -> Result<Node, ItemError> {
        let mut node = Node::default();
        if matches!((old, new), (Some(old), Some(new)) if std::ptr::eq(old, new)) {
            return Ok(node);
        }
        let shape = slot.shape(self.schema, new.or(old));
        let has_changed_form = is_object(old) != is_object(new) && old.is_some() && new.is_some();
        let is_any_null = old.is_some_and(Value::is_null) || new.is_some_and(Value::is_null);
        if has_changed_form && (slot.is_untyped() || slot.takes_any_form() && !is_any_null) {
            self.changed_form(slot, old, new, &mut node)?;
        } else {
            self.shaped(shape, old, new, level, &mut node)?;
        }
        if old.is_none() {
            node.self_changed = true;
        } else if new.is_none() {
            node.self_removed = true;
        }
        Ok(node)
    }

    /// Compares content of any form that became an object or stopped being one: its entries are added or removed, and the
    /// value itself changes unless one side is null.
    fn changed_form(
        &self,
        slot: Slot<'s>,
        old: Option<&Value>,
        new: Option<&Value>,
        node: &mut Node,
    ) -> Result<(), ItemError> {
        let (before, after) = (object(old), object(new));
        let null = old.or(new).is_some_and(Value::is_null) || new.is_some_and(Value::is_null);
        node.self_changed = !null || before.is_empty() && after.is_empty();
        let the_object = if is_object(old) { old } else { new };
        match slot.shape(self.schema, the_object) {
            Shape::Struct(ty) => self.fields(ty, Some(before), Some(after), Level::Inner, node),
            Shape::Map(value) => self.entries(Slot::of(value), before, after, node),
            // `same` of values of two forms is false.
            Shape::Scalar | Shape::Atomic | Shape::Set | Shape::Keyed { .. } => Ok(()),
        }
    }

    fn shaped(
        &self,
        shape: Shape<'s>,
        old: Option<&Value>,
        new: Option<&Value>,
        level: Level,
        node: &mut Node,
    ) -> Result<(), ItemError> {
        match shape {
            Shape::Scalar | Shape::Atomic => node.leaf(old, new),
            Shape::Struct(ty) => {
                if self.is_empty_struct(ty, old) && self.is_empty_struct(ty, new) {
                    node.leaf(old, new);
                } else {
                    let (old, new) = (old.map(|v| object(Some(v))), new.map(|v| object(Some(v))));
                    self.fields(ty, old, new, level, node)?;
                }
            }
            Shape::Map(value) => {
                let value = Slot::of(value);
                let (before, after) = (object(old), object(new));
                if before.is_empty() && after.is_empty() {
                    node.leaf(old, new);
                } else {
                    self.entries(value, before, after, node)?;
                }
            }
            Shape::Set | Shape::Keyed { .. } => {
                let (before, after) = (list(old), list(new));
                if before.is_empty() && after.is_empty() {
                    node.leaf(old, new);
                } else {
                    self.items(shape, before, after, node)?;
                }
            }
        }
        Ok(())
    }

    /// Whether an object is absent, null, or encoded without any field.
    fn is_empty_struct(&self, ty: &'s ObjectType, value: Option<&Value>) -> bool {
        let Some(value) = value else { return true };
        if !object(Some(value)).is_empty() {
            return false;
        }
        let mut any = false;
        if !value.is_null() {
            for_each_emitted(ty, &mut |_| any = true);
        }
        !any
    }

    fn fields(
        &self,
        ty: &'s ObjectType,
        old: Option<&Map>,
        new: Option<&Map>,
        level: Level,
        node: &mut Node,
    ) -> Result<(), ItemError> {
        for (name, value) in
            new.into_iter().flatten().take_while(|_| count_step()).filter(|(name, _)| !level.skips(name))
        {
            let Some((slot, field)) = slot_of(ty, name) else { continue };
            let zero = absent(old, name, field);
            let before = old.and_then(|old| old.get(name)).or(zero.as_ref());
            let child = self.place(slot, before, Some(value), level.below(name))?;
            node.take(|| PathElement::field(name), child);
        }
        let only_old = |name: &str| !level.skips(name) && new.is_none_or(|new| !new.contains_key(name));
        for (name, value) in
            old.into_iter().flatten().take_while(|_| count_step()).filter(|(name, _)| only_old(name))
        {
            let Some((slot, field)) = slot_of(ty, name) else { continue };
            let zero = absent(new, name, field);
            let child = self.place(slot, Some(value), zero.as_ref(), level.below(name))?;
            node.take(|| PathElement::field(name), child);
        }
        if old.is_none() || new.is_none() {
            self.emitted_fields(ty, old.or(new), old.is_none(), node)?;
        }
        node.seal();
        Ok(())
    }

    /// Compares the fields of an added or removed object that are absent but encoded even when empty.
    fn emitted_fields(
        &self,
        ty: &'s ObjectType,
        present: Option<&Map>,
        is_added: bool,
        node: &mut Node,
    ) -> Result<(), ItemError> {
        let mut absent = Vec::new();
        for_each_emitted(ty, &mut |field| {
            if !present.is_some_and(|present| present.contains_key(&field.name)) {
                absent.push(field);
            }
        });
        for field in absent {
            let zero = field.empty_value();
            let (old, new) = if is_added { (None, Some(&zero)) } else { (Some(&zero), None) };
            let child = self.place(Slot::of_field(field), old, new, Level::Inner)?;
            node.take(|| PathElement::field(&field.name), child);
        }
        Ok(())
    }

    fn entries(&self, slot: Slot<'s>, old: &Map, new: &Map, node: &mut Node) -> Result<(), ItemError> {
        let (mut before, mut after) = (ParallelLookup::new(old), ParallelLookup::new(new));
        for (name, value) in new.iter().take_while(|_| count_step()) {
            let child = self.place(slot, before.get(name), Some(value), Level::Inner)?;
            node.take(|| PathElement::field(name), child);
        }
        for (name, value) in
            old.iter().take_while(|_| count_step()).filter(|(name, _)| after.get(name).is_none())
        {
            let child = self.place(slot, Some(value), None, Level::Inner)?;
            node.take(|| PathElement::field(name), child);
        }
        node.seal();
        Ok(())
    }

    fn items(
        &self,
        shape: Shape<'s>,
        old: &[Value],
        new: &[Value],
        node: &mut Node,
    ) -> Result<(), ItemError> {
        if old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new)) {
            return Ok(());
        }
        let mut items: Vec<Item<'_>> = Vec::with_capacity(old.len() + new.len());
        for (values, is_new) in [(old, false), (new, true)] {
            for value in values.iter().take_while(|_| count_step()) {
                let element = shape::element_of_item(self.schema, shape, value)?;
                items.push(Item { element, is_new, value });
            }
        }
        // Stable: the items of one element stay in list order, old before new.
        items.sort_by(|a, b| a.element.cmp(&b.element));
        for group in items.chunk_by(|a, b| a.element == b.element).take_while(|_| count_step()) {
            let at = group.partition_point(|item| !item.is_new);
            let child = self.group(shape, &group[..at], &group[at..])?;
            node.take(|| group[0].element.clone(), child);
        }
        Ok(())
    }

    /// Compares all items of one path element. If a side has duplicates, the element is one leaf.
    fn group(&self, shape: Shape<'s>, old: &[Item<'_>], new: &[Item<'_>]) -> Result<Node, ItemError> {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.item(shape, old.first().map(|item| item.value), new.first().map(|item| item.value))
            }
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len()
                    && old.iter().zip(new).all(|(old, new)| same(old.value, new.value));
                Ok(Node { self_changed: !equal, ..Node::default() })
            }
            ([_, _, ..], _) => {
                let mut node = match new.first() {
                    Some(item) => self.item(shape, None, Some(item.value))?,
                    None => Node::default(),
                };
                node.self_removed = true;
                Ok(node)
            }
            (_, [_, _, ..]) => {
                let mut node = match old.first() {
                    Some(item) => self.item(shape, Some(item.value), None)?,
                    None => Node::default(),
                };
                node.self_changed = true;
                Ok(node)
            }
        }
    }

    fn item(&self, shape: Shape<'s>, old: Option<&Value>, new: Option<&Value>) -> Result<Node, ItemError> {
        if let Some(item) = shape.item() {
            return self.place(item, old, new, Level::Inner);
        }
        let mut node = Node::default();
        node.leaf(old, new);
        Ok(node)
    }
}

/// The slot of a member of an object, and its field if it is declared.
fn slot_of<'s>(ty: &'s ObjectType, name: &str) -> Option<(Slot<'s>, Option<&'s Field>)> {
    match ty.field(name) {
        Some(field) => Some((Slot::of_field(field), Some(field))),
        None => Some((Slot::in_object(ty, name)?, None)),
    }
}

/// The value that is encoded for the absent member `name` of a present object.
fn absent(map: Option<&Map>, name: &str, field: Option<&Field>) -> Option<Value> {
    let field = field.filter(|field| field.emit_empty)?;
    map.filter(|map| !map.contains_key(name)).map(|_| field.empty_value())
}

struct Item<'v> {
    element: PathElement,
    is_new: bool,
    value: &'v Value,
}

fn is_object(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_object)
}

fn object(value: Option<&Value>) -> &Map {
    match value {
        Some(Value::Object(map)) => map,
        _ => shape::empty_object().as_object().expect("the empty object is an object"),
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}
