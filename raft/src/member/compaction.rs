//! Log compaction: when the log is purged, and up to which entry.
//!
//! Owns the bounds of the log: entries and bytes. It asks the consensus library to purge, but never an entry that the
//! stored state lacks, nor one that follows a snapshot on its way to another member.
//!
//! Invariant: a purge asked for here never waits for the stored state.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::log::Settle;
use crate::member::options::LogOptions;
use crate::member::space::Pressure;
use crate::transport::Transport;

/// Pause between two looks at the log. At 10,000 entries of a kilobyte a second it grows by 2.5 MB meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// Multiple of `bytes_max` to which the log may grow while a snapshot is on its way. The transfer to a slower receiver
/// starts anew.
const HELD_LOGS_MAX: u64 = 4;

/// Divisor of the log's bounds while the disk has little room: 16 MiB of 256. A member that lags by more is sent a
/// snapshot.
const TIGHT_PART: u64 = 16;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Cuts the log from time to time, for as long as the member lives.
    pub(crate) async fn compact(self: Arc<Self>) {
        loop {
            R::sleep(LOOK_PERIOD).await;
            self.forget_partial();
            // The error has been reported to `fatal`.
            if self.log.purge_waiting().is_err() {
                return;
            }
            let Ok(bounds) = self.fatal.disk(self.disk.log_bounds()) else { return };
            let held = self.holds.look();
            let Some(through) = bounds.and_then(|(first, last)| self.cut(first, last, held)) else {
                continue;
            };
            if !self.applied.settle(through) {
                continue;
            }
            let taken = self.raft.metrics().borrow_watched().snapshot.map_or(0, |id| id.index);
            let trigger = self.raft.trigger();
            let asked =
                if taken < through { trigger.snapshot().await } else { trigger.purge_log(through).await };
            if let Err(stopped) = asked {
                return self.fatal.report(stopped);
            }
        }
    }

    /// The bounds of the log, which are lower while the disk has little room.
    fn log_bounds_now(&self) -> LogOptions {
        let LogOptions { snapshot_every, keep, bytes_max } = self.options.log;
        match self.space.pressure() {
            Pressure::None => self.options.log,
            Pressure::Tight | Pressure::Short => LogOptions {
                snapshot_every: snapshot_every / TIGHT_PART,
                keep: keep / TIGHT_PART,
                bytes_max: bytes_max / TIGHT_PART,
            },
        }
    }

    /// The index through which the log is to be purged now; `None` when it is within its bounds, or everything beyond them
    /// is held.
    fn cut(&self, first: u64, last: u64, held: Option<u64>) -> Option<u64> {
        let options = self.log_bounds_now();
        let bytes = self.meter.lock();
        let total = bytes.total(first);
        let too_long = last - first >= options.keep.saturating_add(options.snapshot_every);
        let too_large = total > options.bytes_max.saturating_add(options.bytes_max / 8);
        if !too_long && !too_large {
            return None;
        }
        let by_count = last.saturating_sub(options.keep);
        let by_bytes = bytes.cut(options.bytes_max).filter(|_| too_large).unwrap_or(0);
        let held_bytes_max = self.options.log.bytes_max.saturating_mul(HELD_LOGS_MAX);
        let held = held.filter(|_| total <= held_bytes_max && self.space.pressure() < Pressure::Short);
        let applied = self.applied.state().applied().0;
        let through = by_count.max(by_bytes).min(held.unwrap_or(u64::MAX)).min(applied);
        (through > first).then_some(through)
    }
}
