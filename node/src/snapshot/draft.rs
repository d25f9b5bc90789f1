//! A file that takes its name when it is complete and durable.
//!
//! Owns the temporary file beside the target (`.NAME.partial`), its lock, its removal after a failure, and the order of sync,
//! rename and sync of the folder. A process that is killed leaves a temporary file, which the next one with the same target
//! takes over if it is the same user's. A file that takes long to get has another one (`NAME.part`), whose content the next process
//! continues.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use orch_raft::archive::MAGIC;
use orch_raft::disk::rocks::{FileLock, lock_at};
use rustix::fs::{Advice, CWD, OFlags, RenameFlags, fadvise, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The end of the name of a temporary file whose content the next process continues.
const PART: &str = ".part";

/// Treatment of an existing file with the target's name.
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
    #[error("{0} is another user's, or has a second name: remove it")]
    Foreign(PathBuf),
    #[error("another process is writing {0}")]
    Busy(PathBuf),
    #[error("cannot write {path}; nothing was kept")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}; remove it to begin anew")]
    Read { path: PathBuf, source: io::Error },
}

/// A file in the making. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    /// The temporary file.
    path: PathBuf,
    target: PathBuf,
    existing: Existing,
    /// The temporary file may stay for the next process.
    is_part: bool,
    is_kept: bool,
}

impl Draft {
    /// Begins a file that only its owner may read.
    pub(super) fn create(target: &Path, existing: Existing) -> Result<Draft, DraftError> {
        let draft = Draft::open(target, existing, (".", ".partial"))?;
        // A killed process may have left content.
        draft.cut(0)?;
        Ok(draft)
    }

    /// The same with what an earlier process left of it, at which the file stands. [`Draft::cut`] takes it away.
    pub(super) fn take_up(target: &Path, existing: Existing) -> Result<Draft, DraftError> {
        let mut draft = Draft::open(target, existing, ("", PART))?;
        draft.is_part = true;
        Ok(draft)
    }

    /// Opens the temporary file, whose name is the target's between `ends`.
    fn open(target: &Path, existing: Existing, ends: (&str, &str)) -> Result<Draft, DraftError> {
        let failed = |source| DraftError::Write { path: target.to_owned(), source };
        let name = target.file_name().ok_or_else(|| DraftError::NotAFile(target.to_owned()))?;
        check(target, existing)?;
        let mut partial = std::ffi::OsString::from(ends.0);
        partial.push(name);
        partial.push(ends.1);
        let path = target.with_file_name(partial);
        let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => left_behind(&path, target)?,
            opened => opened.map_err(failed)?,
        };
        match lock_at(&file, &path).map_err(failed)? {
            FileLock::Held => {}
            // Moved by another process between the opening and the lock: it is a snapshot now.
            FileLock::Busy | FileLock::Moved => return Err(DraftError::Busy(target.to_owned())),
        }
        let draft = Draft { file, path, target: target.to_owned(), existing, is_part: false, is_kept: false };
        // A killed process may have left another mode.
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        draft.file.set_permissions(owner_only).map_err(failed)?;
        Ok(draft)
    }

    /// Leaves the first `length` bytes of the temporary file, behind which it goes on.
    pub(super) fn cut(&self, length: u64) -> Result<(), DraftError> {
        let cut =
            self.file.set_len(length).and_then(|()| (&self.file).seek(SeekFrom::Start(length)).map(drop));
        cut.map_err(|source| self.failed(source))
    }

    /// The first `length` bytes of the temporary file, to be read while it is written behind them.
    pub(super) fn beginning(&self, length: u64) -> Result<Beginning, DraftError> {
        let file = self.file.try_clone();
        let file = file.map_err(|source| DraftError::Read { path: self.path.clone(), source })?;
        Ok(Beginning { file, at: 0, length })
    }

    /// Bytes of the temporary file.
    pub(super) fn length(&self) -> Result<u64, DraftError> {
        let facts = self.file.metadata();
        facts.map(|facts| facts.len()).map_err(|source| DraftError::Read { path: self.path.clone(), source })
    }

    /// Whether the temporary file is empty, or begins as a snapshot in clear does: another file is not this program's.
    pub(super) fn is_of_a_snapshot(&self) -> Result<bool, DraftError> {
        let mut first = [0; MAGIC.len()];
        let read = self.file.read_at(&mut first, 0);
        let read = read.map_err(|source| DraftError::Read { path: self.path.clone(), source })?;
        Ok(MAGIC.starts_with(&first[..read]))
    }

    /// Leaves the temporary file for the next process, where that continues it, and returns its path.
    pub(super) fn leave(mut self) -> Option<PathBuf> {
        self.is_kept = self.is_part;
        self.is_part.then(|| self.path.clone())
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn commit(mut self) -> Result<(), DraftError> {
        check(&self.target, self.existing)?;
        let renamed = self.file.sync_all().and_then(|()| {
            self.rename()?;
            self.is_kept = true;
            let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
        renamed.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => DraftError::Exists(self.target.clone()),
            _ => self.failed(source),
        })
    }

    fn rename(&self) -> io::Result<()> {
        if self.existing == Existing::Refuse {
            match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
                // NFS cannot rename without replacing; the name was free a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                renamed => return renamed.map_err(io::Error::from),
            }
        }
        std::fs::rename(&self.path, &self.target)
    }

    /// Makes the bytes so far durable, and reads them from the beginning. The caller reads before it writes again: both
    /// have one place in the file.
    pub(super) fn read_back(&self) -> Result<File, DraftError> {
        let read = self.file.sync_all().and_then(|()| {
            // The kernel's copy in memory is dropped, so that the disk is read. A file system may decline.
            if let Err(error) = fadvise(&self.file, 0, None, Advice::DontNeed) {
                tracing::debug!(%error, "a file is read from the kernel's memory");
            }
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        });
        read.map_err(|source| self.failed(source))
    }

    /// The error of a write that failed with `source`.
    pub(super) fn failed(&self, source: io::Error) -> DraftError {
        DraftError::Write { path: self.target.clone(), source }
    }

    /// The temporary file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that it will be.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }
}

