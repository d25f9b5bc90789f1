//! Watch events: JSON lines, or Protobuf frames with a length prefix.
//!
//! Owns the bytes of a stream. An event of plain JSON is written by three copies into the connection's buffer, but for
//! large objects: a thousand watchers that do not read would each hold a copy.

use bytes::Bytes;
use orch_raft::Revision;
use orch_raft::object::SharedObject;
use orch_schema::encode_json;
use orch_schema::json;
use orch_schema::protobuf::{
    ENVELOPE_END, write_envelope, write_envelope_head, write_field_open, write_message_field,
};
use orch_schema::write_value;

use super::protobuf::{encoded_meta, message_field_len};
use super::{Form, Renderer, at_revision};
use crate::ambient::Timestamp;
use crate::error::ApiError;
use crate::negotiate::Encoding;
use crate::status::Status;

/// Bytes of a stored object, or of a rendered event, from which on watches share it: less is copied faster than it is sent in
/// parts.
pub const SHARED_BYTES_MIN: usize = 16 << 10;

/// An event whose object is shared with the store: its parts, in order.
pub struct SharedEvent {
    /// Up to the bytes that the object holds.
    pub open: Vec<u8>,
    /// Its stored bytes, the revision between them where another replaces theirs; or its Protobuf message.
    pub object: Vec<Bytes>,
    /// The bytes behind them.
    pub end: &'static [u8],
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The object was created, or entered the selection.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or left the selection.
    Deleted,
}

impl EventType {
    /// The type's name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

/// An event: its type, the object, and the revision shown instead of the object's own, if any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventType,
    pub(crate) object: &'a SharedObject,
    pub(crate) revision: Option<Revision>,
}

impl<'a> Event<'a> {
    pub(crate) fn added(object: &'a SharedObject) -> Self {
        Event { kind: EventType::Added, object, revision: None }
    }
}

impl Renderer {
    /// Appends one event. `revision` replaces the object's resourceVersion (for a deletion).
    /// `first`: this is the stream's first event, in which a table names its columns.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read; `NotAcceptable`: the view is of lists. On an error nothing is
    /// appended.
    pub fn event(
        &self,
        kind: EventType,
        object: &SharedObject,
        revision: Option<Revision>,
        first: bool,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        self.is_view_of_one()?;
        match (self.representation.encoding, revision) {
            (Encoding::Protobuf, None) => self.protobuf_event(kind.as_str(), &self.message(object)?, out),
            (Encoding::Protobuf, Some(_)) => {
                let message = self.message_of(&at_revision(object, revision))?;
                self.protobuf_event(kind.as_str(), &message, out);
            }
            (Encoding::Json | Encoding::Yaml, None) => {
                return self.json_event(kind.as_str(), &object.json, first, now, out);
            }
            (Encoding::Json | Encoding::Yaml, Some(revision)) if self.is_stored_form() => {
                let (before, after) = object.json_around_revision();
                json_event_open(kind.as_str(), out);
                out.extend_from_slice(&self.resource.head);
                out.extend_from_slice(before.get(1..).unwrap_or_default());
                out.extend_from_slice(itoa::Buffer::new().format(revision.0).as_bytes());
                out.extend_from_slice(after);
                out.extend_from_slice(JSON_EVENT_END);
            }
            (Encoding::Json | Encoding::Yaml, Some(_)) => {
                return self.json_event(kind.as_str(), &at_revision(object, revision), first, now, out);
            }
        }
        Ok(())
    }

    /// The event, as [`Renderer::event`] writes it, with a large object shared; `None` for a small one, and for events that
    /// are not made of bytes that the object holds.
    ///
    /// # Errors
    /// `Internal`: the stored bytes cannot be read.
    pub fn shared_event(
        &self,
        kind: EventType,
        object: &SharedObject,
        revision: Option<Revision>,
    ) -> Result<Option<SharedEvent>, ApiError> {
        if object.json.len() < SHARED_BYTES_MIN || !self.is_stored_form() {
            return Ok(None);
        }
        match (self.representation.encoding, revision) {
            (Encoding::Protobuf, None) => self.shared_message(kind, object).map(Some),
            (Encoding::Protobuf, Some(_)) => Ok(None),
            (Encoding::Json | Encoding::Yaml, revision) => Ok(Some(self.shared_json(kind, object, revision))),
        }
    }

