//! A look at the store in a directory that no process has open.
//!
//! Owns the reading of small values and of the log's bounds without opening the store: nothing is written, no thread is
//! started, and no key of encrypted records is needed, because neither value is encrypted. Records that a crash left
//! in the write-ahead log are read, too, and stay there.

use std::fmt;

use bytes::Bytes;

use super::log::LogBounds;
use super::{DataDirectory, Db, OpenError, options, record};
use crate::disk::{DiskError, MetaKey};

/// A store that is only read. The directory stays locked for as long as the value lives.
pub struct Glance<'a> {
    db: Db,
    _directory: &'a DataDirectory,
}

impl fmt::Debug for Glance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glance").field("path", &self.db.path()).finish_non_exhaustive()
    }
}

impl<'a> Glance<'a> {
    /// Looks into the locked `directory`. `None` where its database was never complete.
    ///
    /// # Errors
    /// The database is damaged or absent.
    pub fn at(directory: &'a DataDirectory) -> Result<Option<Glance<'a>>, OpenError> {
        if directory.is_new() {
            return Ok(None);
        }
        Ok(Some(Glance { db: options::open_to_read(directory.path())?, _directory: directory }))
    }

    /// The value under `key`, if it was ever written.
    ///
    /// # Errors
    /// The value is damaged.
    pub fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError> {
        record::load(&self.db, "read meta", record::meta_key(key))
    }

    /// Index of the last entry that the log has or, purged since, had; `None` where it never had one.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn last_index(&self) -> Result<Option<u64>, DiskError> {
        let bounds = LogBounds::find(&self.db)?;
        Ok(bounds.span().map(|(_, last)| last).or(bounds.purged()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::disk::rocks::RocksDisk;
    use crate::disk::{Disk, LogRecord};

    #[test]
    fn values_and_the_log_s_end_are_read_and_nothing_is_written() {
        let root = tempfile::tempdir().unwrap();
        let disk = RocksDisk::open(root.path()).unwrap();
        disk.save_meta(MetaKey::Identity, Bytes::from_static(b"me"), None).unwrap();
        let records = (3..8).map(|index| LogRecord { index, bytes: Bytes::from_static(b"x") }).collect();
        let (sender, durable) = channel();
        disk.append(records, Box::new(move |result| drop(sender.send(result)))).unwrap();
        durable.recv().unwrap().unwrap();
        drop(disk);
        let listed = || {
            let entries = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap());
            let mut files: Vec<_> =
                entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
            files.sort();
            files
        };
        let directory = DataDirectory::lock(root.path()).unwrap();
        let before = listed();
        let glance = Glance::at(&directory).unwrap().unwrap();
        assert_eq!(glance.meta(MetaKey::Identity).unwrap().unwrap(), "me");
        assert_eq!(glance.meta(MetaKey::Vote).unwrap(), None);
        assert_eq!(glance.last_index().unwrap(), Some(7));
        drop(glance);
        assert_eq!(listed(), before);
    }

    #[test]
    fn a_store_without_its_database_is_an_error_and_a_new_one_is_none() {
        let root = tempfile::tempdir().unwrap();
        let directory = DataDirectory::lock(root.path()).unwrap();
        assert!(Glance::at(&directory).unwrap().is_none());
        drop(directory);
        drop(RocksDisk::open(root.path()).unwrap());
        std::fs::remove_file(root.path().join("CURRENT")).unwrap();
        let directory = DataDirectory::lock(root.path()).unwrap();
        assert!(Glance::at(&directory).is_err());
    }
}
