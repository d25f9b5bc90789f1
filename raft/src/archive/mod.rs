//! Snapshot files: the whole state at one revision as one stream of bytes (docs/decisions/0038).
//!
//! Owns the format, and the proof that a file is whole: a file cut short, a changed bit and bytes behind the end are told
//! apart and refused. It opens no file and knows no network: a [`Writer`] writes to any [`std::io::Write`], a [`Reader`]
//! reads from any [`std::io::Read`], both in memory that does not grow with the state.
//!
//!     magic | header block | blocks of objects ... | trailer block | SHA-256 of all bytes before it | end of the file
//!
//! A block (`block`) is compressed with zstd and carries a checksum of its own, so that damage is found where it is. A
//! block holds objects of one resource; resources are in the order of their names, objects in that of their paths.
//!
//! Objects are in clear, secrets and the cluster's own keys among them, also where members encrypt their disks. Files with the
//! cluster's authorities may stand before all of that (`keys`, format 2).
//!
//! Invariant: no length is believed before it was compared with its limit.
//! Invariant: [`Reader`] reports the end of the objects only after the digest and the end of the file were checked.

mod block;
mod input;
mod keys;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use orch_proto::archive as wire;
use sha2::{Digest as _, Sha256};

pub use self::keys::{KEYS_BYTES_MAX, KeyBundle, write_keys};
pub use self::reader::{Reader, Record};
pub use self::writer::Writer;
use crate::encoding::DecodeError;
use crate::key::Revision;
use crate::state::State;

/// The first bytes of every file. The byte above 127 and the line breaks show a transfer as text.
pub const MAGIC: [u8; 8] = [0x89, b'S', b'N', b'A', b'P', b'\r', b'\n', 0x1a];

/// The version of a snapshot's format.
pub const FORMAT: u32 = 1;

/// The version of a file that has the cluster's keys before a snapshot of [`FORMAT`]; the highest that is read.
pub const FORMAT_WITH_KEYS: u32 = 2;

/// Bytes of the digest at the end: SHA-256.
const DIGEST_BYTES: usize = 32;

/// Largest header before compression: 10,000 resources with names of 300 bytes, and members.
const HEADER_BYTES_MAX: usize = 4 << 20;

/// Bytes of a block of objects before compression after which the next one is begun. Larger blocks compress hardly
/// better, and a reader and a writer hold a block or two.
const BLOCK_BYTES: usize = 1 << 20;

/// Largest stored object: twice the largest transaction, which an object is a part of.
const OBJECT_BYTES_MAX: usize = 4 << 20;

/// Largest block of objects before compression: one that was nearly full when the largest object came.
const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + OBJECT_BYTES_MAX + (1 << 10);

/// Where a file comes from and what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The cluster's random name.
    pub cluster: Arc<str>,
    /// The one revision that all objects are of.
    pub revision: Revision,
    /// The clock of the member that wrote the file, in milliseconds since 1970, when no later revision was given out. 0 where
    /// that is not known: the member asked no quorum.
    pub time_ms: u64,
    /// The name of the cluster's brand.
    pub brand: Arc<str>,
    /// The feature level that the cluster had agreed on.
    pub feature_level: u32,
    /// The version of the program that wrote the file.
    pub program: String,
    /// The name of the member that wrote it.
    pub member: String,
    /// The cluster's members at the time, learners included.
    pub members: Vec<MemberEntry>,
    /// Objects and their bytes by resource, the store's own resource included. Resources without objects are left out.
    pub resources: BTreeMap<Arc<str>, Count>,
}

/// A member of the cluster when the file was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its name.
    pub name: String,
    /// Its peer address, `host:port`.
    pub address: String,
    /// Whether it had a vote; else it was a learner.
    pub voter: bool,
}

/// Objects and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The contents of `state`, known without reading the objects.
pub fn contents(state: &State) -> BTreeMap<Arc<str>, Count> {
    let filled = state.collections().filter(|(_, collection)| !collection.is_empty());
    filled
        .map(|(resource, collection)| {
            let count = Count { objects: collection.len() as u64, bytes: collection.object_bytes() as u64 };
            (resource.clone(), count)
        })
        .collect()
}

