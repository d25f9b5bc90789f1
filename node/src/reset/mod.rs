//! `orch reset`: takes a stopped member's data away.
//!
//! Owns the description that is shown before, the confirmation, and the names of the files beside the store that a node makes while
//! it runs. Certificates and client configurations are kept: they are no data of a member, and other programs use them.
//!
//! Invariant: without the confirmation nothing is removed, and the directory is locked from the look at it to the end.

use std::io::{self, BufRead, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use orch_raft::disk::rocks::layout::{BEFORE, DRAFT, FORMAT, STORE};
use orch_raft::disk::rocks::{DataDirectory, Glance, OpenError};
use orch_raft::disk::{DiskError, MetaKey};
use orch_raft::member::{DiskIdentity, node_id};

use crate::cli::ResetArgs;
use crate::operator;

/// Files that a node makes beside its store, those left by an interrupted write among them.
const FILES: [&str; 4] = ["endpoints.json", "endpoints.json.new", "brand.new", "brand"];
/// The socket of a node for development.
const SOCKET: &str = "orch.sock";
/// Stores beside the member's that a command made or put aside. They are named and kept: an operator may need what is in them.
const FURTHER: [&str; 2] = [BEFORE, DRAFT];

/// A member's data cannot be taken away.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// A wrong directory.
    #[error("{} holds no member's data: there is no {STORE}/{FORMAT} in it", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// The store cannot be locked: its node still runs, or the system refuses.
    #[error(transparent)]
    Locked(#[from] OpenError),
    /// Another word was given than the one that confirms.
    #[error("nothing was removed: {given:?} is not {expected:?}")]
    Unconfirmed {
        /// The word that was given.
        given: String,
        /// The word that confirms.
        expected: String,
    },
    /// A file beside the store cannot be removed.
    #[error("cannot remove {}; give the command again once that is mended", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The text cannot be written, or the confirmation cannot be read.
    #[error("cannot ask for the confirmation; nothing was removed")]
    Terminal(#[source] io::Error),
    /// The data was removed, and the result cannot be told.
    #[error("the data was removed; cannot say so")]
    Out(#[source] io::Error),
}

/// Shows what `arguments` name, asks for the confirmation on `input` unless it was given, and removes it.
///
/// # Errors
/// See [`ResetError`].
pub fn reset(
    arguments: &ResetArgs,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<(), ResetError> {
    let (data_dir, store) = (&arguments.data_dir, arguments.data_dir.join(STORE));
    // Locking makes a directory that is absent.
    if !store.join(FORMAT).is_file() {
        return Err(ResetError::NoStore { path: data_dir.clone() });
    }
    let directory = DataDirectory::lock(&store)?;
    let found = Found::look(&directory);
    let expected = match &found {
        Found::Member { identity, .. } => identity.name.to_string(),
        Found::Unused | Found::Unreadable(_) => data_dir.display().to_string(),
    };
    write!(out, "{}", description(data_dir, &found)).map_err(ResetError::Terminal)?;
    let question = format!("Type {expected} to remove it");
    let typed = || operator::line(input).map(Some);
    let given = operator::word(arguments.confirm.as_deref(), &question, typed, out);
    let given = given.map_err(ResetError::Terminal)?.unwrap_or_default();
    if given != expected {
        return Err(ResetError::Unconfirmed { given, expected });
    }
    let left = remove(data_dir, directory)?;
    write!(out, "{}", result(data_dir, &left)).map_err(ResetError::Out)
}

/// Content of the store.
enum Found {
    /// A member's data.
    Member { identity: DiskIdentity, last_index: Option<u64> },
    /// A store that no member has used.
    Unused,
    /// Damage, with its reason.
    Unreadable(String),
}

impl Found {
    fn look(directory: &DataDirectory) -> Found {
        let glance = match Glance::at(directory) {
            Ok(Some(glance)) => glance,
            Ok(None) => return Found::Unused,
            Err(error) => return Found::Unreadable(error.to_string()),
        };
        match read(&glance) {
            Ok(Some((identity, last_index))) => Found::Member { identity, last_index },
            Ok(None) => Found::Unused,
            Err(error) => Found::Unreadable(error.to_string()),
        }
    }
}

fn read(glance: &Glance<'_>) -> Result<Option<(DiskIdentity, Option<u64>)>, DiskError> {
    let Some(encoded) = glance.meta(MetaKey::Identity)? else { return Ok(None) };
    Ok(Some((DiskIdentity::decode(encoded)?, glance.last_index()?)))
}

fn description(data_dir: &Path, found: &Found) -> String {
    let shown = data_dir.display();
    match found {
        Found::Unused => format!("{shown} is a store that no member has used yet.\n"),
        Found::Unreadable(reason) => {
            format!("{shown} holds a store that cannot be read, so its member is not known: {reason}.\n")
        }
        Found::Member { identity, last_index } => {
            let name = &identity.name;
            let cluster = match (&identity.cluster, &identity.brand) {
                (Some(cluster), Some(brand)) => format!("{cluster} ({brand})"),
                (Some(cluster), None) => cluster.to_string(),
                (None, _) => "none yet: it was never founded or joined".to_owned(),
            };
            let last = last_index.map_or_else(|| "none".to_owned(), |index| index.to_string());
            format!(
                "{shown} is the data of a member:\n\n  \
                 member      {name} (id {})\n  \
                 cluster     {cluster}\n  \
                 last index  {last}\n\n\
                 If that cluster lives, remove the member from it first: orch cluster remove {name}\n\
                 The member never comes back under this name. What its cluster has nowhere else is lost.\n",
                node_id(name)
            )
        }
    }
}

/// Removes the store and the files beside it; returns what is left of the store.
fn remove(data_dir: &Path, directory: DataDirectory) -> Result<Vec<PathBuf>, ResetError> {
    let left = directory.remove()?;
    let socket = data_dir.join(SOCKET);
    let is_socket = std::fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket());
    // The brand goes last: it tells of a part that is left.
    let files = is_socket.then_some(socket).into_iter().chain(FILES.map(|name| data_dir.join(name)));
    for path in files {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(ResetError::File { path, source });
            }
            _ => {}
        }
    }
    Ok(left)
}

fn result(data_dir: &Path, left: &[PathBuf]) -> String {
    let mut text = format!("removed the data in {}\n", data_dir.display());
    for path in left {
        text += &format!("left {}: this program did not make it\n", path.display());
    }
    for path in FURTHER.map(|name| data_dir.join(name)) {
        if std::fs::symlink_metadata(&path).is_ok() {
            let shown = path.display();
            text += &format!(
                "left {shown}: another store with all its secrets; delete it once you need it no more\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests;
