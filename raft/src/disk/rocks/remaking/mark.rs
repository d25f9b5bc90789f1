//! The mark of a store that is being made: the file `REMAKING` in the data directory.
//!
//!     orch cluster recover        the act
//!     9f3c52d1a07be864            the token of its store
//!
//! Owns its form, its lock, and that it is there whole or not at all: it is written and synced under another name. The lock is
//! that of the process that makes the store, or takes it back; the kernel unlocks it when that process dies. It never looks at a
//! store.
//!
//! Invariant: only the holder of a name's lock renames or removes the file of that name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::super::file_lock::{FileLock, lock_at};
use super::super::layout::MARK;
use super::{RemakeError, rename, sync};

const MARK_DRAFT: &str = "REMAKING.new";

/// Bytes of a mark, at most: more is not of this program, and reading ends there.
const MARK_BYTES_MAX: u64 = 256;

/// Attempts to lock a file that others rename or remove meanwhile: each failed one is another process at work.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// The command that makes the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A survivor's store is made anew.
    Recovery,
    /// A store is made where there was none.
    Restore,
}

impl Act {
    const ALL: [Act; 2] = [Act::Recovery, Act::Restore];

    /// The command.
    fn command(self) -> &'static str {
        match self {
            Act::Recovery => "orch cluster recover",
            Act::Restore => "orch snapshot restore",
        }
    }
}

/// The mark of a data directory, locked.
#[derive(Debug)]
pub(super) struct Mark {
    data_dir: PathBuf,
    /// `None` if it has another form: a program of another version wrote it, or it was damaged.
    content: Option<(Act, String)>,
    // Dropping the file unlocks it.
    file: File,
}

impl Mark {
    /// Makes the mark, durable.
    ///
    /// # Errors
    /// There is one, another process makes one, or a system call failed; then there is none of this act.
    pub(super) fn make(data_dir: &Path, act: Act, token: &str) -> Result<Mark, RemakeError> {
        let (path, draft) = (data_dir.join(MARK), data_dir.join(MARK_DRAFT));
        let in_use = || RemakeError::InUse { path: data_dir.to_owned() };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = open_locked(&draft, &options, data_dir)?.ok_or_else(in_use)?;
        if path.exists() {
            remove(&draft)?;
            return Err(in_use());
        }
        let mark = Mark { data_dir: data_dir.to_owned(), content: Some((act, token.to_owned())), file };
        let text = format!("{}\n{token}\n", act.command());
        match mark.write(&text, &draft, &path) {
            Ok(()) => Ok(mark),
            Err(error) => Err(mark.take_back(&draft, &path, error)),
        }
    }

    fn write(&self, text: &str, draft: &Path, path: &Path) -> Result<(), RemakeError> {
        let mut file = &self.file;
        let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        let written = written.and_then(|()| file.sync_all());
        written.map_err(|source| RemakeError::System { action: "write", path: draft.to_owned(), source })?;
        rename(draft, path)?;
        sync(&self.data_dir)
    }

    /// Removes a mark that was not made whole for `error`.
    fn take_back(self, draft: &Path, path: &Path, error: RemakeError) -> RemakeError {
        let own = if draft.exists() { draft } else { path };
        match remove(own) {
            Ok(()) => error,
            Err(cleanup) => super::undo_failed(error, &cleanup),
        }
    }

    /// The existing mark, locked. `None` without one.
    ///
    /// # Errors
    /// Another process has it locked, or a system call failed.
    pub(super) fn find(data_dir: &Path) -> Result<Option<Mark>, RemakeError> {
        let path = data_dir.join(MARK);
        let Some(file) = open_locked(&path, OpenOptions::new().read(true).write(true), data_dir)? else {
            return Ok(None);
        };
        let content =
            parse(&read(&file).map_err(|source| RemakeError::System { action: "read", path, source })?);
        Ok(Some(Mark { data_dir: data_dir.to_owned(), content, file }))
    }

    /// The command that the existing mark names, or both commands where it names none. Takes no lock.
    pub(super) fn command(data_dir: &Path) -> Result<Option<String>, RemakeError> {
        let path = data_dir.join(MARK);
        let text = match File::open(&path).and_then(|file| read(&file)) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(source) => return Err(RemakeError::System { action: "read", path, source }),
        };
        let both = || Act::ALL.map(Act::command).join("` or `");
        Ok(Some(act_of(&text).map_or_else(both, |act| act.command().to_owned())))
    }

    pub(super) fn act(&self) -> Option<Act> {
        self.content.as_ref().map(|(act, _)| *act)
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.content.as_ref().map(|(_, token)| &**token)
    }

    /// Removes the mark, durably.
    pub(super) fn remove(&self) -> Result<(), RemakeError> {
        remove(&self.data_dir.join(MARK))?;
        sync(&self.data_dir)
    }
}

/// Opens the file at `path` and locks it; `None` where it is absent. A file that was renamed or removed between the two is
/// another one's, and the lock on it means nothing.
fn open_locked(path: &Path, options: &OpenOptions, data_dir: &Path) -> Result<Option<File>, RemakeError> {
    let failed = |action| move |source| RemakeError::System { action, path: path.to_owned(), source };
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open")(source)),
        };
        match lock_at(&file, path).map_err(failed("lock"))? {
            FileLock::Held => return Ok(Some(file)),
            FileLock::Busy => break,
            FileLock::Moved => {}
        }
    }
    Err(RemakeError::InUse { path: data_dir.to_owned() })
}

fn remove(path: &Path) -> Result<(), RemakeError> {
    fs::remove_file(path).map_err(|source| RemakeError::System {
        action: "remove",
        path: path.to_owned(),
        source,
    })
}

fn read(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MARK_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn act_of(text: &str) -> Option<Act> {
    let first = text.lines().next()?;
    Act::ALL.into_iter().find(|act| act.command() == first)
}

/// The act and the token of a whole mark.
fn parse(text: &str) -> Option<(Act, String)> {
    let token = text.strip_suffix('\n')?.lines().nth(1).filter(|token| !token.is_empty())?;
    Some((act_of(text)?, token.to_owned()))
}
