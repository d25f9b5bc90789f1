//! Measures the bytes of the log, and finds where to cut it to hold fewer.
//!
//! Owns byte counts for runs of entries. Entries from before this process started are not counted: each is taken to have
//! the average size of those counted since, which affects only when they are purged.

use std::collections::VecDeque;

/// Entries in one run: the granularity of cutting the log by bytes.
const RUN_ENTRIES: u64 = 256;

/// Bytes assumed of an entry while none was counted yet.
const ENTRY_BYTES: u64 = 1024;

/// Bytes of the log, by runs of entries.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Oldest first.
    runs: VecDeque<Run>,
}

#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    bytes: u64,
}

impl Meter {
    /// Counts an appended entry of `bytes` encoded bytes.
    pub(super) fn add(&mut self, index: u64, bytes: usize) {
        let bytes = bytes as u64;
        match self.runs.back_mut() {
            Some(run) if run.last + 1 == index && run.last - run.first + 1 < RUN_ENTRIES => {
                run.last = index;
                run.bytes += bytes;
            }
            _ => self.runs.push_back(Run { first: index, last: index, bytes }),
        }
    }

    /// Forgets entries after `index`; all of them for `None`. A run that is cut keeps its average.
    pub(super) fn truncate_after(&mut self, index: Option<u64>) {
        let next = index.map_or(0, |index| index.saturating_add(1));
        while self.runs.back().is_some_and(|run| run.first >= next) {
            self.runs.pop_back();
        }
        if let Some(run) = self.runs.back_mut().filter(|run| run.last >= next) {
            run.bytes = run.bytes / (run.last - run.first + 1) * (next - run.first);
            run.last = next - 1;
        }
    }

    /// Forgets runs that end at `index` or before.
    pub(super) fn purge_through(&mut self, index: u64) {
        while self.runs.front().is_some_and(|run| run.last <= index) {
            self.runs.pop_front();
        }
    }

    /// The bytes of the log, whose first entry is `first`; estimated for entries that were not counted.
    pub(crate) fn total(&self, first: u64) -> u64 {
        let counted: u64 = self.runs.iter().map(|run| run.bytes).sum();
        let entries: u64 = self.runs.iter().map(|run| run.last - run.first + 1).sum();
        let average = counted.checked_div(entries).unwrap_or(ENTRY_BYTES);
        let uncounted = self.runs.front().map_or(0, |run| run.first.saturating_sub(first));
        counted.saturating_add(uncounted.saturating_mul(average))
    }

    /// The index through which the log must be purged so that it holds no more than `bytes_max`, to a run. `None` while
    /// no entry is counted. Entries not counted are always cut.
    pub(crate) fn cut(&self, bytes_max: u64) -> Option<u64> {
        let mut bytes = 0u64;
        for run in self.runs.iter().rev() {
            bytes = bytes.saturating_add(run.bytes);
            if bytes > bytes_max {
                return Some(run.last);
            }
        }
        self.runs.front().and_then(|run| run.first.checked_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_so_that_the_newest_bytes_stay() {
        let mut meter = Meter::default();
        (1000..2024).for_each(|index| meter.add(index, 100));
        assert_eq!(meter.total(1000), 102_400);
        assert_eq!(meter.total(900), 112_400, "what was not counted is taken for average");
        assert_eq!(meter.cut(60_000), Some(1511), "two of four runs are 51,200 bytes");
        assert_eq!(meter.cut(200_000), Some(999));
        meter.purge_through(1511);
        assert_eq!((meter.total(1512), meter.cut(60_000)), (51_200, Some(1511)));
        meter.truncate_after(Some(1899));
        assert_eq!(meter.total(1512), 38_800);
        meter.truncate_after(None);
        assert_eq!((meter.total(0), meter.cut(1)), (0, None));
    }
}
