//! The stored state: its generations, of which one is current.
//!
//! Objects are written together with the mark up to which they are complete, in one batch, unsynced: after a crash the
//! log replays the rest. A snapshot received from a peer is written to a new column family without the write-ahead log;
//! once its tables are on disk, one synced batch makes it current and sets its mark.
//!
//! Invariant: exactly one generation is current, and a generation that is not current is garbage: dropped with its
//! installation, or at the next open.

use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{ReadOptions, WriteBatch, WriteOptions};

use super::sealing::Place;
use super::state_writer::StateQueue;
use super::{CF_META, Core, Db, failed, family, history, options, record};
use crate::disk::{
    DiskError, Generation, Install, MetaKey, OnInstalled, StateBatch, StateWrite, StateWritten,
};

/// Prefix of the name of a generation's column family, before the number.
const CF_GENERATION_PREFIX: &str = "objects-";
/// Readahead of the one pass over the whole state.
const READ_AHEAD_BYTES: usize = 2 << 20;

/// Whether a column family holds a generation of the state.
pub(super) fn is_generation(name: &str) -> bool {
    name.starts_with(CF_GENERATION_PREFIX)
}

fn generation_name(number: u64) -> String {
    format!("{CF_GENERATION_PREFIX}{number}")
}

/// The current generation, and the next number.
#[derive(Debug)]
pub(super) struct Generations {
    current: u64,
    // Invariant: greater than every number given out, so that a late drop never removes a new generation.
    next: u64,
    // Cloned by each unfinished installation, which may hold records under keys that the current state lacks.
    installing: Arc<()>,
}

impl Generations {
    /// Finds the current generation and drops all others of `found`; creates the first in a new database.
    pub(super) fn open(db: &Db, found: &[String], is_new: bool) -> Result<Generations, DiskError> {
        let number = match record::load_number(db, "read generation", record::META_GENERATION)? {
            Some(number) => number,
            None if is_new => create_first_generation(db)?,
            None => {
                let reason = "the current generation of the state is not named".to_owned();
                return Err(DiskError { operation: "open state", reason });
            }
        };
        let current = generation_name(number);
        family(db, &current)?;
        for name in found.iter().filter(|name| **name != current) {
            tracing::info!(generation = %name, "dropping a state whose installation did not finish");
            db.drop_cf(name).map_err(failed("drop generation"))?;
        }
        Ok(Generations { current: number, next: number.saturating_add(1), installing: Arc::default() })
    }

    /// The current generation.
    pub(super) fn current(&self) -> Generation {
        Generation(self.current)
    }

    /// Whether an installation is unfinished.
    pub(super) fn is_installing(&self) -> bool {
        Arc::strong_count(&self.installing) > 1
    }

    /// The column family of the current generation.
    pub(super) fn family(&self) -> String {
        generation_name(self.current)
    }
}

fn create_first_generation(db: &Db) -> Result<u64, DiskError> {
    let number = 1;
    let name = generation_name(number);
    // The column family exists if a first start was interrupted here.
    if db.cf_handle(&name).is_none() {
        db.create_cf(&name, &options::generation_family()).map_err(failed("create state"))?;
    }
    let mut batch = WriteBatch::default();
    put_current_generation(db, &mut batch, number)?;
    db.write_opt(batch, &synced()).map_err(failed("create state"))?;
    Ok(number)
}

fn put_current_generation(db: &Db, batch: &mut WriteBatch, number: u64) -> Result<(), DiskError> {
    let sealed = record::seal(record::META_GENERATION, &number.to_be_bytes());
    batch.put_cf(&family(db, CF_META)?, record::META_GENERATION, sealed);
    Ok(())
}

fn put_mark(db: &Db, batch: &mut WriteBatch, mark: &[u8]) -> Result<(), DiskError> {
    let name = record::meta_key(MetaKey::StateMark);
    batch.put_cf(&family(db, CF_META)?, name, record::seal(name, mark));
    Ok(())
}

