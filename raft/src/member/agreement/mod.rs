//! Compares the members' states, and quarantines and repairs this member where its state is wrong.
//!
//! Owns the comparison in the background, the report, and the quarantine. Every member asks every other for its
//! checkpoints and judges for itself; no member is told by another that it is wrong.
//!
//!   serving -- differs from a majority --> quarantined -- repaired, or agrees again --> serving
//!
//! A quarantined member serves no reads, watches or writes of clients, hands over the lead and does not stand for
//! election; its log is sound, so it goes on voting and acknowledging entries. Its watches end, and clients must begin
//! them anew. It takes a state from a member of the majority (see `repair`) and serves again once it agrees with a
//! majority. Where no majority agrees, no member is quarantined: which one is wrong cannot be known, and the operator is
//! told (docs/decisions/0013).
//!
//! Invariant: the quarantine is on the disk before the lead is handed over or a state is taken: a restart does not
//! end it.

mod comparison;
mod quarantine;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use orch_proto::store as wire;
use parking_lot::Mutex;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

pub(crate) use self::comparison::Comparison;
use self::comparison::{Report, judge, report};
use self::repair::Pause;
pub(crate) use self::repair::serve_pull;
use crate::Runtime;
use crate::disk::{Disk, MetaKey};
use crate::key::Revision;
use crate::member::core::Core;
use crate::member::log::{LogError, read_meta};
use crate::member::machine::{CHECKPOINTS_MAX, Checkpoint};
use crate::member::network::control;
use crate::member::space::{Pressure, Shortness};
use crate::store::ReadError;
use crate::transport::{NodeId, Peer, Transport};

/// Pause between two rounds of the comparison; a round is one small call to each member. A member whose state went wrong
/// serves it for this long at most, and until the answers of a round are there.
const ROUND_PAUSE: Duration = Duration::from_secs(2);

/// Pause between two rounds while some disk has little room: until the other members know, they accept writes that the
/// disk cannot hold.
const SHORT_ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Rounds without a leader after which a quarantined member stands for election: time for many elections of the others.
const LEADERLESS_ROUNDS: u32 = 3;

/// Time for one member's answer. A member that does not answer in time is left out of the round.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of the comparison on one member, as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreementStatus {
    /// The newest revision at which this member and a majority were seen to agree; 0 before the first.
    pub agreed: Revision,
    /// Members that differ from a majority, or, when there is none, from each other. Empty while all agree.
    pub differing: BTreeSet<NodeId>,
    /// Members differ and none of their states has a majority.
    pub split: bool,
    /// The reason of the quarantine; `None` while this member may serve.
    pub quarantine: Option<String>,
    /// How often this member found members that differ, since it started.
    pub divergences: u64,
    /// How often it replaced its own state, since it started.
    pub repairs: u64,
}

/// The result of the comparison and the quarantine, shared with all parts that ask whether this member may serve.
#[derive(Default)]
pub(crate) struct Agreement {
    is_quarantined: AtomicBool,
    /// The revision at which this member's state was found to differ.
    differs_at: AtomicU64,
    /// The members that agreed at that revision.
    judged_by: Mutex<BTreeSet<u64>>,
    /// Rounds in a row in which this quarantined member found no leader; else 0.
    leaderless_rounds: AtomicU32,
    /// See [`crate::Store::revocations`]. Rises at the start of a quarantine, when a peer's state has taken the place of the
    /// wrong one, and before the quarantine ends.
    revocations: AtomicU64,
    status: Mutex<AgreementStatus>,
    /// The pause between attempts to take a state.
    pause: Pause,
    /// Held while a state is sent to a member that repairs itself: one at a time, since each is read in whole.
    sending: tokio::sync::Mutex<()>,
}

impl Agreement {
    /// Loads the quarantine from the disk, if there is one: it outlasts a restart.
    pub(crate) fn load(disk: &impl Disk) -> Result<Self, LogError> {
        let agreement = Agreement::default();
        let found = read_meta::<wire::Quarantine>(disk, MetaKey::Quarantine, "quarantine")?;
        if let Some(found) = found.filter(|found| !found.reason.is_empty()) {
            agreement.suspend(found.reason, Revision(found.revision), found.majority.into_iter().collect());
        }
        Ok(agreement)
    }

    /// Whether this member's state may be served; the error has the reason of the quarantine.
    pub(crate) fn may_serve(&self) -> Result<(), ReadError> {
        if !self.is_quarantined() {
            return Ok(());
        }
        let reason = self.status.lock().quarantine.clone().unwrap_or_default();
        Err(ReadError { reason: format!("this member is quarantined: {reason}") })
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.is_quarantined.load(Ordering::Acquire)
    }

