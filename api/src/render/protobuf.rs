//! Objects and lists in Protobuf.
//!
//! Owns the cache of messages: an object's message is encoded when first requested and kept with the object, so that
//! later lists and events copy it. Only another version, or another revision, is encoded anew.

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::protobuf::{
    ENVELOPE_END, message_field_end, varint_len, write_envelope, write_envelope_head, write_field_open,
    write_message_field,
};
use orch_schema::value::{Map, Value};
use orch_schema::{Schema, encode_protobuf};

use super::payload::{Framing, Items};
use super::{Payload, Renderer, unreadable};
use crate::answer::ListAnswer;
use crate::error::ApiError;
use crate::negotiate::ResponseView;

impl Renderer {
    /// The message of a stored object in this view, without envelope.
    pub(super) fn message(&self, object: &SharedObject) -> Result<Bytes, ApiError> {
        if self.is_stored_form() || self.representation.view.is_metadata() {
            return self.view_of(self.stored_message(object)?);
        }
        self.message_of(&object.json)
    }

    /// The same, for stored bytes without a [`SharedObject`], and so without the cache.
    pub(super) fn message_of(&self, json: &[u8]) -> Result<Bytes, ApiError> {
        if self.representation.view.is_metadata() {
            return self.view_of(self.encoded(json)?);
        }
        let mut message = Vec::with_capacity(json.len());
        encode_protobuf(
            &self.resource.schema,
            self.resource.type_id,
            &self.version_value(json)?,
            &mut message,
        );
        Ok(message.into())
    }

    /// The message of the stored form, from the object's cache.
    fn stored_message(&self, object: &SharedObject) -> Result<Bytes, ApiError> {
        if let Some(message) = object.protobuf.get() {
            return Ok(message.clone());
        }
        // Two threads may both encode the same message; one of them is kept.
        let message = self.encoded(&object.json)?;
        Ok(object.protobuf.get_or_init(|| message).clone())
    }

    fn encoded(&self, json: &[u8]) -> Result<Bytes, ApiError> {
        let mut message = Vec::with_capacity(json.len());
        encode_protobuf(
            &self.resource.schema,
            self.resource.rendered_type(),
            &self.stored_value(json)?,
            &mut message,
        );
        if !count_step() {
            // An incomplete message must not get into the object's cache.
            return Err(ApiError::DeadlineExceeded);
        }
        Ok(message.into())
    }

    /// The whole message, or its first field, the metadata, which alone is a `PartialObjectMetadata` message.
    fn view_of(&self, message: Bytes) -> Result<Bytes, ApiError> {
        if !self.representation.view.is_metadata() {
            return Ok(message);
        }
        let end = message_field_end(1, &message)
            .ok_or_else(|| unreadable(&self.resource, &"its message does not start with its metadata"))?;
        Ok(message.slice(..end))
    }

    /// A response of one message in its envelope.
    pub(super) fn protobuf_answer(&self, message: &[u8]) -> Payload {
        const HEAD_BYTES: usize = 128;
        let (api_version, kind) = self.object_head();
        let mut body = Vec::with_capacity(message.len() + HEAD_BYTES);
        write_envelope(&api_version, &kind, message, &mut body);
        Payload::whole(body)
    }

    /// `apiVersion` and `kind` of one object.
    pub(super) fn object_head(&self) -> (String, String) {
        match self.representation.view {
            ResponseView::Metadata | ResponseView::MetadataList => {
                (self.meta_version(), "PartialObjectMetadata".to_owned())
            }
            ResponseView::Whole | ResponseView::Table => {
                (self.resource.api_version(), self.resource.kind.clone())
            }
        }
    }

    pub(super) fn protobuf_list(&self, list: &ListAnswer) -> Result<Payload, ApiError> {
        let messages = list.objects.iter().map(|object| self.message(object));
        let messages = messages.collect::<Result<Vec<Bytes>, _>>()?;
        let items: usize = messages.iter().map(|item| message_field_len(item.len())).sum();
        let mut meta = Vec::new();
        write_message_field(1, &self.list_meta(list), &mut meta);
        let (api_version, kind) = self.list_head();
        let mut open = Vec::new();
        write_envelope_head(&api_version, &kind, &mut open);
        write_field_open(2, meta.len() + items, &mut open);
        open.extend_from_slice(&meta);
        Ok(Payload::list(open.into(), Items::parts(messages), Framing::Fields, ENVELOPE_END))
    }

    fn list_meta(&self, list: &ListAnswer) -> Vec<u8> {
        let mut meta = Map::new();
        meta.insert("resourceVersion".to_owned(), json!(list.revision.0.to_string()));
        meta.extend(list.continue_token.iter().map(|token| ("continue".to_owned(), json!(token))));
        meta.extend(list.remaining.map(|remaining| ("remainingItemCount".to_owned(), json!(remaining))));
        encoded_meta(&self.schema, "ListMeta", &Value::Object(meta))
    }
}

/// Encodes a document of the package `meta.v1`.
pub(super) fn encoded_meta(schema: &Schema, name: &str, value: &Value) -> Vec<u8> {
    encoded_message(schema, &format!("meta.v1.{name}"), value)
}

/// Encodes a document of the built-in type `name` (`PACKAGE.MESSAGE`).
pub(super) fn encoded_message(schema: &Schema, name: &str, value: &Value) -> Vec<u8> {
    let type_id = schema.find_type(name).expect("types of the server's own documents are built in");
    let mut message = Vec::new();
    encode_protobuf(schema, type_id, value, &mut message);
    message
}

/// Bytes of a field of `len` bytes whose number is below 16.
pub(super) fn message_field_len(len: usize) -> usize {
    1 + varint_len(len) + len
}