    fn shared_json(&self, kind: EventType, object: &SharedObject, revision: Option<Revision>) -> SharedEvent {
        let mut open = Vec::new();
        json_event_open(kind.as_str(), &mut open);
        open.extend_from_slice(&self.resource.head);
        let object = match revision {
            None => vec![object.json.slice(1..)],
            Some(revision) => {
                let (before, after) = object.json_around_revision();
                let digits = Bytes::copy_from_slice(itoa::Buffer::new().format(revision.0).as_bytes());
                let before = object.json.slice_ref(before.get(1..).unwrap_or_default());
                vec![before, digits, object.json.slice_ref(after)]
            }
        };
        SharedEvent { open, object, end: JSON_EVENT_END }
    }

    fn shared_message(&self, kind: EventType, object: &SharedObject) -> Result<SharedEvent, ApiError> {
        let message = self.message(object)?;
        let mut open = Vec::new();
        self.protobuf_open(kind.as_str(), message.len(), &mut open);
        Ok(SharedEvent { open, object: vec![message], end: ENVELOPE_END })
    }

    /// The form of this renderer's events.
    pub fn form(&self) -> Form {
        Form::of(self)
    }

    /// Appends a BOOKMARK: an empty object of the kind whose resourceVersion says that all earlier events were sent.
    /// `initial_events_end` marks the end of a streaming list's initial events.
    ///
    /// # Errors
    /// `Internal`, as for [`Renderer::event`].
    pub fn bookmark(
        &self,
        revision: Revision,
        initial_events_end: bool,
        first: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let mut metadata = json!({ "resourceVersion": revision.0.to_string() });
        if initial_events_end {
            // In the groups' domain, not in the labels' domain: clients look for this name.
            let mark = format!("{}/initial-events-end", self.brand.group_domain);
            metadata["annotations"] = json!({ mark: "true" });
        }
        let mut json = Vec::new();
        encode_json(
            &self.resource.schema,
            self.resource.rendered_type(),
            &json!({ "metadata": metadata }),
            &mut json,
        );
        match self.representation.encoding {
            Encoding::Protobuf => self.protobuf_event(BOOKMARK, &self.message_of(&json)?, out),
            // An empty object has no age, so that any time will do.
            Encoding::Json | Encoding::Yaml => {
                self.json_event(BOOKMARK, &json, first, Timestamp::default(), out)?;
            }
        }
        Ok(())
    }

    /// Appends an ERROR event.
    ///
    /// # Errors
    /// None. The result has the type of the other events'.
    pub fn error_event(&self, status: &Status, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let document = status.to_value();
        match self.representation.encoding {
            Encoding::Protobuf => {
                let message = encoded_meta(&self.schema, "Status", &document);
                let mut object = Vec::new();
                write_envelope("v1", "Status", &message, &mut object);
                protobuf_event_open(ERROR, object.len(), out);
                out.extend_from_slice(&object);
            }
            Encoding::Json | Encoding::Yaml => {
                json_event_open(ERROR, out);
                write_value(&document, out);
                out.extend_from_slice(JSON_EVENT_END);
            }
        }
        Ok(())
    }

    fn json_event(
        &self,
        kind: &str,
        json: &[u8],
        first: bool,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let start = out.len();
        json_event_open(kind, out);
        let result = self.document(json, now, first, out);
        match result {
            Ok(()) => out.extend_from_slice(JSON_EVENT_END),
            Err(_) => out.truncate(start),
        }
        result
    }

    /// Appends an event with `message` in its envelope.
    fn protobuf_event(&self, kind: &str, message: &[u8], out: &mut Vec<u8>) {
        self.protobuf_open(kind, message.len(), out);
        out.extend_from_slice(message);
        out.extend_from_slice(ENVELOPE_END);
    }

    /// Appends an event up to its message of `len` bytes.
    fn protobuf_open(&self, kind: &str, len: usize, out: &mut Vec<u8>) {
        let (api_version, object_kind) = self.object_head();
        let mut head = Vec::new();
        write_envelope_head(&api_version, &object_kind, &mut head);
        let object_len = head.len() + message_field_len(len) + ENVELOPE_END.len();
        protobuf_event_open(kind, object_len, out);
        out.extend_from_slice(&head);
        write_field_open(2, len, out);
    }
}

const BOOKMARK: &str = "BOOKMARK";
const ERROR: &str = "ERROR";
const JSON_EVENT_END: &[u8] = b"}\n";

fn json_event_open(kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

/// Appends the frame's length and the event up to its object of `object_len` bytes.
fn protobuf_event_open(kind: &str, object_len: usize, out: &mut Vec<u8>) {
    let raw = message_field_len(object_len);
    let frame = message_field_len(kind.len()) + message_field_len(raw);
    // The value fits: an object has at most some megabytes.
    out.extend_from_slice(&u32::try_from(frame).unwrap_or(u32::MAX).to_be_bytes());
    write_message_field(1, kind.as_bytes(), out);
    write_field_open(2, raw, out);
    write_field_open(1, object_len, out);
}
