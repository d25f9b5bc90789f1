//! Making a store anew in a data directory: beside the old one, if there is one, then in its place.
//!
//!     DIR/store           the store that a node opens
//!     DIR/store.new       the one that is being made
//!     DIR/store.before    the one whose place it took
//!     DIR/REMAKING        the mark: there from the first step to the last; no node starts meanwhile
//!
//! Owns the order of the steps ([`super::layout`] has the names): the mark, the new store with the mark's token in it, the old one away, the
//! new one at its place, the mark gone, each durable before the next. A crash leaves the mark. No node has used a new store
//! while the mark is there, so the next attempt takes it away, puts the old one back, and begins again.
//!
//! Invariant: a store from before the act is renamed, and never changed or deleted.
//! Invariant: a store at its place is taken away only if it has the token of the mark, and while it is locked.

mod mark;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use self::mark::{Act, Mark};
use super::directory::{DataDirectory, OpenError};
use super::layout::{BEFORE, DRAFT, MARK, STORE};

/// The file in a store that was made here: the token of its act. It stays there, and means nothing without the mark.
pub(super) const PROOF: &str = "REMADE";

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
    /// The store at its place is not the one that the interrupted act made.
    #[error(
        "{}: an act was interrupted in it, and which store is to be used cannot be told: put the right one of {STORE} and \
         {BEFORE} at {STORE}, move the other one away, and remove {}", path.display(), path.join(MARK).display()
    )]
    Unclear {
        /// The data directory.
        path: PathBuf,
    },
    /// The store that the interrupted act made is in use, or cannot be locked.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The act failed, and what it made could not be taken away.
    #[error("it failed, and what was made of the new store is left ({cleanup}): run the command again")]
    Left {
        /// The failure.
        source: Box<RemakeError>,
        /// That of taking it away.
        cleanup: String,
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
    mark: Mark,
}

/// A step of the end, durable once it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The new store has the token.
    Proven,
    /// The old store, if there is one, has its other name.
    OldAway,
    /// The new store is at its place.
    NewIn,
    /// The mark is gone.
    Unmarked,
}

const STEPS: [Step; 4] = [Step::Proven, Step::OldAway, Step::NewIn, Step::Unmarked];

impl Remaking {
    /// Begins to make a store in the place of that in `data_dir`, which the caller has locked and keeps locked. `token` is
    /// random: it tells the new store from every other one.
    ///
    /// # Errors
    /// There is none, the one of before an earlier act is still there, or an act is under way or was interrupted.
    pub fn of_survivor(data_dir: &Path, token: &str) -> Result<Remaking, RemakeError> {
        Remaking::require_whole(data_dir)?;
        Remaking::existing_store(data_dir)?;
        if is_there(&data_dir.join(BEFORE))? {
            return Err(RemakeError::HasBefore { path: data_dir.to_owned() });
        }
        Remaking::begin(data_dir, Act::Recovery, token)
    }

    /// Begins to make a store in `data_dir`, which has none and is made where it is absent. Takes away what an interrupted
    /// restore left. `token` as above.
    ///
    /// # Errors
    /// There is a store.
    pub fn of_nothing(data_dir: &Path, token: &str) -> Result<Remaking, RemakeError> {
        Remaking::undo_interrupted(data_dir)?;
        let has_store = || match is_there(&data_dir.join(STORE))? {
            true => Err(RemakeError::HasStore { path: data_dir.to_owned() }),
            false => Ok(()),
        };
        has_store()?;
        make_private_dir(data_dir)?;
        let remaking = Remaking::begin(data_dir, Act::Restore, token)?;
        // A node that started just before the mark was there has made one.
        match has_store() {
            Ok(()) => Ok(remaking),
            Err(error) => Err(remaking.give_up(error)),
        }
    }

    fn begin(data_dir: &Path, act: Act, token: &str) -> Result<Remaking, RemakeError> {
        let remaking = Remaking { data_dir: data_dir.to_owned(), mark: Mark::make(data_dir, act, token)? };
        match remove_store(&remaking.draft()) {
            Ok(()) => Ok(remaking),
            Err(error) => Err(match remaking.mark.remove() {
                Ok(()) => error,
                Err(cleanup) => undo_failed(error, &cleanup),
            }),
        }
    }

    /// The directory of the store that is being made.
    pub fn draft(&self) -> PathBuf {
        self.data_dir.join(DRAFT)
    }

    /// Puts the new store, which is durable and closed, at its place, and ends. Returns where the old one is, if there was one.
    ///
    /// # Errors
    /// A system call failed. Before the first store had another name, everything is as it was; afterwards the mark is left.
    pub fn finish(self) -> Result<Option<PathBuf>, RemakeError> {
        self.finish_through(Step::Unmarked)
    }

    /// Takes the steps up to `last`. A process that dies behind a step leaves what this leaves with it.
    fn finish_through(self, last: Step) -> Result<Option<PathBuf>, RemakeError> {
        let kept = match self.mark.act() {
            Some(Act::Recovery) => Some(self.data_dir.join(BEFORE)),
            _ => None,
        };
        for step in STEPS.into_iter().take_while(|step| *step <= last) {
            if let Err(error) = self.take(step, kept.as_deref()) {
                let is_moved = match &kept {
                    Some(before) => before.exists(),
                    None => step > Step::OldAway && !self.draft().exists(),
                };
                return Err(if is_moved { error } else { self.give_up(error) });
            }
        }
        Ok(kept)
    }

