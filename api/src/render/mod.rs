//! What comes out of the pipeline, as bytes of the negotiated representation.
//!
//! Owns every form in which objects, lists, tables, watch events and Statuses are written. It reads no store and no
//! clock, and never negotiates, compresses or sends.
//!
//!     one object:  head + stored bytes                      one frame, or, of a large one, the stored bytes themselves
//!     a list:      envelope + stored bytes with commas      length by summing, frames filled as they are asked for
//!                  a table or YAML, of many objects         pieces of the size of a frame
//!     an event:    {"type":...,"object": head + stored bytes
//!
//! Invariant: plain JSON (no table, not pretty, no conversion) is never parsed and never encoded again; what an
//! answer holds beyond its current frame is shared with the store.

mod event;
mod json;
mod list;
mod metadata;
mod payload;
mod pieces;
mod pretty;
mod protobuf;
mod scan;
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
use orch_schema::shown::quoted;
use orch_schema::value::Value;

use crate::ambient::Timestamp;
use crate::error::{ApiError, NotAcceptable};
use crate::negotiate::{Encoding, Representation, View};
use crate::pipeline::Written;
use crate::registry::{Registry, Resource};

pub use event::EventType;
pub use payload::{Frames, Payload};
pub use status::{meta_document, status, whole_document};

/// Writes answers about one resource in one representation. Cheap to clone and to hold for the life of a watch.
#[derive(Clone, Debug)]
pub struct Renderer {
    /// The tables of what stands around objects.
    schema: Arc<Schema>,
    brand: &'static Brand,
    resource: Arc<Resource>,
    representation: Representation,
    include: IncludeObject,
}

/// What a table's rows say of their objects besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
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
    /// `BadRequest` for any other text. Only a request for a table may fail so.
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
    /// A writer of answers about `resource`.
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

    /// Whether objects are written as they are stored.
    pub fn is_as_stored(&self) -> bool {
        self.representation.is_as_stored(&self.resource)
    }

    /// The names of the cluster.
    pub fn brand(&self) -> &'static Brand {
        self.brand
    }

    /// `Content-Type` of answers.
    pub fn content_type(&self) -> &'static str {
        self.representation.media_type(self.brand)
    }

    /// `Content-Type` of a watch. There is no stream of YAML documents; whoever asks for one is refused before.
    pub fn watch_content_type(&self) -> String {
        match self.representation.encoding {
            Encoding::Json | Encoding::Yaml => "application/json".to_owned(),
            Encoding::Protobuf => format!("{};stream=watch", self.brand.protobuf_media_type),
        }
    }

    /// The answer of a GET.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read; `NotAcceptable`: this is not what the view is of.
    pub fn object(&self, object: &SharedObject, now: Timestamp) -> Result<Payload, ApiError> {
        self.is_view_of_one()?;
        match self.representation.encoding {
            Encoding::Json | Encoding::Yaml => self.text_answer(&object.json, now),
            Encoding::Protobuf => Ok(self.protobuf_answer(&self.message(object)?)),
        }
    }

    /// The answer of a write.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read; `NotAcceptable`: this is not what the view is of.
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
        // The newline takes the place of the brace that the head brings along.
        let mut document = Vec::with_capacity(self.resource.head.len() + json.len());
        self.document(json, now, true, &mut document)?;
        self.finish(document)
    }

    /// Appends the view of one object as JSON, without a newline. `headers`: a table has its columns.
    fn document(
        &self,
        json: &[u8],
        now: Timestamp,
        headers: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        match self.representation.view {
            View::Whole => self.whole(json, out),
            View::Metadata | View::MetadataList => self.partial(json, out),
            View::Table => self.table_of_one(json, now, headers, out),
        }
    }

    /// The stored form as a tree.
    fn stored_value(&self, json: &[u8]) -> Result<Value, ApiError> {
        serde_json::from_slice(json).map_err(|error| unreadable(&self.resource, &error))
    }

    /// The object in the form of the resource's version.
    fn version_value(&self, json: &[u8]) -> Result<Value, ApiError> {
        let stored = self.stored_value(json)?;
        Ok(match self.resource.conversion {
            Some(conversion) => (conversion.from_stored)(&stored),
            None => stored,
        })
    }

    /// Whether one object can be shown as what was asked for.
    fn is_view_of_one(&self) -> Result<(), ApiError> {
        if self.representation.view != View::MetadataList {
            return Ok(());
        }
        Err(self.not_that_view("PartialObjectMetadataList, but the requested object is not a list", ""))
    }

    /// `suffix`: what the kind's name is lacking.
    fn not_that_view(&self, told: &str, suffix: &str) -> ApiError {
        let package =
            self.resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        let shown = format!("you requested {told} (*{package}.{}{suffix})", self.resource.kind);
        ApiError::NotAcceptable(NotAcceptable::View(shown))
    }

    /// Whether an object's JSON is its stored bytes.
    fn is_stored_form(&self) -> bool {
        self.representation.view == View::Whole && self.resource.conversion.is_none()
    }
}

fn unreadable(resource: &Resource, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::Internal(format!("an object stored under {} cannot be read: {error}", resource.storage))
}

/// The stored bytes under `revision`, or as they are.
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
