//! Writes files that hold secrets: readable by their owner only, whole or absent.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::authority::CertsError;

/// Writes a file that must not exist yet. Makes its directory if that is missing.
pub fn write_new(path: &Path, content: &str) -> Result<(), CertsError> {
    make_parent(path)?;
    let created = open(path).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    });
    created.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => CertsError::Exists { path: path.to_owned() },
        _ => CertsError::File { action: "write", path: path.to_owned(), source },
    })
}

/// Replaces a file atomically, by rename: a reader sees the old content or the new. Makes its directory if that is
/// missing.
pub fn replace_file(path: &Path, content: &str) -> Result<(), CertsError> {
    make_parent(path)?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = Path::new(&draft);
    let replaced = match std::fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => open(draft).and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(draft, path)?;
            sync_folder(path)
        }),
    };
    replaced.map_err(|source| CertsError::File { action: "write", path: path.to_owned(), source })
}

/// Makes a rename durable before the next step, which may rely on it: a rotation removes a key that it has copied.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn make_parent(path: &Path) -> Result<(), CertsError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|source| CertsError::File {
        action: "create directory",
        path: parent.to_owned(),
        source,
    })
}
