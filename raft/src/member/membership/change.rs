//! Membership changes and leader transfer.
//!
//! Owns the route of a request: any member takes it, the leader does it. The leader changes the membership in a separate
//! task, one change at a time: a change of the voters has two steps, and no client's deadline must end it between them. A
//! change that a lost leader leaves half done is completed by the next leader (see completion).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft_rt::Select2;
use orch_proto::store as wire;
use tokio::sync::oneshot;
use wire::change_request::Kind as Change;
use wire::change_response::Outcome;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::codec::peer_from_wire;
use crate::member::consensus::{Place, Types};
use crate::member::core::{Core, Leader, within};
use crate::member::identity::{registered, used_up};
use crate::member::network::control;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Transport};

/// Time for a change, which is two entries and their commits, finding a leader included. After it the caller is told that
/// the outcome is unknown; the leader goes on.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a promotion waits for a learner that is still catching up: half of what a change may take.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// How many entries a learner may lack when it becomes a voter: replicated in well under a second.
const CATCH_UP_ENTRIES_MAX: u64 = 1000;

/// The refusal to promote a learner.
const NOT_READY: &str = "the member has not caught up with the log yet, or its disk is not registered";

/// The refusal while another change is under way.
const BUSY: &str = "another change of the members is under way";

/// The refusal when the change was certainly not made.
const NO_LEADER: &str = "no leader was reached in time; nothing was changed";

/// Pause between two attempts to reach a leader, and between two looks at a learner that catches up.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why the membership did not change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The change was certainly not made.
    #[error("{reason}")]
    Refused {
        /// Why: another change is under way, the member is unknown.
        reason: String,
    },
    /// The change may or may not have been made; the status tells.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// The failure: a lost answer, a deadline.
        reason: String,
    },
}

