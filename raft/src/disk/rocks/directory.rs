//! The data directory of a store: its owner and its lock.
//!
//! Owns two small files beside the database. `IN-USE` is locked for the life of the value (the kernel unlocks it when
//! the process dies) and names its holder. `FORMAT` marks the directory as this program's and says whether the database
//! in it was ever complete: a finished directory that has lost its database is damaged, not new, so that a member whose
//! disk was emptied never starts as if it had never voted or acknowledged an entry.
//!
//! It never deletes anything it did not write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::file_lock::{FileLock, lock_at};
pub(super) use super::layout::FORMAT as FORMAT_FILE;
use crate::disk::DiskError;
use crate::disk::cipher::CipherError;

pub(super) const LOCK_FILE: &str = "IN-USE";
pub(super) const FORMAT_DRAFT: &str = "FORMAT.new";
/// `FORMAT` of a directory whose database was created completely.
const FORMAT_COMPLETE: &str = "orch store 1\n";
/// `FORMAT` while the database is being created: no write to it is acknowledged yet.
const FORMAT_NEW: &str = "orch store 1 being created\n";
/// Mode of the directory.
const OWNER_ALONE: u32 = 0o700;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Most bytes read of `FORMAT` or `IN-USE`: another program's file may be large.
const SMALL_FILE_BYTES_MAX: u64 = 256;
/// Attempts to lock a directory that others rename or remove meanwhile: each failed one is another process at work.
const LOCK_ATTEMPTS_MAX: usize = 8;
/// The holder of a lock that does not name itself.
const ANOTHER: &str = "another process";

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store of this process, has the directory open.
    #[error("data directory {} is in use by {holder}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// `process 1234`, or `another process` if its id is unknown.
        holder: String,
    },
    /// The directory holds other files, or is a file.
    #[error("{} is not a data directory of this program: {reason}", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The foreign file found, or the operation and the system's error.
        reason: String,
    },
    /// This user may not read or write the directory.
    #[error("no permission to use data directory {}: {reason}", path.display())]
    Permission {
        /// The directory.
        path: PathBuf,
        /// The operation that failed, and the system's error.
        reason: String,
    },
    /// The directory is a store's and cannot be read: damage, a missing database, a failing disk.
    #[error("data directory {} is unreadable: {reason}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The operation and its error, or the damage found.
        reason: String,
    },
    /// Records are encrypted with a key that was not given.
    #[error(
        "data directory {}: {records} are encrypted with key {key}, which the encryption configuration lacks (decrypting \
         providers are kept in it until `orch encryption rewrite` is done)",
        path.display()
    )]
    MissingKey {
        /// The directory.
        path: PathBuf,
        /// The key's name: see [`crate::disk::cipher::KeyName`].
        key: String,
        /// The kinds of records: `log entries, objects, history`.
        records: String,
    },
    /// The log holds entries in clear, which the encryption configuration forbids.
    #[error(
        "data directory {}: log entries with objects of {resource} are in clear, and the encryption configuration has no \
         identity provider that allows this (it is kept until `orch encryption rewrite` is done)",
        path.display()
    )]
    PlainEntries {
        /// The directory.
        path: PathBuf,
        /// A resource of such entries: see [`crate::Key::resource`].
        resource: String,
    },
    /// A data key cannot be opened by the service that sealed it, the service for new keys does not answer, or a key of the
    /// configuration is another one than that of the stored records.
    #[error("data directory {}", path.display())]
    LockedKey {
        /// The directory.
        path: PathBuf,
        /// The key or service, and its failure.
        source: CipherError,
    },
    /// The directory has a format that this version does not know.
    #[error("data directory {} has the format {found:?}, which this version does not know", path.display())]
    Format {
        /// The directory.
        path: PathBuf,
        /// The first line of `FORMAT`.
        found: String,
    },
}

impl OpenError {
    pub(super) fn damaged(path: &Path, error: DiskError) -> OpenError {
        OpenError::Unreadable { path: path.to_owned(), reason: error.to_string() }
    }

    pub(super) fn io(path: &Path, attempt: &str, error: &io::Error) -> OpenError {
        let path = path.to_owned();
        let reason = format!("{attempt}: {error}");
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::Permission { path, reason }
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                OpenError::NotOurs { path, reason }
            }
            _ => OpenError::Unreadable { path, reason },
        }
    }
}

/// A locked directory. Dropping the value unlocks it.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    is_new: bool,
    // Dropping the file unlocks it.
    lock: File,
}

/// A hold on the lock of a [`DataDirectory`], which is unlocked once both are dropped: what is at its path can be replaced by
/// its holder after the database in it was closed.
#[derive(Debug)]
pub struct Held {
    // Of one lock with the directory's own file.
    _lock: File,
}