    pub(crate) fn status(&self) -> AgreementStatus {
        self.status.lock().clone()
    }

    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Acquire)
    }

    fn suspend(&self, reason: String, differs_at: Revision, judged_by: BTreeSet<u64>) {
        self.status.lock().quarantine = Some(reason);
        *self.judged_by.lock() = judged_by;
        self.differs_at.store(differs_at.0, Ordering::Release);
        // A watch reads the count and then asks whether it may start: one that may has a count from before the rise.
        self.is_quarantined.store(true, Ordering::Release);
        self.revoke();
    }

    /// Raises the count: nothing that was derived under an earlier one is used again.
    fn revoke(&self) {
        self.revocations.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the quarantine. Values that were derived from the wrong state during it are older than the count that clients
    /// are served under.
    fn resume(&self) {
        self.revoke();
        self.is_quarantined.store(false, Ordering::Release);
        self.status.lock().quarantine = None;
    }

    /// Notes the result of a round in the status; `true` when other members differ than before.
    fn note(&self, comparison: &Comparison, own: u64) -> bool {
        let mut status = self.status.lock();
        let differing = match comparison {
            // No member answered: the last finding stays.
            Comparison::Unknown => return false,
            Comparison::Agreed { revision } => {
                status.agreed = status.agreed.max(*revision);
                BTreeSet::new()
            }
            Comparison::OthersDiffer { members, .. } => members.clone(),
            Comparison::Split { groups, .. } => groups.iter().flatten().copied().collect(),
            Comparison::OwnDiffers { .. } => BTreeSet::from([own]),
        };
        status.split = matches!(comparison, Comparison::Split { .. });
        let differing: BTreeSet<NodeId> = differing.into_iter().map(NodeId).collect();
        let is_new = status.differing != differing;
        if is_new && !differing.is_empty() {
            status.divergences += 1;
        }
        status.differing = differing;
        is_new
    }
}

