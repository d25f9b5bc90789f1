//! Has a leader whose disk is slow hand over to a member whose disk is not.
//!
//! Owns what slow is, and how often a lead is given up for it. A write waits for a majority, the leader's own disk or not; but a leader with
//! a slow disk answers late where the others are few or slow themselves, and an operator learns of the disk only by that.
//!
//!     leader, every half second:  an append is not durable after a second, or half of those of the last ten seconds took half of one
//!         -> a voter that answers, has appended as well, and whose figures are a quarter of these: it takes over
//!         -> none: the leader stays, and the log says so
//!
//! Invariant: no lead is given up for a disk within [`PAUSE`] after this member gave one up so; two slow disks do not pass the lead to and
//! fro.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft_rt::Instant;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::log::SyncTimes;
use crate::transport::{NodeId, Transport};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An append that is not durable after this time is slow: a healthy disk takes milliseconds, a busy one some tens of them. Half of the
/// time after which clients begin to notice, and well above a pause of a busy machine.
const PENDING_MAX: Duration = Duration::from_secs(1);
/// Half of the appends may take this long.
const MEDIAN_MAX: Duration = Duration::from_millis(500);
/// Span of the median.
const SPAN: Duration = Duration::from_secs(10);
/// Fewer appends tell nothing by their median.
const APPENDS_MIN: u64 = 3;
/// The successor's figures are smaller by this factor, so that the change is worth an election.
const FACTOR: u32 = 4;
/// Shortest time between two handovers for a slow disk.
const PAUSE: Duration = Duration::from_secs(60);

/// How slow a disk is, by the worse of its figures; zero where it is not.
fn slowness(times: &SyncTimes) -> Duration {
    let by_median =
        if times.count >= APPENDS_MIN && times.p50 >= MEDIAN_MAX { times.p50 } else { Duration::ZERO };
    let by_pending = if times.pending >= PENDING_MAX { times.pending } else { Duration::ZERO };
    by_median.max(by_pending)
}

/// Whether a member with these figures, the last that it told, may take over from one that is as slow as `slowness`.
fn is_faster(times: &SyncTimes, slowness: Duration) -> bool {
    let bound = slowness / FACTOR;
    times.count > 0 && times.p50 <= bound && times.pending <= bound
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Gives up leads while the disk is slow, for as long as the member lives.
    pub(crate) async fn give_up_leads_by_slow_disk(self: Arc<Self>) {
        let mut last: Option<R::Instant> = None;
        loop {
            R::sleep(LOOK_EVERY).await;
            let now = R::Instant::now();
            let has_paused = last.is_none_or(|last| now - last >= PAUSE);
            let leads = self.leader().is_some_and(|leader| leader.local);
            let times = self.log.times(now, SPAN);
            let slowness = slowness(&times);
            if !leads || !has_paused || slowness.is_zero() {
                continue;
            }
            let fit = |id: NodeId| {
                let told = self.contacts.of(id.0, now).syncs;
                told.is_some_and(|told| is_faster(&told, slowness))
            };
            let (pending, median) = (times.pending, times.p50);
            match self.find_successor(fit).await {
                Some(successor) => {
                    tracing::warn!(
                        to = %successor.name, ?pending, ?median,
                        "handing over the lead: this member's disk is slow to sync (see `orch cluster status`)"
                    );
                    last = Some(now);
                    self.changes.slow_disk_handovers.fetch_add(1, Ordering::Relaxed);
                    self.hand_over(&successor).await;
                }
                None => {
                    // Looked at again after the pause: nothing else can be done, and it is told once a minute.
                    last = Some(now);
                    tracing::warn!(
                        ?pending,
                        ?median,
                        "this member leads, its disk is slow to sync, and no other voter that answers has a faster one"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64, p50_ms: u64, pending_ms: u64) -> SyncTimes {
        let (p50, pending) = (Duration::from_millis(p50_ms), Duration::from_millis(pending_ms));
        SyncTimes { count, p50, p99: p50, pending }
    }

    #[test]
    fn a_disk_is_slow_by_one_append_that_hangs_or_by_half_of_them() {
        assert_eq!(slowness(&times(0, 0, 999)), Duration::ZERO);
        assert_eq!(slowness(&times(0, 0, 1000)), Duration::from_secs(1));
        assert_eq!(slowness(&times(2, 800, 0)), Duration::ZERO, "two appends tell nothing");
        assert_eq!(slowness(&times(3, 800, 0)), Duration::from_millis(800));
        assert_eq!(slowness(&times(9000, 40, 60)), Duration::ZERO, "busy");
    }

    #[test]
    fn a_successor_is_much_faster_and_has_told_so() {
        let slow = Duration::from_secs(2);
        assert!(is_faster(&times(5, 100, 20), slow));
        assert!(!is_faster(&times(5, 600, 0), slow) && !is_faster(&times(5, 1, 800), slow));
        assert!(!is_faster(&SyncTimes::default(), slow), "it has appended nothing, so nothing is known");
    }
}