impl DataDirectory {
    /// Locks `path`, creating it if absent. Does not wait for another holder.
    pub fn lock(path: &Path) -> Result<DataDirectory, OpenError> {
        for _ in 0..LOCK_ATTEMPTS_MAX {
            if let Some(locked) = DataDirectory::try_lock(path)? {
                return Ok(locked);
            }
        }
        Err(OpenError::InUse { path: path.to_owned(), holder: ANOTHER.to_owned() })
    }

    /// `None` if another directory is at `path` now than the one that was locked.
    fn try_lock(path: &Path) -> Result<Option<DataDirectory>, OpenError> {
        let made = DirBuilder::new().recursive(true).mode(OWNER_ALONE).create(path);
        made.map_err(|error| OpenError::io(path, "create", &error))?;
        let format = read_format(path)?;
        if format.is_none() {
            require_empty(path)?;
        }
        let Some(lock) = open_lock_file(path)?.map(|file| take_lock(file, path)).transpose()?.flatten()
        else {
            return Ok(None);
        };
        // Read again: another holder may have completed the database before it gave up the lock.
        let is_new = match read_format(path)?.as_deref() {
            None => {
                write_format(path, FORMAT_NEW)?;
                true
            }
            Some(FORMAT_NEW) => true,
            Some(FORMAT_COMPLETE) => false,
            Some(other) => {
                let found = other.lines().next().unwrap_or_default().to_owned();
                return Err(OpenError::Format { path: path.to_owned(), found });
            }
        };
        // Only now it is certain that the directory is this program's.
        make_private(path).map_err(|error| OpenError::io(path, "make private", &error))?;
        Ok(Some(DataDirectory { path: path.to_owned(), is_new, lock }))
    }

    /// A second hold on the lock.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn hold(&self) -> Result<Held, OpenError> {
        let held = self.lock.try_clone();
        let held = held.map_err(|error| OpenError::io(&self.path, "hold IN-USE", &error))?;
        Ok(Held { _lock: held })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the database in the directory is absent, or its creation was interrupted.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Records that the database is complete.
    pub(super) fn complete(&mut self) -> Result<(), OpenError> {
        if self.is_new {
            write_format(&self.path, FORMAT_COMPLETE)?;
            self.is_new = false;
        }
        Ok(())
    }
}

/// Makes the directory and the files that an earlier version left in it private: secrets and keys are stored in clear.
/// The umask of the process covers new files.
fn make_private(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o777 != OWNER_ALONE {
        fs::set_permissions(path, fs::Permissions::from_mode(OWNER_ALONE))?;
    }
    remove_group_and_other_rights(path)
}

/// Removes the rights of group and others on all files below `folder`.
fn remove_group_and_other_rights(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Metadata of the entry itself: a link is not followed, and its own mode has no meaning.
        let found = entry.metadata()?;
        let mode = found.permissions().mode();
        if !found.is_symlink() && mode & OTHERS != 0 {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode & 0o777 & !OTHERS))?;
        }
        if found.is_dir() {
            remove_group_and_other_rights(&entry.path())?;
        }
    }
    Ok(())
}

