//! The interface between a member and its disk, over bytes.
//!
//! Owns the contract between the consensus adapter and the storage of its log, vote and state: RocksDB in a process, in
//! a simulation a disk that forgets unsynced writes. All values that cross it are encoded bytes, never types of the
//! consensus library.
//!
//! Invariant: writes through one `Disk` become durable in the order of the calls.
//! Invariant: an error is final; the caller stops the process and never retries a failed sync.
//! Invariant: all data readable when a disk is opened is durable. A killed process leaves writes in the kernel's page
//! cache, unsynced; its successor acknowledges them at once, so opening a disk syncs the writes it recovers.

pub mod cipher;
mod completion;
pub mod rocks;

use bytes::Bytes;

pub(crate) use self::completion::completed;

/// One log entry, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Log index.
    pub index: u64,
    /// The encoded entry.
    pub bytes: Bytes,
}

/// Keys of the small values beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetaKey {
    /// The owner of this directory: node, cluster, brand, and its count of starts. Rewritten at starts and when the
    /// member's enrolment changes it.
    Identity,
    /// The vote. Must be durable before it is answered.
    Vote,
    /// The newest committed log id known to this member. May be lost.
    Committed,
    /// The last purged log id.
    Purged,
    /// The log id, membership and revision up to which the stored state is complete.
    StateMark,
    /// The quarantine: its reason, empty if none, and the revision at which the state differs from the majority's.
    Quarantine,
}

/// A disk operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("disk: {operation}: {reason}")]
pub struct DiskError {
    /// The operation, for example `append`, `flush` or `read state`.
    pub operation: &'static str,
    /// The error text of the layer below.
    pub reason: String,
}

/// Checks that a log whose first entry is `first` can be read from `from`. A read never starts later than requested:
/// applying or replicating its result would skip entries unnoticed.
///
/// # Errors
/// `from` is before `first`: those entries are purged.
pub fn check_start(from: u64, first: u64) -> Result<(), DiskError> {
    if from >= first {
        return Ok(());
    }
    let reason = format!("entry {from} is no longer there: the log starts with {first}");
    Err(DiskError { operation: "read log", reason })
}

/// Space on the disk that holds a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the store's files take.
    pub used: u64,
    /// Bytes that the store may still write.
    pub free: u64,
}

/// Called once, from any thread, when the write of its call and all earlier ones are durable, or when a write or sync
/// failed.
pub type OnDurable = Box<dyn FnOnce(Result<(), DiskError>) + Send>;

/// A write or removal of one stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    /// The resource's name in the store: see [`crate::Key::resource`].
    pub resource: Box<str>,
    /// `namespace/name` or `name`.
    pub path: Box<str>,
    /// The encoded object, or `None` for a removal.
    pub record: Option<Bytes>,
}

/// Number of an installed state. Each write of the state is for one generation. Numbers ascend; the newest is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A run of changes of one resource that were evicted from the history in memory, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryBlock {
    /// The resource's name in the store: see [`crate::Key::resource`].
    pub resource: Box<str>,
    /// Revision of the newest change of the resource before the block; 0 when there is none.
    pub after: u64,
    /// Revision of the last change in the block, which is part of its key.
    pub through: u64,
    /// The encoded changes.
    pub record: Bytes,
}

/// Key and size of a stored block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistorySpan {
    /// The resource's name in the store: see [`crate::Key::resource`].
    pub resource: Box<str>,
    /// See [`HistoryBlock::after`].
    pub after: u64,
    /// See [`HistoryBlock::through`].
    pub through: u64,
    /// Length of the record in bytes.
    pub bytes: u64,
}

/// One atomic write to the stored state and to the history stored beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateBatch {
    /// The generation that the batch was made for. Once another is installed, the batch is dropped as a whole.
    pub generation: Generation,
    /// Changes of objects.
    pub writes: Vec<StateWrite>,
    /// History blocks to add.
    pub history: Vec<HistoryBlock>,
    /// History blocks to remove, before those of `history` are added: resource and [`HistoryBlock::through`].
    pub forgotten: Vec<(Box<str>, u64)>,
    /// The mark of the state after the batch; `None` leaves it as it is.
    pub mark: Option<Bytes>,
}

/// The result of writing a [`StateBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateWritten {
    /// The batch is part of the stored state, and readable.
    Written,
    /// Another state was installed before; nothing was written.
    Superseded,
}

/// Called once, from any thread, when a [`StateBatch`] was written or superseded, or could not be written.
pub type OnWritten = Box<dyn FnOnce(Result<StateWritten, DiskError>) + Send>;

/// Called once, from any thread, when an installed state is durable and current, or could not be made so.
pub type OnInstalled = Box<dyn FnOnce(Result<Generation, DiskError>) + Send>;

/// Durable storage of one member.
pub trait Disk: Send + Sync + 'static {
    /// The value under `key`, if it was ever written.
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError>;

    /// Writes a small value. With `on_durable` it is synced (grouped with other writers) and then the callback is
    /// called; without, it becomes durable with the first sync after a later write.
    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError>;

    /// First and last index of the log, `None` when it is empty.
    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError>;

    /// Appends entries. They are readable when this returns and durable when `on_durable` is called.
    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError>;

    /// Entries from `from` up to but excluding `to`, in order, stopping early after about `bytes_max` bytes but never
    /// before one entry, and at the end of the log. The first returned is `from`: a log that starts later, or has a
    /// hole, is an error (see [`check_start`]).
    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError>;

    /// Removes every entry after `index` (all for `None`), ordered before later appends.
    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError>;

    /// Purges entries up to and including `index`; `marker` (the purged log id) is durable first. Their space is
    /// reclaimed in the background.
    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError>;

    /// The current generation of the state.
    fn generation(&self) -> Result<Generation, DiskError>;

    /// Changes the stored state in one atomic, unsynced write: the log replays what a crash loses. Returns at once;
    /// batches are written in the background, in the order of the calls.
    fn write_state(&self, batch: StateBatch, on_written: OnWritten);

    /// Calls `each` with resource, path and record of every stored object.
    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError>;

    /// The blocks of history in the current generation, in the order of resources and revisions. A damaged entry is
    /// listed as an empty block (`after` equals `through`), or left out: the caller checks that blocks follow each
    /// other.
    fn history(&self) -> Result<Vec<HistorySpan>, DiskError>;

    /// The record of one block of `generation`; `None` when it was removed, or another state installed. An error
    /// concerns this block alone: the disk serves everything else.
    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError>;

    /// Starts a new generation of the state beside the current one; dropping it leaves the current one in place.
    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError>;

    /// Bytes used and free, now; `None` for a disk without a limit. Makes system calls and reads no file.
    fn space(&self) -> Result<Option<Space>, DiskError> {
        Ok(None)
    }

    /// Reclaims the space of purged, replaced and removed records. Returns at once, and may be called often: the work
    /// is done in the background and takes a bounded share of the disk's time.
    fn reclaim(&self) {}
}

/// A state being received. After a crash before it is committed, the old state is current.
pub trait Install: Send {
    /// Adds objects.
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError>;

    /// Makes the new generation and its mark the current state, durably and in one step, and drops the old one with its
    /// history. Returns at once: the work is done in the background, after the batches passed to [`Disk::write_state`]
    /// before.
    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled);
}
