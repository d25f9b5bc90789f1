//! The way of a snapshot's bytes from a bounded channel to a file.
//!
//! Owns the verification of a stream while it is written, on a thread that may block. It reads no faster than the limit;
//! meanwhile the channel is full and its sender waits. The file gets its name after the stream was found whole. What came of a
//! stream that broke stays, where another process can resume it.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use orch_raft::archive::{ArchiveError, Header, Reader};
use tokio::sync::mpsc::Receiver;

use super::pacing::Paced;
use super::progress::Progress;
use super::sink::Sink;

/// Verifies what comes, and writes it to `sink`. Returns the header and the bytes of the stream.
pub(crate) fn copy(
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<(Header, u64)> {
    copy_rest(io::empty(), receiver, sink, limit)
}

/// The same for a stream whose `beginning` is in `sink` already: it is verified again, since the digest is that of all bytes.
pub(super) fn copy_rest(
    beginning: impl Read,
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<(Header, u64)> {
    let stream = Paced::new(Pieces { receiver, piece: Bytes::new() }, limit);
    let mut tee = Tee { source: stream, sink, failure: None };
    match verify(beginning.chain(&mut tee)) {
        Ok(verified) => {
            tee.sink.finish()?;
            Ok(verified)
        }
        Err(error) => match (tee.failure, error) {
            (Some(failure), _) => Err(tee.sink.failed(failure)),
            (None, ArchiveError::Io(error)) => {
                let told = match tee.sink.leave() {
                    Some(part) => format!(
                        "the connection broke; {} has what came, and the same command resumes it",
                        part.display()
                    ),
                    None => "the connection broke; nothing was kept".to_owned(),
                };
                Err(anyhow::Error::new(error).context(told))
            }
            (None, error) => Err(anyhow::Error::new(error).context("the member sent no whole snapshot")),
        },
    }
}

fn verify(source: impl Read) -> Result<(Header, u64), ArchiveError> {
    let mut reader = Reader::open(source)?;
    let mut progress = Progress::of(reader.header());
    for record in &mut reader {
        progress.add(record?.object.json.len());
    }
    progress.end();
    Ok((reader.header().clone(), reader.bytes_read()))
}

/// The pieces of a body as a stream to read.
struct Pieces {
    receiver: Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Writes what is read from `source` to `sink`.
struct Tee<R> {
    source: R,
    sink: Sink,
    /// The error of the sink, which a reader of this takes for one of the source.
    failure: Option<io::Error>,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        if let Err(error) = self.sink.write_all(&buffer[..read]) {
            self.failure = Some(error);
            return Err(io::Error::other("the snapshot cannot be written"));
        }
        Ok(read)
    }
}
