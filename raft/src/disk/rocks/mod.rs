//! The disk of a real process: log, vote and state of one member in one RocksDB.
//!
//! Owns a directory, locked for as long as the value lives. Column families: `raft_log` (eight-byte big-endian index),
//! `raft_meta` (small values) and one `objects-N` per generation of the state. A key in `raft_meta` names the current
//! generation. All of them share one write-ahead log, so a crash loses writes only from the end, in their order. Writes
//! are unsynced and readable at once; one thread syncs for all waiting writers ([`flusher`]). The committed log id alone is kept
//! in memory until the next write.
//!
//! Invariant: every value carries a checksum over its key and bytes, and no value that fails it is returned.
//! Invariant: after a failed write or sync nothing is written again; every later operation fails with that error.
//! It never interprets a record, a vote or an object, but for the names of the resources in a log entry where records are
//! encrypted ([`sealing`]).

mod directory;
mod file_lock;
mod flusher;
mod glance;
mod history;
pub mod layout;
mod log;
mod options;
mod pace;
mod plain;
mod record;
mod remaking;
mod removal;
mod rewrite;
mod rewritten;
mod sealing;
mod space;
mod state;
mod state_writer;
mod sweeper;
mod tail;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rocksdb::{BoundColumnFamily, DBWithThreadMode, MultiThreaded, WriteBatch, WriteOptions};

pub use self::directory::{DataDirectory, Held, OpenError};
pub use self::file_lock::{FileLock, lock_at};
use self::flusher::{Flusher, Fuse};
pub use self::glance::Glance;
use self::log::LogBounds;
pub use self::remaking::{RemakeError, Remaking};
pub use self::rewrite::Report;
pub use self::rewritten::{Progress, RewriteEnd, Rewritten};
use self::sealing::Sealing;
use self::state::Generations;
use self::state_writer::StateWriter;
use self::sweeper::Sweeper;
use self::tail::Stamp;
use super::cipher::RecordCipher;
use super::{
    Disk, DiskError, Generation, HistorySpan, Install, LogRecord, MetaKey, OnDurable, OnWritten, Space,
    StateBatch,
};

type Db = DBWithThreadMode<MultiThreaded>;

/// Column family of the log.
const CF_LOG: &str = "raft_log";
/// Column family of the small values.
const CF_META: &str = "raft_meta";

/// One member's storage. Dropping it syncs pending writes, stops its threads and unlocks the directory.
pub struct RocksDisk {
    // Declared first, so that it is dropped first: it calls the pending callbacks, which may wake the sweeper.
    flusher: Flusher,
    sweeper: Sweeper,
    state_writer: StateWriter,
    // Held from a write until its callback is in the flusher's queue, so that callbacks keep the order of the writes.
    order: Mutex<()>,
    core: Arc<Core>,
}

/// The part of a disk that its threads and a running installation share.
struct Core {
    db: Db,
    fuse: Arc<Fuse>,
    bounds: RwLock<LogBounds>,
    generations: RwLock<Generations>,
    sealing: Sealing,
    // Held by the one rewrite that may run.
    rewriting: Mutex<()>,
    // Locked during a write to the write-ahead log.
    written: Mutex<Written>,
    // The newest of these numbers that is durable.
    durable: AtomicU64,
    // Last, so that the directory is unlocked after the database has closed.
    _directory: DataDirectory,
}

/// The end of the write-ahead log.
struct Written {
    // The number of the last write.
    number: u64,
    // The newest committed log id, which the next write takes along.
    waiting_committed: Option<Bytes>,
}

impl std::fmt::Debug for RocksDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksDisk").field("path", &self.core.db.path()).finish_non_exhaustive()
    }
}

impl RocksDisk {
    /// Opens the storage in `path`, which must be empty, absent (it is created) or a data directory of this program.
    /// Removes the remains of an installation that a crash interrupted.
    pub fn open(path: &Path) -> Result<RocksDisk, OpenError> {
        RocksDisk::open_locked(DataDirectory::lock(path)?, None)
    }

