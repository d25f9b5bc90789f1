//! Response bodies: the length in advance, the bytes frame by frame.
//!
//! Owns framing. A body is an opening, items that are shared with the store, and a closing. Frames are filled by
//! copying from the items, so that a slow reader holds one frame and references, not a body. An item larger than a
//! frame is not copied, because a connection keeps its frames until the client reads them, for each of a hundred
//! streams. Each item is dropped once it is in a frame: a client that takes minutes for a list keeps alive the objects
//! that it has yet to read, but no deleted or replaced object that it has already.
//!
//! Invariant: the frames of a payload have exactly [`Payload::len`] bytes together.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use orch_raft::object::SharedObject;
use orch_schema::protobuf::write_message_field;

use super::pretty;
use super::protobuf::message_field_len;

/// Bytes of a frame, which holds whole items up to this size, or one larger item: large enough that a system call per
/// frame does not count, small enough for ten thousand slow readers.
pub(super) const FRAME_BYTES: usize = 64 * 1024;

/// Indentation levels of an item inside a list's document.
const ITEM_DEPTH: usize = 2;

/// The body of a response.
#[derive(Debug)]
pub struct Payload {
    len: usize,
    frames: Frames,
}

/// The frames of a response, in order.
#[derive(Debug)]
pub struct Frames {
    /// Empty once written.
    open: Bytes,
    /// Items that are not yet written.
    items: Items,
    /// Number of items written.
    written: usize,
    framing: Framing,
    /// Empty once written.
    close: &'static [u8],
    /// A large item and the bytes after it, to be returned next without a copy.
    shared: VecDeque<Bytes>,
    /// Bytes of the remaining frames.
    left: usize,
    /// See [`Frames::own_bytes`].
    held: usize,
}

/// The items between opening and closing.
#[derive(Debug)]
pub(super) enum Items {
    /// The stored bytes of objects.
    Objects(VecDeque<SharedObject>),
    /// Slices of stored bytes, of Protobuf messages, or of a rendered document.
    Parts(VecDeque<Bytes>),
}

/// One of [`Items`].
enum Item {
    Object(SharedObject),
    Part(Bytes),
}

/// The bytes around an item.
#[derive(Debug)]
pub(super) enum Framing {
    /// Nothing.
    Plain,
    /// Commas between items, `before` and `after` around each.
    Commas { before: Bytes, after: &'static [u8] },
    /// Commas between items; each is an object, whose opening brace stands at the beginning of `head` with the members that all have.
    Headed { head: Bytes },
    /// Commas between items, each item indented.
    Pretty,
    /// Each item is field 2 of a Protobuf message.
    Fields,
}

impl Payload {
    /// A body of one buffer.
    pub(super) fn whole(body: Vec<u8>) -> Self {
        Self::list(body.into(), Items::parts(Vec::new()), Framing::Fields, b"")
    }

    /// A body of `head`, the shared bytes `rest`, and a newline.
    pub(super) fn line(head: Bytes, rest: Bytes) -> Self {
        Self::list(head, Items::parts(vec![rest]), Framing::Plain, b"\n")
    }

    /// A body of pieces that only this response holds.
    pub(super) fn pieces(pieces: Vec<Bytes>) -> Self {
        Self::list(Bytes::new(), Items::parts(pieces), Framing::Plain, b"")
    }

    /// A body of opening, items and closing.
    pub(super) fn list(open: Bytes, items: Items, framing: Framing, close: &'static [u8]) -> Self {
        let (middle, of_items) = items.sizes(&framing);
        let (len, held) = (open.len() + middle + close.len(), open.len() + of_items);
        let frames =
            Frames { open, items, written: 0, framing, close, shared: VecDeque::new(), left: len, held };
        Payload { len, frames }
    }

    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the response counts as its own: of stored objects only the pointers.
    pub fn own_bytes(&self) -> usize {
        self.frames.held
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The body, frame by frame.
    pub fn into_frames(self) -> Frames {
        self.frames
    }
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(shared) = self.shared.pop_front() {
            self.left = self.left.saturating_sub(shared.len());
            return Some(shared);
        }
        if !self.open.is_empty() && self.open.len() == self.left {
            (self.left, self.held) = (0, 0);
            return Some(std::mem::take(&mut self.open));
        }
        let mut frame = Vec::new();
        while let Some(size) = self.size_hint_of_next() {
            if self.share_next(&mut frame) {
                frame.shrink_to_fit();
                break;
            }
            if frame.is_empty() {
                frame.reserve_exact(size.max(self.left.min(FRAME_BYTES)));
            } else if frame.len() + size > FRAME_BYTES {
                break;
            }
            self.write_next(&mut frame);
        }
        if frame.is_empty() {
            return self.shared.pop_front().inspect(|item| self.left = self.left.saturating_sub(item.len()));
        }
        self.left = self.left.saturating_sub(frame.len());
        Some(Bytes::from(frame))
    }
}

impl Frames {
    /// Bytes that the remaining frames count as the response's own: see [`Payload::own_bytes`].
    pub fn own_bytes(&self) -> usize {
        self.held
    }

