//! A rendered document in pieces, so that a client who takes minutes for it does not keep what it has been sent.
//!
//! Owns where one piece ends and the next begins. It never looks at what is written.

use bytes::Bytes;
use orch_schema::YamlSink;

use super::payload::{FRAME_BYTES, Payload};
use super::pretty::Sink;

/// Bytes from which on a piece is full: more than a frame holds, so that pieces are handed out without a copy.
const FULL: usize = FRAME_BYTES + 1;

/// Room of a piece, so that a row or a line goes over its end without moving it.
const ROOM: usize = FRAME_BYTES + FRAME_BYTES / 4;

/// A document that is being written.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    full: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    /// A document of about `bytes`.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Pieces { last: Vec::with_capacity(bytes.min(ROOM)), ..Pieces::default() }
    }

    /// Where the document is written on: a new piece, if the last one is full.
    pub(super) fn last(&mut self) -> &mut Vec<u8> {
        if self.last.len() >= FULL {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(ROOM));
            self.full.push(full.into());
        }
        &mut self.last
    }

    /// The document as an answer.
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
