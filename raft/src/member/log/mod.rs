//! The consensus log on a disk.
//!
//! Owns the order of writes: entries, votes and truncations go to the disk in the order in which the consensus library
//! asks for them, and a vote is durable before it counts. Keeps the newest entries in memory, because replication and
//! apply read entries that were just written. It decides on no write itself.
//!
//! Invariant: an entry is readable when `append` returns and durable when its callback is called. Invariant: no entry
//! above the mark of the stored state is purged (that state trails memory, and a restart replays from the mark): a purge
//! beyond the mark is postponed, and no caller waits for it.

mod meta;
mod meter;
mod pace;
mod reader;
mod tail;

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{EntryPayload, OptionalSend};
use openraft_rt::Instant;
use parking_lot::Mutex;
use prost::Message;

pub(crate) use self::meta::{LogError, read_meta};
pub(crate) use self::meter::Meter;
use self::pace::Pace;
pub use self::pace::SyncTimes;
use self::tail::Tail;
use crate::Runtime;
use crate::disk::{Disk, DiskError, LogRecord, MetaKey, completed};
use crate::encoding::{DecodeError, decode};
use crate::member::codec::{
    entry_from_wire, entry_to_wire, log_id_from_wire, log_id_to_wire, vote_from_wire, vote_to_wire,
};
use crate::member::consensus::{Entry, LogId, Types, Vote};
use crate::member::counters::{Durations, since};
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::traces::Traces;

/// Brings the stored state up to an index before entries through it are purged.
pub(crate) trait Settle: Send + Sync + 'static {
    /// Whether the state on disk is complete through `index`. Where it is not, starts the work towards that.
    fn settle(&self, index: u64) -> bool;
}

/// The log of one member. Clones share it.
pub(crate) struct Log<R: Runtime, D> {
    shared: Arc<Shared<D>>,
    pace: Arc<Mutex<Pace<R::Instant>>>,
    traces: Arc<Traces>,
    runtime: PhantomData<fn() -> R>,
}

struct Shared<D> {
    disk: Arc<D>,
    state: Arc<dyn Settle>,
    fatal: Fatal,
    level: Arc<FeatureLevel>,
    tail: Mutex<Tail>,
    meter: Arc<Mutex<Meter>>,
    /// From the append of entries until they are durable.
    syncs: Arc<Durations>,
    vote: Mutex<Option<Vote>>,
    /// The index of the newest membership entry that was appended since the start; 0 before the first. Never lowered.
    newest_membership: AtomicU64,
    /// The log id of a purge that waits until the stored state no longer needs the entries.
    waiting_purge: Mutex<Option<LogId>>,
}

impl<R: Runtime, D> Clone for Log<R, D> {
    fn clone(&self) -> Self {
        let (shared, pace, traces) = (self.shared.clone(), self.pace.clone(), self.traces.clone());
        Log { shared, pace, traces, runtime: PhantomData }
    }
}

impl<R: Runtime, D: Disk> Log<R, D> {
    /// Opens the log on `disk`.
    pub(crate) fn open(
        disk: Arc<D>,
        state: Arc<dyn Settle>,
        fatal: Fatal,
        level: Arc<FeatureLevel>,
    ) -> Result<Self, LogError> {
        let vote = read_meta(&*disk, MetaKey::Vote, "vote")?.map(vote_from_wire);
        let (tail, vote) = (Mutex::new(Tail::default()), Mutex::new(vote));
        let (waiting_purge, meter, syncs) = (Mutex::default(), Arc::default(), Arc::default());
        let newest_membership = AtomicU64::default();
        let shared =
            Shared { disk, state, fatal, level, tail, meter, syncs, vote, newest_membership, waiting_purge };
        let (shared, pace, traces) = (Arc::new(shared), Arc::default(), Arc::default());
        Ok(Log { shared, pace, traces, runtime: PhantomData })
    }

    /// The same log, which records spans of the writes of `traces`.
    pub(crate) fn traced(self, traces: Arc<Traces>) -> Self {
        Log { traces, ..self }
    }

    /// The newest durable vote; `None` before the first.
    pub(crate) fn vote(&self) -> Option<Vote> {
        *self.shared.vote.lock()
    }

    /// The index of the newest membership entry that was appended since the start; zero before the first. It is set before
    /// the entry can be read, and stays when the entry is truncated.
    pub(crate) fn newest_membership(&self) -> u64 {
        self.shared.newest_membership.load(Ordering::Acquire)
    }

    fn note_memberships(&self, entries: &[Entry]) {
        for entry in entries {
            if let EntryPayload::Membership(_) = entry.payload {
                self.shared.newest_membership.fetch_max(entry.log_id.index, Ordering::AcqRel);
            }
        }
    }

    /// The meter of the log's bytes, kept as the log grows and is purged or truncated.
    pub(crate) fn meter(&self) -> Arc<Mutex<Meter>> {
        self.shared.meter.clone()
    }

    /// The durations from the append of entries until they are durable.
    pub(crate) fn syncs(&self) -> &Durations {
        &self.shared.syncs
    }

    /// How long appends of the last `span`, of a minute at most, took until they were durable.
    pub(crate) fn times(&self, now: R::Instant, span: Duration) -> SyncTimes {
        self.pace.lock().times(now, span)
    }