    /// Puts the next item into `shared` without a copy, if it is larger than a frame; the bytes before it end `frame`.
    fn share_next(&mut self, frame: &mut Vec<u8>) -> bool {
        let is_large = self.open.is_empty() && self.items.next_len().is_some_and(|len| len > FRAME_BYTES);
        if !is_large {
            return false;
        }
        let (behind, skipped) = match &self.framing {
            Framing::Plain => (Bytes::new(), 0),
            Framing::Commas { before, after } => {
                put_before(self.written, before, frame);
                (Bytes::from_static(after), 0)
            }
            Framing::Headed { head } => {
                put_before(self.written, head, frame);
                (Bytes::new(), 1)
            }
            // These framings rewrite the item.
            Framing::Pretty | Framing::Fields => return false,
        };
        let mut item = self.take_item().map(Item::into_bytes).unwrap_or_default();
        item.advance(skipped.min(item.len()));
        self.shared.extend([item, behind].into_iter().filter(|piece| !piece.is_empty()));
        true
    }

    /// Bytes of the next part, less its framing or indentation. `None`: there is no further part.
    fn size_hint_of_next(&self) -> Option<usize> {
        if !self.open.is_empty() {
            return Some(self.open.len());
        }
        self.items.next_len().or_else(|| (!self.close.is_empty()).then_some(self.close.len()))
    }

    fn write_next(&mut self, frame: &mut Vec<u8>) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.held = self.held.saturating_sub(open.len());
            frame.extend_from_slice(&open);
        } else if let Some(item) = self.take_item() {
            self.framing.write(self.written - 1, item.bytes(), frame);
        } else {
            frame.extend_from_slice(std::mem::take(&mut self.close));
        }
    }

    fn take_item(&mut self) -> Option<Item> {
        let item = self.items.take()?;
        self.written += 1;
        self.held = self.held.saturating_sub(item.own_bytes());
        Some(item)
    }
}

impl Items {
    pub(super) fn objects(objects: Vec<SharedObject>) -> Items {
        Items::Objects(objects.into())
    }

    pub(super) fn parts(parts: Vec<Bytes>) -> Items {
        Items::Parts(parts.into())
    }

    /// Bytes of all items with their framing, and bytes counted as the response's own.
    fn sizes(&self, framing: &Framing) -> (usize, usize) {
        let len = |(at, item): (usize, &[u8])| framing.len(at, item);
        match self {
            Items::Objects(objects) => {
                let items = objects.iter().map(|object| &object.json[..]);
                (items.enumerate().map(len).sum(), objects.len() * size_of::<SharedObject>())
            }
            Items::Parts(parts) => {
                let held = parts.iter().map(|part| part.len() + size_of::<Bytes>());
                (parts.iter().map(|part| &part[..]).enumerate().map(len).sum(), held.sum())
            }
        }
    }

    /// Bytes of the next item.
    fn next_len(&self) -> Option<usize> {
        match self {
            Items::Objects(objects) => objects.front().map(|object| object.json.len()),
            Items::Parts(parts) => parts.front().map(Bytes::len),
        }
    }

    fn take(&mut self) -> Option<Item> {
        match self {
            Items::Objects(objects) => take_front(objects).map(Item::Object),
            Items::Parts(parts) => take_front(parts).map(Item::Part),
        }
    }
}

/// Appends what stands before the item at index `at`.
fn put_before(at: usize, before: &[u8], out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
    out.extend_from_slice(before);
}

/// Takes the first of `items`, and shrinks the buffer.
fn take_front<T>(items: &mut VecDeque<T>) -> Option<T> {
    let item = items.pop_front();
    // Shrunk at each halving, so that each item is moved once on average.
    if items.len() < items.capacity() / 2 {
        items.shrink_to_fit();
    }
    item
}

impl Item {
    fn bytes(&self) -> &[u8] {
        match self {
            Item::Object(object) => &object.json,
            Item::Part(part) => part,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Item::Object(object) => object.json.clone(),
            Item::Part(part) => part,
        }
    }

    /// Bytes that were counted as the response's own for this item.
    fn own_bytes(&self) -> usize {
        match self {
            Item::Object(_) => size_of::<SharedObject>(),
            Item::Part(part) => part.len() + size_of::<Bytes>(),
        }
    }
}

impl Framing {
    /// Bytes of the item at index `at`, framing included.
    fn len(&self, at: usize, item: &[u8]) -> usize {
        let comma = usize::from(at > 0);
        match self {
            Framing::Plain => item.len(),
            Framing::Commas { before, after } => comma + before.len() + item.len() + after.len(),
            Framing::Headed { head } => (comma + head.len() + item.len()).saturating_sub(1),
            Framing::Pretty => comma + 1 + 2 * ITEM_DEPTH + pretty::indented_len(item, ITEM_DEPTH),
            Framing::Fields => message_field_len(item.len()),
        }
    }

    /// Appends the item at index `at` with its framing.
    pub(super) fn write(&self, at: usize, item: &[u8], out: &mut Vec<u8>) {
        if at > 0 && !matches!(self, Framing::Plain | Framing::Fields) {
            out.push(b',');
        }
        match self {
            Framing::Plain => out.extend_from_slice(item),
            Framing::Commas { before, after } => {
                out.extend_from_slice(before);
                out.extend_from_slice(item);
                out.extend_from_slice(after);
            }
            Framing::Headed { head } => {
                out.extend_from_slice(head);
                out.extend_from_slice(item.get(1..).unwrap_or_default());
            }
            Framing::Pretty => {
                out.extend_from_slice(b"\n    ");
                pretty::indent(item, ITEM_DEPTH, out);
            }
            Framing::Fields => write_message_field(2, item, out),
        }
    }
}
