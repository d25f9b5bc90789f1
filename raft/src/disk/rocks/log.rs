//! The log: its bounds in memory, its entries in one column family.
//!
//! Invariant: the entries between first and last are consecutive; an append that would leave a hole is refused, and a
//! hole found while reading is damage. The bounds are locked while an iterator is created, so that a reader sees the
//! log at one instant: neither a truncation nor the sweeper can make a hole in it.

use rocksdb::{DBRawIteratorWithThreadMode, ReadOptions, WriteBatch};

use super::sealing::Place;
use super::{CF_LOG, CF_META, Core, Db, failed, family, record};
use crate::disk::{DiskError, LogRecord, MetaKey, check_start};

/// First and last entry of the log, and the purged index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogBounds {
    // Entries up to this index are purged; the sweeper may not have deleted them yet.
    purged: Option<u64>,
    // First and last index. Invariant: purged < first <= last.
    span: Option<(u64, u64)>,
}

impl LogBounds {
    /// Reads the bounds from a newly opened database.
    pub(super) fn find(db: &Db) -> Result<LogBounds, DiskError> {
        let purged = record::load_number(db, "read purged index", record::META_PURGED_INDEX)?;
        let log = family(db, CF_LOG)?;
        let mut entries = db.raw_iterator_cf(&log);
        entries.seek(record::log_key(purged.map_or(0, |index| index.saturating_add(1))));
        let first = index_at(&entries)?;
        let Some(first) = first else { return Ok(LogBounds { purged, span: None }) };
        entries.seek_to_last();
        let last = index_at(&entries)?.unwrap_or(first);
        Ok(LogBounds { purged, span: Some((first, last)) })
    }

    /// First and last index.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// The index up to which entries are purged.
    pub(super) fn purged(&self) -> Option<u64> {
        self.purged
    }

    fn may_follow(&self, index: u64) -> bool {
        match (self.span, self.purged) {
            (Some((_, last)), _) => last.checked_add(1) == Some(index),
            (None, Some(purged)) => index > purged,
            (None, None) => true,
        }
    }

    fn grow(&mut self, from: u64, to: u64) {
        assert!(self.may_follow(from), "the log has no hole");
        self.span = Some((self.span.map_or(from, |(first, _)| first), to));
        self.assert_ordered();
    }

    fn assert_ordered(&self) {
        let Some((first, last)) = self.span else { return };
        assert!(self.purged.is_none_or(|purged| purged < first), "no entry is purged that the log lists");
        assert!(first <= last, "the log lists its entries in order");
    }

    fn cut_after(&mut self, index: Option<u64>) {
        self.span = match (self.span, index) {
            (Some((first, last)), Some(index)) if index >= first => Some((first, last.min(index))),
            _ => None,
        };
        self.assert_ordered();
    }

    fn purge(&mut self, index: u64) {
        let purged = self.purged.map_or(index, |purged| purged.max(index));
        self.purged = Some(purged);
        self.span = self.span.filter(|(_, last)| *last > purged).map(|(first, last)| {
            // No overflow: last is greater.
            (first.max(purged + 1), last)
        });
        self.assert_ordered();
    }
}