    /// The first entry that the disk holds.
    #[cfg(test)]
    pub(crate) fn first(&self) -> Option<u64> {
        self.shared.disk.log_bounds().ok().flatten().map(|(first, _)| first)
    }

    fn last(&self) -> Result<Option<LogId>, LogError> {
        let Some((_, last)) = self.shared.disk.log_bounds()? else { return Ok(None) };
        let records = self.shared.disk.read_log(last, last + 1, 1)?;
        let record = records.into_iter().next();
        let record = record.ok_or_else(|| DecodeError::new("log", format!("entry {last} is missing")))?;
        Ok(Some(self.decode_record(record)?.log_id))
    }

    fn purged(&self) -> Result<Option<LogId>, LogError> {
        Ok(read_meta(&*self.shared.disk, MetaKey::Purged, "purged log id")?.map(log_id_from_wire))
    }

    /// The last purged and the last log id; the last is the purged one where the log is empty.
    fn bounds(&self) -> Result<LogState<Types<R>>, LogError> {
        let purged = self.purged()?;
        let last = self.last()?.max(purged);
        Ok(LogState { last_purged_log_id: purged, last_log_id: last })
    }

    /// Does the waiting purge, if there is one and the stored state has its entries.
    pub(crate) fn purge_waiting(&self) -> Result<(), io::Error> {
        let shared = &self.shared;
        let mut waiting = shared.waiting_purge.lock();
        let Some(through) = waiting.filter(|through| shared.state.settle(through.index)) else {
            return Ok(());
        };
        let marker = Bytes::from(log_id_to_wire(&through).encode_to_vec());
        shared.fatal.disk(shared.disk.purge_through(through.index, marker))?;
        shared.tail.lock().purge_through(through.index);
        shared.meter.lock().purge_through(through.index);
        *waiting = None;
        Ok(())
    }

    /// Decodes an entry, and checks that it stands at its own index.
    fn decode_record(&self, record: LogRecord) -> Result<Entry, DecodeError> {
        let entry = entry_from_wire(decode("log entry", record.bytes)?, self.shared.level.supported())?;
        if entry.log_id.index != record.index {
            let reason = format!("entry {} stands in place {}", entry.log_id.index, record.index);
            return Err(DecodeError::new("log entry", reason));
        }
        Ok(entry)
    }

    async fn persist_vote(&self, vote: &Vote) -> Result<(), DiskError> {
        let bytes = Bytes::from(vote_to_wire(vote).encode_to_vec());
        let save = |done| self.shared.disk.save_meta(MetaKey::Vote, bytes, Some(done));
        completed("save vote", save).await
    }
}

impl<R: Runtime, D: Disk> RaftLogStorage<Types<R>> for Log<R, D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types<R>>, io::Error> {
        self.shared.fatal.disk(self.bounds())
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        // The consensus library compares votes before it saves one.
        assert!(self.vote().is_none_or(|given| *vote >= given), "a vote that was given is never taken back");
        let saved = self.persist_vote(vote).await;
        self.shared.fatal.disk(saved)?;
        *self.shared.vote.lock() = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let Some(committed) = committed else { return Ok(()) };
        let bytes = Bytes::from(log_id_to_wire(&committed).encode_to_vec());
        self.shared.fatal.disk(self.shared.disk.save_meta(MetaKey::Committed, bytes, None))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        let committed = read_meta(&*self.shared.disk, MetaKey::Committed, "committed log id");
        Ok(self.shared.fatal.disk(committed)?.map(log_id_from_wire))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types<R>>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.purge_waiting()?;
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.note_memberships(&entries);
        let level = self.shared.level.agreed();
        let record = |entry: &Entry| LogRecord {
            index: entry.log_id.index,
            bytes: Bytes::from(entry_to_wire(entry, level).encode_to_vec()),
        };
        let records: Vec<LogRecord> = entries.iter().map(record).collect();
        let sizes: Vec<(u64, usize)> =
            records.iter().map(|record| (record.index, record.bytes.len())).collect();
        let (fatal, syncs, began) = (self.shared.fatal.clone(), self.shared.syncs.clone(), R::Instant::now());
        let (pace, append) = (self.pace.clone(), self.pace.lock().begin(began));
        let traced = self.traces.begin(&entries);
        let on_durable = Box::new(move |result| {
            syncs.observe(since::<R>(began));
            pace.lock().end(append, R::Instant::now());
            if let Some(traced) = traced {
                traced.end("log sync");
            }
            callback.io_completed(fatal.disk(result));
        });
        self.shared.fatal.disk(self.shared.disk.append(records, on_durable))?;
        self.shared.tail.lock().push(entries);
        let mut meter = self.shared.meter.lock();
        sizes.into_iter().for_each(|(index, bytes)| meter.add(index, bytes));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let last = last.map(|id| id.index);
        self.shared.tail.lock().truncate_after(last);
        self.shared.meter.lock().truncate_after(last);
        self.shared.fatal.disk(self.shared.disk.truncate_after(last))
    }

    /// Purges if the stored state no longer needs the entries. Else the purge is done with a later append, or at
    /// compaction's next look: until then the log only holds more than it must.
    async fn purge(&mut self, through: LogId) -> Result<(), io::Error> {
        *self.shared.waiting_purge.lock() = Some(through);
        self.purge_waiting()
    }
}
