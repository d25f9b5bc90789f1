//! What a member needs of its disk, as an interface over bytes.
//!
//! Owns the contract between the consensus adapter and whatever keeps its log, vote and state: RocksDB in a process,
//! a simulated disk that forgets what was not synced in a simulation. Everything crossing it is encoded by us; no type
//! of the consensus library does.
//!
//! Invariant: what is written through one `Disk` becomes durable in the order of the calls.
//! Invariant: an error is final; the caller stops the process and never retries a failed sync.
//! Invariant: what a disk shows when it is opened is durable. A process that was killed leaves writes that the
//! system holds and has not synced; its successor answers for them at once, so whoever opens the disk syncs what
//! it recovers.

mod completion;
pub mod rocks;

use bytes::Bytes;

pub(crate) use self::completion::completed;

/// One log entry, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Position in the log.
    pub index: u64,
    /// The encoded entry.
    pub bytes: Bytes,
}

/// Small values beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetaKey {
    /// Who this directory belongs to: cluster, node, brand. Written once.
    Identity,
    /// The vote. Must be durable before it is answered.
    Vote,
    /// The newest committed log id known here. May be lost.
    Committed,
    /// The last purged log id.
    Purged,
    /// The log id, membership and revision up to which the stored state is complete.
    StateMark,
    /// Whether the stored state was found to differ from the other members'.
    Quarantine,
}

/// What a failed operation tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("disk: {operation}: {reason}")]
pub struct DiskError {
    /// The operation: `append`, `flush`, `read state`.
    pub operation: &'static str,
    /// What the layer below said.
    pub reason: String,
}

/// Whether a log that starts with `first` can be read from `from`. A read never starts later than asked: whoever applies
/// or replicates what it returns would skip entries and not know.
///
/// # Errors
/// The entries before `first` are gone.
pub fn check_start(from: u64, first: u64) -> Result<(), DiskError> {
    if from >= first {
        return Ok(());
    }
    let reason = format!("entry {from} is no longer there: the log starts with {first}");
    Err(DiskError { operation: "read log", reason })
}

/// Bytes on the disk that a store lies on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// What the store takes.
    pub used: u64,
    /// What the disk still has for it.
    pub free: u64,
}

/// Called once, from any thread, when everything up to its call is durable, or when that failed.
pub type OnDurable = Box<dyn FnOnce(Result<(), DiskError>) + Send>;

/// One change of the stored state. `record` is the encoded object; `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    /// Resource in storage terms.
    pub resource: Box<str>,
    /// `namespace/name` or `name`.
    pub path: Box<str>,
    /// The encoded object, or `None` for a removal.
    pub record: Option<Bytes>,
}

/// Which of the states that were ever installed a write belongs to. Numbers grow; the newest one is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A run of changes of one resource that left the history in memory, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryBlock {
    /// Resource in storage terms.
    pub resource: Box<str>,
    /// Revision of the newest change of the resource before the block; 0 when there is none.
    pub after: u64,
    /// Revision of the last change in the block, by which it is found.
    pub through: u64,
    /// The encoded changes.
    pub record: Bytes,
}

/// Names a stored block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistorySpan {
    /// Resource in storage terms.
    pub resource: Box<str>,
    /// As in [`HistoryBlock::after`].
    pub after: u64,
    /// As in [`HistoryBlock::through`].
    pub through: u64,
    /// Bytes of its record.
    pub bytes: u64,
}

/// One atomic step of the stored state and of the history stored beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateBatch {
    /// The state that the step continues. Once another is installed, the step is dropped as a whole.
    pub generation: Generation,
    /// Changes of objects.
    pub writes: Vec<StateWrite>,
    /// Blocks to keep.
    pub history: Vec<HistoryBlock>,
    /// Blocks to forget, before those to keep are added: resource and [`HistoryBlock::through`].
    pub forgotten: Vec<(Box<str>, u64)>,
    /// The mark of the state after the step; `None` leaves it as it is.
    pub mark: Option<Bytes>,
}

/// What became of a [`StateBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateWritten {
    /// It is part of the stored state, and what reads see.
    Written,
    /// Another state was installed meanwhile; nothing was written.
    Superseded,
}

/// Called once, from any thread, when a [`StateBatch`] was taken or refused, or could not be written.
pub type OnWritten = Box<dyn FnOnce(Result<StateWritten, DiskError>) + Send>;

/// Called once, from any thread, when an installed state is durable and current, or could not be made so.
pub type OnInstalled = Box<dyn FnOnce(Result<Generation, DiskError>) + Send>;

/// Durable storage of one member.
pub trait Disk: Send + Sync + 'static {
    /// The value under `key`, if it was ever written.
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError>;

    /// Writes a small value. With `on_durable` it is synced (grouped with other writers) and then told; without, it
    /// becomes durable with whatever is synced next.
    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError>;

    /// First and last index of the log, `None` when it is empty.
    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError>;

    /// Appends entries. They are readable when this returns and durable when `on_durable` is called.
    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError>;

    /// Entries from `from` up to but excluding `to`, in order, stopping early after about `bytes_max` bytes but never
    /// before one entry, and at the end of the log. The first returned is `from`: when the log starts later, or has a
    /// hole, that is an error (see [`check_start`]).
    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError>;

    /// Removes every entry after `index` (all of them for `None`), ordered before later appends.
    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError>;

    /// Forgets entries up to and including `index`; `marker` (the purged log id) is durable first. Space is given back
    /// in the background.
    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError>;

    /// The current generation of the state.
    fn generation(&self) -> Result<Generation, DiskError>;

    /// Changes the stored state in one atomic, unsynced step: the log replays what a crash loses. Returns at once; the
    /// step is taken in the background, in the order of the calls.
    fn write_state(&self, batch: StateBatch, on_written: OnWritten);

    /// Calls `each` with resource, path and record of every stored object.
    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError>;

    /// The blocks of history in the current generation, in the order of resources and revisions. A damaged entry is given
    /// as a block that holds nothing (`after` is `through`), or left out: whoever reads the list checks that blocks
    /// follow each other.
    fn history(&self) -> Result<Vec<HistorySpan>, DiskError>;

    /// The record of one block of `generation`; `None` when it was forgotten, or another state installed. An error is one
    /// of this block: the disk serves everything else.
    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError>;

    /// Starts a new generation of the state beside the current one; dropping it leaves the current one in place.
    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError>;

    /// What the store takes and what is left, now; `None` for a disk that has no end. Some system calls, no reading.
    fn space(&self) -> Result<Option<Space>, DiskError> {
        Ok(None)
    }

    /// Gives back to the disk what was purged, replaced and removed. Returns at once; asking often does no harm: the
    /// work is done in the background and takes a bounded share of the disk's time.
    fn reclaim(&self) {}
}

/// A state being received. A crash before it is installed leaves the old state.
pub trait Install: Send {
    /// Adds objects.
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError>;

    /// Makes the new generation and its mark the state, durably and in one step, and drops the old one with its
    /// history. Returns at once: the work is done in the background, behind the state writes that were asked for
    /// before.
    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled);
}
