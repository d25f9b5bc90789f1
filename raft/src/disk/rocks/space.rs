//! How much room the store takes and has left.
//!
//! Owns the asking: the files of the store's directory, and what the system says of the disk under it. It opens no file.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::disk::{DiskError, Space};

/// Bytes of the unit in which files say how much they take (POSIX `st_blocks`).
const BLOCK_BYTES: u64 = 512;

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
