//! The way of a snapshot's bytes from a bounded channel to a file.
//!
//! Owns the verification of a stream while it is written, on a thread that may block. It reads no faster than the limit;
//! meanwhile the channel is full and its sender waits. The file gets its name after the stream was found whole, of a backup
//! after its restore test. What came of a stream that broke stays, where another process can resume it.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use orch_raft::archive::{ArchiveError, Header, Reader};
use tokio::sync::mpsc::Receiver;

use super::pacing::Paced;
use super::progress::Progress;
use super::sink::Sink;
use super::written::Written;

/// Verifies what comes, and writes it to `sink`, which has its name afterwards. The `beginning` of the stream is in `sink`
/// already: it is verified again, since the digest is that of all bytes. Returns the header and the bytes of the stream.
pub(super) fn copy_rest(
    beginning: impl Read,
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<(Header, u64)> {
    let Copied { header, bytes, written } = copy_unnamed(beginning, receiver, sink, limit)?;
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

/// The same, which leaves the giving of the name to the caller.
pub(crate) fn copy_unnamed(
    beginning: impl Read,
    receiver: Receiver<io::Result<Bytes>>,
    sink: Sink,
    limit: Option<u64>,
) -> anyhow::Result<Copied> {
    let stream = Paced::new(Pieces { receiver, piece: Bytes::new() }, limit);
    let mut tee = Tee { source: stream, sink, failure: None };
    match verify(beginning.chain(&mut tee)) {
        Ok((header, bytes)) => Ok(Copied { header, bytes, written: tee.sink.end()? }),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use orch_raft::archive::write_state;
    use orch_raft::state::State;
    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::snapshot::draft::{Draft, Existing};
    use crate::snapshot::link::Begun;
    use crate::snapshot::sink::Output;

    fn snapshot() -> Vec<u8> {
        write_state(Vec::new(), &Header::default(), &State::default()).unwrap()
    }

    fn draft(target: &Path) -> Draft {
        Draft::take_up(target, Existing::Refuse).unwrap()
    }

    /// Copies `pieces` behind the first `length` bytes of what is there of `target`.
    fn copied(target: &Path, length: u64, pieces: Vec<io::Result<Bytes>>) -> anyhow::Result<(Header, u64)> {
        let output = Output::File(draft(target));
        let beginning = output.continue_after(length)?.unwrap();
        let (sender, receiver) = channel(pieces.len().max(1));
        pieces.into_iter().for_each(|piece| sender.try_send(piece).unwrap());
        drop(sender);
        copy_rest(beginning, receiver, Sink::new(output, &[])?, None)
    }

    #[test]
    fn a_stream_that_broke_is_left_as_a_part_and_its_rest_makes_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (target, part) = (folder.path().join("s"), folder.path().join("s.part"));
        let whole = snapshot();
        let cut = whole.len() - 40;
        let broken = vec![
            Ok(Bytes::copy_from_slice(&whole[..cut])),
            Err(io::Error::from(io::ErrorKind::ConnectionReset)),
        ];
        let told = copied(&target, 0, broken).unwrap_err().to_string();
        assert!(told.contains("s.part has what came"), "{told}");
        assert!(part.exists() && !target.exists());

        let begun = Begun::of(&draft(&target)).unwrap().map(|begun| begun.bytes);
        // Looking at it has taken it away.
        assert!(!part.exists());
        let begun = begun.unwrap();
        assert!(begun > 0 && begun <= cut as u64, "{begun} of {cut}");
        std::fs::write(&part, &whole[..cut]).unwrap();
        let rest = Bytes::copy_from_slice(&whole[usize::try_from(begun).unwrap()..]);
        let (_, bytes) = copied(&target, begun, vec![Ok(rest)]).unwrap();
        assert_eq!(bytes, whole.len() as u64);
        assert_eq!(std::fs::read(&target).unwrap(), whole);
        assert!(!part.exists());
    }

    #[test]
    fn the_rest_of_another_stream_makes_nothing_whole_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("s");
        let whole = snapshot();
        let other = Header { time_ms: 7, ..Header::default() };
        let other = write_state(Vec::new(), &other, &State::default()).unwrap();
        let begun = whole.len() - 40;
        std::fs::write(folder.path().join("s.part"), &whole[..begun]).unwrap();
        let rest = Bytes::copy_from_slice(&other[other.len() - 40..]);
        let length = u64::try_from(begun).unwrap();
        let told = format!("{:#}", copied(&target, length, vec![Ok(rest)]).unwrap_err());
        assert!(told.contains("no whole snapshot"), "{told}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
