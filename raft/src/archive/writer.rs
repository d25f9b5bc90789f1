//! Writes a snapshot file.
//!
//! Owns the cutting of objects into blocks, their compression, and the digest of all bytes. It holds one block before and
//! one after compression. Invariant: objects come in the order of resource, then path, each once, and as many as the header
//! names.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use orch_proto::archive as wire;
use prost::Message;
use sha2::{Digest as _, Sha256};
use zstd::bulk::Compressor;

use super::block::{BlockKind, Head};
use super::{
    BLOCK_BYTES, Count, HEADER_BYTES_MAX, Header, MAGIC, OBJECT_BYTES_MAX, header_to_wire, stream_name,
};
use crate::encoding::object_to_wire;
use crate::object::Object;

/// The level of compression. Level 3 makes files a tenth smaller in twice the time, on a processor that serves requests.
const LEVEL: i32 = 1;

/// Writes a snapshot file to `W`. Without [`Writer::finish`] it is no snapshot.
pub struct Writer<W> {
    out: Hashed<W>,
    compressor: Compressor<'static>,
    /// Bytes of a block of objects after which the next one is begun.
    block_bytes: usize,
    /// The block that is being filled; empty between two of them.
    plain: Vec<u8>,
    packed: Vec<u8>,
    /// Resource and path of the last object.
    last: Option<(Arc<str>, Arc<str>)>,
    /// Counts of the header that are still to come.
    expected: BTreeMap<Arc<str>, Count>,
    written: BTreeMap<Arc<str>, Count>,
    blocks: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file with `header`.
    ///
    /// # Errors
    /// `out` failed, or the header is over its limit of 4 MiB.
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        Writer::with_blocks(out, header, BLOCK_BYTES)
    }

    /// The name of the stream. Only right after the beginning.
    pub(super) fn stream(&self) -> String {
        stream_name(&self.out.hash)
    }

    /// The same with blocks of another size, so that tests see many of them.
    pub(super) fn with_blocks(out: W, header: &Header, block_bytes: usize) -> io::Result<Self> {
        let mut writer = Writer {
            out: Hashed { out, hash: Sha256::new() },
            compressor: Compressor::new(LEVEL)?,
            block_bytes,
            plain: Vec::new(),
            packed: Vec::new(),
            last: None,
            expected: header.resources.clone(),
            written: BTreeMap::new(),
            blocks: 0,
        };
        writer.out.write(&MAGIC)?;
        writer.plain = header_to_wire(header).encode_to_vec();
        if writer.plain.len() > HEADER_BYTES_MAX {
            return Err(too_large("the header", writer.plain.len(), HEADER_BYTES_MAX));
        }
        writer.end_block(BlockKind::Header)?;
        Ok(writer)
    }

    /// Adds an object.
    ///
    /// # Errors
    /// `out` failed, or a part of the object is over its limit.
    ///
    /// # Panics
    /// The object does not come after the last one.
    pub fn push(&mut self, resource: &Arc<str>, path: &Arc<str>, object: &Object) -> io::Result<()> {
        let last = self.last.take();
        let last = last.as_ref().map(|(resource, path)| (&**resource, &**path));
        assert!(last < Some((&**resource, &**path)), "objects are written in the order of their keys");
        let record = object_to_wire(object);
        let length = record.encoded_len();
        if length > OBJECT_BYTES_MAX {
            return Err(too_large("an object", length, OBJECT_BYTES_MAX));
        }
        let is_of_block = last.is_some_and(|(of, _)| *of == **resource);
        if !is_of_block || self.plain.len() >= self.block_bytes {
            self.end_objects()?;
        }
        if self.plain.is_empty() {
            self.plain.extend_from_slice(&short_length("the name of a resource", resource)?);
            self.plain.extend_from_slice(resource.as_bytes());
        }
        self.plain.extend_from_slice(&short_length("a path", path)?);
        self.plain.extend_from_slice(path.as_bytes());
        let declared = u32::try_from(length).map_err(|_| too_large("an object", length, OBJECT_BYTES_MAX))?;
        self.plain.extend_from_slice(&declared.to_le_bytes());
        record.encode(&mut self.plain).map_err(io::Error::other)?;
        let count = self.written.entry(resource.clone()).or_default();
        count.add(Count { objects: 1, bytes: object.json.len() as u64 });
        self.last = Some((resource.clone(), path.clone()));
        Ok(())
    }

    /// Ends the file, and returns what it was written to, flushed.
    ///
    /// # Errors
    /// `out` failed.
    ///
    /// # Panics
    /// Other objects were written than the header names.
    pub fn finish(mut self) -> io::Result<W> {
        assert_eq!(self.written, self.expected, "a file holds the objects that its header names");
        self.end_objects()?;
        let mut total = Count::default();
        self.written.values().for_each(|count| total.add(*count));
        let trailer = wire::Trailer { objects: total.objects, bytes: total.bytes, blocks: self.blocks };
        self.plain = trailer.encode_to_vec();
        self.end_block(BlockKind::Trailer)?;
        let Hashed { mut out, hash } = self.out;
        out.write_all(&hash.finalize())?;
        out.flush()?;
        Ok(out)
    }

    fn end_objects(&mut self) -> io::Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        self.blocks += 1;
        self.end_block(BlockKind::Objects)
    }

    /// Writes `plain` as a block and empties it.
    fn end_block(&mut self, kind: BlockKind) -> io::Result<()> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
        self.compressor.compress_to_buffer(&self.plain, &mut self.packed)?;
        let head = Head::of(kind, self.plain.len(), &self.packed);
        let head = head.ok_or_else(|| too_large("a block", self.plain.len(), BLOCK_BYTES))?;
        self.out.write(&head.encode())?;
        self.out.write(&self.packed)?;
        self.plain.clear();
        Ok(())
    }
}

/// The output, and the digest of all that is written to it.
struct Hashed<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}

fn short_length(part: &str, text: &str) -> io::Result<[u8; 2]> {
    let length = u16::try_from(text.len());
    length.map(u16::to_le_bytes).map_err(|_| too_large(part, text.len(), usize::from(u16::MAX)))
}

fn too_large(part: &str, bytes: usize, limit: usize) -> io::Error {
    io::Error::other(format!("{part} of {bytes} bytes is over the limit of {limit} of a snapshot"))
}