/// Writes `state` as a whole file. Revision and contents of the header are taken from the state. One process writes the same
/// origin and state as the same bytes again.
///
/// # Errors
/// `out` failed; what it has is not a snapshot.
pub fn write_state<W: Write>(out: W, origin: &Header, state: &State) -> io::Result<W> {
    let mut writer = Writer::begin(out, &header_of(origin, state))?;
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            writer.push(resource, path, object)?;
        }
    }
    writer.finish()
}

fn header_of(origin: &Header, state: &State) -> Header {
    Header { revision: state.applied(), resources: contents(state), ..origin.clone() }
}

/// The name of the stream that [`write_state`] writes of `origin` and `state`: the digest of its beginning, header included, in
/// hex. A reader knows it from the first bytes ([`Reader::stream`]), and can ask for the rest by it.
///
/// # Errors
/// The header is over its limit.
pub fn stream_of(origin: &Header, state: &State) -> io::Result<String> {
    Ok(Writer::begin(io::sink(), &header_of(origin, state))?.stream())
}

/// The name of a stream that begins with the bytes in `hash`.
fn stream_name(hash: &Sha256) -> String {
    hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file cannot be read. Only [`ArchiveError::Io`] may pass by itself.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The bytes could not be read.
    #[error("cannot read the snapshot")]
    Io(#[from] io::Error),
    /// The first bytes are others than a snapshot's.
    #[error("this is not a snapshot: its first bytes are others")]
    NotASnapshot,
    /// A newer program wrote it.
    #[error("{0}")]
    Newer(String),
    /// The file ends early.
    #[error(
        "the snapshot is cut short: it ends after {at} bytes, before its end mark; use another copy or another snapshot"
    )]
    Truncated {
        /// Bytes that there are.
        at: u64,
    },
    /// Bytes were changed after they were written.
    #[error("the snapshot is damaged near byte {at}: {reason}; use another copy or another snapshot")]
    Damaged {
        /// The first byte of the damaged part, or of the block that it is in.
        at: u64,
        /// The contradiction found.
        reason: String,
    },
    /// The snapshot is whole, and something follows it.
    #[error(
        "bytes follow the end of the snapshot at byte {at}: two files in one, or not a snapshot; use another copy"
    )]
    Trailing {
        /// The first byte behind the end.
        at: u64,
    },
}

impl ArchiveError {
    /// The error for contents that a sound writer does not write, near byte `at`.
    fn undecodable(at: u64, error: DecodeError) -> Self {
        match error.newer {
            true => ArchiveError::Newer(error.to_string()),
            false => ArchiveError::Damaged { at, reason: error.to_string() },
        }
    }
}

fn header_to_wire(header: &Header) -> wire::Header {
    let member = |member: &MemberEntry| {
        let MemberEntry { name, address, voter } = member.clone();
        wire::Member { name, address, voter }
    };
    let resource = |(name, count): (&Arc<str>, &Count)| wire::Resource {
        name: name.to_string(),
        objects: count.objects,
        bytes: count.bytes,
    };
    wire::Header {
        format: FORMAT,
        cluster: header.cluster.to_string(),
        revision: header.revision.0,
        time_ms: header.time_ms,
        brand: header.brand.to_string(),
        feature_level: header.feature_level,
        program: header.program.clone(),
        member: header.member.clone(),
        members: header.members.iter().map(member).collect(),
        resources: header.resources.iter().map(resource).collect(),
    }
}

/// Whether the texts of `header` are shown by a terminal as they are: commands print them before the file is proved.
fn is_plain_text(header: &wire::Header) -> bool {
    let wire::Header { cluster, brand, program, member, members, resources, .. } = header;
    let members = members.iter().flat_map(|member| [&member.name, &member.address]);
    let resources = resources.iter().map(|resource| &resource.name);
    let mut texts = [cluster, brand, program, member].into_iter().chain(members).chain(resources);
    texts.all(|text| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()))
}

fn header_from_wire(header: wire::Header) -> Header {
    let member = |wire::Member { name, address, voter }| MemberEntry { name, address, voter };
    let resource = |wire::Resource { name, objects, bytes }| (Arc::from(name), Count { objects, bytes });
    Header {
        cluster: Arc::from(header.cluster),
        revision: Revision(header.revision),
        time_ms: header.time_ms,
        brand: Arc::from(header.brand),
        feature_level: header.feature_level,
        program: header.program,
        member: header.member,
        members: header.members.into_iter().map(member).collect(),
        resources: header.resources.into_iter().map(resource).collect(),
    }
}
