//! Whether a change of the membership would be committed, before it is begun.
//!
//! A change of the voters takes effect when it is in the leader's log, not when it is committed. From then on it needs a
//! majority of the old and of the new voters; without one of them the cluster takes no write, not even the one that
//! would take the change back. So the leader makes a change only when majorities of both answer it now. Who answers is
//! known from the acknowledgements of heartbeats and entries that the consensus library counts.
//!
//! Owns the reasons for which a change is refused. It changes nothing, and a member may still die right after it was
//! counted: see `undo` in change, and docs/decisions/0016.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Instant;
use orch_proto::store as wire;
use wire::change_request::Kind as Change;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::Membership;
use crate::member::core::Core;
use crate::member::standing::Standing;
use crate::transport::{NodeId, Transport};

/// Heartbeats a voter may leave unanswered in a row and still count: one is lost, the next one is on its way.
const HEARTBEATS_MISSED_MAX: u64 = 4;

/// How long a silent voter is waited for: a busy machine delays heartbeats, and a link is made anew within a second.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Why a change must not be made.
enum Obstacle {
    /// It stays so.
    Lasting(String),
    /// Too few voters answer, so far.
    Silence(String),
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Completes when nothing speaks against `change`. Fails with the reason when it must not be made.
    pub(crate) async fn wait_feasible(&self, change: &Change) -> Result<(), String> {
        let started = R::Instant::now();
        loop {
            match self.obstacle(change) {
                None => return Ok(()),
                Some(Obstacle::Lasting(reason)) => return Err(reason),
                Some(Obstacle::Silence(reason)) if started.elapsed() >= SILENCE_TIMEOUT => {
                    return Err(reason);
                }
                Some(Obstacle::Silence(_)) => R::sleep(LOOK_PAUSE).await,
            }
        }
    }

    /// Why the leader must not make `change`, if there is a reason.
    fn obstacle(&self, change: &Change) -> Option<Obstacle> {
        let membership = self.membership();
        let membership = membership.membership();
        match change {
            Change::AddLearner(member) => {
                let id = NodeId(member.id);
                let known = membership.get_node(&member.id);
                if self.standing(id) == Standing::Removed {
                    let reason = format!("{} was removed, and no name is used again", member.name);
                    return Some(Obstacle::Lasting(reason));
                }
                if let Some(known) = known.filter(|known| *known.address != *member.address) {
                    let reason = format!("{} is a member already, at {}", member.name, known.address);
                    return Some(Obstacle::Lasting(reason));
                }
                self.lacks_quorum(membership, None)
            }
            Change::Promote(id) => {
                let mut voters = newest_voters(membership);
                voters.insert(*id);
                self.lacks_quorum(membership, Some(voters))
            }
            Change::Remove(id) => {
                let mut voters = newest_voters(membership);
                voters.remove(id);
                self.lacks_quorum(membership, Some(voters))
            }
            Change::TransferLeader(_) | Change::Undo(_) => None,
        }
    }

    /// Says of which set of voters too few answer: of the present ones, or of those that the change would make.
    fn lacks_quorum(&self, membership: &Membership, target: Option<BTreeSet<u64>>) -> Option<Obstacle> {
        let answering = self.answering();
        let too_few = |voters: &&BTreeSet<u64>| {
            voters.iter().filter(|id| answering.contains(id)).count() <= voters.len() / 2
        };
        let target = target.filter(|target| !target.is_empty());
        let voters = membership.get_joint_config().iter().chain(&target).find(too_few)?;
        let name = |id: &u64| {
            membership.get_node(id).map_or_else(|| NodeId(*id).to_string(), |at| at.name.to_string())
        };
        let silent: Vec<String> = voters.iter().filter(|id| !answering.contains(id)).map(name).collect();
        let all: Vec<String> = voters.iter().map(name).collect();
        Some(Obstacle::Silence(format!(
            "the voters {} would have no majority that answers: {} is silent; nothing was changed",
            all.join(", "),
            silent.join(" and ")
        )))
    }

    /// The voters and learners that have acknowledged something to this leader a moment ago, itself included.
    pub(crate) fn answering(&self) -> BTreeSet<u64> {
        let silence_max = Duration::from_millis(self.options.timing.heartbeat_ms * HEARTBEATS_MISSED_MAX);
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let acknowledged = metrics.heartbeat.iter().flatten();
        let mut answering: BTreeSet<u64> = acknowledged
            .filter(|(_, at)| at.is_some_and(|at| at.elapsed() <= silence_max))
            .map(|(id, _)| *id)
            .collect();
        answering.insert(self.options.id().0);
        answering
    }
}

/// The voters that the change under way leads to, or those there are.
fn newest_voters(membership: &Membership) -> BTreeSet<u64> {
    membership.get_joint_config().last().cloned().unwrap_or_default()
}
