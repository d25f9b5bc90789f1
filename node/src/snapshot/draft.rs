//! A file that takes its name when it is complete and durable.
//!
//! Owns the temporary file beside the target (`.NAME.partial`), its lock, its removal after a failure, and the order of sync,
//! rename and sync of the folder. A process that is killed leaves a temporary file, which the next one with the same target
//! takes over.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What becomes of a file that has the target's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is an error.
    Refuse,
    /// It is replaced at the end.
    Replace,
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DraftError {
    #[error("{0} exists: choose another name, or --replace it")]
    Exists(PathBuf),
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    #[error("another process is writing {0}")]
    Busy(PathBuf),
    #[error("cannot write {path}; nothing was kept")]
    Write { path: PathBuf, source: io::Error },
}

/// A file in the making. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    /// The temporary file.
    path: PathBuf,
    target: PathBuf,
    existing: Existing,
    is_kept: bool,
}

impl Draft {
    /// Begins a file that only its owner may read.
    pub(super) fn create(target: &Path, existing: Existing) -> Result<Draft, DraftError> {
        let failed = |source| DraftError::Write { path: target.to_owned(), source };
        let name = target.file_name().ok_or_else(|| DraftError::NotAFile(target.to_owned()))?;
        check(target, existing)?;
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let path = target.with_file_name(partial);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DraftError::Busy(target.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Another process may have renamed the file between the opening and the lock: it is a snapshot now.
        let (own, named) = (file.metadata().map_err(failed)?, std::fs::symlink_metadata(&path));
        if !named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            return Err(DraftError::Busy(target.to_owned()));
        }
        let draft = Draft { file, path, target: target.to_owned(), existing, is_kept: false };
        // What a killed process left, whose mode may be another.
        draft.file.set_len(0).map_err(failed)?;
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        draft.file.set_permissions(owner_only).map_err(failed)?;
        Ok(draft)
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn commit(mut self) -> Result<(), DraftError> {
        check(&self.target, self.existing)?;
        let renamed = self.file.sync_all().and_then(|()| {
            std::fs::rename(&self.path, &self.target)?;
            self.is_kept = true;
            let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
        renamed.map_err(|source| self.failed(source))
    }

    /// The error of a write that failed with `source`.
    pub(super) fn failed(&self, source: io::Error) -> DraftError {
        DraftError::Write { path: self.target.clone(), source }
    }

    /// The file that it will be.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a temporary file stays");
        }
    }
}

fn check(target: &Path, existing: Existing) -> Result<(), DraftError> {
    match (std::fs::symlink_metadata(target), existing) {
        (Ok(found), _) if !found.is_file() => Err(DraftError::NotAFile(target.to_owned())),
        (Ok(_), Existing::Refuse) => Err(DraftError::Exists(target.to_owned())),
        (Ok(_), Existing::Replace) => Ok(()),
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (Err(source), _) => Err(DraftError::Write { path: target.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("monday");
        let mut draft = Draft::create(&target, Existing::Refuse).unwrap();
        draft.write_all(b"whole").unwrap();
        assert_eq!(names(folder.path()), [".monday.partial"]);
        assert!(matches!(Draft::create(&target, Existing::Refuse), Err(DraftError::Busy(_))));
        draft.commit().unwrap();
        assert_eq!(names(folder.path()), ["monday"]);
        let found = std::fs::metadata(&target).unwrap();
        assert_eq!((found.mode() & 0o777, found.len()), (0o600, 5));

        assert!(matches!(Draft::create(&target, Existing::Refuse), Err(DraftError::Exists(_))));
        drop(Draft::create(&target, Existing::Replace).unwrap());
        assert_eq!(names(folder.path()), ["monday"], "a draft that is dropped is removed");
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
        assert!(matches!(Draft::create(folder.path(), Existing::Replace), Err(DraftError::NotAFile(_))));
    }

    #[test]
    fn what_a_killed_process_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".monday.partial"), "half of something longer").unwrap();
        let mut draft = Draft::create(&folder.path().join("monday"), Existing::Refuse).unwrap();
        draft.write_all(b"whole").unwrap();
        draft.commit().unwrap();
        assert_eq!(names(folder.path()), ["monday"]);
        let found = folder.path().join("monday");
        assert_eq!(std::fs::read(&found).unwrap(), b"whole");
        assert_eq!(std::fs::metadata(&found).unwrap().mode() & 0o777, 0o600);
    }
}
