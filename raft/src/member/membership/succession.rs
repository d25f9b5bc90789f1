//! Detects that the leader's process is gone, without waiting for its lease to end.
//!
//! Owns the early start of an election. A silent leader is replaced once its lease and an election timeout have passed. But
//! a process that was killed leaves evidence: its connections break, and connections to its address are refused. A
//! follower that sees both voids the lease it granted and starts a pre-vote at once.
//!
//! Why that is safe: votes are as before, so no two leaders share a term whatever is found here. A lease answers no reads in
//! this store; it only protects a working leader from elections. A follower that is mistaken does no harm: a pre-vote
//! changes no term, and needs a majority that has lost the leader as well. For the rest of the term that follower grants
//! pre-votes and counts its election timeout without the lease.
//!
//! Invariant: a follower that can connect to its leader, or hears nothing of its host, voids no lease.

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::{Core, Leader};
use crate::member::network::{ControlError, control};
use crate::transport::{NodeId, Transport, TransportError};

/// Probes of a leader whose connection broke, at most. A process that is ending may still accept a connection and break it;
/// the next probe is refused.
const PROBES_MAX: usize = 3;

/// Between two probes: longer than a link's first pause after a failure, during which the link fails without connecting.
const PROBE_PAUSE: Duration = Duration::from_millis(60);

/// Timeout of a probe. A connection to a process that is gone is refused at once; a process that answers slowly lives.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// Pause before the first round of pre-votes: the other followers detect the loss within a few milliseconds.
const SETTLE: Duration = Duration::from_millis(10);

/// A follower's turn to ask for pre-votes. Followers take turns in the order of their ids, repeatedly, so that they do not
/// split the vote: several times as long as a round of votes.
const TURN: Duration = Duration::from_millis(25);

/// Turns of this follower, after which only the election timeouts elect.
const TURNS_MAX: usize = 8;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Called when the append stream of `from` has ended: stands for election if `from` was the leader and its process is gone.
    pub(crate) async fn check_leader(&self, from: NodeId) {
        let Some(leader) = self.leader() else { return };
        // `trigger().elect` asks for votes even where the library is configured not to stand for election.
        if self.agreement.is_quarantined() {
            return;
        }
        if leader.local || leader.peer.id != from || !self.is_gone(&leader).await {
            return;
        }
        let metrics = self.raft.server_metrics();
        let (vote, turn, followers) = {
            let now = metrics.borrow_watched();
            let voters = now.membership_config.membership().voter_ids();
            let others: Vec<u64> = voters.filter(|id| *id != leader.peer.id.0).collect();
            // A learner has no vote to give or to ask for.
            let Some(turn) = others.iter().position(|id| *id == self.options.id().0) else { return };
            let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            (now.vote, count(turn), count(others.len()))
        };
        if self.leader().as_ref() != Some(&leader) {
            return;
        }
        tracing::info!(leader = %leader.peer.name, "the leader's process is gone");
        // As when that leader hands over: voids its lease here, if this member's vote is still the one that it gave to it.
        let voided =
            self.raft.handle_transfer_leader(TransferLeaderRequest::new(vote, leader.peer.id.0, None));
        if let Err(error) = voided.await {
            return self.fatal.report(error);
        }
        R::sleep(SETTLE.saturating_add(TURN.saturating_mul(turn))).await;
        for _ in 0..TURNS_MAX {
            if metrics.borrow_watched().vote != vote || self.agreement.is_quarantined() {
                return;
            }
            if let Err(error) = self.raft.trigger().elect(true).await {
                return self.fatal.report(error);
            }
            R::sleep(TURN.saturating_mul(followers)).await;
        }
    }

    /// Whether the leader's address refuses connections. `false` if it does not within [`PROBES_MAX`] probes, or if another
    /// leader is known.
    async fn is_gone(&self, leader: &Leader) -> bool {
        for _ in 0..PROBES_MAX {
            let request = Request::ReadIndex(wire::ReadIndexRequest {});
            match control(&self.transport, &leader.peer, request, PROBE_TIMEOUT).await {
                Err(ControlError::Transport(TransportError::Refused { .. })) => return true,
                Err(ControlError::Transport(
                    TransportError::Unreachable { .. } | TransportError::Lost { .. },
                )) => {}
                Ok(_) | Err(ControlError::Decode(_)) => return false,
            }
            R::sleep(PROBE_PAUSE).await;
            if self.leader().as_ref() != Some(leader) {
                return false;
            }
        }
        false
    }
}