/// The beginning of a temporary file. It has a place of its own in the file.
#[derive(Debug)]
pub(super) struct Beginning {
    file: File,
    at: u64,
    length: u64,
}

impl Read for Beginning {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += u64::try_from(read).unwrap_or(self.length);
        Ok(read)
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

/// The name of the file that a temporary one called `name` was to become.
pub(crate) fn drafted(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".partial")
}

/// Removes what a process that is gone left of `target`. Whether it did: one that still writes keeps it.
pub(crate) fn discard_draft(target: &Path) -> bool {
    // Dropping it removes it.
    Draft::create(target, Existing::Replace).map(drop).is_ok()
}

/// Opens the temporary file at `path` that an earlier process of this user left. Another user could read, through a name or a
/// descriptor of their own, what is written to a file of theirs.
fn left_behind(path: &Path, target: &Path) -> Result<File, DraftError> {
    let failed = |source| DraftError::Write { path: target.to_owned(), source };
    let foreign = || DraftError::Foreign(path.to_owned());
    // Neither a link is followed nor a pipe waited for.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits())
        .map_err(|_| failed(io::ErrorKind::Unsupported.into()))?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // A link; a pipe without a reader, or a socket; a file that this user may not write to.
            Some(Errno::LOOP | Errno::NXIO | Errno::ACCESS) => foreign(),
            // Another process finished or gave up in between.
            Some(Errno::NOENT) => DraftError::Busy(target.to_owned()),
            _ => failed(error),
        }
    })?;
    let found = file.metadata().map_err(failed)?;
    match found.is_file() && found.nlink() == 1 && found.uid() == geteuid().as_raw() {
        true => Ok(file),
        false => Err(foreign()),
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
        let mut read = String::new();
        draft.read_back().unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "whole");
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
    fn a_temporary_file_with_another_name_is_not_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (partial, victim) = (folder.path().join(".monday.partial"), folder.path().join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        let refused = || match Draft::create(&folder.path().join("monday"), Existing::Replace) {
            Err(DraftError::Foreign(path)) => assert_eq!(path, partial),
            other => panic!("{other:?}"),
        };
        std::os::unix::fs::symlink(&victim, &partial).unwrap();
        refused();
        std::fs::remove_file(&partial).unwrap();
        std::os::unix::fs::symlink(folder.path().join("nothing"), &partial).unwrap();
        refused();
        std::fs::remove_file(&partial).unwrap();
        std::fs::hard_link(&victim, &partial).unwrap();
        refused();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(names(folder.path()), [".monday.partial", "victim"]);
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("monday");
        let draft = Draft::create(&target, Existing::Refuse).unwrap();
        std::fs::write(&target, "other").unwrap();
        let renamed = draft.rename().unwrap_err();
        assert_eq!(renamed.kind(), io::ErrorKind::AlreadyExists);
        assert!(matches!(draft.commit(), Err(DraftError::Exists(_))));
        assert_eq!(std::fs::read(&target).unwrap(), b"other");
        assert_eq!(names(folder.path()), ["monday"]);
    }

    #[test]
    fn the_rest_of_a_part_is_written_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("monday");
        std::fs::write(folder.path().join("monday.part"), "half and a torn end").unwrap();
        let draft = Draft::take_up(&target, Existing::Refuse).unwrap();
        assert!(matches!(Draft::take_up(&target, Existing::Refuse), Err(DraftError::Busy(_))));
        assert_eq!(draft.length().unwrap(), 19);
        draft.cut(4).unwrap();
        assert_eq!(draft.leave(), Some(folder.path().join("monday.part")));
        let mut draft = Draft::take_up(&target, Existing::Refuse).unwrap();
        draft.cut(4).unwrap();
        let mut beginning = draft.beginning(4).unwrap();
        draft.write_all(b" and the rest").unwrap();
        let mut read = String::new();
        beginning.read_to_string(&mut read).unwrap();
        assert_eq!(read, "half");
        draft.commit().unwrap();
        assert_eq!(names(folder.path()), ["monday"]);
        let found = std::fs::metadata(&target).unwrap();
        assert_eq!(
            (std::fs::read_to_string(&target).unwrap().as_str(), found.mode() & 0o777),
            ("half and the rest", 0o600)
        );
        drop(Draft::take_up(&target, Existing::Replace).unwrap());
        assert_eq!(names(folder.path()), ["monday"], "a part that is dropped is removed");
        assert_eq!(Draft::create(&target, Existing::Replace).unwrap().leave(), None);
        assert_eq!(names(folder.path()), ["monday"], "only a part is left");
    }

    #[test]
    fn a_file_of_a_killed_process_is_taken_over() {
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
