//! The thread that gives back the space of purged entries.
//!
//! Owns nothing but its progress: it is told, after the purge marker is durable, how far the log is forgotten, and
//! removes entries in large steps, so that range tombstones stay few. What it has not removed when the process ends
//! is removed after the next start. It never touches an entry after the purged index.
//!
//! When space is short it is asked to reclaim: it then removes what there is, however little and at once, deletes the
//! tables that hold nothing but history that is gone, has the database write out its buffers (which frees the write-ahead
//! log), and compacts what was removed from the state.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rocksdb::{CompactOptions, LiveFile, WriteBatch};

use super::{CF_LOG, CF_META, Core, failed, family, record, space};
use crate::disk::DiskError;

/// Entries worth a sweep: a smaller step would leave a range tombstone for little space.
const STEP_ENTRIES: u64 = 4096;
/// Sweeps between two compactions of the swept range, which free what tombstones only hide. Whole files are dropped
/// in every sweep, so this is for the remains.
const SWEEPS_PER_COMPACTION: u64 = 8;
/// A table is compacted to reclaim space when one in so many of its entries, at least, is a removal.
const REMOVALS_PART: u64 = 4;
/// A rest after reclaiming, in terms of the time it took: a twentieth of the disk's time at most, so that writes go on.
const REST_PER_WORK: u32 = 19;
/// The least rest: each time writes a small table for every column family, whatever little was in its buffer.
const REST_MIN: Duration = Duration::from_secs(5);
/// The longest: somebody waits for the space of what was deleted.
const REST_MAX: Duration = Duration::from_secs(15);
/// Between two sweeps of little while space is short. Each leaves a range tombstone.
const SMALL_SWEEP_REST: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Orders {
    // One past the last entry that may go: orders merge, so nothing queues.
    end: u64,
    // Space is short: everything is to be given back.
    reclaim: bool,
    is_stopping: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    end: u64,
    reclaim: bool,
}

/// Before when what is not worth doing without need is not done again.
#[derive(Clone, Copy, Debug)]
struct Rests {
    reclaim: Instant,
    small_sweep: Instant,
}

#[derive(Debug, Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// Tells the sweeper how far the log is purged, durably. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct SweepHandle(Arc<Desk>);

impl SweepHandle {
    /// Entries up to `index` may go.
    pub(super) fn purged_through(&self, index: u64) {
        let mut orders = self.0.orders.lock();
        orders.end = orders.end.max(index.saturating_add(1));
        self.0.changed.notify_one();
    }

    /// As much as possible is to be given back.
    pub(super) fn reclaim(&self) {
        self.0.orders.lock().reclaim = true;
        self.0.changed.notify_one();
    }

    fn stop(&self) {
        self.0.orders.lock().is_stopping = true;
        self.0.changed.notify_one();
    }

    /// Waits until there is enough to do after `done`, the end of the last sweep; `None` to stop.
    fn next(&self, done: u64, rests: Rests) -> Option<Task> {
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

/// The thread.
#[derive(Debug)]
pub(super) struct Sweeper {
    handle: SweepHandle,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Starts the thread, with what an earlier process left to do.
    pub(super) fn start(core: Arc<Core>) -> Result<Sweeper, DiskError> {
        let handle = SweepHandle::default();
        // What was purged before has been read from the disk, and opening made all of that durable.
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

    /// For whoever learns that a purge is durable.
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
    let mut rests = Rests { reclaim: now(), small_sweep: now() };
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
    let (from, to) = (record::log_key(0), record::log_key(end));
    // Whole files first, which costs nothing; older versions that this uncovers are before `first` too.
    core.db.delete_file_in_range_cf(&log, from, to).map_err(failed("purge"))?;
    let mut batch = WriteBatch::default();
    batch.delete_range_cf(&log, from, to);
    core.write("purge", batch)?;
    if compact {
        core.db.compact_range_cf(&log, Some(from), Some(to));
    }
    Ok(())
}

/// Deletes the tables of history that is gone, writes out every buffer, after which the database drops its old write-ahead
/// logs, and compacts the tables of the state that hold many removals, one after another. A table whose compaction needs more than half of what is free is left
/// for later: a compaction that finds no room stops the database. The log was compacted where it was swept.
fn reclaim_all(core: &Core) -> Result<(), DiskError> {
    core.fuse.check()?;
    core.drop_gone_history()?;
    let state = core.generations.read().family();
    for name in [CF_LOG, CF_META, &state] {
        // A state that another replaces meanwhile is gone with all it takes.
        let Some(found) = core.db.cf_handle(name) else { continue };
        core.db.flush_cf(&found).map_err(failed("flush"))?;
    }
    let mut beside_others = CompactOptions::default();
    // Flushes and the compactions that they call for go on meanwhile: else writes would stall.
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

/// The keys of the tables in `family` of which a large part is removals.
fn ranges_of_removals(core: &Core, family: &str) -> Result<Vec<Keys>, DiskError> {
    let tables = tables_of(core, family)?.into_iter();
    let worth = tables.filter(|table| table.num_deletions.saturating_mul(REMOVALS_PART) >= table.num_entries);
    let ranges = worth.filter(|table| table.num_deletions > 0);
    Ok(ranges.filter_map(|table| Some((table.start_key?, table.end_key?))).collect())
}

fn tables_of(core: &Core, family: &str) -> Result<Vec<LiveFile>, DiskError> {
    let mut tables = core.db.live_files().map_err(failed("list tables"))?;
    tables.retain(|table| table.column_family_name == family);
    Ok(tables)
}

/// Whether a table has keys between `from` and `to`.
fn is_within(table: &LiveFile, from: &[u8], to: &[u8]) -> bool {
    let before = table.end_key.as_ref().is_some_and(|last| last.as_slice() < from);
    let after = table.start_key.as_ref().is_some_and(|first| first.as_slice() > to);
    !before && !after
}
