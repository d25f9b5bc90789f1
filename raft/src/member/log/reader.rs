//! Reads of the log: from the tail in memory where it has the entries, else from the disk.
//!
//! Owns the bounds of a read. The entries returned are gapless and begin with the first asked for; a range that is not
//! wholly in the log is an error. This is stricter than the consensus library asks, which tolerates entries missing at
//! either end: when applying, it checks neither end in a release build, and would silently skip entries. The ranges that it
//! reads lie inside the bounds that the log told it. Only replication may get fewer entries, without the end of its range.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use futures::Stream;
use openraft::{OptionalSend, RaftLogReader};

use super::{Log, LogError};
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::DecodeError;
use crate::member::consensus::{Entry, Types, Vote};

/// Bytes that one read returns at most (but one entry at least): about one frame of replication, and the memory that apply
/// needs beside the state.
const READ_BYTES_MAX: usize = 2 << 20;

/// An item of a stream of entries.
type EntryResult = Result<Entry, io::Error>;

impl<R: Runtime, D: Disk> Log<R, D> {
    /// Entries of `from..to`, gapless, cut short at `READ_BYTES_MAX` or at the end of the log; empty only when `from` is not
    /// appended yet, or the range is empty.
    fn read(&self, from: u64, to: u64) -> Result<Vec<Entry>, LogError> {
        let (entries, tail_first) = {
            let tail = self.shared.tail.lock();
            (tail.read(from, to, READ_BYTES_MAX), tail.first())
        };
        if !entries.is_empty() || from >= to {
            return Ok(entries);
        }
        let to = tail_first.map_or(to, |first| if first > from { to.min(first) } else { to });
        let records = self.shared.disk.read_log(from, to, READ_BYTES_MAX)?;
        let entries: Vec<Entry> =
            records.into_iter().map(|record| self.decode_record(record)).collect::<Result<_, _>>()?;
        match entries.first().map(|entry| entry.log_id.index) {
            Some(first) if first != from => {
                Err(DecodeError::new("log", format!("entry {first} was read for {from}")).into())
            }
            _ => Ok(entries),
        }
    }

    /// The first entries of `from..to`, at most `READ_BYTES_MAX` of them but one at least. An error where `from` is missing.
    pub(crate) fn read_certain(&self, from: u64, to: u64) -> Result<Vec<Entry>, LogError> {
        let part = self.read(from, to)?;
        if part.is_empty() && from < to { Err(missing(from)) } else { Ok(part) }
    }

    /// Whether the entry `from` was purged, of which its reader may not know yet.
    fn is_purged(&self, from: u64) -> Result<bool, LogError> {
        let purged = self.purged()?.is_some_and(|purged| from <= purged.index);
        Ok(purged || self.shared.disk.log_bounds()?.is_some_and(|(first, _)| from < first))
    }

    /// The bounds of `range`: the first index and one past the last. Unbounded ends are those of the log. An error where a
    /// part of a range that is not empty is outside the log.
    fn certain_bounds(&self, range: &impl RangeBounds<u64>) -> Result<(u64, u64), io::Error> {
        let bounds = self.shared.fatal.disk(self.shared.disk.log_bounds())?;
        let (first, end) = bounds.map_or((0, 0), |(first, last)| (first, last.saturating_add(1)));
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(from) => from.saturating_add(1),
            Bound::Unbounded => first,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => to.saturating_add(1),
            Bound::Excluded(to) => *to,
            Bound::Unbounded => end,
        };
        if from < to && (from < first || to > end) {
            return self.shared.fatal.disk(Err(missing(if from < first { from } else { end.max(from) })));
        }
        Ok((from, to))
    }
}

fn missing(index: u64) -> LogError {
    DecodeError::new("log", format!("entry {index} is missing")).into()
}

impl<R: Runtime, D: Disk> RaftLogReader<Types<R>> for Log<R, D> {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> Result<Vec<Entry>, io::Error> {
        let (mut from, to) = self.certain_bounds(&range)?;
        let mut entries = Vec::new();
        while from < to {
            let part = self.shared.fatal.disk(self.read_certain(from, to))?;
            from += part.len() as u64;
            entries.extend(part);
        }
        Ok(entries)
    }

    async fn entries_stream<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> impl Stream<Item = EntryResult> + OptionalSend {
        let log = self.clone();
        let parts = futures::stream::unfold(log.certain_bounds(&range), move |state| {
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

    /// Reads entries for replication, which may go on for a moment after another leader's snapshot or truncation has removed
    /// them; then it gets none, and learns that it has ended. It never gets entries that begin after `start`.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let read = self.read(start, end).or_else(|error| match self.is_purged(start)? {
            true => {
                tracing::warn!(%error, "replication asked for a purged entry");
                Ok(Vec::new())
            }
            false => Err(error),
        });
        self.shared.fatal.disk(read)
    }
}

/// The next bounded part of a stream, and the range that is left.
fn next_part<R: Runtime, D: Disk>(
    log: &Log<R, D>,
    from: u64,
    to: u64,
) -> (Vec<EntryResult>, Result<(u64, u64), io::Error>) {
    match log.shared.fatal.disk(log.read_certain(from, to)) {
        Err(error) => (vec![Err(error)], Ok((0, 0))),
        Ok(part) => {
            let next = from + part.len() as u64;
            (part.into_iter().map(Ok).collect(), Ok((next, to)))
        }
    }
}
