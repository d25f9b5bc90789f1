//! Rewriting all records with the key that a new record would get.
//!
//! Owns the walk over log, objects and history. Records that have the wanted key already are left alone, so a rewrite that
//! was interrupted goes on where it ended when it is started again. Each step holds the lock that excludes writers of its
//! records for a bounded number of bytes; between steps the caller may wait, or end the rewrite. At the end the memtables are
//! flushed and every table is compacted, range by range: until then older tables and the write-ahead log hold the records
//! as they were.
//!
//! Invariant: a rewrite replaces the stored form of a record and never its content.
//! Invariant: the note of a key goes only while the walked state is the current one and none is being installed.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use rocksdb::{
    BottommostLevelCompaction, CompactOptions, DBRawIteratorWithThreadMode, ReadOptions, WriteBatch,
};

use super::sealing::{Kind, Place};
use super::{
    CF_LOG, CF_META, Core, Db, Progress, RewriteEnd, Rewritten, RocksDisk, failed, family, history, record,
    space, sweeper,
};
use crate::disk::DiskError;

/// Most records of one step: writers wait for it.
const STEP_RECORDS_MAX: usize = 256;
/// Bytes of records after which a step ends: a few milliseconds of decryption and encryption.
const STEP_BYTES_MAX: usize = 1 << 20;
/// Bytes of records between two ends of compacted ranges: below a second of reading and writing, after which the caller may
/// end the rewrite. A store of 8 GiB has 128 ranges.
const RANGE_BYTES: usize = 64 << 20;
/// Free bytes without which no step begins: a compaction (64 MiB and its result) must not fill the disk, which would
/// stop the database.
const FREE_BYTES_MIN: u64 = 192 << 20;

/// The result of one step.
#[derive(Default)]
struct Step {
    examined: u64,
    rewritten: u64,
    bytes: usize,
    // The database key at which the next step begins; `None` at the end.
    next: Option<Vec<u8>>,
}

/// One column family on its walk, cut into ranges for the compaction.
#[derive(Default)]
struct Ranges {
    ends: Vec<Vec<u8>>,
    bytes: usize,
}

impl Ranges {
    fn note(&mut self, step: &Step) {
        self.bytes += step.bytes;
        if let Some(next) = step.next.as_ref().filter(|_| self.bytes >= RANGE_BYTES) {
            self.ends.push(next.clone());
            self.bytes = 0;
        }
    }

    /// Begin and end of each range, of which the first and the last are open.
    fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        let ends = || self.ends.iter().map(|end| Some(end.as_slice()));
        std::iter::once(None).chain(ends()).zip(ends().chain(std::iter::once(None)))
    }

    fn count(&self) -> u64 {
        self.ends.len() as u64 + 1
    }
}

/// Takes the progress of a rewrite after each step; it may wait before it answers, and [`ControlFlow::Break`] ends the
/// rewrite.
pub type Report<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

impl RocksDisk {
    /// Rewrites every record that a new record in its place would be encrypted differently from, drops the older forms from
    /// the disk, and calls `report` after each step, with no lock held. The disk may be in use meanwhile. Takes as long as
    /// reading the store, and writing what changes twice.
    ///
    /// # Errors
    /// Another rewrite is under way, less than 192 MiB of the disk are free, or the disk failed. What was rewritten stays so.
    pub fn rewrite(&self, report: Report<'_>) -> Result<Rewritten, DiskError> {
        let Some(_alone) = self.core.rewriting.try_lock() else {
            return Err(failure("another rewrite is under way".to_owned()));
        };
        let done = self.core.rewrite(report);
        self.core.end_meeting_keys();
        done
    }

    /// Names of the keys that stored records need, sorted. Waits for records that are being encrypted.
    pub fn needed_keys(&self) -> Vec<String> {
        self.core.needed_keys().iter().map(ToString::to_string).collect()
    }
}

impl Core {
    fn rewrite(&self, report: Report<'_>) -> Result<Rewritten, DiskError> {
        self.begin_meeting_keys();
        let keys = self.sealing.revision();
        let mut progress = Progress { estimated: self.estimated_records()?, ..Progress::default() };
        let ended = |progress, end| Ok(Rewritten { progress, unneeded: Vec::new(), end });
        let stopped = |progress| ended(progress, RewriteEnd::Stopped);
        let Some(log) = self.walk_log(&mut progress, report)? else { return stopped(progress) };
        let Some((generation, state)) = self.walk_state(&mut progress, report)? else {
            return stopped(progress);
        };
        progress.ranges = log.count() + state.count();
        let families = [(CF_LOG, &log), (generation.as_str(), &state)];
        if self.drop_older_forms(&families, &mut progress, report)?.is_break() {
            return stopped(progress);
        }
        let unneeded = {
            // Excludes installations from becoming current, and new ones from beginning.
            let generations = self.generations.write();
            // The next rewrite walks the installed state.
            if generations.family() != generation || generations.is_installing() {
                return ended(progress, RewriteEnd::StateReplaced);
            }
            if self.sealing.revision() != keys {
                return ended(progress, RewriteEnd::KeysChanged);
            }
            self.forget_other_keys()?
        };
        self.sync().map_err(|error| self.fuse.blow(error))?;
        let unneeded = unneeded.iter().map(ToString::to_string).collect();
        Ok(Rewritten { progress, unneeded, end: RewriteEnd::Complete })
    }

