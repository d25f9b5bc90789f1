//! Lists: the envelope, and how the objects of a page get into it.

use bytes::Bytes;
use orch_raft::object::SharedObject;

use super::json::write_text;
use super::payload::{Framing, Items};
use super::pieces::Pieces;
use super::{Payload, Renderer, pretty};
use crate::ambient::Timestamp;
use crate::budget::goes_on;
use crate::error::ApiError;
use crate::negotiate::{Encoding, Representation, View};
use crate::pipeline::ListAnswer;

impl Renderer {
    /// The answer of a list.
    ///
    /// # Errors
    /// `Internal`: the stored bytes of an object cannot be read; `NotAcceptable`: the view is of one object.
    pub fn list(&self, list: ListAnswer, now: Timestamp) -> Result<Payload, ApiError> {
        if self.representation.view == View::Metadata {
            return Err(
                self.not_that_view("PartialObjectMetadata, but the requested object is a list", "List")
            );
        }
        match self.representation {
            Representation { encoding: Encoding::Protobuf, .. } => self.protobuf_list(&list),
            Representation { view: View::Table, .. } => {
                let mut document = self.pieces();
                self.table(&list, now, &mut document)?;
                self.finish_list(document)
            }
            Representation { encoding: Encoding::Json, pretty: false, view: View::MetadataList, .. } => {
                let parts = list
                    .objects
                    .iter()
                    .take_while(|_| goes_on())
                    .map(|object| self.metadata_part(&object.json));
                let items = Items::parts(parts.collect::<Result<_, _>>()?);
                let framing = Framing::Commas { before: self.partial_head().into(), after: b"}" };
                Ok(Payload::list(self.list_open(&list).into(), items, framing, CLOSE))
            }
            Representation { encoding: Encoding::Json, pretty, .. } if self.is_stored_form() => {
                Ok(self.stored_list(list, pretty))
            }
            _ => self.encoded_list(&list),
        }
    }

    /// A list of objects whose JSON is their stored bytes.
    fn stored_list(&self, list: ListAnswer, is_pretty: bool) -> Payload {
        let open = self.list_open(&list);
        if !is_pretty {
            let framing = Framing::Commas { before: Bytes::new(), after: b"" };
            return Payload::list(open.into(), Items::objects(list.objects), framing, CLOSE);
        }
        let mut lines = Vec::new();
        pretty::indent(&open, 0, &mut lines);
        // The re-indenter has already gone to the line of the first item, which writes its own.
        lines.truncate(lines.iter().rposition(|&byte| byte == b'[').map_or(lines.len(), |at| at + 1));
        let close: &'static [u8] = if list.objects.is_empty() { b"]\n}" } else { b"\n  ]\n}" };
        Payload::list(lines.into(), Items::objects(list.objects), Framing::Pretty, close)
    }

    /// A list that is written to its end before its first byte goes out.
    fn encoded_list(&self, list: &ListAnswer) -> Result<Payload, ApiError> {
        let mut document = self.pieces();
        document.last().extend_from_slice(&self.list_open(list));
        for (at, object) in list.objects.iter().take_while(|_| goes_on()).enumerate() {
            let out = document.last();
            if at > 0 {
                out.push(b',');
            }
            self.list_item(object, out)?;
        }
        document.last().extend_from_slice(b"]}");
        self.finish_list(document)
    }

    /// The buffer of a list's document: in one piece where it is made into another one afterwards.
    fn pieces(&self) -> Pieces {
        match self.representation {
            Representation { encoding: Encoding::Json, pretty: false, .. } => Pieces::default(),
            _ => Pieces::one(),
        }
    }

    /// The answer whose JSON on one line is `document`, in pieces that are dropped as they are sent.
    fn finish_list(&self, mut document: Pieces) -> Result<Payload, ApiError> {
        match self.representation {
            Representation { encoding: Encoding::Yaml, .. } => self.yaml(&document.into_one()),
            Representation { pretty: true, .. } => {
                let mut lines = Pieces::default();
                pretty::indent(&document.into_one(), 0, &mut lines);
                Ok(lines.into_payload())
            }
            _ => {
                document.last().push(b'\n');
                Ok(document.into_payload())
            }
        }
    }

    fn list_item(&self, object: &SharedObject, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self.representation.view {
            View::Metadata | View::MetadataList => self.partial(&object.json, out),
            View::Whole | View::Table => self.item(&object.json, out),
        }
    }

    /// Everything up to the first item.
    fn list_open(&self, list: &ListAnswer) -> Vec<u8> {
        let (api_version, kind) = self.list_head();
        let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":");
        let mut open = head.into_bytes();
        write_list_meta(list, &mut open);
        open.extend_from_slice(b",\"items\":[");
        open
    }

    /// Version and kind of the list.
    pub(super) fn list_head(&self) -> (String, String) {
        match self.representation.view {
            View::Metadata | View::MetadataList => {
                (self.meta_version(), "PartialObjectMetadataList".to_owned())
            }
            View::Whole | View::Table => (self.resource.api_version(), format!("{}List", self.resource.kind)),
        }
    }
}

/// What follows the last item.
const CLOSE: &[u8] = b"]}\n";

/// Appends the metadata of a list.
pub(super) fn write_list_meta(list: &ListAnswer, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"resourceVersion\":\"");
    out.extend_from_slice(itoa::Buffer::new().format(list.revision.0).as_bytes());
    out.push(b'"');
    if let Some(token) = &list.continue_token {
        out.extend_from_slice(b",\"continue\":");
        write_text(token, out);
    }
    if let Some(remaining) = list.remaining {
        out.extend_from_slice(b",\"remainingItemCount\":");
        out.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes());
    }
    out.push(b'}');
}