fn read_format(path: &Path) -> Result<Option<String>, OpenError> {
    match File::open(path.join(FORMAT_FILE)) {
        Ok(file) => read_small(file).map(Some).map_err(|error| OpenError::io(path, "read FORMAT", &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(path, "open FORMAT", &error)),
    }
}

fn read_small(file: impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    file.take(SMALL_FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Replaces `FORMAT` atomically and durably.
fn write_format(path: &Path, text: &str) -> Result<(), OpenError> {
    let write = || -> io::Result<()> {
        let draft = path.join(FORMAT_DRAFT);
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path.join(FORMAT_FILE))?;
        File::open(path)?.sync_all()
    };
    write().map_err(|error| OpenError::io(path, "write FORMAT", &error))
}

/// A directory without `FORMAT` may hold only the files that are created before it: a crash may have left them.
fn require_empty(path: &Path) -> Result<(), OpenError> {
    let list = |error: io::Error| OpenError::io(path, "list", &error);
    for entry in fs::read_dir(path).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        if name != LOCK_FILE && name != FORMAT_DRAFT {
            let reason = format!("it has no FORMAT file but holds {}", name.display());
            return Err(OpenError::NotOurs { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

/// Opens the file whose lock is the directory's. `None` if the directory is gone.
fn open_lock_file(path: &Path) -> Result<Option<File>, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    match options.open(path.join(LOCK_FILE)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(path, "open IN-USE", &error)),
    }
}

/// Locks the file and names its holder in it. `None` if the directory was renamed or removed since the file was opened: the lock
/// would be that of another one.
fn take_lock(mut file: File, path: &Path) -> Result<Option<File>, OpenError> {
    let locked = lock_at(&file, &path.join(LOCK_FILE));
    match locked.map_err(|error| OpenError::io(path, "lock IN-USE", &error))? {
        FileLock::Held => {}
        FileLock::Moved => return Ok(None),
        FileLock::Busy => {
            let holder = read_small(&file).map(|text| text.trim().to_owned()).unwrap_or_default();
            let holder = if holder.is_empty() { ANOTHER.to_owned() } else { holder };
            return Err(OpenError::InUse { path: path.to_owned(), holder });
        }
    }
    let mut name_holder = || -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "process {}", std::process::id())
    };
    name_holder().map_err(|error| OpenError::io(path, "write IN-USE", &error))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &Path) -> Result<DataDirectory, OpenError> {
        DataDirectory::lock(path)
    }

    #[test]
    fn a_directory_is_new_until_it_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        assert!(lock(&path).unwrap().is_new());
        let mut again = lock(&path).unwrap();
        assert!(again.is_new());
        again.complete().unwrap();
        drop(again);
        assert!(!lock(&path).unwrap().is_new());
    }

    #[test]
    fn a_second_holder_is_told_who_holds_it() {
        let root = tempfile::tempdir().unwrap();
        let _held = lock(root.path()).unwrap();
        let Err(OpenError::InUse { holder, .. }) = lock(root.path()) else { panic!("locked twice") };
        assert_eq!(holder, format!("process {}", std::process::id()));
    }

    #[test]
    fn a_lock_is_that_of_the_directory_at_the_path() {
        let root = tempfile::tempdir().unwrap();
        let (path, away) = (root.path().join("store"), root.path().join("store.before"));
        drop(lock(&path).unwrap());
        let opened = open_lock_file(&path).unwrap().unwrap();
        fs::rename(&path, &away).unwrap();
        assert!(take_lock(opened, &path).unwrap().is_none(), "there is none");
        let opened = open_lock_file(&away).unwrap().unwrap();
        let _new = lock(&path).unwrap();
        assert!(take_lock(opened, &path).unwrap().is_none(), "there is another one");
        assert!(open_lock_file(&root.path().join("absent")).unwrap().is_none());
    }

    #[test]
    fn a_directory_is_locked_as_long_as_it_is_held() {
        let root = tempfile::tempdir().unwrap();
        let first = lock(root.path()).unwrap();
        let held = first.hold().unwrap();
        drop(first);
        assert!(matches!(lock(root.path()), Err(OpenError::InUse { .. })));
        drop(held);
        lock(root.path()).unwrap();
    }

    #[test]
    fn other_peoples_files_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.tex"), "x").unwrap();
        assert!(matches!(lock(root.path()), Err(OpenError::NotOurs { .. })));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        let file = root.path().join("thesis.tex");
        assert!(matches!(lock(&file), Err(OpenError::NotOurs { .. })));
    }

    #[test]
    fn files_that_others_could_read_are_closed_to_them_where_they_are_ours() {
        let root = tempfile::tempdir().unwrap();
        let (ours, theirs) = (root.path().join("ours"), root.path().join("theirs"));
        drop(lock(&ours).unwrap());
        for folder in [ours.join("db"), theirs.clone()] {
            fs::create_dir(folder).unwrap();
        }
        let files = [ours.join(FORMAT_FILE), ours.join("db/000001.sst"), theirs.join("thesis.tex")];
        for file in &files {
            fs::write(file, fs::read(file).unwrap_or_default()).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
        }
        for folder in [&ours, &ours.join("db"), &theirs] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(&files[2], ours.join("link")).unwrap();
        drop(lock(&ours).unwrap());
        lock(&theirs).unwrap_err();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&ours), mode(&ours.join("db")), mode(&theirs)], [0o700, 0o700, 0o755]);
        assert_eq!(files.each_ref().map(|file| mode(file)), [0o600, 0o600, 0o666]);
    }

    #[test]
    fn an_unknown_format_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(FORMAT_FILE), "orch store 9\n").unwrap();
        let error = lock(root.path()).unwrap_err().to_string();
        assert!(error.contains("orch store 9"), "{error}");
    }

    #[test]
    fn refusals_of_the_system_keep_their_meaning() {
        let kind = |kind: io::ErrorKind| OpenError::io(Path::new("/d"), "open", &io::Error::from(kind));
        assert!(matches!(kind(io::ErrorKind::PermissionDenied), OpenError::Permission { .. }));
        assert!(matches!(kind(io::ErrorKind::NotADirectory), OpenError::NotOurs { .. }));
        assert!(matches!(kind(io::ErrorKind::StorageFull), OpenError::Unreadable { .. }));
    }
}
