//! Opens the file of a snapshot, encrypted or not.
//!
//! Owns the choice: an encrypted file begins with another line than a snapshot. A missing private key is an error that names
//! the flag.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use orch_raft::archive::Reader;
use orch_serving::files;

use super::sealed::{self, Identity, Opener};
use crate::cli::IdentityArgs;

/// Bytes of a file of private keys: a few lines.
const IDENTITY_BYTES_MAX: u64 = 64 << 10;

/// The bytes of a snapshot in clear.
pub(super) enum Source<R = File> {
    Plain(R),
    Sealed(Box<Opener<BufReader<R>>>),
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::Plain(file) => file.read(buffer),
            Source::Sealed(opener) => opener.read(buffer),
        }
    }
}

/// A snapshot file that can be read from its beginning again and again.
pub(super) struct SnapshotFile {
    path: PathBuf,
    identities: Vec<Identity>,
}

impl SnapshotFile {
    /// The snapshot at `path`, to be opened with the keys of `arguments` if it is encrypted.
    pub(super) fn new(path: &Path, arguments: &IdentityArgs) -> anyhow::Result<SnapshotFile> {
        let identities = match &arguments.identity {
            Some(keys) => {
                let text = files::read_text(keys, IDENTITY_BYTES_MAX)
                    .with_context(|| format!("--identity: cannot read {}", keys.display()))?;
                sealed::identities(&text).with_context(|| format!("--identity: {}", keys.display()))?
            }
            None => Vec::new(),
        };
        Ok(SnapshotFile { path: path.to_owned(), identities })
    }

    /// Opens the file at its beginning. The flag: it is encrypted.
    pub(super) fn open(&self) -> anyhow::Result<(Reader<Source>, bool)> {
        let path = self.path.display();
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {path}"))?;
        let is_sealed = is_sealed(&mut file).with_context(|| format!("cannot read {path}"))?;
        let source = match (is_sealed, self.identities.is_empty()) {
            (false, _) => Source::Plain(file),
            (true, true) => bail!("{path} is encrypted: name the file of its private key with --identity"),
            (true, false) => {
                let opened = Opener::open(BufReader::new(file), &self.identities);
                Source::Sealed(Box::new(opened.with_context(|| format!("{path}"))?))
            }
        };
        Ok((Reader::open(source).with_context(|| format!("{path}"))?, is_sealed))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a file begins like an encrypted one. It stands at its beginning again afterwards.
pub(super) fn is_sealed(file: &mut File) -> std::io::Result<bool> {
    let mut begin = Vec::new();
    let length = u64::try_from(sealed::FIRST_LINE.len()).unwrap_or(u64::MAX);
    file.by_ref().take(length).read_to_end(&mut begin)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(begin == sealed::FIRST_LINE)
}
