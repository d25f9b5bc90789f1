//! Disk space: used and free bytes, and the ballast for opening the store on a full disk.
//!
//! Owns the measurement: the sizes of the store's files, and the free space of their file system. It also owns the
//! ballast, a preallocated file without content: opening the database flushes the contents of the write-ahead log to
//! tables, which needs space, and without that space no object could be deleted any more. The ballast is deleted when a
//! store is opened on a full disk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::disk::{DiskError, Space};

/// Bytes of a block in `st_blocks` (POSIX).
const BLOCK_BYTES: u64 = 512;

/// File name of the ballast.
pub(super) const BALLAST_FILE: &str = "BALLAST";

/// With fewer free bytes the ballast is deleted before the database is opened: opening writes the write-ahead log, up
/// to 32 MiB, to tables while it is still there, and a new manifest.
const OPENING_BYTES: u64 = 64 << 20;

/// A ballast is created only if this many times its bytes are free.
const BALLAST_ROOM: u64 = 8;

/// Deletes the ballast of the store in `path` if the disk is too full to open the database.
pub(super) fn release_ballast(path: &Path) -> io::Result<()> {
    let disk = rustix::fs::statvfs(path)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) >= OPENING_BYTES {
        return Ok(());
    }
    match fs::remove_file(path.join(BALLAST_FILE)) {
        Ok(()) => {
            tracing::warn!("the disk is full: the space kept for that is given up");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates the ballast of the store in `path`, unless it exists or the disk has little space.
pub(super) fn keep_ballast(path: &Path, bytes: u64) -> io::Result<()> {
    let disk = rustix::fs::statvfs(path)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let ballast = path.join(BALLAST_FILE);
    // A crash left a shorter file unfinished.
    let is_whole = fs::metadata(&ballast).is_ok_and(|found| found.len() >= bytes);
    if bytes == 0 || free < bytes.saturating_mul(BALLAST_ROOM) || is_whole {
        return Ok(());
    }
    let file = fs::File::create(&ballast)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    Ok(())
}

/// Bytes used by the store in `path`, and bytes free.
pub(super) fn measure(path: &Path) -> Result<Space, DiskError> {
    let unknown = |error: io::Error| DiskError { operation: "measure space", reason: error.to_string() };
    let disk = rustix::fs::statvfs(path).map_err(|error| unknown(error.into()))?;
    let used = used(path).map_err(unknown)?;
    // Blocks reserved for the superuser do not count: the store may run as another user.
    Ok(Space { used, free: disk.f_bavail.saturating_mul(disk.f_frsize) })
}

/// Bytes that the files in `path` take: RocksDB keeps all of its files in one directory.
fn used(path: &Path) -> io::Result<u64> {
    let mut bytes = 0u64;
    for entry in fs::read_dir(path)? {
        match entry?.metadata() {
            Ok(found) if found.is_file() => bytes += found.blocks().saturating_mul(BLOCK_BYTES),
            Ok(_) => {}
            // Files are created and deleted while they are counted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ballast_is_made_once_and_takes_what_it_says() {
        let root = tempfile::tempdir().unwrap();
        keep_ballast(root.path(), 0).unwrap();
        assert_eq!(measure(root.path()).unwrap().used, 0);
        for _ in 0..2 {
            keep_ballast(root.path(), 1 << 20).unwrap();
            assert!((1 << 20..2 << 20).contains(&measure(root.path()).unwrap().used));
        }
        // This disk is not full.
        release_ballast(root.path()).unwrap();
        assert!(root.path().join(BALLAST_FILE).exists());
    }

    #[test]
    fn a_ballast_that_was_not_finished_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        fs::File::create(root.path().join(BALLAST_FILE)).unwrap();
        keep_ballast(root.path(), 1 << 20).unwrap();
        assert!(measure(root.path()).unwrap().used >= 1 << 20);
    }

    #[test]
    fn files_are_counted_by_what_they_take() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), vec![7; 100_000]).unwrap();
        let file = fs::File::create(root.path().join("sparse")).unwrap();
        file.set_len(1 << 30).unwrap();
        let space = measure(root.path()).unwrap();
        assert!((100_000..1_000_000).contains(&space.used), "{space:?}");
        assert!(space.free > 0);
        assert!(measure(&root.path().join("none")).is_err());
    }
}
