//! The bytes of one answer: their number at once, themselves when they are asked for.
//!
//! Owns framing. A body is an opening, items that are shared with the store, and a closing; frames are filled by
//! copying from the items, so that a slow reader holds one frame and references, not a body. An item larger than a frame
//! is not copied: a connection keeps what it was given until its client takes it, for each of a hundred streams.
//!
//! Invariant: the frames of a payload have exactly [`Payload::len`] bytes together.

use std::collections::VecDeque;

use bytes::Bytes;
use orch_raft::object::SharedObject;

use super::pretty;
use super::protobuf::message_field_len;
use crate::schema::protobuf::write_message_field;

/// A frame holds whole items up to this many bytes, or is one larger item: large enough that a system call per frame
/// does not count, small enough for ten thousand slow readers.
pub(super) const FRAME_BYTES: usize = 64 * 1024;

/// Levels of an item inside a list's document.
const ITEM_DEPTH: usize = 2;

/// An answer.
#[derive(Debug)]
pub struct Payload {
    len: usize,
    frames: Frames,
}

/// The pieces of an answer, in order.
#[derive(Debug)]
pub struct Frames {
    open: Bytes,
    items: Items,
    framing: Framing,
    close: &'static [u8],
    /// A large item and what stands behind it, to be handed out as they are before anything else.
    shared: VecDeque<Bytes>,
    /// Of the opening (0), the items (from 1 on) and the closing (last), what comes next.
    next: usize,
    left: usize,
}

/// What stands between opening and closing.
#[derive(Debug)]
pub(super) enum Items {
    /// The stored bytes of objects.
    Objects(Vec<SharedObject>),
    /// Parts of them, or of their Protobuf form.
    Parts(Vec<Bytes>),
}

/// What is written around an item.
#[derive(Debug)]
pub(super) enum Framing {
    /// Nothing.
    Plain,
    /// Commas between items, these bytes around each.
    Commas { before: Bytes, after: &'static [u8] },
    /// Commas, and each item over several lines.
    Pretty,
    /// Each item is field 2 of a message.
    Fields,
}

impl Payload {
    /// A body that is one buffer.
    pub(super) fn whole(body: Vec<u8>) -> Self {
        Self::list(body.into(), Items::Parts(Vec::new()), Framing::Fields, b"")
    }

    /// `head` before `rest`, which is shared, and a newline.
    pub(super) fn line(head: Bytes, rest: Bytes) -> Self {
        Self::list(head, Items::Parts(vec![rest]), Framing::Plain, b"\n")
    }

    /// A body with items.
    pub(super) fn list(open: Bytes, items: Items, framing: Framing, close: &'static [u8]) -> Self {
        let middle: usize = (0..items.len()).map(|at| framing.len(at, items.get(at))).sum();
        let len = open.len() + middle + close.len();
        Payload {
            len,
            frames: Frames { open, items, framing, close, shared: VecDeque::new(), next: 0, left: len },
        }
    }

    /// Bytes of the whole body.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the answer keeps for itself while it is handed out: not those of stored objects, but where they are.
    pub fn held(&self) -> usize {
        let of_items = match &self.frames.items {
            Items::Objects(objects) => objects.len() * size_of::<SharedObject>(),
            Items::Parts(parts) => parts.iter().map(|part| part.len() + size_of::<Bytes>()).sum(),
        };
        self.frames.open.len() + of_items
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The body, piece by piece.
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
        let last = self.items.len() + 1;
        if self.next == 0 && self.open.len() == self.left {
            self.next = last + 1;
            self.left = 0;
            return Some(std::mem::take(&mut self.open)).filter(|open| !open.is_empty());
        }
        let mut frame = Vec::new();
        while self.next <= last {
            if self.share_next(&mut frame) {
                frame.shrink_to_fit();
                break;
            }
            let size = self.size_hint_of_next();
            if frame.is_empty() {
                frame.reserve_exact(size.max(self.left.min(FRAME_BYTES)));
            } else if frame.len() + size > FRAME_BYTES {
                break;
            }
            self.write_next(&mut frame);
            self.next += 1;
        }
        if frame.is_empty() {
            return self.shared.pop_front().inspect(|item| self.left = self.left.saturating_sub(item.len()));
        }
        self.left = self.left.saturating_sub(frame.len());
        Some(Bytes::from(frame))
    }
}

impl Frames {
    /// Hands the next item out without a copy, if it is larger than a frame: what stands before it ends `frame`.
    fn share_next(&mut self, frame: &mut Vec<u8>) -> bool {
        let Some(at) = self.next.checked_sub(1).filter(|&at| at < self.items.len()) else { return false };
        if self.items.get(at).len() <= FRAME_BYTES {
            return false;
        }
        let behind = match &self.framing {
            Framing::Plain => Bytes::new(),
            Framing::Commas { before, after } => {
                if at > 0 {
                    frame.push(b',');
                }
                frame.extend_from_slice(before);
                Bytes::from_static(after)
            }
            // These write an item anew.
            Framing::Pretty | Framing::Fields => return false,
        };
        let pieces = [self.items.shared(at), behind];
        self.shared.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
        self.next += 1;
        true
    }

    /// Bytes of what comes next; a little less where an item is framed or indented.
    fn size_hint_of_next(&self) -> usize {
        match self.next {
            0 => self.open.len(),
            next if next <= self.items.len() => self.items.get(next - 1).len(),
            _ => self.close.len(),
        }
    }

    fn write_next(&self, frame: &mut Vec<u8>) {
        match self.next {
            0 => frame.extend_from_slice(&self.open),
            next if next <= self.items.len() => {
                self.framing.write(next - 1, self.items.get(next - 1), frame);
            }
            _ => frame.extend_from_slice(self.close),
        }
    }
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Objects(objects) => objects.len(),
            Items::Parts(parts) => parts.len(),
        }
    }

    fn get(&self, at: usize) -> &[u8] {
        match self {
            Items::Objects(objects) => &objects[at].json,
            Items::Parts(parts) => &parts[at],
        }
    }

    fn shared(&self, at: usize) -> Bytes {
        match self {
            Items::Objects(objects) => objects[at].json.clone(),
            Items::Parts(parts) => parts[at].clone(),
        }
    }
}

impl Framing {
    /// Bytes of item `at` with what is around it.
    fn len(&self, at: usize, item: &[u8]) -> usize {
        let comma = usize::from(at > 0);
        match self {
            Framing::Plain => item.len(),
            Framing::Commas { before, after } => comma + before.len() + item.len() + after.len(),
            Framing::Pretty => comma + 1 + 2 * ITEM_DEPTH + pretty::indented_len(item, ITEM_DEPTH),
            Framing::Fields => message_field_len(item.len()),
        }
    }

    fn write(&self, at: usize, item: &[u8], out: &mut Vec<u8>) {
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
            Framing::Pretty => {
                out.extend_from_slice(b"\n    ");
                pretty::indent(item, ITEM_DEPTH, out);
            }
            Framing::Fields => write_message_field(2, item, out),
        }
    }
}
