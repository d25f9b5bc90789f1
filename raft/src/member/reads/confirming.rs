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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::raft::{AppendEntriesRequest, ReadPolicy};
use parking_lot::Mutex;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::{LogId, StoredMembership, Types, Vote, log_id, term_of};
use crate::member::core::{Core, Raft};
use crate::store::ReadError;
use crate::transport::{NodeId, Transport};

/// Time for a voter's answer. A voter that is up answers at once; after a failed round the barrier starts another.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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

/// This member's leadership, at one moment of the consensus task.
pub(crate) struct Reign {
    pub(crate) vote: Vote,
    /// The last log id; `None` while the log is empty.
    pub(crate) last: Option<LogId>,
    committed: Option<LogId>,
    /// At or above every write acknowledged before.
    read_index: u64,
    pub(crate) membership: Arc<StoredMembership>,
}

/// Whether `following` holds a majority of each set of voters.
fn is_majority_of_all(sets: &[BTreeSet<u64>], following: &BTreeSet<u64>) -> bool {
    let follows = |voters: &BTreeSet<u64>| 2 * voters.intersection(following).count() > voters.len();
    !sets.is_empty() && sets.iter().all(follows)
}

/// The id of the voter asked, and whether it follows.
type Asked = BoxFuture<'static, (u64, bool)>;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// A read index, at or above every write acknowledged before the call, with the leader's term: a majority has answered
    /// since the call that it follows this member.
    pub(crate) async fn confirm(&self) -> Result<LogId, ReadError> {
        let (reign, hands_over) =
            futures::join!(reign(&self.raft, self.options.id().0), hands_over(&self.raft));
        let reign = reign?;
        if hands_over {
            return Err(ReadError { reason: "this member hands over the lead".to_owned() });
        }
        let mut following = BTreeSet::from([self.options.id().0]);
        let mut asked = self.ask_voters(&reign);
        let sets = reign.membership.membership().get_joint_config();
        while !is_majority_of_all(sets, &following) {
            match asked.next().await {
                Some((voter, true)) => {
                    following.insert(voter);
                }
                Some((_, false)) => {}
                None => return Err(ReadError { reason: "no majority follows this member".to_owned() }),
            }
        }
        if !asked.is_empty() {
            // Dropping a call resets its stream, and the slowest voter's call is still under way: let it finish.
            drop(R::spawn(async move { while asked.next().await.is_some() {} }));
        }
        Ok(log_id(reign.vote.leader_id.term, reign.read_index))
    }

    /// Asks all other voters whether they follow.
    fn ask_voters(&self, reign: &Reign) -> FuturesUnordered<Asked> {
        let (own, metrics) = (self.options.id().0, self.raft.metrics());
        let metrics = metrics.borrow_watched();
        let membership = reign.membership.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().filter(|voter| *voter != own).collect();
        let asked = voters.into_iter().filter_map(|voter| {
            let place = membership.get_node(&voter)?;
            let question = self.barriers.unanswered.ask(NodeId(voter))?;
            // The last entry it acknowledged: a voter that has lost entries answers with a conflict.
            let matched = metrics.replication.as_ref().and_then(|all| *all.get(&voter)?);
            let request = AppendEntriesRequest::<Types<R>> {
                vote: reign.vote,
                prev_log_id: matched,
                leader_commit: reign.committed,
                entries: Vec::new(),
            };
            let link = self.links.link(voter, place, false);
            let answer = async move {
                let answer = link.heartbeat(&request, ANSWER_TIMEOUT).await;
                drop(question);
                (voter, answer.is_ok_and(|answer| answer.is_success()))
            };
            Some(answer.boxed())
        });
        asked.collect()
    }
}

/// Whether the consensus task refuses writes: it hands over the lead, or does not lead.
pub(crate) async fn hands_over<R: Runtime, D: Disk>(raft: &Raft<R, D>) -> bool {
    // In both cases it refuses a lease read, without asking a voter. The lease itself decides nothing.
    let by_lease = raft.get_read_linearizer(ReadPolicy::LeaseRead).await;
    matches!(by_lease, Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))))
}

/// The leadership of the member `own`, as the consensus task has it now; an error where `own` does not lead.
pub(crate) async fn reign<R: Runtime, D: Disk>(raft: &Raft<R, D>, own: u64) -> Result<Reign, ReadError> {
    let asked = raft.with_raft_state(move |state| {
        let vote = *state.vote_ref();
        let leads =
            vote.committed && vote.leader_id.voted_for == own && state.server_state == ServerState::Leader;
        let committed = state.cluster_committed().copied();
        // Before an entry of its own term is committed, a leader does not know which entries its predecessor acknowledged;
        // all of them are in its log, so the read index is its last.
        let last = state.log_ids.last().copied();
        let place = committed.filter(|id| term_of(id) == vote.leader_id.term).or(last);
        let membership = state.membership_state.effective().clone();
        leads.then_some(Reign {
            vote,
            last,
            committed,
            read_index: place.map_or(0, |id| id.index),
            membership,
        })
    });
    let found = asked.await.map_err(|error| ReadError { reason: error.to_string() })?;
    found.ok_or_else(|| ReadError { reason: "this member does not lead".to_owned() })
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