    /// Opens the storage in a locked directory. Records are encrypted as `cipher` says; without one, none is.
    ///
    /// # Errors
    /// [`OpenError::MissingKey`] if stored records need a key that `cipher` lacks, [`OpenError::LockedKey`] if it cannot
    /// open a stored data key or has another key of a name, [`OpenError::PlainEntries`] if the log holds entries in clear
    /// that it forbids.
    pub fn open_locked(
        directory: DataDirectory,
        cipher: Option<Arc<dyn RecordCipher>>,
    ) -> Result<RocksDisk, OpenError> {
        let path = directory.path().to_owned();
        let path = path.as_path();
        let core = Arc::new(Core::open(path, directory, cipher)?);
        let unreadable = |error: DiskError| OpenError::damaged(path, error);
        let flushed = Arc::clone(&core);
        let flusher = Flusher::start(Arc::clone(&core.fuse), move || flushed.sync()).map_err(unreadable)?;
        let sweeper = Sweeper::start(Arc::clone(&core)).map_err(unreadable)?;
        let state_writer = StateWriter::start(Arc::clone(&core)).map_err(unreadable)?;
        Ok(RocksDisk { flusher, sweeper, state_writer, order: Mutex::new(()), core })
    }

    /// Reserves `bytes` of the disk as ballast, which is deleted if the disk is full at a later start. A disk with
    /// little free space gets none.
    pub fn keep_ballast(&self, bytes: u64) {
        if let Err(error) = space::keep_ballast(self.core.db.path(), bytes) {
            tracing::warn!(%error, "no space is kept for a start on a full disk");
        }
    }
}

impl Drop for RocksDisk {
    /// Writes a waiting committed log id. A failure here harms nothing that is under way: that id may be lost.
    fn drop(&mut self) {
        let core = &self.core;
        if core.fuse.check().is_err() || core.written.lock().waiting_committed.is_none() {
            return;
        }
        if let Err(error) = core.try_write("save meta", WriteBatch::default(), &WriteOptions::default()) {
            tracing::warn!(%error, "the newest committed log id is not written");
        }
    }
}

impl Core {
    fn open(
        path: &Path,
        mut directory: DataDirectory,
        cipher: Option<Arc<dyn RecordCipher>>,
    ) -> Result<Core, OpenError> {
        space::release_ballast(path).map_err(|error| OpenError::io(path, "give up the ballast", &error))?;
        tail::cut_manifest(path)?;
        let last_write = tail::cut(path)?;
        let (db, found) = options::open(path, directory.is_new())?;
        let damaged = |error: DiskError| OpenError::damaged(path, error);
        let generations = Generations::open(&db, &found, directory.is_new()).map_err(damaged)?;
        let bounds = LogBounds::find(&db).map_err(damaged)?;
        let sealing = Sealing::open(&db, path, cipher)?;
        directory.complete()?;
        let core = Core {
            db,
            fuse: Arc::new(Fuse::default()),
            bounds: RwLock::new(bounds),
            generations: RwLock::new(generations),
            sealing,
            rewriting: Mutex::new(()),
            written: Mutex::new(Written { number: last_write, waiting_committed: None }),
            durable: AtomicU64::new(last_write),
            _directory: directory,
        };
        match core.find_forbidden_plain_entry().map_err(damaged)? {
            Some(resource) => Err(OpenError::PlainEntries { path: path.to_owned(), resource }),
            None => Ok(core),
        }
    }

    fn write(&self, operation: &'static str, batch: WriteBatch) -> Result<(), DiskError> {
        self.write_with(operation, batch, &WriteOptions::default())
    }

    /// Adds a waiting committed log id, and the stamp. The only path to the write-ahead log, but for the first write of a new database.
    fn write_with(
        &self,
        operation: &'static str,
        batch: WriteBatch,
        options: &WriteOptions,
    ) -> Result<(), DiskError> {
        self.fuse.check()?;
        self.try_write(operation, batch, options).map_err(|error| self.fuse.blow(error))
    }

