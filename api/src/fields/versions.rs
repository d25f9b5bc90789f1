//! Managers that wrote in another version of the kind.
//!
//! Owns the translation of a write in one version to the others: an entry of `managedFields` names fields as in its own
//! version, so the write is compared in that version, too. An entry in a version that is not served loses all its
//! fields and is dropped.

use std::borrow::Cow;

use orch_proto::Brand;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::Value;

use super::compare::{Comparison, compare};
use super::extract::{field_set, reconcile, with_named_fields};
use super::managed::ManagedEntry;
use super::merge::{Emptied, remove};
use super::set::FieldSet;
use super::shape::{ItemError, Shape};
use super::update::Writer;

/// Converts an object from one version to another, under one brand.
#[derive(Clone, Copy, Debug)]
pub struct Convert {
    brand: &'static Brand,
    convert: orch_rules::kinds::version::Convert,
}

impl Convert {
    /// The conversion `convert` under `brand`.
    pub fn new(brand: &'static Brand, convert: orch_rules::kinds::version::Convert) -> Self {
        Convert { brand, convert }
    }

    /// The converted object.
    pub fn apply(&self, value: &Value) -> Value {
        (self.convert)(self.brand, value)
    }
}

/// A served version of the kind other than the request's.
#[derive(Clone, Debug)]
pub struct OtherVersion {
    /// The version as in `managedFields`: `apps/v1`.
    pub api_version: String,
    /// The type of the kind in this version.
    pub type_id: TypeId,
    /// Conversions from the request's version to this one, in order.
    pub forth: Vec<Convert>,
    /// Conversions from this version to the request's, in order.
    pub back: Vec<Convert>,
}

/// `value` after all of `steps`.
fn converted(steps: &[Convert], value: &Value) -> Value {
    let mut steps = steps.iter();
    let first = steps.next().map_or_else(|| value.clone(), |step| step.apply(value));
    steps.fold(first, |value, step| step.apply(&value))
}

/// A change of an object, compared in each version on demand.
pub(super) struct Views<'a> {
    schema: &'a Schema,
    writer: &'a Writer<'a>,
    old: &'a Value,
    new: &'a Value,
    seen: Vec<(&'a str, Comparison)>,
}

impl<'a> Views<'a> {
    pub(super) fn new(schema: &'a Schema, writer: &'a Writer<'a>, old: &'a Value, new: &'a Value) -> Self {
        Views { schema, writer, old, new, seen: Vec::new() }
    }

    /// The version of `entry`, and the change in that version; `None` if the version is not served.
    fn of(&mut self, entry: &ManagedEntry) -> Result<Option<(&'a OtherVersion, &Comparison)>, ItemError> {
        // few: the versions of a kind.
        let Some(other) = self.writer.others.iter().find(|other| other.api_version == entry.api_version)
        else {
            return Ok(None);
        };
        // few: the versions of a kind.
        let at = match self.seen.iter().position(|(version, _)| *version == other.api_version) {
            Some(at) => at,
            None => {
                let (old, new) = (converted(&other.forth, self.old), converted(&other.forth, self.new));
                let Comparison { mut changed, mut removed } =
                    compare(self.schema, other.type_id, &old, &new)?;
                let reset = self.writer.reset_set();
                changed.subtract_below(&reset);
                removed.subtract_below(&reset);
                self.seen.push((&other.api_version, Comparison { changed, removed }));
                self.seen.len() - 1
            }
        };
        Ok(Some((other, &self.seen[at].1)))
    }

    /// Removes changed and removed fields from `entry`; returns the changed ones that it owned. `None`: drop the entry.
    pub(super) fn lose(&mut self, entry: &mut ManagedEntry) -> Result<Option<FieldSet>, ItemError> {
        let schema = self.schema;
        let Some((other, comparison)) = self.of(entry)? else { return Ok(None) };
        reconcile(schema, Shape::of_type(schema, other.type_id), &mut entry.set);
        let lost = entry.set.intersection(&comparison.changed);
        entry.set.subtract(&lost);
        entry.set.subtract(&comparison.removed);
        Ok(Some(lost))
    }

    /// [`Views::lose`] for a stored list; entries in the request's version stay as they are.
    pub(super) fn lose_all(&mut self, list: Vec<Value>) -> Vec<Value> {
        let own = self.writer.api_version;
        let is_own = |entry: &Value| entry.get("apiVersion").and_then(Value::as_str) == Some(own);
        if list.iter().all(is_own) {
            return list;
        }
        let kept = list.into_iter().filter_map(|stored| {
            if is_own(&stored) {
                return Some(stored);
            }
            let mut entry = ManagedEntry::decode(0, &stored).ok()?;
            let lost = self.lose(&mut entry).ok()?;
            (lost.is_some() && !entry.set.is_empty()).then(|| entry.encode())
        });
        kept.collect()
    }
}

/// The fields of `entry` in the request's version, as far as `object` (in the request's version) has them.
pub(super) fn translated<'e>(
    schema: &Schema,
    root: TypeId,
    object: &Value,
    entry: &'e ManagedEntry,
    writer: &Writer<'_>,
) -> Result<Cow<'e, FieldSet>, ItemError> {
    if entry.api_version == writer.api_version {
        return Ok(Cow::Borrowed(&entry.set));
    }
    // few: the versions of a kind.
    let Some(other) = writer.others.iter().find(|other| other.api_version == entry.api_version) else {
        return Ok(Cow::Owned(FieldSet::EMPTY));
    };
    let shape = Shape::of_type(schema, other.type_id);
    let there = converted(&other.forth, object);
    let mut rest = with_named_fields(schema, Some(shape), &field_set(schema, other.type_id, &there)?);
    rest.subtract(&with_named_fields(schema, Some(shape), &entry.set));
    let kept = remove(schema, shape, &there, &rest, Emptied::Gone { held: &FieldSet::EMPTY });
    let mut set = field_set(schema, root, &converted(&other.back, &kept))?;
    // Fields that the conversion adds to an empty object have no owner.
    set.subtract(&field_set(schema, root, &converted(&other.back, super::shape::empty_object()))?);
    Ok(Cow::Owned(set))
}
