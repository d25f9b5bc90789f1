//! Managed fields: `metadata.managedFields` as entries with field sets.
//!
//! Owns decoding, encoding and order. An entry is identified by manager, operation, sub-resource and, for updates, the
//! version; two entries of one identity never exist. Written order: applies before updates, older before newer, then by
//! manager, version and sub-resource; an entry without time counts as oldest.

use std::collections::{BTreeMap, btree_map};

use orch_schema::budget::count_step;
use orch_schema::value::{Map, Value};

use super::set::FieldSet;
use super::wire::WireError;

/// Operation of a manager's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update, and all patches but apply.
    Update,
}

impl Operation {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedEntry {
    /// Name of the manager; may be empty in entries that a client sent.
    pub manager: String,
    /// Operation of its writes.
    pub operation: Operation,
    /// Version of the schema that the paths follow (`apps/v1`).
    pub api_version: String,
    /// Sub-resource of its writes; empty for the main resource.
    pub subresource: String,
    /// When its set last changed, RFC 3339 with seconds.
    pub time: Option<String>,
    /// The fields that it owns.
    pub set: FieldSet,
}

/// Why `managedFields` cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// Not a list of objects.
    #[error("managed fields must be a list of objects")]
    Form,
    /// The operation is neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry without version.
    #[error("apiVersion must not be empty")]
    NoVersion,
    /// An entry without `fieldsType`.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// A `fieldsType` that is not `FieldsV1`.
    #[error("invalid fieldsType {fields_type:?} in managed fields entry {index}")]
    FieldsType {
        /// The unknown type.
        fields_type: String,
        /// Position of the entry.
        index: usize,
    },
    /// The field set of an entry cannot be decoded.
    #[error("error decoding set: {0}")]
    Set(#[from] WireError),
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    pub(super) entries: Vec<ManagedEntry>,
}

impl ManagedEntry {
    /// Whether both entries have the same identity.
    fn is_same_writer(&self, other: &ManagedEntry) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The identity of the entry.
    pub(super) fn writer(&self) -> (Operation, String, String, String) {
        let version =
            if self.operation == Operation::Apply { String::new() } else { self.api_version.clone() };
        (self.operation, self.manager.clone(), self.subresource.clone(), version)
    }

    pub(super) fn decode(index: usize, value: &Value) -> Result<ManagedEntry, ManagedError> {
        let map = value.as_object().ok_or(ManagedError::Form)?;
        let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedError::Operation),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(ManagedError::NoVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(ManagedError::NoFieldsType(index)),
            other => return Err(ManagedError::FieldsType { fields_type: other.to_owned(), index }),
        }
        let set = match map.get("fieldsV1") {
            Some(fields) => FieldSet::from_fields_v1(fields)?,
            None => FieldSet::EMPTY,
        };
        Ok(ManagedEntry {
            manager: text("manager").to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: text("subresource").to_owned(),
            time: map.get("time").and_then(Value::as_str).map(str::to_owned),
            set,
        })
    }

    pub(super) fn encode(self) -> Value {
        let mut map = Map::with_capacity(7);
        let mut put = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        if !self.manager.is_empty() {
            put("manager", self.manager.into());
        }
        put("operation", self.operation.as_str().into());
        put("apiVersion", self.api_version.into());
        if let Some(time) = self.time {
            put("time", time.into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.set.to_fields_v1());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.into());
        }
        Value::Object(map)
    }
}

impl Managed {
    /// Decodes `metadata.managedFields`; absent and null give no entries.
    pub fn decode(value: Option<&Value>) -> Result<Managed, ManagedError> {
        let items = match value {
            None | Some(Value::Null) => return Ok(Managed::default()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(ManagedError::Form),
        };
        let mut managed = Managed { entries: Vec::with_capacity(items.len() + 1) };
        // Indexed by identity, because a client may send thousands; the last entry of an identity counts.
        let mut places: BTreeMap<(Operation, String, String, String), usize> = BTreeMap::new();
        for (index, item) in items.iter().take_while(|_| count_step()).enumerate() {
            let entry = ManagedEntry::decode(index, item)?;
            match places.entry(entry.writer()) {
                btree_map::Entry::Occupied(place) => managed.entries[*place.get()] = entry,
                btree_map::Entry::Vacant(place) => {
                    place.insert(managed.entries.len());
                    managed.entries.push(entry);
                }
            }
        }
        Ok(managed)
    }

    /// Encodes `metadata.managedFields`; `None` without entries.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|a, b| {
            let key = |entry: &'_ ManagedEntry| (entry.operation, entry.time.is_some());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.time.cmp(&b.time))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(Value::Array(
            self.entries.into_iter().take_while(|_| count_step()).map(ManagedEntry::encode).collect(),
        ))
    }

    /// The entries.
    pub fn entries(&self) -> &[ManagedEntry] {
        &self.entries
    }

    /// Removes and returns the entry with the identity of `writer`.
    pub(super) fn take(&mut self, writer: &ManagedEntry) -> Option<ManagedEntry> {
        // once: one writer for each write.
        let at = self.entries.iter().position(|entry| entry.is_same_writer(writer))?;
        Some(self.entries.remove(at))
    }

    /// Drops entries with an empty field set.
    pub(super) fn drop_empty(&mut self) {
        // once: for each write, over the managers.
        self.entries.retain(|entry| !entry.set.is_empty());
    }
}

/// `metadata.managedFields` of an object.
pub(super) fn managed_fields_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Whether the list asks to clear all managed fields: it is empty, or has one empty item.
pub(super) fn is_reset(managed_fields: Option<&Value>) -> bool {
    match managed_fields {
        Some(Value::Array(items)) => match items.as_slice() {
            [] => true,
            [Value::Object(item)] => item.is_empty(),
            _ => false,
        },
        _ => false,
    }
}
