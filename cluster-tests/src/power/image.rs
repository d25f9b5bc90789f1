//! What a disk may hold after a power loss, from a trace.
//!
//! Owns the model, which docs/power-loss.md argues for. Data: what was written to a file before a sync of it began is there
//! once that sync was reported. Of what came later, every sector of 512 bytes holds what it held at some instant since
//! then, and the file has the size of some instant; in between are zeros. Names: a sync of the directory keeps the changes
//! before it; of the later ones, a prefix survives. A sync of a file keeps none of its names: stricter than ext4 and xfs.
//!
//! Invariant: with nothing forgotten, the outcome is the directory, byte by byte; `run` compares them in every cycle.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::Rng;
use rand::rngs::StdRng;

use super::trace::{FileId, Record};

/// What a device writes in one piece.
const SECTOR_BYTES: usize = 512;
/// What a file system allocates, and so a place where a growing file may end.
const PAGE_BYTES: usize = 4096;

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Syncs that a lying disk reports and does not do: a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// None: an honest disk.
    None,
    /// All of them.
    All,
    /// Those of files whose name contains this.
    Files(&'static str),
    /// Those of the directory.
    Directory,
}

/// How far what was not synced may lose its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writeback {
    /// A prefix of each file's changes survives.
    Ordered,
    /// The same, and sectors of the last write are missing.
    Torn,
    /// All that the model allows.
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
    // The name it had last: what a lie is about.
    name: String,
    synced: Vec<u8>,
    // What came after that, with its time: the number of its record.
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

/// The directory while a process works in it: what is there, and what of it is durable.
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
    /// A directory that holds these files, durably.
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

    /// Compares the outcome of all records with the directory itself: a change that the shim did not see shows here.
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

    /// The files after a power loss now.
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
    // How many of the changes each sector has seen, and how many the size.
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

/// Applies a change to those sectors that have seen it.
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

/// The size after these changes; of the last one's growth maybe only some pages.
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

/// Reads the files of a directory, which has no folders.
pub fn read(path: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_str().context("a name that is no text")?.to_owned();
        files.insert(name, fs::read(entry.path()).with_context(|| entry.path().display().to_string())?);
    }
    Ok(files)
}

/// Makes the directory hold these files and no others.
pub fn write(path: &Path, files: &Files) -> Result<()> {
    fs::remove_dir_all(path)?;
    fs::create_dir(path)?;
    files.iter().try_for_each(|(name, content)| Ok(fs::write(path.join(name), content)?))
}
