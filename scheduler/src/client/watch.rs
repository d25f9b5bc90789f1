//! An open watch: the frames of its stream, and the events in them.
//!
//! Owns the framing (a length of four bytes before each Protobuf event; lines of JSON) and the bound of a frame. It
//! neither resumes nor lists: that is the reflector's.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::api::meta::v1::ObjectMeta;

use super::codec::{Codec, ContentType};
use super::error::{ApiStatus, Error, chain};
use super::http::ResponseBody;
use super::kind::Object;
use super::transport::ServerIndex;

/// The longest event. The server's objects end at 1.5 MiB, about twice that in JSON.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// How much longer than asked for a watch may stay open: the server ends it, and its clock is not ours.
const OVERTIME: Duration = Duration::from_secs(30);

/// An event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent<T> {
    /// The object was created, or entered the selection.
    Added(T),
    /// The object changed.
    Modified(T),
    /// The object was deleted, or left the selection; this is its last state.
    Deleted(T),
    /// All events up to this version have been sent.
    Bookmark(String),
}

/// A watch that the server has accepted. Dropping it ends it.
pub struct WatchStream<T> {
    body: ResponseBody,
    server: ServerIndex,
    frames: Frames,
    codec: Codec,
    what: String,
    deadline: tokio::time::Instant,
    object: PhantomData<T>,
}

impl<T: Object> WatchStream<T> {
    pub(super) fn new(
        body: ResponseBody,
        server: ServerIndex,
        codec: Codec,
        what: String,
        timeout_seconds: u32,
    ) -> Self {
        let lifetime = Duration::from_secs(u64::from(timeout_seconds)) + OVERTIME;
        Self {
            body,
            server,
            frames: Frames::new(codec.content_type()),
            codec,
            what,
            deadline: tokio::time::Instant::now() + lifetime,
            object: PhantomData,
        }
    }

    /// The server that the stream comes from.
    pub(super) fn server(&self) -> ServerIndex {
        self.server
    }

    /// The next event; `None` once the server has ended the watch.
    ///
    /// # Errors
    /// The server's error event as [`Error::Api`]; a stream that broke, or that cannot be read.
    pub async fn next(&mut self) -> Result<Option<WatchEvent<T>>, Error> {
        loop {
            if let Some(frame) = self.frames.take().map_err(|problem| self.unreadable(problem))? {
                return self.event(frame).map(Some);
            }
            let read = tokio::time::timeout_at(self.deadline, self.body.frame()).await;
            let read = read.map_err(|_| self.lost("the server did not end the watch in time".to_owned()))?;
            match read {
                None if self.frames.is_empty() => return Ok(None),
                None => return Err(self.lost("the stream ended within an event".to_owned())),
                Some(Err(error)) => return Err(self.lost(chain(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.frames.push(&data);
                    }
                }
            }
        }
    }

    fn event(&self, frame: Bytes) -> Result<WatchEvent<T>, Error> {
        let unreadable = |error: super::codec::CodecError| self.unreadable(chain(&error));
        let (kind, body) = self.codec.decode_event(frame).map_err(unreadable)?;
        if kind == "ERROR" {
            let status = self.codec.decode_status(body);
            let code = status.as_ref().map_or(500, |status| u16::try_from(status.code).unwrap_or(500));
            let status = Box::new(ApiStatus::new(if code == 0 { 500 } else { code }, status, None));
            return Err(Error::Api { what: self.what.clone(), status });
        }
        let object: T = self.codec.decode(body).map_err(unreadable)?;
        match kind.as_str() {
            "ADDED" => Ok(WatchEvent::Added(object)),
            "MODIFIED" => Ok(WatchEvent::Modified(object)),
            "DELETED" => Ok(WatchEvent::Deleted(object)),
            "BOOKMARK" => {
                let version =
                    object.metadata().map(|metadata: &ObjectMeta| metadata.resource_version.clone());
                Ok(WatchEvent::Bookmark(version.unwrap_or_default()))
            }
            other => Err(self.unreadable(format!("unknown event type `{other}`"))),
        }
    }

    fn lost(&self, problem: String) -> Error {
        Error::Lost { what: self.what.clone(), problem }
    }

    fn unreadable(&self, problem: String) -> Error {
        Error::Answer { what: self.what.clone(), problem }
    }
}

/// Cuts a stream into frames.
#[derive(Debug)]
struct Frames {
    content_type: ContentType,
    buffer: BytesMut,
    // Where the search for the end of a line goes on. Invariant: searched <= buffer.len()
    searched: usize,
}

impl Frames {
    fn new(content_type: ContentType) -> Self {
        Self { content_type, buffer: BytesMut::new(), searched: 0 }
    }

    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Whether nothing is left but blanks.
    fn is_empty(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    /// The next whole frame; `None` if more bytes are needed; an error if it would be too long.
    fn take(&mut self) -> Result<Option<Bytes>, String> {
        match self.content_type {
            ContentType::Protobuf => self.take_counted(),
            ContentType::Json => self.take_line(),
        }
    }

    fn take_counted(&mut self) -> Result<Option<Bytes>, String> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if len > FRAME_BYTES_MAX {
            return Err(format!("an event of {len} bytes"));
        }
        if self.buffer.len() < 4 + len {
            return Ok(None);
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    fn take_line(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.buffer.len() > FRAME_BYTES_MAX {
                    return Err(format!("an event of over {FRAME_BYTES_MAX} bytes"));
                }
                return Ok(None);
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in pieces of each size, and compares the frames.
    fn check(content_type: ContentType, stream: &[u8], expected: &[&[u8]]) {
        for size in 1..=stream.len() {
            let mut frames = Frames::new(content_type);
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.take().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, expected, "in pieces of {size}");
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn counted_frames_are_cut_wherever_the_pieces_end() {
        check(ContentType::Protobuf, b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01d", &[b"abc", b"", b"d"]);
    }

    #[test]
    fn lines_are_cut_wherever_the_pieces_end() {
        check(ContentType::Json, b"{\"a\":1}\n\n{}\n", &[b"{\"a\":1}\n", b"{}\n"]);
    }

    #[test]
    fn frames_over_the_bound_are_errors() {
        let mut frames = Frames::new(ContentType::Protobuf);
        frames.push(&[0xff; 4]);
        assert!(frames.take().is_err());
        let mut frames = Frames::new(ContentType::Json);
        frames.push(&vec![b'x'; FRAME_BYTES_MAX + 1]);
        assert!(frames.take().is_err());
    }

    #[test]
    fn a_torn_frame_is_not_empty() {
        let mut frames = Frames::new(ContentType::Protobuf);
        frames.push(b"\0\0\0\x05ab");
        assert_eq!(frames.take(), Ok(None));
        assert!(!frames.is_empty());
    }
}
