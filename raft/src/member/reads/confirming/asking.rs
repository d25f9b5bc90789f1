//! Asks the voters whether they follow this leader.
//!
//! Owns the questions of one confirmation. How many questions a voter may leave unanswered is the parent's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::raft::{AppendEntriesRequest, ReadPolicy};

use super::is_majority_of_all;
use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::{LogId, StoredMembership, Types, Vote, log_id, term_of};
use crate::member::core::{Core, Raft};
use crate::store::ReadError;
use crate::transport::{NodeId, Transport};

/// Time for a voter's answer. A voter that is up answers at once; after a failed round the barrier starts another.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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