fn put_objects(
    core: &Core,
    batch: &mut WriteBatch,
    generation: &str,
    writes: &[StateWrite],
) -> Result<(), DiskError> {
    let objects = family(&core.db, generation)?;
    let mut value = Vec::new();
    for write in writes {
        let key = record::state_key(&write.resource, &write.path)?;
        if let Some(body) = &write.record {
            core.seal_into(Place::Object(&write.resource), &key, body, &mut value)?;
            batch.put_cf(&objects, &key, &value);
        } else {
            batch.delete_cf(&objects, &key);
        }
    }
    Ok(())
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

impl Core {
    /// Writes one batch to the current generation; drops a batch of any other.
    pub(super) fn write_state(&self, step: &StateBatch) -> Result<StateWritten, DiskError> {
        self.fuse.check()?;
        let generations = self.generations.read();
        if step.generation != generations.current() {
            return Ok(StateWritten::Superseded);
        }
        let mut batch = WriteBatch::default();
        put_objects(self, &mut batch, &generations.family(), &step.writes)?;
        history::put_blocks(self, &mut batch, &generations.family(), step)?;
        if let Some(mark) = &step.mark {
            put_mark(&self.db, &mut batch, mark)?;
        }
        self.write("write state", batch)?;
        Ok(StateWritten::Written)
    }

    /// Calls `each` with every object of the current generation.
    pub(super) fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError> {
        self.fuse.check()?;
        let generations = self.generations.read();
        let objects = family(&self.db, &generations.family())?;
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(history::FIRST_KEY);
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD_BYTES);
        let mut entries = self.db.raw_iterator_cf_opt(&objects, options);
        // The iterator keeps its generation alive without the lock: a callback may write, or take long.
        drop(generations);
        entries.seek_to_first();
        while let Some((key, value)) = entries.item() {
            let (resource, path) = record::split_state_key(key).ok_or_else(|| DiskError {
                operation: "read state",
                reason: format!("{} is not the key of an object", key.escape_ascii()),
            })?;
            each(resource, path, self.unseal("read state", Place::Object(resource), key, value)?);
            entries.next();
        }
        entries.status().map_err(failed("read state"))
    }
}

/// A state being received into a new generation.
pub(super) struct RocksInstall {
    core: Arc<Core>,
    queue: StateQueue,
    number: u64,
    name: String,
    is_committed: bool,
    _installing: Arc<()>,
}

/// Creates a new, empty generation.
pub(super) fn begin_install(core: &Arc<Core>, queue: StateQueue) -> Result<Box<dyn Install>, DiskError> {
    core.fuse.check()?;
    let (number, installing) = {
        let mut generations = core.generations.write();
        let number = generations.next;
        generations.next = number.saturating_add(1);
        (number, Arc::clone(&generations.installing))
    };
    let name = generation_name(number);
    core.db
        .create_cf(&name, &options::generation_family())
        .map_err(|error| core.fuse.blow(failed("begin install")(error)))?;
    let core = Arc::clone(core);
    Ok(Box::new(RocksInstall { core, queue, number, name, is_committed: false, _installing: installing }))
}

impl Install for RocksInstall {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        self.core.fuse.check()?;
        let mut batch = WriteBatch::default();
        // As for every record that is encrypted: see `Core::needed_keys`.
        let _generations = self.core.generations.read();
        put_objects(&self.core, &mut batch, &self.name, &writes)?;
        let mut past_the_log = WriteOptions::default();
        past_the_log.disable_wal(true);
        let written = self.core.db.write_opt(batch, &past_the_log);
        written.map_err(|error| self.core.fuse.blow(failed("install")(error)))
    }

    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled) {
        let queue = self.queue.clone();
        queue.install(*self, mark, on_installed);
    }
}

impl RocksInstall {
    /// Makes this generation the current one and drops the old one.
    pub(super) fn make_current(mut self, mark: &[u8]) -> Result<Generation, DiskError> {
        let core = Arc::clone(&self.core);
        core.fuse.check()?;
        let blow = |error| core.fuse.blow(failed("commit install")(error));
        core.db.flush_cf(&family(&core.db, &self.name)?).map_err(blow)?;
        let mut batch = WriteBatch::default();
        put_current_generation(&core.db, &mut batch, self.number)?;
        put_mark(&core.db, &mut batch, mark)?;
        let old = {
            let mut generations = core.generations.write();
            core.write_with("commit install", batch, &synced())?;
            // Before any other step can fail: dropping this value must not delete the current state.
            self.is_committed = true;
            let old = generations.family();
            assert_ne!(old, self.name, "the state that becomes current is not the one that is dropped");
            generations.current = self.number;
            old
        };
        core.db.drop_cf(&old).map_err(blow)?;
        Ok(Generation(self.number))
    }
}

impl Drop for RocksInstall {
    fn drop(&mut self) {
        // After a failed write it is unknown which generation is current: the next open decides.
        if self.is_committed || self.core.fuse.check().is_err() {
            return;
        }
        if let Err(error) = self.core.db.drop_cf(&self.name) {
            let error = self.core.fuse.blow(failed("abandon install")(error));
            tracing::error!(%error, generation = %self.name, "an unfinished state cannot be removed");
        }
    }
}
