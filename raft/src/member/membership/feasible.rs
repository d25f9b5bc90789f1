//! Checks before a membership change begins that it can be committed.
//!
//! A change of the voters takes effect when it is in the leader's log, not when it is committed. From then on it needs a
//! majority of the old and of the new voters; without one of them the cluster takes no write, not even the one that
//! would take the change back. So the leader makes a change only when majorities of both answer it now. It checks:
//!
//! - the acknowledgements of heartbeats and entries that the consensus library counts. This costs nothing, but a voter
//!   that has just died is among them for some heartbeats;
//! - then the answers of all voters of both sets to a question asked now, in parallel. They decide.
//!
//! Owns the reasons for which a change is refused. It changes nothing, and a member may still die right after it
//! answered: see completion, `undo` in change, and docs/decisions/0016.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Instant;
use orch_proto::store as wire;
use wire::change_request::Kind as Change;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::{Membership, Place};
use crate::member::core::Core;
use crate::member::network::control;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Peer, Transport};

/// Heartbeats a voter may leave unanswered in a row and still count as answering: one is lost, the next is on its way.
const HEARTBEATS_MISSED_MAX: u64 = 4;

/// Time to wait for silent voters: a busy machine delays heartbeats, and a link is made anew within a second.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two checks while voters are silent.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Time for a voter's answer: many times what a voter takes on which a cluster could rely.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// The reason why a change must not be made now.
enum Obstacle {
    /// Waiting does not help: the member is unknown, or was removed.
    Lasting(String),
    /// Too few voters answer or have the log, so far.
    Silence(String),
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Completes when `change` may be made. Fails with the reason when it must not, or not within `SILENCE_TIMEOUT`.
    pub(crate) async fn wait_feasible(&self, change: &Change) -> Result<(), String> {
        let started = R::Instant::now();
        loop {
            match self.look(change).await {
                Ok(()) => return Ok(()),
                Err(Obstacle::Lasting(reason)) => return Err(reason),
                Err(Obstacle::Silence(reason)) if started.elapsed() >= SILENCE_TIMEOUT => {
                    return Err(reason);
                }
                Err(Obstacle::Silence(_)) => R::sleep(LOOK_PAUSE).await,
            }
        }
    }

    /// Fails when the leader must not make `change` now.
    async fn look(&self, change: &Change) -> Result<(), Obstacle> {
        let membership = self.membership();
        let sets = self.sets_needed(membership.membership(), change).map_err(Obstacle::Lasting)?;
        let answering = self.answering();
        self.have_majorities(&sets, &answering).map_err(Obstacle::Silence)?;
        self.note_voters();
        if let Some(voters) = sets.last() {
            self.are_acquainted(change, voters, &answering).map_err(Obstacle::Silence)?;
        }
        self.majorities_answer(&sets).await.map_err(Obstacle::Silence)
    }

    /// The sets of voters whose majorities `change` needs. Fails when the change must not be made, whoever answers.
    fn sets_needed(&self, membership: &Membership, change: &Change) -> Result<Vec<BTreeSet<u64>>, String> {
        let present = membership.get_joint_config();
        let with = |voters: BTreeSet<u64>| {
            let target = Some(voters).filter(|voters| !voters.is_empty());
            present.iter().cloned().chain(target).collect()
        };
        let mut voters = present.last().cloned().unwrap_or_default();
        match change {
            Change::AddLearner(member) => {
                self.check_new(membership, member)?;
                Ok(present.clone())
            }
            Change::Promote(id) if membership.get_node(id).is_none() => Err(self.no_member(*id)),
            Change::Promote(id) => {
                voters.insert(*id);
                Ok(with(voters))
            }
            Change::Remove(id) => {
                voters.remove(id);
                Ok(with(voters))
            }
            // The older set alone commits it, but the library takes no entry from a leader without majorities of both.
            Change::Undo(_) => Ok(present.clone()),
            Change::TransferLeader(_) => Ok(Vec::new()),
        }
    }

    /// Fails when `member` cannot be added.
    fn check_new(&self, membership: &Membership, member: &wire::Member) -> Result<(), String> {
        if self.standing(NodeId(member.id)) == Standing::Removed {
            return Err(format!("{} was removed, and no name is used again", member.name));
        }
        let has_address = |place: &Place| *place.address == *member.address;
        match membership.get_node(&member.id) {
            Some(known) if has_address(known) => Ok(()),
            Some(known) => Err(format!("{} is a member already, at {}", member.name, known.address)),
            // Each would get what is meant for the other.
            None => match membership.nodes().find(|(_, place)| has_address(place)) {
                Some((id, _)) => {
                    Err(format!("{} has the address {} already", self.peer_name(*id), member.address))
                }
                None => Ok(()),
            },
        }
    }

    /// The refusal to change a member that does not exist. It may show only `id`, the hash of a name that the caller knows.
    pub(crate) fn no_member(&self, id: u64) -> String {
        format!("no member is called {}", self.peer_name(id))
    }

    /// Asks the voters of all `sets` whether they answer. Fails when some set has no majority that does.
    pub(crate) async fn majorities_answer(&self, sets: &[BTreeSet<u64>]) -> Result<(), String> {
        let membership = self.membership();
        let voters: BTreeSet<u64> = sets.iter().flatten().copied().collect();
        let own = self.options.id();
        let others = voters.iter().filter(|id| **id != own.0);
        let others: Vec<Peer> = others
            .filter_map(|id| membership.membership().get_node(id).map(|place| place.peer(*id)))
            .collect();
        let answers = join_all(others.iter().map(|peer| self.answers(peer))).await;
        let answering = others.iter().zip(answers).filter(|(_, answers)| *answers);
        let answering = answering.map(|(peer, _)| peer.id.0).chain([own.0]).collect();
        self.have_majorities(sets, &answering)
    }

    /// Whether `peer` answers a question asked now and may vote for this member: a member that waits to be founded or added does
    /// not, nor does one that knows of this member's removal.
    async fn answers(&self, peer: &Peer) -> bool {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: 0 });
        let answer = control(&self.transport, peer, request, ANSWER_TIMEOUT).await;
        matches!(answer, Ok(Response::Identity(answer)) if !answer.waiting && !answer.removed)
    }

    /// Fails with the names of the first set of voters that has no majority in `answering`.
    fn have_majorities(&self, sets: &[BTreeSet<u64>], answering: &BTreeSet<u64>) -> Result<(), String> {
        let too_few = |voters: &&BTreeSet<u64>| voters.intersection(answering).count() <= voters.len() / 2;
        let Some(voters) = sets.iter().find(too_few) else { return Ok(()) };
        let name = |id: &u64| self.peer_name(*id);
        let silent: Vec<String> = voters.difference(answering).map(name).collect();
        let all: Vec<String> = voters.iter().map(name).collect();
        Err(format!(
            "the voters {} would have no majority that answers: {} is silent; nothing was changed",
            all.join(", "),
            silent.join(" and ")
        ))
    }

    /// The voters and learners that acknowledged a heartbeat or entries to this leader within the last
    /// `HEARTBEATS_MISSED_MAX` heartbeats, itself included.
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
