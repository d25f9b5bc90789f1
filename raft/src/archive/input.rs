//! The bytes of a snapshot file while they are read.
//!
//! Owns their count, their digest, and every check of blocks: head, checksum, limits of lengths, decompression. It knows the
//! header and the cluster's keys, and no objects.

use std::io::{ErrorKind, Read};

use orch_proto::archive as wire;
use prost::Message;
use sha2::{Digest as _, Sha256};
use zstd::bulk::Decompressor;

use super::block::{BlockKind, HEAD_BYTES, Head};
use super::{
    ArchiveError, BLOCK_BYTES_MAX, DIGEST_BYTES, FORMAT_WITH_KEYS, HEADER_BYTES_MAX, KEYS_BYTES_MAX,
    KeyBundle, MAGIC, stream_name,
};
use crate::encoding::FEATURE_LEVEL_MAX;

/// Largest trailer before compression: three numbers.
const TRAILER_BYTES_MAX: usize = 256;

/// The bytes of the file, counted and hashed.
pub(super) struct Input<R> {
    source: R,
    /// Bytes read so far.
    at: u64,
    hash: Sha256,
    packed: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R) -> Self {
        Input { source, at: 0, hash: Sha256::new(), packed: Vec::new() }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The source, where it stands.
    pub(super) fn into_source(self) -> R {
        self.source
    }

    /// The name of the stream that was read so far.
    pub(super) fn stream(&self) -> String {
        stream_name(&self.hash)
    }

    /// Reads the first bytes of a file and its header, from which its digest begins.
    pub(super) fn header(
        &mut self,
        decompressor: &mut Decompressor<'_>,
    ) -> Result<wire::Header, ArchiveError> {
        self.hash = Sha256::new();
        let mut magic = [0; MAGIC.len()];
        let read = self.read_some(&mut magic)?;
        if magic[..read] != MAGIC[..read] {
            return Err(ArchiveError::NotASnapshot);
        }
        if read < magic.len() {
            return Err(ArchiveError::Truncated { at: self.at });
        }
        let at = self.at;
        let (kind, plain) = self.block(decompressor)?;
        if kind != BlockKind::Header {
            return Err(damaged(at, "it does not begin with a header"));
        }
        let header = wire::Header::decode(&plain[..]).map_err(|error| damaged(at, &error.to_string()))?;
        if texts(&header).any(|text| text.contains(char::is_control)) {
            return Err(damaged(at, "a text of its header has a control character"));
        }
        check_versions(&header)?;
        Ok(header)
    }

    /// Reads the cluster's keys and the digest behind them.
    pub(super) fn keys(&mut self, decompressor: &mut Decompressor<'_>) -> Result<KeyBundle, ArchiveError> {
        let at = self.at;
        let (kind, plain) = self.block(decompressor)?;
        if kind != BlockKind::Keys {
            return Err(damaged(at, "it has no keys behind a header that tells of them"));
        }
        let keys = KeyBundle::decode(&plain).map_err(|reason| damaged(at, &reason))?;
        self.digest(at)?;
        Ok(keys)
    }

    /// Reads the digest of all bytes before it and compares it. `at`: where the part before it begins.
    pub(super) fn digest(&mut self, at: u64) -> Result<(), ArchiveError> {
        let digest: [u8; DIGEST_BYTES] = self.hash.clone().finalize().into();
        let mut stored = [0; DIGEST_BYTES];
        self.read_exact(&mut stored)?;
        match stored == digest {
            true => Ok(()),
            false => Err(damaged(at, "its digest (SHA-256) is another")),
        }
    }

    /// Reads a block, checks it and unpacks it.
    pub(super) fn block(
        &mut self,
        decompressor: &mut Decompressor<'_>,
    ) -> Result<(BlockKind, Vec<u8>), ArchiveError> {
        let at = self.at;
        let mut head = [0; HEAD_BYTES];
        self.read_exact(&mut head)?;
        let head = Head::decode(&head).map_err(|reason| damaged(at, reason))?;
        let plain_max = match head.kind {
            BlockKind::Header => HEADER_BYTES_MAX,
            BlockKind::Objects => BLOCK_BYTES_MAX,
            BlockKind::Trailer => TRAILER_BYTES_MAX,
            BlockKind::Keys => KEYS_BYTES_MAX,
        };
        let (plain, packed) = (head.plain as usize, head.packed as usize);
        if plain > plain_max || packed > zstd::zstd_safe::compress_bound(plain) {
            return Err(damaged(at, "a block is over its limit of size"));
        }
        let mut buffer = std::mem::take(&mut self.packed);
        buffer.resize(packed, 0);
        self.read_exact(&mut buffer)?;
        if crc32fast::hash(&buffer) != head.checksum {
            return Err(damaged(at, "the checksum of a block is another"));
        }
        let mut unpacked = Vec::with_capacity(plain);
        decompressor
            .decompress_to_buffer(&buffer, &mut unpacked)
            .map_err(|error| damaged(at, &format!("a block cannot be decompressed: {error}")))?;
        self.packed = buffer;
        if unpacked.len() != plain {
            return Err(damaged(at, "a block is of another length"));
        }
        Ok((head.kind, unpacked))
    }

    /// Requires that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), ArchiveError> {
        let end = self.at;
        match self.read_some(&mut [0])? {
            0 => Ok(()),
            _ => Err(ArchiveError::Trailing { at: end }),
        }
    }

    /// Fills `buffer`; an end before that is a file cut short.
    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        match self.read_some(buffer)? == buffer.len() {
            true => Ok(()),
            false => Err(ArchiveError::Truncated { at: self.at }),
        }
    }

    /// Fills `buffer` as far as there are bytes, and returns how many.
    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.hash.update(&buffer[..filled]);
        self.at += filled as u64;
        Ok(filled)
    }
}

/// The texts of a header, which programs show on a terminal before the file is known to be whole.
fn texts(header: &wire::Header) -> impl Iterator<Item = &str> {
    let members = header.members.iter().flat_map(|member| [&member.name, &member.address]);
    let resources = header.resources.iter().map(|resource| &resource.name);
    let own = [&header.cluster, &header.brand, &header.program, &header.member];
    own.into_iter().chain(members).chain(resources).map(String::as_str)
}

/// A file of a newer program is refused as such, and not as damaged.
fn check_versions(header: &wire::Header) -> Result<(), ArchiveError> {
    let newer = |what: &str, found: u32, reads: u32| {
        ArchiveError::Newer(format!(
            "the snapshot was written by a newer version ({}): {what} {found}, this program reads up to {reads}; \
             use a program of that version",
            header.program
        ))
    };
    match (header.format, header.feature_level) {
        (format, _) if format > FORMAT_WITH_KEYS => Err(newer("format", format, FORMAT_WITH_KEYS)),
        (_, level) if level > FEATURE_LEVEL_MAX => Err(newer("feature level", level, FEATURE_LEVEL_MAX)),
        _ => Ok(()),
    }
}

/// The error for damage near byte `at`.
pub(super) fn damaged(at: u64, reason: &str) -> ArchiveError {
    ArchiveError::Damaged { at, reason: reason.to_owned() }
}
