//! The source tree for the rules: files by extension, without build outputs and downloads.

use std::fs;
use std::path::{Path, PathBuf};

/// A file with its name relative to the root.
pub(crate) struct Source {
    /// Path from the root, with slashes.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: String,
}

/// Folders at the root that hold no sources.
const NOT_SOURCES: [&str; 2] = ["target", "orch-data"];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in a folder of the root")
}

/// Every file with the extension `extension`, in order of names.
pub(crate) fn sources(extension: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(root(), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        Source {
            name,
            text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        }
    };
    paths.into_iter().map(read).collect()
}

/// The folders at the root.
pub(crate) fn top_folders() -> Vec<String> {
    let entries = fs::read_dir(root()).expect("the root can be read");
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| is_source(name)).collect();
    names.sort();
    names
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if !is_source(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn is_source(name: &str) -> bool {
    !name.starts_with('.') && !NOT_SOURCES.contains(&name)
}