    /// Rewrites the log. `None` when the caller ended it.
    fn walk_log(&self, progress: &mut Progress, report: Report<'_>) -> Result<Option<Ranges>, DiskError> {
        self.delete_purged()?;
        let (mut ranges, mut from) = (Ranges::default(), Some(Vec::new()));
        while let Some(at) = from {
            let step = self.rewrite_log(&at)?;
            ranges.note(&step);
            match advance(progress, step, report) {
                ControlFlow::Continue(next) => from = next,
                ControlFlow::Break(()) => return Ok(None),
            }
        }
        Ok(Some(ranges))
    }

    /// Rewrites the current state, from its start again when another one is installed meanwhile. Returns its column family.
    /// `None` when the caller ended it.
    fn walk_state(
        &self,
        progress: &mut Progress,
        report: Report<'_>,
    ) -> Result<Option<(String, Ranges)>, DiskError> {
        let (mut generation, mut from) = (String::new(), Some(Vec::new()));
        let mut ranges = Ranges::default();
        while let Some(mut at) = from {
            self.require_space()?;
            // Excludes writers of the state.
            let generations = self.generations.write();
            if generations.family() != generation {
                (generation, at, ranges) = (generations.family(), Vec::new(), Ranges::default());
            }
            let step = self.rewrite_step(&generation, &at, None)?;
            drop(generations);
            ranges.note(&step);
            match advance(progress, step, report) {
                ControlFlow::Continue(next) => from = next,
                ControlFlow::Break(()) => return Ok(None),
            }
        }
        Ok(Some((generation, ranges)))
    }

    /// Deletes the purged entries that the sweeper has left: they are on the disk, and their keys may be gone.
    fn delete_purged(&self) -> Result<(), DiskError> {
        let bounds = self.bounds.write();
        let Some(purged) = bounds.purged() else { return Ok(()) };
        let mut batch = WriteBatch::default();
        let end = record::log_key(purged.saturating_add(1));
        batch.delete_range_cf(&family(&self.db, CF_LOG)?, record::log_key(0), end);
        self.write("rewrite", batch)
    }

    fn rewrite_log(&self, from: &[u8]) -> Result<Step, DiskError> {
        self.require_space()?;
        // Excludes appends, truncations and purges.
        let bounds = self.bounds.write();
        let last = bounds.span().map(|(_, last)| last).or(bounds.purged());
        let Some(last) = last else { return Ok(Step::default()) };
        let end = record::log_key(last.saturating_add(1));
        self.rewrite_step(CF_LOG, from, Some(&end))
    }

    fn rewrite_step(&self, name: &str, from: &[u8], end: Option<&[u8]>) -> Result<Step, DiskError> {
        self.fuse.check()?;
        let stored = family(&self.db, name)?;
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        if let Some(end) = end {
            options.set_iterate_upper_bound(end);
        }
        let mut entries = self.db.raw_iterator_cf_opt(&stored, options);
        entries.seek(from);
        let mut batch = WriteBatch::default();
        let (mut step, mut records) = (Step::default(), 0);
        while let Some((key, value)) = entries.item() {
            if records == STEP_RECORDS_MAX || step.bytes > STEP_BYTES_MAX {
                step.next = Some(key.to_vec());
                break;
            }
            (records, step.bytes) = (records + 1, step.bytes + value.len());
            if let Some(place) = place(name, key)? {
                step.examined += 1;
                if let Some(value) = self.rewritten(place, key, value)? {
                    batch.put_cf(&stored, key, value);
                    step.rewritten += 1;
                }
            }
            entries.next();
        }
        check(&entries)?;
        drop(entries);
        if step.rewritten > 0 {
            self.write("rewrite", batch)?;
        }
        Ok(step)
    }

