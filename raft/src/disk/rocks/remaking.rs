//! Making a store anew in a data directory: beside the old one, if there is one, then in its place.
//!
//!     DIR/store           the store that a node opens
//!     DIR/store.new       the one that is being made
//!     DIR/store.before    the one whose place it took
//!     DIR/REMAKING        there from the first step to the last: no node starts meanwhile
//!
//! Owns these names and the order of the steps: the mark, the new store, the old one away, the new one at its place, the mark
//! gone, each durable before the next. A crash leaves the mark. Nobody has used a new store while the mark is there, so the
//! next attempt takes it away, puts the old one back, and begins again.
//!
//! Invariant: a store from before the act is renamed, and never changed or deleted.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const STORE: &str = "store";
const DRAFT: &str = "store.new";
const BEFORE: &str = "store.before";
const MARK: &str = "REMAKING";

/// The content of the mark: the act, for whoever finds it.
const RECOVERING: &str = "orch cluster recover\n";
const RESTORING: &str = "orch snapshot restore\n";

/// Why a store cannot be made anew, or not be used.
#[derive(Debug, thiserror::Error)]
pub enum RemakeError {
    /// An act was interrupted; no node may start on what it left.
    #[error(
        "{}: `{act}` is under way or was interrupted, and the store is not complete: let it end, or run it again; it begins \
         anew and loses nothing", path.display()
    )]
    Unfinished {
        /// The data directory.
        path: PathBuf,
        /// The command.
        act: String,
    },
    /// Another process is at it.
    #[error("{}: another process makes a store in it now: wait for its end", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// There is a store where none may be.
    #[error(
        "{} has a store already, which a restore never replaces: give an empty directory, or move {} away", path.display(),
        path.join(STORE).display()
    )]
    HasStore {
        /// The data directory.
        path: PathBuf,
    },
    /// There is no store.
    #[error("{} holds no store: --data-dir is the directory that `orch serve` was given", path.display())]
    NoStore {
        /// The data directory.
        path: PathBuf,
    },
    /// The store that an earlier act kept is still there.
    #[error(
        "{} is still there, the store of before an earlier recovery: move it away, or delete it once you need it no more",
        path.join(BEFORE).display()
    )]
    HasBefore {
        /// The data directory.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    System {
        /// The attempt: `rename`, `remove`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A store that is being made. Dropped without an end it leaves the mark, as a crash does.
#[derive(Debug)]
pub struct Remaking {
    data_dir: PathBuf,
    // Locked for the life of the value; the kernel unlocks it when the process dies.
    _mark: File,
}

impl Remaking {
    /// Begins to make a store in the place of that in `data_dir`, which the caller has locked.
    ///
    /// # Errors
    /// There is none, the one of before an earlier act is still there, or an act is under way or was interrupted.
    pub fn of_survivor(data_dir: &Path) -> Result<Remaking, RemakeError> {
        Remaking::require_whole(data_dir)?;
        Remaking::existing_store(data_dir)?;
        if data_dir.join(BEFORE).exists() {
            return Err(RemakeError::HasBefore { path: data_dir.to_owned() });
        }
        Remaking::begin(data_dir, RECOVERING)
    }

    /// Begins to make a store in `data_dir`, which has none and is made where it is absent. Takes away what an interrupted
    /// restore left.
    ///
    /// # Errors
    /// There is a store.
    pub fn of_nothing(data_dir: &Path) -> Result<Remaking, RemakeError> {
        Remaking::undo_interrupted(data_dir)?;
        let has_store = || match data_dir.join(STORE).exists() {
            true => Err(RemakeError::HasStore { path: data_dir.to_owned() }),
            false => Ok(()),
        };
        has_store()?;
        make_private_dir(data_dir)?;
        let remaking = Remaking::begin(data_dir, RESTORING)?;
        // A node that started just before the mark was there has made one.
        if let Err(error) = has_store() {
            remaking.abandon()?;
            return Err(error);
        }
        Ok(remaking)
    }

    fn begin(data_dir: &Path, act: &str) -> Result<Remaking, RemakeError> {
        let path = data_dir.join(MARK);
        let failed = |source| RemakeError::System { action: "make", path: path.clone(), source };
        let mut mark = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        lock(&mark, data_dir)?;
        mark.write_all(act.as_bytes()).and_then(|()| mark.sync_all()).map_err(failed)?;
        sync(data_dir)?;
        let remaking = Remaking { data_dir: data_dir.to_owned(), _mark: mark };
        remove_store(&remaking.draft())?;
        Ok(remaking)
    }

    /// The directory of the store that is being made.
    pub fn draft(&self) -> PathBuf {
        self.data_dir.join(DRAFT)
    }

    /// Puts the new store, which is durable and closed, at its place, and ends. Returns where the old one is, if there was one.
    ///
    /// # Errors
    /// A system call failed; the mark may be left.
    pub fn finish(self) -> Result<Option<PathBuf>, RemakeError> {
        let (store, before) = (self.data_dir.join(STORE), self.data_dir.join(BEFORE));
        let kept = store.exists().then_some(before);
        if let Some(before) = &kept {
            rename(&store, before)?;
            sync(&self.data_dir)?;
        }
        rename(&self.draft(), &store)?;
        sync(&self.data_dir)?;
        self.remove_mark()?;
        Ok(kept)
    }

    /// Takes away what was made of the new store, and ends.
    ///
    /// # Errors
    /// A system call failed; the mark may be left.
    pub fn abandon(self) -> Result<(), RemakeError> {
        remove_store(&self.draft())?;
        self.remove_mark()
    }

    fn remove_mark(&self) -> Result<(), RemakeError> {
        let path = self.data_dir.join(MARK);
        fs::remove_file(&path).map_err(|source| RemakeError::System { action: "remove", path, source })?;
        sync(&self.data_dir)
    }

    /// Undoes an act that was interrupted: takes a new store away, and puts the old one back. Does nothing without the mark.
    ///
    /// # Errors
    /// Another process is at it, or a system call failed.
    pub fn undo_interrupted(data_dir: &Path) -> Result<(), RemakeError> {
        let path = data_dir.join(MARK);
        let mark = match OpenOptions::new().write(true).open(&path) {
            Ok(mark) => mark,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(RemakeError::System { action: "open", path, source }),
        };
        lock(&mark, data_dir)?;
        // Its act may have ended between the opening and the lock.
        if !path.exists() {
            return Ok(());
        }
        let is_restore = fs::read_to_string(&path).is_ok_and(|act| act == RESTORING);
        let remaking = Remaking { data_dir: data_dir.to_owned(), _mark: mark };
        let (store, before) = (data_dir.join(STORE), data_dir.join(BEFORE));
        tracing::warn!(path = %data_dir.display(), "taking back a store that was not completed");
        if is_restore || before.exists() {
            remove_store(&store)?;
        }
        if !is_restore && before.exists() {
            rename(&before, &store)?;
            sync(data_dir)?;
        }
        remaking.abandon()
    }

    /// Refuses a data directory in which a store is being made, or was left incomplete. Asked before and after a node locks
    /// its store: the mark is made while the store is locked, or before there is one.
    ///
    /// # Errors
    /// See [`RemakeError::Unfinished`].
    pub fn require_whole(data_dir: &Path) -> Result<(), RemakeError> {
        match fs::read_to_string(data_dir.join(MARK)) {
            Ok(act) => {
                // Empty after a crash in the first moment.
                let act = if act.is_empty() { format!("{RESTORING} or {RECOVERING}") } else { act };
                let act = act.replace('\n', "");
                Err(RemakeError::Unfinished { path: data_dir.to_owned(), act })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(())
            }
            Err(source) => Err(RemakeError::System { action: "read", path: data_dir.join(MARK), source }),
        }
    }

    /// The directory of the store in `data_dir`.
    ///
    /// # Errors
    /// There is none.
    pub fn existing_store(data_dir: &Path) -> Result<PathBuf, RemakeError> {
        let store = data_dir.join(STORE);
        if store.is_dir() { Ok(store) } else { Err(RemakeError::NoStore { path: data_dir.to_owned() }) }
    }
}

fn lock(mark: &File, data_dir: &Path) -> Result<(), RemakeError> {
    match mark.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RemakeError::InUse { path: data_dir.to_owned() }),
        Err(TryLockError::Error(source)) => {
            Err(RemakeError::System { action: "lock", path: data_dir.join(MARK), source })
        }
    }
}

