//! `orch encryption rewrite`: every record of a stopped node under the key that new records get.
//!
//! Owns the command. The store does the work, and goes on where an interrupted one ended.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::disk::DiskError;
use orch_raft::disk::rocks::{DataDirectory, OpenError, RocksDisk};

use super::{EncryptionError, Keyring};

/// Records between two lines of progress: a line every few seconds.
const SHOWN_EVERY: u64 = 100_000;

/// Why records could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The keys cannot be loaded.
    #[error(transparent)]
    Keys(#[from] EncryptionError),
    /// The store cannot be opened: its node still runs, or a key is missing.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed. What was rewritten stays.
    #[error("the rewrite ended early; start it again to go on")]
    Disk(#[from] DiskError),
    /// The progress cannot be written.
    #[error("cannot write the progress")]
    Out(#[from] io::Error),
}

/// Rewrites the records in the store under `data_dir` with the keys in the file `config`. Progress goes to `out`.
///
/// # Errors
/// See [`RewriteError`].
pub fn rewrite(
    data_dir: &std::path::Path,
    config: &std::path::Path,
    brand: &'static Brand,
    out: &mut dyn Write,
) -> Result<(), RewriteError> {
    let keys = Arc::new(Keyring::load(config, brand)?);
    let path: PathBuf = data_dir.join("store");
    let disk = RocksDisk::open_locked(DataDirectory::lock(&path)?, Some(keys))?;
    let mut shown = 0;
    let mut failed = Ok(());
    let rewritten = disk.rewrite(&mut |progress| {
        if progress.examined >= shown + SHOWN_EVERY && failed.is_ok() {
            shown = progress.examined;
            let (examined, estimated) = (progress.examined, progress.estimated.max(progress.examined));
            failed =
                writeln!(out, "{examined} of about {estimated} records, {} rewritten", progress.rewritten);
        }
        ControlFlow::Continue(())
    })?;
    failed?;
    writeln!(out, "{rewritten}")?;
    Ok(())
}
