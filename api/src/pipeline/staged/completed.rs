//! Checks and completes the objects that a converter has returned.
//!
//! Owns the check of identities, pruning and defaults in the new form, and the object that is handed on.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_raft::{Index, Object, WrittenAs};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{Decoded, Limits, Schema, TypeId, apply_defaults, decode_json, encode_stored, write_value};

use crate::conversion::{Converted, Failure};
use crate::error::ApiError;
use crate::registry::{Resource, Tables};

/// A conversion under way.
pub(super) struct Job {
    pub(super) resource: Arc<Resource>,
    /// The schema of the form that they are converted to.
    pub(super) schema: Tables,
    pub(super) type_id: TypeId,
    pub(super) of_converted: Defaults,
    /// The objects; null for those that the converter has.
    pub(super) values: Vec<Value>,
    /// Place and identity of each object that the converter has, in order.
    pub(super) sent: Vec<(usize, Identity)>,
}

/// The members of the metadata that no conversion changes: name, namespace, uid and revision.
#[derive(PartialEq, Eq)]
pub(super) struct Identity([String; 4]);

impl Identity {
    pub(super) fn of(object: &Value) -> Identity {
        let metadata = object.at("metadata");
        let fields = ["name", "namespace", "uid", "resourceVersion"];
        Identity(fields.map(|field| metadata.text(field).to_owned()))
    }
}

impl Job {
    /// The objects in their new form.
    pub(super) fn finish(self, converted: Result<Converted, Failure>) -> Result<Vec<Value>, ApiError> {
        let converted = converted.map_err(|Failure(reason)| ApiError::Unconverted(reason))?;
        let (asked, given) = (self.sent.len(), converted.len());
        if asked != given {
            return Err(broken(&self.resource, &format!("it returned {given} objects for {asked}")));
        }
        let (schema, type_id) = (self.schema, self.type_id);
        let mut sent = self.sent.into_iter().zip(converted).peekable();
        let mut finished = Vec::with_capacity(self.values.len());
        for (at, value) in self.values.into_iter().enumerate() {
            let (value, defaults) = match sent.next_if(|((of, _), _)| *of == at) {
                Some(((_, identity), value)) if Identity::of(&value) == identity => {
                    (value, self.of_converted)
                }
                Some(_) => return Err(broken(&self.resource, "it changed the identity of an object")),
                None => (value, Defaults::Applied),
            };
            finished.push(completed(&schema, type_id, value, defaults)?);
        }
        Ok(finished)
    }
}

/// The error of a converter that breaks its contract.
fn broken(resource: &Resource, told: &str) -> ApiError {
    ApiError::Internal(format!("the converter of {}: {told}", resource.storage))
}

/// Whether an object gets the defaults of the form that it is completed in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Defaults {
    Applied,
    Absent,
}

/// `value` without the fields that its type lacks.
pub(super) fn completed(
    schema: &Schema,
    type_id: TypeId,
    value: Value,
    defaults: Defaults,
) -> Result<Value, ApiError> {
    let mut json = Vec::with_capacity(1024);
    write_value(&value, &mut json);
    drop(value);
    let decoded = decode_json(schema, type_id, &json, Limits::patched());
    let Decoded { mut value, .. } = decoded
        .map_err(|error| ApiError::Unconverted(format!("a converted object cannot be decoded: {error}")))?;
    if defaults == Defaults::Applied {
        apply_defaults(schema, type_id, &mut value);
    }
    Ok(value)
}

/// `object` with the content `value`, which is of the form `form`.
pub(super) fn with_value(
    resource: &Resource,
    form: &Arc<WrittenAs>,
    object: &Object,
    value: &Value,
) -> Result<SharedObject, ApiError> {
    let mut json = Vec::with_capacity(object.json.len());
    let revision_at = encode_stored(&resource.schema, resource.type_id, value, &mut json);
    let revision_at = revision_at.ok_or(ApiError::DeadlineExceeded)?;
    let shown = Object {
        revision: object.revision,
        created: object.created,
        written_ms: object.written_ms,
        json: Bytes::from(json),
        revision_at: u32::try_from(revision_at)
            .map_err(|_| ApiError::ObjectTooLarge("a converted object is too large".to_owned()))?,
        index: Index { written_as: Some(form.clone()), ..object.index.clone() },
        protobuf: OnceLock::new(),
    };
    Ok(Arc::new(shown))
}
