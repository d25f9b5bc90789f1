//! Managed fields after a create, an update or a patch that is not an apply.
//!
//! Owns the effect of such a write on `managedFields`: the writer owns the fields that it changed or added, earlier
//! owners lose changed and removed fields. A stored object without managed fields stays untracked until its first
//! apply. This runs on every write: the difference is recorded in the encoded form (see `stored`), without decoding
//! sets it does not touch.

use orch_schema::types::{Schema, TypeId};
use orch_schema::value::{Map, Value};

use super::compare::{Comparison, compare};
use super::element::PathElement;
use super::managed::{Managed, ManagedEntry, Operation, is_reset, managed_fields_of};
use super::set::FieldSet;
use super::shape::{ItemError, Shape, empty_object, same};
use super::stored::record;
use super::versions::{OtherVersion, Views};

/// Identity and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Manager name, see [`super::manager_of`]; an empty one is recorded as `unknown`.
    pub manager: &'a str,
    /// Version of the request (`apps/v1`).
    pub api_version: &'a str,
    /// Sub-resource of the request; empty for the main resource.
    pub subresource: &'a str,
    /// Time of the request, RFC 3339 with seconds, UTC.
    pub now: &'a str,
    /// Paths of the fields that this endpoint resets, so that writes through it never own them: `metadata.labels`.
    pub reset: &'a [String],
    /// The other served versions of the kind.
    pub others: &'a [OtherVersion],
}

impl Writer<'_> {
    /// The recorded manager name.
    pub(super) fn name(&self) -> &str {
        if self.manager.is_empty() { "unknown" } else { self.manager }
    }

    pub(super) fn entry(&self, operation: Operation, set: FieldSet) -> ManagedEntry {
        ManagedEntry {
            manager: self.name().to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: Some(self.now.to_owned()),
            set,
        }
    }

    /// The paths of [`Writer::reset`] as a set.
    pub(super) fn reset_set(&self) -> FieldSet {
        let mut set = FieldSet::EMPTY;
        for path in self.reset {
            let path: Vec<PathElement> = path.split('.').map(PathElement::field).collect();
            set.insert(&path);
        }
        set
    }
}

/// Why managed fields could not be updated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// Items of a list cannot be identified.
    #[error("failed to compare objects: {0}")]
    Item(#[from] ItemError),
}

/// Writes `metadata.managedFields` of `new`, an object about to be stored in the place of `live` (`None` on create).
///
/// `new` may carry its own `managedFields`: on the main resource they replace the stored ones if they can be decoded,
/// and an empty list clears all managed fields. On an error the stored ones are kept; the write itself may go on.
pub fn track_update(
    schema: &Schema,
    root: TypeId,
    live: Option<&Value>,
    new: &mut Value,
    writer: &Writer<'_>,
) -> Result<(), FieldsError> {
    let stored = live.and_then(managed_fields_of);
    let sent =
        new.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.shift_remove("managedFields"));
    let source = source_of(stored, sent, writer);
    let exists = live.is_some_and(is_stored);
    if exists && source.is_empty() {
        return Ok(());
    }
    let result = compare(schema, root, live.unwrap_or(empty_object()), new);
    let mut views = Views::new(schema, writer, live.unwrap_or(empty_object()), new);
    let (managed, error) = match result {
        Ok(comparison) => (after_update(schema, root, source, comparison, &mut views, writer), None),
        Err(error) => (stored.cloned(), Some(error)),
    };
    if let (Some(managed), Some(metadata)) = (managed, metadata_of(new)) {
        metadata.insert("managedFields".to_owned(), managed);
    }
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// Whether the object is stored: only then it has a uid.
fn is_stored(live: &Value) -> bool {
    live.get("metadata").and_then(|m| m.get("uid")).and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

pub(super) fn metadata_of(object: &mut Value) -> Option<&mut Map> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// Origin of the managed fields before the write.
enum Source<'a> {
    /// The encoded stored list. `copy`: an equal list that the client sent.
    Stored { list: Option<&'a Value>, copy: Option<Value> },
    /// A list that the client sent.
    Sent(Managed),
}

impl Source<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Source::Stored { list, .. } => list.and_then(Value::as_array).is_none_or(Vec::is_empty),
            Source::Sent(managed) => managed.entries.is_empty(),
        }
    }
}

fn source_of<'a>(stored: Option<&'a Value>, sent: Option<Value>, writer: &Writer<'_>) -> Source<'a> {
    let Some(sent) = sent.filter(|_| writer.subresource.is_empty()) else {
        return Source::Stored { list: stored, copy: None };
    };
    if is_reset(Some(&sent)) {
        return Source::Sent(Managed::default());
    }
    if stored.is_some_and(|stored| same(stored, &sent)) {
        return Source::Stored { list: stored, copy: Some(sent) };
    }
    match Managed::decode(Some(&sent)) {
        Ok(managed) if !managed.entries.is_empty() => Source::Sent(managed),
        // An unreadable list counts as not sent, so that a client which mangles it cannot erase it.
        Ok(_) | Err(_) => Source::Stored { list: stored, copy: None },
    }
}

/// The new `managedFields`; `None` without entries.
fn after_update(
    schema: &Schema,
    root: TypeId,
    source: Source<'_>,
    comparison: Comparison,
    views: &mut Views<'_>,
    writer: &Writer<'_>,
) -> Option<Value> {
    let Comparison { mut changed, mut removed } = comparison;
    if !writer.reset.is_empty() {
        let reset = writer.reset_set();
        changed.subtract_below(&reset);
        removed.subtract_below(&reset);
    }
    let list = match source {
        Source::Stored { list, copy } => copy.or_else(|| list.cloned()),
        Source::Sent(managed) => managed.encode(),
    };
    if changed.is_empty() && removed.is_empty() {
        return list;
    }
    let list = match list {
        Some(Value::Array(entries)) => views.lose_all(entries),
        _ => Vec::new(),
    };
    record(schema, Shape::of_type(schema, root), list, changed, &removed, writer)
}
