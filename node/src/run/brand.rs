//! `DATA_DIR/brand`: the brand of the cluster in the data directory, readable without opening the store.
//!
//! The cluster's identity in the store is authoritative; the file repeats it so that a wrong `--brand` is refused
//! before anything is made or opened. A directory without the file (of an earlier version, or of a cluster not yet
//! founded) is checked when the store is open.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orch_proto::Brand;

use super::error::RunError;
use crate::certs::{CertsError, replace_file};

/// The brand of the data in `data_dir`; without data, the one `asked` for, if any. Fails where they differ.
pub(crate) fn brand_of_data(
    data_dir: &Path,
    asked: Option<&'static Brand>,
) -> Result<Option<&'static Brand>, RunError> {
    let Some(found) = recorded(data_dir)? else { return Ok(asked) };
    match asked {
        Some(asked) if *asked.name != found => Err(RunError::Brand { asked: asked.name.to_owned(), found }),
        _ => Brand::named(&found).map(Some).ok_or(RunError::UnknownBrand(found)),
    }
}

/// Writes the file, unless it names `name` already.
pub(super) fn record(data_dir: &Path, name: &str) -> Result<(), RunError> {
    if recorded(data_dir)?.as_deref() == Some(name) {
        return Ok(());
    }
    replace_file(&path(data_dir), &format!("{name}\n")).map_err(CertsError::into)
}

fn recorded(data_dir: &Path) -> Result<Option<String>, RunError> {
    match std::fs::read_to_string(path(data_dir)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(RunError::DataFile { action: "read", path: path(data_dir), source }),
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("brand")
}
