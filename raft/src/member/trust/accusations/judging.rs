//! Judges accusations: asks the voters whether they support one, and ends this member where enough of them do.
//!
//! Owns the questions and the consequences. The open accusations are the parent's.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::{Accusation, Verdict};
use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::network::control;
use crate::member::trust::peer_reports::ReportedStanding;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Peer, Transport};

/// Time for one voter's confirmation: it asks its own leader before it answers.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between two judgements of an accusation that stays open.
const JUDGE_PAUSE: Duration = Duration::from_secs(1);

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Judges the accusation of `from` that this disk is an older copy, because of `reason`. Marks the disk if condemned.
    pub(crate) async fn judge_older_copy(self: &Arc<Self>, from: NodeId, reason: &str) -> Verdict {
        let name = self.peer_name(from.0);
        reason.clone_into(
            &mut self.trust.accusations.older_copy.lock().entry(from).or_insert(Accusation::NEW).reason,
        );
        let verdict = self.judge(from).await;
        self.trust.accusations.older_copy.lock().entry(from).or_insert(Accusation::NEW).verdict = verdict;
        match verdict {
            Verdict::Condemned => self.refuse_older_copy(format!("{name}: {reason}")).await,
            Verdict::Open if self.warnings.may_warn("accused") => tracing::error!(
                %name,
                reason,
                "a member says that this disk is an older copy of itself, and nobody can be asked whether that one still is \
                 a member: this one takes part in nothing until another member answers. Start the others"
            ),
            Verdict::Dismissed => self.resume_elections(),
            Verdict::Open => {}
        }
        verdict
    }

    /// Judges the accusation of `from` again, which no longer answers: members that know its standing may answer by now.
    pub(crate) async fn judge_again(self: &Arc<Self>, from: NodeId) -> Verdict {
        let said = self.trust.accusations.older_copy.lock().get(&from).cloned();
        match said.filter(|said| said.is_open() && !said.is_watched) {
            Some(said) => self.judge_older_copy(from, &said.reason).await,
            None => Verdict::Dismissed,
        }
    }

    /// Judges the accusation of `from`, for which another member vouches, until it is settled or no member vouches any more.
    pub(crate) fn watch_accusation(self: &Arc<Self>, from: NodeId, reason: String) {
        let was_watched = {
            let mut accusations = self.trust.accusations.older_copy.lock();
            let accusation = accusations.entry(from).or_insert(Accusation::NEW);
            std::mem::replace(&mut accusation.is_watched, true)
        };
        if was_watched {
            return;
        }
        // In its own task: the caller may be cancelled, and the judgement must be finished.
        let core = self.clone();
        drop(R::spawn(async move {
            let settled = core.settle(from, &reason).boxed();
            R::select2(core.stop.stopped(), settled).await;
        }));
    }

    async fn settle(self: &Arc<Self>, from: NodeId, reason: &str) {
        while self.judge_older_copy(from, reason).await == Verdict::Open {
            if self.reported_standing(from).await != ReportedStanding::Member {
                return self.drop_accusation(from);
            }
            R::sleep(JUDGE_PAUSE).await;
        }
        if let Some(accusation) = self.trust.accusations.older_copy.lock().get_mut(&from) {
            accusation.is_watched = false;
        }
    }

    /// Removes the accusation of `from`, which no longer contradicts this disk.
    pub(crate) fn drop_accusation(&self, from: NodeId) {
        self.trust.accusations.older_copy.lock().remove(&from);
        self.resume_elections();
    }

    /// Lets this member stand for election again, if no other accusation is open. While the comparison of the disk with the
    /// other members runs, the comparison does this.
    fn resume_elections(&self) {
        if self.returning.is_finished() {
            self.release_elections();
        }
    }

    /// Whether an accusation of an older copy is open whose accuser is a member by this member's log, or by another
    /// member's word.
    pub(crate) fn is_accused(&self) -> bool {
        let accusations = self.trust.accusations.older_copy.lock();
        accusations.iter().any(|(accuser, accusation)| {
            let is_known = || accusation.is_watched || self.standing(*accuser) == Standing::Member;
            accusation.is_open() && is_known()
        })
    }

    async fn judge(self: &Arc<Self>, from: NodeId) -> Verdict {
        let heard = self.tally_about(from).await;
        if heard.removed > 0 && heard.removed >= heard.member {
            return Verdict::Dismissed;
        }
        let witnesses = {
            let accusers = self.trust.accusations.older_copy.lock();
            let others = accusers.iter().filter(|(id, accusation)| **id != from && accusation.is_open());
            others.map(|(id, _)| *id).chain([from]).filter(|id| self.is_witness(*id)).count()
        };
        let needed = self.replies_needed();
        if witnesses >= needed || witnesses + self.confirmations(from).await >= needed {
            return Verdict::Condemned;
        }
        Verdict::Open
    }

    /// The number of voters that answer, with a leader behind them, that `id` is a member with a vote.
    async fn confirmations(&self, id: NodeId) -> usize {
        let others = self.others().into_iter().filter(|other| other.id != id && self.is_witness(other.id));
        let others: Vec<Peer> = others.collect();
        let asked = others.iter().map(|peer| async move {
            let request = Request::Identity(wire::IdentityRequest { unconfirmed: false, about: id.0 });
            let answer = control(&self.transport, peer, request, CONFIRM_TIMEOUT).await;
            matches!(answer, Ok(Response::Identity(answer)) if answer.confirmed && answer.about_member && !answer.about_learner)
        });
        join_all(asked).await.into_iter().filter(|confirmed| *confirmed).count()
    }

    /// Notes whether `peer` says that this member was removed; `true` once enough voters say so.
    pub(crate) fn note_removal_said(&self, peer: &Peer, says_so: bool) -> bool {
        let said_by = {
            let mut said_by = self.trust.accusations.removed.lock();
            if !says_so {
                said_by.remove(&peer.id);
                return false;
            }
            said_by.insert(peer.id);
            said_by.clone()
        };
        // A removed member is in touch with no leader: no leader replicates to it.
        if self.is_in_touch() {
            return false;
        }
        let witnesses = said_by.iter().filter(|id| self.is_witness(**id)).count();
        let is_settled = witnesses >= self.replies_needed();
        if !is_settled && self.warnings.may_warn("removed, it is said") {
            tracing::warn!(
                name = %peer.name,
                "a member says that this one was removed; another one is asked before it is believed. If it was, stop this \
                 process"
            );
        }
        is_settled
    }
}
