//! The folder of a member's backups.
//!
//! Owns which files in it are backups, and their removal.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;

use super::names::Names;
use crate::object_store::Digest;
use crate::snapshot::{discard_draft, drafted};

/// A folder, and the member whose files in it count.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    names: Names,
}

/// A backup of this member in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backup {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// When it was written.
    pub(super) time: SystemTime,
    pub(super) bytes: u64,
    /// The digest of the bytes that passed the restore test; `None` for a file of before this start.
    pub(super) tested: Option<Digest>,
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Folder {
    pub(super) fn new(path: &Path, names: Names) -> Folder {
        Folder { path: path.to_owned(), names }
    }

    /// The file called `name`.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The newest backup, but for those of the future.
    pub(super) fn newest(&self) -> std::io::Result<Option<Backup>> {
        let now = self.names.now().map_err(std::io::Error::other)?;
        let backups = self.backups()?.into_iter().filter(|backup| backup.name <= now);
        Ok(backups.max_by(|one, other| one.name.cmp(&other.name)))
    }

    /// The backup called `name`, which was made just now of the bytes that were `tested`.
    pub(super) fn made(&self, name: &str, tested: Option<Digest>) -> anyhow::Result<Backup> {
        let path = self.file(name);
        let facts = std::fs::metadata(&path).context("the backup is gone")?;
        Ok(Backup { path, name: name.to_owned(), time: facts.modified()?, bytes: facts.len(), tested })
    }

    /// Removes the drafts of backups whose process ended before they did. No later backup has their names.
    pub(super) fn discard_drafts(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let target = name.to_str().and_then(drafted).filter(|target| self.names.include(target));
            if let Some(target) = target
                && discard_draft(&self.file(target))
            {
                tracing::info!(folder = %self, name = target, "the rest of a backup that was broken off was removed");
            }
        }
        Ok(())
    }

    /// Removes the backups before `newest` that are not among the last `keep` with it.
    pub(super) fn retain(&self, newest: &Backup, keep: usize) -> anyhow::Result<()> {
        let backups = self.backups().with_context(|| format!("cannot list {self}"))?;
        let names = backups.iter().map(|backup| &*backup.name);
        for old in self.names.surplus(names, &newest.name, keep) {
            let old = self.file(old);
            std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
        Ok(())
    }

    /// The backups of the member, in any order.
    fn backups(&self) -> std::io::Result<Vec<Backup>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !self.names.include(&name) {
                continue;
            }
            let facts = entry.metadata()?;
            if facts.is_file() {
                let (path, time, bytes) = (entry.path(), facts.modified()?, facts.len());
                found.push(Backup { path, name, time, bytes, tested: None });
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Folder) -> Vec<String> {
        let mut names: Vec<String> =
            folder.backups().unwrap().into_iter().map(|backup| backup.name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_backup_that_was_just_made_stays_where_the_clock_ran_ahead() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path(), Names::of("a", "one"));
        let name = |time: &str| format!("{}{time}.snapshot", folder.names.begin());
        let ahead = ["20991129T101500Z", "20991130T101500Z"].map(name);
        let past = ["20251127T101500Z", "20251128T101500Z"].map(name);
        let made = name("20251129T101500Z");
        for name in ahead.iter().chain(&past).chain([&made]) {
            std::fs::write(folder.file(name), "x").unwrap();
        }
        std::fs::create_dir(folder.file(&name("20251130T101500Z"))).unwrap();
        let backup = folder.made(&made, None).unwrap();
        assert_eq!(folder.newest().unwrap(), Some(backup.clone()));
        folder.retain(&backup, 2).unwrap();
        let [_, kept] = past;
        assert_eq!(names(&folder), [kept, made.clone(), ahead[0].clone(), ahead[1].clone()]);
        std::fs::remove_file(folder.file(&made)).unwrap();
        assert!(folder.made(&made, None).unwrap_err().to_string().contains("gone"));
    }

    #[test]
    fn a_folder_without_backups_has_no_newest_one() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path(), Names::of("a", "one"));
        std::fs::write(root.path().join("b-20251129T101500Z.snapshot"), "x").unwrap();
        assert_eq!(folder.newest().unwrap(), None);
        let gone = Folder::new(&root.path().join("none"), Names::of("a", "one"));
        assert!(gone.newest().is_err());
    }

    #[test]
    fn files_of_a_killed_process_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path(), Names::of("a", "one"));
        let name = format!("{}20251129T101500Z.snapshot", folder.names.begin());
        let kept = [name.clone(), ".a-20251129T101500Z.snapshot.partial".to_owned(), ".x.partial".to_owned()];
        for name in kept.iter().chain([&format!(".{name}.partial")]) {
            std::fs::write(folder.file(name), "x").unwrap();
        }
        folder.discard_drafts().unwrap();
        let mut left: Vec<String> = std::fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = kept.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }
}
