//! A rendered document in pieces, so that a client who takes minutes to read it does not hold the part already sent.
//!
//! Owns the boundaries of the pieces. It never inspects the content.

use bytes::Bytes;
use orch_schema::YamlSink;

use super::payload::{FRAME_BYTES, Payload};
use super::pretty::Sink;

/// Bytes from which on a piece is full: more than a frame, so that [`Payload`] sends pieces without copying them.
const PIECE_BYTES_MIN: usize = FRAME_BYTES + 1;

/// Capacity of a piece, so that a row or a line past the end does not reallocate it.
const PIECE_CAPACITY_BYTES: usize = FRAME_BYTES + FRAME_BYTES / 4;

/// A document being written.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    full: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    /// An empty document; `bytes` is its expected size.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Pieces { last: Vec::with_capacity(bytes.min(PIECE_CAPACITY_BYTES)), ..Pieces::default() }
    }

    /// The piece to append to: a new one if the last is full.
    pub(super) fn last(&mut self) -> &mut Vec<u8> {
        if self.last.len() >= PIECE_BYTES_MIN {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE_CAPACITY_BYTES));
            self.full.push(full.into());
        }
        &mut self.last
    }

    /// The document as a response body.
    pub(super) fn into_payload(self) -> Payload {
        let Pieces { mut full, last, .. } = self;
        if full.is_empty() {
            return Payload::whole(last);
        }
        full.push(last.into());
        Payload::pieces(full)
    }
}

impl Sink for Pieces {
    fn put(&mut self, bytes: &[u8]) {
        self.last().extend_from_slice(bytes);
    }
}

impl YamlSink for Pieces {
    fn place(&mut self) -> &mut Vec<u8> {
        self.last()
    }
}
