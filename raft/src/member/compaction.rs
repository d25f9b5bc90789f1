//! When the log is cut, and how far.
//!
//! Owns the bounds of the log: entries and bytes. It asks the consensus library to purge, and never for more than the
//! stored state has and than a snapshot on its way to another member leaves to be replicated after it.
//!
//! Invariant: a purge asked for here never waits for the stored state.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::log::Settle;
use crate::transport::Transport;

/// Between two looks at the log. At 10,000 entries of a kilobyte a second it grows by 2.5 MB meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// Looks for which the log is held after a snapshot was sent, or broke off: ten seconds, in which the receiver asks for
/// what follows it, or for the snapshot again.
const HOLD_LOOKS: u32 = 40;

/// How many times its bytes the log may grow to for the sake of a snapshot on its way. A receiver that takes longer
/// starts anew.
const HELD_LOGS_MAX: u64 = 4;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Cuts the log from time to time, for as long as the member lives.
    pub(crate) async fn compact(self: Arc<Self>) {
        loop {
            R::sleep(LOOK_PERIOD).await;
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

    /// Through which entry the log is to be cut now; `None` when it is within its bounds.
    fn cut(&self, first: u64, last: u64, held: Option<u64>) -> Option<u64> {
        let options = &self.options.log;
        let bytes = self.meter.lock();
        let total = bytes.total(first);
        let too_long = last - first >= options.keep.saturating_add(options.snapshot_every);
        let too_large = total > options.bytes_max.saturating_add(options.bytes_max / 8);
        if !too_long && !too_large {
            return None;
        }
        let by_count = last.saturating_sub(options.keep);
        let by_bytes = bytes.cut(options.bytes_max).filter(|_| too_large).unwrap_or(0);
        let held = held.filter(|_| total <= options.bytes_max.saturating_mul(HELD_LOGS_MAX));
        let applied = self.applied.state().applied().0;
        let through = by_count.max(by_bytes).min(held.unwrap_or(u64::MAX)).min(applied);
        (through > first).then_some(through)
    }
}

/// Entries that must stay for members that are being sent a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<Vec<Held>>);

#[derive(Debug)]
struct Held {
    ticket: u64,
    /// The last entry that the snapshot has.
    index: u64,
    /// Looks since the transfer ended; `None` while it is under way.
    ended: Option<u32>,
}

/// A transfer that is under way: dropping it lets go of the log after a while.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    ticket: u64,
}

impl Holds {
    /// Keeps what follows `index` for as long as the value lives, and a little longer.
    pub(crate) fn hold(self: &Arc<Self>, index: u64) -> Hold {
        let mut held = self.0.lock();
        let ticket = held.iter().map(|one| one.ticket).max().map_or(0, |ticket| ticket + 1);
        held.push(Held { ticket, index, ended: None });
        Hold { holds: self.clone(), ticket }
    }

    /// Lets go of what has ended long enough ago; gives the index up to which the log may be cut, if one is held.
    fn look(&self) -> Option<u64> {
        let mut held = self.0.lock();
        held.iter_mut().for_each(|one| one.ended = one.ended.map(|looks| looks + 1));
        held.retain(|one| one.ended.is_none_or(|looks| looks <= HOLD_LOOKS));
        held.iter().map(|one| one.index).min()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.holds.0.lock();
        if let Some(one) = held.iter_mut().find(|one| one.ticket == self.ticket) {
            one.ended = Some(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_held_while_a_snapshot_is_sent_and_a_while_after() {
        let holds = Arc::new(Holds::default());
        assert_eq!(holds.look(), None);
        let (early, late) = (holds.hold(10), holds.hold(20));
        drop(late);
        assert_eq!(holds.look(), Some(10));
        drop(early);
        for _ in 0..HOLD_LOOKS {
            assert_eq!(holds.look(), Some(10));
        }
        assert_eq!(holds.look(), None);
    }
}
