//! Rendering: results of the pipeline as bytes of the negotiated representation.
//!
//! Owns every form in which objects, lists, tables, watch events and Statuses are written. It reads no store and no
//! clock, and never negotiates, compresses or sends.
//!
//!     one object:  head + stored bytes                      one frame; a large object's stored bytes are not copied
//!     a list:      envelope + stored bytes with commas      length by summing, frames filled on demand
//!                  a table or YAML, of many objects         pieces of the size of a frame
//!     an event:    {"type":...,"object": head + stored bytes; those of a large object are not copied
//!
//! Objects of declared kinds come in the form of the resource's version: the conversion stage is before the renderer. Those of
//! built-in kinds come as they are stored, and a direct conversion is applied to one of them at a time.
//!
//! Invariant: plain JSON (no table, not pretty, no direct conversion) is never parsed and never encoded again; all bytes of a
//! response beyond its current frame are shared with the store.

mod event;
mod form;
mod json;
mod list;
mod metadata;
mod payload;
mod pieces;
mod pretty;
mod protobuf;
mod scan;
mod shared;
mod status;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_schema::Schema;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::ambient::Timestamp;
use crate::answer::Written;
use crate::error::{ApiError, NotAcceptable};
use crate::negotiate::{Encoding, Representation, ResponseView};
use crate::registry::{Registry, Resource};

pub(crate) use event::Event;
pub use event::{EventType, SHARED_BYTES_MIN, SharedEvent};
pub use form::Form;
pub use payload::{Frames, Payload};
pub(crate) use shared::EventKey;
#[cfg(test)]
pub(crate) use shared::SHARED_BYTES_MAX;
pub use shared::SharedEvents;
pub use status::{meta_document, status, whole_document};

/// Renders one resource in one representation. Cheap to clone and to hold for the life of a watch.
#[derive(Clone, Debug)]
pub struct Renderer {
    /// The types of the server's own documents around objects.
    schema: Arc<Schema>,
    brand: &'static Brand,
    resource: Arc<Resource>,
    representation: Representation,
    include: IncludeObject,
}

/// The part of its object that a table row contains besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    /// No object.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads `?includeObject=`; absent is [`IncludeObject::Metadata`].
    ///
    /// # Errors
    /// `BadRequest` for any other value. Only requests for a table call this.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(ApiError::BadRequest(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                quoted(other)
            ))),
        }
    }
}

impl Renderer {
    /// A renderer for `resource`.
    pub fn new(
        registry: &Registry,
        resource: &Arc<Resource>,
        representation: Representation,
        include: IncludeObject,
    ) -> Self {
        Renderer {
            schema: registry.schema.clone(),
            brand: registry.brand,
            resource: resource.clone(),
            representation,
            include,
        }
    }

    /// Whether items are sent as their stored bytes: plain JSON of whole objects, in the stored version.
    pub fn is_as_stored(&self) -> bool {
        self.representation.is_as_stored(&self.resource)
    }

    /// The resource whose objects are rendered.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// The cluster's brand names.
    pub fn brand(&self) -> &'static Brand {
        self.brand
    }

    /// `Content-Type` of responses.
    pub fn content_type(&self) -> &'static str {
        self.representation.media_type(self.brand)
    }

    /// `Content-Type` of a watch. Watches in YAML are refused earlier.
    pub fn watch_content_type(&self) -> String {
        match self.representation.encoding {
            Encoding::Json | Encoding::Yaml => "application/json".to_owned(),
            Encoding::Protobuf => format!("{};stream=watch", self.brand.protobuf_media_type),
        }
    }

    /// The response of a GET.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read; `NotAcceptable`: the view is of lists.
    pub fn object(&self, object: &SharedObject, now: Timestamp) -> Result<Payload, ApiError> {
        self.is_view_of_one()?;
        match self.representation.encoding {
            Encoding::Json | Encoding::Yaml => self.text_answer(&object.json, now),
            Encoding::Protobuf => Ok(self.protobuf_answer(&self.message(object)?)),
        }
    }

    /// The response of a write.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read; `NotAcceptable`: the view is of lists.
    pub fn written(&self, written: &Written, now: Timestamp) -> Result<Payload, ApiError> {
        self.is_view_of_one()?;
        match (self.representation.encoding, &written.stored) {
            (Encoding::Json | Encoding::Yaml, _) => self.text_answer(&written.json, now),
            (Encoding::Protobuf, Some(object)) => Ok(self.protobuf_answer(&self.message(object)?)),
            (Encoding::Protobuf, None) => Ok(self.protobuf_answer(&self.message_of(&written.json)?)),
        }
    }

    /// JSON or YAML of the object whose stored form is `json`.
    fn text_answer(&self, json: &Bytes, now: Timestamp) -> Result<Payload, ApiError> {
        if self.is_as_stored() && json.len() > payload::FRAME_BYTES {
            return Ok(Payload::line(self.resource.head.clone(), json.slice(1..)));
        }
        // The capacity is exact: the newline replaces the opening brace, which `head` already has.
        let mut document = Vec::with_capacity(self.resource.head.len() + json.len());
        self.document(json, now, true, &mut document)?;
        self.finish(document)
    }

    /// Appends the view of one object as JSON, without a newline. `headers`: a table includes its columns.
    fn document(
        &self,
        json: &[u8],
        now: Timestamp,
        headers: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        match self.representation.view {
            ResponseView::Whole => self.whole(json, out),
            ResponseView::Metadata | ResponseView::MetadataList => self.partial(json, out),
            ResponseView::Table => self.table_of_one(json, now, headers, out),
        }
    }

    /// The form in which objects come, decoded.
    fn stored_value(&self, json: &[u8]) -> Result<Value, ApiError> {
        serde_json::from_slice(json).map_err(|error| unreadable(&self.resource, &error))
    }

    /// The object in the resource's version, decoded.
    fn version_value(&self, json: &[u8]) -> Result<Value, ApiError> {
        let stored = self.stored_value(json)?;
        Ok(self.resource.to_version(stored))
    }

    /// Checks that the view can show one object.
    fn is_view_of_one(&self) -> Result<(), ApiError> {
        if self.representation.view != ResponseView::MetadataList {
            return Ok(());
        }
        Err(self.not_that_view("PartialObjectMetadataList, but the requested object is not a list", ""))
    }

    /// The 406 for a view that does not fit. `suffix` completes the kind's name: `List` or nothing.
    fn not_that_view(&self, told: &str, suffix: &str) -> ApiError {
        let package =
            self.resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        let shown = format!("you requested {told} (*{package}.{}{suffix})", self.resource.kind);
        ApiError::NotAcceptable(NotAcceptable::View(shown))
    }

    /// Whether objects are written in the form in which they come, whole.
    fn is_stored_form(&self) -> bool {
        self.representation.view == ResponseView::Whole && self.resource.direct().is_none()
    }
}

fn unreadable(resource: &Resource, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::Internal(format!("an object stored under {} cannot be read: {error}", resource.storage))
}

/// The stored bytes with their resourceVersion replaced by `revision`, if given.
fn at_revision(object: &SharedObject, revision: Option<orch_raft::Revision>) -> Cow<'_, [u8]> {
    match revision {
        None => Cow::Borrowed(&object.json),
        Some(revision) => {
            let (before, after) = object.json_around_revision();
            let mut digits = itoa::Buffer::new();
            Cow::Owned([before, digits.format(revision.0).as_bytes(), after].concat())
        }
    }
}
