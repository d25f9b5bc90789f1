//! The possible contents of a disk after a power loss, from a trace.
//!
//! Owns the model, which docs/power-loss.md argues for. Data: bytes written to a file before a sync began are durable
//! once that sync was reported. Of later writes, every sector of 512 bytes holds its content of any instant since then,
//! and the file has its size of any instant; gaps are zeros. Names: a sync of the directory makes the changes before it
//! durable; of the later ones, a prefix survives. A sync of a file makes none of its names durable: stricter than ext4
//! and xfs.
//!
//! Invariant: if no write is lost, the outcome is the directory, byte by byte; `run` compares them in every cycle.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::Rng;
use rand::rngs::StdRng;

use super::trace::{FileId, Record};

/// Unit that a device writes atomically.
const SECTOR_BYTES: usize = 512;
/// Allocation unit of a file system, so a growing file may end at its multiples.
const PAGE_BYTES: usize = 4096;

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Syncs that a lying disk reports and does not do: a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// No sync: an honest disk.
    None,
    /// All syncs.
    All,
    /// Syncs of files whose name contains this.
    Files(&'static str),
    /// Syncs of the directory.
    Directory,
}

/// Order in which unsynced writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// A prefix of each file's changes survives.
    Ordered,
    /// A prefix, and sectors of its last write are missing.
    Torn,
    /// Everything that the model allows.
    Scattered,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
    Allocate(usize),
}

impl Change {
    fn size_after(&self, size: usize) -> usize {
        match self {
            Change::Write(at, bytes) => size.max(at + bytes.len()),
            Change::Truncate(to) => *to,
            Change::Allocate(to) => size.max(*to),
        }
    }