    fn take(&self, step: Step, kept: Option<&Path>) -> Result<(), RemakeError> {
        let store = self.data_dir.join(STORE);
        match step {
            Step::Proven => self.prove(),
            Step::OldAway => match kept {
                Some(before) => rename(&store, before).and_then(|()| sync(&self.data_dir)),
                None if is_there(&store)? => Err(RemakeError::HasStore { path: self.data_dir.clone() }),
                None => Ok(()),
            },
            Step::NewIn => rename(&self.draft(), &store).and_then(|()| sync(&self.data_dir)),
            Step::Unmarked => self.mark.remove(),
        }
    }

    /// Writes the token into the new store.
    fn prove(&self) -> Result<(), RemakeError> {
        let (draft, token) = (self.draft(), self.mark.token().unwrap_or_default());
        let path = draft.join(PROOF);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(token.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| RemakeError::System { action: "write", path, source })?;
        sync(&draft)
    }

    /// Takes away what was made of the new store, and ends.
    ///
    /// # Errors
    /// A system call failed; the mark may be left.
    pub fn abandon(self) -> Result<(), RemakeError> {
        remove_store(&self.draft())?;
        self.mark.remove()
    }

    /// Abandons the act for `error`, and tells both where that fails, too.
    fn give_up(self, error: RemakeError) -> RemakeError {
        match self.abandon() {
            Ok(()) => error,
            Err(cleanup) => undo_failed(error, &cleanup),
        }
    }

    /// Undoes an act that was interrupted: takes a new store away, and puts the old one back. Does nothing without the mark.
    /// Of a mark that this program did not write whole, it undoes no more than the mark and `store.new`.
    ///
    /// # Errors
    /// Another process is at it or has the new store open, the stores are not as the act can have left them, or a system call
    /// failed.
    pub fn undo_interrupted(data_dir: &Path) -> Result<(), RemakeError> {
        let Some(mark) = Mark::find(data_dir)? else { return Ok(()) };
        tracing::warn!(path = %data_dir.display(), "taking back a store that was not completed");
        let remaking = Remaking { data_dir: data_dir.to_owned(), mark };
        let (store, before) = (data_dir.join(STORE), data_dir.join(BEFORE));
        if let Some(token) = remaking.mark.token()
            && is_proven(&store, token)?
        {
            // The old store of a recovery is gone: this one may be all that there is.
            if remaking.mark.act() == Some(Act::Recovery) && !is_there(&before)? {
                return Err(RemakeError::Unclear { path: data_dir.to_owned() });
            }
            // Renamed first: a crash amid the removal leaves no half of a store at its place.
            let locked = DataDirectory::lock(&store)?;
            remove_store(&remaking.draft())?;
            rename(&store, &remaking.draft())?;
            sync(data_dir)?;
            drop(locked);
        }
        if remaking.mark.act() != Some(Act::Restore) && is_there(&before)? {
            match (remaking.mark.act(), is_there(&store)?) {
                (Some(_), false) => {
                    rename(&before, &store)?;
                    sync(data_dir)?;
                }
                // An earlier act kept it.
                (None, true) => {}
                (Some(_), true) | (None, false) => {
                    return Err(RemakeError::Unclear { path: data_dir.to_owned() });
                }
            }
        }
        remaking.abandon()
    }

    /// Refuses a data directory in which a store is being made, or was left incomplete. Asked before and after a node locks
    /// its store: the mark is made while the store is locked, or before there is one.
    ///
    /// # Errors
    /// See [`RemakeError::Unfinished`].
    pub fn require_whole(data_dir: &Path) -> Result<(), RemakeError> {
        match Mark::command(data_dir)? {
            Some(act) => Err(RemakeError::Unfinished { path: data_dir.to_owned(), act }),
            None => Ok(()),
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

/// Whether the store at `path` was made by the act of `token`.
fn is_proven(path: &Path, token: &str) -> Result<bool, RemakeError> {
    let path = path.join(PROOF);
    match fs::read_to_string(&path) {
        Ok(proof) => Ok(proof == token),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(source) => Err(RemakeError::System { action: "read", path, source }),
    }
}

/// The failure `error` of an act that could not be undone for `cleanup`.
fn undo_failed(error: RemakeError, cleanup: &RemakeError) -> RemakeError {
    RemakeError::Left { source: Box::new(error), cleanup: cleanup.with_cause() }
}

impl RemakeError {
    /// The text with that of its cause, for an error that has another cause already.
    pub(crate) fn with_cause(&self) -> String {
        match self {
            RemakeError::System { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }
}

/// Makes the data directory for its owner alone, and every name on the way to it durable.
fn make_private_dir(path: &Path) -> Result<(), RemakeError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut missing = Vec::new();
    for folder in path.ancestors() {
        // The empty path is the working directory.
        if folder.as_os_str().is_empty() || is_there(folder)? {
            break;
        }
        missing.push(folder);
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| RemakeError::System { action: "make", path: path.to_owned(), source })?;
    for folder in missing {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Whether there is something at `path`. A failing look is an error, and not an absence.
fn is_there(path: &Path) -> Result<bool, RemakeError> {
    let looked = path.try_exists();
    looked.map_err(|source| RemakeError::System { action: "look at", path: path.to_owned(), source })
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
