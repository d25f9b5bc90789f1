//! The form of a watch's events: what their bytes depend on, beside the object, its revision and the type of the event.
//!
//! Owns which events are rendered by reading an object and which hand out bytes that are held anyway, and how much a
//! rendering reads. It renders nothing.
//!
//! Invariant: renderers of equal forms write the same bytes for the same event, at the same second and place in the stream.

use std::sync::Arc;

use orch_raft::Revision;
use orch_raft::object::SharedObject;

use super::{IncludeObject, Renderer};
use crate::negotiate::{Encoding, MetaVersion, Representation, ResponseView};

/// Bytes that a search for the end of an object's metadata passes while decoding reads one: it goes from quote to quote and
/// keeps nothing.
const PASSED_PER_DECODED_BYTE: usize = 8;

/// Representation, view and version of a watch's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Address of the resource, by which its version is told: for as long as the resource is held.
    resource: usize,
    encoding: Encoding,
    view: ResponseView,
    /// [`MetaVersion::V1`] for whole objects, which have none.
    meta_version: MetaVersion,
    /// [`IncludeObject::Metadata`] for all but tables, which alone have a choice.
    include: IncludeObject,
    source: Source,
}

/// The part of a stored object that its events are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The stored bytes, as they are.
    Stored,
    /// The Protobuf message, which is kept with the object once it was encoded. Of another revision than its own an object
    /// has none.
    Message,
    /// The metadata at the beginning of the stored bytes.
    Metadata,
    /// The whole object, decoded.
    Decoded,
}

impl Form {
    /// The form of what `renderer` writes. Events are never indented.
    pub(super) fn of(renderer: &Renderer) -> Form {
        let Representation { encoding, view, meta_version, pretty: _ } = renderer.representation;
        let is_stored = renderer.is_stored_form();
        let source = match (encoding, view) {
            (Encoding::Protobuf, ResponseView::Metadata | ResponseView::MetadataList) => Source::Message,
            (Encoding::Protobuf, ResponseView::Whole) if is_stored => Source::Message,
            (Encoding::Json | Encoding::Yaml, ResponseView::Whole) if is_stored => Source::Stored,
            (Encoding::Json | Encoding::Yaml, ResponseView::Metadata | ResponseView::MetadataList) => {
                Source::Metadata
            }
            (_, ResponseView::Whole | ResponseView::Table) => Source::Decoded,
        };
        Form {
            resource: Arc::as_ptr(&renderer.resource).addr(),
            encoding,
            view,
            meta_version: if view == ResponseView::Whole { MetaVersion::V1 } else { meta_version },
            include: if view == ResponseView::Table { renderer.include } else { IncludeObject::Metadata },
            source,
        }
    }

    /// Whether events are tables: their first in a stream names the columns, and they tell ages as of the second.
    pub fn is_table(self) -> bool {
        self.view == ResponseView::Table
    }

    /// Whether each event is made by reading its object, so that it is worth being shared. Other events hand out bytes that
    /// the object holds. `revision`: the one that replaces the object's, if any.
    pub fn renders_each(self, revision: Option<Revision>) -> bool {
        match self.source {
            Source::Stored => false,
            Source::Message => revision.is_some(),
            Source::Metadata | Source::Decoded => true,
        }
    }

    /// Bytes of `object` that rendering an event of it reads now, as many as decoding reads in the same time. `revision`: as
    /// for [`Form::renders_each`].
    pub fn bytes_read_for(self, object: &SharedObject, revision: Option<Revision>) -> usize {
        match self.source {
            Source::Stored => 0,
            Source::Message if revision.is_none() && object.protobuf.get().is_some() => 0,
            Source::Metadata => object.json.len() / PASSED_PER_DECODED_BYTE,
            Source::Message | Source::Decoded => object.json.len(),
        }
    }
}
