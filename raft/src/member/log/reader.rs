//! Reading the log: from memory where it can, from the disk where it must.
//!
//! Owns the bounds of a read. What is returned is always gapless.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use futures::Stream;
use openraft::{OptionalSend, RaftLogReader};

use super::{Log, LogError};
use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::{Entry, Types, Vote};

/// Bytes that one read returns at most (but one entry at least): about what one frame of replication carries, and
/// what apply holds beside the state.
const READ_BYTES_MAX: usize = 2 << 20;

/// Entries are returned as a stream whose items may fail.
type EntryResult = Result<Entry, io::Error>;

impl<R: Runtime, D: Disk> Log<R, D> {
    /// Entries from `from`, gapless, ending early at `to` or by size; empty only when there is none.
    fn read(&self, from: u64, to: u64) -> Result<Vec<Entry>, io::Error> {
        let (entries, tail_first) = {
            let tail = self.shared.tail.lock();
            (tail.read(from, to, READ_BYTES_MAX), tail.first())
        };
        if !entries.is_empty() || from >= to {
            return Ok(entries);
        }
        let to = tail_first.map_or(to, |first| if first > from { to.min(first) } else { to });
        self.shared.fatal.disk(self.read_disk(from, to))
    }

    fn read_disk(&self, from: u64, to: u64) -> Result<Vec<Entry>, LogError> {
        let records = self.shared.disk.read_log(from, to, READ_BYTES_MAX)?;
        Ok(records.into_iter().map(|record| self.decode_record(record)).collect::<Result<_, _>>()?)
    }

    /// The bounds of `range` as first and one past the last, within the log.
    fn clamp(&self, range: &impl RangeBounds<u64>) -> Result<(u64, u64), io::Error> {
        let bounds = self.shared.fatal.disk(self.shared.disk.log_bounds())?;
        let Some((first, last)) = bounds else { return Ok((0, 0)) };
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(from) => from.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => to.saturating_add(1),
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        Ok((from.max(first), to.min(last + 1)))
    }
}

impl<R: Runtime, D: Disk> RaftLogReader<Types<R>> for Log<R, D> {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> Result<Vec<Entry>, io::Error> {
        let (mut from, to) = self.clamp(&range)?;
        let mut entries = Vec::new();
        while from < to {
            let part = self.read(from, to)?;
            let Some(last) = part.last() else { break };
            from = last.log_id.index + 1;
            entries.extend(part);
        }
        Ok(entries)
    }

    async fn entries_stream<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> impl Stream<Item = EntryResult> + OptionalSend {
        let log = self.clone();
        let parts = futures::stream::unfold(log.clamp(&range), move |state| {
            let step = match state {
                Err(error) => Some((vec![Err(error)], Ok((0, 0)))),
                Ok((from, to)) if from >= to => None,
                Ok((from, to)) => Some(next_part(&log, from, to)),
            };
            std::future::ready(step.map(|(part, rest)| (futures::stream::iter(part), rest)))
        });
        Box::pin(futures::StreamExt::flatten(parts))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.vote())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end)
    }
}

/// One bounded part of a stream, and the range that is left.
fn next_part<R: Runtime, D: Disk>(
    log: &Log<R, D>,
    from: u64,
    to: u64,
) -> (Vec<EntryResult>, Result<(u64, u64), io::Error>) {
    match log.read(from, to) {
        Err(error) => (vec![Err(error)], Ok((0, 0))),
        Ok(part) => {
            let next = part.last().map_or(to, |last| last.log_id.index + 1);
            (part.into_iter().map(Ok).collect(), Ok((next, to)))
        }
    }
}