type WriteError<R> = RaftError<Types<R>, ClientWriteError<Types<R>>>;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Has the leader make a change, whichever member that is.
    pub(crate) async fn change(self: &Arc<Self>, change: Change) -> Result<(), ChangeError> {
        let is_begun = AtomicBool::new(false);
        let changing = self.try_change(change, &is_begun);
        let changed = within::<R, _>(CHANGE_TIMEOUT, changing.boxed()).await;
        changed.unwrap_or_else(|| match is_begun.load(Ordering::Acquire) {
            true => Err(unknown("not done in time")),
            false => Err(ChangeError::Refused { reason: NO_LEADER.to_owned() }),
        })
    }

    /// Sets `is_begun` once a leader may have begun the change.
    async fn try_change(self: &Arc<Self>, change: Change, is_begun: &AtomicBool) -> Result<(), ChangeError> {
        loop {
            let outcome = match self.leader() {
                None => Outcome::Leader(0),
                Some(leader) if leader.local => {
                    is_begun.store(true, Ordering::Release);
                    self.make_change(leader, change.clone()).await
                }
                Some(leader) => {
                    let was_begun = is_begun.swap(true, Ordering::AcqRel);
                    let request = wire::ChangeRequest { kind: Some(change.clone()) };
                    let answer =
                        control(&self.transport, &leader.peer, Request::Change(request), CHANGE_TIMEOUT)
                            .await;
                    match answer {
                        Ok(Response::Change(wire::ChangeResponse { outcome: Some(outcome) })) => outcome,
                        Ok(_) => return Err(unknown("the leader answered something else")),
                        // A dead leader is taken for the leader until the next is elected.
                        Err(error) if error.is_undelivered() => {
                            is_begun.store(was_begun, Ordering::Release);
                            Outcome::Leader(0)
                        }
                        // The leader's answer to a member that it has just removed may be lost with their connection.
                        Err(_) if self.is_own_removal(&change) && self.survey().await.is_some() => {
                            return Ok(());
                        }
                        Err(error) => return Err(unknown(error)),
                    }
                }
            };
            match outcome {
                Outcome::Done(_) => return Ok(()),
                Outcome::Refused(reason) => return Err(ChangeError::Refused { reason }),
                Outcome::Leader(_) => R::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Whether `change` removes this member.
    fn is_own_removal(&self, change: &Change) -> bool {
        matches!(change, Change::Remove(id) if *id == self.options.id().0)
    }

    /// Answers another member's request for a change.
    pub(crate) async fn answer_change(
        self: &Arc<Self>,
        request: wire::ChangeRequest,
    ) -> wire::ChangeResponse {
        let outcome = match (self.leader(), request.kind) {
            (_, None) => Outcome::Refused("an empty change".to_owned()),
            (Some(leader), Some(change)) if leader.local => self.make_change(leader, change).await,
            (leader, Some(_)) => Outcome::Leader(leader.map_or(0, |leader| leader.peer.id.0)),
        };
        wire::ChangeResponse { outcome: Some(outcome) }
    }

    /// Makes a change, as the leader, in a task that goes on when the caller is cancelled. The task ends with the lead: an
    /// entry it appended then waits for another leader to commit or truncate it.
    async fn make_change(self: &Arc<Self>, leader: Leader, change: Change) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let core = self.clone();
        drop(R::spawn(async move {
            let over = R::select2(core.stop.stopped(), core.deposed(&leader).boxed());
            let outcome = match R::select2(core.lead_change(change).boxed(), over.boxed()).await {
                Select2::First(outcome) => outcome,
                Select2::Second(_) => Outcome::Leader(0),
            };
            // The send fails when the request has passed its deadline and its caller is gone.
            drop(done.send(outcome));
        }));
        outcome.await.unwrap_or(Outcome::Leader(0))
    }

    async fn lead_change(&self, change: Change) -> Outcome {
        match change {
            Change::TransferLeader(id) if id == self.options.id().0 => return Outcome::Done(wire::Done {}),
            Change::TransferLeader(id) => {
                return match self.give_lead(NodeId(id)).await {
                    Ok(()) => Outcome::Done(wire::Done {}),
                    Err(reason) => Outcome::Refused(reason),
                };
            }
            Change::Promote(id) if !self.catches_up(id).await => {
                return Outcome::Refused(NOT_READY.to_owned());
            }
            Change::Remove(id) => match self.standing(NodeId(id)) {
                Standing::Member => {}
                Standing::Removed => return Outcome::Done(wire::Done {}),
                Standing::Stranger => return Outcome::Refused(self.no_member(id)),
            },
            Change::AddLearner(_) | Change::Promote(_) | Change::Undo(_) => {}
        }
        let Ok(_alone) = self.changes.changing.try_lock() else { return Outcome::Refused(BUSY.to_owned()) };
        if let Err(reason) = self.wait_feasible(&change).await {
            return Outcome::Refused(reason);
        }
        if let Change::Remove(id) = change
            && let Err(reason) = self.use_up_name(NodeId(id)).await
        {
            return Outcome::Refused(reason);
        }
        self.change_membership(change).await
    }

    /// Registers a member that is about to be removed and never registered: otherwise its removal would leave no record, and
    /// it would count as a stranger.
    async fn use_up_name(&self, id: NodeId) -> Result<(), String> {
        let Some(transaction) = used_up(&self.applied.state(), id, (self.options.clock)()) else {
            return Ok(());
        };
        self.propose(transaction).await.map(drop).map_err(|error| error.to_string())
    }

    async fn change_membership(&self, change: Change) -> Outcome {
        let done = match change {
            Change::AddLearner(member) => {
                let peer = peer_from_wire(member);
                let _alone = self.feature.alone.lock().await;
                if let Some(reason) = self.refuses_level_of(&peer).await {
                    return Outcome::Refused(reason);
                }
                self.raft.add_learner(peer.id.0, Place::of(&peer), false).await.map(drop)
            }
            Change::Promote(id) => {
                let voters = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
                self.raft.change_membership(voters, true).await.map(drop)
            }
            Change::Remove(id) if id == self.options.id().0 => return self.cede().await,
            Change::Remove(id) => self.raft.change_membership(self.removal(id), false).await.map(drop),
            Change::Undo(_) => return self.undo().await,
            // Unreachable: `lead_change` returns before for a transfer.
            Change::TransferLeader(_) => Ok(()),
        };
        match done {
            Ok(()) => Outcome::Done(wire::Done {}),
            Err(error) => refusal::<R>(&error),
        }
    }

    /// Waits until the leader's log, but for its newest entries, is on the disk of `id`. A voter without data takes part
    /// in nothing until a leader confirms it (see enrolment): if it were needed for the quorum that elects a leader, no
    /// leader could ever be elected.
    async fn catches_up(&self, id: u64) -> bool {
        // A stranger is not waited for: `sets_needed` refuses it.
        let is_member =
            || self.raft.metrics().borrow_watched().membership_config.membership().get_node(&id).is_some();
        let caught_up = async {
            while is_member() && !(self.has_caught_up(id) && self.is_disk_known(id)) {
                R::sleep(RETRY_PAUSE).await;
            }
        };
        within::<R, _>(CATCH_UP_TIMEOUT, caught_up).await.is_some()
    }

    /// A vote is given to a disk, not to a name: the disk must be registered first (see identity).
    fn is_disk_known(&self, id: u64) -> bool {
        registered(&self.applied.state(), NodeId(id)).is_some_and(|known| !known.directory.is_empty())
    }

    fn has_caught_up(&self, id: u64) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = metrics.replication.as_ref().and_then(|all| all.get(&id)?.as_ref());
        let end = metrics.last_log_index.unwrap_or(0);
        matched.is_some_and(|matched| matched.index.saturating_add(CATCH_UP_ENTRIES_MAX) >= end)
    }

    /// Hands over to the voter that has most of the log, instead of removing this leader at once: the others would be
    /// without a leader until an election. The caller then asks the new leader for the removal.
    async fn cede(&self) -> Outcome {
        let Some(successor) = self.find_successor(|_| true).await else {
            return Outcome::Refused(
                "the leader cannot be removed: no other voter could take over".to_owned(),
            );
        };
        match self.transfer_leader(successor.id).await {
            Ok(()) => Outcome::Leader(successor.id.0),
            Err(reason) => Outcome::Refused(reason),
        }
    }

    /// Takes back a committed joint membership that was left because its leader was lost or a member died in the middle: the
    /// older set of voters is the only one again.
    ///
    /// Both sets have a majority in common with every set that may decide meanwhile, so this is as safe as going on.
    async fn undo(&self) -> Outcome {
        let membership = self.membership();
        let [before, _after] = membership.membership().get_joint_config().as_slice() else {
            return Outcome::Refused("no change of the voters is under way".to_owned());
        };
        match self.raft.change_membership(before.clone(), true).await {
            Ok(_) => Outcome::Done(wire::Done {}),
            Err(error) => refusal::<R>(&error),
        }
    }

    fn removal(&self, id: u64) -> ChangeMembers<u64, Place> {
        let is_voter = self.raft.voter_ids().any(|voter| voter == id);
        let ids = BTreeSet::from([id]);
        if is_voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) }
    }
}

fn refusal<R: Runtime>(error: &WriteError<R>) -> Outcome {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => {
            Outcome::Leader(to.leader_id.unwrap_or(0))
        }
        other => Outcome::Refused(other.to_string()),
    }
}

fn unknown(reason: impl ToString) -> ChangeError {
    ChangeError::Unknown { reason: reason.to_string() }
}