    /// The new value of a record; `None` if it has the wanted key.
    fn rewritten(&self, place: Place<'_>, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, DiskError> {
        let found = self.key_of(key, value)?;
        // The key of an object depends on its resource alone, that of an entry on its content.
        let plain = match place.kind() {
            Kind::Entry => self.open_for_rewrite(place, key, value)?,
            Kind::Object | Kind::History => Bytes::new(),
        };
        let wanted = self.wanted_key(place, &plain)?;
        if found == wanted {
            if let Some(key) = &found {
                self.note_key(place.kind(), key)?;
            }
            return Ok(None);
        }
        let plain = match place.kind() {
            Kind::Entry => plain,
            Kind::Object | Kind::History => self.open_for_rewrite(place, key, value)?,
        };
        let mut rewritten = Vec::new();
        self.seal_into(place, key, &plain, &mut rewritten)?;
        Ok(Some(rewritten))
    }

    fn open_for_rewrite(&self, place: Place<'_>, key: &[u8], value: &[u8]) -> Result<Bytes, DiskError> {
        self.unseal("rewrite", place, key, value)
    }

    /// Flushes every memtable, after which RocksDB drops its old write-ahead logs, and compacts every table.
    fn drop_older_forms(
        &self,
        families: &[(&str, &Ranges)],
        progress: &mut Progress,
        report: Report<'_>,
    ) -> Result<ControlFlow<()>, DiskError> {
        self.fuse.check()?;
        let mut compaction = CompactOptions::default();
        compaction.set_exclusive_manual_compaction(false);
        compaction.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        // All of them before any compaction: a write-ahead log goes when no family needs it.
        for name in families.iter().map(|(name, _)| *name).chain([CF_META]) {
            // A state that was replaced meanwhile is dropped with its files.
            let Some(found) = self.db.cf_handle(name) else { continue };
            self.db.flush_cf(&found).map_err(failed("rewrite"))?;
        }
        let older = self.tables_of(families)?;
        for (name, ranges) in families {
            for (from, to) in ranges.iter() {
                self.require_space()?;
                if let Some(found) = self.db.cf_handle(name) {
                    self.db.compact_range_cf_opt(&found, from, to, &compaction);
                }
                progress.compacted += 1;
                if report(*progress).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        // A compaction tells nobody that it failed.
        match self.tables_of(families)?.intersection(&older).count() {
            0 => Ok(ControlFlow::Continue(())),
            left => Err(failure(format!("the database has not compacted {left} tables with older forms"))),
        }
    }

    /// File names of the tables of `families`. A table is never changed, and its name never used again.
    fn tables_of(&self, families: &[(&str, &Ranges)]) -> Result<BTreeSet<String>, DiskError> {
        let mut names = BTreeSet::new();
        for (name, _) in families {
            names.extend(sweeper::tables_of(self, name)?.into_iter().map(|table| table.name));
        }
        Ok(names)
    }

    fn require_space(&self) -> Result<(), DiskError> {
        match space::measure(self.db.path()) {
            Ok(space) if space.free < FREE_BYTES_MIN => Err(failure(format!(
                "{} bytes of the disk are free, {FREE_BYTES_MIN} are needed",
                space.free
            ))),
            Ok(_) => Ok(()),
            Err(error) => Err(failure(error.to_string())),
        }
    }

    fn estimated_records(&self) -> Result<u64, DiskError> {
        let state = self.generations.read().family();
        let mut records: u64 = 0;
        for name in [CF_LOG, &state] {
            let Some(found) = self.db.cf_handle(name) else { continue };
            let estimate = self.db.property_int_value_cf(&found, "rocksdb.estimate-num-keys");
            records = records.saturating_add(estimate.map_err(failed("rewrite"))?.unwrap_or_default());
        }
        Ok(records)
    }
}

/// The place of the record under `key`; `None` for the entries that list history, which hold no content.
fn place<'a>(family: &str, key: &'a [u8]) -> Result<Option<Place<'a>>, DiskError> {
    if family == CF_LOG {
        return Ok(Some(Place::Entry));
    }
    if key.starts_with(&history::FIRST_KEY) {
        return Ok(history::resource_of_record(key).map(Place::History));
    }
    let (resource, _) = record::split_state_key(key)
        .ok_or_else(|| failure(format!("{} is not the key of an object", key.escape_ascii())))?;
    Ok(Some(Place::Object(resource)))
}

/// Adds a step to the progress and reports it. Returns where the next step begins.
fn advance(progress: &mut Progress, step: Step, report: Report<'_>) -> ControlFlow<(), Option<Vec<u8>>> {
    progress.examined += step.examined;
    progress.rewritten += step.rewritten;
    progress.bytes += step.bytes as u64;
    report(*progress)?;
    ControlFlow::Continue(step.next)
}

fn check(entries: &DBRawIteratorWithThreadMode<'_, Db>) -> Result<(), DiskError> {
    entries.status().map_err(failed("rewrite"))
}

fn failure(reason: String) -> DiskError {
    DiskError { operation: "rewrite", reason }
}
