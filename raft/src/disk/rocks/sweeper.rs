//! The thread that gives back the space of purged entries.
//!
//! Owns nothing but its progress: it is told, after the purge marker is durable, how far the log is forgotten, and
//! removes entries in large steps, so that range tombstones stay few. What it has not removed when the process ends
//! is removed after the next start. It never touches an entry after the purged index.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use rocksdb::WriteBatch;

use super::{CF_LOG, Core, failed, family, record};
use crate::disk::DiskError;

/// Entries worth a sweep: a smaller step would leave a range tombstone for little space.
const STEP_ENTRIES: u64 = 4096;
/// Sweeps between two compactions of the swept range, which free what tombstones only hide. Whole files are dropped
/// in every sweep, so this is for the remains.
const SWEEPS_PER_COMPACTION: u64 = 8;

#[derive(Debug, Default)]
struct Orders {
    // One past the last entry that may go: orders merge, so nothing queues.
    end: u64,
    is_stopping: bool,
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

    fn stop(&self) {
        self.0.orders.lock().is_stopping = true;
        self.0.changed.notify_one();
    }

    /// Waits until `STEP_ENTRIES` more than `done` may go, and says up to where; `None` to stop.
    fn next_end(&self, done: u64) -> Option<u64> {
        let mut orders = self.0.orders.lock();
        while !orders.is_stopping && orders.end < done.saturating_add(STEP_ENTRIES) {
            self.0.changed.wait(&mut orders);
        }
        (!orders.is_stopping).then_some(orders.end)
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

fn run(core: &Core, orders: &SweepHandle) {
    let (mut done, mut sweeps) = (0, 0);
    while let Some(end) = orders.next_end(done) {
        sweeps += 1;
        if let Err(error) = sweep(core, end, sweeps % SWEEPS_PER_COMPACTION == 0) {
            tracing::error!(%error, "the space of purged log entries cannot be given back");
            core.fuse.blow(error);
            return;
        }
        done = end;
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
