//! The payload of an encrypted file: chunks of 64 KiB, each authenticated, the last one marked.
//!
//! Owns the chunks' nonces: a counter, and whether the chunk is the last. So chunks cannot be exchanged, left out or
//! appended, and a file that is cut between two chunks has no last one.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use ring::aead::{Aad, LessSafeKey, Nonce};

use super::header::{self, chacha};
use super::keys::{Identity, Recipient, random_bytes};
use super::{FILE_KEY_BYTES, FileKey, SealedError, derive};

/// Bytes of a chunk in clear; only the last one may have fewer.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of a chunk's tag.
const TAG_BYTES: usize = 16;

/// Bytes of the salt of the payload's key.
const SALT_BYTES: usize = 16;

/// Whether a chunk is the last one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Inner = 0,
    Last = 1,
}

/// The cipher of a payload, and the number of the next chunk.
struct Chunks {
    key: LessSafeKey,
    next: u64,
}

impl Chunks {
    fn new(key: &FileKey, salt: &[u8]) -> Chunks {
        Chunks { key: chacha(&derive(&**key, salt, b"payload")), next: 0 }
    }

    /// The nonce of the next chunk: eleven bytes of its number, and its place.
    fn nonce(&mut self, place: Place) -> Nonce {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.next.to_be_bytes());
        nonce[11] = place as u8;
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Encrypts what is written to it. Without [`Sealer::finish`] the file cannot be opened to its end.
pub(crate) struct Sealer<W> {
    out: W,
    /// Kept so that the file can be read again without a private key.
    key: FileKey,
    chunks: Chunks,
    /// The chunk that is being filled.
    chunk: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    /// Begins a file for `recipients`, of which there is one at least.
    pub(in crate::snapshot) fn begin(mut out: W, recipients: &[Recipient]) -> Result<Self, SealedError> {
        let key: FileKey = random_bytes::<FILE_KEY_BYTES>()?;
        let salt = random_bytes::<SALT_BYTES>()?;
        out.write_all(&header::seal(&key, recipients)?)?;
        out.write_all(&*salt)?;
        let chunk = Vec::with_capacity(CHUNK_BYTES + TAG_BYTES);
        let chunks = Chunks::new(&key, &*salt);
        Ok(Sealer { out, key, chunks, chunk })
    }

    /// Writes the last chunk, and returns the output with the key of the file.
    pub(in crate::snapshot) fn finish(mut self) -> io::Result<(W, FileKey)> {
        self.end_chunk(Place::Last)?;
        self.out.flush()?;
        Ok((self.out, self.key))
    }

    /// Where the encrypted bytes go.
    pub(in crate::snapshot) fn output(&self) -> &W {
        &self.out
    }

    fn end_chunk(&mut self, place: Place) -> io::Result<()> {
        let nonce = self.chunks.nonce(place);
        let sealed = self.chunks.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.chunk);
        sealed.map_err(|_| io::Error::other("a chunk cannot be encrypted"))?;
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full chunk is kept until more comes: it could be the last.
        if self.chunk.len() == CHUNK_BYTES && !bytes.is_empty() {
            self.end_chunk(Place::Inner)?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Bytes of an unfinished chunk stay: only [`Sealer::finish`] ends it.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Decrypts a file while it is read.
pub(in crate::snapshot) struct Opener<R> {
    source: R,
    chunks: Chunks,
    chunk: Vec<u8>,
    /// Bytes of `chunk` that were given out.
    given: usize,
    has_ended: bool,
}

impl<R: BufRead> Opener<R> {
    /// Reads the header, which one of `identities` opens.
    pub(in crate::snapshot) fn open(mut source: R, identities: &[Identity]) -> Result<Self, SealedError> {
        let key = header::open(&mut source, identities)?;
        Opener::behind_header(source, &key)
    }

    /// Reads a file whose key is known. Everything is authenticated but the wrapping of the key for its recipients, which
    /// only their private keys show.
    pub(in crate::snapshot) fn with_key(mut source: R, key: &FileKey) -> Result<Self, SealedError> {
        header::check(&mut source, key)?;
        Opener::behind_header(source, key)
    }

    fn behind_header(mut source: R, key: &FileKey) -> Result<Self, SealedError> {
        let mut salt = [0; SALT_BYTES];
        source.read_exact(&mut salt)?;
        let chunks = Chunks::new(key, &salt);
        Ok(Opener { source, chunks, chunk: Vec::new(), given: 0, has_ended: false })
    }

    /// Reads the next chunk. It is the last if nothing follows it.
    fn next_chunk(&mut self) -> io::Result<()> {
        let damaged = |reason: &str| io::Error::new(ErrorKind::InvalidData, reason.to_owned());
        let is_first = self.chunks.next == 0;
        self.chunk.clear();
        self.given = 0;
        let most = CHUNK_BYTES + TAG_BYTES;
        (&mut self.source).take(most as u64).read_to_end(&mut self.chunk)?;
        let place = if self.source.fill_buf()?.is_empty() { Place::Last } else { Place::Inner };
        let nonce = self.chunks.nonce(place);
        let opened = self.chunks.key.open_in_place(nonce, Aad::empty(), &mut self.chunk);
        let length = opened.map(|clear| clear.len()).map_err(|_| {
            damaged("the encrypted file is cut short or damaged; use another copy or another snapshot")
        })?;
        self.chunk.truncate(length);
        if length == 0 && !is_first {
            return Err(damaged("the encrypted file ends with an empty chunk; use another copy"));
        }
        self.has_ended = place == Place::Last;
        Ok(())
    }
}

impl<R: BufRead> Read for Opener<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.chunk.len() {
            if self.has_ended {
                return Ok(0);
            }
            if let Err(error) = self.next_chunk() {
                // A chunk that failed its authentication is never given out, also if the caller reads on.
                self.chunk.clear();
                self.has_ended = true;
                return Err(error);
            }
        }
        let length = buffer.len().min(self.chunk.len() - self.given);
        buffer[..length].copy_from_slice(&self.chunk[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}