    fn apply(&self, content: &mut Vec<u8>) {
        content.resize(self.size_after(content.len()), 0);
        if let Change::Write(at, bytes) = self {
            content[*at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

#[derive(Debug, Default)]
struct Inode {
    // Its last name, which `Lie::Files` is matched against.
    name: String,
    synced: Vec<u8>,
    // Later changes with their times, which are record numbers.
    pending: Vec<(usize, Change)>,
    current: Vec<u8>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Put(String, usize),
    Rename(String, String),
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Put(name, inode) => drop(names.insert(name.clone(), *inode)),
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Remove(name) => drop(names.remove(name)),
        }
    }
}

/// The directory while a process works in it: its current and its durable content.
#[derive(Debug)]
pub struct Directory {
    lie: Lie,
    inodes: Vec<Inode>,
    // An inode, or `None` for the directory itself.
    numbers: BTreeMap<FileId, Option<usize>>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    pending_names: Vec<(usize, NameChange)>,
    syncs: BTreeMap<u64, usize>,
}

impl Directory {
    /// A directory in which these files are durable.
    pub fn new(files: Files, lie: Lie) -> Directory {
        let mut inodes = Vec::new();
        let mut names = BTreeMap::new();
        for (name, synced) in files {
            names.insert(name.clone(), inodes.len());
            inodes.push(Inode { name, current: synced.clone(), synced, pending: Vec::new() });
        }
        Directory {
            lie,
            inodes,
            numbers: BTreeMap::new(),
            synced_names: names.clone(),
            names,
            pending_names: Vec::new(),
            syncs: BTreeMap::new(),
        }
    }

    /// Applies the record with the number `time`.
    pub fn apply(&mut self, time: usize, record: &Record) -> Result<()> {
        match record {
            Record::Create(file, name) => {
                self.numbers.insert(*file, Some(self.inodes.len()));
                self.rename(time, NameChange::Put(name.clone(), self.inodes.len()));
                self.inodes.push(Inode { name: name.clone(), ..Inode::default() });
            }
            Record::Bind(file, name) => {
                let inode = (!name.is_empty()).then(|| self.names.get(name).copied().context(name.clone()));
                self.numbers.insert(*file, inode.transpose()?);
            }
            Record::Write(file, at, bytes) => {
                self.change(time, *file, Change::Write(usize::try_from(*at)?, bytes.clone()))?;
            }
            Record::Truncate(file, to) => {
                self.change(time, *file, Change::Truncate(usize::try_from(*to)?))?
            }
            Record::Allocate(file, at, length) => {
                self.change(time, *file, Change::Allocate(usize::try_from(at + length)?))?;
            }
            Record::SyncBegin(_, ticket) => drop(self.syncs.insert(*ticket, time)),
            Record::SyncEnd(file, ticket) => {
                let begin = self.syncs.remove(ticket).context("a sync that never began")?;
                self.sync(*file, begin)?;
            }
            Record::Rename(from, to) => {
                if let Some(inode) = self.names.get(from) {
                    self.inodes[*inode].name.clone_from(to);
                }
                self.rename(time, NameChange::Rename(from.clone(), to.clone()));
            }
            Record::Link(from, to) => {
                let inode = *self.names.get(from).context("a link to no file")?;
                self.rename(time, NameChange::Put(to.clone(), inode));
            }
            Record::Unlink(name) => self.rename(time, NameChange::Remove(name.clone())),
            Record::Fact(_) => {}
            Record::Unknown(what) => bail!("the model lacks what the process did: {what}"),
        }
        Ok(())
    }

    fn inode(&mut self, file: FileId) -> Result<&mut Inode> {
        let number = self.numbers.get(&file).copied().flatten().context("not an open file")?;
        Ok(&mut self.inodes[number])
    }

    fn change(&mut self, time: usize, file: FileId, change: Change) -> Result<()> {
        let inode = self.inode(file)?;
        change.apply(&mut inode.current);
        inode.pending.push((time, change));
        Ok(())
    }

    fn rename(&mut self, time: usize, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push((time, change));
    }

    fn sync(&mut self, file: FileId, begin: usize) -> Result<()> {
        let lie = self.lie;
        if self.numbers.get(&file).context("a sync of no file")?.is_none() {
            if matches!(lie, Lie::All | Lie::Directory) {
                return Ok(());
            }
            let done = self.pending_names.partition_point(|(time, _)| *time < begin);
            self.pending_names.drain(..done).for_each(|(_, change)| change.apply(&mut self.synced_names));
            return Ok(());
        }
        let inode = self.inode(file)?;
        let is_lie = match lie {
            Lie::None | Lie::Directory => false,
            Lie::All => true,
            Lie::Files(part) => inode.name.contains(part),
        };
        if !is_lie {
            let done = inode.pending.partition_point(|(time, _)| *time < begin);
            inode.pending.drain(..done).for_each(|(_, change)| change.apply(&mut inode.synced));
        }
        Ok(())
    }

    /// Compares the outcome of all records with the real directory, which shows changes that the shim did not see.
    pub fn compare(&self, with: &Files) -> Result<()> {
        let names: Vec<_> = self.names.keys().collect();
        let found: Vec<_> = with.keys().collect();
        ensure!(names == found, "the shim saw the names {names:?}, the directory has {found:?}");
        for (name, content) in with {
            let seen = &self.inodes[self.names[name]].current;
            ensure!(
                seen == content,
                "{name}: the shim saw {} bytes, other than the file's {}",
                seen.len(),
                content.len()
            );
        }
        Ok(())
    }

    /// The files after a power loss at this point.
    pub fn lose_power(&self, writeback: Writeback, chance: &mut StdRng) -> Files {
        let mut names = self.synced_names.clone();
        let kept = match chance.random_range(0..3) {
            0 => 0,
            1 => self.pending_names.len(),
            _ => chance.random_range(0..=self.pending_names.len()),
        };
        self.pending_names.iter().take(kept).for_each(|(_, change)| change.apply(&mut names));
        names
            .into_iter()
            .map(|(name, inode)| (name, survivor(&self.inodes[inode], writeback, chance)))
            .collect()
    }
}

/// A file after a power loss.
fn survivor(inode: &Inode, writeback: Writeback, chance: &mut StdRng) -> Vec<u8> {
    let all = inode.pending.len();
    if all == 0 {
        return inode.synced.clone();
    }
    let changes: Vec<_> = inode.pending.iter().map(|(_, change)| change).collect();
    let longest =
        changes.iter().fold(inode.synced.len(), |longest, change| longest.max(change.size_after(longest)));
    let sectors = longest.div_ceil(SECTOR_BYTES);
    let kept = chance.random_range(0..=all);
    // Number of changes that each sector has seen, and that the size has.
    let (seen, sized) = match (chance.random_range(0..6), writeback) {
        (0, _) => (vec![0; sectors], 0),
        (1, _) => (vec![all; sectors], all),
        (_, Writeback::Ordered) => (vec![kept; sectors], kept),
        (2 | 3, _) | (_, Writeback::Torn) => {
            let next = (kept + 1).min(all);
            let either = |chance: &mut StdRng| if chance.random_bool(0.5) { kept } else { next };
            ((0..sectors).map(|_| either(chance)).collect(), either(chance))
        }
        _ => {
            let newest = [0.1, 0.5, 0.9][chance.random_range(0..3)];
            let any = |chance: &mut StdRng| {
                if chance.random_bool(newest) { all } else { chance.random_range(0..=all) }
            };
            ((0..sectors).map(|_| any(chance)).collect(), any(chance))
        }
    };
    let mut content = inode.synced.clone();
    content.resize(longest, 0);
    for (number, change) in changes.iter().enumerate() {
        apply_to_sectors(change, &mut content, |sector| number < seen[sector]);
    }
    content.truncate(size(inode.synced.len(), &changes[..sized], writeback, chance));
    content
}

/// Applies a change to the sectors that have seen it.
fn apply_to_sectors(change: &Change, content: &mut [u8], has_seen: impl Fn(usize) -> bool) {
    let (range, bytes): (Range<usize>, Option<&[u8]>) = match change {
        Change::Write(at, bytes) => (*at..at + bytes.len(), Some(bytes)),
        Change::Truncate(to) => ((*to).min(content.len())..content.len(), None),
        Change::Allocate(_) => return,
    };
    let mut at = range.start;
    while at < range.end {
        let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(range.end);
        if has_seen(at / SECTOR_BYTES) {
            match bytes {
                Some(bytes) => content[at..end].copy_from_slice(&bytes[at - range.start..end - range.start]),
                None => content[at..end].fill(0),
            }
        }
        at = end;
    }
}

/// Size of the file after these changes; of the last growth, possibly only some pages.
fn size(synced: usize, changes: &[&Change], writeback: Writeback, chance: &mut StdRng) -> usize {
    let sizes: Vec<usize> = changes
        .iter()
        .scan(synced, |size, change| {
            *size = change.size_after(*size);
            Some(*size)
        })
        .collect();
    let Some(last) = sizes.last().copied() else { return synced };
    let before = sizes.iter().rev().nth(1).copied().unwrap_or(synced);
    let pages = (before.div_ceil(PAGE_BYTES)..=last / PAGE_BYTES).map(|page| page * PAGE_BYTES);
    let pages: Vec<usize> = pages.filter(|at| (before..last).contains(at)).collect();
    if writeback == Writeback::Ordered || pages.is_empty() || chance.random_bool(0.5) {
        return last;
    }
    pages[chance.random_range(0..pages.len())]
}

/// Reads the files of a directory without subdirectories.
pub fn read(path: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_str().context("a name that is no text")?.to_owned();
        files.insert(name, fs::read(entry.path()).with_context(|| entry.path().display().to_string())?);
    }
    Ok(files)
}

/// Replaces the content of the directory with these files.
pub fn write(path: &Path, files: &Files) -> Result<()> {
    fs::remove_dir_all(path)?;
    fs::create_dir(path)?;
    files.iter().try_for_each(|(name, content)| Ok(fs::write(path.join(name), content)?))
}