    fn try_write(
        &self,
        operation: &'static str,
        mut batch: WriteBatch,
        options: &WriteOptions,
    ) -> Result<(), DiskError> {
        let mut written = self.written.lock();
        let number = written.number.saturating_add(1);
        if let Some(committed) = &written.waiting_committed {
            let name = record::meta_key(MetaKey::Committed);
            batch.put_cf(&family(&self.db, CF_META)?, name, record::seal(name, committed));
        }
        Stamp { number, durable: self.durable.load(Ordering::Acquire) }.put(&mut batch);
        self.db.write_opt(batch, options).map_err(failed(operation))?;
        *written = Written { number, waiting_committed: None };
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        let written = self.written.lock().number;
        self.db.flush_wal(true).map_err(failed("flush"))?;
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }
}

impl Disk for RocksDisk {
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError> {
        self.core.fuse.check()?;
        if key == MetaKey::Committed
            && let Some(waiting) = self.core.written.lock().waiting_committed.clone()
        {
            return Ok(Some(waiting));
        }
        record::load(&self.core.db, "read meta", record::meta_key(key))
    }

    /// The committed log id waits for the next write: it changes with every batch of entries, may be lost, and a write of
    /// its own costs a call of the kernel each time.
    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError> {
        let _order = self.order.lock();
        if key == MetaKey::Committed && on_durable.is_none() {
            self.core.fuse.check()?;
            self.core.written.lock().waiting_committed = Some(value);
            return Ok(());
        }
        let name = record::meta_key(key);
        let mut batch = WriteBatch::default();
        batch.put_cf(&family(&self.core.db, CF_META)?, name, record::seal(name, &value));
        let written = self.core.write("save meta", batch);
        if let Some(on_durable) = on_durable {
            self.flusher.complete(&written, on_durable);
        }
        written
    }

    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError> {
        self.core.fuse.check()?;
        Ok(self.core.bounds.read().span())
    }

    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError> {
        let _order = self.order.lock();
        let written = self.core.append(&records);
        self.flusher.complete(&written, on_durable);
        written
    }

    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError> {
        self.core.read_log(from, to, bytes_max)
    }

    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError> {
        let _order = self.order.lock();
        self.core.truncate_after(index)
    }

    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError> {
        let _order = self.order.lock();
        self.core.purge_through(index, &marker)?;
        let sweep = self.sweeper.handle();
        self.flusher.complete(
            &Ok(()),
            Box::new(move |durable| {
                // A failed sync has blown the fuse: sweep nothing; the next operation returns the error.
                if durable.is_ok() {
                    sweep.purged_through(index);
                }
            }),
        );
        Ok(())
    }

    fn generation(&self) -> Result<Generation, DiskError> {
        self.core.fuse.check()?;
        Ok(self.core.generations.read().current())
    }

    fn write_state(&self, batch: StateBatch, on_written: OnWritten) {
        self.state_writer.queue().write(batch, on_written);
    }

    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError> {
        self.core.read_state(each)
    }

    fn history(&self) -> Result<Vec<HistorySpan>, DiskError> {
        self.core.history()
    }

    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError> {
        self.core.read_history(generation, resource, through)
    }

    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError> {
        state::begin_install(&self.core, self.state_writer.queue())
    }

    fn space(&self) -> Result<Option<Space>, DiskError> {
        space::measure(self.core.db.path()).map(Some)
    }

    fn reclaim(&self) {
        self.sweeper.handle().reclaim();
    }
}

/// The handle of a column family; an error if the database has none of this name.
fn family<'a>(db: &'a Db, name: &str) -> Result<Arc<BoundColumnFamily<'a>>, DiskError> {
    db.cf_handle(name).ok_or_else(|| DiskError {
        operation: "column family",
        reason: format!("column family {name} is missing"),
    })
}

/// Converts an error of RocksDB into a [`DiskError`].
fn failed(operation: &'static str) -> impl Fn(rocksdb::Error) -> DiskError {
    move |error| DiskError { operation, reason: error.into_string() }
}
