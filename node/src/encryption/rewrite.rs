//! `orch encryption rewrite`: every record of a stopped node under the key that new records get.
//!
//! Owns the command. The store does the work, and goes on where an interrupted one ended.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use orch_raft::disk::DiskError;
use orch_raft::disk::rocks::layout::STORE;
use orch_raft::disk::rocks::{DataDirectory, OpenError, RemakeError, Remaking, RewriteEnd, RocksDisk};

use super::{EncryptionError, Keyring};

/// Records between two lines of progress: a line every few seconds.
const SHOWN_EVERY: u64 = 100_000;

/// Why records could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The keys cannot be loaded.
    #[error(transparent)]
    Keys(#[from] EncryptionError),
    /// A wrong directory. Opening it would make a new store.
    #[error("{} holds no store", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// The store is being made anew, or was left incomplete.
    #[error(transparent)]
    Remake(#[from] RemakeError),
    /// The store cannot be opened: its node still runs, or a key is missing.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed. What was rewritten stays.
    #[error("the rewrite ended early; start it again to go on")]
    Disk(#[from] DiskError),
    /// Older forms of records are left. What was rewritten stays.
    #[error("not all records were rewritten ({0}); start it again to go on")]
    Unfinished(RewriteEnd),
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
    out: &mut dyn Write,
) -> Result<(), RewriteError> {
    let keys = Arc::new(Keyring::load(config)?);
    let path: PathBuf = data_dir.join(STORE);
    if !path.exists() {
        return Err(RewriteError::NoStore { path: data_dir.to_owned() });
    }
    let directory = DataDirectory::lock(&path)?;
    // Once no other process can begin to make it anew.
    Remaking::require_whole(data_dir)?;
    let disk = RocksDisk::open_locked(directory, Some(keys))?;
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
    match rewritten.end {
        RewriteEnd::Complete => Ok(()),
        end => Err(RewriteError::Unfinished(end)),
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::disk::rocks::layout::MARK;

    use super::*;

    #[test]
    fn a_directory_without_a_whole_store_is_refused_and_none_is_made() {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("keys.yaml");
        let text = "apiVersion: apiserver.config.orch.io/v1\nkind: EncryptionConfiguration\n\
                    resources: [{resources: [secrets], providers: [{identity: {}}]}]\n";
        std::fs::write(&config, text).unwrap();
        let data = root.path().join("mistyped");
        let told = rewrite(&data, &config, &mut Vec::new()).unwrap_err().to_string();
        assert!(told.ends_with("mistyped holds no store"), "{told}");
        assert!(!data.exists());
        std::fs::create_dir_all(data.join(STORE)).unwrap();
        std::fs::write(data.join(MARK), "orch cluster recover\n").unwrap();
        let told = rewrite(&data, &config, &mut Vec::new()).unwrap_err().to_string();
        assert!(told.contains("`orch cluster recover` is under way or was interrupted"), "{told}");
    }
}
