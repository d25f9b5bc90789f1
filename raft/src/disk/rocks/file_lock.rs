//! The lock of a file under its name.
//!
//! Owns the comparison behind the lock: between the opening of a file and its lock another process may have renamed or removed
//! it, and the lock would be that of another name, or of none. It waits for no lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The result of an attempt to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLock {
    /// The lock is held until the file is closed, and the file has the name.
    Held,
    /// Another process has the lock.
    Busy,
    /// The lock is held, and the file has the name no more.
    Moved,
}

/// Locks `file`, which was opened at `path`, and compares the two. A link at `path` is not followed.
///
/// # Errors
/// A system call failed.
pub fn lock_at(file: &File, path: &Path) -> io::Result<FileLock> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(FileLock::Busy),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let open = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (open.dev(), open.ino()) => Ok(FileLock::Held),
        Ok(_) => Ok(FileLock::Moved),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(FileLock::Moved)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once_and_only_under_its_name() {
        let root = tempfile::tempdir().unwrap();
        let (path, away) = (root.path().join("lock"), root.path().join("away"));
        let open = || File::options().create(true).truncate(false).write(true).open(&path).unwrap();
        let file = open();
        assert_eq!(lock_at(&file, &path).unwrap(), FileLock::Held);
        assert_eq!(lock_at(&open(), &path).unwrap(), FileLock::Busy);
        drop(file);
        let file = open();
        fs::rename(&path, &away).unwrap();
        assert_eq!(lock_at(&file, &path).unwrap(), FileLock::Moved, "there is none");
        std::os::unix::fs::symlink(&away, &path).unwrap();
        assert_eq!(lock_at(&file, &path).unwrap(), FileLock::Moved, "there is a link to it");
        assert_eq!(lock_at(&file, &root.path().join("away/lock")).unwrap(), FileLock::Moved);
        assert_eq!(lock_at(&file, &away).unwrap(), FileLock::Held);
    }
}
