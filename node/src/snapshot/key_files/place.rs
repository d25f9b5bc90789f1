//! Puts the cluster's identity into a certificate directory, with new certificates of a member and of the clients.
//!
//! Owns the order: everything is made in a folder beside it (`.NAME.restoring`), made durable, and then renamed. A directory that
//! holds the same files is left as it is, so that an interrupted restore can be given again; certificates for another address than
//! this time are refused. Until [`Placed::keep`] the directory is taken away again if it was made here.
//!
//! Invariant: a directory is locked from its making, or from the look at it, until the restore ends: two restores never rely on one
//! that the first of them may take away.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use orch_proto::Brand;
use orch_raft::archive::KeyBundle;
use orch_raft::disk::rocks::{FileLock, lock_at};
use orch_serving::files;
use time::OffsetDateTime;

use super::{ENCRYPTION, further};
use crate::certs::{Layout, differs_from_reissued, reissue};
use crate::cli::{KeyPlaceArgs, MemberSpec};

/// The directory in the data directory where no other is named.
pub(super) const IN_DATA: &str = "certs";

/// An identity at its place. Dropping it takes it away, if it was made for this.
#[derive(Debug)]
pub(in crate::snapshot) struct Placed {
    /// The certificate directory.
    pub(in crate::snapshot) dir: PathBuf,
    /// The configuration of encryption at rest in it.
    pub(in crate::snapshot) encryption: Option<PathBuf>,
    /// Names of files that flags have to name as before.
    pub(in crate::snapshot) further: Vec<String>,
    is_new: bool,
    is_kept: bool,
    /// The lock of the directory; `None` where its file system has none.
    _lock: Option<File>,
}

impl Placed {
    /// Leaves it at its place.
    pub(in crate::snapshot) fn keep(mut self) -> Placed {
        self.is_kept = true;
        self
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.is_new
            && !self.is_kept
            && let Err(error) = fs::remove_dir_all(&self.dir)
        {
            tracing::warn!(%error, path = %self.dir.display(), "the cluster's identity of a failed restore stays");
        }
    }
}

/// Places `bundle` where `arguments` say, for the member `name` at `host`.
///
/// # Errors
/// The directory holds something else, or certificates for other addresses; another restore is at it; an authority has ended; a file
/// cannot be written.
pub(in crate::snapshot) fn place(
    bundle: &KeyBundle,
    arguments: &KeyPlaceArgs,
    data_dir: &Path,
    (name, host): (&str, &str),
    brand: &Brand,
    now: OffsetDateTime,
) -> anyhow::Result<Placed> {
    let dir = arguments.certs_dir.clone().unwrap_or_else(|| data_dir.join(IN_DATA));
    let hosts = [host.to_owned()].into_iter().chain(arguments.host.iter().cloned()).collect();
    let (member, port) = (MemberSpec { name: name.to_owned(), hosts }, arguments.secure_port);
    let is_new = is_empty(&dir)?;
    let lock = match is_new {
        true => make(bundle, &dir, |draft| Ok(reissue(draft, &member, port, brand, now).map(drop)?))
            .with_context(|| format!("{}: the cluster's identity was not restored", dir.display()))?,
        false => {
            let lock = lock(&dir)?;
            require_same(bundle, &dir, name)?;
            if let Some(difference) = differs_from_reissued(&dir, &member, port, brand, now)? {
                return Err(made_for_others(&dir, &difference));
            }
            lock
        }
    };
    let further = further(bundle, &Layout::new(&dir)).into_iter().map(str::to_owned).collect();
    let encryption = bundle.file(ENCRYPTION).map(|_| dir.join(ENCRYPTION));
    Ok(Placed { dir, encryption, further, is_new, is_kept: false, _lock: lock })
}

/// Whether `dir` is absent or empty.
fn is_empty(dir: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        entries => Ok(entries.with_context(|| format!("cannot read {}", dir.display()))?.next().is_none()),
    }
}

/// Requires that `dir` holds the files of `bundle`, and a certificate of the member `name`.
fn require_same(bundle: &KeyBundle, dir: &Path, name: &str) -> anyhow::Result<()> {
    let shown = dir.display();
    for (file, content) in bundle.files() {
        let most = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if files::read(&dir.join(file), most).ok().as_deref() != Some(content) {
            bail!(
                "{shown} is there, and its {file} is not that of the snapshot: name another directory with --certs-dir, or \
                 use the identity that is there, --without-identity"
            );
        }
    }
    if !Layout::new(dir).member(name).server_certificate.exists() {
        bail!(
            "{shown} holds the cluster's identity, and no certificate of {name}: make it with `orch certs add --dir {shown} \
             --member {name}=HOST`, and restore --without-identity"
        );
    }
    Ok(())
}

/// The refusal of a directory that an earlier restore made with other flags, or an operator. It is not made anew: it may hold
/// certificates of other members.
fn made_for_others(dir: &Path, difference: &str) -> anyhow::Error {
    let shown = dir.display();
    anyhow!(
        "{shown} holds the cluster's identity with certificates that were made for something else: {difference}. Give the host, peer \
         address and port that they were made for; or, where nothing uses {shown}, remove it, whose keys the snapshot has, and they \
         are made anew; or restore --without-identity to use them as they are"
    )
}

/// Locks `dir` against other restores. `None` where its file system locks no directory.
fn lock(dir: &Path) -> anyhow::Result<Option<File>> {
    let cannot = || format!("cannot read {}", dir.display());
    // The lock is of what a link leads to.
    let path = fs::canonicalize(dir).with_context(cannot)?;
    let file = File::open(&path).with_context(cannot)?;
    match lock_at(&file, &path) {
        Ok(FileLock::Held) => Ok(Some(file)),
        Ok(FileLock::Busy | FileLock::Moved) => bail!(
            "another restore puts the cluster's identity into {} now: wait for its end, and give the command again",
            dir.display()
        ),
        Err(error) => {
            tracing::debug!(%error, path = %path.display(), "a directory cannot be locked");
            Ok(None)
        }
    }
}

/// Makes `dir` of `bundle` and what `complete` adds, whole or not at all. Returns its lock.
fn make(
    bundle: &KeyBundle,
    dir: &Path,
    complete: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Option<File>> {
    let name = dir.file_name().and_then(|name| name.to_str()).context("the directory has no name")?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = parent.join(format!(".{name}.restoring"));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    if draft.symlink_metadata().is_ok() {
        // A killed restore left it. It is unlocked again only with the descriptor, after the removal.
        let _left = lock(&draft)?;
        fs::remove_dir_all(&draft)?;
    }
    DirBuilder::new().mode(0o700).create(&draft)?;
    let lock = lock(&draft)?;
    let made =
        fill(bundle, &draft).map_err(anyhow::Error::from).and_then(|()| complete(&draft)).and_then(|()| {
            File::open(&draft)?.sync_all()?;
            // An empty directory is replaced; one with files, that came meanwhile, is an error.
            fs::rename(&draft, dir)?;
            Ok(File::open(parent)?.sync_all()?)
        });
    if made.is_err()
        && let Err(error) = fs::remove_dir_all(&draft)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %draft.display(), "a draft of the cluster's identity stays");
    }
    made.map(|()| lock)
}

fn fill(bundle: &KeyBundle, draft: &Path) -> io::Result<()> {
    for (name, content) in bundle.files() {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft.join(name))?;
        file.write_all(content)?;
        file.sync_all()?;
    }
    Ok(())
}
