//! Snapshots on their way to other members, and the log entries and snapshots kept for them.
//!
//! Owns two promises to a receiver: the entries that follow a snapshot stay in the log until it had the time to ask for
//! them, and a snapshot whose stream broke is kept for a while, so that its transfer goes on where it stopped. The
//! library reads the snapshot anew for each attempt; a transfer cannot go on with the state of another moment.
//!
//! Time is counted in looks of compaction, one every 250 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::member::codec::Mark;
use crate::state::State;
use crate::transport::NodeId;

/// Looks for which the log is held after a transfer ended or broke: ten seconds, in which the receiver asks for the next
/// entries, or the sender sends the rest.
const HOLD_LOOKS: u32 = 40;

/// Looks after which a snapshot is too old to be continued: ten minutes, the time of six attempts. The next attempt sends
/// the state as it then is.
const RESUME_LOOKS_MAX: u32 = 2400;

/// The snapshots that one member sends, and its repairs.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    held: Mutex<Vec<Held>>,
    /// Repairs under way; while there are any the whole log is kept.
    whole: AtomicU32,
}

#[derive(Debug)]
struct Held {
    ticket: u64,
    target: NodeId,
    state: Arc<State>,
    mark: Mark,
    /// Looks since the first attempt to send this snapshot.
    age: u32,
    /// A part of the snapshot may have reached the receiver.
    is_begun: bool,
    /// The receiver has installed the snapshot.
    is_installed: bool,
    /// Looks since this attempt ended; `None` while it is under way.
    ended: Option<u32>,
}

/// A transfer under way. Dropping it releases the log, and the snapshot, after `HOLD_LOOKS`.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    ticket: u64,
    /// An earlier attempt sent a part of the very same snapshot to the same member.
    pub(crate) continues: bool,
}

/// Keeps the whole log until dropped: a repair receives a state, whose revision is not known yet.
#[derive(Debug)]
pub(crate) struct HoldWhole(Arc<Holds>);

impl Drop for HoldWhole {
    fn drop(&mut self) {
        self.0.whole.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Holds {
    /// Keeps the snapshot and the log entries after it for as long as the value lives, and `HOLD_LOOKS` longer.
    pub(crate) fn hold(self: &Arc<Self>, target: NodeId, state: &Arc<State>, mark: &Mark) -> Hold {
        let mut held = self.held.lock();
        let ticket = held.iter().map(|one| one.ticket).max().map_or(0, |ticket| ticket + 1);
        let is_same = |one: &Held| one.target == target && one.ended.is_some() && one.mark == *mark;
        let earlier = held.iter().position(is_same).map(|at| held.swap_remove(at));
        let continues = earlier.as_ref().is_some_and(|earlier| earlier.is_begun && !earlier.is_installed);
        held.push(Held {
            ticket,
            target,
            state: state.clone(),
            mark: mark.clone(),
            age: earlier.map_or(0, |earlier| earlier.age),
            is_begun: continues,
            is_installed: false,
            ended: None,
        });
        Hold { holds: self.clone(), ticket, continues }
    }

    /// Keeps the whole log for as long as the value lives.
    pub(crate) fn hold_whole(self: &Arc<Self>) -> HoldWhole {
        self.whole.fetch_add(1, Ordering::AcqRel);
        HoldWhole(self.clone())
    }

    /// Counts a look and releases transfers that ended `HOLD_LOOKS` ago. Returns the index up to which the log may be purged;
    /// `None` when no transfer holds it.
    pub(super) fn look(&self) -> Option<u64> {
        let mut held = self.held.lock();
        for one in &mut *held {
            one.age = one.age.saturating_add(1);
            one.ended = one.ended.map(|looks| looks + 1);
        }
        held.retain(|one| one.ended.is_none_or(|looks| looks <= HOLD_LOOKS));
        match self.whole.load(Ordering::Acquire) {
            0 => held.iter().map(|one| one.mark.revision().0).min(),
            _ => Some(0),
        }
    }

    /// The newest snapshot whose transfer broke and may go on.
    pub(crate) fn unfinished(&self) -> Option<(Arc<State>, Mark)> {
        let held = self.held.lock();
        let broke = |one: &&Held| {
            one.ended.is_some() && one.is_begun && !one.is_installed && one.age <= RESUME_LOOKS_MAX
        };
        let newest = held.iter().filter(broke).max_by_key(|one| one.mark.revision())?;
        Some((newest.state.clone(), newest.mark.clone()))
    }
}

impl Hold {
    /// Notes that a part of the snapshot is on its way.
    pub(crate) fn begin(&self) {
        self.change(|one| one.is_begun = true);
    }

    /// Notes that the receiver has installed the snapshot.
    pub(crate) fn finish(&self) {
        self.change(|one| one.is_installed = true);
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        let mut held = self.holds.held.lock();
        if let Some(one) = held.iter_mut().find(|one| one.ticket == self.ticket) {
            change(one);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.change(|one| one.ended = Some(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    fn hold(holds: &Arc<Holds>, target: u64, index: u64) -> Hold {
        let mark = Mark { log_id: Some(log_id(1, index)), ..Mark::default() };
        holds.hold(NodeId(target), &Arc::default(), &mark)
    }

    fn unfinished(holds: &Holds) -> Option<u64> {
        holds.unfinished().map(|(_, mark)| mark.revision().0)
    }

    #[test]
    fn the_log_is_held_while_a_snapshot_is_sent_and_a_while_after() {
        let holds = Arc::new(Holds::default());
        assert_eq!(holds.look(), None);
        let (early, late) = (hold(&holds, 1, 10), hold(&holds, 2, 20));
        drop(late);
        assert_eq!(holds.look(), Some(10));
        drop(early);
        for _ in 0..HOLD_LOOKS {
            assert_eq!(holds.look(), Some(10));
        }
        assert_eq!(holds.look(), None);
    }

    #[test]
    fn a_snapshot_is_continued_only_where_a_part_of_it_was_sent() {
        let holds = Arc::new(Holds::default());
        drop(hold(&holds, 1, 10));
        assert_eq!(unfinished(&holds), None, "nothing of it was sent");
        let broken = hold(&holds, 1, 20);
        assert!(!broken.continues);
        broken.begin();
        assert_eq!(unfinished(&holds), None, "it is under way");
        drop(broken);
        assert_eq!(unfinished(&holds), Some(20));
        assert!(!hold(&holds, 2, 20).continues, "another member has nothing of it");
        let again = hold(&holds, 1, 20);
        assert!(again.continues);
        again.finish();
        drop(again);
        assert_eq!(unfinished(&holds), None);
    }

    #[test]
    fn a_snapshot_is_not_continued_for_ever() {
        let holds = Arc::new(Holds::default());
        for _ in 0..=RESUME_LOOKS_MAX {
            let broken = hold(&holds, 1, 10);
            broken.begin();
            drop(broken);
            holds.look();
        }
        assert_eq!(unfinished(&holds), None);
        assert_eq!(holds.look(), Some(10), "its entries may go a little later");
    }
}
