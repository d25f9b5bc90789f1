//! Compares the states of the members in rounds, and follows the results.
//!
//! Owns the questions to the other members and the answers to theirs, and what this member does about a result: quarantine, repair,
//! release. What is known of the comparison is the parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use openraft_rt::Instant;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::comparison::{Comparison, Report, judge, report};
use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::contact::times_to_wire;
use crate::member::core::Core;
use crate::member::machine::{CHECKPOINTS_MAX, Checkpoint};
use crate::member::network::control;
use crate::member::space::{Pressure, Shortness};
use crate::transport::{NodeId, Peer, Transport};

/// Pause between two rounds of the comparison; a round is one small call to each member. A member whose state went wrong
/// serves it for this long at most, and until the answers of a round are there.
const ROUND_PAUSE: Duration = Duration::from_secs(2);

/// Pause between two rounds while some disk has little room: until the other members know, they accept writes that the
/// disk cannot hold.
const SHORT_ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Rounds without a leader after which a quarantined member stands for election: time for many elections of the others.
const LEADERLESS_ROUNDS: u32 = 3;

/// Span of the figures of appends that are told to other members: they judge by them whether this member's disk is fast now.
const TOLD_SPAN: Duration = Duration::from_secs(60);

/// Time for one member's answer. A member that does not answer in time is left out of the round.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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
            clock_ms: (self.options.clock)(),
            syncs: Some(times_to_wire(&self.log.times(R::Instant::now(), TOLD_SPAN))),
            room: self.space.status(self.options.id()).room,
            report: self.report(),
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
