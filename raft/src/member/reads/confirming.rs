//! ReadIndex of the leader: before a read it asks the voters whether they still follow it.
//!
//! Owns the rounds of questions. A round first takes the read index from the leader's log and then asks each voter by a
//! separate call, whose answer counts for that call alone. The consensus library has such rounds as well, but it counts
//! acknowledgements of entries as answers, and an old one as the answer to a newer question (its queue of frames is keyed
//! by their last index): a leader that was cut off then answered reads by acknowledgements that had been held up on the way.
//!
//! Why a round is enough. A voter that answers follows this leader at that moment, so it has voted in no later term. A later
//! leader is elected by a majority of the same voters, or of those one change after them; each such majority has a voter in
//! common with the majority that answered. So no later leader had been elected when the first voter was asked, and every
//! write acknowledged by then is in this log at or below the read index.
//!
//! To a voter a question is a heartbeat, and keeps it from standing for election. A leader that hands over takes no writes
//! and sends no heartbeats, so that another is elected where its successor does not take over. So it asks no voter either.
//!
//! Invariant: an answer counts for the round that asked for it, and for no other.

pub(crate) mod asking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::transport::NodeId;

/// Unanswered questions to one voter at once. The rounds under way need four. Without a bound a silent voter would be asked
/// ten thousand times before the first question times out.
const UNANSWERED_MAX: usize = 16;

/// The number of unanswered questions of each voter; a voter without any is absent.
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<Mutex<BTreeMap<NodeId, usize>>>);

/// A question under way, counted until it is dropped.
struct Question {
    to: NodeId,
    all: Unanswered,
}

impl Unanswered {
    /// Counts a question to `to`; `None` when `UNANSWERED_MAX` are under way.
    fn ask(&self, to: NodeId) -> Option<Question> {
        let mut counts = self.0.lock();
        let count = counts.entry(to).or_default();
        if *count >= UNANSWERED_MAX {
            return None;
        }
        *count += 1;
        Some(Question { to, all: self.clone() })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock();
        if let Some(count) = counts.get_mut(&self.to) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.to);
            }
        }
    }
}

/// Whether `following` holds a majority of each set of voters.
fn is_majority_of_all(sets: &[BTreeSet<u64>], following: &BTreeSet<u64>) -> bool {
    let follows = |voters: &BTreeSet<u64>| 2 * voters.intersection(following).count() > voters.len();
    !sets.is_empty() && sets.iter().all(follows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sets_of_voters_must_follow_while_they_change() {
        let set = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<u64>>();
        let confirmed = |sets: &[&[u64]], following: &[u64]| {
            let sets: Vec<BTreeSet<u64>> = sets.iter().map(|ids| set(ids)).collect();
            is_majority_of_all(&sets, &set(following))
        };
        assert!(confirmed(&[&[1]], &[1]));
        assert!(!confirmed(&[&[1, 2]], &[1]), "half is no majority");
        assert!(confirmed(&[&[1, 2, 3]], &[1, 3]));
        assert!(!confirmed(&[&[1, 2, 3]], &[1, 4]), "a learner does not count");
        assert!(!confirmed(&[&[1, 2, 3], &[1, 4, 5]], &[1, 2, 3]));
        assert!(confirmed(&[&[1, 2, 3], &[1, 4, 5]], &[1, 2, 4]));
        assert!(!confirmed(&[], &[1]), "before there are voters");
    }

    #[test]
    fn a_voter_that_is_silent_is_not_asked_without_end() {
        let unanswered = Unanswered::default();
        let mut questions: Vec<Question> =
            (0..UNANSWERED_MAX).map(|_| unanswered.ask(NodeId(1)).unwrap()).collect();
        assert!(unanswered.ask(NodeId(1)).is_none());
        assert!(unanswered.ask(NodeId(2)).is_some());
        questions.pop();
        assert!(unanswered.ask(NodeId(1)).is_some());
        questions.clear();
        assert!(unanswered.0.lock().is_empty());
    }
}
