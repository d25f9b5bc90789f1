//! The thread that reclaims the space of purged entries.
//!
//! Owns its progress. It learns the purged index after the purge marker is durable, and deletes entries in large steps,
//! so that range tombstones stay few. Entries not deleted when the process ends are deleted after the next start. It
//! never touches an entry after the purged index.
//!
//! When disk space is short, a member orders a reclaim: the thread deletes all purged entries at once, however few,
//! deletes the tables that hold only removed history, flushes the memtables (which frees the write-ahead log), and
//! compacts the tables of the state with many tombstones.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rocksdb::{CompactOptions, LiveFile, WriteBatch};

use super::{CF_LOG, CF_META, Core, failed, family, record, space};
use crate::disk::DiskError;

/// Entries that make a sweep worthwhile: a smaller one would leave a range tombstone for little space.
const STEP_ENTRIES: u64 = 4096;
/// Sweeps between two compactions of the swept range, which free the space that tombstones only hide. Every sweep
/// deletes whole files; the compaction is for entries in the remaining ones.
const SWEEPS_PER_COMPACTION: u64 = 8;
/// A reclaim compacts a table if at least one in this many of its entries is a tombstone.
const REMOVALS_PART: u64 = 4;
/// The rest after a reclaim, as a multiple of its duration: reclaims take a twentieth of the disk's time at most, so
/// that writes go on.
const REST_PER_WORK: u32 = 19;
/// The shortest rest: each reclaim flushes a small table for every column family, however little its memtable holds.
const REST_MIN: Duration = Duration::from_secs(5);
/// The longest rest: writers wait for the space of deleted objects.
const REST_MAX: Duration = Duration::from_secs(15);
/// Rest between two small sweeps while space is short. Each leaves a range tombstone.
const SMALL_SWEEP_REST: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Orders {
    // One past the last entry to delete: orders merge, so nothing queues.
    end: u64,
    // A reclaim is ordered: disk space is short.
    reclaim: bool,
    is_stopping: bool,
}

/// The next work of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    end: u64,
    reclaim: bool,
}

/// Earliest times of the next reclaim and of the next small sweep.
#[derive(Clone, Copy, Debug)]
struct NextTimes {
    reclaim: Instant,
    small_sweep: Instant,
}

#[derive(Debug, Default)]
struct SweepQueue {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// Orders to the sweeper. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct SweepHandle(Arc<SweepQueue>);

impl SweepHandle {
    /// Orders the deletion of entries up to `index`, whose purge is durable.
    pub(super) fn purged_through(&self, index: u64) {
        let mut orders = self.0.orders.lock();
        orders.end = orders.end.max(index.saturating_add(1));
        self.0.changed.notify_one();
    }

    /// Orders a reclaim.
    pub(super) fn reclaim(&self) {
        self.0.orders.lock().reclaim = true;
        self.0.changed.notify_one();
    }

    fn stop(&self) {
        self.0.orders.lock().is_stopping = true;
        self.0.changed.notify_one();
    }

    /// Waits until there is enough work after `done`, the end of the last sweep; `None` to stop.
    fn next(&self, done: u64, rests: NextTimes) -> Option<Task> {
        let mut orders = self.0.orders.lock();
        while !orders.is_stopping {
            let now = now();
            let reclaim = orders.reclaim && now >= rests.reclaim;
            let few = orders.reclaim && orders.end > done;
            if reclaim || (few && now >= rests.small_sweep) || orders.end >= done.saturating_add(STEP_ENTRIES)
            {
                orders.reclaim &= !reclaim;
                return Some(Task { end: orders.end.max(done), reclaim });
            }
            match (orders.reclaim, few) {
                (true, true) => {
                    self.0.changed.wait_until(&mut orders, rests.reclaim.min(rests.small_sweep));
                }
                (true, false) => {
                    self.0.changed.wait_until(&mut orders, rests.reclaim);
                }
                (false, _) => self.0.changed.wait(&mut orders),
            }
        }
        None
    }
}

/// The thread. Dropping it stops and joins the thread.
#[derive(Debug)]
pub(super) struct Sweeper {
    handle: SweepHandle,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Starts the thread, which first deletes the purged entries that an earlier process left.
    pub(super) fn start(core: Arc<Core>) -> Result<Sweeper, DiskError> {
        let handle = SweepHandle::default();
        // The purged index was read from the disk, and opening made it durable.
        if let Some(purged) = core.bounds.read().purged() {
            handle.purged_through(purged);
        }
        let orders = handle.clone();
        let thread = thread::Builder::new()
            .name("disk-sweep".to_owned())
            .spawn(move || run(&core, &orders))
            .map_err(|error| DiskError { operation: "start sweeper", reason: error.to_string() })?;
        Ok(Sweeper { handle, thread: Some(thread) })
    }

