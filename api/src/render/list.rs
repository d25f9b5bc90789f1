//! Lists: the envelope, and the items in it.

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_schema::budget::count_step;
use orch_schema::value::Value;
use orch_schema::write_yaml_list;

use super::json::{parsed, write_text};
use super::payload::{Framing, Items};
use super::pieces::Pieces;
use super::pretty::Sink;
use super::{Payload, Renderer, pretty};
use crate::ambient::Timestamp;
use crate::answer::ListAnswer;
use crate::error::ApiError;
use crate::negotiate::{Encoding, Representation, ResponseView};

impl Renderer {
    /// The response of a list.
    ///
    /// # Errors
    /// `Internal`: the stored bytes of an object cannot be read; `NotAcceptable`: the view is of one object.
    pub fn list(&self, list: ListAnswer, now: Timestamp) -> Result<Payload, ApiError> {
        if self.representation.view == ResponseView::Metadata {
            return Err(
                self.not_that_view("PartialObjectMetadata, but the requested object is a list", "List")
            );
        }
        match self.representation {
            Representation { encoding: Encoding::Protobuf, .. } => self.protobuf_list(&list),
            Representation { view: ResponseView::Table, .. } => self.table(&list, now),
            Representation {
                encoding: Encoding::Json,
                pretty: false,
                view: ResponseView::MetadataList,
                ..
            } => {
                let parts = list
                    .objects
                    .iter()
                    .take_while(|_| count_step())
                    .map(|object| self.metadata_part(&object.json));
                let items = Items::parts(parts.collect::<Result<_, _>>()?);
                let framing = Framing::Commas { before: self.partial_head().into(), after: b"}" };
                Ok(Payload::list(self.list_open(&list).into(), items, framing, CLOSE))
            }
            Representation { encoding: Encoding::Json, pretty: false, .. }
                if self.is_stored_form() && self.resource.is_declared() =>
            {
                let framing = Framing::Headed { head: self.resource.head.clone() };
                Ok(Payload::list(self.list_open(&list).into(), Items::objects(list.objects), framing, CLOSE))
            }
            Representation { encoding: Encoding::Json, pretty, .. }
                if self.is_stored_form() && !self.resource.is_declared() =>
            {
                Ok(self.stored_list(list, pretty))
            }
            _ => self.encoded_list(&list),
        }
    }

    /// A JSON list of objects in their stored form.
    fn stored_list(&self, list: ListAnswer, is_pretty: bool) -> Payload {
        let open = self.list_open(&list);
        if !is_pretty {
            let framing = Framing::Commas { before: Bytes::new(), after: b"" };
            return Payload::list(open.into(), Items::objects(list.objects), framing, CLOSE);
        }
        let close: &'static [u8] = if list.objects.is_empty() { b"]\n}" } else { PRETTY_CLOSE };
        Payload::list(pretty_open(&open).into(), Items::objects(list.objects), Framing::Pretty, close)
    }

    /// A list that is rendered to its end before its first byte is sent.
    fn encoded_list(&self, list: &ListAnswer) -> Result<Payload, ApiError> {
        let item = |object: &SharedObject, out: &mut Vec<u8>| self.list_item(object, out);
        self.sequence(self.list_open(list), "items", &list.objects, item)
    }

    /// A document with one long list, in pieces that are dropped once sent. At most one item at a time is decoded.
    ///
    /// `open`: the document's JSON up to and without the bracket of `list`, its last member. `item` appends an item as
    /// JSON.
    pub(super) fn sequence(
        &self,
        mut open: Vec<u8>,
        list: &str,
        objects: &[SharedObject],
        item: impl Fn(&SharedObject, &mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<Payload, ApiError> {
        let mut document = Pieces::with_capacity(open.len());
        let objects = objects.iter().take_while(|_| count_step());
        match self.representation {
            Representation { encoding: Encoding::Yaml, .. } => {
                open.extend_from_slice(b"]}");
                let mut json = Vec::new();
                let items = objects.map(|object| {
                    json.clear();
                    item(object, &mut json)?;
                    parsed::<Value>(&json)
                });
                write_yaml_list(&parsed(&open)?, list, items, &mut document)?;
            }
            Representation { pretty: true, .. } => {
                document.put(&pretty_open(&open));
                let mut json = Vec::new();
                for (at, object) in objects.enumerate() {
                    json.clear();
                    item(object, &mut json)?;
                    Framing::Pretty.write(at, &json, document.last());
                }
                document.put(if json.is_empty() { b"]\n}" } else { PRETTY_CLOSE });
            }
            _ => {
                document.put(&open);
                for (at, object) in objects.enumerate() {
                    let out = document.last();
                    if at > 0 {
                        out.push(b',');
                    }
                    item(object, out)?;
                }
                document.put(CLOSE);
            }
        }
        Ok(document.into_payload())
    }

    fn list_item(&self, object: &SharedObject, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self.representation.view {
            ResponseView::Metadata | ResponseView::MetadataList => self.partial(&object.json, out),
            // As in the reference, items of declared kinds state theirs.
            ResponseView::Whole | ResponseView::Table if self.resource.is_declared() => {
                self.whole(&object.json, out)
            }
            ResponseView::Whole | ResponseView::Table => self.item(&object.json, out),
        }
    }

    /// The JSON up to the first item.
    fn list_open(&self, list: &ListAnswer) -> Vec<u8> {
        let (api_version, kind) = self.list_head();
        let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":");
        let mut open = head.into_bytes();
        let is_whole = self.representation.view == ResponseView::Whole;
        write_list_meta(list, self.resource.is_declared() && is_whole, &mut open);
        open.extend_from_slice(b",\"items\":[");
        open
    }

    /// `apiVersion` and `kind` of the list.
    pub(super) fn list_head(&self) -> (String, String) {
        match self.representation.view {
            ResponseView::Metadata | ResponseView::MetadataList => {
                (self.meta_version(), "PartialObjectMetadataList".to_owned())
            }
            ResponseView::Whole | ResponseView::Table => {
                (self.resource.api_version(), self.resource.list_kind.clone())
            }
        }
    }
}

/// The JSON after the last item.
const CLOSE: &[u8] = b"]}\n";

/// The indented JSON after the last item.
const PRETTY_CLOSE: &[u8] = b"\n  ]\n}";

/// `open`, which ends with a bracket, indented.
fn pretty_open(open: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    pretty::indent(open, 0, &mut lines);
    // `indent` has started the line of the first item, which the item's framing writes itself.
    lines.truncate(lines.iter().rposition(|&byte| byte == b'[').map_or(lines.len(), |at| at + 1));
    lines
}

/// Appends the metadata of a list. `has_token`: with a token where no page follows, too, an empty one, as lists of declared kinds have
/// it in the reference.
pub(super) fn write_list_meta(list: &ListAnswer, has_token: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"resourceVersion\":\"");
    out.extend_from_slice(itoa::Buffer::new().format(list.revision.0).as_bytes());
    out.push(b'"');
    if let Some(token) = &list.continue_token {
        out.extend_from_slice(b",\"continue\":");
        write_text(token, out);
    } else if has_token {
        out.extend_from_slice(b",\"continue\":\"\"");
    }
    if let Some(remaining) = list.remaining {
        out.extend_from_slice(b",\"remainingItemCount\":");
        out.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes());
    }
    out.push(b'}');
}