/// Compares states in rounds and follows the results, until the disk fails.
pub(crate) async fn keep_agreement<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    if core.agreement.is_quarantined() {
        core.raft.runtime_config().elect(false);
    }
    loop {
        let (comparison, is_led) = core.compare().await;
        if core.follow(comparison).await.is_err() {
            return;
        }
        core.stand_in(is_led).await;
        let short = core.space.is_short() || core.space.pressure() > Pressure::None;
        R::sleep(if short { SHORT_ROUND_PAUSE } else { ROUND_PAUSE }).await;
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Asks all members for their checkpoints. Returns the result, and whether the leader answered or is this member.
    async fn compare(&self) -> (Comparison, bool) {
        let membership = self.applied.membership();
        let membership = membership.membership();
        let own = self.options.id();
        let others = membership.nodes().filter(|(id, _)| **id != own.0).map(|(id, place)| place.peer(*id));
        let others: Vec<Peer> = others.collect();
        let asked = join_all(others.iter().map(|peer| self.ask_checkpoints(peer))).await;
        let answers =
            |id: NodeId| others.iter().zip(&asked).any(|(peer, answer)| peer.id == id && answer.is_some());
        let is_led = self.leader().is_some_and(|leader| leader.local || answers(leader.peer.id));
        self.note_round(&others, &asked);
        let short = |answer: &Option<wire::AgreementResponse>| {
            let answer = answer.as_ref()?;
            Some(Shortness { short: answer.short_of_space, very_short: answer.very_short_of_space })
        };
        self.space.hear(others.iter().zip(&asked).map(|(peer, answer)| (peer.id.0, short(answer))));
        let mut reports: BTreeMap<u64, Report> = others
            .iter()
            .zip(asked)
            .filter_map(|(peer, answer)| Some((peer.id.0, report(checkpoints_from_wire(&answer?)))))
            .collect();
        // This member's own are taken last, so that they cover the revisions that the others have applied meanwhile.
        reports.insert(own.0, report(self.applied.checkpoints()));
        (judge(own.0, membership.get_joint_config(), &reports), is_led)
    }

    /// Keeps a member whose state is wrong from standing for election. Its log is sound, though, and may be the only one
    /// left with the newest entries: after some rounds without a leader it stands, and hands over once another has them.
    async fn stand_in(&self, is_led: bool) {
        let rounds = match is_led || !self.agreement.is_quarantined() {
            true => 0,
            false => self.agreement.leaderless_rounds.load(Ordering::Relaxed).saturating_add(1),
        };
        self.agreement.leaderless_rounds.store(rounds, Ordering::Relaxed);
        if !self.agreement.is_quarantined() {
            return;
        }
        if self.leader().is_some_and(|leader| leader.local) {
            let everybody = self.others().into_iter().map(|peer| peer.id.0).collect();
            return self.step_down(&everybody).await;
        }
        if rounds == LEADERLESS_ROUNDS {
            tracing::warn!("no member leads: this one stands for election although it is quarantined");
        }
        self.raft.runtime_config().elect(rounds >= LEADERLESS_ROUNDS && !self.is_accused());
    }

    /// Asks `peer` for its checkpoints; `None` when it does not answer.
    pub(crate) async fn ask_checkpoints(&self, peer: &Peer) -> Option<wire::AgreementResponse> {
        let Shortness { short, very_short } = self.space.shortness();
        let request = wire::AgreementRequest { short_of_space: short, very_short_of_space: very_short };
        let request = Request::Agreement(request);
        match control(&self.transport, peer, request, ANSWER_TIMEOUT).await {
            Ok(Response::Agreement(answer)) => Some(answer),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(peer = %peer.name, %error, "asking for digests");
                None
            }
        }
    }

    /// Answers another member's request for checkpoints.
    pub(crate) fn answer_agreement(
        &self,
        from: NodeId,
        request: wire::AgreementRequest,
    ) -> wire::AgreementResponse {
        let wire::AgreementRequest { short_of_space: short, very_short_of_space: very_short } = request;
        self.space.hear_from(from, Shortness { short, very_short });
        let bytes = |digest: u128| Bytes::copy_from_slice(&digest.to_le_bytes());
        let checkpoint = |Checkpoint { revision, digest, changes }| wire::Checkpoint {
            revision: revision.0,
            digest: bytes(digest),
            changes: changes.map(bytes).unwrap_or_default(),
        };
        let checkpoints = self.applied.checkpoints().into_iter().map(checkpoint).collect();
        let Shortness { short, very_short } = self.space.shortness();
        wire::AgreementResponse {
            checkpoints,
            short_of_space: short,
            very_short_of_space: very_short,
            applied: self.applied.revision().0,
            feature_level_max: self.feature.level.supported(),
            contacts: self.words_for(from),
        }
    }

    /// Quarantines, repairs or releases this member, by the result of a round. `Err`: its disk failed.
    async fn follow(&self, comparison: Comparison) -> Result<(), ()> {
        if self.agreement.note(&comparison, self.options.id().0) {
            self.tell(&comparison);
        }
        match comparison {
            Comparison::OwnDiffers { revision, majority } => {
                if !self.agreement.is_quarantined() {
                    self.quarantine(revision, &majority).await?;
                }
                self.step_down(&majority).await;
                self.repair(&majority).await;
            }
            // Agreement at a revision before the quarantine does not end it.
            Comparison::Agreed { revision }
                if self.agreement.is_quarantined()
                    && revision.0 >= self.agreement.differs_at.load(Ordering::Acquire) =>
            {
                self.save_quarantine(String::new(), revision, &BTreeSet::new()).await?;
                self.agreement.resume();
                self.applied.announcements().wake_all();
                self.release_elections();
                tracing::warn!(revision = revision.0, "this member agrees with a majority and serves again");
            }
            // Members of the majority are away. Their judgement still holds, unless they differ from each other by now.
            Comparison::Split { groups, .. } if self.agreement.is_quarantined() => {
                let judges = self.agreement.judged_by.lock().clone();
                let sides = groups.iter().filter(|group| !group.is_disjoint(&judges)).count();
                if sides == 1 {
                    self.repair(&judges).await;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tell(&self, comparison: &Comparison) {
        let name = |id: &u64| self.peer_name(*id);
        match comparison {
            Comparison::Unknown => {}
            Comparison::Agreed { revision } => {
                tracing::info!(revision = revision.0, "the members agree again")
            }
            Comparison::OthersDiffer { revision, members } => {
                let members: Vec<String> = members.iter().map(name).collect();
                tracing::error!(
                    revision = revision.0,
                    ?members,
                    "members differ from a majority of the cluster"
                );
            }
            Comparison::OwnDiffers { revision, majority } => {
                let majority: Vec<String> = majority.iter().map(name).collect();
                tracing::error!(
                    revision = revision.0,
                    ?majority,
                    "this member's state differs from the majority's"
                );
            }
            Comparison::Split { revision, groups } => {
                let members: Vec<String> = groups.iter().flatten().map(name).collect();
                tracing::error!(
                    revision = revision.0,
                    ?members,
                    "the members that answer differ and none of their states has a majority: nothing is repaired; start \
                     those that are silent, and if all have answered restore a backup, or remove the members that \
                     are wrong"
                );
            }
        }
    }

    pub(crate) fn peer_name(&self, id: u64) -> String {
        let membership = self.membership();
        let place = membership.membership().get_node(&id);
        place.map_or_else(|| NodeId(id).to_string(), |place| place.name.to_string())
    }
}

/// The checkpoints of a peer's answer, up to the number that a peer may send. A checkpoint that cannot be read is left out.
fn checkpoints_from_wire(answer: &wire::AgreementResponse) -> Vec<Checkpoint> {
    let read = |checkpoint: &wire::Checkpoint| {
        let number = |bytes: &Bytes| Some(u128::from_le_bytes(bytes.as_ref().try_into().ok()?));
        let digest = number(&checkpoint.digest)?;
        let changes = number(&checkpoint.changes);
        Some(Checkpoint { revision: Revision(checkpoint.revision), digest, changes })
    };
    answer.checkpoints.iter().take(CHECKPOINTS_MAX + 1).filter_map(read).collect()
}
