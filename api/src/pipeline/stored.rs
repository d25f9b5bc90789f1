//! Encodes objects for the store: canonical JSON and its index.
//!
//! Owns the bytes and the index of a put, and the largest size of an object. An object is encoded once: its bytes lack the digits of the
//! revision, which is known when the write is applied.

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_raft::{Fields, Index, Key, Put, Store};
use orch_rules::validate::tree::{Tree, child_mut, set, sorted_entries};
use orch_schema::value::Value;
use orch_schema::{encode_json, encode_stored};

use super::staged::tree_for_store;
use super::{Pipeline, Request};
use crate::admission::UNSET_REVISION;
use crate::error::ApiError;
use crate::registry::Resource;

/// The revision's field before its digits.
const REVISION_FIELD: &[u8] = b"\"resourceVersion\":\"";

/// Bytes of the field before its digits.
const BEFORE_DIGITS: usize = REVISION_FIELD.len();

/// Largest object stored, in bytes of JSON: the reference's limit.
pub(crate) const OBJECT_BYTES_MAX: usize = 3 * 1024 * 1024 / 2;

impl<S: Store> Pipeline<S> {
    /// The put of `value`, an object in the stored form.
    pub(super) fn put(&self, resource: &Resource, key: Key, value: &mut Value) -> Result<Put, ApiError> {
        set(child_mut(value, "metadata"), "resourceVersion", UNSET_REVISION);
        self.put_unset(resource, key, value)
    }

    /// The put of `value`, an object in the stored form whose revision is [`UNSET_REVISION`].
    pub(super) fn put_unset(&self, resource: &Resource, key: Key, value: &Value) -> Result<Put, ApiError> {
        let mut json = Vec::with_capacity(1024);
        let digits = encode_stored(resource.stored_schema(), resource.stored_type(), value, &mut json);
        let digits = digits.ok_or(ApiError::DeadlineExceeded)?;
        // The digit of `UNSET_REVISION`.
        json.remove(digits);
        if json.len() > OBJECT_BYTES_MAX {
            return Err(too_large(json.len()));
        }
        let revision_at = u32::try_from(digits).expect("bounded by OBJECT_BYTES_MAX");
        let index = index_of(resource, value);
        Ok(Put { key, json: Bytes::from(json), revision_at, index })
    }

    /// The put of `value`, an object in the form of its kind's rules.
    ///
    /// # Errors
    /// Those of [`Pipeline::put`]; `Unconverted`.
    pub(super) async fn put_converted(
        &self,
        request: Request<'_>,
        key: Key,
        value: &mut Value,
    ) -> Result<Put, ApiError> {
        match tree_for_store(request.resource, value, request).await? {
            Some(mut stored) => self.put(request.resource, key, &mut stored),
            None => self.put(request.resource, key, value),
        }
    }
}

/// Refuses an object that is too large to store before its managed fields are computed, which take as much memory
/// again. Checks only bodies above the limit.
///
/// # Errors
/// `ObjectTooLarge`.
pub(super) fn check_size(request: Request<'_>, value: &Value) -> Result<(), ApiError> {
    if request.body.len() <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let mut json = Vec::with_capacity(request.body.len());
    encode_json(&request.resource.schema, request.resource.type_id, value, &mut json);
    if json.len() <= OBJECT_BYTES_MAX { Ok(()) } else { Err(too_large(json.len())) }
}

fn too_large(bytes: usize) -> ApiError {
    ApiError::ObjectTooLarge(format!("the object is {bytes} bytes; at most {OBJECT_BYTES_MAX} are stored"))
}

/// The tree of a stored object, in the stored form.
pub(crate) fn tree_of(object: &SharedObject) -> Result<Value, ApiError> {
    serde_json::from_slice(&object.json)
        .map_err(|error| ApiError::Internal(format!("a stored object cannot be read: {error}")))
}

/// The JSON of a put that is not stored: without the revision field.
pub(super) fn without_revision(put: &Put) -> Bytes {
    let digits = put.revision_at as usize;
    assert!(
        put.json[..digits].ends_with(REVISION_FIELD) && put.json.get(digits) == Some(&b'"'),
        "a put has room for the digits of its revision"
    );
    let mut start = digits - BEFORE_DIGITS;
    let mut end = digits + 1;
    if put.json.get(end) == Some(&b',') {
        end += 1;
    } else if put.json[..start].ends_with(b",") {
        start -= 1;
    }
    let mut json = Vec::with_capacity(put.json.len());
    json.extend_from_slice(&put.json[..start]);
    json.extend_from_slice(&put.json[end..]);
    Bytes::from(json)
}

/// Whether `put` would store what `object` already holds, in the form in which it holds it.
pub(super) fn is_same(put: &Put, object: &SharedObject) -> bool {
    let (before, after) = object.json_around_revision();
    let at = put.revision_at as usize;
    put.json[..at] == *before && put.json[at..] == *after && is_same_form(&put.index, &object.index)
}

/// Whether an object with the index `new` is in the form of one with the index `old`. A newer schema of the same version is no other
/// form, since reads complete what an older one left out, unless the fields that select the object are others.
fn is_same_form(new: &Index, old: &Index) -> bool {
    let is_same_version = match (&new.written_as, &old.written_as) {
        (Some(new), Some(old)) => new.version == old.version,
        _ => false,
    };
    new.written_as == old.written_as || is_same_version && new.fields == old.fields
}

fn index_of(resource: &Resource, stored: &Value) -> Index {
    let metadata = stored.at("metadata");
    let labels = sorted_entries(metadata.at("labels")).into_iter();
    let labels = labels.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    let owners = metadata.items("ownerReferences").iter().map(|owner| owner.text("uid").to_owned());
    let declared = resource.rules.selectable.iter().map(|field| field.name.as_str());
    let fields = declared.map(|name| (name, resource.strategy.field_value(stored, name)));
    Index {
        uid: metadata.text("uid").to_owned(),
        labels: labels.collect(),
        fields: Fields::new(fields),
        owners: owners.collect(),
        terminating: metadata.has("deletionTimestamp"),
        written_as: resource.staged().map(|staged| staged.stored.clone()),
    }
}
