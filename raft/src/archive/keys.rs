//! The cluster's keys before a snapshot: files by name, with which a blank machine becomes the cluster again.
//!
//! Owns their form (format 2): a head of its own, one block, a digest, and then a whole file of format 1. So the snapshot behind
//! them is the very stream that a member sent, and an older program refuses the file as one of a newer version. It knows nothing of
//! what the files are for, and encrypts nothing: a caller writes them only into an encrypted file.
//!
//!     magic | header block (format 2) | keys block | SHA-256 of all bytes before it | a snapshot of format 1

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use orch_proto::archive as wire;
use prost::Message;
use sha2::{Digest as _, Sha256};
use zstd::bulk::Compressor;

use super::block::{BlockKind, Head};
use super::{FORMAT_WITH_KEYS, MAGIC};

/// Bytes of all files together: two hundred of the largest keys with their certificates, many more than a cluster has.
pub const KEYS_BYTES_MAX: usize = 4 << 20;

/// Bytes of a file's name.
const NAME_BYTES_MAX: usize = 128;

/// The level of compression: keys are hardly smaller compressed.
const LEVEL: i32 = 1;

/// Files by name. Secret. Invariant: each name is [`is_name`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyBundle {
    files: BTreeMap<String, Vec<u8>>,
}

impl KeyBundle {
    /// Adds a file.
    ///
    /// # Errors
    /// The name is no plain one, or is taken; the reason names it.
    pub fn add(&mut self, name: &str, content: Vec<u8>) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!("{name:?} is no plain name of a file (letters, digits, '.', '-' and '_')"));
        }
        match self.files.insert(name.to_owned(), content) {
            None => Ok(()),
            Some(_) => Err(format!("two files are called {name}")),
        }
    }

    /// The content of the file called `name`.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// Names and contents, in the order of names.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()))
    }

    /// The bundle of an encoded block.
    ///
    /// # Errors
    /// The contradiction found.
    pub(super) fn decode(plain: &[u8]) -> Result<KeyBundle, String> {
        // The error of the decoder names fields, and shows no content.
        let encoded = wire::KeyBundle::decode(plain).map_err(|error| error.to_string())?;
        let mut bundle = KeyBundle::default();
        for wire::KeyFile { name, content } in encoded.files {
            bundle.add(&name, content)?;
        }
        Ok(bundle)
    }
}

/// Shows names and lengths alone.
impl fmt::Debug for KeyBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files().map(|(name, content)| (name, content.len()))).finish()
    }
}

/// Whether a file may be called `name`: it is no path, no hidden file, and shows as it is on a terminal.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Writes the part before a snapshot that holds `bundle`; the snapshot is to follow. `program`: the version of this program.
///
/// # Errors
/// `out` failed, or the files have more than [`KEYS_BYTES_MAX`] bytes.
pub fn write_keys(out: &mut impl Write, bundle: &KeyBundle, program: String) -> io::Result<()> {
    let header = wire::Header { format: FORMAT_WITH_KEYS, program, ..wire::Header::default() };
    let file =
        |(name, content): (&str, &[u8])| wire::KeyFile { name: name.to_owned(), content: content.to_vec() };
    let keys = wire::KeyBundle { files: bundle.files().map(file).collect() }.encode_to_vec();
    if keys.len() > KEYS_BYTES_MAX {
        let length = keys.len();
        return Err(io::Error::other(format!(
            "the keys have {length} bytes, and a snapshot takes {KEYS_BYTES_MAX}"
        )));
    }
    let mut bytes = MAGIC.to_vec();
    let mut compressor = Compressor::new(LEVEL)?;
    for (kind, plain) in [(BlockKind::Header, header.encode_to_vec()), (BlockKind::Keys, keys)] {
        let packed = compressor.compress(&plain)?;
        let head =
            Head::of(kind, plain.len(), &packed).ok_or_else(|| io::Error::other("a block is too large"))?;
        bytes.extend_from_slice(&head.encode());
        bytes.extend_from_slice(&packed);
    }
    bytes.extend_from_slice(&Sha256::digest(&bytes));
    out.write_all(&bytes)
}