    /// The handle for callers that know when a purge is durable.
    pub(super) fn handle(&self) -> SweepHandle {
        self.handle.clone()
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the log sweeper panicked");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread of the real disk paces its own work; nothing is decided by it"
)]
fn now() -> Instant {
    Instant::now()
}

fn run(core: &Core, orders: &SweepHandle) {
    let (mut done, mut sweeps) = (0, 0);
    let mut rests = NextTimes { reclaim: now(), small_sweep: now() };
    while let Some(Task { end, reclaim }) = orders.next(done, rests) {
        sweeps += 1;
        let began = now();
        let compact = reclaim || sweeps % SWEEPS_PER_COMPACTION == 0;
        let swept = if end > done { sweep(core, end, compact) } else { Ok(()) };
        let failed = match swept {
            Err(error) => Some(("the space of purged log entries cannot be given back", error)),
            Ok(()) if reclaim => reclaim_all(core).err().map(|error| ("space cannot be reclaimed", error)),
            Ok(()) => None,
        };
        if let Some((failure, error)) = failed {
            tracing::error!(%error, "{failure}");
            core.fuse.blow(error);
            return;
        }
        done = end;
        rests.small_sweep = now() + SMALL_SWEEP_REST;
        if reclaim {
            let rest = began.elapsed().saturating_mul(REST_PER_WORK).clamp(REST_MIN, REST_MAX);
            rests.reclaim = now() + rest;
        }
    }
}

fn sweep(core: &Core, end: u64, compact: bool) -> Result<(), DiskError> {
    core.fuse.check()?;
    let log = family(&core.db, CF_LOG)?;
    let (from, last, to) = (record::log_key(0), record::log_key(end - 1), record::log_key(end));
    // Whole files first, which costs nothing; older versions that this uncovers have keys before `end` too. RocksDB takes
    // the end of these ranges as included: a table whose last key is `end` holds an entry that is not purged.
    core.db.delete_file_in_range_cf(&log, from, last).map_err(failed("purge"))?;
    let mut batch = WriteBatch::default();
    batch.delete_range_cf(&log, from, to);
    core.write("purge", batch)?;
    if compact {
        core.db.compact_range_cf(&log, Some(from), Some(to));
    }
    Ok(())
}

/// Deletes the tables of removed history, flushes every memtable, after which RocksDB drops its old write-ahead logs,
/// and compacts the tables of the state with many tombstones, one after another. A table whose compaction needs more
/// than half of the free space is left for later: a compaction that runs out of space stops the database. The log was
/// compacted by the sweep.
fn reclaim_all(core: &Core) -> Result<(), DiskError> {
    core.fuse.check()?;
    core.drop_gone_history()?;
    let state = core.generations.read().family();
    for name in [CF_LOG, CF_META, &state] {
        // A state that is replaced meanwhile is dropped with its files.
        let Some(found) = core.db.cf_handle(name) else { continue };
        core.db.flush_cf(&found).map_err(failed("flush"))?;
    }
    let mut beside_others = CompactOptions::default();
    // Flushes and automatic compactions go on meanwhile: else writes would stall.
    beside_others.set_exclusive_manual_compaction(false);
    for (from, to) in ranges_of_removals(core, &state)? {
        let Some(found) = core.db.cf_handle(&state) else { break };
        let free = match space::measure(core.db.path()) {
            Ok(space) => space.free,
            Err(error) => {
                tracing::warn!(%error, "the room on the disk is not known: nothing more is compacted");
                return Ok(());
            }
        };
        let overlapping = tables_of(core, &state)?.into_iter().filter(|table| is_within(table, &from, &to));
        if overlapping.map(|table| table.size as u64).sum::<u64>() <= free / 2 {
            core.db.compact_range_cf_opt(&found, Some(&from), Some(&to), &beside_others);
        }
    }
    Ok(())
}

/// The first and last key of a table.
type Keys = (Vec<u8>, Vec<u8>);

/// The key ranges of the tables in `family` with many tombstones.
fn ranges_of_removals(core: &Core, family: &str) -> Result<Vec<Keys>, DiskError> {
    let tables = tables_of(core, family)?.into_iter();
    let worth = tables.filter(|table| table.num_deletions.saturating_mul(REMOVALS_PART) >= table.num_entries);
    let ranges = worth.filter(|table| table.num_deletions > 0);
    Ok(ranges.filter_map(|table| Some((table.start_key?, table.end_key?))).collect())
}

/// The tables of a column family; none if it was dropped.
pub(super) fn tables_of(core: &Core, family: &str) -> Result<Vec<LiveFile>, DiskError> {
    let mut tables = core.db.live_files().map_err(failed("list tables"))?;
    tables.retain(|table| table.column_family_name == family);
    Ok(tables)
}

/// Whether the key range of a table overlaps `from` to `to`.
fn is_within(table: &LiveFile, from: &[u8], to: &[u8]) -> bool {
    let before = table.end_key.as_ref().is_some_and(|last| last.as_slice() < from);
    let after = table.start_key.as_ref().is_some_and(|first| first.as_slice() > to);
    !before && !after
}
