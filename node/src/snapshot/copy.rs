//! The way of a snapshot's bytes from a bounded channel to a file.
//!
//! Owns the verification of a stream while it is written, on a thread that may block. It reads no faster than the limit;
//! meanwhile the channel is full and its sender waits. The file gets its name after the stream was found whole, of a backup
//! after its restore test.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use orch_raft::archive::{ArchiveError, Header, Reader};
use tokio::sync::mpsc::Receiver;

use super::pacing::Paced;
use super::progress::Progress;
use super::sink::Sink;
use super::written::Written;

/// Verifies what comes, and writes it to `sink`, which has its name afterwards. Returns the header and the bytes of the
/// stream.
pub(super) fn copy(
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<(Header, u64)> {
    let Copied { header, bytes, written } = copy_unnamed(receiver, sink, limit)?;
    written.commit()?;
    Ok((header, bytes))
}

/// A stream that was verified and written.
pub(crate) struct Copied {
    pub(crate) header: Header,
    /// Bytes of the stream, before any encryption.
    pub(super) bytes: u64,
    pub(crate) written: Written,
}

/// Verifies what comes, and writes it to `sink`.
pub(crate) fn copy_unnamed(
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<Copied> {
    let stream = Paced::new(Pieces { receiver, piece: Bytes::new() }, limit);
    let mut tee = Tee { source: stream, sink, failure: None };
    match verify(&mut tee) {
        Ok((header, bytes)) => Ok(Copied { header, bytes, written: tee.sink.end()? }),
        Err(error) => match (tee.failure, error) {
            (Some(failure), _) => Err(tee.sink.failed(failure)),
            (None, ArchiveError::Io(error)) => {
                Err(anyhow::Error::new(error).context("the connection broke; nothing was kept"))
            }
            (None, error) => Err(anyhow::Error::new(error).context("the member sent no whole snapshot")),
        },
    }
}

fn verify(tee: &mut impl Read) -> Result<(Header, u64), ArchiveError> {
    let mut reader = Reader::open(tee)?;
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
