//! Back-pressure on writes of the stored state.
//!
//! Owns the wait before a batch of the state. RocksDB stops all writers, those of the log too, while a column family
//! has its maximum of full memtables, and slows them down while compaction is behind. History comes in bursts: after a
//! restart, all replayed changes are evicted at once. A batch that would stop the database, or comes while it slows
//! writers down, waits on its own thread, so that entries are appended meanwhile.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rocksdb::{BoundColumnFamily, properties};

use super::options::WRITE_BUFFER_BYTES;
use super::{Core, Db, failed, family};
use crate::disk::{DiskError, StateBatch};

/// Time between two checks. Flushing a memtable takes tens of milliseconds.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// Most checks before a batch, of about a megabyte, is written anyway: a fifth of a second. A disk slower than the
/// history stalls all writers in the end; a longer wait would only let history pile up in memory.
const LOOKS_MAX: u32 = 100;

/// RocksDB's write pressure on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pressure {
    /// Full memtables that are not flushed yet.
    full_memtables: u64,
    /// Bytes in the active memtable.
    memtable_bytes: u64,
    /// RocksDB delays or stops writers already.
    is_slowed: bool,
}

impl Pressure {
    fn now(db: &Db, state: &Arc<BoundColumnFamily<'_>>) -> Result<Pressure, DiskError> {
        let number = |value: Result<Option<u64>, rocksdb::Error>| {
            value.map(Option::unwrap_or_default).map_err(failed("read write pressure"))
        };
        let of_state = |name| number(db.property_int_value_cf(state, name));
        let stopped = number(db.property_int_value(properties::IS_WRITE_STOPPED))?;
        let delayed = number(db.property_int_value(properties::ACTUAL_DELAYED_WRITE_RATE))?;
        Ok(Pressure {
            full_memtables: of_state(properties::NUM_IMMUTABLE_MEM_TABLE)?,
            memtable_bytes: of_state(properties::CUR_SIZE_ACTIVE_MEM_TABLE)?,
            is_slowed: stopped > 0 || delayed > 0,
        })
    }

    /// Whether writing `bytes` now may delay other writers.
    fn is_high(&self, bytes: usize) -> bool {
        // RocksDB switches memtables somewhat before one is full.
        let fills = self.memtable_bytes.saturating_add(bytes as u64) > (WRITE_BUFFER_BYTES as u64) / 4 * 3;
        self.is_slowed || (fills && self.full_memtables > 0)
    }
}

impl Core {
    /// Waits until `step` can be written without delaying appends to the log; at most [`LOOKS_MAX`] checks.
    pub(super) fn wait_for_room(&self, step: &StateBatch) -> Result<(), DiskError> {
        let bytes = bytes_of(step);
        for _ in 0..LOOKS_MAX {
            self.fuse.check()?;
            let name = self.generations.read().family();
            // Another state was installed: `write_state` reports it.
            let Ok(state) = family(&self.db, &name) else { return Ok(()) };
            if !Pressure::now(&self.db, &state)?.is_high(bytes) {
                return Ok(());
            }
            drop(state);
            thread::sleep(LOOK_PERIOD);
        }
        Ok(())
    }
}

/// Bytes that a batch adds to a memtable, roughly.
fn bytes_of(step: &StateBatch) -> usize {
    let objects = step.writes.iter().filter_map(|write| write.record.as_ref());
    let blocks = step.history.iter().map(|block| &block.record);
    objects.chain(blocks).map(|record| record.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_before_the_database_holds_others_up() {
        let calm = Pressure { full_memtables: 0, memtable_bytes: 3 << 20, is_slowed: false };
        assert!(!calm.is_high(8 << 20), "the next memtable is free");
        let busy = Pressure { full_memtables: 1, memtable_bytes: 1 << 20, ..calm };
        assert!(!busy.is_high(1 << 20), "there is room in this one");
        assert!(busy.is_high(3 << 20));
        assert!(Pressure { is_slowed: true, ..calm }.is_high(1));
    }
}
