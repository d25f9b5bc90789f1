//! A document that is kept compressed, and its text while it is written: hashed and compressed as a stream, never held whole.
//!
//! Owns the hash that identifies a document, and its compressed form. It knows nothing of what a document says.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};

/// Level of compression. A document is compressed once and sent many times.
const LEVEL: u32 = 6;

/// A document being written.
pub(crate) struct Text {
    hash: Hash,
    compressed: GzEncoder<Vec<u8>>,
    length: usize,
}

/// The hash of a document that is written and not kept.
#[derive(Default)]
pub(crate) struct Hash(Sha512);

/// A finished document.
#[derive(Clone, Debug)]
pub struct Document {
    /// SHA-512 in upper-case hexadecimal of the document's JSON form, whatever the form of this document.
    pub hash: String,
    /// The document, compressed with gzip.
    pub compressed: Bytes,
    /// Bytes of the uncompressed document.
    length: usize,
}

impl Text {
    pub(crate) fn new() -> Self {
        let compressed = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
        Self { hash: Hash::default(), compressed, length: 0 }
    }

    pub(crate) fn finish(self) -> io::Result<Document> {
        let mut compressed = self.compressed.finish()?;
        compressed.shrink_to_fit();
        Ok(Document { hash: self.hash.finish(), compressed: compressed.into(), length: self.length })
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.compressed.write_all(bytes)?;
        self.hash.write_all(bytes)?;
        self.length += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.compressed.flush()
    }
}

impl Hash {
    /// SHA-512 in upper-case hexadecimal.
    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
    }
}

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Document {
    /// The same document, with `hash` for its own.
    pub(crate) fn known_by(self, hash: String) -> Self {
        Self { hash, ..self }
    }

    /// The uncompressed document.
    ///
    /// # Errors
    /// The compressed form is broken, which only a fault of this program causes.
    pub fn text(&self) -> io::Result<Bytes> {
        let mut text = Vec::with_capacity(self.length);
        GzDecoder::new(&*self.compressed).read_to_end(&mut text)?;
        Ok(text.into())
    }
}

/// A document from its whole text.
pub(crate) fn whole(text: &str) -> io::Result<Document> {
    let mut document = Text::new();
    document.write_all(text.as_bytes())?;
    document.finish()
}