/// Makes the data directory for its owner alone.
fn make_private_dir(path: &Path) -> Result<(), RemakeError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| RemakeError::System { action: "make", path: path.to_owned(), source })
}

/// Removes a store that was made here and never used. Absence is no error.
fn remove_store(path: &Path) -> Result<(), RemakeError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RemakeError::System { action: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), RemakeError> {
    fs::rename(from, to).map_err(|source| RemakeError::System {
        action: "rename",
        path: from.to_owned(),
        source,
    })
}

/// Makes the names in a directory durable.
fn sync(path: &Path) -> Result<(), RemakeError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|source| RemakeError::System { action: "sync", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory whose store has one file, with `content`.
    fn data_dir(content: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        make(&root.path().join(STORE), content);
        root
    }

    fn make(store: &Path, content: &str) {
        fs::create_dir(store).unwrap();
        fs::write(store.join("file"), content).unwrap();
    }

    fn content(root: &Path, store: &str) -> Option<String> {
        fs::read_to_string(root.join(store).join("file")).ok()
    }

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_new_store_takes_the_place_of_the_old_one_which_is_kept() {
        let root = data_dir("old");
        let remaking = Remaking::of_survivor(root.path()).unwrap();
        let refused = Remaking::require_whole(root.path()).unwrap_err().to_string();
        assert!(refused.contains("orch cluster recover") && refused.contains("run it again"), "{refused}");
        assert!(matches!(Remaking::undo_interrupted(root.path()), Err(RemakeError::InUse { .. })));
        make(&remaking.draft(), "new");
        assert_eq!(remaking.finish().unwrap(), Some(root.path().join(BEFORE)));
        assert_eq!(names(root.path()), [STORE, BEFORE]);
        assert_eq!(content(root.path(), STORE).unwrap(), "new");
        assert_eq!(content(root.path(), BEFORE).unwrap(), "old");
        Remaking::require_whole(root.path()).unwrap();
        let again = Remaking::of_survivor(root.path()).unwrap_err().to_string();
        assert!(again.contains("store.before is still there"), "{again}");
    }

    #[test]
    fn a_store_is_never_replaced_by_a_restore() {
        let root = data_dir("old");
        assert!(matches!(Remaking::of_nothing(root.path()), Err(RemakeError::HasStore { .. })));
        assert_eq!(names(root.path()), [STORE]);
        let empty = root.path().join("elsewhere/deep");
        assert!(matches!(Remaking::of_survivor(&empty), Err(RemakeError::NoStore { .. })));
        let remaking = Remaking::of_nothing(&empty).unwrap();
        make(&remaking.draft(), "new");
        assert_eq!(remaking.finish().unwrap(), None);
        assert_eq!(names(&empty), [STORE]);
    }

    /// Every step after which a crash can leave a recovery: the next one finds the old store at its place.
    #[test]
    fn an_interrupted_recovery_is_taken_back() {
        for steps in 0..4 {
            let root = data_dir("old");
            let remaking = Remaking::of_survivor(root.path()).unwrap();
            if steps > 0 {
                make(&remaking.draft(), "new");
            }
            if steps > 1 {
                rename(&root.path().join(STORE), &root.path().join(BEFORE)).unwrap();
            }
            if steps > 2 {
                rename(&remaking.draft(), &root.path().join(STORE)).unwrap();
            }
            drop(remaking);
            assert!(Remaking::require_whole(root.path()).is_err(), "after {steps} steps");
            assert!(Remaking::of_survivor(root.path()).is_err(), "after {steps} steps");
            Remaking::undo_interrupted(root.path()).unwrap();
            assert_eq!(names(root.path()), [STORE], "after {steps} steps");
            assert_eq!(content(root.path(), STORE).unwrap(), "old", "after {steps} steps");
        }
    }

    #[test]
    fn an_interrupted_restore_begins_again() {
        for steps in 0..3 {
            let root = tempfile::tempdir().unwrap();
            let remaking = Remaking::of_nothing(root.path()).unwrap();
            if steps > 0 {
                make(&remaking.draft(), "half");
            }
            if steps > 1 {
                rename(&remaking.draft(), &root.path().join(STORE)).unwrap();
            }
            drop(remaking);
            let refused = Remaking::require_whole(root.path()).unwrap_err().to_string();
            assert!(refused.contains("orch snapshot restore"), "after {steps} steps: {refused}");
            let remaking = Remaking::of_nothing(root.path()).unwrap();
            assert_eq!(names(root.path()), [MARK], "after {steps} steps");
            remaking.abandon().unwrap();
            assert_eq!(names(root.path()), [""; 0], "after {steps} steps");
        }
    }
}