impl Core {
    /// Writes entries, which must follow the last entry.
    pub(super) fn append(&self, records: &[LogRecord]) -> Result<(), DiskError> {
        self.fuse.check()?;
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(()) };
        let mut bounds = self.bounds.write();
        if !bounds.may_follow(first.index) || !is_consecutive(records) {
            return Err(DiskError {
                operation: "append",
                reason: format!("entries {} to {} do not follow {bounds:?}", first.index, last.index),
            });
        }
        let batch = self.entries_batch(records)?;
        self.write("append", batch)?;
        bounds.grow(first.index, last.index);
        Ok(())
    }

    /// Entries from `from` up to but excluding `to`, as many as fit into `bytes_max` but at least one.
    pub(super) fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError> {
        self.fuse.check()?;
        let log = family(&self.db, CF_LOG)?;
        let bounds = self.bounds.read();
        let Some((first, last)) = bounds.span() else { return Ok(Vec::new()) };
        let to = to.min(last.saturating_add(1));
        if from >= to {
            return Ok(Vec::new());
        }
        check_start(from, first)?;
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(record::log_key(from));
        options.set_iterate_upper_bound(record::log_key(to));
        options.fill_cache(false);
        let entries = self.db.raw_iterator_cf_opt(&log, options);
        drop(bounds);
        self.collect(entries, from, to, bytes_max)
    }

    /// Removes the entries after `index`.
    pub(super) fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError> {
        self.fuse.check()?;
        let mut bounds = self.bounds.write();
        let Some((first, last)) = bounds.span() else { return Ok(()) };
        let from = index.map_or(first, |index| index.saturating_add(1).max(first));
        if from > last {
            return Ok(());
        }
        let log = family(&self.db, CF_LOG)?;
        let mut batch = WriteBatch::default();
        if from < last {
            batch.delete_range_cf(&log, record::log_key(from), record::log_key(last));
        }
        batch.delete_cf(&log, record::log_key(last));
        self.write("truncate", batch)?;
        bounds.cut_after(index);
        Ok(())
    }

    /// Purges the entries up to `index`: writes the marker and leaves the entries to the sweeper.
    pub(super) fn purge_through(&self, index: u64, marker: &[u8]) -> Result<(), DiskError> {
        self.fuse.check()?;
        let mut bounds = self.bounds.write();
        let meta = family(&self.db, CF_META)?;
        let name = record::meta_key(MetaKey::Purged);
        let number = bounds.purged().map_or(index, |purged| purged.max(index)).to_be_bytes();
        let mut batch = WriteBatch::default();
        batch.put_cf(&meta, name, record::seal(name, marker));
        let sealed_number = record::seal(record::META_PURGED_INDEX, &number);
        batch.put_cf(&meta, record::META_PURGED_INDEX, sealed_number);
        self.write("purge", batch)?;
        bounds.purge(index);
        Ok(())
    }

    fn entries_batch(&self, records: &[LogRecord]) -> Result<WriteBatch, DiskError> {
        let log = family(&self.db, CF_LOG)?;
        let mut batch = WriteBatch::default();
        let mut value = Vec::new();
        for entry in records {
            let key = record::log_key(entry.index);
            self.seal_into(Place::Entry, &key, &entry.bytes, &mut value)?;
            batch.put_cf(&log, key, &value);
        }
        Ok(batch)
    }

    fn collect(
        &self,
        mut entries: DBRawIteratorWithThreadMode<'_, Db>,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, DiskError> {
        let mut found = Vec::new();
        let mut bytes = 0;
        entries.seek(record::log_key(from));
        for index in from..to {
            let Some((key, value)) = entries.item() else {
                entries.status().map_err(failed("read log"))?;
                return Err(hole(index));
            };
            if key != record::log_key(index) {
                return Err(hole(index));
            }
            let body = self.unseal("read log", Place::Entry, key, value)?;
            bytes += body.len();
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push(LogRecord { index, bytes: body });
            entries.next();
        }
        Ok(found)
    }
}

fn is_consecutive(records: &[LogRecord]) -> bool {
    records.windows(2).all(|pair| pair[0].index.checked_add(1) == Some(pair[1].index))
}

fn hole(index: u64) -> DiskError {
    DiskError { operation: "read log", reason: format!("entry {index} is missing") }
}

fn index_at(entries: &DBRawIteratorWithThreadMode<'_, Db>) -> Result<Option<u64>, DiskError> {
    entries.status().map_err(failed("read log bounds"))?;
    entries.key().map(record::log_index).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> LogBounds {
        LogBounds { purged: Some(4), span: Some((5, 9)) }
    }

    #[test]
    fn bounds_follow_what_is_appended_cut_and_purged() {
        let mut bounds = bounds();
        bounds.grow(10, 12);
        bounds.cut_after(Some(10));
        bounds.purge(6);
        assert_eq!(bounds, LogBounds { purged: Some(6), span: Some((7, 10)) });
        bounds.purge(20);
        assert_eq!(bounds, LogBounds { purged: Some(20), span: None });
        bounds.grow(21, 21);
        assert_eq!(bounds.span(), Some((21, 21)));
    }

    #[test]
    #[should_panic(expected = "the log has no hole")]
    fn the_log_does_not_grow_past_a_hole() {
        bounds().grow(11, 12);
    }

    #[test]
    #[should_panic(expected = "the log lists its entries in order")]
    fn the_log_does_not_end_before_it_begins() {
        bounds().grow(10, 3);
    }
}
