//! Managers that wrote in another version of the kind.
//!
//! Owns the translation of a write in one version to the others: an entry of `managedFields` names fields as in its own
//! version, so the write is compared in that version, too. An entry in a version that is not served loses all its
//! fields and is dropped.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures::future::Either;
use orch_raft::WrittenAs;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::Value;

use super::compare::{Comparison, compare};
use super::extract::{field_set, reconcile, with_named_fields};
use super::managed::ManagedEntry;
use super::merge::{Emptied, remove};
use super::set::FieldSet;
use super::shape::{ItemError, Shape};
use super::update::Writer;
use crate::conversion::{ConvertFn, Converter, Piece};

/// A served version of the kind other than the request's.
#[derive(Clone, Debug)]
pub struct OtherVersion {
    /// The version as in `managedFields`: `apps/v1`.
    pub api_version: String,
    /// The type of the kind in this version.
    pub type_id: TypeId,
    /// The way from the request's version to this one, and back.
    pub way: Way,
}

/// The conversion between the request's version and another one.
#[derive(Clone)]
pub enum Way {
    /// Functions, to be called in order: through the stored form.
    Direct {
        /// To the other version.
        forth: Vec<ConvertFn>,
        /// To the request's version.
        back: Vec<ConvertFn>,
    },
    /// The converter of a declared kind.
    Staged {
        /// Converts between all versions of the kind.
        converter: Arc<dyn Converter>,
        /// The form of the request's version.
        here: Arc<WrittenAs>,
        /// The form of the other version.
        there: Arc<WrittenAs>,
    },
}

impl Way {
    /// `value`, which is in the request's version, in the other one. `None`: it cannot be converted, or only by a converter
    /// that waits for another server.
    fn forth(&self, value: &Value) -> Option<Value> {
        match self {
            Way::Direct { forth, .. } => Some(converted(forth, value)),
            Way::Staged { converter, here, there } => staged(&**converter, value, (here, there)),
        }
    }

    /// `value`, which is in the other version, in the request's. `None`: as for [`Way::forth`].
    fn back(&self, value: &Value) -> Option<Value> {
        match self {
            Way::Direct { back, .. } => Some(converted(back, value)),
            Way::Staged { converter, here, there } => staged(&**converter, value, (there, here)),
        }
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Direct { .. } => f.write_str("Direct"),
            Way::Staged { here, there, .. } => write!(f, "Staged({here:?}, {there:?})"),
        }
    }
}

/// `value` after all of `steps`.
fn converted(steps: &[ConvertFn], value: &Value) -> Value {
    let mut steps = steps.iter();
    let first = steps.next().map_or_else(|| value.clone(), |step| step(value));
    steps.fold(first, |value, step| step(&value))
}

/// `value` from one form to the other, by a converter that is ready at once.
fn staged(
    converter: &dyn Converter,
    value: &Value,
    (from, to): (&Arc<WrittenAs>, &Arc<WrittenAs>),
) -> Option<Value> {
    if converter.asks_others() {
        return None;
    }
    let batch = [Piece { written_as: from.clone(), object: value.clone() }].into_iter().collect();
    match converter.convert(batch, to, None) {
        Either::Left(known) => known.into_inner().ok()?.into_iter().next(),
        Either::Right(_) => None,
    }
}

/// How an entry of `managedFields` is seen from a write.
enum Seen<'v> {
    /// In its version the write is this.
    There(&'v OtherVersion, usize),
    /// Its version is served, and the write cannot be converted to it.
    Unconverted,
    /// Its version is not served.
    Unserved,
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

    /// The version of `entry`, with the place of the change in that version among `seen`.
    fn of(&mut self, entry: &ManagedEntry) -> Result<Seen<'a>, ItemError> {
        // few: the versions of a kind.
        let Some(other) = self.writer.others.iter().find(|other| other.api_version == entry.api_version)
        else {
            return Ok(Seen::Unserved);
        };
        // few: the versions of a kind.
        if let Some(at) = self.seen.iter().position(|(version, _)| *version == other.api_version) {
            return Ok(Seen::There(other, at));
        }
        let Some((old, new)) = other.way.forth(self.old).zip(other.way.forth(self.new)) else {
            return Ok(Seen::Unconverted);
        };
        let Comparison { mut changed, mut removed } = compare(self.schema, other.type_id, &old, &new)?;
        let reset = self.writer.reset_set();
        changed.subtract_below(&reset);
        removed.subtract_below(&reset);
        self.seen.push((&other.api_version, Comparison { changed, removed }));
        Ok(Seen::There(other, self.seen.len() - 1))
    }

    /// Removes changed and removed fields from `entry`; returns the changed ones that it owned. `None`: drop the entry. As in
    /// the reference, an entry stays as it is where the change cannot be converted to its version.
    pub(super) fn lose(&mut self, entry: &mut ManagedEntry) -> Result<Option<FieldSet>, ItemError> {
        let schema = self.schema;
        let (other, at) = match self.of(entry)? {
            Seen::There(other, at) => (other, at),
            Seen::Unconverted => return Ok(Some(FieldSet::EMPTY)),
            Seen::Unserved => return Ok(None),
        };
        let comparison = &self.seen[at].1;
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
    let Some(there) = other.way.forth(object) else { return Ok(Cow::Owned(FieldSet::EMPTY)) };
    let mut rest = with_named_fields(schema, Some(shape), &field_set(schema, other.type_id, &there)?);
    rest.subtract(&with_named_fields(schema, Some(shape), &entry.set));
    let kept = remove(schema, shape, &there, &rest, Emptied::Gone { held: &FieldSet::EMPTY });
    let here = other.way.back(&kept).zip(other.way.back(super::shape::empty_object()));
    let Some((kept, empty)) = here else { return Ok(Cow::Owned(FieldSet::EMPTY)) };
    let mut set = field_set(schema, root, &kept)?;
    // Fields that the conversion adds to an empty object have no owner.
    set.subtract(&field_set(schema, root, &empty)?);
    Ok(Cow::Owned(set))
}
