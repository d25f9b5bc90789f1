//! The newest entries of the log, in memory.
//!
//! Owns a gapless run of entries up to the end of the log. It is a cache: entries that it lacks are read from the disk.

use std::collections::VecDeque;

use crate::member::codec::entry_bytes;
use crate::member::consensus::Entry;

/// Bytes that the tail may hold: more than is under way to any member that keeps up; for a member that lags, entries are
/// read from the disk.
const TAIL_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Tail {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Tail {
    /// Adds appended entries. An entry that does not continue the tail replaces it.
    pub(super) fn push(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let continues = self.next().is_none_or(|next| next == entry.log_id.index);
            if !continues {
                self.clear();
            }
            self.bytes += entry_bytes(&entry);
            self.entries.push_back(entry);
        }
        while self.bytes > TAIL_BYTES_MAX && self.entries.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Entries of `from..to` of at most `bytes_max` bytes together, but one at least; empty when the tail lacks `from`.
    pub(super) fn read(&self, from: u64, to: u64, bytes_max: usize) -> Vec<Entry> {
        let Some(first) = self.first() else { return Vec::new() };
        let Some(skip) = from.checked_sub(first).and_then(|skip| usize::try_from(skip).ok()) else {
            return Vec::new();
        };
        let mut bytes = 0;
        let within = self.entries.iter().skip(skip).take_while(|entry| {
            let fits = bytes == 0 || bytes + entry_bytes(entry) <= bytes_max;
            bytes += entry_bytes(entry);
            fits && entry.log_id.index < to
        });
        within.cloned().collect()
    }

    /// The first index held; `None` while the tail is empty.
    pub(super) fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    pub(super) fn truncate_after(&mut self, last: Option<u64>) {
        while self.entries.back().is_some_and(|entry| last.is_none_or(|last| entry.log_id.index > last)) {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= entry_bytes(&entry);
            }
        }
    }

    pub(super) fn purge_through(&mut self, index: u64) {
        while self.first().is_some_and(|first| first <= index) {
            self.drop_oldest();
        }
    }

    fn next(&self) -> Option<u64> {
        self.entries.back().map(|entry| entry.log_id.index + 1)
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry_bytes(&entry);
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
