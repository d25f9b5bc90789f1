//! Asks the members about a peer.
//!
//! Owns the questions, and when an answer is old enough to be asked for again. The answers that are kept are the parent's.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft_rt::Instant;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::{ANSWER_AGE, Answer, Reply, ReportedStanding, Tally, make_room};
use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::network::control;
use crate::transport::{NodeId, Peer, Transport};

/// Time for one member's answer. A candidate waits less for its vote: the answer is there when it asks again.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);

/// Pause between two looks whether the answers to a question under way have come.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Number of voters in the own log from which on one of them may have been removed without this member's vote.
const MAY_BE_OLD_FROM: usize = 3;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The standing of `peer` by the other members' answers, at most `ANSWER_AGE` and `ASKED_AGAIN_AGE` old together.
    pub(crate) async fn reported_standing(self: &Arc<Self>, peer: NodeId) -> ReportedStanding {
        self.tally_about(peer).await.standing()
    }

    /// The counted answers about `peer`. Asks the members where there are none yet, and again where they are old.
    pub(crate) async fn tally_about(self: &Arc<Self>, peer: NodeId) -> Tally {
        let is_voter = self.is_voter(peer);
        loop {
            {
                let mut answers = self.trust.peer_reports.0.lock();
                answers.retain(|_, answer| answer.holds());
                if !is_voter && !answers.contains_key(&peer) && !make_room(&mut answers) {
                    return Tally::default();
                }
                match answers.get_mut(&peer) {
                    Some(answer) => {
                        if let Some(tally) = answer.tally {
                            let is_old = answer.at.elapsed() >= ANSWER_AGE;
                            if is_old && !std::mem::replace(&mut answer.is_asked_again, true) {
                                self.begin_asking(peer);
                            }
                            return tally;
                        }
                    }
                    None => {
                        let now = R::Instant::now();
                        answers.insert(peer, Answer { tally: None, at: now, is_asked_again: false });
                        self.begin_asking(peer);
                    }
                }
            }
            R::sleep(LOOK_PAUSE).await;
        }
    }

    /// Asks in a separate task: a candidate gives up sooner on its vote, and asks again.
    fn begin_asking(self: &Arc<Self>, peer: NodeId) {
        let core = self.clone();
        drop(R::spawn(async move { core.ask_all_about(peer).await }));
    }

    /// Whether `peer`, which may speak as a member, may also end this member: enough voters of the own log support it, `peer`
    /// itself counted. Goes by the other members' last answers and asks none.
    pub(crate) fn is_believed(&self, peer: NodeId) -> bool {
        let heard = {
            let answers = self.trust.peer_reports.0.lock();
            let answer = answers.get(&peer).filter(|answer| answer.holds());
            answer
                .and_then(|answer| answer.tally)
                .filter(|tally| tally.standing() == ReportedStanding::Member)
        };
        let others = heard.map_or(0, |tally| tally.member);
        let needed = self.replies_needed();
        needed == 1 || usize::from(self.is_witness(peer)) + others >= needed
    }

    /// The number of equal answers that suffice: two where the own log may be old, else one.
    pub(crate) fn replies_needed(&self) -> usize {
        let voters = self.membership().membership().voter_ids().count();
        if voters < MAY_BE_OLD_FROM || self.is_in_touch() { 1 } else { 2 }
    }

    /// Whether answers of `id` count: those of voters of the own log do, those of learners never.
    pub(crate) fn is_witness(&self, id: NodeId) -> bool {
        // Before it has a log, a member knows only the voters named in its enrolment or founding.
        self.is_voter(id) || self.membership().membership().nodes().next().is_none()
    }

    /// Whether `id` has a vote, as far as the own log tells.
    pub(crate) fn is_voter(&self, id: NodeId) -> bool {
        self.membership().membership().voter_ids().any(|voter| voter == id.0)
    }

    /// Whether `id` is a member without a vote, as far as the own log tells.
    pub(crate) fn is_learner(&self, id: NodeId) -> bool {
        self.membership().membership().get_node(&id.0).is_some() && !self.is_voter(id)
    }

    async fn ask_all_about(self: Arc<Self>, peer: NodeId) {
        let needed = self.replies_needed();
        let others = self.others().into_iter().filter(|other| other.id != peer && self.is_witness(other.id));
        let core = &self;
        let mut answers: FuturesUnordered<_> =
            others.map(|other| async move { core.ask_about(&other, peer).await }).collect();
        let mut tally = Tally { needed, ..Tally::default() };
        while let Some(reply) = answers.next().await {
            match reply {
                Reply::Member => tally.member += 1,
                Reply::Removed => tally.removed += 1,
                Reply::Stranger => tally.stranger += 1,
                Reply::Uncounted => {}
            }
        }
        let answer = Answer { tally: Some(tally), at: R::Instant::now(), is_asked_again: false };
        self.trust.peer_reports.0.lock().insert(peer, answer);
    }

    async fn ask_about(&self, peer: &Peer, about: NodeId) -> Reply {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: about.0 });
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) if answer.about_removed => Reply::Removed,
            // A learner neither leads nor has a say about a disk, so its membership does not count.
            Ok(Response::Identity(answer)) if answer.about_learner => Reply::Uncounted,
            Ok(Response::Identity(answer)) if answer.about_member => Reply::Member,
            Ok(Response::Identity(answer)) if answer.about_stranger => Reply::Stranger,
            _ => Reply::Uncounted,
        }
    }
}
