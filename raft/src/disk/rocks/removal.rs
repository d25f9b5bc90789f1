//! Removes a store.
//!
//! Owns the names of the files that this program and its database make in a store's directory: no other file is removed, and
//! no directory that holds one. `FORMAT` goes last of what a start looks at, so that a store of which a part is left is
//! damaged, and never new.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{DataDirectory, FORMAT_DRAFT, FORMAT_FILE, LOCK_FILE, OpenError};
use super::remaking::PROOF;
use super::space::BALLAST_FILE;

/// Files with one name, of the database and of this program.
const SINGLE: [&str; 9] =
    ["CURRENT", "IDENTITY", "LOCK", "LOG", BALLAST_FILE, FORMAT_DRAFT, FORMAT_FILE, LOCK_FILE, PROOF];
/// Beginnings of the names of those that are numbered.
const NUMBERED: [&str; 3] = ["MANIFEST-", "OPTIONS-", "LOG.old."];
/// Ends of the names that begin with a number.
const ENDS: [&str; 4] = [".sst", ".log", ".blob", ".dbtmp"];

impl DataDirectory {
    /// Removes the store, and its directory if nothing else is in it. Returns what was left: files that this program did not
    /// make. The directory is locked until the last file is gone.
    ///
    /// # Errors
    /// A file cannot be removed. Those before it are gone, and a later call goes on.
    pub fn remove(self) -> Result<Vec<PathBuf>, OpenError> {
        let path = self.path().to_owned();
        remove(&path).map_err(|error| OpenError::io(&path, "remove the store", &error))
    }
}

fn remove(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if !entry.file_type()?.is_file() || !is_ours(&name) {
            left.push(entry.path());
        } else if name != FORMAT_FILE && name != LOCK_FILE {
            fs::remove_file(entry.path())?;
        }
    }
    // The removals so far are durable before the mark of a complete store goes.
    File::open(path)?.sync_all()?;
    for name in [FORMAT_FILE, LOCK_FILE] {
        match fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    if left.is_empty() {
        fs::remove_dir(path)?;
    }
    left.sort();
    Ok(left)
}

fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = NUMBERED.iter().filter_map(|start| name.strip_prefix(start));
    let ended = ENDS.iter().filter_map(|end| name.strip_suffix(end));
    let options = name.strip_prefix("OPTIONS-").and_then(|rest| rest.strip_suffix(".dbtmp"));
    SINGLE.contains(&name) || numbered.chain(ended).chain(options).any(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::rocks::RocksDisk;

    #[test]
    fn a_store_is_removed_with_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        drop(RocksDisk::open(&path).unwrap());
        drop(RocksDisk::open(&path).unwrap());
        fs::write(path.join(PROOF), "of a store that was made anew").unwrap();
        assert_eq!(DataDirectory::lock(&path).unwrap().remove().unwrap(), Vec::<PathBuf>::new());
        assert!(!path.exists());
    }

    #[test]
    fn foreign_files_stay_and_are_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        drop(RocksDisk::open(&path).unwrap());
        let foreign = ["MANIFEST-copy", "notes.log", "thesis.sst"].map(|name| path.join(name));
        foreign.iter().for_each(|file| fs::write(file, "x").unwrap());
        fs::create_dir(path.join("000007.sst")).unwrap();
        let left = DataDirectory::lock(&path).unwrap().remove().unwrap();
        assert_eq!(left.len(), 4, "{left:?}");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 4);
        assert!(foreign.iter().all(|file| file.exists()), "{left:?}");
    }
}
