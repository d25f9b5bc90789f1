//! How much room the store takes and has left, and the room it needs to be opened on a full disk.
//!
//! Owns the asking: the files of the store's directory, and what the system says of the disk under it. And it owns the
//! ballast, a file of nothing: opening the database writes out what the write-ahead log holds, which needs room, and
//! without it nothing could be deleted any more. The ballast is given up when a store is opened on a full disk.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::disk::{DiskError, Space};

/// Bytes of the unit in which files say how much they take (POSIX `st_blocks`).
const BLOCK_BYTES: u64 = 512;

/// The name of the ballast.
const BALLAST_FILE: &str = "BALLAST";

/// With less free, the ballast is given up before the database is opened: the write-ahead log is twice in memory and once
/// in tables then, beside a new manifest.
const OPENING_BYTES: u64 = 64 << 20;

/// A ballast is made only where so many times its bytes are free.
const BALLAST_ROOM: u64 = 8;

/// Gives the ballast of the store in `path` up when the disk is too full to open the database.
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

/// Makes the ballast of the store in `path`, unless it is there or the disk has little room.
pub(super) fn keep_ballast(path: &Path, bytes: u64) -> io::Result<()> {
    let disk = rustix::fs::statvfs(path)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let ballast = path.join(BALLAST_FILE);
    // A ballast file that a crash left unfinished is shorter.
    let is_whole = fs::metadata(&ballast).is_ok_and(|found| found.len() >= bytes);
    if bytes == 0 || free < bytes.saturating_mul(BALLAST_ROOM) || is_whole {
        return Ok(());
    }
    let file = fs::File::create(&ballast)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    Ok(())
}

/// The room of the store in `path`.
pub(super) fn measure(path: &Path) -> Result<Space, DiskError> {
    let unknown = |error: io::Error| DiskError { operation: "measure space", reason: error.to_string() };
    let disk = rustix::fs::statvfs(path).map_err(|error| unknown(error.into()))?;
    let used = used(path).map_err(unknown)?;
    // What is kept for the superuser is left out: the store may run as somebody else.
    Ok(Space { used, free: disk.f_bavail.saturating_mul(disk.f_frsize) })
}

/// What the files in `path` take: the database keeps all of its files in one directory.
fn used(path: &Path) -> io::Result<u64> {
    let mut bytes = 0u64;
    for entry in fs::read_dir(path)? {
        match entry?.metadata() {
            Ok(found) if found.is_file() => bytes += found.blocks().saturating_mul(BLOCK_BYTES),
            Ok(_) => {}
            // Files come and go while they are counted.
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
